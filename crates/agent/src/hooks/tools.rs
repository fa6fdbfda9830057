//! The hooks around a tool call: what they are told before and after it, and what their outcomes change. After a call
//! they get the bounded result, and an output that they put in its place is bounded too.

use std::sync::Arc;

use lathe_hooks::{ContextText, Outcome, PermissionVerdict, ToolOutputChange, ToolOutputKind};
use lathe_protocol::hooks::{
    BatchedCall, HookEventInput, HookPermissionDecision, PostToolBatchInput, PostToolUseFailureInput,
    PostToolUseInput, PreToolUseInput,
};
use lathe_protocol::{CallSubject, HookEvent};
use lathe_tools::{ToolOutput, content_of_result};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::hooks::AboutCall;
use crate::record::bound::ResultBounds;
use crate::record::tool_call::{DescribedInput, ToolCall, ToolCallResult};
use crate::state::agent::AgentHandle;

/// What hooks add to the result of a call, whatever the result is.
#[derive(Debug, Clone, Default)]
pub struct HookNotes {
    /// Notes for the model.
    pub notes: Vec<String>,
    /// Whether the turn ends once the call has its result.
    pub stops: bool,
}

impl HookNotes {
    /// Collects the notes of hooks around a call. If one of them ends the turn, the host is told why.
    async fn of(agent: &AgentHandle, outcome: &Outcome) -> Self {
        if let Some(stop) = &outcome.stop {
            agent.session.tell_stop(stop).await;
        }
        Self {
            notes: outcome.contexts.iter().map(ContextText::line).collect(),
            stops: outcome.stop.is_some(),
        }
    }

    /// Adds these notes, which come from before the call, to its result, in front of the notes from after it.
    pub fn added_to(self, mut answered: ToolCallResult) -> ToolCallResult {
        let after = std::mem::replace(&mut answered.notes, self.notes);
        answered.notes.extend(after);
        answered.stops |= self.stops;
        answered
    }
}

/// The outcome of the PreToolUse hooks of a call.
pub struct PreToolUseOutcome {
    /// The input that hooks want in place of the one they saw.
    pub updated_input: Option<Value>,
    /// Their verdict about permission.
    pub verdict: Option<PermissionVerdict>,
    pub said: HookNotes,
}

impl PreToolUseOutcome {
    /// Returns whether a hook defers the call until the session is resumed.
    pub fn defers(&self) -> bool {
        self.verdict.as_ref().is_some_and(|verdict| verdict.behavior == HookPermissionDecision::Defer)
    }
}

/// Fires PreToolUse for a call. Returns the input that hooks want instead, their verdict and their notes, all empty if
/// no hook has a say; after a cancellation they count for nothing, and the caller has to check the token. Nothing is
/// applied here, but the host is told if a hook ends the turn.
pub async fn before(
    agent: &Arc<AgentHandle>,
    call: &ToolCall,
    told: &DescribedInput,
    cancel: &CancellationToken,
) -> PreToolUseOutcome {
    if !agent.session.listens(&HookEvent::PreToolUse) {
        return PreToolUseOutcome { updated_input: None, verdict: None, said: HookNotes::default() };
    }
    let event = PreToolUseInput {
        tool_name: call.name.clone(),
        tool_input: told.value.clone(),
        tool_use_id: call.id.clone(),
        ..PreToolUseInput::default()
    };
    let about = AboutCall { id: &call.id, description: &told.description };
    let outcome = agent.fire(HookEventInput::PreToolUse(event), Some(about), cancel).await;
    let said = HookNotes::of(agent, &outcome).await;
    PreToolUseOutcome { updated_input: outcome.updated_input, verdict: outcome.permission, said }
}

/// Fires PostToolUse, or PostToolUseFailure after an error, and returns the result with the notes of the hooks; without
/// hooks it is returned as it is. Notices of the hooks are put into the result and not sent: the caller shows them
/// behind it. An output that a hook wants instead is taken only if `may_replace` allows it, and is bounded like the
/// tool's own.
pub async fn after(
    agent: &Arc<AgentHandle>,
    mut answered: ToolCallResult,
    bounds: &ResultBounds,
    duration_ms: u64,
    cancel: &CancellationToken,
) -> ToolCallResult {
    let failed = answered.block.is_error();
    let heard = if failed { HookEvent::PostToolUseFailure } else { HookEvent::PostToolUse };
    if !agent.session.listens(&heard) {
        return answered;
    }
    let call = &answered.call;
    let event = if failed {
        HookEventInput::PostToolUseFailure(PostToolUseFailureInput {
            tool_name: call.name.clone(),
            tool_input: call.input.clone(),
            tool_use_id: call.id.clone(),
            error: answered.block.plain_text().to_owned(),
            is_interrupt: Some(answered.interrupted),
            duration_ms: Some(duration_ms),
            ..PostToolUseFailureInput::default()
        })
    } else {
        HookEventInput::PostToolUse(PostToolUseInput {
            tool_name: call.name.clone(),
            tool_input: call.input.clone(),
            tool_response: answered.result.clone(),
            tool_use_id: call.id.clone(),
            duration_ms: Some(duration_ms),
            ..PostToolUseInput::default()
        })
    };
    let about = AboutCall { id: &call.id, description: &call.description };
    // The host gets the notices behind the result that they are about, so they travel with it.
    let outcome = agent.fire_without_notices(event, Some(about), cancel).await;
    let said = HookNotes::of(agent, &outcome).await;
    answered.notices = outcome.notices();
    answered.notes.extend(outcome.blocks.iter().map(|block| block.blocking_error()));
    answered.notes.extend(said.notes);
    answered.stops |= said.stops;
    if let Some(change) = outcome.tool_output.filter(|change| may_replace(&answered, change)) {
        let output = ToolOutput::new(content_of_result(&change.value), change.value);
        let output = bounds.output(output).await;
        answered.block.set_content(output.content);
        answered.result = output.result;
    }
    answered
}

/// Fires PostToolBatch once all calls of a response have their results, and returns its notes, which go behind the
/// results. A block ends the turn, because the calls have run already.
pub async fn after_batch(
    agent: &Arc<AgentHandle>,
    tool_calls: Vec<BatchedCall>,
    cancel: &CancellationToken,
) -> HookNotes {
    let event = PostToolBatchInput { tool_calls, ..PostToolBatchInput::default() };
    let outcome = agent.fire(HookEventInput::PostToolBatch(event), None, cancel).await;
    let mut said = HookNotes::of(agent, &outcome).await;
    said.notes.extend(outcome.blocks.iter().map(|block| block.blocking_error()));
    // The calls have run, so all that is left to block is the next round.
    said.stops |= !outcome.blocks.is_empty();
    said
}

/// Returns whether an output may replace that of the tool: both have to be text, or lists, or objects, and an object
/// may not have keys that the tool's does not have. A change that is meant for MCP tools counts only for these.
fn may_replace(answered: &ToolCallResult, change: &ToolOutputChange) -> bool {
    let for_this_tool = match change.kind {
        ToolOutputKind::AnyTool => true,
        ToolOutputKind::McpTool => {
            matches!(answered.call.description.subject(), CallSubject::McpTool { .. })
        }
    };
    let has_shape = match (&answered.result, &change.value) {
        (Value::Object(had), Value::Object(has)) => has.keys().all(|key| had.contains_key(key)),
        (Value::String(_), Value::String(_)) | (Value::Array(_), Value::Array(_)) => true,
        _ => false,
    };
    for_this_tool && has_shape
}
