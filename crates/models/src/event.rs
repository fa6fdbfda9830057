//! Streaming events of the Messages API, parsed as far as the loop needs them, and also kept whole, because
//! `--include-partial-messages` passes them to the host unchanged.

use lathe_protocol::{ContentBlock, Usage};
use serde::Deserialize;
use serde_json::Value;

/// One event: its meaning, and its JSON.
#[derive(Debug, Clone)]
pub struct ModelEvent {
    /// The event as the API sent it.
    pub raw: Value,
    /// The part of it that the loop acts on.
    pub event: StreamEvent,
}

/// The events that matter to the loop. New kinds are [`StreamEvent::Unknown`], never an error.
#[derive(Debug, Clone)]
pub enum StreamEvent {
    /// The response begins.
    MessageStart(ResponseMessage),
    /// Block `index` begins, with whatever fields the API gave it.
    ContentBlockStart {
        /// Which block.
        index: usize,
        /// The block as it begins.
        block: ContentBlock,
    },
    /// More of block `index`.
    ContentBlockDelta {
        /// Which block.
        index: usize,
        /// What is added.
        delta: ContentDelta,
    },
    /// Block `index` is complete.
    ContentBlockStop {
        /// Which block.
        index: usize,
    },
    /// Why the response ended, and its final usage (absent fields keep their earlier value).
    MessageDelta {
        /// Why the response ended.
        stop_reason: Option<String>,
        /// The stop sequence that ended it, if any.
        stop_sequence: Option<String>,
        /// The final usage.
        usage: Option<Usage>,
    },
    /// The response is complete.
    MessageStop,
    /// Anything else.
    Unknown,
}

/// The message of a response: without content when a stream begins, whole if it was not streamed.
#[derive(Debug, Clone, Default)]
pub struct ResponseMessage {
    /// The id from the API.
    pub id: String,
    /// The model that responds.
    pub model: String,
    /// Its blocks, unchanged.
    pub blocks: Vec<ContentBlock>,
    /// Why it ended, if it has.
    pub stop_reason: Option<String>,
    /// The usage so far.
    pub usage: Usage,
}

impl ResponseMessage {
    /// Reads the message in a response or in `message_start`. Missing parts read as empty.
    pub fn parse(message: &Value) -> Self {
        let text = |key: &str| message[key].as_str().map(str::to_owned);
        let blocks = message["content"].as_array().cloned().unwrap_or_default();
        Self {
            id: text("id").unwrap_or_default(),
            model: text("model").unwrap_or_default(),
            blocks: blocks.into_iter().map(ContentBlock::from).collect(),
            stop_reason: text("stop_reason"),
            usage: usage_of(&message["usage"]).unwrap_or_default(),
        }
    }
}

/// What a delta adds to its block.
#[derive(Debug, Clone)]
pub enum ContentDelta {
    /// More of a `text` block.
    Text(String),
    /// More of a `thinking` block.
    Thinking(String),
    /// The signature of a `thinking` block.
    Signature(String),
    /// More of a tool's input, as a piece of JSON text.
    InputJson(String),
    /// An unknown kind: it is relayed, but not added to the assembled block.
    Unknown,
}

impl ModelEvent {
    /// Parses an event from its JSON. Missing parts read as empty: an odd event must never end a session; at worst it
    /// adds nothing.
    pub fn parse(raw: Value) -> Self {
        let event = StreamEvent::parse(&raw);
        Self { raw, event }
    }
}

impl StreamEvent {
    /// Interprets an event by its `type`. An unknown type is [`Self::Unknown`], not an error; a missing index reads as
    /// 0.
    fn parse(raw: &Value) -> Self {
        let index = || raw["index"].as_u64().unwrap_or(0) as usize;
        match raw["type"].as_str().unwrap_or("") {
            "message_start" => Self::MessageStart(ResponseMessage::parse(&raw["message"])),
            "content_block_start" => {
                Self::ContentBlockStart { index: index(), block: raw["content_block"].clone().into() }
            }
            "content_block_delta" => {
                Self::ContentBlockDelta { index: index(), delta: ContentDelta::parse(&raw["delta"]) }
            }
            "content_block_stop" => Self::ContentBlockStop { index: index() },
            "message_delta" => Self::MessageDelta {
                stop_reason: raw["delta"]["stop_reason"].as_str().map(str::to_owned),
                stop_sequence: raw["delta"]["stop_sequence"].as_str().map(str::to_owned),
                usage: usage_of(&raw["usage"]),
            },
            "message_stop" => Self::MessageStop,
            _ => Self::Unknown,
        }
    }
}

impl ContentDelta {
    /// Interprets the `delta` of a content block; a missing text reads as empty.
    fn parse(delta: &Value) -> Self {
        let text = |key: &str| delta[key].as_str().unwrap_or("").to_owned();
        match delta["type"].as_str().unwrap_or("") {
            "text_delta" => Self::Text(text("text")),
            "thinking_delta" => Self::Thinking(text("thinking")),
            "signature_delta" => Self::Signature(text("signature")),
            "input_json_delta" => Self::InputJson(text("partial_json")),
            _ => Self::Unknown,
        }
    }
}

/// Returns a usage object; `None` if it is missing or cannot be read.
fn usage_of(value: &Value) -> Option<Usage> {
    Usage::deserialize(value).ok()
}
