//! The hooks around a tool call: what they are told before and after it, and what their answers do to it.

use std::sync::Arc;

use lathe_hooks::{ContextText, Outcome, PermissionVerdict, ToolOutputChange};
use lathe_protocol::hooks::{
    BatchedCall, HookEventInput, PostToolBatchInput, PostToolUseFailureInput, PostToolUseInput,
    PreToolUseInput,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::shared::Shared;
use crate::toolrun::{Answered, ToolCall};

/// What hooks add to the answer of a call, whatever becomes of it.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// Notes for the model.
    pub notes: Vec<String>,
    /// Whether the turn is to end once the call is answered.
    pub stops: bool,
}

impl Said {
    fn of(outcome: &Outcome) -> Self {
        Self {
            notes: outcome.contexts.iter().map(ContextText::line).collect(),
            stops: outcome.stop.is_some(),
        }
    }

    /// The answer with what was said before the call in front of what was said after it.
    pub fn added_to(self, mut answered: Answered) -> Answered {
        let after = std::mem::replace(&mut answered.notes, self.notes);
        answered.notes.extend(after);
        answered.stops |= self.stops;
        answered
    }
}

/// A call after the hooks that come first.
pub struct Before {
    /// The input to go on with.
    pub input: Value,
    /// What they say about permission.
    pub verdict: Option<PermissionVerdict>,
    pub said: Said,
}

/// `PreToolUse`.
pub async fn before(
    shared: &Arc<Shared>,
    call: &ToolCall,
    input: Value,
    cancel: &CancellationToken,
) -> Before {
    let event = PreToolUseInput {
        tool_name: call.name.clone(),
        tool_input: input.clone(),
        tool_use_id: call.id.clone(),
        ..PreToolUseInput::default()
    };
    let outcome = shared.fire(HookEventInput::PreToolUse(event), Some(&call.id), cancel).await;
    let said = Said::of(&outcome);
    Before { input: outcome.updated_input.unwrap_or(input), verdict: outcome.permission, said }
}

/// `PostToolUse` or `PostToolUseFailure`.
pub async fn after(
    shared: &Arc<Shared>,
    mut answered: Answered,
    duration_ms: u64,
    cancel: &CancellationToken,
) -> Answered {
    let failed = answered.block["is_error"] == true;
    let call = &answered.call;
    let event = if failed {
        HookEventInput::PostToolUseFailure(PostToolUseFailureInput {
            tool_name: call.name.clone(),
            tool_input: call.input.clone(),
            tool_use_id: call.id.clone(),
            error: answered.block["content"].as_str().unwrap_or("").to_owned(),
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
    let outcome = shared.fire(event, Some(&call.id.clone()), cancel).await;
    let said = Said::of(&outcome);
    answered.notes.extend(outcome.blocks.iter().map(|block| block.blocking_error()));
    answered.notes.extend(said.notes);
    answered.stops |= said.stops;
    if let Some(change) = outcome.tool_output {
        replace_output(&mut answered, change);
    }
    answered
}

/// `PostToolBatch`: all calls of one answer have been answered.
pub async fn after_batch(
    shared: &Arc<Shared>,
    tool_calls: Vec<BatchedCall>,
    cancel: &CancellationToken,
) -> Said {
    let event = PostToolBatchInput { tool_calls, ..PostToolBatchInput::default() };
    let outcome = shared.fire(HookEventInput::PostToolBatch(event), None, cancel).await;
    let mut said = Said::of(&outcome);
    said.notes.extend(outcome.blocks.iter().map(|block| block.blocking_error()));
    said.stops |= !outcome.blocks.is_empty();
    said
}

/// Puts another output in the place of the tool's, if it has the tool's shape.
fn replace_output(answered: &mut Answered, change: ToolOutputChange) {
    let fits = match (&answered.result, &change.value) {
        (Value::Object(had), Value::Object(has)) => has.keys().all(|key| had.contains_key(key)),
        (Value::String(_), Value::String(_)) | (Value::Array(_), Value::Array(_)) => true,
        _ => false,
    };
    if !fits {
        return;
    }
    let text = match &change.value {
        Value::String(text) => json!(text),
        Value::Object(fields) => {
            fields.get("stdout").cloned().unwrap_or_else(|| json!(change.value.to_string()))
        }
        blocks => blocks.clone(),
    };
    answered.block["content"] = text;
    answered.result = change.value;
}
