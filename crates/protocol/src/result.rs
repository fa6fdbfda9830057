//! The `result` line: exactly one at the end of every turn.
//!
//! `is_error` says whether the turn failed; `subtype` is `success` even for a turn that an API failure ended. A success
//! has `result` and no `errors`, an error has `errors` and no `result`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wire::{nullable, number};
use crate::{Extra, Usage};

/// How a turn ended, its final text and its cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ResultMessage {
    /// `success`, `error_during_execution`, `error_max_turns`, `error_max_budget_usd` or
    /// `error_max_structured_output_retries`.
    pub subtype: String,
    pub is_error: bool,
    pub duration_ms: u64,
    pub duration_api_ms: u64,
    /// Model round trips of the turn plus extra rounds.
    pub num_turns: u64,
    /// Success only: the last text of the turn, `""` if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Errors only: what went wrong, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<Vec<String>>,
    /// Last stop reason of the API; null when no model was called.
    pub stop_reason: Option<String>,
    pub session_id: String,
    /// Cumulative over the process, plus the saved total of a resumed session.
    #[serde(default, with = "number")]
    pub total_cost_usd: f64,
    /// Main loop only, this turn only.
    #[serde(default)]
    pub usage: Usage,
    /// Cumulative, by model.
    #[serde(rename = "modelUsage", default)]
    pub model_usage: BTreeMap<String, ModelUsage>,
    /// Every call of the turn that was not permitted.
    #[serde(default)]
    pub permission_denials: Vec<PermissionDenial>,
    #[serde(default)]
    pub uuid: String,

    /// Why the loop stopped; absent when it never ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal_reason: Option<String>,
    /// The object that a JSON schema asked for.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "nullable")]
    pub structured_output: Option<Value>,
    /// The call that a hook deferred until the session is resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deferred_tool_use: Option<DeferredToolUse>,
    /// Success only: null, or the HTTP status of the failure that ended the turn.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "nullable")]
    pub api_error_status: Option<Option<u16>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_error_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_error: Option<String>,
    /// Name of the slash command that produced this result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_command: Option<String>,
    /// Why the session never started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup_failure_reason: Option<String>,
    /// `{path, is_global, backup_searched, backup_path?}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid_config_file: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by_permission_check: Option<bool>,

    /// Prompts that are still queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_turn_count: Option<u64>,
    /// 0, 1, 2, … per process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_index: Option<u64>,
    /// The tasks that run in the background when the result is written, as Stop hooks are told of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_tasks: Option<Vec<Value>>,
    /// The origin of the turn, if it was not a prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_message_uuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_message_uuids: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_mode_state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_mode_disabled_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_stats: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety_stops: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_usage_since_last_result: Option<BTreeMap<String, ModelUsage>>,

    /// Milliseconds to the first token, and to the first frame of the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_stream_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_to_request_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_content_frame_ms: Option<u64>,
    /// Milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_sent_wall_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_to_request_from_spawn_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_origin_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_spare_claimed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_request_input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_request_cache_read_input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential_expires_at: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A call that was not permitted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PermissionDenial {
    pub tool_name: String,
    pub tool_use_id: String,
    pub tool_input: Value,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A deferred call: it runs when the session is resumed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeferredToolUse {
    pub id: String,
    pub name: String,
    pub input: Value,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The tokens of one model, and their price.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_input_tokens: u64,
    pub cache_creation_input_tokens: u64,
    pub web_search_requests: u64,
    #[serde(rename = "costUSD", with = "number")]
    pub cost_usd: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_tokens: Option<u64>,
    #[serde(rename = "cacheCreationEphemeral5mInputTokens", skip_serializing_if = "Option::is_none")]
    pub cache_creation_ephemeral_5m_input_tokens: Option<u64>,
    #[serde(rename = "cacheCreationEphemeral1hInputTokens", skip_serializing_if = "Option::is_none")]
    pub cache_creation_ephemeral_1h_input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canonical_model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// `list`, `managed` or `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_basis: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}
