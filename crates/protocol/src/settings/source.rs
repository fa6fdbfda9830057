//! The sources of settings, and which hooks they allow to run. Shared by the crates that read settings and those that
//! apply rules and hooks, because none of these crates may depend on the others.
//!
//! Rules and hooks have further sources; their crates wrap [`SettingsSource`]. No variant is ever read from the wire:
//! the names are only written.

use std::fmt;

/// The sources of settings, in order of precedence, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SettingsSource {
    /// Managed settings of the machine, and `--managed-settings` below them.
    Policy,
    /// `--settings`, and the settings that a client applied to it.
    Flag,
    /// `.claude/settings.local.json`.
    Local,
    /// `.claude/settings.json`.
    Project,
    /// `settings.json` in the configuration folder.
    User,
}

impl SettingsSource {
    /// Strongest first.
    pub const ALL: [Self; 5] = [Self::Policy, Self::Flag, Self::Local, Self::Project, Self::User];

    /// Returns the name of the source on the wire, such as `localSettings`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "policySettings",
            Self::Flag => "flagSettings",
            Self::Local => "localSettings",
            Self::Project => "projectSettings",
            Self::User => "userSettings",
        }
    }

    /// Returns the name of the source in a ConfigChange hook; `None` for flags, which are no file that could
    /// change.
    pub fn config_change_name(self) -> Option<&'static str> {
        match self {
            Self::Policy => Some("policy_settings"),
            Self::Flag => None,
            Self::Local => Some("local_settings"),
            Self::Project => Some("project_settings"),
            Self::User => Some("user_settings"),
        }
    }
}

/// The name in messages to people.
impl fmt::Display for SettingsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Policy => "managed settings",
            Self::Flag => "--settings",
            Self::Local => "local settings",
            Self::Project => "project settings",
            Self::User => "user settings",
        })
    }
}

/// Which hooks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EnabledHooks {
    /// All of them.
    #[default]
    All,
    /// Those of managed settings and those of the host: `allowManagedHooksOnly`, or `disableAllHooks`
    /// outside managed settings.
    ManagedAndHost,
    /// None: `disableAllHooks` in managed settings.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_sources_is_the_precedence() {
        assert!(SettingsSource::ALL.is_sorted());
        assert_eq!(SettingsSource::ALL.map(SettingsSource::as_str)[0], "policySettings");
    }
}
