//! Every control request, in one enum distinguished by `subtype`, and the fields of those that a client sends.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::InitializeRequest;
use super::host::{CanUseToolRequest, ElicitationRequest, HookCallbackRequest, RequestUserDialogRequest};
use crate::Extra;
use crate::wire::{nullable, number};

open_enum! {
    /// The body of a control request.
    pub enum ControlRequestBody by "subtype" {
        // Client to runtime.
        Initialize(Box<InitializeRequest>) = "initialize",
        Interrupt(InterruptRequest) = "interrupt",
        SetPermissionMode(SetPermissionModeRequest) = "set_permission_mode",
        SetModel(SetModelRequest) = "set_model",
        SetMaxThinkingTokens(SetMaxThinkingTokensRequest) = "set_max_thinking_tokens",
        ApplyFlagSettings(ApplyFlagSettingsRequest) = "apply_flag_settings",
        UpdateSettings(UpdateSettingsRequest) = "update_settings",
        GetSettings(NoFields) = "get_settings",
        McpStatus(McpStatusRequest) = "mcp_status",
        McpSetServers(McpSetServersRequest) = "mcp_set_servers",
        McpReconnect(McpReconnectRequest) = "mcp_reconnect",
        McpToggle(McpToggleRequest) = "mcp_toggle",
        McpCall(McpCallRequest) = "mcp_call",
        McpReadResource(McpReadResourceRequest) = "mcp_read_resource",
        SetMcpPermissionModeOverride(SetMcpPermissionModeOverrideRequest) = "set_mcp_permission_mode_override",
        RewindFiles(RewindFilesRequest) = "rewind_files",
        StopTask(StopTaskRequest) = "stop_task",
        BackgroundTasks(BackgroundTasksRequest) = "background_tasks",
        GetTaskOutput(GetTaskOutputRequest) = "get_task_output",
        EndSession(EndSessionRequest) = "end_session",
        CancelAsyncMessage(CancelAsyncMessageRequest) = "cancel_async_message",
        GetContextUsage(GetContextUsageRequest) = "get_context_usage",
        GetSessionCost(NoFields) = "get_session_cost",
        GetUsage(GetUsageRequest) = "get_usage",
        ListModels(NoFields) = "list_models",
        GetBinaryVersion(NoFields) = "get_binary_version",
        FileSuggestions(FileSuggestionsRequest) = "file_suggestions",
        ReadFile(ReadFileRequest) = "read_file",
        SeedReadState(SeedReadStateRequest) = "seed_read_state",
        ReloadPlugins(ReloadPluginsRequest) = "reload_plugins",
        ReloadSkills(NoFields) = "reload_skills",
        ReloadOutputStyles(NoFields) = "reload_output_styles",
        RegisterRepoRoot(RegisterRepoRootRequest) = "register_repo_root",
        ListPermissionRules(NoFields) = "list_permission_rules",
        GetHooksListing(NoFields) = "get_hooks_listing",
        RenameSession(RenameSessionRequest) = "rename_session",
        SetColor(SetColorRequest) = "set_color",
        SetHasSubscribers(SetHasSubscribersRequest) = "set_has_subscribers",
        SideQuestion(SideQuestionRequest) = "side_question",
        GenerateSessionTitle(GenerateSessionTitleRequest) = "generate_session_title",
        // Both ways.
        McpMessage(McpMessageRequest) = "mcp_message",
        // Runtime to client.
        CanUseTool(Box<CanUseToolRequest>) = "can_use_tool",
        HookCallback(HookCallbackRequest) = "hook_callback",
        Elicitation(Box<ElicitationRequest>) = "elicitation",
        RequestUserDialog(RequestUserDialogRequest) = "request_user_dialog",
    }
}

from_payloads! {
    ControlRequestBody {
        Initialize(InitializeRequest) boxed,
        Interrupt(InterruptRequest),
        SetPermissionMode(SetPermissionModeRequest),
        SetModel(SetModelRequest),
        SetMaxThinkingTokens(SetMaxThinkingTokensRequest),
        ApplyFlagSettings(ApplyFlagSettingsRequest),
        UpdateSettings(UpdateSettingsRequest),
        McpStatus(McpStatusRequest),
        McpSetServers(McpSetServersRequest),
        McpReconnect(McpReconnectRequest),
        McpToggle(McpToggleRequest),
        McpCall(McpCallRequest),
        McpReadResource(McpReadResourceRequest),
        SetMcpPermissionModeOverride(SetMcpPermissionModeOverrideRequest),
        RewindFiles(RewindFilesRequest),
        StopTask(StopTaskRequest),
        BackgroundTasks(BackgroundTasksRequest),
        GetTaskOutput(GetTaskOutputRequest),
        EndSession(EndSessionRequest),
        CancelAsyncMessage(CancelAsyncMessageRequest),
        GetContextUsage(GetContextUsageRequest),
        GetUsage(GetUsageRequest),
        FileSuggestions(FileSuggestionsRequest),
        ReadFile(ReadFileRequest),
        SeedReadState(SeedReadStateRequest),
        ReloadPlugins(ReloadPluginsRequest),
        RegisterRepoRoot(RegisterRepoRootRequest),
        RenameSession(RenameSessionRequest),
        SetColor(SetColorRequest),
        SetHasSubscribers(SetHasSubscribersRequest),
        SideQuestion(SideQuestionRequest),
        GenerateSessionTitle(GenerateSessionTitleRequest),
        McpMessage(McpMessageRequest),
        CanUseTool(CanUseToolRequest) boxed,
        HookCallback(HookCallbackRequest),
        Elicitation(ElicitationRequest) boxed,
        RequestUserDialog(RequestUserDialogRequest),
    }
}

