//! The response itself: content blocks with their placeholders filled in, as one message or as the events
//! `message_start` … `message_stop`. Ids, usage and the spacing of tool inputs are fixed, so that two runs of a script
//! are identical.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use lathe_protocol::text::first_chars;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Body;
use crate::check::CALL_PREFIX;
use crate::facts::Facts;
use crate::script::{Defaults, ErrorEvent, ScriptedUsage, ToolCall, Turn};
use crate::signature::sign;
use crate::template::TemplateError;

/// A response with all placeholders filled in.
pub(super) struct Message {
    id: String,
    model: String,
    blocks: Vec<Content>,
    stop_reason: String,
    stop_sequence: Option<String>,
    usage: Map<String, Value>,
}

enum Content {
    Text(String),
    Thinking { thinking: String, signature: String },
    Tool { id: String, name: String, input: Value, json: String },
    Other(Value),
}

impl Message {
    /// Fills in the placeholders and gives ids, signatures and usage; a placeholder that finds nothing is an error.
    /// Calls and thinking blocks are counted separately, because their ids and signatures contain the count.
    pub(super) fn resolve(turn: &Turn, defaults: &Defaults, facts: &Facts) -> Result<Self, TemplateError> {
        let mut blocks = Vec::new();
        let mut thoughts = 0;
        let mut think = |thinking: String, given: Option<&String>| {
            let given = given.or(defaults.signature.as_ref()).cloned();
            let signature = given.unwrap_or_else(|| sign(&thinking, facts.number, thoughts, facts.history()));
            thoughts += 1;
            Content::Thinking { thinking, signature }
        };
        let mut calls = 0;
        let mut tool = |call: &ToolCall| {
            calls += 1;
            resolve_call(call, calls - 1, facts)
        };
        if let Some(thinking) = &turn.thinking {
            blocks.push(think(thinking.render(facts)?, None));
        }
        if let Some(text) = &turn.text {
            blocks.push(Content::Text(text.render(facts)?));
        }
        for call in &turn.tools {
            blocks.push(tool(call)?);
        }
        for block in &turn.blocks {
            if let Some(text) = &block.text {
                blocks.push(Content::Text(text.render(facts)?));
            } else if let Some(thinking) = &block.thinking {
                blocks.push(think(thinking.render(facts)?, block.signature.as_ref()));
            } else if let Some(call) = &block.tool {
                blocks.push(tool(call)?);
            } else if let Some(value) = &block.block {
                blocks.push(Content::Other(value.clone()));
            }
        }
        let usual_stop = if calls > 0 { "tool_use" } else { "end_turn" };
        Ok(Self {
            id: format!("msg_{:04}", facts.number),
            model: turn.model.clone().unwrap_or_else(|| facts.model.clone()),
            blocks,
            stop_reason: turn.stop.clone().unwrap_or_else(|| usual_stop.to_owned()),
            stop_sequence: turn.stop_sequence.clone(),
            usage: usage(&turn.usage, &defaults.usage),
        })
    }

    /// Returns the message as a client gets it without streaming: with content, stop reason and the final usage.
    pub(super) fn whole(&self) -> Value {
        let mut message = self.head(self.usage.clone());
        message["content"] = self.blocks.iter().map(Content::whole).collect();
        message["stop_reason"] = json!(self.stop_reason);
        message["stop_sequence"] = json!(self.stop_sequence);
        message
    }

    /// Returns the message as in `message_start`, with this usage: without content and stop reason.
    fn head(&self, usage: Map<String, Value>) -> Value {
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage,
        })
    }

    /// Returns the event stream, with a pause of `pace` after each delta and the default place of faults set.
    /// `message_start` counts one output token, as that of the API does; `message_delta` has the real usage.
    pub(super) fn events(&self, defaults: &Defaults, pace: Duration) -> Body {
        let mut body = Body::default();
        let mut first_usage = self.usage.clone();
        first_usage.insert("output_tokens".to_owned(), json!(1));
        body.event("message_start", json!({"type": "message_start", "message": self.head(first_usage)}));
        body.middle = Some(body.bytes.len());
        for (index, block) in self.blocks.iter().enumerate() {
            let start =
                json!({"type": "content_block_start", "index": index, "content_block": block.start()});
            body.event("content_block_start", start);
            for delta in block.deltas(defaults) {
                let delta = json!({"type": "content_block_delta", "index": index, "delta": delta});
                body.event("content_block_delta", delta);
                if !pace.is_zero() {
                    body.pauses.push((body.bytes.len(), pace));
                }
            }
            body.middle = Some(body.bytes.len());
            body.event("content_block_stop", json!({"type": "content_block_stop", "index": index}));
        }
        let delta = json!({"stop_reason": self.stop_reason, "stop_sequence": self.stop_sequence});
        body.event("message_delta", json!({"type": "message_delta", "delta": delta, "usage": self.usage}));
        body.event("message_stop", json!({"type": "message_stop"}));
        body
    }
}

/// Returns a call with its placeholders filled in; the `index` is a part of its id. `raw` is streamed as it is, even if
/// it is not JSON; a response that is not streamed then has an empty input.
fn resolve_call(call: &ToolCall, index: usize, facts: &Facts) -> Result<Content, TemplateError> {
    let id = call.id.clone().unwrap_or_else(|| free_call_id(index, facts));
    let (input, json) = match (&call.raw, &call.input) {
        (Some(raw), _) => {
            let text = raw.render(facts)?;
            (serde_json::from_str(&text).unwrap_or_else(|_| json!({})), text)
        }
        (None, Some(input)) => {
            let input = input.render(facts)?;
            let text = spaced(&input);
            (input, text)
        }
        (None, None) => (json!({}), "{}".to_owned()),
    };
    Ok(Content::Tool { id, name: call.name.clone(), input, json })
}

