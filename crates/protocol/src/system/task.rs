//! The progress of tasks: work that continues beside the turn that started it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Extra;
use crate::wire::number;

/// A task (background shell, subagent, workflow, …) began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskStarted {
    pub task_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_backgrounded: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawn_depth: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_task_id: Option<String>,
    /// `local_agent`, `local_bash`, `local_workflow`, `monitor`, `mcp_task`, `remote_agent`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_transcript: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ambient: Option<bool>,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The progress of a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskProgress {
    pub task_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_type: Option<String>,
    pub usage: TaskUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_tool_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// What a task has used so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskUsage {
    pub total_tokens: u64,
    pub tool_uses: u64,
    pub duration_ms: u64,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Something about a task changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskUpdated {
    pub task_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    pub patch: TaskPatch,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The changed fields of a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskPatch {
    /// `pending`, `running`, `completed`, `failed`, `killed` or `paused`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Milliseconds since 1970.
    #[serde(default, with = "number::option", skip_serializing_if = "Option::is_none")]
    pub end_time: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_paused_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_backgrounded: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A task ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskNotification {
    pub task_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// `completed`, `failed` or `stopped`.
    pub status: String,
    /// `worker_restart`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Empty for a foreground task.
    pub output_file: String,
    pub summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<TaskUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_links: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_transcript: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ambient: Option<bool>,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The whole set of background tasks, which replaces the one before.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BackgroundTasksChanged {
    pub tasks: Vec<BackgroundTask>,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A background task in the set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BackgroundTask {
    pub task_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    pub task_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_type: Option<String>,
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_task_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ambient: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}
