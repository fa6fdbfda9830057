//! Events between the session and the model other than responses.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Extra;
use crate::wire::{nullable, number};

/// A request will be sent again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ApiRetry {
    pub attempt: u64,
    pub max_retries: u64,
    #[serde(with = "number")]
    pub retry_delay_ms: f64,
    /// Null when there was no response.
    pub error_status: Option<u16>,
    pub error: String,
    /// `{waited_ms, retry_wait_ms}`.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub no_response: Option<Value>,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The fallback model is used from now on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelFallback {
    /// `overloaded`, …
    pub trigger: String,
    pub original_model: String,
    pub fallback_model: String,
    pub content: String,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The model refused, and another one is called.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelRefusalFallback {
    /// `refusal`.
    pub trigger: String,
    /// `retry`.
    pub direction: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    pub original_model: String,
    pub fallback_model: String,
    pub request_id: Option<String>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub api_refusal_category: Option<Option<String>>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub api_refusal_explanation: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retracted_message_uuids: Option<Vec<String>>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub refused_user_message_uuid: Option<Option<String>>,
    pub content: String,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The model refused, without another one to call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelRefusalNoFallback {
    pub original_model: String,
    pub request_id: Option<String>,
    pub api_refusal_category: Option<String>,
    pub api_refusal_explanation: Option<String>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub refused_user_message_uuid: Option<Option<String>>,
    pub content: String,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Estimate of the thinking so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThinkingTokens {
    pub estimated_tokens: u64,
    pub estimated_tokens_delta: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_message_uuid: Option<String>,
    pub uuid: String,
    pub session_id: String,
    #[serde(flatten)]
    pub extra: Extra,
}
