//! The progress of command hooks. Hooks that run inside the host have no such lines.

use serde::{Deserialize, Serialize};

use crate::Extra;

/// A command hook began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HookStarted {
    pub hook_id: String,
    /// The event, or `Event:subject` (`PreToolUse:Bash`, `SessionStart:startup`).
    pub hook_name: String,
    pub hook_event: String,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The output of a command hook so far; each text is cumulative.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HookProgress {
    pub hook_id: String,
    pub hook_name: String,
    pub hook_event: String,
    pub stdout: String,
    pub stderr: String,
    pub output: String,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A command hook ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HookResponse {
    pub hook_id: String,
    pub hook_name: String,
    pub hook_event: String,
    pub output: String,
    pub stdout: String,
    pub stderr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// `success`, `error` or `cancelled`.
    pub outcome: String,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}
