//! The engine: mode, working directories and rules of one session, and the decision about a call.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lathe_protocol::permission::{PermissionBehavior, PermissionMode, PermissionUpdate};
use serde_json::Value;

use crate::decision::{Asked, Decision, Reason};
use crate::message;
use crate::rule::{RuleSource, RuleWarning, SourcedRule};

/// What a session starts with.
#[derive(Debug, Clone, Default)]
pub struct EngineConfig {
    /// The mode to start in. `auto` is taken for `default`; see [`mode_warning`].
    pub mode: PermissionMode,
    /// Where the session may work; the first is the project root.
    pub working_dirs: Vec<PathBuf>,
    /// The home directory, for `~` and `$HOME`.
    pub home: Option<PathBuf>,
    /// The configuration folder of the user, usually `~/.claude`.
    pub config_dir: Option<PathBuf>,
    /// Whether `bypassPermissions` may be entered at all.
    pub bypass_available: bool,
    /// Folders the session may read although they are no working directories: its own outputs, skills.
    pub readable_dirs: Vec<PathBuf>,
    /// The folder of plan files, the one place that may be written in plan mode.
    pub plan_dir: Option<PathBuf>,
    /// Environment variables whose value is known to be the one commands will see.
    pub variables: BTreeMap<String, String>,
}

/// One tool call to decide about.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// Its input.
    pub input: &'a Value,
    /// Where relative paths of the input start: the directory the shell stands in.
    pub cwd: &'a Path,
    /// The server an MCP tool belongs to, where known.
    pub mcp_server: Option<&'a str>,
    /// Whether an MCP server says that the tool only reads. A hint, never a permission.
    pub mcp_read_only: bool,
}

impl Default for Call<'_> {
    fn default() -> Self {
        static NOTHING: Value = Value::Null;
        Self { tool: "", input: &NOTHING, cwd: Path::new(""), mcp_server: None, mcp_read_only: false }
    }
}

/// Decides about tool calls.
#[derive(Debug, Clone)]
pub struct Engine {
    config: EngineConfig,
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

impl Engine {
    /// An engine without rules.
    pub fn new(config: EngineConfig) -> Self {
        Self { config }
    }

    /// Adds rules; returns what is wrong with them.
    pub fn add_rules<R: Into<SourcedRule>>(
        &mut self,
        _behavior: PermissionBehavior,
        _source: RuleSource,
        _rules: impl IntoIterator<Item = R>,
    ) -> Vec<RuleWarning> {
        Vec::new()
    }

    /// The mode in force.
    pub fn mode(&self) -> PermissionMode {
        self.config.mode
    }

    /// Changes the mode.
    pub fn set_mode(&mut self, mode: PermissionMode) -> Result<(), ModeRefused> {
        if mode == PermissionMode::BypassPermissions && !self.config.bypass_available {
            return Err(ModeRefused);
        }
        self.config.mode = mode;
        Ok(())
    }

    /// Decides about one call.
    pub fn decide(&self, call: &Call<'_>) -> Decision {
        Decision::Ask(Asked {
            tool: call.tool.to_owned(),
            reason: Reason::Default,
            message: message::tool_not_granted(call.tool),
            suggestions: Vec::new(),
            blocked_path: None,
            requires_user_interaction: false,
        })
    }

    /// Whether a shell command is known to change nothing, so that it may run beside others.
    pub fn shell_is_read_only(&self, _command: &str, _cwd: &Path) -> bool {
        false
    }

    /// Applies an update to this session.
    pub fn apply(&mut self, _update: &PermissionUpdate) -> Result<(), ModeRefused> {
        Ok(())
    }
}
