//! A line of stdout. The CLI serialises this enum, the in-process transport passes it on as it is, and the gateway
//! stores it.
//!
//! `type` is written first. Large payloads are boxed so that a channel of lines stays small; `From` does the boxing.

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
    /// Returns a `system` line.
    pub fn system(message: impl Into<SystemMessage>) -> Self {
        Self::System(message.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{Init, control::ControlRequestBody, system::Status};

    fn read(value: &Value) -> Outbound {
        serde_json::from_value(value.clone()).unwrap()
    }

    #[test]
    fn the_type_comes_first_and_the_subtype_next() {
        let line = Outbound::system(Status { status: None, uuid: "u".to_owned(), ..Default::default() });
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(text, r#"{"type":"system","subtype":"status","status":null,"uuid":"u","session_id":""}"#);
        let text = serde_json::to_string(&Outbound::from(ResultMessage::default())).unwrap();
        assert!(text.starts_with(r#"{"type":"result","subtype":"","is_error":false"#), "{text}");
    }

    #[test]
    fn fields_nobody_knows_are_kept_at_every_level() {
        let value = json!({
            "type": "assistant",
            "message": {
                "id": "m", "type": "message", "role": "assistant", "model": "x", "stop_reason": null,
                "stop_sequence": null, "usage": {
                    "input_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                    "output_tokens": 1, "new_counter": 7,
                },
                "content": [{ "type": "text", "text": "a", "citations": [1] }, { "type": "hologram", "beam": 3 }],
                "weather": "fair",
            },
            "parent_tool_use_id": null, "session_id": "s", "uuid": "u", "tide": { "high": true },
        });
        let line = read(&value);
        assert!(matches!(line, Outbound::Assistant(_)));
        assert_eq!(serde_json::to_value(&line).unwrap(), value);
    }

    #[test]
    fn what_does_not_fit_stays_raw_at_the_level_where_it_does_not_fit() {
        let system = json!({ "type": "system", "subtype": "aurora", "uuid": "u" });
        let line = read(&system);
        let Outbound::System(SystemMessage::Unknown(rest)) = &line else { panic!("{line:?}") };
        assert_eq!(rest, &json!({ "subtype": "aurora", "uuid": "u" }));
        assert_eq!(serde_json::to_value(&line).unwrap(), system);

        let broken = json!({ "type": "result", "subtype": "success", "num_turns": "two" });
        assert_eq!(read(&broken), Outbound::Unknown(broken));

        let request =
            json!({ "type": "control_request", "request_id": "r", "request": { "subtype": "dance" } });
        let Outbound::ControlRequest(request) = read(&request) else { panic!("not a request") };
        assert!(matches!(request.request, ControlRequestBody::Unknown(_)));
    }

    #[test]
    fn frames_of_a_sparse_cli_are_still_frames() {
        let lines = [
            json!({ "type": "assistant", "message": { "model": "m", "content": [] } }),
            json!({ "type": "user", "message": { "content": "hi" } }),
            json!({
                "type": "result", "subtype": "success", "is_error": false, "duration_ms": 1,
                "duration_api_ms": 1, "num_turns": 1, "session_id": "s",
            }),
        ];
        for line in lines {
            assert!(!matches!(read(&line), Outbound::Unknown(_)), "{line}");
        }
    }

    #[test]
    fn a_line_stays_small_enough_for_a_queue_of_them() {
        assert!(size_of::<Outbound>() <= 576, "{}", size_of::<Outbound>());
        assert_eq!(Outbound::system(Init::default()).tag(), "system");
    }
}
