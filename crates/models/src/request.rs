//! A request to a model. Messages are serialised once, when they enter the history, and the same bytes are sent from
//! then on: assembling turn 1,000 costs what turn 1 did. `body.rs` turns a request into the bytes of one HTTP body.

use std::sync::Arc;

use bytes::Bytes;
use lathe_protocol::Role;
use serde::de::IgnoredAny;
use serde::ser::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::references;

/// Everything that one attempt needs. Built by the loop, shared by its retries.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// Resolved model id, e.g. `claude-opus-5-5`. A trailing `[1m]` is not sent but turned into its beta.
    pub model: String,
    /// The longest response wanted.
    pub max_tokens: u32,
    /// System prompt parts, in order.
    pub system: Vec<SystemPart>,
    /// The `tools` array, serialised.
    pub tools: Arc<str>,
    /// Whether entries of it are marked with `defer_loading`.
    pub defers_tools: bool,
    /// The conversation, oldest first.
    pub messages: Vec<WireMessage>,
    /// How it may think.
    pub thinking: Thinking,
    /// `output_config.effort`, for models that take it.
    pub effort: Option<String>,
    /// `output_config.task_budget`: tokens that the model is told it may use for its task.
    pub task_budget: Option<u64>,
    /// `metadata.user_id`.
    pub user_id: Option<String>,
    /// Values of the `anthropic-beta` header that the user asked for. Those that the features of this request need are
    /// added automatically.
    pub betas: Vec<String>,
    /// Cache breakpoints: after the system parts marked `cached`, and after the last message.
    pub cache: CacheTtl,
    /// Further top-level keys of the body (`CLAUDE_CODE_EXTRA_BODY`). They replace ours, except `messages`
    /// and `stream`.
    pub extra_body: serde_json::Map<String, serde_json::Value>,
    /// The agent that asks (`main`, or a subagent's type). Never sent; scripts choose turns by it.
    pub agent: Arc<str>,
}

/// One part of the system prompt.
#[derive(Debug, Clone)]
pub struct SystemPart {
    /// The text; an empty part is left out.
    pub text: String,
    /// Whether a cache breakpoint follows this part. The API takes four in all, and one belongs to the last message.
    pub cached: bool,
}

/// How the model may think.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Thinking {
    /// No thinking is requested.
    Disabled,
    /// The model decides.
    Adaptive,
    /// At most this many tokens, and always fewer than `max_tokens`.
    Budget(u32),
}

/// Whether and how long the API may keep the prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheTtl {
    /// No breakpoints.
    Off,
    /// The default of the API.
    FiveMinutes,
    /// Costs more to write, kept longer.
    OneHour,
}

/// One message of the conversation as the bytes that will be sent:
/// `{"role":"user","content":[{…},{…}]}`, never empty, content always a list of objects.
/// That fixed ending lets a cache breakpoint be spliced into the last block without parsing.
#[derive(Debug, Clone)]
pub struct WireMessage {
    role: Role,
    bytes: Bytes,
    /// The same bytes with a comma before them, so that a list of messages needs no separators in between.
    with_comma: Bytes,
    breakpoint: Breakpoint,
    refers_to_tools: bool,
}

/// Whether a message may carry the cache breakpoint after its last block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Breakpoint {
    Possible,
    Never,
}

/// The bytes after the members of the last block: the end of the block, of the list and of the message.
pub(crate) const MESSAGE_END: &[u8] = b"}]}";

