//! The script format: the response of each turn, when it is used, and how it fails. `SCRIPT.md` is the user's view of
//! these types; an unknown key is an error, never silently ignored.
//!
//! Only the shape is here. [`crate::load`](crate) reads text into it, [`crate::engine`] chooses among turns,
//! [`crate::render`] turns the chosen one into bytes.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use bytes::Bytes;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize as DeriveDeserialize, Serialize};
use serde_json::{Map, Value};

use crate::matcher::{Conditions, conditions_or_text};
use crate::template::{Template, TemplateError, TemplateValue};

/// A whole script.
#[derive(Debug, Clone, Default, DeriveDeserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// Version of the format; 1 is the only one.
    pub version: Option<u32>,
    /// What the script is for; never read.
    pub about: Option<String>,
    /// Whether all requests share one position or each conversation has its own.
    pub scope: TurnScope,
    /// The response when the sequence is used up.
    pub at_end: AtEnd,
    /// Values for turns that do not set their own.
    pub defaults: Defaults,
    /// Ids for `GET /v1/models`.
    pub models: Vec<String>,
    /// The result of `count_tokens`; an estimate if absent.
    pub count_tokens: Option<u64>,
    /// Whether to respond also to what the API would refuse.
    pub lax: bool,
    /// The treatment of thinking blocks that another model signed.
    pub foreign_signatures: ForeignSignatures,
    /// Values of the `anthropic-beta` header that are known besides the usual ones.
    pub betas: Vec<String>,
    /// The turns of the main line.
    pub turns: Vec<Turn>,
    /// Lines for requests that match, tried in order before the main line.
    pub routes: Vec<Route>,
}

/// The treatment of thinking blocks that another model signed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, DeriveDeserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForeignSignatures {
    /// They are accepted: only the model that signed them could check them.
    #[default]
    Accept,
    /// They are refused like forged ones.
    Refuse,
}

/// A separate line for requests that match.
#[derive(Debug, Clone, Default, DeriveDeserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Route {
    /// Name for messages and logs.
    pub name: Option<String>,
    /// The requests that use this line.
    #[serde(deserialize_with = "conditions_or_text")]
    pub when: Option<Conditions>,
    /// The response when this line is used up; the script's `at_end` if absent.
    pub at_end: Option<AtEnd>,
    /// The turns of the line.
    pub turns: Vec<Turn>,
}

/// Which requests share a position.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, DeriveDeserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnScope {
    /// All requests.
    #[default]
    Global,
    /// The requests of one conversation.
    Conversation,
}

/// What follows the last turn.
#[derive(Debug, Clone, Default)]
pub enum AtEnd {
    /// The last turn again.
    #[default]
    Repeat,
    /// A 500 that says so.
    Error,
    /// This text.
    Text(Template),
}

/// Values for turns that do not set their own.
#[derive(Debug, Clone, DeriveDeserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Defaults {
    /// Token counts.
    pub usage: ScriptedUsage,
    /// Milliseconds before the response begins.
    pub delay_ms: u64,
    /// Milliseconds after each delta.
    pub pace_ms: u64,
    /// Characters in a text or thinking delta; 0 sends a block in one piece.
    pub text_chunk: usize,
    /// Characters in a tool input delta; 0 sends it in one piece.
    pub json_chunk: usize,
    /// Signature of thinking blocks that have none; the model's own if absent.
    pub signature: Option<String>,
    /// Headers of every response.
    pub headers: BTreeMap<String, String>,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            usage: ScriptedUsage::default(),
            delay_ms: 0,
            pace_ms: 0,
            text_chunk: 8,
            json_chunk: 0,
            signature: None,
            headers: BTreeMap::new(),
        }
    }
}

/// One response.
#[derive(Debug, Clone, Default, DeriveDeserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Turn {
    /// Name for messages and logs.
    pub id: Option<String>,
    /// Use the turn whenever this holds, outside the sequence.
    #[serde(deserialize_with = "conditions_or_text")]
    pub when: Option<Conditions>,
    /// What must be true of the request; otherwise it gets a 400.
    #[serde(deserialize_with = "conditions_or_text")]
    pub expect: Option<Conditions>,
    /// How often the turn is used: if absent, once in the sequence, and without limit with `when`.
    pub times: Option<u32>,

    /// A thinking block at the beginning.
    pub thinking: Option<Template>,
    /// A text block.
    pub text: Option<Template>,
    /// Tool calls after the text.
    pub tools: Vec<ToolCall>,
    /// Blocks in any order, instead of the three above.
    pub blocks: Vec<ScriptBlock>,
    /// Stop reason; if absent, `tool_use` with tool calls and `end_turn` without.
    pub stop: Option<String>,
    /// The stop sequence that was met.
    pub stop_sequence: Option<String>,
    /// Token counts.
    pub usage: ScriptedUsage,
    /// The model that the response names; the requested one if absent.
    pub model: Option<String>,

    /// An HTTP error instead of a message.
    #[serde(deserialize_with = "error_reply")]
    pub error: Option<ErrorReply>,
    /// An exact response instead of a message.
    pub raw: Option<RawReply>,
    /// Further response headers.
    pub headers: BTreeMap<String, String>,

    /// Milliseconds before the response begins.
    pub delay_ms: Option<u64>,
    /// Milliseconds after each delta.
    pub pace_ms: Option<u64>,
    /// The body in small pieces.
    pub drip: Option<Drip>,
    /// The connection ends early.
    pub cut: Option<Cut>,
    /// The stream falls silent.
    pub stall: Option<Stall>,
    /// Bytes that are not the protocol.
    pub garbage: Option<Garbage>,
    /// An `error` event inside the stream, which ends it.
    pub error_event: Option<ErrorEvent>,
}

