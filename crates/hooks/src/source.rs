//! Where hooks come from. `HookSource::slot` is the order in which their answers are merged, so that what an
//! administrator set up speaks before what a project or a host did. It is not the precedence of settings: `--settings`
//! comes after the files.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use lathe_protocol::SettingsSource;

/// Who registered a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookSource {
    /// A settings file, or `--settings`.
    Settings(SettingsSource),
    /// A plugin.
    Plugin(PluginSource),
    /// The frontmatter of a skill, by its name.
    Skill(String),
    /// The frontmatter of an agent, by the id of the running agent. Its hooks fire only for events inside
    /// that agent, and its `Stop` hooks wait for `SubagentStop`.
    Agent(String),
    /// The host, through `initialize`.
    Callbacks,
}

/// A plugin and what its commands find in their environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginSource {
    /// Its name; registering the same name again replaces its hooks.
    pub name: String,
    /// `CLAUDE_PLUGIN_ROOT`.
    pub root: PathBuf,
    /// `CLAUDE_PLUGIN_DATA`.
    pub data: PathBuf,
    /// `CLAUDE_PLUGIN_OPTION_<KEY>`.
    pub options: BTreeMap<String, String>,
}

impl HookSource {
    /// Returns rank and name. Sources with the same slot replace each other; a lower rank is merged first and is
    /// therefore stronger.
    pub(crate) fn slot(&self) -> (u8, &str) {
        match self {
            Self::Settings(SettingsSource::Policy) => (0, ""),
            Self::Settings(SettingsSource::User) => (1, ""),
            Self::Settings(SettingsSource::Project) => (2, ""),
            Self::Settings(SettingsSource::Local) => (3, ""),
            Self::Settings(SettingsSource::Flag) => (4, ""),
            Self::Plugin(plugin) => (5, &plugin.name),
            Self::Skill(name) => (6, name),
            Self::Agent(id) => (7, id),
            Self::Callbacks => (8, ""),
        }
    }

    /// Returns whether the user, an administrator or the host wrote the hook. Hooks from a project, a plugin, a skill
    /// or an agent may be someone else's work, even if they are trusted to run, and do not get the credentials.
    fn is_of_the_user(&self) -> bool {
        match self {
            // The host chooses the environment of this process, so there is nothing to withhold from its callbacks.
            Self::Settings(SettingsSource::Policy | SettingsSource::User | SettingsSource::Flag)
            | Self::Callbacks => true,
            Self::Settings(SettingsSource::Project | SettingsSource::Local)
            | Self::Plugin(_)
            | Self::Skill(_)
            | Self::Agent(_) => false,
        }
    }

    /// Returns the plugin that brings the hook; `None` for a hook from any other source.
    pub(crate) fn plugin(&self) -> Option<&PluginSource> {
        match self {
            Self::Plugin(plugin) => Some(plugin),
            Self::Settings(_) | Self::Skill(_) | Self::Agent(_) | Self::Callbacks => None,
        }
    }
}

/// The variables that hooks may find: in the environment of commands, and for the headers of HTTP hooks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookVariables {
    /// All of them.
    pub all: Vec<(String, String)>,
    /// Names that only hooks of the user and of managed settings find: credentials.
    pub withheld: Vec<String>,
}

impl HookVariables {
    /// Returns variables that every hook gets.
    pub fn unrestricted(all: Vec<(String, String)>) -> Self {
        Self { all, withheld: Vec::new() }
    }

    /// Returns the variables that hooks from this source get: all of them, or only those that are not withheld.
    pub(crate) fn of(&self, source: &HookSource) -> impl Iterator<Item = &(String, String)> {
        let withheld: &[String] = if source.is_of_the_user() { &[] } else { &self.withheld };
        self.all.iter().filter(move |(name, _)| !withheld.contains(name))
    }
}

impl fmt::Display for HookSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(source) => source.fmt(f),
            Self::Plugin(plugin) => write!(f, "plugin {}", plugin.name),
            Self::Skill(name) => write!(f, "skill {name}"),
            Self::Agent(id) => write!(f, "agent {id}"),
            Self::Callbacks => f.write_str("the host"),
        }
    }
}