impl WireMessage {
    /// Serialises a message. It is an error if `blocks` is empty or one of them is not a JSON object.
    pub fn new<B: Serialize>(role: Role, blocks: &[B]) -> Result<Self, serde_json::Error> {
        let name = role.as_str();
        let mut bytes = format!(r#",{{"role":"{name}","content":["#).into_bytes();
        let mut last_block = 0;
        for (index, block) in blocks.iter().enumerate() {
            if index > 0 {
                bytes.push(b',');
            }
            last_block = bytes.len();
            serde_json::to_writer(&mut bytes, block)?;
            if bytes.get(last_block) != Some(&b'{') {
                return Err(serde_json::Error::custom("a content block must be an object"));
            }
        }
        if blocks.is_empty() {
            return Err(serde_json::Error::custom("a message needs at least one content block"));
        }
        let breakpoint = LastBlock::breakpoint(&bytes[last_block..]);
        bytes.extend_from_slice(b"]}");
        let refers_to_tools = role == Role::User && references::may_occur(&bytes);
        let with_comma = Bytes::from(bytes);
        Ok(Self { role, bytes: with_comma.slice(1..), with_comma, breakpoint, refers_to_tools })
    }

    /// Returns the same message, excluded from the cache breakpoint: an instruction after a history that will be sent
    /// again leaves the breakpoint to the message before it.
    pub fn without_breakpoint(mut self) -> Self {
        self.breakpoint = Breakpoint::Never;
        self
    }

    /// Returns the role of the message.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns whether a result in it may refer to a tool; false means that none does. Found out when the message was
    /// made, so that asking costs nothing.
    pub(crate) fn refers_to_tools(&self) -> bool {
        self.refers_to_tools
    }

    /// Returns the message as JSON, the bytes that are sent with every request.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the message as JSON with a comma before it, for every place in the list but the first. It shares its
    /// allocation with [`Self::bytes`].
    pub(crate) fn bytes_with_comma(&self) -> &Bytes {
        &self.with_comma
    }

    /// Returns whether the message may carry the cache breakpoint: decided by its last block, or by
    /// [`Self::without_breakpoint`].
    pub(crate) fn breakpoint(&self) -> Breakpoint {
        self.breakpoint
    }
}

/// The part of a content block that says whether it takes a `cache_control`.
#[derive(Deserialize)]
struct LastBlock<'a> {
    #[serde(borrow, rename = "type")]
    kind: &'a RawValue,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    cache_control: Option<IgnoredAny>,
}

impl LastBlock<'_> {
    /// Returns whether a message that ends with this block may carry the cache breakpoint. The API refuses one on
    /// thinking and on empty text; a block that has its own keeps it as the only one. A block that cannot be read
    /// carries none.
    fn breakpoint(block: &[u8]) -> Breakpoint {
        let Ok(block) = serde_json::from_slice::<LastBlock<'_>>(block) else { return Breakpoint::Never };
        let thinking = matches!(block.kind.get(), r#""thinking""# | r#""redacted_thinking""#);
        let empty = block.text.is_some_and(|text| text.get() == r#""""#);
        if thinking || empty || block.cache_control.is_some() {
            Breakpoint::Never
        } else {
            Breakpoint::Possible
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_message_is_what_was_given() {
        let blocks = [json!({"type": "text", "text": "a"}), json!({"type": "text", "text": "b\"}]}"})];
        let message = WireMessage::new(Role::User, &blocks).unwrap();
        let value: Value = serde_json::from_slice(message.bytes()).unwrap();
        assert_eq!(value, json!({"role": "user", "content": blocks}));
        assert_eq!(message.role(), Role::User);
        assert!(message.bytes().ends_with(MESSAGE_END));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert!(WireMessage::new::<Value>(Role::User, &[]).is_err());
        assert!(WireMessage::new(Role::User, &["text"]).is_err());
        assert!(WireMessage::new(Role::User, &[json!({"type": "text"}), json!(["x"])]).is_err());
    }

    #[test]
    fn only_blocks_that_take_a_breakpoint_may_get_one() {
        let breakpoint = |block: Value| WireMessage::new(Role::User, &[block]).unwrap().breakpoint();
        assert_eq!(breakpoint(json!({"type": "text", "text": "x"})), Breakpoint::Possible);
        assert_eq!(breakpoint(json!({"type": "tool_result", "content": []})), Breakpoint::Possible);
        for block in [
            json!({}),
            json!({"type": "text", "text": ""}),
            json!({"type": "thinking", "thinking": "x"}),
            json!({"type": "redacted_thinking", "data": "x"}),
            json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}),
        ] {
            assert_eq!(breakpoint(block.clone()), Breakpoint::Never, "{block}");
        }
        let plain = WireMessage::new(Role::User, &[json!({"type": "text", "text": "x"})]).unwrap();
        assert_eq!(plain.without_breakpoint().breakpoint(), Breakpoint::Never);
    }

    #[test]
    fn blocks_written_elsewhere_stay_byte_for_byte() {
        let raw = RawValue::from_string(r#"{ "type" : "text",  "text": "\u0041 1.0" }"#.to_owned()).unwrap();
        let message = WireMessage::new(Role::Assistant, &[&raw]).unwrap();
        assert_eq!(
            &message.bytes()[..],
            br#"{"role":"assistant","content":[{ "type" : "text",  "text": "\u0041 1.0" }]}"#
        );
        assert_eq!(message.breakpoint(), Breakpoint::Possible);
    }
}
