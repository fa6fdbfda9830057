//! Permission modes, rules and updates as they are named on the wire.
//!
//! What a rule means is the business of the permissions crate; here are only the shapes. Frames carry the
//! mode as a string, so that a mode of a later version is no reason to lose a line; [`PermissionMode`] is
//! what it becomes once someone has to act on it.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Extra;

/// How the session decides about calls that no rule covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// Reads run, everything else asks. Also called `manual`.
    #[default]
    #[serde(alias = "manual")]
    Default,
    /// Edits inside the working directories run as well.
    AcceptEdits,
    /// Read-only until the plan is accepted.
    Plan,
    /// Everything runs.
    BypassPermissions,
    /// Whatever would ask is denied.
    DontAsk,
    /// A classifier decides.
    Auto,
}

/// A mode name nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown permission mode `{0}`")]
pub struct UnknownMode(pub String);

impl PermissionMode {
    /// Every mode.
    pub const ALL: [Self; 6] =
        [Self::Default, Self::AcceptEdits, Self::Plan, Self::BypassPermissions, Self::DontAsk, Self::Auto];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::BypassPermissions => "bypassPermissions",
            Self::DontAsk => "dontAsk",
            Self::Auto => "auto",
        }
    }

    /// Reads a name; `manual` is another word for `default`.
    pub fn parse(name: &str) -> Result<Self, UnknownMode> {
        if name == "manual" {
            return Ok(Self::Default);
        }
        Self::ALL.into_iter().find(|mode| mode.as_str() == name).ok_or_else(|| UnknownMode(name.to_owned()))
    }
}

impl FromStr for PermissionMode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        Self::parse(name)
    }
}

impl std::fmt::Display for PermissionMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a rule says about the calls it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionBehavior {
    Allow,
    Deny,
    Ask,
}

impl PermissionBehavior {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Ask => "ask",
        }
    }
}

/// One rule: `Tool`, or `Tool(content)`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRule {
    pub tool_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_content: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Where an update is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionUpdateDestination {
    /// `settings.json` in the configuration folder of the user.
    UserSettings,
    /// `.claude/settings.json` of the project.
    ProjectSettings,
    /// `.claude/settings.local.json` of the project.
    LocalSettings,
    /// Memory of this session.
    Session,
    /// What the command line said.
    CliArg,
}

open_enum! {
    /// A change to rules, mode or directories. An update nobody knows is kept, and ignored by those who
    /// apply updates.
    pub enum PermissionUpdate by "type" {
        AddRules(RulesUpdate) = "addRules",
        ReplaceRules(RulesUpdate) = "replaceRules",
        RemoveRules(RulesUpdate) = "removeRules",
        SetMode(ModeUpdate) = "setMode",
        AddDirectories(DirectoriesUpdate) = "addDirectories",
        RemoveDirectories(DirectoriesUpdate) = "removeDirectories",
    }
}

/// Rules to add, put in place of all others, or take away.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RulesUpdate {
    pub rules: Vec<PermissionRule>,
    pub behavior: PermissionBehavior,
    pub destination: PermissionUpdateDestination,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The mode to change to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModeUpdate {
    pub mode: PermissionMode,
    pub destination: PermissionUpdateDestination,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Working directories to add or take away.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectoriesUpdate {
    pub directories: Vec<String>,
    pub destination: PermissionUpdateDestination,
    #[serde(flatten)]
    pub extra: Extra,
}
