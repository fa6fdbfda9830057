//! Calls that a `PreToolUse` hook defers: the turn ends without a result for the call, and the call is resumed when the
//! session goes on, with the hook asked again. Only a call that is alone in its response can be deferred; among several
//! it runs like any other, because its siblings would be left without results.
//!
//! The transcript marks a call as deferred, and as resumed right before it runs: a run that is killed in between leaves
//! an ordinary interrupted call, which is not run a second time unasked.

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::call::siblings::SiblingCalls;
use crate::call::toolrun::{self, PreparedCall, RefusedCall};
use crate::record::tool_call::{CallEnd, ToolCall};
use crate::state::agent::Agent;
use crate::turn::Turn;
use crate::turn::decide::{RoundEnd, TurnEnding};
use crate::turn::outcome::{TurnOutcome, TurnPhase};

impl Turn<'_> {
    /// Keeps a call for a later run and records that it was deferred. Always returns [`RoundEnd::Deferred`], which ends
    /// the turn.
    pub(crate) fn defer_call(&mut self, call: ToolCall) -> RoundEnd {
        self.agent.mark_call("hook_deferred_tool", &call);
        self.agent.deferral.set(call);
        RoundEnd::Deferred
    }

    /// Runs the deferred call, if there is one, before the model is asked, and adds its result to the conversation; it
    /// is not a step of this turn. Returns the outcome if the turn ends with it (deferred again, tool gone,
    /// interrupted, or stopped by a hook), and `None` if the turn begins as usual. A call whose tool is gone stays
    /// deferred for a later turn or run.
    pub(crate) async fn resume_deferred_call(&mut self) -> Option<TurnOutcome> {
        let call = self.agent.deferral.take()?;
        let call = PreparedCall::new(&self.agent.handle, call);
        if let Err(RefusedCall::NoTool) = &call.tool {
            // Kept for a later turn or run, which may have the tool again.
            self.agent.deferral.set(call.call);
            return Some(TurnOutcome::Ended(TurnEnding::DeferredUnavailable));
        }
        let (_known, alone) = watch::channel(SiblingCalls::None);
        let (handle, cancel) = (self.agent.handle.clone(), self.cancel.child_token());
        let mut answered = match toolrun::permitted(&handle, call, alone, &cancel).await {
            Ok(permitted) => {
                // Marked before it runs: if the run is killed meanwhile, the call must not run again.
                self.agent.mark_call("hook_deferred_tool_resumed", &permitted.call);
                toolrun::execute(&handle, *permitted, &cancel).await
            }
            Err(CallEnd::Deferred(call)) => {
                self.defer_call(*call);
                return Some(TurnOutcome::Ended(TurnEnding::Deferred));
            }
            Err(CallEnd::Answered(answered)) => *answered,
        };
        self.add_instructions_due(&mut answered).await;
        self.say_tool_result(&answered).await;
        // The result belongs to an earlier turn, so it is not a step of this one.
        self.stats.user_frames -= 1;
        self.agent.history.add_result(answered.block.into_sent());
        self.agent.tell_model(&answered.notes);
        if answered.interrupted || self.cancel.is_cancelled() {
            self.mark_interrupted(TurnPhase::Tools).await;
            return Some(TurnOutcome::Interrupted(TurnPhase::Tools));
        }
        answered.stops.then_some(TurnOutcome::Ended(TurnEnding::HookStopped))
    }
}

impl Agent {
    /// Records what happened to a deferred call; `kind` is `hook_deferred_tool` or `hook_deferred_tool_resumed`. A
    /// later run reads these marks and must not run a resumed call again, so the second is written before the call
    /// runs.
    pub(crate) fn mark_call(&mut self, kind: &str, call: &ToolCall) {
        let mark: Value =
            json!({"type": kind, "toolUseID": call.id, "toolName": call.name, "toolInput": call.input});
        let frames = &self.handle.frames;
        self.journal.attachment(&mark, &frames.uuid(), &frames.now());
    }
}
