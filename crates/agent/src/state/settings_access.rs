//! The settings of a session, as far as a host may read and change them while it runs. The program that started the
//! session owns the files behind it.

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use lathe_hooks::{EngineOptions, HookSource, HookVariables};
use lathe_permissions::{RuleSource, SourcedRule};
use lathe_protocol::PermissionBehavior;
use lathe_protocol::PermissionUpdate;
use lathe_protocol::Settings;
use lathe_protocol::control::{GetSettingsResponse, PermissionRulesState};
use lathe_protocol::settings::{HooksSettings, WorktreeSettings};
use lathe_settings::Changed;
use lathe_tools::ChildVariables;
use lathe_tools::worktree_tools::git::RepositoryTrust;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::state::compact_policy::CompactPolicy;

/// A rule and its source.
pub type SettingsRule = (PermissionBehavior, RuleSource, SourcedRule);

/// Whether the mode that asks no questions may be entered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BypassMode {
    /// As it was.
    #[default]
    AsStarted,
    /// Settings forbid it.
    Forbidden,
}

/// What settings files say after they were read again, as far as it affects a running session.
#[derive(Default)]
pub struct ReloadedSettings {
    /// Problems with them, each as a text for a person.
    pub problems: Vec<String>,
    /// All rules of settings files.
    pub rules: Vec<SettingsRule>,
    /// Working directories that settings add.
    pub directories: DirectoryChanges,
    /// The hooks of settings files, one entry per source.
    pub hooks: Vec<(HookSource, HooksSettings)>,
    /// What settings say about hooks as a whole.
    pub hook_options: EngineOptions,
    /// The environment of children.
    pub env: SessionEnv,
    /// Whether the mode that asks no questions may be entered.
    pub bypass: BypassMode,
    /// When conversations are compacted.
    pub compaction: CompactPolicy,
}

/// Working directories that were added or removed.
#[derive(Debug, Clone, Default)]
pub struct DirectoryChanges {
    pub added: Vec<PathBuf>,
    pub removed: Vec<PathBuf>,
}

/// The environment of a session's children.
#[derive(Debug, Clone, Default)]
pub struct SessionEnv {
    /// Of the commands that tools run.
    pub tools: ChildVariables,
    /// Of hooks.
    pub hooks: HookVariables,
}

/// How worktrees are made, as the settings are now.
#[derive(Debug, Clone, Default)]
pub struct WorktreePolicy {
    /// What settings say.
    pub settings: WorktreeSettings,
    /// Whether the repository of the folder may run programs.
    pub trust: RepositoryTrust,
}

/// Settings that can be read and changed during a session.
pub trait SettingsAccess: Send + Sync {
    /// Returns the settings of each source and the values in force, for `get_settings`.
    fn listing(&self) -> GetSettingsResponse;

    /// Merges settings into the layer of `--settings`; null clears a key. Returns the effective settings, or a text
    /// about what is wrong with the given ones.
    fn apply_flag(&self, settings: &Value) -> Result<Settings, String>;

    /// Writes keys to the settings file that `source` names. Waits for other writers of the file without holding a
    /// thread. The error is a text for people.
    fn update<'a>(&'a self, source: &'a str, settings: &'a Value) -> BoxFuture<'a, Result<(), String>>;

    /// Writes a permission update to the settings file it names. Waits for other writers of the file without holding a
    /// thread. Must not be called for updates that concern the session alone.
    fn save_permission<'a>(&'a self, update: &'a PermissionUpdate) -> BoxFuture<'a, Result<(), String>>;

    /// Returns the files that have changed since they were read. Cheap, because it is called between rounds.
    fn changed(&self) -> Vec<Changed> {
        Vec::new()
    }

    /// Marks changed files as seen without reading them, so that [`Self::changed`] does not return the same change
    /// again.
    fn leave(&self, _files: &[Changed]) {}

    /// Reads changed files again and returns what the settings say now; a file that cannot be used leaves things as
    /// they were and is named among the problems.
    fn reload(&self, _files: &[Changed]) -> ReloadedSettings {
        ReloadedSettings::default()
    }

    /// Returns what the settings say now, for a session that has just changed them; `None` if there are no files to
    /// follow.
    fn current(&self) -> Option<ReloadedSettings> {
        None
    }

    /// Returns how worktrees are made, as the settings are now.
    fn worktrees(&self) -> WorktreePolicy {
        WorktreePolicy::default()
    }

    /// Returns the permission rules of the files, for `list_permission_rules`.
    fn permission_rules(&self) -> PermissionRulesState {
        PermissionRulesState::default()
    }
}

/// A session without settings files.
pub struct NoSettings;

impl SettingsAccess for NoSettings {
    fn listing(&self) -> GetSettingsResponse {
        GetSettingsResponse { effective: json!({}), ..GetSettingsResponse::default() }
    }

    fn apply_flag(&self, settings: &Value) -> Result<Settings, String> {
        Settings::deserialize(settings).map_err(|error| error.to_string())
    }

    fn update<'a>(&'a self, _source: &'a str, _settings: &'a Value) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Err("this session has no settings files".to_owned()) })
    }

    fn save_permission<'a>(&'a self, _update: &'a PermissionUpdate) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Err("this session has no settings files".to_owned()) })
    }
}