/// Returns an id for the call that the conversation does not contain yet. One that began with another run of the script
/// may contain the usual id; a number is then appended.
fn free_call_id(index: usize, facts: &Facts) -> String {
    let id = format!("{CALL_PREFIX}{:03}_{index}", facts.number);
    let numbered = (2..).map(|more| format!("{id}_{more}"));
    let mut candidates = std::iter::once(id.clone()).chain(numbered);
    candidates.find(|id| !facts.has_call(id)).unwrap_or(id)
}

/// Returns the usage, field by field from the turn, the defaults of the script, or fixed values. Extra fields come last
/// and may replace these.
fn usage(turn: &ScriptedUsage, defaults: &ScriptedUsage) -> Map<String, Value> {
    let count = |turn: Option<u64>, default: Option<u64>, otherwise: u64| {
        json!(turn.or(default).unwrap_or(otherwise))
    };
    let tier = turn.service_tier.as_ref().or(defaults.service_tier.as_ref());
    let mut usage = Map::new();
    let mut put = |key: &str, value: Value| usage.insert(key.to_owned(), value);
    put("input_tokens", count(turn.input_tokens, defaults.input_tokens, 100));
    put(
        "cache_creation_input_tokens",
        count(turn.cache_creation_input_tokens, defaults.cache_creation_input_tokens, 0),
    );
    put("cache_read_input_tokens", count(turn.cache_read_input_tokens, defaults.cache_read_input_tokens, 0));
    put("output_tokens", count(turn.output_tokens, defaults.output_tokens, 20));
    put("service_tier", json!(tier.map_or("standard", String::as_str)));
    usage.extend(defaults.extra.clone());
    usage.extend(turn.extra.clone());
    usage
}

impl Content {
    /// Returns the complete block, as in a message that is not streamed.
    fn whole(&self) -> Value {
        match self {
            Self::Text(text) => json!({"type": "text", "text": text}),
            Self::Thinking { thinking, signature } => {
                json!({"type": "thinking", "thinking": thinking, "signature": signature})
            }
            Self::Tool { id, name, input, .. } => {
                json!({"type": "tool_use", "id": id, "name": name, "input": input})
            }
            Self::Other(block) => block.clone(),
        }
    }

    /// Returns the block as in its `content_block_start`: without what the deltas bring.
    fn start(&self) -> Value {
        match self {
            Self::Text(_) => json!({"type": "text", "text": ""}),
            Self::Thinking { .. } => json!({"type": "thinking", "thinking": "", "signature": ""}),
            Self::Tool { id, name, .. } => json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
            Self::Other(block) if is_server_call(block) => {
                let mut start = block.clone();
                start["input"] = json!({});
                start
            }
            Self::Other(block) => block.clone(),
        }
    }

    /// Returns the deltas of the block. A signature is one delta after the text; a block of another kind is complete at
    /// its start and has none, unless it is a call of a server tool.
    fn deltas(&self, defaults: &Defaults) -> Vec<Value> {
        match self {
            Self::Text(text) => pieces(text, defaults.text_chunk)
                .map(|piece| json!({"type": "text_delta", "text": piece}))
                .collect(),
            Self::Thinking { thinking, signature } => pieces(thinking, defaults.text_chunk)
                .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
                .chain([json!({"type": "signature_delta", "signature": signature})])
                .collect(),
            Self::Tool { json, .. } => pieces(json, defaults.json_chunk)
                .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                .collect(),
            Self::Other(block) if is_server_call(block) => {
                vec![json!({"type": "input_json_delta", "partial_json": spaced(&block["input"])})]
            }
            Self::Other(_) => Vec::new(),
        }
    }
}

/// Returns whether a block is a call of a tool that the API runs and has an object as input, which is streamed like
/// that of any call.
fn is_server_call(block: &Value) -> bool {
    block["type"] == "server_tool_use" && block["input"].is_object()
}

/// Splits `text` into pieces of `size` characters; size 0 gives one piece, and an empty text none.
fn pieces(text: &str, size: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let cut = match size {
            0 => rest.len(),
            size => first_chars(rest, size).len(),
        };
        let (piece, tail) = rest.split_at(cut);
        rest = tail;
        Some(piece)
    })
}

impl Body {
    /// Appends an event and notes where it ends, which `after_events` of a fault refers to.
    fn event(&mut self, name: &str, data: Value) {
        self.bytes.extend_from_slice(b"event: ");
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(b"\ndata: ");
        serde_json::to_writer(&mut self.bytes, &data).expect("a JSON value can be written to memory");
        self.bytes.extend_from_slice(b"\n\n");
        self.event_ends.push(self.bytes.len());
    }
}

/// Returns the bytes of an `error` event, by default an `overloaded_error`.
pub(super) fn error_event(error: &ErrorEvent) -> Bytes {
    let kind = error.kind.as_deref().unwrap_or("overloaded_error");
    let message = error.message.as_deref().unwrap_or("scripted");
    let mut body = Body::default();
    body.event("error", json!({"type": "error", "error": {"type": kind, "message": message}}));
    body.bytes.into()
}

/// Returns the bytes of an event whose data no JSON parser accepts, because it is cut off and not UTF-8.
pub(super) fn broken_event() -> Bytes {
    Bytes::from_static(b"event: content_block_delta\ndata: {\"type\": \"content_block_delta\", \xff\n\n")
}

/// Returns the JSON of a value with a space after commas and colons, the spacing in which models write tool inputs.
fn spaced(value: &Value) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Spaced);
    value.serialize(&mut serializer).expect("a JSON value can be written to memory");
    String::from_utf8(bytes).expect("serde_json writes UTF-8")
}

struct Spaced;

impl serde_json::ser::Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
