//! What the tests of this crate share: where a typed line hides something it could not read.

use lathe_protocol::control::{ControlRequestBody, ControlResponseBody};
use lathe_protocol::{ContentBlock, ControlRequest, Inbound, MessageContent, Outbound, SystemMessage};

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
    blocks.iter().find_map(|block| match block {
        ContentBlock::Unknown(_) => Some(format!("block {}", block.tag())),
        ContentBlock::ToolResult(result) => result.content.as_ref().and_then(unknown_content),
        _ => None,
    })
}
