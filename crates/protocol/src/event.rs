//! The smaller messages of stdout: those that are not conversation, `system` or control.
//!
//! `stream_event` is by far the most frequent line of a run with partial messages; its `event` is the unchanged value
//! from the model's stream, and passing it on does not parse it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Extra;
use crate::wire::{nullable, number};

/// A raw streaming event of the Messages API.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamEventMessage {
    pub event: Value,
    pub session_id: String,
    pub parent_tool_use_id: Option<String>,
    pub uuid: String,
    /// Milliseconds to the first token; on `message_start`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_message_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_display: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_message_uuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_message_uuids: Option<Vec<String>>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Heartbeat of a long tool, or of a hook that keeps a tool waiting.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolProgress {
    /// `<id>-heartbeat-<n>` for heartbeats, whose `parent_tool_use_id` is the real call.
    pub tool_use_id: String,
    pub tool_name: String,
    pub parent_tool_use_id: Option<String>,
    #[serde(with = "number")]
    pub elapsed_time_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_type: Option<String>,
    /// `{agent_id, attempt, max_retries, retry_delay_ms, error_status, error_category}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_retry: Option<Value>,
    pub session_id: String,
    pub uuid: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A sentence about the preceding tool calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolUseSummary {
    pub summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preceding_tool_use_ids: Option<Vec<String>>,
    pub session_id: String,
    pub uuid: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The progress of a login.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AuthStatus {
    #[serde(rename = "isAuthenticating")]
    pub is_authenticating: bool,
    pub output: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The state of a subscription's limits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RateLimitEvent {
    pub rate_limit_info: RateLimitInfo,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Limits as the API's response headers give them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitInfo {
    /// `allowed`, `allowed_warning` or `rejected`.
    pub status: String,
    /// Seconds since 1970.
    #[serde(default, with = "number::option", skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<f64>,
    /// `five_hour`, `seven_day`, `seven_day_opus`, `seven_day_sonnet`, `seven_day_overage_included`, `overage`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit_type: Option<String>,
    #[serde(default, with = "number::option", skip_serializing_if = "Option::is_none")]
    pub utilization: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overage_status: Option<String>,
    #[serde(default, with = "number::option", skip_serializing_if = "Option::is_none")]
    pub overage_resets_at: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overage_disabled_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_using_overage: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overage_in_use: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overage_enabled: Option<bool>,
    #[serde(default, with = "number::option", skip_serializing_if = "Option::is_none")]
    pub surpassed_threshold: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub can_user_purchase_credits: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_chargeable_saved_payment_method: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A prompt that the user might send next; at most one per turn, after `result`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PromptSuggestion {
    pub suggestion: String,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The conversation starts over under another id.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ConversationReset {
    pub new_conversation_id: String,
    /// `clear`, `plan_mode_exit`, `fresh_session` or `onboarding`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_message_uuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The goal that the session pursues, or null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ActiveGoal {
    pub value: Option<Goal>,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    pub condition: String,
    pub iterations: u64,
    pub set_at: Value,
    pub tokens_at_start: u64,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "nullable")]
    pub last_reason: Option<Option<String>>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The state of a user message that carried a `uuid`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CommandLifecycle {
    pub command_uuid: String,
    /// `queued`, `started`, `completed` or `cancelled`.
    pub state: String,
    /// What the clock started, when it starts: `loop_wakeup`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wakeup_source: Option<String>,
    /// When that was to be, milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_for: Option<u64>,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Transcript records for the host's own store. Has neither `uuid` nor `session_id`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TranscriptMirror {
    #[serde(rename = "filePath")]
    pub file_path: String,
    pub entries: Vec<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A sign of life, in either direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KeepAlive {
    #[serde(flatten)]
    pub extra: Extra,
}

/// Environment for later children (client to runtime).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UpdateEnvironmentVariables {
    pub variables: BTreeMap<String, String>,
    #[serde(flatten)]
    pub extra: Extra,
}
