//! A request as the pieces of one HTTP body.
//!
//! Only the head is written for each request; tools and messages are not serialised again, and long ones are sent from
//! the allocations they have had since they entered the history. The cache breakpoint is inserted into the last message
//! while it is sent, because it moves with every turn and must not stay in the stored bytes.

use std::convert::Infallible;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::betas::{self, BetaPolicy};
use crate::request::{Breakpoint, CacheTtl, MESSAGE_END, ModelRequest, Thinking, WireMessage};
use crate::table::{self, MIN_THINKING_BUDGET};

/// The largest `max_tokens` of a response that is not streamed: a longer response outlasts idle connections.
const MAX_TOKENS_UNSTREAMED: u32 = 64_000;

/// The purpose of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A message, event by event.
    Stream,
    /// A message in one piece.
    Complete,
    /// The number of its tokens.
    CountTokens,
}

/// A body in pieces, and the positions of its messages in the whole.
#[derive(Debug)]
pub(crate) struct AssembledBody {
    /// The pieces, in order.
    pub(crate) chunks: Vec<Bytes>,
    /// The bytes of each message, counted from the beginning of the first piece.
    pub(crate) messages: Vec<Range<usize>>,
}

/// Assembles the body of a request as a list of pieces: long messages are shared with the history and not copied.
/// Fields of the user's `extra_body` replace those of the request, except the protected ones. A count of tokens has
/// only the model, the system prompt, the thinking, the tools and the messages.
pub(crate) fn assemble(request: &ModelRequest, purpose: Purpose, policy: BetaPolicy) -> AssembledBody {
    let mut writer = BodyWriter::new(request, purpose);
    let cache_control = cache_control(request, policy);
    writer.field("model", &table::split_long_context(&request.model).0);
    if purpose != Purpose::CountTokens {
        writer.field("max_tokens", &max_tokens(request, purpose));
    }
    let system = system_blocks(request, cache_control.as_ref());
    if !system.is_empty() {
        writer.field("system", &system);
    }
    if let Some(thinking) = thinking(request, purpose) {
        writer.field("thinking", &thinking);
    }
    if purpose != Purpose::CountTokens {
        let output = output_config(request, policy);
        if !output.is_empty() {
            writer.field("output_config", &output);
        }
        if let Some(user_id) = &request.user_id {
            writer.field("metadata", &json!({ "user_id": user_id }));
        }
        writer.extra_fields();
        writer.own_field("stream", &(purpose == Purpose::Stream));
    }
    writer.tools();
    writer.messages(cache_control.as_ref());
    AssembledBody { chunks: writer.chunks, messages: writer.spans }
}

/// Returns `max_tokens` as it is sent: capped at [`MAX_TOKENS_UNSTREAMED`] for a response in one piece.
fn max_tokens(request: &ModelRequest, purpose: Purpose) -> u32 {
    match purpose {
        Purpose::Stream | Purpose::CountTokens => request.max_tokens,
        Purpose::Complete => request.max_tokens.min(MAX_TOKENS_UNSTREAMED),
    }
}

/// Returns the `thinking` field; `None` leaves it out. A budget is cut to less than `max_tokens`, and dropped if that
/// is below the API's minimum, because the API rejects both.
fn thinking(request: &ModelRequest, purpose: Purpose) -> Option<Value> {
    match request.thinking {
        Thinking::Disabled => None,
        Thinking::Adaptive => Some(json!({ "type": "adaptive" })),
        Thinking::Budget(budget) => {
            let budget = budget.min(max_tokens(request, purpose).saturating_sub(1));
            let enough = budget >= MIN_THINKING_BUDGET;
            enough.then(|| json!({ "type": "enabled", "budget_tokens": budget }))
        }
    }
}

/// Returns `output_config`, as far as the betas for its fields may be sent; empty if it has no field.
fn output_config(request: &ModelRequest, policy: BetaPolicy) -> Map<String, Value> {
    let mut config = Map::new();
    if let Some(effort) = request.effort.as_ref().filter(|_| policy.allows(betas::EFFORT, request)) {
        config.insert("effort".to_owned(), json!(effort));
    }
    if let Some(total) = request.task_budget.filter(|_| policy.allows(betas::TASK_BUDGETS, request)) {
        config.insert("task_budget".to_owned(), json!({ "type": "tokens", "total": total }));
    }
    config
}

