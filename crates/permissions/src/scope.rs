//! What one agent brings to each question: the mode it works in and the directories it works in. Rules are the
//! session's and stand in [`crate::Engine`]; two agents of one session share them and differ in this.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lathe_protocol::permission::PermissionMode;

use crate::paths::WorkingDir;

/// What a scope is made of.
#[derive(Debug, Clone, Default)]
pub struct PermissionScopeConfig {
    /// The mode to start in. `auto` is taken for `default`; see [`mode_warning`].
    pub mode: PermissionMode,
    /// Where the agent may work; the first is its own folder and stays.
    pub working_dirs: Vec<PathBuf>,
    /// Whether `bypassPermissions` may be entered at all.
    pub bypass_available: bool,
}

/// The mode and the working directories of one agent.
#[derive(Debug, Clone)]
pub struct PermissionScope {
    mode: PermissionMode,
    bypass_available: bool,
    dirs: Arc<Vec<WorkingDir>>,
}

/// A mode that this session cannot enter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "bypassPermissions is not available: the session was not started with permission to skip permissions"
)]
pub struct ModeRefused;

/// What a caller should tell the user about a mode that does not do what its name says.
pub fn mode_warning(mode: PermissionMode) -> Option<&'static str> {
    (mode == PermissionMode::Auto).then_some(
        "permission mode auto needs a classifier that this runtime does not have: default is used instead",
    )
}

/// `auto` has no classifier here.
fn effective(mode: PermissionMode) -> PermissionMode {
    match mode {
        PermissionMode::Auto => PermissionMode::Default,
        other @ (PermissionMode::Default
        | PermissionMode::AcceptEdits
        | PermissionMode::Plan
        | PermissionMode::BypassPermissions
        | PermissionMode::DontAsk) => other,
    }
}

impl PermissionScope {
    /// A mode that is not available becomes `default`.
    pub fn new(config: PermissionScopeConfig) -> Self {
        let mut scope = Self {
            mode: PermissionMode::Default,
            bypass_available: config.bypass_available,
            dirs: Arc::new(config.working_dirs.iter().map(|dir| WorkingDir::new(dir)).collect()),
        };
        // A refusal leaves the mode at `default`.
        let _ = scope.set_mode(config.mode);
        scope
    }

    /// The mode in force.
    pub fn mode(&self) -> PermissionMode {
        self.mode
    }

    /// Changes the mode.
    pub fn set_mode(&mut self, mode: PermissionMode) -> Result<(), ModeRefused> {
        if mode == PermissionMode::BypassPermissions && !self.bypass_available {
            return Err(ModeRefused);
        }
        self.mode = effective(mode);
        Ok(())
    }

    /// `bypassPermissions` cannot be entered from now on; where it is in force, questions are asked again.
    pub fn forbid_bypass(&mut self) {
        self.bypass_available = false;
        if self.mode == PermissionMode::BypassPermissions {
            self.mode = PermissionMode::Default;
        }
    }

    /// The working directories, the agent's own folder first.
    pub fn working_dirs(&self) -> impl Iterator<Item = &Path> {
        self.dirs.iter().map(|dir| dir.written.as_path())
    }

    /// Changes the working directories; the first stays, whatever is asked for.
    pub fn replace_directories(&mut self, removed: &[PathBuf], added: &[PathBuf]) {
        let root = self.root().to_owned();
        let dirs = Arc::make_mut(&mut self.dirs);
        dirs.retain(|dir| dir.written == root || !removed.contains(&dir.written));
        for directory in added {
            let added = WorkingDir::new(directory);
            if !dirs.contains(&added) {
                dirs.push(added);
            }
        }
    }

    pub(crate) fn dirs(&self) -> &[WorkingDir] {
        &self.dirs
    }

    /// The agent's own folder.
    pub(crate) fn root(&self) -> &Path {
        self.dirs.first().map_or(Path::new("/"), |dir| &dir.written)
    }
}
