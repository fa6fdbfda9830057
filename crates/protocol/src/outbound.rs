//! A line of stdout. The same enum is serialised by the CLI, handed over as it is by the in-process
//! transport, and stored by the gateway.
//!
//! `type` is written first. Large payloads are boxed so that a channel of lines stays small; `From` does
//! the boxing.

use crate::control::{ControlCancelRequest, ControlRequest, ControlResponse};
use crate::event::{
    ActiveGoal, AuthStatus, CommandLifecycle, ConversationReset, KeepAlive, PromptSuggestion, RateLimitEvent,
    StreamEventMessage, ToolProgress, ToolUseSummary, TranscriptMirror,
};
use crate::message::{AssistantMessage, UserMessage};
use crate::result::ResultMessage;
use crate::system::SystemMessage;

open_enum! {
    /// One line that a session writes.
    pub enum Outbound by "type" {
        System(SystemMessage) = "system",
        Assistant(Box<AssistantMessage>) = "assistant",
        User(Box<UserMessage>) = "user",
        Result(Box<ResultMessage>) = "result",
        StreamEvent(StreamEventMessage) = "stream_event",
        ToolProgress(ToolProgress) = "tool_progress",
        ToolUseSummary(ToolUseSummary) = "tool_use_summary",
        AuthStatus(AuthStatus) = "auth_status",
        RateLimitEvent(RateLimitEvent) = "rate_limit_event",
        PromptSuggestion(PromptSuggestion) = "prompt_suggestion",
        ConversationReset(ConversationReset) = "conversation_reset",
        ActiveGoal(ActiveGoal) = "active_goal",
        CommandLifecycle(CommandLifecycle) = "command_lifecycle",
        TranscriptMirror(TranscriptMirror) = "transcript_mirror",
        ControlRequest(ControlRequest) = "control_request",
        ControlResponse(ControlResponse) = "control_response",
        ControlCancelRequest(ControlCancelRequest) = "control_cancel_request",
        KeepAlive(KeepAlive) = "keep_alive",
    }
}

from_payloads! {
    Outbound {
        System(SystemMessage),
        Assistant(AssistantMessage) boxed,
        User(UserMessage) boxed,
        Result(ResultMessage) boxed,
        StreamEvent(StreamEventMessage),
        ToolProgress(ToolProgress),
        ToolUseSummary(ToolUseSummary),
        AuthStatus(AuthStatus),
        RateLimitEvent(RateLimitEvent),
        PromptSuggestion(PromptSuggestion),
        ConversationReset(ConversationReset),
        ActiveGoal(ActiveGoal),
        CommandLifecycle(CommandLifecycle),
        TranscriptMirror(TranscriptMirror),
        ControlRequest(ControlRequest),
        ControlResponse(ControlResponse),
        ControlCancelRequest(ControlCancelRequest),
        KeepAlive(KeepAlive),
    }
}

impl Outbound {
    /// A `system` line.
    pub fn system(message: impl Into<SystemMessage>) -> Self {
        Self::System(message.into())
    }
}