impl Turn {
    /// Returns whether the first block of the response is thinking.
    pub(crate) fn begins_with_thinking(&self) -> bool {
        self.thinking.is_some() || self.blocks.first().is_some_and(|block| block.thinking.is_some())
    }
}

/// A tool call.
#[derive(Debug, Clone, DeriveDeserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// Name of the tool.
    pub name: String,
    /// Its input.
    pub input: Option<TemplateValue>,
    /// Its input as text that need not be JSON.
    pub raw: Option<Template>,
    /// Id of the call; `toolu_<request>_<index>` if absent.
    pub id: Option<String>,
}

/// A content block in `blocks:`; exactly one of text, thinking, tool, block.
#[derive(Debug, Clone, Default, DeriveDeserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptBlock {
    /// A text block.
    pub text: Option<Template>,
    /// A thinking block.
    pub thinking: Option<Template>,
    /// The signature of the thinking block.
    pub signature: Option<String>,
    /// A tool call.
    pub tool: Option<ToolCall>,
    /// Any block, sent whole in its `content_block_start`.
    pub block: Option<Value>,
}

/// Token counts; absent ones come from the defaults.
#[derive(Debug, Clone, Default, DeriveDeserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedUsage {
    /// Input tokens; 100 if set nowhere.
    pub input_tokens: Option<u64>,
    /// Output tokens; 20 if set nowhere.
    pub output_tokens: Option<u64>,
    /// Tokens written to the cache.
    pub cache_creation_input_tokens: Option<u64>,
    /// Tokens read from the cache.
    pub cache_read_input_tokens: Option<u64>,
    /// `standard` if set nowhere.
    pub service_tier: Option<String>,
    /// Further keys of the usage object.
    pub extra: Map<String, Value>,
}

/// An HTTP error. A bare number in a script is the status.
#[derive(Debug, Clone, Default, DeriveDeserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorReply {
    /// HTTP status.
    pub status: u16,
    /// The API's error type; the usual one for the status if absent.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The API's message.
    pub message: Option<Template>,
    /// Response headers, e.g. `retry-after`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body to send instead of the API's error object.
    pub body: Option<String>,
}

/// An exact response, as a recorder writes it.
#[derive(Debug, Clone, DeriveDeserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawReply {
    /// HTTP status.
    #[serde(default = "ok_status")]
    pub status: u16,
    /// Response headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body, in the pieces in which it was received.
    #[serde(default)]
    pub chunks: Vec<Chunk>,
}

/// Returns 200, the status of a raw response that gives none.
fn ok_status() -> u16 {
    200
}

/// A piece of a raw body: a string, or `{base64: …}` for bytes that are not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk(pub Bytes);

/// The body in pieces of `bytes`, `ms` apart.
#[derive(Debug, Clone, Copy, DeriveDeserialize)]
#[serde(deny_unknown_fields)]
pub struct Drip {
    /// Size of a piece.
    pub bytes: usize,
    /// Milliseconds between pieces.
    #[serde(default)]
    pub ms: u64,
}

/// How a connection ends early.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, DeriveDeserialize)]
#[serde(rename_all = "snake_case")]
pub enum CutHow {
    /// Closed, as by a process that ended.
    #[default]
    Fin,
    /// Reset.
    Rst,
}

/// The connection ends early; in the middle of the last block if no position is given.
#[derive(Debug, Clone, Default, DeriveDeserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cut {
    /// Close or reset.
    pub how: CutHow,
    /// Before even the status line.
    pub before_headers: bool,
    /// After this many events.
    pub after_events: Option<usize>,
    /// After this many bytes of the body.
    pub after_bytes: Option<usize>,
}

/// The stream falls silent; in the middle of the last block if no position is given.
#[derive(Debug, Clone, Default, DeriveDeserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stall {
    /// For this long; until the client gives up if absent.
    pub ms: Option<u64>,
    /// After this many events.
    pub after_events: Option<usize>,
    /// After this many bytes of the body.
    pub after_bytes: Option<usize>,
}