/// Returns the value for all cache breakpoints; `None` if there are to be none. Without the beta for one hour the
/// breakpoints stay, with the API's default lifetime.
fn cache_control(request: &ModelRequest, policy: BetaPolicy) -> Option<Value> {
    match request.cache {
        CacheTtl::Off => None,
        CacheTtl::OneHour if policy.allows(betas::EXTENDED_CACHE_TTL, request) => {
            Some(json!({ "type": "ephemeral", "ttl": "1h" }))
        }
        CacheTtl::FiveMinutes | CacheTtl::OneHour => Some(json!({ "type": "ephemeral" })),
    }
}

#[derive(Serialize)]
struct SystemBlock<'a> {
    r#type: &'static str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<&'a Value>,
}

/// Returns the system prompt as blocks, with a breakpoint on each part that is marked as cached. Empty parts are left
/// out: the API rejects empty text.
fn system_blocks<'a>(request: &'a ModelRequest, cache_control: Option<&'a Value>) -> Vec<SystemBlock<'a>> {
    let parts = request.system.iter().filter(|part| !part.text.is_empty());
    parts
        .map(|part| SystemBlock {
            r#type: "text",
            text: &part.text,
            cache_control: cache_control.filter(|_| part.cached),
        })
        .collect()
}

/// A message up to this many bytes is copied instead of sent as a piece of its own.
const SHORT: usize = 4 * 1024;
/// A piece of copied messages is closed at this many bytes.
const FULL: usize = 64 * 1024;

/// Keys of `extra_body` that would break the request instead of changing it.
const PROTECTED: [&str; 2] = ["messages", "stream"];

struct BodyWriter<'a> {
    request: &'a ModelRequest,
    purpose: Purpose,
    chunks: Vec<Bytes>,
    /// Bytes in the finished pieces.
    finished: usize,
    /// The bytes written since the last finished piece.
    open: Vec<u8>,
    /// The position of each message.
    spans: Vec<Range<usize>>,
    has_fields: bool,
}

impl<'a> BodyWriter<'a> {
    /// Begins a body. The buffer is sized for the system prompt, the largest part that is serialised again, with an
    /// eighth more for escapes.
    fn new(request: &'a ModelRequest, purpose: Purpose) -> Self {
        let system: usize = request.system.iter().map(|part| part.text.len()).sum();
        let mut open = Vec::with_capacity(system + system / 8 + 512);
        open.push(b'{');
        let chunks = Vec::with_capacity(request.messages.len() + 5);
        let spans = Vec::with_capacity(request.messages.len());
        Self { request, purpose, chunks, finished: 0, open, spans, has_fields: false }
    }

    /// Writes a field of the request, unless the user's `extra_body` has one of the same name.
    fn field(&mut self, key: &str, value: &impl Serialize) {
        if !self.is_replaced(key) {
            self.own_field(key, value);
        }
    }

    /// Returns whether the user's `extra_body` has this field, so that the request's own must not be written as well. A
    /// count of tokens does not send `extra_body`, so nothing is replaced there.
    fn is_replaced(&self, key: &str) -> bool {
        self.purpose != Purpose::CountTokens && self.request.extra_body.contains_key(key)
    }

    /// Writes a field without asking whether it is replaced; the caller makes sure that no key is written twice.
    fn own_field(&mut self, key: &str, value: &impl Serialize) {
        self.key(key);
        serde_json::to_writer(&mut self.open, value).expect("strings, numbers and JSON values serialise");
    }

    /// Writes a key and its colon, after a comma if it is not the first. The value must be written next.
    fn key(&mut self, key: &str) {
        if std::mem::replace(&mut self.has_fields, true) {
            self.open.push(b',');
        }
        serde_json::to_writer(&mut self.open, key).expect("a string serialises");
        self.open.push(b':');
    }

