//! Handles the lines of the host, between turns and during one: prompts are queued, requests get a reply, replies go to
//! the question they belong to. No malformed line is dropped in silence: a request gets an error, everything else a
//! line in the log.

use std::sync::Arc;

use lathe_protocol::control::{ControlError, ControlResponse};
use lathe_protocol::text::shorten;
use lathe_protocol::{BlockView, Inbound, InboundUser, MessageContent};

use crate::control;
use crate::control::pending_requests::PendingRequests;
use crate::state::agent::AgentHandle;
use crate::state::host_questions::SettledQuestion;
use crate::state::queue::{PromptPriority, QueueAdmission, SeenBefore};
use crate::state::wire_names::PromptState;
use crate::turn::outcome::TurnHandle;

/// How much of a malformed line is shown.
const SHOWN_CHARS: usize = 200;

/// Handles one line of the host, between turns or during one. Must not wait for the model or for another line,
/// because no line is read meanwhile. `pending` keeps requests that are replied to later.
pub(crate) async fn take(
    agent: &Arc<AgentHandle>,
    pending: &mut PendingRequests,
    line: Inbound,
    turn: Option<&TurnHandle>,
) {
    match line {
        Inbound::User(prompt) => admit(agent, prompt, turn).await,
        Inbound::ControlRequest(request) => control::handle(agent, pending, request, turn).await,
        Inbound::ControlResponse(response) => settle(agent, response).await,
        Inbound::ControlCancelRequest(cancel) => pending.withdraw(&cancel.request_id),
        Inbound::UpdateEnvironmentVariables(update) => {
            agent.workspace.env.set_by_host(update.variables);
        }
        Inbound::KeepAlive(_) => {}
        line @ Inbound::Unknown(_) => refuse(agent, &line).await,
    }
}

/// Hands a reply of the host to the question it belongs to. A late reply is ignored; one to a question that was never
/// asked is reported to the host and logged.
async fn settle(agent: &AgentHandle, response: ControlResponse) {
    match agent.session.questions.settle(response) {
        // A late reply is normal: the question was withdrawn while the host was writing it.
        SettledQuestion::Answered | SettledQuestion::Late => {}
        SettledQuestion::NobodyAsked { id } => {
            let text = format!("an answer to request {id:?} came, and there was no such request");
            agent.session.trouble("unexpected_control_response", &text).await;
        }
    }
}

/// Reports a line that cannot be handled: an error reply to a control request with an id, otherwise a notice to the
/// host and the log. A line of an unknown type is only logged.
async fn refuse(agent: &AgentHandle, line: &Inbound) {
    let kind = line.tag();
    match (kind, line.request_id()) {
        ("control_request", Some(id)) => {
            let error = ControlError {
                request_id: id.to_owned(),
                error: "Malformed control request: it has no `request` object with a `subtype`".to_owned(),
                ..ControlError::default()
            };
            agent.session.emit(ControlResponse::from(error)).await;
        }
        ("user" | "control_request" | "control_response" | "control_cancel_request", _)
        | ("update_environment_variables", _) => {
            let text = format!("a line of type {kind} does not fit and is ignored: {}", shown(line));
            agent.session.trouble("malformed_line", &text).await;
        }
        // A host of another version may send more than this one knows, which does not concern the conversation.
        _ => agent
            .session
            .process
            .host
            .log(&format!("a line of unknown type {kind:?} is ignored: {}", shown(line))),
    }
}

/// Returns the line as JSON for a message, cut to [`SHOWN_CHARS`], because the host decides how long a line is.
fn shown(line: &Inbound) -> String {
    let text = serde_json::to_string(line).unwrap_or_default();
    shorten(&text, SHOWN_CHARS).into_owned()
}

/// Puts a prompt into the queue and tells the host so. Results of tool calls in it are left out, which the host is
/// told. A prompt whose id was seen before is only acknowledged, and one with the priority `now` also ends the running
/// turn.
async fn admit(agent: &AgentHandle, mut prompt: InboundUser, turn: Option<&TurnHandle>) {
    if let Some(dropped) = drop_results(&mut prompt) {
        let text = format!("results of calls that this session did not make are left out: {dropped}");
        agent.session.trouble("unknown_tool_result", &text).await;
    }
    let (uuid, priority) = (prompt.uuid.clone(), PromptPriority::of(&prompt));
    let copy = prompt.clone();
    // Not inside the `match`, which would hold the lock while frames are sent.
    let admitted = agent.session.queue().admit(prompt);
    match admitted {
        QueueAdmission::Duplicate(seen) => {
            agent.session.replay(&copy).await;
            if seen == SeenBefore::EarlierRun {
                // This run will never report how the prompt ended, because it has ended before.
                agent.session.emit_lifecycle(uuid.as_deref(), PromptState::Completed).await;
            }
        }
        QueueAdmission::Queued => {
            agent.session.emit_lifecycle(uuid.as_deref(), PromptState::Queued).await;
            if let (PromptPriority::Now, Some(turn)) = (priority, turn) {
                turn.preempt.cancel();
            }
        }
    }
}

/// Removes results of tool calls from a prompt, because they are made here and the API refuses a result without its
/// call. Returns the ids of the calls they name, separated by commas, or `None` if there were none. A prompt that held
/// nothing else gets a text in their place, because its host waits for a result.
fn drop_results(prompt: &mut InboundUser) -> Option<String> {
    let MessageContent::Blocks(blocks) = &mut prompt.message.content else { return None };
    let mut dropped = Vec::new();
    blocks.retain(|block| {
        if let BlockView::ToolResult(result) = block.view() {
            dropped.push(result.tool_use_id.to_owned());
            return false;
        }
        true
    });
    if !dropped.is_empty() && blocks.is_empty() {
        prompt.message.content =
            MessageContent::Text("(A message that held only results of unknown tool calls.)".to_owned());
    }
    (!dropped.is_empty()).then(|| dropped.join(", "))
}
