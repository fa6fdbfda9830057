//! What a host may ask of a running session. Requests are answered at once, whatever the turn under way
//! is doing, and each gets exactly one answer: a result, or an error that says what is wrong.
//!
//! One file per sort of request: `initialize.rs` the handshake, `change.rs` what alters the session,
//! `model.rs` its model, `look.rs` and `listing.rs` what only looks at it, `aside.rs` what asks the model
//! beside the conversation. What has to wait for somebody goes through `beside.rs`, so that the host's
//! lines are read meanwhile.

mod aside;
mod change;
mod context;
mod initialize;
mod listing;
mod look;
mod model;
mod rewind;

use std::sync::Arc;

use lathe_protocol::control::{ControlError, RenameSessionRequest};
use lathe_protocol::{ControlRequest, ControlRequestBody, ControlResponse};
use serde_json::{Value, json};

use crate::beside::Beside;
use crate::session::TurnHandle;
use crate::shared::Shared;

/// What becomes of a request.
pub(crate) enum Reply {
    /// Done, nothing to say.
    Ack,
    /// Done, and this is the answer.
    Success(Value),
    /// Not done.
    Error(String),
    /// Not done, with a code that programs know.
    Coded(String, &'static str),
    /// Answered already.
    Sent,
}

/// Names the session as a host would.
pub(crate) async fn rename(shared: &Arc<Shared>, title: &str) -> Result<(), String> {
    let body = RenameSessionRequest { title: title.to_owned(), ..RenameSessionRequest::default() };
    match change::rename(shared, &body).await {
        Reply::Success(_) | Reply::Ack | Reply::Sent => Ok(()),
        Reply::Error(text) | Reply::Coded(text, _) => Err(text),
    }
}

pub(crate) use look::cost_text;
pub(crate) use model::switch as switch_model;

/// Answers one request, now or later.
pub(crate) async fn answer(
    shared: &Arc<Shared>,
    beside: &mut Beside,
    request: ControlRequest,
    turn: Option<&TurnHandle>,
) {
    let id = request.request_id.clone();
    let (shared, body) = (shared.clone(), request.request);
    let answer = match body {
        ControlRequestBody::SideQuestion(body) => {
            let request = id.clone();
            return beside.start(id, |withdraw| aside::question(shared, request, body, withdraw));
        }
        ControlRequestBody::GenerateSessionTitle(body) => {
            let request = id.clone();
            return beside.start(id, |withdraw| aside::title(shared, request, body, withdraw));
        }
        ControlRequestBody::SetModel(body) => {
            let Some(reply) = model::set(&shared, beside, id.clone(), body).await else { return };
            reply
        }
        body => dispatch(&shared, &id, body, turn).await,
    };
    reply(&shared, id, answer).await;
}

/// Sends an answer.
pub(crate) async fn reply(shared: &Shared, id: String, reply: Reply) {
    let response = match reply {
        Reply::Ack => ControlResponse::ack(id),
        Reply::Success(value) => ControlResponse::success(id, value),
        Reply::Error(text) => ControlResponse::error(id, text),
        Reply::Coded(error, code) => ControlError {
            request_id: id,
            error,
            error_code: Some(code.to_owned()),
            ..ControlError::default()
        }
        .into(),
        Reply::Sent => return,
    };
    shared.emit(response).await;
}

async fn dispatch(
    shared: &Arc<Shared>,
    id: &str,
    body: ControlRequestBody,
    turn: Option<&TurnHandle>,
) -> Reply {
    use ControlRequestBody as Body;
    match body {
        Body::Initialize(body) => initialize::answer(shared, id, &body, turn).await,
        Body::Interrupt(body) => change::interrupt(shared, &body, turn).await,
        Body::SetPermissionMode(body) => change::permission_mode(shared, id, &body).await,
        Body::SetMaxThinkingTokens(body) => change::thinking(shared, &body),
        Body::ApplyFlagSettings(body) => change::flag_settings(shared, &body).await,
        Body::UpdateSettings(body) => change::settings(shared, &body),
        Body::RenameSession(body) => change::rename(shared, &body).await,
        Body::CancelAsyncMessage(body) => {
            let cancelled = shared.queue().cancel(&body.message_uuid);
            if cancelled {
                shared.emit_lifecycle(Some(&body.message_uuid), "cancelled").await;
            }
            Reply::Success(json!({"cancelled": cancelled}))
        }
        Body::GetSettings(_) => look::settings(shared),
        Body::GetContextUsage(_) => context::usage(shared),
        Body::GetSessionCost(_) => look::cost(shared),
        Body::GetUsage(_) => look::usage(shared),
        Body::ListModels(_) => Reply::Success(json!({"models": shared.catalog.choices()})),
        Body::GetBinaryVersion(_) => look::version(shared),
        Body::FileSuggestions(body) => look::file_suggestions(shared, &body.query),
        Body::ReadFile(body) => look::read_file(shared, &body),
        Body::ListPermissionRules(_) => listing::permission_rules(shared),
        Body::GetHooksListing(_) => listing::hooks(shared),
        Body::McpStatus(_) => Reply::Success(json!({"mcpServers": shared.introduction().mcp_status()})),
        Body::McpSetServers(body) => look::mcp_set_servers(&body),
        Body::McpReconnect(body) => Reply::Error(format!("Server not found: {}", body.server_name)),
        Body::McpToggle(body) => Reply::Error(format!("Server not found: {}", body.server_name)),
        Body::McpReadResource(body) => Reply::Error(format!("Server not found: {}", body.server_name)),
        Body::McpCall(body) => look::mcp_call(&body.tool),
        Body::SetMcpPermissionModeOverride(_) => {
            Reply::Success(json!({"warning": "there is no such MCP server; the override has no effect"}))
        }
        Body::RewindFiles(body) => rewind::files(shared, &body),
        Body::BackgroundTasks(body) if body.tool_use_id.is_some() => {
            Reply::Success(json!({"backgrounded": false}))
        }
        Body::StopTask(_) | Body::BackgroundTasks(_) => Reply::Success(json!({})),
        Body::GetTaskOutput(body) => Reply::Error(format!("No task found with ID: {}", body.task_id)),
        Body::ReloadPlugins(_) => Reply::Success(
            json!({"commands": [], "agents": [], "plugins": [], "mcpServers": [], "error_count": 0}),
        ),
        Body::ReloadSkills(_) => Reply::Success(json!({"skills": []})),
        Body::ReloadOutputStyles(_) => {
            Reply::Success(json!({"available_output_styles": shared.output_styles}))
        }
        Body::RegisterRepoRoot(body) => look::register_repo_root(&body.directory),
        Body::SeedReadState(body) => change::read_state(shared, &body),
        Body::SetHasSubscribers(_) => Reply::Ack,
        Body::McpMessage(body) => Reply::Error(format!("Server not found: {}", body.server_name)),
        body @ (Body::SetColor(_)
        | Body::SetModel(_)
        | Body::SideQuestion(_)
        | Body::GenerateSessionTitle(_)
        | Body::CanUseTool(_)
        | Body::HookCallback(_)
        | Body::Elicitation(_)
        | Body::RequestUserDialog(_)) => unsupported(body.tag()),
        Body::Unknown(value) => unknown(&value),
    }
}

fn unsupported(subtype: &str) -> Reply {
    Reply::Coded(format!("Unsupported control request subtype: {subtype}"), "unsupported_request")
}

/// A request nobody knows, or one that is known and does not fit.
fn unknown(value: &Value) -> Reply {
    let subtype = value["subtype"].as_str().unwrap_or("");
    match subtype {
        "set_permission_mode" => change::bad_mode(),
        known if ControlRequestBody::TAGS.contains(&known) => {
            Reply::Error(format!("Malformed control request: the fields of {known} do not fit"))
        }
        other => unsupported(other),
    }
}
