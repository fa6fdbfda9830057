//! How a failed model call is told to the host: the text of the synthetic assistant message and the
//! fields beside it.
//!
//! Beginnings of texts, codes and reasons are what clients match; the rest of each sentence is ours. The
//! same failure has two names: the one of an `api_retry` frame ([`ErrorKind::wire_name`]) and the one a
//! turn ends with, which is here.

use std::time::Duration;

use crate::error::{ErrorKind, ModelError};

/// What a turn that ends with a failed model call reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiFailure {
    /// Text of the synthetic assistant message, and `result` of the result frame.
    pub text: String,
    /// `error` of the assistant frame.
    pub error: &'static str,
    /// `api_error_status`: the HTTP status; null on the result where there was none.
    pub api_error_status: Option<u16>,
    /// `api_error_type`: the API's own type, left out where there was none.
    pub api_error_type: Option<String>,
    /// `api_error`: a reason outside HTTP, left out where there is none.
    pub api_error: Option<&'static str>,
    /// `terminal_reason` of the result frame.
    pub terminal_reason: &'static str,
}

impl ApiFailure {
    /// Describes the failed request to `model` that ended a turn, in the words and names that hosts expect.
    pub fn new(error: &ModelError, model: &str) -> Self {
        Self {
            text: text(error, model),
            error: error_code(error),
            api_error_status: error.status,
            api_error_type: error.api_type.clone(),
            api_error: api_error(error.kind),
            terminal_reason: terminal_reason(error.kind),
        }
    }
}

/// Returns the field `error` of the assistant message that stands for the failure. Hosts compare it, so the values must
/// not change.
fn error_code(error: &ModelError) -> &'static str {
    if error.status == Some(402) || error.api_type.as_deref() == Some("billing_error") {
        return "billing_error";
    }
    match error.kind {
        ErrorKind::Overloaded
        | ErrorKind::Server
        | ErrorKind::Connection
        | ErrorKind::StreamCut
        | ErrorKind::StreamError
        | ErrorKind::Stalled
        | ErrorKind::Protocol => "server_error",
        ErrorKind::NoCredentials
        | ErrorKind::Authentication
        | ErrorKind::InvalidRequest
        | ErrorKind::PromptTooLong
        | ErrorKind::ModelNotFound
        | ErrorKind::TooLarge
        | ErrorKind::RateLimit => error.kind.wire_name(),
    }
}

/// Returns the field `api_error`: `connection_failed` if the connection failed, broke or stalled, so that hosts can
/// tell that; otherwise `None`.
fn api_error(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Connection | ErrorKind::StreamCut | ErrorKind::Stalled => Some("connection_failed"),
        ErrorKind::NoCredentials
        | ErrorKind::Authentication
        | ErrorKind::InvalidRequest
        | ErrorKind::PromptTooLong
        | ErrorKind::ModelNotFound
        | ErrorKind::TooLarge
        | ErrorKind::RateLimit
        | ErrorKind::Overloaded
        | ErrorKind::Server
        | ErrorKind::StreamError
        | ErrorKind::Protocol => None,
    }
}

/// Returns the field `terminal_reason` of the result. Hosts compare it, so the values must not change.
fn terminal_reason(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::PromptTooLong => "prompt_too_long",
        ErrorKind::TooLarge => "image_error",
        ErrorKind::NoCredentials
        | ErrorKind::Authentication
        | ErrorKind::InvalidRequest
        | ErrorKind::ModelNotFound
        | ErrorKind::RateLimit
        | ErrorKind::Overloaded
        | ErrorKind::Server
        | ErrorKind::Connection
        | ErrorKind::StreamCut
        | ErrorKind::StreamError
        | ErrorKind::Stalled
        | ErrorKind::Protocol => "api_error",
    }
}

