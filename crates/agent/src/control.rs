//! What a host may ask of a running session. Requests get their reply at once, whatever the current turn is doing, and
//! each gets exactly one: a success, or an error that says what is wrong.
//!
//! One file per sort of request: `initialize.rs` the handshake, `change.rs` what alters the session, `model.rs` its
//! model, `inspect.rs` and `listing.rs` what only reads it, `side_questions.rs` questions to the model outside of the
//! conversation. Requests that have to wait go through `pending_requests.rs`, so that the host's lines are read
//! meanwhile.

mod change;
mod context;
pub mod context_report;
mod initialize;
mod inspect;
mod listing;
mod model;
pub mod pending_requests;
mod rewind;
mod side_questions;

use std::sync::Arc;

use lathe_protocol::control::{ControlError, RenameSessionRequest};
use lathe_protocol::{ControlRequest, ControlRequestBody, ControlResponse};
use serde_json::{Value, json};

use crate::control::pending_requests::PendingRequests;
use crate::state::agent::AgentHandle;
use crate::state::wire_names::PromptState;
use crate::turn::outcome::TurnHandle;

/// The reply to a request.
pub(crate) enum Reply {
    /// Done, without a value.
    Ack,
    /// Done, with this value.
    Success(Value),
    /// Not done.
    Error(String),
    /// Not done, with a code for programs.
    Coded(String, &'static str),
    /// The reply has been sent already.
    Sent,
}

/// Gives the session a title for the `/rename` command, with the same check as the host's request: a blank title is
/// refused. The error is a text for the user.
pub(crate) async fn rename(agent: &Arc<AgentHandle>, title: &str) -> Result<(), String> {
    let body = RenameSessionRequest { title: title.to_owned(), ..RenameSessionRequest::default() };
    match change::rename(agent, &body).await {
        Reply::Success(_) | Reply::Ack | Reply::Sent => Ok(()),
        Reply::Error(text) | Reply::Coded(text, _) => Err(text),
    }
}

pub(crate) use inspect::cost_text;
pub(crate) use model::switch as switch_model;

/// Handles one control request of the host. Requests that ask the model or the host are started in `pending` and get
/// their reply later, also a change of the model that hooks or an earlier change delay; all others have their reply
/// when this returns. `turn` is the running turn, if there is one.
pub(crate) async fn handle(
    agent: &Arc<AgentHandle>,
    pending: &mut PendingRequests,
    request: ControlRequest,
    turn: Option<&TurnHandle>,
) {
    let id = request.request_id.clone();
    let (agent, body) = (agent.clone(), request.request);
    let answer = match body {
        ControlRequestBody::SideQuestion(body) => {
            let request = id.clone();
            return pending.start(id, |withdraw| side_questions::question(agent, request, body, withdraw));
        }
        ControlRequestBody::GenerateSessionTitle(body) => {
            let request = id.clone();
            return pending.start(id, |withdraw| side_questions::title(agent, request, body, withdraw));
        }
        ControlRequestBody::SetModel(body) => {
            let Some(reply) = model::set(&agent, pending, id.clone(), body).await else { return };
            reply
        }
        body => dispatch(&agent, &id, body, turn).await,
    };
    reply(&agent, id, answer).await;
}

/// Sends the reply to the request `id`. Every request must get exactly one; [`Reply::Sent`] means that it has it
/// already.
pub(crate) async fn reply(agent: &AgentHandle, id: String, reply: Reply) {
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
    agent.session.emit(response).await;
}

/// Passes a request to the code for its kind and returns the reply, which the caller sends. A handler that must send
/// something right after its reply sends the reply itself, for which it needs `id`, and returns [`Reply::Sent`].
///
/// Requests that wait for the model or the host are taken out in [`handle`] before this is called, because the host's
/// lines are not read while a handler runs. `turn` is the turn that is running, if there is one.
async fn dispatch(
    agent: &Arc<AgentHandle>,
    id: &str,
    body: ControlRequestBody,
    turn: Option<&TurnHandle>,
) -> Reply {
    use ControlRequestBody as Body;
    match body {
        Body::Initialize(body) => initialize::handle(agent, id, &body, turn).await,
        Body::Interrupt(body) => change::interrupt(agent, &body, turn).await,
        Body::SetPermissionMode(body) => change::permission_mode(agent, id, &body).await,
        Body::SetMaxThinkingTokens(body) => change::thinking(agent, &body),
        Body::ApplyFlagSettings(body) => change::flag_settings(agent, &body).await,
        Body::UpdateSettings(body) => change::settings(agent, &body).await,
        Body::RenameSession(body) => change::rename(agent, &body).await,
        Body::CancelAsyncMessage(body) => {
            let cancelled = agent.session.queue().cancel(&body.message_uuid);
            if cancelled {
                agent.session.emit_lifecycle(Some(&body.message_uuid), PromptState::Cancelled).await;
            }
            Reply::Success(json!({"cancelled": cancelled}))
        }
        Body::GetSettings(_) => inspect::settings(agent),
        Body::GetContextUsage(_) => context::usage(agent),
        Body::GetSessionCost(_) => inspect::cost(agent),
        Body::GetUsage(_) => inspect::usage(agent),
        Body::ListModels(_) => Reply::Success(json!({"models": agent.session.process.catalog.choices()})),
        Body::GetBinaryVersion(_) => inspect::version(agent),
        Body::FileSuggestions(body) => inspect::file_suggestions(agent, &body.query),
        Body::ReadFile(body) => inspect::read_file(agent, &body),
        Body::ListPermissionRules(_) => listing::permission_rules(agent),
        Body::GetHooksListing(_) => listing::hooks(agent),
        Body::McpStatus(_) => {
            Reply::Success(json!({"mcpServers": agent.session.introduction().mcp_status()}))
        }
        Body::McpSetServers(body) => inspect::mcp_set_servers(&body),
        Body::McpReconnect(body) => Reply::Error(format!("Server not found: {}", body.server_name)),
        Body::McpToggle(body) => Reply::Error(format!("Server not found: {}", body.server_name)),
        Body::McpReadResource(body) => Reply::Error(format!("Server not found: {}", body.server_name)),
        Body::McpCall(body) => inspect::mcp_call(&body.tool),
        Body::SetMcpPermissionModeOverride(_) => {
            Reply::Success(json!({"warning": "there is no such MCP server; the override has no effect"}))
        }
        Body::RewindFiles(body) => rewind::files(agent, &body).await,
        Body::BackgroundTasks(body) => {
            let moved = agent.session.background_for_host(&body).await;
            let is_one = body.tool_use_id.is_some();
            Reply::Success(if is_one { json!({"backgrounded": moved}) } else { json!({}) })
        }
        Body::StopTask(body) => {
            agent.session.stop_for_host(&body.task_id).await;
            Reply::Success(json!({}))
        }
        Body::GetTaskOutput(body) => match agent.session.output_for_host(&body.task_id) {
            Some(output) => Reply::Success(json!(output)),
            None => Reply::Error(format!("No task found with ID: {}", body.task_id)),
        },
        Body::EndSession(_) => change::end_session(agent).await,
        Body::ReloadPlugins(_) => Reply::Success(
            json!({"commands": [], "agents": [], "plugins": [], "mcpServers": [], "error_count": 0}),
        ),
        Body::ReloadSkills(_) => Reply::Success(json!({"skills": []})),
        Body::ReloadOutputStyles(_) => {
            Reply::Success(json!({"available_output_styles": agent.session.output_styles}))
        }
        Body::RegisterRepoRoot(body) => inspect::register_repo_root(&body.directory),
        Body::SeedReadState(body) => change::read_state(agent, &body),
        Body::SetHasSubscribers(_) => Reply::Ack,
        Body::McpMessage(body) => Reply::Error(format!("Server not found: {}", body.server_name)),
        // The model and side questions are handled in `handle`; most of the others are requests that only a session
        // sends.
        body @ (Body::SetColor(_)
        | Body::SetModel(_)
        | Body::SideQuestion(_)
        | Body::GenerateSessionTitle(_)
        | Body::CanUseTool(_)
        | Body::HookCallback(_)
        | Body::Elicitation(_)
        | Body::RequestUserDialog(_)) => unsupported(body.tag()),
        body @ Body::Unknown(_) => unknown(body.tag()),
    }
}

/// Returns the error for a subtype that is not supported. The code `unsupported_request` lets a host tell it from a
/// request that failed.
fn unsupported(subtype: &str) -> Reply {
    Reply::Coded(format!("Unsupported control request subtype: {subtype}"), "unsupported_request")
}

/// Returns the error for a request that was not recognised: of an unknown subtype, or of a known one whose fields do
/// not fit. For `set_permission_mode` it is the error for an unknown mode.
fn unknown(subtype: &str) -> Reply {
    match subtype {
        // Fields that do not fit mean an unknown mode here, for which programs know a code.
        "set_permission_mode" => change::unknown_mode(),
        known if ControlRequestBody::TAGS.contains(&known) => {
            Reply::Error(format!("Malformed control request: the fields of {known} do not fit"))
        }
        other => unsupported(other),
    }
}
