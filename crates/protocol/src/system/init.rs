//! `system/init`: the parts of the session.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Extra;
use crate::wire::nullable;

/// The state of the session at the start of a turn. Sent before every turn, not once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Init {
    pub cwd: String,
    pub session_id: String,
    /// Built-in names, then `mcp__server__tool`. The agent tool is listed as `Task`.
    pub tools: Vec<String>,
    pub mcp_servers: Vec<McpServerInfo>,
    /// The resolved id.
    pub model: String,
    #[serde(rename = "permissionMode")]
    pub permission_mode: String,
    /// Names without the slash.
    pub slash_commands: Vec<String>,
    /// Those that need a terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal_slash_commands: Option<Vec<String>>,
    /// `ANTHROPIC_API_KEY`, `apiKeyHelper`, `/login managed key`, `none`; older: `user`, `project`, `org`, …
    #[serde(rename = "apiKeySource")]
    pub api_key_source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claude_code_version: Option<String>,
    pub output_style: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugins: Option<Vec<PluginInfo>>,
    /// Present only if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin_errors: Option<Vec<PluginError>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub betas: Option<Vec<String>>,
    /// The capabilities of this runtime, for feature detection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analytics_disabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_feedback_disabled: Option<bool>,
    pub uuid: String,
    /// `{auto: path}`.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub memory_paths: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_directories: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messaging_socket_path: Option<String>,
    /// `off`, `cooldown` or `on`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_mode_state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_mode_disabled_reason: Option<String>,
    /// `default` or `focus`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub view_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_turn_effort_active: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ultrathink_available: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ultrathink_typed_raises: Option<bool>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub effort: Option<Option<String>>,
    /// Client ids of the prompts that started this turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_message_uuids: Option<Vec<String>>,
    /// The version of Lathe itself, in addition to the one it is compatible with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lathe_version: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// An MCP server in `init`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct McpServerInfo {
    pub name: String,
    /// `connected`, `failed`, `needs-auth`, `pending` or `disabled`.
    pub status: String,
    /// Where it was configured: `sdk`, `plugin`, `user`, `project`, `local`, `dynamic`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A loaded plugin; built-in ones have the path `builtin`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PluginInfo {
    pub name: String,
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A plugin that did not load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PluginError {
    pub plugin: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub managed_lock: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}
