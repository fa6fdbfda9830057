//! The scripted model in-process: the same engine and the same rendered steps as the server, fed to an event parser
//! instead of a socket.
//!
//! The surprising part is that the response really becomes bytes and is parsed again. It costs microseconds, and in
//! return every fault (half an event, garbage, an early end) gives the [`ModelError`] that the HTTP client would give;
//! a test compares the two.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use lathe_models::anthropic::Timeouts;
use lathe_models::betas::BetaPolicy;
use lathe_models::sse::{SseEvent, SseParser};
use lathe_models::{
    CompleteMessage, ErrorKind, Model, ModelError, ModelEvent, ModelRequest, ModelStream, StreamEvent,
};
use lathe_protocol::text::first_chars;
use serde_json::Value;

use crate::builtin;
use crate::engine::ScriptEngine;
use crate::error::ScriptError;
use crate::facts::Delivery;
use crate::render::{Reply, Step};
use crate::script::Script;

/// The most bytes of a body that are parsed at once. A long response is rendered in one piece; parsed in one piece, its
/// events would take many times its size.
const PIECE_BYTES: usize = 16 * 1024;
/// The most characters that are shown of a body that is not an API error.
const SHOWN_CHARS: usize = 300;

/// A script as a [`Model`].
#[derive(Debug, Clone)]
pub struct ScriptedModel {
    engine: Arc<ScriptEngine>,
    timeouts: Timeouts,
    betas: BetaPolicy,
}

impl ScriptedModel {
    /// Returns the model for the text after `script:`: a built-in name, otherwise a file. A name that is neither is an
    /// error.
    pub fn load(name: &str) -> Result<Self, ScriptError> {
        if let Some(script) = builtin::script(name) {
            return Self::new(script);
        }
        let path = Path::new(name);
        if !path.exists() {
            return Err(ScriptError::NotFound { name: name.to_owned(), known: builtin::NAMES.join(", ") });
        }
        Self::new(Script::load(path)?)
    }

    /// Returns the model for a script made in code, with the usual timeouts and betas. A script that is not valid is an
    /// error.
    pub fn new(script: Script) -> Result<Self, ScriptError> {
        let engine = Arc::new(ScriptEngine::new(script)?);
        Ok(Self { engine, timeouts: Timeouts::default(), betas: BetaPolicy::default() })
    }

    /// Sets which betas the client would send: the checked body and header depend on it.
    pub fn with_betas(self, betas: BetaPolicy) -> Self {
        Self { betas, ..self }
    }

    /// Returns the engine, which knows the script and the position in it.
    pub fn engine(&self) -> &ScriptEngine {
        &self.engine
    }

    /// Sets how long a silence may last before it counts as a stall; each limit has the meaning that it has for the
    /// HTTP client.
    pub fn with_timeouts(self, timeouts: Timeouts) -> Self {
        Self { timeouts, ..self }
    }

    /// Lets the engine choose and render the response, which uses a turn. Does not wait: pauses and faults are steps of
    /// the reply.
    fn reply(&self, request: Arc<ModelRequest>, delivery: Delivery) -> Reply {
        self.engine.respond_in_process(&request, delivery, self.betas).reply
    }

    /// Opens a streamed response. Returns only after its first event, because a failure until then is a failure of the
    /// request, as over HTTP. A response that is not a stream of events is an error too.
    async fn open_stream(&self, request: Arc<ModelRequest>) -> Result<ModelStream, ModelError> {
        let mut answer =
            Answer::open(self.reply(request, Delivery::Streamed), self.timeouts.first_byte).await?;
        let idle = self.timeouts.idle;
        if answer.status != 200 {
            return Err(answer.refusal(idle).await);
        }
        if answer.content_type.as_deref().is_some_and(|kind| !kind.starts_with("text/event-stream")) {
            let body = answer.read_all(idle).await?;
            let message = format!("the answer is not an event stream but begins with: {}", shown(&body));
            return Err(answer.told(&body).unwrap_or_else(|| ModelError::new(ErrorKind::Protocol, message)));
        }
        let request_id = answer.request_id.clone();
        let mut reader = Reader::new(answer, idle);
        // As over HTTP, a failure before the first event is a failure of the request.
        let first = reader.next().await.unwrap_or_else(|| Err(cut("nothing was sent")))?;
        let rest = stream::unfold(reader, async |mut reader| Some((reader.next().await?, reader)));
        Ok(ModelStream { request_id, events: stream::iter([Ok(first)]).chain(rest).boxed() })
    }

    /// Returns a response that is not streamed; anything but a message is an error. The time limit of a request applies
    /// to each silence in it.
    async fn whole_message(&self, request: Arc<ModelRequest>) -> Result<CompleteMessage, ModelError> {
        let mut answer = Answer::open(self.reply(request, Delivery::Whole), self.timeouts.request).await?;
        if answer.status != 200 {
            return Err(answer.refusal(self.timeouts.idle).await);
        }
        let body = answer.read_all(self.timeouts.request).await?;
        let message: Value = serde_json::from_slice(&body).map_err(|_| {
            ModelError::new(
                ErrorKind::Protocol,
                format!("the answer is not JSON but begins with: {}", shown(&body)),
            )
        })?;
        match message["type"].as_str() {
            Some("message") => Ok(CompleteMessage { request_id: answer.request_id, message }),
            Some("error") => Err(api_error(None, &body)),
            Some(_) | None => Err(ModelError::new(ErrorKind::Protocol, "the answer is not a message")),
        }
    }
}

