//! The two sides of the conversation as they are written to stdout: `assistant` (one line per completed block) and
//! `user` (tool results, synthetic turns, replay acknowledgements).
//!
//! Only indispensable fields are required, so that a frame of an old CLI or of a fake one is still a frame; a missing
//! field is written as an empty value. The code that builds these fills in `uuid`, `session_id` and `timestamp`:
//! nothing here knows the time.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wire::nullable;
use crate::{ContentBlock, Extra, Usage, UserContent};

/// `model` of messages that no model wrote: API errors and slash-command output.
pub const SYNTHETIC_MODEL: &str = "<synthetic>";

/// One completed content block of a response. Blocks of one response share `message.id`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    pub message: ApiMessage,
    /// The `Agent` call this belongs to; null for the main conversation.
    pub parent_tool_use_id: Option<String>,
    #[serde(default)]
    pub session_id: String,
    #[serde(default)]
    pub uuid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// The API's request id; absent on synthetic messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The kind of failure, on a synthetic message about an API error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_api_error_message: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_error_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_error_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_error: Option<String>,
    /// True on the block that an interrupt cut short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aborted: Option<bool>,
    /// Client ids of the prompts that this message responds to; only on the first such frame of a turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_message_uuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_message_uuids: Option<Vec<String>>,
    /// Earlier messages that this one replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_description: Option<String>,
    /// Display names of MCP calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_meta: Option<Vec<Value>>,
    /// Slash-command output: the text in its wrapping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_command_source: Option<String>,
    /// Slash-command output: `{command, args}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_command_run: Option<Value>,
    /// Slash-command output: `{kind: "unavailable_headless"}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_command_outcome: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_usage: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_report: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_display: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_from_incomplete_thinking: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A message of the Messages API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApiMessage {
    #[serde(default)]
    pub id: String,
    /// Always `message`.
    #[serde(rename = "type", default)]
    pub kind: String,
    #[serde(default)]
    pub role: String,
    pub model: String,
    pub content: Vec<ContentBlock>,
    /// Null while streaming: only `result` has the final reason.
    pub stop_reason: Option<String>,
    pub stop_sequence: Option<String>,
    #[serde(default)]
    pub usage: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "nullable")]
    pub context_management: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl Default for ApiMessage {
    fn default() -> Self {
        Self {
            id: String::new(),
            kind: "message".to_owned(),
            role: "assistant".to_owned(),
            model: String::new(),
            content: Vec::new(),
            stop_reason: None,
            stop_sequence: None,
            usage: Usage::default(),
            context_management: Some(Value::Null),
            extra: Extra::new(),
        }
    }
}

/// A message of the user's side, as the host sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    pub message: UserTurn,
    pub parent_tool_use_id: Option<String>,
    #[serde(default)]
    pub session_id: String,
    #[serde(default)]
    pub uuid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// The tool's structured output, or an error string.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "nullable")]
    pub tool_use_result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_result_meta: Option<Vec<ToolResultMeta>>,
    /// Made by the runtime, not by a person.
    #[serde(rename = "isSynthetic", skip_serializing_if = "Option::is_none")]
    pub is_synthetic: Option<bool>,
    /// Acknowledges a message that the client sent.
    #[serde(rename = "isReplay", skip_serializing_if = "Option::is_none")]
    pub is_replay: Option<bool>,
    /// The origin of the turn: `{kind: "human"}`, `{kind: "task-notification", …}`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_description: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The role of a message in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user; results of tools have this role too.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// Returns the name of the role on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// Role and content of a user message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserTurn {
    /// `user`. A client may send something else, which the receiver must refuse.
    #[serde(default)]
    pub role: String,
    pub content: UserContent,
    #[serde(flatten)]
    pub extra: Extra,
}

impl Default for UserTurn {
    fn default() -> Self {
        Self { role: "user".to_owned(), content: UserContent::default(), extra: Extra::new() }
    }
}

impl UserTurn {
    /// Returns a user turn with this content.
    pub fn new(content: impl Into<UserContent>) -> Self {
        Self { content: content.into(), ..Default::default() }
    }
}

/// Why a tool call ran, or did not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolResultMeta {
    /// Id of the `tool_use` block.
    pub id: String,
    /// `user-rejected` or `permission-rule`, when the tool did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub non_execution_kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_decision: Option<PermissionDecisionMeta>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Where the decision about a call came from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PermissionDecisionMeta {
    /// `accept` or `reject`.
    pub decision: String,
    /// `config`, `hook`, `user_temporary`, `user_permanent` or `user_reject`.
    pub source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason_type: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}
