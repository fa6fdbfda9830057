//! Changes to rules, and to the mode and directories of an agent, while a session runs.
//!
//! An update takes effect in the session at once; if it names a settings file, writing that file is left to the caller.

use std::path::PathBuf;

use lathe_protocol::permission::{DirectoriesUpdate, PermissionBehavior, PermissionUpdate, RulesUpdate};

use crate::engine::PermissionEngine;
use crate::paths::normal;
use crate::rule::{RuleSource, RuleWarning, SourcedRule, rule_text};
use crate::ruleset::RuleSet;
use crate::scope::{ModeRefused, PermissionScope};

/// Why an update was not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The mode is not available.
    #[error(transparent)]
    Mode(#[from] ModeRefused),
    /// An unknown kind of update.
    #[error("unknown permission update `{0}`")]
    Unknown(String),
    /// A text that is not the name of a directory.
    #[error("`{0}` is not a directory name")]
    Directory(String),
}

/// All behaviours.
const BEHAVIORS: [PermissionBehavior; 3] =
    [PermissionBehavior::Deny, PermissionBehavior::Ask, PermissionBehavior::Allow];

impl PermissionEngine {
    /// Applies an update to the rules of this session, or to the scope of the agent that asked, and returns warnings
    /// about its rules. Writes no file. After an error nothing has changed.
    pub fn apply(
        &mut self,
        update: &PermissionUpdate,
        scope: &mut PermissionScope,
    ) -> Result<Vec<RuleWarning>, UpdateError> {
        match update {
            PermissionUpdate::AddRules(rules) => {
                Ok(self.add_rules(rules.behavior, rules.destination.into(), texts(rules)))
            }
            PermissionUpdate::ReplaceRules(rules) => {
                let source = rules.destination.into();
                self.keep_rules(rules.behavior, |entry, _| entry != source);
                Ok(self.add_rules(rules.behavior, source, texts(rules)))
            }
            PermissionUpdate::RemoveRules(rules) => {
                let source = rules.destination.into();
                let texts = texts(rules);
                self.keep_rules(rules.behavior, |entry, rule| entry != source || !texts.contains(&rule.text));
                Ok(Vec::new())
            }
            PermissionUpdate::SetMode(update) => {
                scope.set_mode(update.mode)?;
                Ok(Vec::new())
            }
            PermissionUpdate::AddDirectories(update) => {
                scope.replace_directories(&[], &self.directories(update, scope)?);
                Ok(Vec::new())
            }
            PermissionUpdate::RemoveDirectories(update) => {
                scope.replace_directories(&self.directories(update, scope)?, &[]);
                Ok(Vec::new())
            }
            PermissionUpdate::Unknown(_) => Err(UpdateError::Unknown(update.tag().to_owned())),
        }
    }

    /// Replaces the rules of all settings files by `rules`; those of flags, commands and the session stay. Returns
    /// warnings about the new ones.
    pub fn replace_settings_rules(
        &mut self,
        rules: impl IntoIterator<Item = (PermissionBehavior, RuleSource, SourcedRule)>,
    ) -> Vec<RuleWarning> {
        for behavior in BEHAVIORS {
            self.keep_rules(behavior, |source, _| !matches!(source, RuleSource::Settings(_)));
        }
        let rules = rules.into_iter();
        rules.flat_map(|(behavior, source, rule)| self.add_rules(behavior, source, [rule])).collect()
    }

    /// Returns the directories of an update as absolute paths; relative ones start at the root of the scope, and `~` is
    /// the home directory. An empty path or a NUL byte is an error.
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

    /// Compiles all rules anew. Must be called when the folders that their patterns are relative to have changed.
    pub(crate) fn read_rules_again(&mut self) {
        for behavior in BEHAVIORS {
            self.keep_rules(behavior, |_, _| true);
        }
    }

    /// Rebuilds the rules of one behaviour from those that `keep` accepts, in their order, so that the numbers of rules
    /// change. Warnings are not repeated. A rule that stands in for an invalid deny rule is among the ask rules, so it
    /// stays when the deny rules are rebuilt without its original.
    fn keep_rules(&mut self, behavior: PermissionBehavior, keep: impl Fn(RuleSource, &SourcedRule) -> bool) {
        let old = std::mem::replace(self.rules_mut(behavior), RuleSet::new(behavior));
        for (source, rule) in old.entries().iter().filter(|(source, rule)| keep(*source, rule)) {
            // The warnings about this rule were returned when it was first added.
            let _ = self.add_rules(behavior, *source, [rule.clone()]);
        }
    }
}

/// Returns the rules of an update in text form, the form in which stored rules are compared.
fn texts(update: &RulesUpdate) -> Vec<String> {
    update.rules.iter().map(rule_text).collect()
}
