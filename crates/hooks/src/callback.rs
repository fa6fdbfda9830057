//! Hooks that the host runs: the input goes out as a control request, the output comes back as JSON in the reply.
//!
//! The surprising thing: a PreToolUse callback that does not reply, or cannot be reached, blocks the call, while one
//! that replies with an error or with invalid output counts as no opinion unless it was registered with
//! `onFailure: block`.

use std::time::Duration;

use lathe_protocol::HookEvent;

use crate::answer::Answer;
use crate::handler::{Firing, with_deadline};
use crate::registry::OnFailure;
use crate::{CallbackCall, CallbackError, Consequence, ProblemKind};

/// Sends the input to the host and reads the reply. Without a connection it fails like a host that does not reply,
/// except at SessionEnd, where a closed connection is expected. After a cancellation even a valid reply does not count.
pub(crate) async fn run(
    id: &str,
    on_failure: OnFailure,
    event: &HookEvent,
    timeout: Duration,
    firing: &Firing<'_>,
) -> Answer {
    let cancel = firing.context.cancel;
    let reply = match &firing.services.callbacks {
        Some(callbacks) => {
            let own_id;
            let tool_use_id = match &firing.tool_use_id {
                Some(id) => id,
                // The request has an id even if the event is not about a call.
                None => {
                    own_id = (firing.services.new_id)();
                    &own_id
                }
            };
            let call =
                CallbackCall { callback_id: id, event, input: &firing.value, tool_use_id, timeout, cancel };
            with_deadline(timeout, cancel, callbacks.call(call)).await
        }
        None => Some(Err(CallbackError::Closed)),
    };
    // After a cancellation even a valid reply is not a verdict: the action it is about does not happen.
    if cancel.is_cancelled() {
        return Answer::cancelled();
    }
    let (why, silent) = match reply.unwrap_or(Err(CallbackError::TimedOut)) {
        Ok(value) => match Answer::of_json(&value, event) {
            Ok(answer) => return answer,
            Err(why) => (why, Silent::No),
        },
        Err(CallbackError::Cancelled) => return Answer::cancelled(),
        Err(error @ CallbackError::Refused(_)) => (error.to_string(), Silent::No),
        Err(CallbackError::TimedOut) => {
            (format!("no answer within {} s", timeout.as_secs_f64()), Silent::Yes)
        }
        // The session ends because the host has closed the connection, so a missing reply is expected.
        Err(CallbackError::Closed) if *event == HookEvent::SessionEnd => return Answer::default(),
        Err(error @ CallbackError::Closed) => (error.to_string(), Silent::Yes),
    };
    failed(id, why, on_failure, silent, event)
}

/// Whether the host failed to reply at all.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Silent {
    Yes,
    No,
}

/// Creates the result of a failed callback. A PreToolUse callback that got no reply blocks, since it may be a guard;
/// other failures block only with `onFailure: block`.
fn failed(id: &str, why: String, on_failure: OnFailure, silent: Silent, event: &HookEvent) -> Answer {
    let blocks = match (on_failure, silent) {
        (OnFailure::Block, _) => true,
        (OnFailure::Continue, Silent::Yes) => *event == HookEvent::PreToolUse,
        (OnFailure::Continue, Silent::No) => false,
    };
    let consequence = if blocks { Consequence::Blocks } else { Consequence::GoesOn };
    let refusal = blocks.then(|| match on_failure {
        OnFailure::Block => format!("[callback]: {id} failed, and its onFailure is \"block\": {why}"),
        OnFailure::Continue => format!("[callback]: {id} did not respond: {why}"),
    });
    let problem = ProblemKind::CallbackFailed { callback_id: id.to_owned(), why, consequence };
    Answer { refusal, problems: vec![problem], ..Answer::default() }
}
