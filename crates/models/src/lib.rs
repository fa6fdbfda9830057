//! Everything that talks to a model: the [`Model`] trait that the agent loop drives, the Anthropic Messages client that
//! implements it, and the cost of a request.
//!
//! One call to [`Model::stream`] is one attempt. The caller decides with [`retry::RetryPolicy`] whether to retry,
//! because only the loop knows which part of a broken response it has already acted on. This crate knows no tools,
//! sessions or permissions, and it does not read the environment: the caller passes credentials and addresses in.

pub mod anthropic;
pub mod betas;
mod body;
pub mod catalog;
pub mod credentials;
pub mod error;
pub mod event;
pub mod failure;
pub mod outgoing;
pub mod prices;
pub mod references;
pub mod request;
pub mod retry;
pub mod secret;
pub mod sse;
pub mod table;
#[cfg(test)]
mod testing;
pub mod web;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

pub use anthropic::{AnthropicClient, ClientConfig, Credential};
pub use error::{ErrorKind, ModelError};
pub use event::{ContentDelta, ModelEvent, ResponseMessage, StreamEvent};
pub use failure::ApiFailure;
pub use outgoing::{OutgoingRequest, Purpose};
pub use prices::{Cost, price};
pub use request::{CacheTtl, ModelRequest, SystemPart, Thinking, WireMessage};
pub use retry::{RetryDecision, RetryPolicy};
pub use secret::Secret;

/// A source of responses: the Messages API, a script, later other vendors.
pub trait Model: Send + Sync {
    /// Sends one request and yields its events as they arrive. One attempt, no retry inside.
    ///
    /// An error before the first event is returned by the future, a later one by the stream; after an
    /// error the stream is over. Dropping the stream aborts the request.
    fn stream(&self, request: Arc<ModelRequest>) -> BoxFuture<'_, Result<ModelStream, ModelError>>;

    /// Sends the request without streaming and returns the whole message as the API wrote it: the last resort when
    /// streams keep breaking.
    fn complete(&self, request: Arc<ModelRequest>) -> BoxFuture<'_, Result<CompleteMessage, ModelError>>;
}

/// A response that is being received.
pub struct ModelStream {
    /// The vendor's id of the request, for support and for `request_id` on the wire.
    pub request_id: Option<String>,
    /// The events in order. `ping` is left out; an API `error` event arrives as an `Err`. Reading to the end (`None`,
    /// right after `MessageStop`) returns the connection for the next turn. Dropping a pending `next()` loses nothing.
    pub events: BoxStream<'static, Result<ModelEvent, ModelError>>,
}

/// A whole response that was not streamed.
#[derive(Debug, Clone)]
pub struct CompleteMessage {
    /// The vendor's id of the request.
    pub request_id: Option<String>,
    /// The `message` object as sent: id, model, content, stop_reason, usage, and unknown fields.
    pub message: serde_json::Value,
}

impl CompleteMessage {
    /// Parses the message into its parts; missing parts read as empty.
    pub fn read(&self) -> ResponseMessage {
        ResponseMessage::parse(&self.message)
    }
}
