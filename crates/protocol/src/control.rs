//! Control messages: requests and replies between the two ends of a session, beside the conversation.
//!
//! Either end sends a `control_request`, and the other replies once with a `control_response` of the same `request_id`;
//! the sender may withdraw the request with a `control_cancel_request`. Both directions share one body enum. A request
//! with a known name but malformed fields is `Unknown` like any other; [`ControlRequestBody::TAGS`] tells "unsupported"
//! and "malformed" apart.

mod host;
mod initialize;
mod replies;
mod requests;
mod responses;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Extra;
use crate::wire::nullable;

pub use host::*;
pub use initialize::*;
pub use replies::*;
pub use requests::*;
pub use responses::*;

/// A request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ControlRequest {
    /// Chosen by the sender, unique among its open requests.
    pub request_id: String,
    pub request: ControlRequestBody,
    #[serde(flatten)]
    pub extra: Extra,
}

impl ControlRequest {
    /// Returns a request with this id.
    pub fn new(request_id: impl Into<String>, request: impl Into<ControlRequestBody>) -> Self {
        Self { request_id: request_id.into(), request: request.into(), extra: Extra::new() }
    }
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ControlResponse {
    pub response: ControlResponseBody,
    #[serde(flatten)]
    pub extra: Extra,
}

open_enum! {
    /// Success or failure.
    pub enum ControlResponseBody by "subtype" {
        Success(ControlSuccess) = "success",
        Error(ControlError) = "error",
    }
}

/// The request succeeded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ControlSuccess {
    pub request_id: String,
    /// A plain acknowledgement has none; read as `{}`.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub response: Option<Value>,
    /// In the reply to `initialize`: `can_use_tool` requests that are still open.
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
    /// Returns the reply that a request succeeded, without a payload.
    pub fn ack(request_id: impl Into<String>) -> Self {
        ControlSuccess { request_id: request_id.into(), ..Default::default() }.into()
    }

    /// Returns the reply that a request succeeded, with a payload.
    pub fn success(request_id: impl Into<String>, response: Value) -> Self {
        ControlSuccess { request_id: request_id.into(), response: Some(response), ..Default::default() }
            .into()
    }

    /// Returns the reply that a request failed, with a text for people and without an error code.
    pub fn error(request_id: impl Into<String>, error: impl Into<String>) -> Self {
        ControlError { request_id: request_id.into(), error: error.into(), ..Default::default() }.into()
    }

    /// Returns the reply to a request of an unknown subtype, with the text and the error code that clients look for.
    pub fn unsupported(request_id: impl Into<String>, subtype: &str) -> Self {
        ControlError {
            request_id: request_id.into(),
            error: format!("Unsupported control request subtype: {subtype}"),
            error_code: Some("unsupported_request".to_owned()),
            ..Default::default()
        }
        .into()
    }

    /// Returns the id of the request that this replies to; `None` for a reply of an unknown form without one.
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

/// The sender withdraws a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ControlCancelRequest {
    pub request_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}