    /// Writes the fields of the user's `extra_body`, except the protected ones.
    fn extra_fields(&mut self) {
        let extra = self.request.extra_body.iter();
        for (key, value) in extra.filter(|(key, _)| !PROTECTED.contains(&key.as_str())) {
            self.own_field(key, value);
        }
    }

    /// Writes the tools as a piece of their own, unless there are none or `extra_body` has others.
    fn tools(&mut self) {
        let none = matches!(self.request.tools.trim(), "" | "[]");
        if none || self.is_replaced("tools") {
            return;
        }
        self.key("tools");
        self.finish_piece();
        self.push(Bytes::from_owner(SharedText(Arc::clone(&self.request.tools))));
    }

    /// Writes the messages and closes the body; nothing can be written after it. The last message that takes the
    /// breakpoint is sent without its end, and the end is written again with the breakpoint in it.
    fn messages(&mut self, cache_control: Option<&Value>) {
        self.key("messages");
        self.open.push(b'[');
        let messages = &self.request.messages;
        let marked = cache_control.and_then(|_| messages.iter().rposition(takes_breakpoint));
        for (index, message) in messages.iter().enumerate() {
            let bytes = if index == 0 { message.bytes() } else { message.bytes_with_comma() };
            let start = self.written() + usize::from(index > 0);
            match cache_control {
                Some(control) if marked == Some(index) => {
                    self.message(&bytes.slice(..bytes.len() - MESSAGE_END.len()));
                    self.open.extend_from_slice(format!(r#","cache_control":{control}}}]}}"#).as_bytes());
                }
                Some(_) | None => self.message(bytes),
            }
            self.spans.push(start..self.written());
        }
        self.open.extend_from_slice(b"]}");
        self.finish_piece();
    }

    /// Writes one message. A long one becomes a piece that shares its bytes; short ones are copied together,
    /// because sending a piece costs more than copying a few hundred bytes.
    fn message(&mut self, bytes: &Bytes) {
        if bytes.len() < SHORT {
            self.open.extend_from_slice(bytes);
            if self.open.len() >= FULL {
                self.finish_piece();
            }
        } else {
            self.finish_piece();
            self.push(bytes.clone());
        }
    }

    /// Closes the piece being written. It must be called before bytes are pushed as a piece of their own, or the order
    /// of the body is lost.
    fn finish_piece(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let piece = std::mem::take(&mut self.open);
        self.push(piece.into());
    }

    /// Appends a finished piece and counts its bytes. Bytes that are still open must have been finished before.
    fn push(&mut self, piece: Bytes) {
        self.finished += piece.len();
        self.chunks.push(piece);
    }

    /// Returns the number of bytes of the body so far.
    fn written(&self) -> usize {
        self.finished + self.open.len()
    }
}

/// Returns whether the message may carry the cache breakpoint, which its last block decides.
fn takes_breakpoint(message: &WireMessage) -> bool {
    message.breakpoint() == Breakpoint::Possible
}

/// Lets the tools be sent from their own allocation.
struct SharedText(Arc<str>);

impl AsRef<[u8]> for SharedText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// The pieces as a body of known length, so that the request has a `content-length`.
#[derive(Debug)]
pub(crate) struct ChunkedBody {
    chunks: std::vec::IntoIter<Bytes>,
    remaining: u64,
}

impl ChunkedBody {
    /// Creates a body that yields these pieces in order.
    pub(crate) fn new(chunks: Vec<Bytes>) -> Self {
        Self { remaining: total_len(&chunks), chunks: chunks.into_iter() }
    }
}

/// Returns the length of the whole body in bytes.
pub(crate) fn total_len(chunks: &[Bytes]) -> u64 {
    chunks.iter().map(|chunk| chunk.len() as u64).sum()
}

impl http_body::Body for ChunkedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.chunks.next().map(|chunk| {
            self.remaining -= chunk.len() as u64;
            Ok(Frame::data(chunk))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.chunks.as_slice().is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}

#[cfg(test)]
mod tests;
