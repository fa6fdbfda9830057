//! The input of a hook: the fields that every event has, and those of each event.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::HookEvent;
use crate::wire::{nullable, number};
use crate::{Extra, PermissionUpdate};

/// The input of a hook: one flat object on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookInput {
    #[serde(flatten)]
    pub base: HookBase,
    /// `hook_event_name` and the fields of that event. Unknown fields are in the payload's `extra`.
    #[serde(flatten)]
    pub event: HookEventInput,
}

/// The fields of every input.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HookBase {
    pub session_id: String,
    pub transcript_path: String,
    pub cwd: String,
    /// Absent before the first prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// The subagent that the event happens in, or is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<HookEffort>,
}

impl HookInput {
    /// Returns the event that the input is for. An event that this version does not know keeps its name.
    pub fn event_name(&self) -> HookEvent {
        HookEvent::from(self.event.tag())
    }
}

/// How hard the model is asked to think.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HookEffort {
    pub level: String,
    #[serde(flatten)]
    pub extra: Extra,
}

open_enum! {
    /// The event and its fields.
    pub enum HookEventInput by "hook_event_name" {
        PreToolUse(PreToolUseInput) = "PreToolUse",
        PostToolUse(PostToolUseInput) = "PostToolUse",
        PostToolUseFailure(PostToolUseFailureInput) = "PostToolUseFailure",
        Notification(NotificationInput) = "Notification",
        UserPromptSubmit(UserPromptSubmitInput) = "UserPromptSubmit",
        SessionStart(SessionStartInput) = "SessionStart",
        SessionEnd(SessionEndInput) = "SessionEnd",
        Stop(StopInput) = "Stop",
        SubagentStart(SubagentStartInput) = "SubagentStart",
        SubagentStop(SubagentStopInput) = "SubagentStop",
        PreCompact(PreCompactInput) = "PreCompact",
        PermissionRequest(PermissionRequestInput) = "PermissionRequest",
        PostToolBatch(PostToolBatchInput) = "PostToolBatch",
        UserPromptExpansion(UserPromptExpansionInput) = "UserPromptExpansion",
        StopFailure(StopFailureInput) = "StopFailure",
        PostCompact(PostCompactInput) = "PostCompact",
        PreModelSwitch(ModelSwitchInput) = "PreModelSwitch",
        PostModelSwitch(ModelSwitchInput) = "PostModelSwitch",
        PermissionDenied(PermissionDeniedInput) = "PermissionDenied",
        Setup(SetupInput) = "Setup",
        TeammateIdle(TeammateIdleInput) = "TeammateIdle",
        TaskCreated(TaskInput) = "TaskCreated",
        TaskCompleted(TaskInput) = "TaskCompleted",
        Elicitation(ElicitationInput) = "Elicitation",
        ElicitationResult(ElicitationResultInput) = "ElicitationResult",
        ConfigChange(ConfigChangeInput) = "ConfigChange",
        WorktreeCreate(WorktreeCreateInput) = "WorktreeCreate",
        WorktreeRemove(WorktreeRemoveInput) = "WorktreeRemove",
        InstructionsLoaded(InstructionsLoadedInput) = "InstructionsLoaded",
        CwdChanged(CwdChangedInput) = "CwdChanged",
        FileChanged(FileChangedInput) = "FileChanged",
        DirectoryAdded(DirectoryAddedInput) = "DirectoryAdded",
        MessageDisplay(MessageDisplayInput) = "MessageDisplay",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PreToolUseInput {
    pub tool_name: String,
    pub tool_input: Value,
    pub tool_use_id: String,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub mcp_server: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PostToolUseInput {
    pub tool_name: String,
    pub tool_input: Value,
    /// The structured output of the tool.
    pub tool_response: Value,
    pub tool_use_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub mcp_server: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PostToolUseFailureInput {
    pub tool_name: String,
    pub tool_input: Value,
    pub tool_use_id: String,
    pub error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_interrupt: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub mcp_server: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PostToolBatchInput {
    pub tool_calls: Vec<BatchedCall>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A call of a batch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BatchedCall {
    pub tool_name: String,
    pub tool_input: Value,
    pub tool_use_id: String,
    /// What the model reads; absent for a call that did not run.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub tool_response: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PermissionRequestInput {
    pub tool_name: String,
    pub tool_input: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_suggestions: Option<Vec<PermissionUpdate>>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub mcp_server: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PermissionDeniedInput {
    pub tool_name: String,
    pub tool_input: Value,
    pub tool_use_id: String,
    pub reason: String,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UserPromptSubmitInput {
    pub prompt: String,
    /// `user`, `sdk`, `system`, `loop_wakeup`, `schedule_wakeup` or `poll_event`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_title: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UserPromptExpansionInput {
    /// `slash_command` or `mcp_prompt`.
    pub expansion_type: String,
    pub command_name: String,
    pub command_args: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_source: Option<String>,
    pub prompt: String,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StopInput {
    /// True when an earlier stop hook has already made this turn continue.
    pub stop_hook_active: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_assistant_message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_tasks: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_crons: Option<Vec<Value>>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StopFailureInput {
    pub error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_details: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_assistant_message: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// `agent_id` and `agent_type` are base fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SubagentStartInput {
    #[serde(flatten)]
    pub extra: Extra,
}

/// `agent_id` and `agent_type` are base fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SubagentStopInput {
    pub stop_hook_active: bool,
    pub agent_transcript_path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_assistant_message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_tasks: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_crons: Option<Vec<Value>>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// `agent_type` is a base field.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionStartInput {
    /// `startup`, `resume`, `clear`, `compact` or `fork`.
    pub source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_title: Option<String>,
    #[serde(default, with = "number::option", skip_serializing_if = "Option::is_none")]
    pub seconds_since_last_response: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_cache_likely_expired: Option<bool>,
    #[serde(default, with = "number::option", skip_serializing_if = "Option::is_none")]
    pub estimated_cache_write_usd: Option<f64>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionEndInput {
    /// `clear`, `resume`, `logout`, `prompt_input_exit` or `other`.
    pub reason: String,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PreCompactInput {
    /// `manual` or `auto`.
    pub trigger: String,
    pub custom_instructions: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PostCompactInput {
    pub trigger: String,
    pub compact_summary: String,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NotificationInput {
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub notification_type: String,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SetupInput {
    /// `init` or `maintenance`.
    pub trigger: String,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelSwitchInput {
    pub from_model: String,
    pub to_model: String,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub requested_model: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_cache_warm: Option<bool>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub cache_ttl: Option<Value>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub estimated_cache_write_usd: Option<Value>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub pricing: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfigChangeInput {
    /// `user_settings`, `project_settings`, `local_settings`, `policy_settings` or `skills`.
    pub source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_path: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct InstructionsLoadedInput {
    pub file_path: String,
    /// `User`, `Project`, `Local` or `Managed`.
    pub memory_type: String,
    /// `session_start`, `nested_traversal`, `path_glob_match`, `include` or `compact`.
    pub load_reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub globs: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger_file_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_file_path: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CwdChangedInput {
    pub old_cwd: String,
    pub new_cwd: String,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FileChangedInput {
    pub file_path: String,
    /// `change`, `add` or `unlink`.
    pub event: String,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectoryAddedInput {
    pub directory: String,
    /// `slash_command` or `register_repo_root`.
    pub source: String,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorktreeCreateInput {
    pub name: String,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorktreeRemoveInput {
    pub worktree_path: String,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskInput {
    pub task_id: String,
    pub task_subject: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teammate_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team_name: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TeammateIdleInput {
    pub teammate_name: String,
    pub team_name: String,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ElicitationInput {
    pub mcp_server_name: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub requested_schema: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ElicitationResultInput {
    pub mcp_server_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// `accept`, `decline` or `cancel`.
    pub action: String,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MessageDisplayInput {
    pub turn_id: String,
    pub message_id: String,
    pub index: u64,
    /// Whether this is the last piece.
    #[serde(rename = "final")]
    pub final_: bool,
    pub delta: String,
    #[serde(flatten)]
    pub extra: Extra,
}