impl Model for ScriptedModel {
    fn stream(&self, request: Arc<ModelRequest>) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        self.open_stream(request).boxed()
    }

    fn complete(&self, request: Arc<ModelRequest>) -> BoxFuture<'_, Result<CompleteMessage, ModelError>> {
        self.whole_message(request).boxed()
    }
}

/// Returns the error `StreamCut` for a response that ended too early; `reason` is a part of its message.
fn cut(reason: &str) -> ModelError {
    let message = format!("the connection closed before the answer was complete: {reason}");
    ModelError::new(ErrorKind::StreamCut, message)
}

/// Returns up to [`SHOWN_CHARS`] characters of a body on one line, for error messages.
fn shown(body: &[u8]) -> String {
    let line = String::from_utf8_lossy(body).split_whitespace().collect::<Vec<_>>().join(" ");
    first_chars(&line, SHOWN_CHARS).to_owned()
}

/// Returns the error that a body describes: the API's error object, or the beginning of any other text as its message.
fn api_error(status: Option<u16>, body: &[u8]) -> ModelError {
    let parsed: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let told = &parsed["error"];
    match told["message"].as_str().or_else(|| told.as_str()) {
        Some(message) => ModelError::from_api(status, told["type"].as_str(), message),
        None => ModelError::from_api(status, None, &shown(body)),
    }
}

/// A response whose head was received.
struct Answer {
    status: u16,
    content_type: Option<String>,
    request_id: Option<String>,
    retry_after: Option<Duration>,
    steps: std::vec::IntoIter<Step>,
    /// Bytes that were sent and not yet parsed.
    unread: Bytes,
}

/// The next part of a body.
enum Piece {
    Bytes(Bytes),
    /// The regular end.
    End,
    /// The connection was lost.
    Broken(&'static str),
    Stalled,
}

impl Answer {
    /// Performs the steps of `reply` up to the head and returns the rest. `patience` bounds the total of the pauses
    /// before it, beyond which the error is a stall; anything else that comes before the head is a lost connection.
    async fn open(reply: Reply, patience: Duration) -> Result<Self, ModelError> {
        let request_id = reply.header("request-id").map(str::to_owned);
        let seconds = reply.header("retry-after").and_then(|value| value.trim().parse::<f64>().ok());
        let mut answer = Self {
            status: reply.status,
            content_type: reply.header("content-type").map(str::to_owned),
            request_id,
            retry_after: seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            steps: reply.steps.into_iter(),
            unread: Bytes::new(),
        };
        let mut silence = Silence::new(patience);
        loop {
            match answer.steps.next() {
                Some(Step::Head) => return Ok(answer),
                Some(Step::Pause(pause)) if silence.bear(pause).await => {}
                Some(Step::Pause(_) | Step::Hang) => {
                    silence.run_out().await;
                    let message = format!("no answer from the script within {} s", patience.as_secs_f32());
                    return Err(ModelError::new(ErrorKind::Stalled, message));
                }
                Some(Step::Send(_) | Step::Fin | Step::Reset) | None => {
                    return Err(ModelError::new(ErrorKind::Connection, "lost the connection to the script"));
                }
            }
        }
    }

    /// Returns the next bytes, at most [`PIECE_BYTES`] at once, or how the body ends. `idle` bounds the total of the
    /// pauses before them.
    async fn next(&mut self, idle: Duration) -> Piece {
        let mut silence = Silence::new(idle);
        loop {
            if !self.unread.is_empty() {
                let count = self.unread.len().min(PIECE_BYTES);
                return Piece::Bytes(self.unread.split_to(count));
            }
            match self.steps.next() {
                Some(Step::Send(bytes)) => self.unread = bytes,
                Some(Step::Head) => {}
                Some(Step::Pause(pause)) if silence.bear(pause).await => {}
                Some(Step::Pause(_) | Step::Hang) => {
                    silence.run_out().await;
                    return Piece::Stalled;
                }
                Some(Step::Fin) => return Piece::Broken("it was closed"),
                Some(Step::Reset) => return Piece::Broken("it was reset"),
                None => return Piece::End,
            }
        }
    }

    /// Reads and returns the rest of the body; a lost connection or a stall is an error. `idle` applies to each piece,
    /// not to the whole.
    async fn read_all(&mut self, idle: Duration) -> Result<Bytes, ModelError> {
        let mut body = BytesMut::new();
        loop {
            match self.next(idle).await {
                Piece::Bytes(bytes) => body.extend_from_slice(&bytes),
                Piece::End => return Ok(body.freeze()),
                Piece::Broken(reason) => return Err(cut(reason)),
                Piece::Stalled => {
                    let message = format!("the answer was not complete after {} s", idle.as_secs_f32());
                    return Err(ModelError::new(ErrorKind::Stalled, message));
                }
            }
        }
    }

