//! Whether a call is alone in its response, which decides whether it can be deferred: a deferral ends the turn, and the
//! siblings of the call would be left without results.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::hooks::tools::PreToolUseOutcome;
use crate::record::tool_call::ToolCall;
use crate::state::agent::AgentHandle;

/// Whether a call is the only one of its response, as far as is known while the response streams in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiblingCalls {
    /// The response has not said so yet, or never will because it was abandoned.
    Unknown,
    /// The call is alone.
    None,
    /// The response has other calls too.
    Some,
}

impl SiblingCalls {
    /// Waits until the response is complete enough to say whether the call has siblings, and returns the answer.
    /// Returns `Unknown` if `cancel` fires first or the sender is dropped, because the response was abandoned.
    pub async fn known(mut from: watch::Receiver<Self>, cancel: &CancellationToken) -> Self {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Self::Unknown,
            known = from.wait_for(|siblings| *siblings != Self::Unknown) => known.map_or(Self::Unknown, |known| *known),
        }
    }
}

/// Drops the verdict of a hook that deferred a call with siblings, and tells the host why. The call goes on as if the
/// hook had said nothing, so the rules alone decide.
pub async fn ignore_deferral(agent: &AgentHandle, call: &ToolCall, before: &mut PreToolUseOutcome) {
    let text = format!(
        "a hook put {} off, which works only for a call that is alone in its answer: it goes on",
        call.name
    );
    agent.session.trouble("defer_ignored", &text).await;
    // The hook has said nothing then, so the rules alone decide.
    before.verdict = None;
}
