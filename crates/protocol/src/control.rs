//! Control messages: questions and answers between the two ends of a session, beside the conversation.
//!
//! Either end asks with a `control_request`, and the other answers once with a `control_response` of the
//! same `request_id`; the asker may withdraw with a `control_cancel_request`. Both directions share one
//! body enum. A request that is known by name but malformed is `Unknown` like any other; whether to say
//! "unsupported" or "malformed" can be told by [`ControlRequestBody::TAGS`].

mod answers;
mod host;
mod initialize;
mod requests;
mod responses;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Extra;
use crate::wire::nullable;

pub use answers::*;
pub use host::*;
pub use initialize::*;
pub use requests::*;
pub use responses::*;

/// A question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ControlRequest {
    /// Chosen by the asker, unique among its open requests.
    pub request_id: String,
    pub request: ControlRequestBody,
    #[serde(flatten)]
    pub extra: Extra,
}

impl ControlRequest {
    /// A request with this id.
    pub fn new(request_id: impl Into<String>, request: impl Into<ControlRequestBody>) -> Self {
        Self { request_id: request_id.into(), request: request.into(), extra: Extra::new() }
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ControlResponse {
    pub response: ControlResponseBody,
    #[serde(flatten)]
    pub extra: Extra,
}

open_enum! {
    /// Whether the answer is one.
    pub enum ControlResponseBody by "subtype" {
        Success(ControlSuccess) = "success",
        Error(ControlError) = "error",
    }
}

/// The request worked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ControlSuccess {
    pub request_id: String,
    /// A mere acknowledgement has none; read as `{}`.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub response: Option<Value>,
    /// Beside the answer to `initialize`: `can_use_tool` requests that still wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_permission_requests: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_user_dialog_requests: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_elicitation_requests: Option<Vec<Value>>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The request failed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ControlError {
    pub request_id: String,
    pub error: String,
    /// `unsupported_request`, `invalid_mode`, `reload_plugins_busy`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_permission_requests: Option<Vec<Value>>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl ControlResponse {
    /// An acknowledgement without a payload.
    pub fn ack(request_id: impl Into<String>) -> Self {
        ControlSuccess { request_id: request_id.into(), ..Default::default() }.into()
    }

    /// A success with a payload.
    pub fn success(request_id: impl Into<String>, response: Value) -> Self {
        ControlSuccess { request_id: request_id.into(), response: Some(response), ..Default::default() }
            .into()
    }

    /// A failure.
    pub fn error(request_id: impl Into<String>, error: impl Into<String>) -> Self {
        ControlError { request_id: request_id.into(), error: error.into(), ..Default::default() }.into()
    }

    /// The answer to a subtype nobody knows, worded as clients match it.
    pub fn unsupported(request_id: impl Into<String>, subtype: &str) -> Self {
        ControlError {
            request_id: request_id.into(),
            error: format!("Unsupported control request subtype: {subtype}"),
            error_code: Some("unsupported_request".to_owned()),
            ..Default::default()
        }
        .into()
    }

    /// Id of the request this answers, where the answer has one.
    pub fn request_id(&self) -> Option<&str> {
        match &self.response {
            ControlResponseBody::Success(success) => Some(&success.request_id),
            ControlResponseBody::Error(error) => Some(&error.request_id),
            ControlResponseBody::Unknown(value) => value["request_id"].as_str(),
        }
    }
}

impl From<ControlSuccess> for ControlResponse {
    fn from(success: ControlSuccess) -> Self {
        Self { response: ControlResponseBody::Success(success), extra: Extra::new() }
    }
}

impl From<ControlError> for ControlResponse {
    fn from(error: ControlError) -> Self {
        Self { response: ControlResponseBody::Error(error), extra: Extra::new() }
    }
}

/// The asker no longer wants to know.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ControlCancelRequest {
    pub request_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}
