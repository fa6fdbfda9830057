//! The part of a question that belongs to one agent: its mode and its directories. Rules belong to the session and are
//! in [`crate::PermissionEngine`]; the agents of a session share them and differ in their scope.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lathe_protocol::permission::PermissionMode;

use crate::paths::WorkingDir;

/// The values that a scope is made from.
#[derive(Debug, Clone, Default)]
pub struct PermissionScopeConfig {
    /// The mode to start in. `auto` counts as `default`; see [`mode_warning`].
    pub mode: PermissionMode,
    /// Where the agent may work; the first directory is its own folder and cannot be removed.
    pub working_dirs: Vec<PathBuf>,
    /// Whether the agent may enter `bypassPermissions` at all.
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

/// Returns a warning for the user about `auto`, a mode that does not do what its name says here; `None` for every other
/// mode.
pub fn mode_warning(mode: PermissionMode) -> Option<&'static str> {
    (mode == PermissionMode::Auto).then_some(
        "permission mode auto needs a classifier that this runtime does not have: default is used instead",
    )
}

/// Returns the mode that a session really has: `auto` counts as `default`, because Lathe has no classifier.
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
    /// Creates the scope of an agent, and resolves the links of its directories once, now. A mode that is not available
    /// becomes `default`.
    pub fn new(config: PermissionScopeConfig) -> Self {
        let mut scope = Self {
            mode: PermissionMode::Default,
            bypass_available: config.bypass_available,
            dirs: Arc::new(config.working_dirs.iter().map(|dir| WorkingDir::new(dir)).collect()),
        };
        // If the mode is refused, it stays `default`.
        let _ = scope.set_mode(config.mode);
        scope
    }

    /// Returns the mode in force.
    pub fn mode(&self) -> PermissionMode {
        self.mode
    }

    /// Changes the mode; `auto` becomes `default`. Fails for `bypassPermissions` if it is not available; the mode then
    /// stays.
    pub fn set_mode(&mut self, mode: PermissionMode) -> Result<(), ModeRefused> {
        if mode == PermissionMode::BypassPermissions && !self.bypass_available {
            return Err(ModeRefused);
        }
        self.mode = effective(mode);
        Ok(())
    }

    /// Rules out `bypassPermissions` from now on; if it is in force, the mode becomes `default`.
    pub fn forbid_bypass(&mut self) {
        self.bypass_available = false;
        if self.mode == PermissionMode::BypassPermissions {
            self.mode = PermissionMode::Default;
        }
    }

    /// Returns the working directories as written, the agent's own folder first.
    pub fn working_dirs(&self) -> impl Iterator<Item = &Path> {
        self.dirs.iter().map(|dir| dir.written.as_path())
    }

    /// Removes working directories, compared as written, and then adds others that are not there yet. The agent's own
    /// folder always stays.
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

    /// Gives the agent another folder of its own, in place of the one it has, which is then no working directory any
    /// more. The further directories stay.
    pub fn move_root(&mut self, root: &Path) {
        let dirs = Arc::make_mut(&mut self.dirs);
        let root = WorkingDir::new(root);
        match dirs.first_mut() {
            Some(first) => *first = root,
            None => dirs.push(root),
        }
    }

    /// Returns the working directories with their links resolved; the first is the agent's own folder.
    pub(crate) fn dirs(&self) -> &[WorkingDir] {
        &self.dirs
    }

    /// Returns the agent's own folder as written; `/` if the scope has no directory.
    pub(crate) fn root(&self) -> &Path {
        self.dirs.first().map_or(Path::new("/"), |dir| &dir.written)
    }
}