/// A request without fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NoFields {
    #[serde(flatten)]
    pub extra: Extra,
}

/// Ends the running turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct InterruptRequest {
    /// Whether to drop the queued prompts, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_queued: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Changes the permission mode.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SetPermissionModeRequest {
    /// Optional, because some clients leave it out and must be told so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Changes the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SetModelRequest {
    /// Absent, null and `default` restore the model that the session started with.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub model: Option<Option<String>>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Changes how much the model may think.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SetMaxThinkingTokensRequest {
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub max_thinking_tokens: Option<Option<u64>>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub thinking_display: Option<Option<String>>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Merges settings into the layer of `--settings`; null clears a key.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ApplyFlagSettingsRequest {
    pub settings: Value,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The settings that a running session applies at once, and whether a request names them. Null counts as named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedSettings {
    pub model: bool,
    pub effort_level: bool,
}

impl ApplyFlagSettingsRequest {
    /// Returns which of these settings the request names. Only the presence of the key counts, so null, which clears a
    /// setting, is included.
    pub fn named_settings(&self) -> NamedSettings {
        let names = |key| self.settings.get(key).is_some();
        NamedSettings { model: names("model"), effort_level: names("effortLevel") }
    }
}

/// Writes settings to a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UpdateSettingsRequest {
    /// `localSettings` or `userSettings`.
    pub source: String,
    pub settings: Value,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Lists the MCP servers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct McpStatusRequest {
    #[serde(rename = "liveReply", skip_serializing_if = "Option::is_none")]
    pub live_reply: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Replaces the servers that were added this way, and all servers of the host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct McpSetServersRequest {
    pub servers: BTreeMap<String, Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Reconnects a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct McpReconnectRequest {
    #[serde(rename = "serverName")]
    pub server_name: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Enables or disables a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct McpToggleRequest {
    #[serde(rename = "serverName")]
    pub server_name: String,
    pub enabled: bool,
    #[serde(flatten)]
    pub extra: Extra,
}

/// One JSON-RPC message to or from an MCP server that runs inside the host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct McpMessageRequest {
    pub server_name: String,
    pub message: Value,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Calls an MCP tool outside of any turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct McpCallRequest {
    /// `mcp__server__tool`.
    pub tool: String,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Reads a resource of an MCP server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct McpReadResourceRequest {
    #[serde(rename = "serverName")]
    pub server_name: String,
    pub uri: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Gives one MCP server its own permission mode.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SetMcpPermissionModeOverrideRequest {
    #[serde(rename = "serverName")]
    pub server_name: String,
    /// `default`, `auto` or null.
    pub mode: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Restores files to their state before a prompt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RewindFilesRequest {
    pub user_message_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Ends a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StopTaskRequest {
    pub task_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Moves foreground tasks to the background.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BackgroundTasksRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Reads the output of a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GetTaskOutputRequest {
    pub task_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Ends the session after the running turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EndSessionRequest {
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Withdraws a prompt that is still queued.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CancelAsyncMessageRequest {
    pub message_uuid: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Asks what fills the context window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GetContextUsageRequest {
    /// `summary` or `full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Asks what the session has cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GetUsageRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_behaviors: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Asks for files whose path begins with a text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FileSuggestionsRequest {
    pub query: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Reads a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadFileRequest {
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Tells the session that the host has read a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SeedReadStateRequest {
    pub path: String,
    /// Milliseconds since 1970.
    #[serde(with = "number")]
    pub mtime: f64,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Reloads plugins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReloadPluginsRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_on_cache_impact: Option<bool>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub add_plugins: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refuse_if_busy: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Treats a directory as a separate root.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RegisterRepoRootRequest {
    pub directory: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reload_claude_md: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reload_plugins: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reload_skills: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Sets the title of the session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RenameSessionRequest {
    pub title: String,
    /// `remote` or `host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Sets the colour of the session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SetColorRequest {
    pub color: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Says whether anyone watches the session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SetHasSubscribersRequest {
    pub has_subscribers: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Asks the model a question outside of the conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SideQuestionRequest {
    pub question: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Asks for a generated title.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GenerateSessionTitleRequest {
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persist: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}
