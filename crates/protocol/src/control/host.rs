//! Requests that the runtime sends to the host, which must reply to each exactly once.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wire::nullable;
use crate::{Extra, PermissionUpdate};

/// Asks whether a call may run. Sent when rules, mode and hooks did not decide.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CanUseToolRequest {
    pub tool_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    pub input: Value,
    /// Absent in the earliest versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// Updates that would make the same question unnecessary next time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_suggestions: Option<Vec<PermissionUpdate>>,
    /// The path that caused the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_reason: Option<String>,
    /// `rule`, `mode`, `subcommandResults`, `permissionPromptTool`, `hook`, `asyncAgent`, `sandboxOverride`,
    /// `workingDir`, `safetyCheck`, `classifier` or `other`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_reason_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `{name, source}`.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub mcp_server: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires_user_interaction: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classifier_approvable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppress_always_allow_rule: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_to_no: Option<bool>,
    /// `{source, tool_name, rule_content?}`.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub matched_ask_rule: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_reason_hook_event: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_reason_hook_source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_reason_rule_source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_policy_ask_only: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Asks the host to run one of its hooks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HookCallbackRequest {
    pub callback_id: String,
    /// A [`HookInput`](crate::HookInput).
    pub input: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A question of an MCP server to the user.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ElicitationRequest {
    pub mcp_server_name: String,
    pub message: String,
    /// `form` or `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub requested_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub property_order: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Asks the host to show a dialog of a kind that it declared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestUserDialogRequest {
    pub dialog_kind: String,
    pub payload: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}