/// Returns the text that hosts show. Its beginnings must not change, because hosts look for them.
fn text(error: &ModelError, model: &str) -> String {
    let message = &error.message;
    let api_error = match error.status {
        Some(status) => format!("API Error: {status} {message}"),
        None => format!("API Error: {message}"),
    };
    match error.kind {
        ErrorKind::NoCredentials => format!("Not logged in · Please run /login ({message})"),
        ErrorKind::Authentication => format!("Failed to authenticate. {api_error}"),
        ErrorKind::PromptTooLong => "Prompt is too long".to_owned(),
        ErrorKind::ModelNotFound => {
            format!("{api_error} · {model} is not known at this address, or this key may not use it")
        }
        ErrorKind::TooLarge => format!(
            "{api_error} · the conversation with its images and attachments is larger than the API \
             accepts: leave some out, or compact it"
        ),
        ErrorKind::RateLimit => rate_limit_text(message, error.retry_after),
        ErrorKind::Overloaded | ErrorKind::Server => {
            format!("{api_error} · the fault is on the server's side and usually passes")
        }
        ErrorKind::InvalidRequest
        | ErrorKind::Connection
        | ErrorKind::StreamCut
        | ErrorKind::StreamError
        | ErrorKind::Stalled
        | ErrorKind::Protocol => api_error,
    }
}

/// Returns the text for a 429, with the wait that the server asks for, if it does.
fn rate_limit_text(message: &str, retry_after: Option<Duration>) -> String {
    let wait = retry_after
        .map(|wait| format!(" · the server asks to wait {} s", wait.as_secs()))
        .unwrap_or_default();
    format!("API Error: Request rejected (429) · {message}{wait}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(status: u16, api_type: &str) -> ApiFailure {
        ApiFailure::new(&ModelError::from_api(Some(status), Some(api_type), "scripted"), "claude-opus-5-5")
    }

    #[test]
    fn texts_begin_as_clients_expect() {
        let begins = |status, api_type, expected: &str| {
            let text = failure(status, api_type).text;
            assert!(text.starts_with(expected), "{status}: {text}");
        };
        begins(401, "authentication_error", "Failed to authenticate. API Error: 401 scripted");
        begins(429, "rate_limit_error", "API Error: Request rejected (429) · scripted");
        begins(404, "not_found_error", "API Error: 404 scripted");
        begins(413, "request_too_large", "API Error: 413 scripted");
        begins(529, "overloaded_error", "API Error: 529 scripted");
        assert_eq!(failure(400, "invalid_request_error").text, "API Error: 400 scripted");
        assert_eq!(failure(403, "permission_error").text, "Failed to authenticate. API Error: 403 scripted");
        let missing = ApiFailure::new(&ModelError::new(ErrorKind::NoCredentials, "set a key"), "m");
        assert_eq!(missing.text, "Not logged in · Please run /login (set a key)");
    }

    #[test]
    fn a_connection_that_failed_has_no_status() {
        let error = ModelError::new(ErrorKind::Connection, "cannot reach localhost: refused");
        let failure = ApiFailure::new(&error, "m");
        assert_eq!(failure.error, "server_error");
        assert_eq!(failure.api_error, Some("connection_failed"));
        assert_eq!(failure.api_error_status, None);
        assert_eq!(failure.text, "API Error: cannot reach localhost: refused");
        assert_eq!(error.kind.wire_name(), "unknown");
    }

    #[test]
    fn codes_and_reasons_follow_the_kind() {
        let row = |status, api_type| {
            let failure = failure(status, api_type);
            (failure.error, failure.terminal_reason)
        };
        assert_eq!(row(400, "invalid_request_error"), ("unknown", "api_error"));
        assert_eq!(row(402, "billing_error"), ("billing_error", "api_error"));
        assert_eq!(row(404, "not_found_error"), ("model_not_found", "api_error"));
        assert_eq!(row(413, "request_too_large"), ("invalid_request", "image_error"));
        assert_eq!(row(529, "overloaded_error"), ("server_error", "api_error"));
        let long = ModelError::from_api(Some(400), None, "prompt is too long: 3 > 2");
        let long = ApiFailure::new(&long, "m");
        assert_eq!((long.error, long.terminal_reason), ("invalid_request", "prompt_too_long"));
        assert_eq!(long.text, "Prompt is too long");
    }

    #[test]
    fn a_long_rate_limit_says_how_long() {
        let mut error = ModelError::from_api(Some(429), None, "quota");
        error.retry_after = Some(Duration::from_secs(7200));
        assert!(ApiFailure::new(&error, "m").text.ends_with("wait 7200 s"));
    }
}
