//! A JSON request over HTTP and its response, as plain values: `hooks` makes the request, `models` owns the client that
//! sends it, and neither may depend on the other. Nothing here crosses the standard streams.

use std::time::Duration;

/// A JSON document to be posted.
#[derive(Debug, Clone, Copy)]
pub struct JsonPost<'a> {
    /// `http://` or `https://`.
    pub url: &'a str,
    /// Headers besides `content-type: application/json`.
    pub headers: &'a [(String, String)],
    /// JSON.
    pub body: &'a str,
    /// The most bytes of the response that are read.
    pub max_reply_bytes: usize,
    /// The time limit from the first byte sent to the last byte received.
    pub timeout: Duration,
}

/// The response to a [`JsonPost`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebReply {
    /// The status code.
    pub status: u16,
    /// The body, as far as it was read.
    pub body: String,
    /// Whether the body was longer.
    pub is_cut: bool,
}

/// Why a request got no response. No text here repeats the address: it may hold a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebError {
    /// The time limit was reached.
    #[error("no answer within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The request cannot be made.
    #[error("{0}")]
    Unusable(String),
    /// The machine ran out of what a request needs: descriptors, threads or memory. Nothing was sent, and a later
    /// attempt may succeed.
    #[error("{0}")]
    Exhausted(String),
    /// The connection failed, or was lost.
    #[error("{0}")]
    Failed(String),
}
