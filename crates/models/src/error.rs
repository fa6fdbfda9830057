//! What can go wrong between us and a model, sorted by what the caller may do about it.

use std::time::Duration;

/// A failed attempt.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What sort of failure, which decides about retrying.
    pub kind: ErrorKind,
    /// HTTP status, where there was a response.
    pub status: Option<u16>,
    /// The API's own error type, e.g. `overloaded_error`.
    pub api_type: Option<String>,
    /// The API's message, or ours for a connection that failed.
    pub message: String,
    /// The server's `retry-after`, already turned into a duration.
    pub retry_after: Option<Duration>,
    /// The vendor's request id, where there was one.
    pub request_id: Option<String>,
}

/// The sorts of failure. `error` on the wire is [`ErrorKind::wire_name`].
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
    /// No answer: refused, reset, DNS, TLS.
    Connection,
    /// The stream ended or broke before the answer was complete.
    StreamCut,
    /// An `error` event inside a stream that had begun.
    StreamError,
    /// No byte for the length of the idle watchdog.
    Stalled,
    /// The server sent something that is not the protocol.
    Protocol,
}

impl ErrorKind {
    /// Whether sending the same request again can help.
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
}
