//! Events of the session as a whole: status, compaction, permissions, notices, its title.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Extra;
use crate::control::SlashCommand;
use crate::wire::{nullable, number};

/// Compaction begins or ends, the mode changed, or a request is sent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// `compacting`, `requesting` or null.
    pub status: Option<String>,
    #[serde(rename = "permissionMode", skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// `success` or `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compact_result: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compact_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compact_output_chars: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_message_uuids: Option<Vec<String>>,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Everything before this line has been summarised.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CompactBoundary {
    pub compact_metadata: CompactMetadata,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub logical_parent_uuid: Option<Option<String>>,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The outcome of a compaction. Session files write the same with camel-case keys.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CompactMetadata {
    /// `manual` or `auto`.
    pub trigger: String,
    pub pre_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Of all compactions so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cumulative_dropped_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserved_segment: Option<PreservedSegment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserved_messages: Option<PreservedMessages>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Records that a compaction kept, as a range.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PreservedSegment {
    pub head_uuid: String,
    /// The record that the range now follows: the summary.
    pub anchor_uuid: String,
    pub tail_uuid: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Records that a compaction kept, one by one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PreservedMessages {
    /// The record that they now follow: the summary.
    pub anchor_uuid: String,
    /// Oldest first.
    pub uuids: Vec<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A call was denied without asking; sent before its tool result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PermissionDenied {
    pub tool_name: String,
    pub tool_use_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_reason_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_reason_code: Option<String>,
    pub message: String,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Whether the session works, waits for a person or the host, or is idle.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionStateChanged {
    /// `idle`, `running` or `requires_action`.
    pub state: String,
    /// For the SDK itself; it does not pass such frames to its host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sdk_host_only: Option<bool>,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A text for the user.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Informational {
    pub content: String,
    /// `info`, `notice`, `suggestion` or `warning`.
    pub level: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prevent_continuation: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// `{kind, prompt_kept, reason}`.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub prompt_submit_outcome: Option<Value>,
    #[serde(rename = "isMeta", skip_serializing_if = "Option::is_none")]
    pub is_meta: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A short-lived banner.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Notification {
    pub key: String,
    pub text: String,
    /// `low`, `medium`, `high` or `immediate`.
    pub priority: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The title of the session changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionTitleChanged {
    pub title: String,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The slash commands changed to these.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CommandsChanged {
    pub commands: Vec<SlashCommand>,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Text that a slash command printed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LocalCommandOutput {
    pub content: String,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Memories that were looked up for the turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryRecall {
    /// `select` or `synthesize`.
    pub mode: String,
    pub memories: Vec<RecalledMemory>,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecalledMemory {
    pub path: String,
    /// `personal`, `team` or `organization`.
    pub scope: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The progress of a plugin installation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PluginInstall {
    /// `started`, `installed`, `failed` or `completed`.
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Files that a hosted session has stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FilesPersisted {
    pub files: Vec<PersistedFile>,
    pub failed: Vec<FailedFile>,
    pub processed_at: String,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PersistedFile {
    pub filename: String,
    pub file_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FailedFile {
    pub filename: String,
    pub error: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A question of an MCP server in a browser has been answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ElicitationComplete {
    pub mcp_server_name: String,
    pub elicitation_id: String,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A slow control request is being processed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ControlRequestProgress {
    pub request_id: String,
    /// `started` or `api_retry`.
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u64>,
    #[serde(default, with = "number::option", skip_serializing_if = "Option::is_none")]
    pub retry_delay_ms: Option<f64>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub error_status: Option<Option<u16>>,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The hosting worker shuts down.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerShuttingDown {
    pub reason: String,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A part of the session could not be written to disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionWritesLost {
    /// `ENOSPC` or `EDQUOT`.
    pub error_code: String,
    /// `transcript`, `global_config`.
    pub lost: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transcript_session_ids: Option<Vec<String>>,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}