/// Bytes that are not the protocol; in the middle of the last block if no position is given.
#[derive(Debug, Clone, Default, DeriveDeserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Garbage {
    /// The bytes to send; an event with broken JSON if absent.
    pub bytes: Option<Chunk>,
    /// After this many events.
    pub after_events: Option<usize>,
    /// After this many bytes of the body.
    pub after_bytes: Option<usize>,
}

/// An `error` event; in the middle of the last block if no position is given.
#[derive(Debug, Clone, Default, DeriveDeserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ErrorEvent {
    /// The API's error type, `overloaded_error` if absent.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The API's message.
    pub message: Option<String>,
    /// After this many events.
    pub after_events: Option<usize>,
    /// After this many bytes of the body.
    pub after_bytes: Option<usize>,
}

impl Script {
    /// Returns a script with these turns in order, and the defaults for all else. It is validated when an engine is
    /// made of it.
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self { turns: turns.into_iter().collect(), ..Self::default() }
    }
}

impl Turn {
    /// Returns a turn that responds with `text`; braces in it stay as they are.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(Template::literal(text)), ..Self::default() }
    }

    /// Returns a turn that calls one tool; strings in `input` may hold placeholders, and one that cannot be compiled is
    /// an error.
    pub fn tool(name: impl Into<String>, input: Value) -> Result<Self, TemplateError> {
        Ok(Self { tools: vec![ToolCall::new(name, input)?], ..Self::default() })
    }

    /// Returns a turn that fails with an HTTP status and the usual error type for it.
    pub fn error(status: u16) -> Self {
        Self { error: Some(ErrorReply { status, ..ErrorReply::default() }), ..Self::default() }
    }
}

impl ToolCall {
    /// Returns a call with this input; its strings may hold placeholders, and one that cannot be compiled is an error.
    pub fn new(name: impl Into<String>, input: Value) -> Result<Self, TemplateError> {
        Ok(Self { name: name.into(), input: Some(TemplateValue::parse(input)?), raw: None, id: None })
    }
}

impl<'de> Deserialize<'de> for AtEnd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(DeriveDeserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            text: Template,
        }
        struct Forms;
        impl<'de> Visitor<'de> for Forms {
            type Value = AtEnd;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`repeat`, `error` or a map with `text`")
            }
            fn visit_str<E: de::Error>(self, word: &str) -> Result<AtEnd, E> {
                match word {
                    "repeat" => Ok(AtEnd::Repeat),
                    "error" => Ok(AtEnd::Error),
                    _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
                }
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AtEnd, A::Error> {
                Fields::deserialize(MapAccessDeserializer::new(map)).map(|fields| AtEnd::Text(fields.text))
            }
        }
        deserializer.deserialize_any(Forms)
    }
}

/// Reads an `error:` field: a status alone, or the whole map. The result is never `None`, which only an absent field
/// has.
pub(crate) fn error_reply<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ErrorReply>, D::Error> {
    struct Forms;
    impl<'de> Visitor<'de> for Forms {
        type Value = ErrorReply;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an HTTP status, or a map with `status`")
        }
        fn visit_u64<E: de::Error>(self, status: u64) -> Result<ErrorReply, E> {
            let status = u16::try_from(status).map_err(|_| E::custom("an HTTP status has three digits"))?;
            Ok(ErrorReply { status, ..ErrorReply::default() })
        }
        fn visit_i64<E: de::Error>(self, status: i64) -> Result<ErrorReply, E> {
            self.visit_u64(status.unsigned_abs())
        }
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ErrorReply, A::Error> {
            ErrorReply::deserialize(MapAccessDeserializer::new(map))
        }
    }
    deserializer.deserialize_any(Forms).map(Some)
}

impl<'de> Deserialize<'de> for Chunk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(DeriveDeserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            base64: String,
        }
        struct Forms;
        impl<'de> Visitor<'de> for Forms {
            type Value = Chunk;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, or a map with `base64`")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Chunk, E> {
                Ok(Chunk(Bytes::copy_from_slice(text.as_bytes())))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Chunk, A::Error> {
                let fields = Fields::deserialize(MapAccessDeserializer::new(map))?;
                let bytes = base64::engine::general_purpose::STANDARD.decode(fields.base64);
                bytes
                    .map(|bytes| Chunk(bytes.into()))
                    .map_err(|error| de::Error::custom(format!("bad base64: {error}")))
            }
        }
        deserializer.deserialize_any(Forms)
    }
}

impl Serialize for Chunk {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let text = base64::engine::general_purpose::STANDARD.encode(&self.0);
                Map::from_iter([("base64".to_owned(), Value::String(text))]).serialize(serializer)
            }
        }
    }
}
