//! Permission modes, rules and updates as they are named on the wire.
//!
//! The permissions crate says what a rule means; this module has only the shapes. Frames carry the mode as a string, so
//! that a line with a mode of a later version is not lost; [`PermissionMode`] is the parsed form for code that acts on
//! it.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Extra, SettingsSource};

/// How the session decides calls that no rule covers.
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
    /// Calls that would ask are denied.
    DontAsk,
    /// A classifier decides.
    Auto,
}

/// An unknown name of a mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown permission mode `{0}`")]
pub struct UnknownMode(pub String);

impl PermissionMode {
    /// Every mode.
    pub const ALL: [Self; 6] =
        [Self::Default, Self::AcceptEdits, Self::Plan, Self::BypassPermissions, Self::DontAsk, Self::Auto];

    /// Returns the name of the mode on the wire.
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

    /// Parses the name of a mode as it is on the wire; `manual` is another name for `default`. Any other name is an
    /// error that repeats it.
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

/// The effect of a rule on the calls it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionBehavior {
    Allow,
    Deny,
    Ask,
}

impl PermissionBehavior {
    /// Returns the name of the behavior on the wire.
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

/// Where an update is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionUpdateDestination {
    /// `settings.json` in the configuration folder of the user.
    UserSettings,
    /// `.claude/settings.json` of the project.
    ProjectSettings,
    /// `.claude/settings.local.json` of the project.
    LocalSettings,
    /// In the memory of this session.
    Session,
    /// The command line.
    CliArg,
}

impl PermissionUpdateDestination {
    /// Returns the settings file that the update is stored in; `None` if it is for this session only.
    pub fn settings_source(self) -> Option<SettingsSource> {
        match self {
            Self::UserSettings => Some(SettingsSource::User),
            Self::ProjectSettings => Some(SettingsSource::Project),
            Self::LocalSettings => Some(SettingsSource::Local),
            Self::Session | Self::CliArg => None,
        }
    }
}

open_enum! {
    /// A change to rules, mode or directories. An unknown update is kept, and not applied.
    pub enum PermissionUpdate by "type" {
        AddRules(RulesUpdate) = "addRules",
        ReplaceRules(RulesUpdate) = "replaceRules",
        RemoveRules(RulesUpdate) = "removeRules",
        SetMode(ModeUpdate) = "setMode",
        AddDirectories(DirectoriesUpdate) = "addDirectories",
        RemoveDirectories(DirectoriesUpdate) = "removeDirectories",
    }
}

/// Rules to add, to replace all others with, or to remove.
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

/// Working directories to add or remove.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectoriesUpdate {
    pub directories: Vec<String>,
    pub destination: PermissionUpdateDestination,
    #[serde(flatten)]
    pub extra: Extra,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn modes_are_named_alike_by_serde_and_by_hand() {
        for mode in PermissionMode::ALL {
            assert_eq!(json!(mode), json!(mode.as_str()));
            assert_eq!(mode.as_str().parse(), Ok(mode));
        }
        assert_eq!(PermissionMode::parse("manual"), Ok(PermissionMode::Default));
        assert_eq!(PermissionMode::parse("Plan"), Err(UnknownMode("Plan".to_owned())));
        assert_eq!(
            PermissionMode::parse("delegate").unwrap_err().to_string(),
            "unknown permission mode `delegate`"
        );
    }

    #[test]
    fn behaviours_and_destinations_are_named_alike_by_serde_and_by_hand() {
        for behavior in [PermissionBehavior::Allow, PermissionBehavior::Deny, PermissionBehavior::Ask] {
            assert_eq!(json!(behavior), json!(behavior.as_str()));
        }
        use PermissionUpdateDestination::*;
        for destination in [UserSettings, ProjectSettings, LocalSettings] {
            assert_eq!(json!(destination), json!(destination.settings_source().unwrap().as_str()));
        }
    }

    #[test]
    fn an_update_with_a_mode_nobody_knows_is_kept_raw() {
        let value = json!({ "type": "setMode", "mode": "yolo", "destination": "session" });
        let update = PermissionUpdate::deserialize(&value).unwrap();
        assert_eq!(update, PermissionUpdate::Unknown(value));
        assert_eq!(update.tag(), "setMode");
    }
}
