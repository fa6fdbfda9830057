//! `initialize`: what the two ends tell each other at the start, and the parts of it that other replies repeat
//! (commands, models, agents).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Extra;
use crate::wire::{nullable, number};

/// What the host offers and wants, sent once right after the start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeRequest {
    /// Hooks that the host runs: event → matchers.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub hooks: Option<Option<BTreeMap<String, Vec<HookCallbackMatcher>>>>,
    /// Names of MCP servers that run inside the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sdk_mcp_servers: Option<Vec<String>>,
    /// Per server: `{timeout?, tools?}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sdk_mcp_server_configs: Option<BTreeMap<String, Value>>,
    /// Per server: `{initializeResult, toolsListResult?}`, which saves the handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sdk_mcp_server_manifests: Option<BTreeMap<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sdk_mcp_server_manifests_origin: Option<String>,
    /// Schema of the structured output.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub json_schema: Option<Value>,
    /// A list of parts; older hosts send one string. `[""]` means: without Lathe's own prompt.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append_system_prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt_snapshot: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude_dynamic_sections: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_mode_instructions: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_aliases: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<BTreeMap<String, AgentDefinition>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Set only for an explicit list; absent means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_suggestions: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_progress_summaries: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_subagent_text: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_task_stop_affordance: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supported_dialog_kinds: Option<Vec<String>>,
    /// `[{type: "local", path, skipMcpDiscovery?}]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugins: Option<Vec<Value>>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// One group of the host's hooks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookCallbackMatcher {
    /// Absent, null, empty and `*` match everything.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub matcher: Option<Option<String>>,
    pub hook_callback_ids: Vec<String>,
    /// Seconds.
    #[serde(default, with = "number::option", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// `continue` or `block`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The reply to `initialize`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct InitializeResponse {
    pub commands: Vec<SlashCommand>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<AgentInfo>>,
    pub output_style: String,
    pub available_output_styles: Vec<String>,
    pub models: Vec<ModelInfo>,
    pub account: AccountInfo,
    /// Set only if the request had hooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hooks_applied: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook_on_failure_supported: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugins_applied: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sdk_mcp_manifests_parked: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claude_code_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_permission_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_mode_state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_mode_disabled_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<String>>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A slash command, named without the slash.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlashCommand {
    pub name: String,
    pub description: String,
    pub argument_hint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aliases: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builtin: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// An agent that can be started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentInfo {
    pub name: String,
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A model that can be chosen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelInfo {
    /// The value to send to choose it.
    pub value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_model: Option<String>,
    pub display_name: String,
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_effort: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supported_effort_levels: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_adaptive_thinking: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_fast_mode: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_auto_mode: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The account that pays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountInfo {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_source: Option<String>,
    /// `firstParty`, `bedrock`, `vertex`, `foundry`, `gateway`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_provider: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// An agent as the host or a file defines it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentDefinition {
    pub description: String,
    pub prompt: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disallowed_tools: Option<Vec<String>>,
    /// An alias, an id, or `inherit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Names, or inline configurations.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub mcp_servers: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_compact_window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub omit_claude_md: Option<bool>,
    /// `user`, `project` or `local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// A level, or an integer.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub effort: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub observer: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observer_message: Option<String>,
    #[serde(rename = "criticalSystemReminder_EXPERIMENTAL", skip_serializing_if = "Option::is_none")]
    pub critical_system_reminder: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}
