//! Payloads of successful replies, for code that builds or reads them. On the wire they are the `response` value of a
//! [`ControlSuccess`](super::ControlSuccess).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wire::{nullable, number};
use crate::{Extra, ModelUsage, Usage};

/// The reply to `interrupt`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct InterruptResponse {
    /// Client ids of prompts that will still run.
    pub still_queued: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<Vec<String>>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The reply to `set_permission_mode`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SetPermissionModeResponse {
    pub mode: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The reply to `set_model`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SetModelResponse {
    /// The resolved id.
    pub model: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The reply to `get_settings`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GetSettingsResponse {
    pub effective: Value,
    pub sources: Vec<SettingsOfSource>,
    /// `{model, effort, …}`.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub applied: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// One layer of settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SettingsOfSource {
    pub source: String,
    pub settings: Value,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The reply to `mcp_status`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct McpStatusResponse {
    #[serde(rename = "mcpServers")]
    pub mcp_servers: Vec<McpServerStatus>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The status of an MCP server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpServerStatus {
    pub name: String,
    /// `connected`, `failed`, `needs-auth`, `pending` or `disabled`.
    pub status: String,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub server_info: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<McpToolStatus>>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A tool of an MCP server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct McpToolStatus {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `{readOnly?, destructive?, openWorld?}`.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The reply to `mcp_set_servers`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct McpSetServersResponse {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    /// Server name → error.
    pub errors: BTreeMap<String, String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The reply to `rewind_files`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RewindFilesResponse {
    pub can_rewind: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_changed: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insertions: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletions: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped_links: Option<u64>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The reply to `background_tasks` with an id.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BackgroundTasksResponse {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backgrounded: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The reply to `get_task_output`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GetTaskOutputResponse {
    /// The last 8 KiB.
    pub output: String,
    pub total_bytes: u64,
    pub truncated: bool,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The reply to `cancel_async_message`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CancelAsyncMessageResponse {
    pub cancelled: bool,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The reply to `get_usage`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GetUsageResponse {
    pub session: SessionUsage,
    pub subscription_type: Option<String>,
    pub rate_limits_available: bool,
    pub rate_limits: Value,
    pub behaviors: Value,
    #[serde(flatten)]
    pub extra: Extra,
}

/// What the session has used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionUsage {
    #[serde(with = "number")]
    pub total_cost_usd: f64,
    pub total_api_duration_ms: u64,
    pub total_duration_ms: u64,
    pub total_lines_added: u64,
    pub total_lines_removed: u64,
    pub model_usage: BTreeMap<String, ModelUsage>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The reply to `file_suggestions`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FileSuggestionsResponse {
    pub suggestions: Vec<Value>,
    pub cwd: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The reply to `read_file`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadFileResponse {
    pub contents: String,
    pub abs_path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lossy: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The reply to `list_permission_rules`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ListPermissionRulesResponse {
    pub state: PermissionRulesState,
    #[serde(flatten)]
    pub extra: Extra,
}

/// All rules in force.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRulesState {
    pub rules: Vec<ListedRule>,
    pub workspace_directories: Vec<WorkspaceDirectory>,
    pub original_cwd: String,
    pub managed_only: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<Vec<Value>>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A folder besides the working folder, and who added it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkspaceDirectory {
    pub path: String,
    pub source: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A rule and its source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ListedRule {
    pub behavior: String,
    pub source: String,
    pub rule: String,
    /// `{prefix, emphasis}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub editability: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The reply to `side_question`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SideQuestionResponse {
    pub response: String,
    pub synthetic: bool,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The reply to `get_context_usage`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextUsage {
    pub categories: Vec<ContextCategory>,
    pub total_tokens: u64,
    pub max_tokens: u64,
    pub raw_max_tokens: u64,
    #[serde(with = "number")]
    pub percentage: f64,
    pub grid_rows: Value,
    pub model: String,
    pub memory_files: Vec<Value>,
    pub mcp_tools: Vec<Value>,
    pub agents: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_compact_threshold: Option<u64>,
    pub is_auto_compact_enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_instructions: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deferred_builtin_tools: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_tools: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt_sections: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slash_commands: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_breakdown: Option<Value>,
    pub api_usage: Option<Usage>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// One part of the context window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextCategory {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub name: String,
    pub tokens: u64,
    pub color: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_deferred: Option<bool>,
    /// `used`, `free`, `buffer` or `deferred`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}
