//! What the tests of this crate share: where a typed line hides something it could not read, and which
//! type answers which request.
#![allow(dead_code, reason = "each test uses its part")]

use std::fmt::Debug;

use lathe_protocol::control::*;
use lathe_protocol::{BlockView, ContentBlock, Inbound, MessageContent, Outbound, SystemMessage};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The name of the first thing in a line that landed in `Unknown`, if any.
pub fn unknown_in_outbound(line: &Outbound) -> Option<String> {
    match line {
        Outbound::Unknown(_) => Some(format!("type {}", line.tag())),
        Outbound::System(message @ SystemMessage::Unknown(_)) => Some(format!("system {}", message.tag())),
        Outbound::Assistant(message) => unknown_block(&message.message.content),
        Outbound::User(message) => unknown_content(&message.message.content),
        Outbound::ControlRequest(request) => unknown_request(request),
        Outbound::ControlResponse(response) => unknown_response(&response.response),
        _ => None,
    }
}

/// The same for stdin.
pub fn unknown_in_inbound(line: &Inbound) -> Option<String> {
    match line {
        Inbound::Unknown(_) => Some(format!("type {}", line.tag())),
        Inbound::User(message) => unknown_content(&message.message.content),
        Inbound::ControlRequest(request) => unknown_request(request),
        Inbound::ControlResponse(response) => unknown_response(&response.response),
        _ => None,
    }
}

fn unknown_request(request: &ControlRequest) -> Option<String> {
    match &request.request {
        body @ ControlRequestBody::Unknown(_) => Some(format!("request {}", body.tag())),
        ControlRequestBody::CanUseTool(ask) => ask
            .permission_suggestions
            .iter()
            .flatten()
            .find(|update| matches!(update, lathe_protocol::PermissionUpdate::Unknown(_)))
            .map(|update| format!("update {}", update.tag())),
        _ => None,
    }
}

fn unknown_response(response: &ControlResponseBody) -> Option<String> {
    matches!(response, ControlResponseBody::Unknown(_)).then(|| format!("response {}", response.tag()))
}

fn unknown_content(content: &MessageContent) -> Option<String> {
    match content {
        MessageContent::Text(_) => None,
        MessageContent::Blocks(blocks) => unknown_block(blocks),
        MessageContent::Unknown(_) => Some("content".to_owned()),
    }
}

fn unknown_block(blocks: &[ContentBlock]) -> Option<String> {
    blocks.iter().find_map(|block| match block.view() {
        BlockView::Unknown => Some(format!("block {}", block.tag())),
        BlockView::ToolResult(result) => {
            MessageContent::deserialize(result.content).ok().as_ref().and_then(unknown_content)
        }
        _ => None,
    })
}

/// The payload of a successful answer, read as the type that belongs to the request and wanted back
/// unchanged: how the type prints, or what is wrong. Nothing for requests whose answer has no type.
pub fn check_answer(subtype: &str, payload: &Value) -> Option<Result<String, String>> {
    Some(match subtype {
        "initialize" => same::<InitializeResponse>(payload),
        "interrupt" => same::<InterruptResponse>(payload),
        "set_permission_mode" => same::<SetPermissionModeResponse>(payload),
        "set_model" => same::<SetModelResponse>(payload),
        "get_settings" => same::<GetSettingsResponse>(payload),
        "mcp_status" => same::<McpStatusResponse>(payload),
        "mcp_set_servers" => same::<McpSetServersResponse>(payload),
        "rewind_files" => same::<RewindFilesResponse>(payload),
        "background_tasks" => same::<BackgroundTasksResponse>(payload),
        "get_task_output" => same::<GetTaskOutputResponse>(payload),
        "cancel_async_message" => same::<CancelAsyncMessageResponse>(payload),
        "get_usage" => same::<GetUsageResponse>(payload),
        "file_suggestions" => same::<FileSuggestionsResponse>(payload),
        "read_file" => same::<ReadFileResponse>(payload),
        "list_permission_rules" => same::<ListPermissionRulesResponse>(payload),
        "side_question" => same::<SideQuestionResponse>(payload),
        "get_context_usage" => same::<ContextUsage>(payload),
        "elicitation" => same::<ElicitationResult>(payload),
        "can_use_tool" => same::<PermissionResult>(payload),
        "mcp_message" => same::<McpMessageResponse>(payload),
        _ => return None,
    })
}

fn same<T: Serialize + DeserializeOwned + Debug>(value: &Value) -> Result<String, String> {
    let typed: T = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
    let written = serde_json::to_value(&typed).map_err(|error| error.to_string())?;
    if &written == value { Ok(format!("{typed:?}")) } else { Err(format!("became {written}")) }
}
