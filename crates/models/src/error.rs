//! Failures between Lathe and a model, classified by what the caller can do about them.

use std::time::Duration;

/// A failed attempt.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// The kind of failure, which decides about retrying.
    pub kind: ErrorKind,
    /// HTTP status, where there was a response.
    pub status: Option<u16>,
    /// The API's own error type, e.g. `overloaded_error`.
    pub api_type: Option<String>,
    /// The API's message, or our own for a connection that failed.
    pub message: String,
    /// The server's `retry-after` as a duration.
    pub retry_after: Option<Duration>,
    /// The vendor's request id, where there was one.
    pub request_id: Option<String>,
}

impl ModelError {
    /// Creates an error of which only the kind and our own message are known.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: None,
            api_type: None,
            message: message.into(),
            retry_after: None,
            request_id: None,
        }
    }

    /// Creates the error that an API error object describes: the `error` member of an error response or event.
    /// `status` is absent for an event inside a stream, whose HTTP status was 200.
    pub fn from_api(status: Option<u16>, api_type: Option<&str>, message: &str) -> Self {
        let kind = match status {
            Some(status) => kind_of_status(status, api_type, message),
            None => kind_of_type(api_type, message),
        };
        Self { status, api_type: api_type.map(str::to_owned), ..Self::new(kind, message) }
    }
}

/// Classifies an error response. The status decides; the API's type only reveals an overload under another status, and
/// only the text tells a prompt that is too long. The order of the arms matters.
fn kind_of_status(status: u16, api_type: Option<&str>, message: &str) -> ErrorKind {
    match status {
        401 | 403 => ErrorKind::Authentication,
        404 => ErrorKind::ModelNotFound,
        413 => ErrorKind::TooLarge,
        429 => ErrorKind::RateLimit,
        529 => ErrorKind::Overloaded,
        _ if api_type == Some("overloaded_error") => ErrorKind::Overloaded,
        408 | 409 | 500.. => ErrorKind::Server,
        400 if says_too_long(message) => ErrorKind::PromptTooLong,
        300..500 => ErrorKind::InvalidRequest,
        _ => ErrorKind::Protocol,
    }
}

/// Classifies an error event inside a stream by its type alone. An unknown type becomes [`ErrorKind::StreamError`],
/// which is retried.
fn kind_of_type(api_type: Option<&str>, message: &str) -> ErrorKind {
    match api_type.unwrap_or("") {
        "overloaded_error" => ErrorKind::Overloaded,
        "rate_limit_error" => ErrorKind::RateLimit,
        "authentication_error" | "permission_error" => ErrorKind::Authentication,
        "not_found_error" => ErrorKind::ModelNotFound,
        "request_too_large" => ErrorKind::TooLarge,
        "invalid_request_error" if says_too_long(message) => ErrorKind::PromptTooLong,
        "invalid_request_error" | "billing_error" => ErrorKind::InvalidRequest,
        _ => ErrorKind::StreamError,
    }
}

/// How APIs and gateways say that a request does not fit. They have no error type for it, only the text.
const TOO_LONG: [&str; 4] =
    ["prompt is too long", "input is too long", "exceed context limit", "maximum context length"];

/// Returns whether the message says that the request does not fit the context window, in any case of letters.
fn says_too_long(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    TOO_LONG.iter().any(|words| message.contains(words))
}

/// The kinds of failure. `error` of an `api_retry` frame is [`ErrorKind::wire_name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// No credential at all: nothing was sent.
    NoCredentials,
    /// 401, 403.
    Authentication,
    /// 400 and the like: the same request will fail again.
    InvalidRequest,
    /// 400 that says the prompt does not fit the window.
    PromptTooLong,
    /// 404.
    ModelNotFound,
    /// 413.
    TooLarge,
    /// 429.
    RateLimit,
    /// 529 and `overloaded_error` events.
    Overloaded,
    /// Other 5xx, 408, 409.
    Server,
    /// No response: refused, reset, DNS, TLS.
    Connection,
    /// The stream ended or broke before the response was complete.
    StreamCut,
    /// An `error` event inside a stream that had begun.
    StreamError,
    /// No byte for the length of the idle watchdog.
    Stalled,
    /// The server sent something that is not the protocol.
    Protocol,
}

impl ErrorKind {
    /// Returns whether sending the same request again can help.
    pub fn is_retryable(self) -> bool {
        match self {
            Self::RateLimit
            | Self::Overloaded
            | Self::Server
            | Self::Connection
            | Self::StreamCut
            | Self::StreamError
            | Self::Stalled
            | Self::Protocol => true,
            Self::NoCredentials
            | Self::Authentication
            | Self::InvalidRequest
            | Self::PromptTooLong
            | Self::ModelNotFound
            | Self::TooLarge => false,
        }
    }

    /// Returns the `error` of an `api_retry` frame. The failure that ends a turn may have another name; see
    /// [`crate::failure::ApiFailure`].
    pub fn wire_name(self) -> &'static str {
        match self {
            Self::NoCredentials | Self::Authentication => "authentication_failed",
            Self::PromptTooLong | Self::TooLarge => "invalid_request",
            Self::ModelNotFound => "model_not_found",
            Self::RateLimit => "rate_limit",
            Self::Overloaded => "overloaded",
            Self::Server | Self::StreamError => "server_error",
            Self::InvalidRequest | Self::Connection | Self::StreamCut | Self::Stalled | Self::Protocol => {
                "unknown"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_what_may_be_done() {
        let kind = |status| ModelError::from_api(Some(status), None, "scripted").kind;
        assert_eq!([400, 402, 422, 307].map(kind), [ErrorKind::InvalidRequest; 4]);
        assert_eq!([401, 403].map(kind), [ErrorKind::Authentication; 2]);
        assert_eq!([408, 409, 500, 502, 503, 599].map(kind), [ErrorKind::Server; 6]);
        assert_eq!(
            [404, 413, 429, 529, 204].map(kind),
            [
                ErrorKind::ModelNotFound,
                ErrorKind::TooLarge,
                ErrorKind::RateLimit,
                ErrorKind::Overloaded,
                ErrorKind::Protocol,
            ]
        );
        let overloaded = ModelError::from_api(Some(503), Some("overloaded_error"), "busy");
        assert_eq!(overloaded.kind, ErrorKind::Overloaded);
    }

    #[test]
    fn a_prompt_that_does_not_fit_is_told_from_other_bad_requests() {
        for text in [
            "prompt is too long: 210000 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length",
            "Input is too long for requested model.",
            "This model's maximum context length is 32768 tokens. However, you requested 40000 tokens",
        ] {
            assert_eq!(ModelError::from_api(Some(400), None, text).kind, ErrorKind::PromptTooLong, "{text}");
            let event = ModelError::from_api(None, Some("invalid_request_error"), text);
            assert_eq!(event.kind, ErrorKind::PromptTooLong);
            assert!(!event.kind.is_retryable());
        }
    }

    #[test]
    fn an_event_inside_a_stream_is_sorted_by_its_type() {
        let kind = |name| ModelError::from_api(None, Some(name), "scripted").kind;
        assert_eq!(kind("overloaded_error"), ErrorKind::Overloaded);
        assert_eq!(kind("rate_limit_error"), ErrorKind::RateLimit);
        assert_eq!(kind("api_error"), ErrorKind::StreamError);
        assert_eq!(kind("something_new"), ErrorKind::StreamError);
        assert_eq!(ModelError::from_api(None, None, "").kind, ErrorKind::StreamError);
    }
}
