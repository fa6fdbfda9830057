//! A request as the API client would send it, for a model that responds without a network.
//!
//! The scripted model checks exactly these bytes, so what it accepts in-process is what the API would have received.
//! Sending is done in `anthropic`; both use the same assembly in `body.rs`. Nothing is serialised for this view: long
//! messages are the allocations of the history.

use std::ops::Range;

use bytes::Bytes;

use crate::anthropic::{API_BETA, API_VERSION};
use crate::betas::{self, BetaPolicy};
pub use crate::body::Purpose;
use crate::body::{self, AssembledBody};
use crate::request::ModelRequest;

/// The headers that describe a body, and the body.
#[derive(Debug)]
pub struct OutgoingRequest {
    headers: Vec<(String, String)>,
    body: AssembledBody,
}

impl OutgoingRequest {
    /// Returns what the client would send for `request`. Credentials and custom headers are not included.
    pub fn new(request: &ModelRequest, purpose: Purpose, policy: BetaPolicy) -> Self {
        let mut headers = vec![(API_VERSION.0.to_owned(), API_VERSION.1.to_owned())];
        let betas = betas::betas_of(request, policy);
        if !betas.is_empty() {
            headers.push((API_BETA.to_owned(), betas.join(",")));
        }
        Self { headers, body: body::assemble(request, purpose, policy) }
    }

    /// Returns `anthropic-version`, and `anthropic-beta` if any beta is sent.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// Returns the pieces of the body, in order.
    pub fn chunks(&self) -> &[Bytes] {
        &self.body.chunks
    }

    /// Returns the byte range of each message in the whole body.
    pub fn message_spans(&self) -> &[Range<usize>] {
        &self.body.messages
    }

    /// Returns the length of the body in bytes.
    pub fn body_len(&self) -> u64 {
        body::total_len(&self.body.chunks)
    }

    /// Returns the body in one piece, which copies it.
    pub fn body_bytes(&self) -> Vec<u8> {
        self.body.chunks.concat()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use lathe_protocol::Role;

    use crate::request::{CacheTtl, WireMessage};
    use crate::testing::request;

    #[test]
    fn spans_are_the_messages_also_where_they_are_sent_in_pieces() {
        let mut asked = request();
        let text = |length: usize| json!({"type": "text", "text": "x".repeat(length)});
        let lengths = [1, 10_000, 3, 200, 20_000];
        asked.messages =
            lengths.iter().map(|length| WireMessage::new(Role::User, &[text(*length)]).unwrap()).collect();
        asked.cache = CacheTtl::FiveMinutes;
        let sent = OutgoingRequest::new(&asked, Purpose::Stream, BetaPolicy::WhenNeeded);
        let whole = sent.body_bytes();
        assert_eq!(whole.len() as u64, sent.body_len());
        let body: Value = serde_json::from_slice(&whole).unwrap();
        assert_eq!(sent.message_spans().len(), lengths.len());
        for (index, span) in sent.message_spans().iter().enumerate() {
            let message: Value = serde_json::from_slice(&whole[span.clone()]).unwrap();
            assert_eq!(message, body["messages"][index], "message {index}");
        }
        let last = &body["messages"][4]["content"][0];
        assert_eq!(
            last["cache_control"],
            json!({"type": "ephemeral"}),
            "the breakpoint is part of the message"
        );
        assert_eq!(sent.headers(), [("anthropic-version".to_owned(), "2023-06-01".to_owned())]);
    }
}
