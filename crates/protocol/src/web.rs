//! A JSON request over HTTP and its answer, as plain values: `hooks` asks for the request, `models` owns the
//! client that sends it, and neither may depend on the other. Nothing here crosses the standard streams.

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
    /// More of the answer than this is not read.
    pub max_reply_bytes: usize,
    /// From the first byte out to the last byte in.
    pub timeout: Duration,
}

/// The answer to a [`JsonPost`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebReply {
    /// The status code.
    pub status: u16,
    /// The body, as far as it was read.
    pub body: String,
    /// Whether there was more.
    pub is_cut: bool,
}

/// There is no answer. No text here repeats the address: it may hold a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebError {
    /// It took too long.
    #[error("no answer within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The request cannot be made.
    #[error("{0}")]
    Unusable(String),
    /// The machine had nothing left to ask with: no descriptor, no thread, no memory. Nothing was sent, and a
    /// later try may succeed.
    #[error("{0}")]
    Exhausted(String),
    /// The other side was not reached, or broke off.
    #[error("{0}")]
    Failed(String),
}
