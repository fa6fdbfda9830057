//! Changes to rules, and to the mode and directories of an agent, while a session runs.
//!
//! The session feels an update at once; what has to be written to a settings file is handed back, because
//! writing files is the caller's business.

use std::path::{Path, PathBuf};

use lathe_protocol::permission::{
    DirectoriesUpdate, PermissionBehavior, PermissionMode, PermissionUpdate, PermissionUpdateDestination,
    RulesUpdate,
};

use crate::engine::Engine;
use crate::paths::normal;
use crate::rule::{RuleSource, RuleWarning, SourcedRule, rule_text};
use crate::ruleset::RuleSet;
use crate::scope::{ModeRefused, PermissionScope};

/// What became of an update.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Applied {
    /// The change to a settings file that makes it last.
    pub write: Option<SettingsWrite>,
    /// What is wrong with its rules.
    pub warnings: Vec<RuleWarning>,
}

/// A change to a settings file.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingsWrite {
    /// Which file.
    pub destination: PermissionUpdateDestination,
    /// What to change in it.
    pub change: SettingsChange,
}

/// What to change in the `permissions` of a settings file.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingsChange {
    /// Add rules that are not there yet.
    AddRules {
        /// The list they belong to.
        behavior: PermissionBehavior,
        /// The rules as text.
        rules: Vec<String>,
    },
    /// Put rules in place of all others of that list.
    ReplaceRules {
        /// The list they belong to.
        behavior: PermissionBehavior,
        /// The rules as text.
        rules: Vec<String>,
    },
    /// Take rules away.
    RemoveRules {
        /// The list they belong to.
        behavior: PermissionBehavior,
        /// The rules as text.
        rules: Vec<String>,
    },
    /// Set `defaultMode`.
    DefaultMode(PermissionMode),
    /// Add to `additionalDirectories`.
    AddDirectories(Vec<String>),
    /// Take away from `additionalDirectories`.
    RemoveDirectories(Vec<String>),
}

/// Why an update was not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The mode is not available.
    #[error(transparent)]
    Mode(#[from] ModeRefused),
    /// A kind of update nobody knows.
    #[error("unknown permission update `{0}`")]
    Unknown(String),
    /// A directory that is none.
    #[error("`{0}` is not a directory name")]
    Directory(String),
}

impl Engine {
    /// Applies an update to the rules of this session and to the scope of the agent that asked; says what has to
    /// be written to make it last.
    pub fn apply(
        &mut self,
        update: &PermissionUpdate,
        scope: &mut PermissionScope,
    ) -> Result<Applied, UpdateError> {
        match update {
            PermissionUpdate::AddRules(rules) => {
                let texts = texts(rules);
                let warnings = self.add_rules(rules.behavior, rules.destination.into(), texts.clone());
                let change = SettingsChange::AddRules { behavior: rules.behavior, rules: texts };
                Ok(Applied { write: lasting(rules.destination, change), warnings })
            }
            PermissionUpdate::ReplaceRules(rules) => {
                let source = rules.destination.into();
                self.keep_rules(rules.behavior, |entry, _| entry != source);
                let texts = texts(rules);
                let warnings = self.add_rules(rules.behavior, source, texts.clone());
                let change = SettingsChange::ReplaceRules { behavior: rules.behavior, rules: texts };
                Ok(Applied { write: lasting(rules.destination, change), warnings })
            }
            PermissionUpdate::RemoveRules(rules) => {
                let source = rules.destination.into();
                let texts = texts(rules);
                self.keep_rules(rules.behavior, |entry, rule| entry != source || !texts.contains(&rule.text));
                let change = SettingsChange::RemoveRules { behavior: rules.behavior, rules: texts };
                Ok(Applied { write: lasting(rules.destination, change), warnings: Vec::new() })
            }
            PermissionUpdate::SetMode(update) => {
                scope.set_mode(update.mode)?;
                let write = lasting(update.destination, SettingsChange::DefaultMode(update.mode));
                Ok(Applied { write, warnings: Vec::new() })
            }
            PermissionUpdate::AddDirectories(update) => {
                scope.replace_directories(&[], &self.directories(update, scope)?);
                let change = SettingsChange::AddDirectories(update.directories.clone());
                Ok(Applied { write: lasting(update.destination, change), warnings: Vec::new() })
            }
            PermissionUpdate::RemoveDirectories(update) => {
                scope.replace_directories(&self.directories(update, scope)?, &[]);
                let change = SettingsChange::RemoveDirectories(update.directories.clone());
                Ok(Applied { write: lasting(update.destination, change), warnings: Vec::new() })
            }
            PermissionUpdate::Unknown(_) => Err(UpdateError::Unknown(update.tag().to_owned())),
        }
    }

    /// Puts the rules of settings files in the place of those that were there. Rules of flags and of the
    /// session stay. Returns what is wrong with the new ones.
    pub fn replace_settings_rules(
        &mut self,
        rules: impl IntoIterator<Item = (PermissionBehavior, RuleSource, SourcedRule)>,
    ) -> Vec<RuleWarning> {
        for behavior in [PermissionBehavior::Deny, PermissionBehavior::Ask, PermissionBehavior::Allow] {
            self.keep_rules(behavior, |source, _| !matches!(source, RuleSource::Settings(_)));
        }
        let rules = rules.into_iter();
        rules.flat_map(|(behavior, source, rule)| self.add_rules(behavior, source, [rule])).collect()
    }

    fn directories(
        &self,
        update: &DirectoriesUpdate,
        scope: &PermissionScope,
    ) -> Result<Vec<PathBuf>, UpdateError> {
        update
            .directories
            .iter()
            .map(|directory| {
                if directory.is_empty() || directory.contains('\0') {
                    return Err(UpdateError::Directory(directory.clone()));
                }
                let located = self.locate(directory, scope.root());
                Ok(normal(&located.written))
            })
            .collect()
    }

    /// Rebuilds the rules of one behaviour from those that are kept.
    fn keep_rules(&mut self, behavior: PermissionBehavior, keep: impl Fn(RuleSource, &SourcedRule) -> bool) {
        let old = std::mem::replace(self.rules_mut(behavior), RuleSet::new(behavior));
        for (source, rule) in old.entries().iter().filter(|(source, rule)| keep(*source, rule)) {
            // What is wrong with it was said when it came.
            let _ = self.add_rules(behavior, *source, [rule.clone()]);
        }
    }
}

fn texts(update: &RulesUpdate) -> Vec<String> {
    update.rules.iter().map(rule_text).collect()
}

fn lasting(destination: PermissionUpdateDestination, change: SettingsChange) -> Option<SettingsWrite> {
    destination.settings_source().map(|_| SettingsWrite { destination, change })
}

/// The settings file an update goes to.
pub fn settings_file(
    destination: PermissionUpdateDestination,
    project_root: &Path,
    config_dir: &Path,
) -> Option<PathBuf> {
    match destination {
        PermissionUpdateDestination::UserSettings => Some(config_dir.join("settings.json")),
        PermissionUpdateDestination::ProjectSettings => Some(project_root.join(".claude/settings.json")),
        PermissionUpdateDestination::LocalSettings => Some(project_root.join(".claude/settings.local.json")),
        PermissionUpdateDestination::Session | PermissionUpdateDestination::CliArg => None,
    }
}
