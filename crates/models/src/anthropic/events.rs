//! Reads the events of a streamed response, with a watchdog on its bytes.
//!
//! Only `message_stop` completes a response: an end of the connection before it, even a clean one, is a cut. What
//! follows `message_stop` is read for a moment and discarded, because the connection returns to the pool only if the
//! body was read to its end.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::{Response, header};
use serde_json::Value;

use super::response::{self, describe};
use crate::error::{ErrorKind, ModelError};
use crate::event::{ModelEvent, StreamEvent};
use crate::sse::{SseEvent, SseParser};

/// How long the end of the body is awaited after the end of the message.
const DRAIN_TIME: Duration = Duration::from_millis(250);

pub(super) struct EventReader {
    response: Response,
    request_id: Option<String>,
    parser: SseParser,
    ready: VecDeque<SseEvent>,
    /// The error that ends the stream after the events before it.
    failure: Option<ModelError>,
    idle: Duration,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Bytes are expected.
    Open,
    /// The connection has ended; only what was read before is left.
    Ended,
    /// The message is complete; only the end of the body is left.
    Complete,
    /// The stream has ended.
    Over,
}

/// Returns the error `StreamCut` for a stream that ended too early; `reason` is a part of its message.
pub(super) fn cut(reason: &str) -> ModelError {
    ModelError::new(
        ErrorKind::StreamCut,
        format!("the connection closed before the answer was complete: {reason}"),
    )
}

impl EventReader {
    /// Checks that the response is a stream of events, and returns a reader of it; otherwise the error has the
    /// beginning of the body. `idle` is how long the stream may be silent.
    pub(super) async fn open(response: Response, idle: Duration) -> Result<Self, ModelError> {
        let request_id = response::request_id(&response);
        if !is_event_stream(&response) {
            let body = response::beginning(response, idle).await;
            return Err(ModelError { request_id, ..not_a_stream(&body) });
        }
        Ok(Self {
            response,
            request_id,
            parser: SseParser::new(),
            ready: VecDeque::new(),
            failure: None,
            idle,
            state: State::Open,
        })
    }

    /// Returns the next event, or the error that ends the stream; `None` after an error or the end of the message. At
    /// that end the rest of the body is discarded, so that the connection can be reused.
    pub(super) async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if self.state == State::Complete {
                self.drain().await;
            }
            if self.state == State::Over {
                return None;
            }
            if let Some(event) = self.ready.pop_front() {
                match self.read(&event) {
                    Ok(Some(event)) => return Some(Ok(event)),
                    Ok(None) => continue,
                    Err(error) => return Some(Err(self.fail(error))),
                }
            }
            if let Some(error) = self.failure.take() {
                return Some(Err(self.fail(error)));
            }
            self.fill().await;
        }
    }

    /// Ends the stream and returns `error`, with the request id of the response if it has none.
    fn fail(&mut self, error: ModelError) -> ModelError {
        self.state = State::Over;
        ModelError { request_id: error.request_id.or_else(|| self.request_id.clone()), ..error }
    }

    /// Reads the next chunk of the body and stores what it brings: events (perhaps none yet), a failure, or the end.
    /// Any bytes restart the watchdog, so pings keep a slow response open.
    async fn fill(&mut self) {
        match tokio::time::timeout(self.idle, self.response.chunk()).await {
            Ok(Ok(Some(bytes))) => {
                let mut events = Vec::new();
                if let Err(error) = self.parser.push(&bytes, &mut events) {
                    self.failure = Some(ModelError::new(ErrorKind::Protocol, error.to_string()));
                }
                self.ready.extend(events);
            }
            Ok(Ok(None)) => self.end("it ended without message_stop"),
            Ok(Err(error)) => self.end(&describe(&error.without_url())),
            Err(_) => {
                let message = format!("no byte came for {} s inside the answer", self.idle.as_secs_f32());
                self.failure = Some(ModelError::new(ErrorKind::Stalled, message));
            }
        }
    }

    /// Handles the end of the connection: the events that are still in the parser come first, then the error. They may
    /// contain the `message_stop` that makes the response complete, and then the error is never returned.
    fn end(&mut self, reason: &str) {
        self.state = State::Ended;
        self.ready.extend(self.parser.finish());
        self.failure = Some(cut(reason));
    }

    /// Interprets one event; `None` for one that is skipped. An `error` event becomes the error, and `message_stop`
    /// completes the response.
    fn read(&mut self, event: &SseEvent) -> Result<Option<ModelEvent>, ModelError> {
        if event.name == "ping" {
            return Ok(None);
        }
        let raw: Value = match serde_json::from_str(&event.data) {
            Ok(raw @ Value::Object(_)) => raw,
            // Half an event at the end of a broken connection belongs to the cut.
            Ok(_) | Err(_) if self.state == State::Ended => return Ok(None),
            Ok(_) | Err(_) => {
                let message =
                    format!("an event is not a JSON object: {}", response::shown(event.data.as_bytes()));
                return Err(ModelError::new(ErrorKind::Protocol, message));
            }
        };
        match raw["type"].as_str() {
            Some("ping") => return Ok(None),
            Some("error") => return Err(response::from_body(None, event.data.as_bytes())),
            Some(_) | None => {}
        }
        let event = ModelEvent::parse(raw);
        if matches!(event.event, StreamEvent::MessageStop) {
            self.state = State::Complete;
        }
        Ok(Some(event))
    }

    /// Ends the stream and reads the rest of the body for at most [`DRAIN_TIME`], so that the connection can be reused.
    async fn drain(&mut self) {
        self.state = State::Over;
        let to_end = async { while let Ok(Some(_)) = self.response.chunk().await {} };
        // A time-out here is not a failure: the connection is closed instead of reused.
        let _ = tokio::time::timeout(DRAIN_TIME, to_end).await;
    }
}

/// Returns whether the response says that it is a stream of events. One without a content type is accepted, because
/// the parser finds out.
fn is_event_stream(response: &Response) -> bool {
    let Some(kind) = response.headers().get(header::CONTENT_TYPE) else { return true };
    let kind = kind.to_str().unwrap_or("").split(';').next().unwrap_or("").trim();
    kind.eq_ignore_ascii_case("text/event-stream")
}

/// Returns the error for a body that is not a stream: the API's own error if the body is one (it came with status 200),
/// otherwise a protocol error with the beginning of the body.
fn not_a_stream(body: &[u8]) -> ModelError {
    let error = response::from_body(None, body);
    if error.api_type.is_some() {
        return error;
    }
    let message = format!("the answer is not an event stream but begins with: {}", response::shown(body));
    ModelError::new(ErrorKind::Protocol, message)
}
