//! What becomes of a line that the host writes, whether a turn is under way or not: prompts are queued,
//! requests answered, answers handed to whoever asked. A line that makes no sense is never dropped without
//! a word: what can be answered gets an error, and everything else a line in the log.

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

/// How much of a line that makes no sense is shown.
const SHOWN_CHARS: usize = 200;

/// Takes in a line that arrived between turns or during one.
pub(crate) async fn take(
    agent: &Arc<AgentHandle>,
    beside: &mut PendingRequests,
    line: Inbound,
    turn: Option<&TurnHandle>,
) {
    match line {
        Inbound::User(prompt) => admit(agent, prompt, turn).await,
        Inbound::ControlRequest(request) => control::answer(agent, beside, request, turn).await,
        Inbound::ControlResponse(response) => settle(agent, response).await,
        Inbound::ControlCancelRequest(cancel) => beside.withdraw(&cancel.request_id),
        Inbound::UpdateEnvironmentVariables(update) => {
            agent.workspace.env.set_by_host(update.variables);
        }
        Inbound::KeepAlive(_) => {}
        line @ Inbound::Unknown(_) => refuse(agent, &line).await,
    }
}

/// Hands an answer to whoever asked. An answer that comes too late is nobody's fault; one to a question
/// that was never asked is said back.
async fn settle(agent: &AgentHandle, response: ControlResponse) {
    match agent.session.questions.settle(response) {
        SettledQuestion::Answered | SettledQuestion::Late => {}
        SettledQuestion::NobodyAsked { id } => {
            let text = format!("an answer to request {id:?} came, and there was no such request");
            agent.session.trouble("unexpected_control_response", &text).await;
        }
    }
}

/// A line of a type nobody knows, or of a known one that does not fit.
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
        // Hosts of another version may say more than we know; that is no trouble for the conversation.
        _ => agent
            .session
            .process
            .host
            .log(&format!("a line of unknown type {kind:?} is ignored: {}", shown(line))),
    }
}

fn shown(line: &Inbound) -> String {
    let text = serde_json::to_string(line).unwrap_or_default();
    shorten(&text, SHOWN_CHARS).into_owned()
}

/// Puts a prompt into the queue; one that was seen before is only acknowledged.
async fn admit(agent: &AgentHandle, mut prompt: InboundUser, turn: Option<&TurnHandle>) {
    if let Some(dropped) = drop_results(&mut prompt) {
        let text = format!("results of calls that this session did not make are left out: {dropped}");
        agent.session.trouble("unknown_tool_result", &text).await;
    }
    let (uuid, priority) = (prompt.uuid.clone(), PromptPriority::of(&prompt));
    let copy = prompt.clone();
    let admitted = agent.session.queue().admit(prompt);
    match admitted {
        QueueAdmission::Duplicate(seen) => {
            agent.session.replay(&copy).await;
            if seen == SeenBefore::EarlierRun {
                // Nothing of this run will ever tell how it ended: it has.
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

/// Takes results of tool calls out of a prompt: calls are answered here, and the model's API refuses an answer
/// without its call. Returns the calls they claim to be about. A prompt is never left empty, because its host
/// waits for a result.
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