    /// Returns the error of a response with another status than 200. If its body cannot be read, the status alone makes
    /// the error.
    async fn refusal(&mut self, idle: Duration) -> ModelError {
        let body = self.read_all(idle).await.unwrap_or_default();
        let mut error = api_error(Some(self.status), &body);
        error.retry_after = self.retry_after;
        error.request_id = self.request_id.clone();
        error
    }

    /// Returns the API's error in a body that should have been a stream, with the id of the request; `None` if it is
    /// something else.
    fn told(&self, body: &[u8]) -> Option<ModelError> {
        let error = api_error(None, body);
        error.api_type.is_some().then(|| ModelError { request_id: self.request_id.clone(), ..error })
    }
}

/// The watchdog's time, reduced by each pause until a byte arrives.
struct Silence {
    left: Duration,
}

impl Silence {
    /// Returns a watchdog with this much time for all pauses together.
    fn new(patience: Duration) -> Self {
        Self { left: patience }
    }

    /// Waits for a pause and returns true, or returns false at once if the pause is not shorter than the time that is
    /// left; then the caller waits with [`Self::run_out`].
    async fn bear(&mut self, pause: Duration) -> bool {
        let bearable = pause < self.left;
        if bearable {
            self.left -= pause;
            tokio::time::sleep(pause).await;
        }
        bearable
    }

    /// Waits for what is left of the watchdog's time, so that a stall is reported when its limit is over and not
    /// before.
    async fn run_out(&self) {
        tokio::time::sleep(self.left).await;
    }
}

/// The events of a streamed response.
struct Reader {
    answer: Answer,
    idle: Duration,
    parser: SseParser,
    ready: VecDeque<SseEvent>,
    failure: Option<ModelError>,
    ended: bool,
    over: bool,
}

impl Reader {
    /// Returns a reader of the events of a response, at the beginning of its body; `idle` is the longest silence.
    fn new(answer: Answer, idle: Duration) -> Self {
        let parser = SseParser::new();
        Self { answer, idle, parser, ready: VecDeque::new(), failure: None, ended: false, over: false }
    }

    /// Returns the next event; `None` after `message_stop` or after an error, which is the last item. Events that
    /// arrived before a failure come first.
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        while !self.over {
            if let Some(event) = self.ready.pop_front() {
                match self.read(&event) {
                    Ok(Some(event)) => return Some(Ok(event)),
                    Ok(None) => {}
                    Err(error) => return Some(Err(self.fail(error))),
                }
            } else if let Some(error) = self.failure.take() {
                return Some(Err(self.fail(error)));
            } else {
                self.fill().await;
            }
        }
        None
    }

    /// Ends the stream and returns `error` with the id of the request added.
    fn fail(&mut self, error: ModelError) -> ModelError {
        self.over = true;
        ModelError { request_id: self.answer.request_id.clone(), ..error }
    }

    /// Reads one more piece of the response: adds the events that it completes to `ready`, or sets `failure` to the
    /// reason why there is none.
    async fn fill(&mut self) {
        match self.answer.next(self.idle).await {
            Piece::Bytes(bytes) => {
                let mut events = Vec::new();
                if let Err(error) = self.parser.push(&bytes, &mut events) {
                    self.failure = Some(ModelError::new(ErrorKind::Protocol, error.to_string()));
                }
                self.ready.extend(events);
            }
            Piece::End => self.end("it ended without message_stop"),
            Piece::Broken(reason) => self.end(reason),
            Piece::Stalled => {
                let message = format!("no byte came for {} s inside the answer", self.idle.as_secs_f32());
                self.failure = Some(ModelError::new(ErrorKind::Stalled, message));
            }
        }
    }

    /// Records that the response ended here with a cut, which is reported after the events that are ready. The parser
    /// may still hold half an event, which [`Reader::read`] then ignores.
    fn end(&mut self, reason: &str) {
        self.ended = true;
        self.ready.extend(self.parser.finish());
        self.failure = Some(cut(reason));
    }

    /// Parses an event; `None` if it is not for the caller (a ping, or half an event at the end). An `error` event is
    /// an error, and `message_stop` ends the stream.
    fn read(&mut self, event: &SseEvent) -> Result<Option<ModelEvent>, ModelError> {
        if event.name == "ping" {
            return Ok(None);
        }
        let raw = match serde_json::from_str(&event.data) {
            Ok(raw @ Value::Object(_)) => raw,
            // Half an event at the end of a broken connection belongs to the cut.
            Ok(_) | Err(_) if self.ended => return Ok(None),
            Ok(_) | Err(_) => {
                let message = format!("an event is not a JSON object: {}", shown(event.data.as_bytes()));
                return Err(ModelError::new(ErrorKind::Protocol, message));
            }
        };
        match raw["type"].as_str() {
            Some("ping") => return Ok(None),
            Some("error") => return Err(api_error(None, event.data.as_bytes())),
            Some(_) | None => {}
        }
        let event = ModelEvent::parse(raw);
        if matches!(event.event, StreamEvent::MessageStop) {
            self.over = true;
        }
        Ok(Some(event))
    }
}
