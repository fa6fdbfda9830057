//! The call that a `PreToolUse` hook deferred, between the turn that ended with it and the turn that resumes it. At
//! most one waits in a conversation. Whether a call may be deferred is decided in `call/siblings.rs`; what a turn does
//! with one is `turn/deferred.rs`.

use lathe_transcript::DeferredCall;

use crate::record::tool_call::ToolCall;

/// The deferred call of an agent, if there is one.
#[derive(Debug, Default)]
pub struct DeferredCallState {
    call: Option<ToolCall>,
    /// Whether it is resumed even if no prompt arrives: only the call that a session was resumed with.
    resumes_without_prompt: bool,
}

impl DeferredCallState {
    /// Begins with the call that an earlier run of the session deferred, if there is one; it is then resumed even
    /// without a prompt.
    pub fn from_earlier_run(call: Option<DeferredCall>) -> Self {
        let call = call.map(ToolCall::from_earlier_run);
        Self { resumes_without_prompt: call.is_some(), call }
    }

    /// Returns the deferred call without taking it, or `None` if there is none.
    pub fn call(&self) -> Option<&ToolCall> {
        self.call.as_ref()
    }

    /// Returns whether the session resumes the call without a prompt: true only for a call of an earlier run, until the
    /// next turn begins.
    pub fn resumes_without_prompt(&self) -> bool {
        self.resumes_without_prompt
    }

    /// Keeps a call that a hook deferred, in place of any other. There is never more than one, because a call with
    /// siblings cannot be deferred.
    pub fn set(&mut self, call: ToolCall) {
        self.call = Some(call);
    }

    /// Takes the call, for the turn that resumes it; `None` if there is none. A call that is not taken waits for a
    /// later run.
    pub fn take(&mut self) -> Option<ToolCall> {
        self.call.take()
    }

    /// Notes that a turn begins. Whatever the turn does, a deferred call is resumed only with a prompt from now on.
    pub fn turn_began(&mut self) {
        self.resumes_without_prompt = false;
    }
}
