//! A line of stdin.
//!
//! Only a line that is not a JSON object is an error, because only that ends a session. A `user` line whose role is
//! wrong, or an unknown control request, is read, and the receiver refuses it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Extra;
use crate::control::{ControlCancelRequest, ControlRequest, ControlResponse};
use crate::event::{KeepAlive, UpdateEnvironmentVariables};
use crate::message::UserTurn;

open_enum! {
    /// One line that a client writes.
    pub enum Inbound by "type" {
        User(InboundUser) = "user",
        ControlRequest(ControlRequest) = "control_request",
        ControlResponse(ControlResponse) = "control_response",
        ControlCancelRequest(ControlCancelRequest) = "control_cancel_request",
        KeepAlive(KeepAlive) = "keep_alive",
        UpdateEnvironmentVariables(UpdateEnvironmentVariables) = "update_environment_variables",
    }
}

impl Inbound {
    /// Returns the id that a reply to this line must carry, also if the rest of the line is malformed; `None` for a
    /// line that gets no reply.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Self::ControlRequest(request) => Some(&request.request_id),
            Self::Unknown(line) => line["request_id"].as_str(),
            Self::User(_)
            | Self::ControlResponse(_)
            | Self::ControlCancelRequest(_)
            | Self::KeepAlive(_)
            | Self::UpdateEnvironmentVariables(_) => None,
        }
    }
}

from_payloads! {
    Inbound {
        User(InboundUser),
        ControlRequest(ControlRequest),
        ControlResponse(ControlResponse),
        ControlCancelRequest(ControlCancelRequest),
        KeepAlive(KeepAlive),
        UpdateEnvironmentVariables(UpdateEnvironmentVariables),
    }
}

/// Why a line of stdin could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The line is not JSON.
    #[error("line is not JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    /// The line is JSON, but a list, a string, a number, …
    #[error("line is not a JSON object")]
    NotAnObject,
}

impl Inbound {
    /// Reads one line of the host. Fails if the line is not a JSON object or a known type lacks what it needs; an
    /// unknown type is not an error but [`Inbound::Unknown`]. Blank lines must be skipped before.
    pub fn parse_line(line: &str) -> Result<Self, LineError> {
        match serde_json::from_str(line)? {
            Self::Unknown(value) if !value.is_object() => Err(LineError::NotAnObject),
            inbound => Ok(inbound),
        }
    }
}

/// A prompt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct InboundUser {
    pub message: UserTurn,
    /// Null for prompts.
    pub parent_tool_use_id: Option<String>,
    /// Any value is accepted and ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The client's id of the message: key for lifecycle frames, rewinding, cancelling and duplicates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Place in the queue while a turn runs: `now`, `next` or `later`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// False: append to the conversation without calling the model.
    #[serde(rename = "shouldQuery", skip_serializing_if = "Option::is_none")]
    pub should_query: Option<bool>,
    #[serde(rename = "isSynthetic", skip_serializing_if = "Option::is_none")]
    pub is_synthetic: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Value>,
    /// Deliver verbatim: no `@file` expansion, no slash commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_composed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pasted_content: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline_pastes: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ControlRequestBody;

    #[test]
    fn only_what_is_no_object_is_an_error() {
        for line in ["", "{", "nonsense", "{\"type\":\"user\"} trailing"] {
            assert!(matches!(Inbound::parse_line(line), Err(LineError::NotJson(_))), "{line}");
        }
        for line in ["[]", "1", "null", "\"user\"", "[\"keep_alive\"]"] {
            assert!(matches!(Inbound::parse_line(line), Err(LineError::NotAnObject)), "{line}");
        }
        for line in ["{}", r#"{"type":5}"#, r#"{"type":"later"}"#] {
            assert!(matches!(Inbound::parse_line(line), Ok(Inbound::Unknown(_))), "{line}");
        }
    }

    #[test]
    fn a_known_type_that_does_not_fit_is_kept_raw() {
        let value = json!({ "type": "user", "message": "hello" });
        let inbound = Inbound::parse_line(&value.to_string()).unwrap();
        assert_eq!(inbound.tag(), "user");
        assert_eq!(inbound, Inbound::Unknown(value));
    }

    #[test]
    fn a_wrong_role_is_read_and_left_to_the_receiver() {
        let line =
            r#"{"type":"user","message":{"role":"assistant","content":"hi"},"parent_tool_use_id":null}"#;
        let Ok(Inbound::User(user)) = Inbound::parse_line(line) else { panic!("not a user line") };
        assert_eq!(user.message.role, "assistant");
    }

    #[test]
    fn a_malformed_request_can_be_told_from_an_unknown_one() {
        let body = |line: &str| match Inbound::parse_line(line) {
            Ok(Inbound::ControlRequest(request)) => request.request,
            other => panic!("{other:?}"),
        };
        let malformed =
            body(r#"{"type":"control_request","request_id":"r","request":{"subtype":"stop_task"}}"#);
        let unknown = body(r#"{"type":"control_request","request_id":"r","request":{"subtype":"dance"}}"#);
        assert!(matches!(malformed, ControlRequestBody::Unknown(_)));
        assert!(ControlRequestBody::TAGS.contains(&malformed.tag()));
        assert!(!ControlRequestBody::TAGS.contains(&unknown.tag()));
    }
}
