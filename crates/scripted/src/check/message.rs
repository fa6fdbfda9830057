//! One message on its own: its shape, its content, and a summary for the rules about the whole conversation.
//!
//! The summary is remembered, so that a message is parsed once however often it is sent. It therefore holds nothing
//! that depends on the model, on the message's position, or on its neighbours.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use serde_json::{Map, Value};

use super::blocks::{self, BlockHolder};
use super::cache::CacheMark;
use super::refusal::{FieldPath, REQUIRED, Verdict, given, refuse};
use crate::signature::ThinkingSeal;

/// The role of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageRole {
    User,
    Assistant,
    System,
}

/// A block with an id: its index in the message, and the id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockId {
    pub(crate) block: usize,
    pub(crate) id: String,
}

/// A thinking block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThinkingBlock {
    pub(crate) block: usize,
    pub(crate) seal: ThinkingSeal,
}

/// The result of a server tool.
#[derive(Debug, Clone)]
pub(crate) struct ServerResult {
    pub(crate) block: usize,
    pub(crate) id: String,
    pub(crate) kind: String,
}

/// An image: its path after `messages.N`, and its longer edge.
#[derive(Debug, Clone)]
pub(crate) struct ImageSeen {
    pub(crate) path: String,
    pub(crate) edge: u32,
}

/// A reference to a tool: its path after `messages.N`, and the name of the tool.
#[derive(Debug, Clone)]
pub(crate) struct ToolReference {
    pub(crate) path: String,
    pub(crate) name: String,
}

/// What the rules about the conversation need to know of a message.
#[derive(Debug)]
pub(crate) struct MessageSummary {
    pub(crate) role: MessageRole,
    pub(crate) blocks: usize,
    /// Cache marks; their paths begin after `messages.N`.
    pub(crate) marks: Vec<CacheMark>,
    pub(crate) calls: Vec<BlockId>,
    pub(crate) results: Vec<BlockId>,
    /// The first block that is not a tool result.
    pub(crate) first_other: Option<usize>,
    pub(crate) server_calls: Vec<String>,
    pub(crate) server_results: Vec<ServerResult>,
    pub(crate) thinking: Vec<ThinkingBlock>,
    /// The type of the first block.
    pub(crate) first_kind: String,
    /// Whether the last block is a text that ends in white space.
    pub(crate) ends_in_blank: bool,
    pub(crate) images: Vec<ImageSeen>,
    pub(crate) tool_references: Vec<ToolReference>,
    /// PDF documents: path after `messages.N`, and pages.
    pub(crate) pdfs: Vec<(String, usize)>,
    /// Bytes of text that the model reads.
    pub(crate) text_bytes: u64,
    /// One hash per block, for models that bind their thinking to the conversation; empty for others.
    pub(crate) block_hashes: Vec<u64>,
}

impl MessageSummary {
    /// Returns the summary of a message without blocks, to which checking its blocks adds.
    fn new(role: MessageRole) -> Self {
        Self {
            role,
            blocks: 0,
            marks: Vec::new(),
            calls: Vec::new(),
            results: Vec::new(),
            first_other: None,
            server_calls: Vec::new(),
            server_results: Vec::new(),
            thinking: Vec::new(),
            first_kind: String::new(),
            ends_in_blank: false,
            images: Vec::new(),
            tool_references: Vec::new(),
            pdfs: Vec::new(),
            text_bytes: 0,
            block_hashes: Vec::new(),
        }
    }

    /// Returns the approximate size in memory in bytes, by which old summaries are forgotten.
    pub(crate) fn weight(&self) -> usize {
        let ids = self.calls.iter().chain(&self.results).map(|seen| seen.id.len() + 48);
        let others = self.server_results.len()
            + self.thinking.len()
            + self.images.len()
            + self.tool_references.len()
            + self.marks.len();
        512 + ids.sum::<usize>() + 128 * others + 8 * self.block_hashes.len()
    }

    /// Returns whether the first block is thinking, readable or redacted.
    pub(crate) fn starts_with_thinking(&self) -> bool {
        matches!(self.first_kind.as_str(), "thinking" | "redacted_thinking")
    }
}

/// What the verdict about a message depends on besides its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageContext {
    /// A beta allows `scope` in cache marks.
    pub(crate) cache_scope: bool,
    /// The model binds its thinking to the conversation.
    pub(crate) binds_history: bool,
}

impl MessageContext {
    /// Returns a number that differs between contexts whose verdicts may differ. It is a part of the key of a
    /// remembered message.
    pub(crate) fn seed(self) -> u64 {
        u64::from(self.cache_scope) | u64::from(self.binds_history) << 1
    }
}

/// Checks the message at `path`, which is `messages.N`, on its own. Returns its summary for the rules about the
/// conversation.
pub(crate) fn check_message(
    value: &Value,
    path: &FieldPath<'_>,
    context: MessageContext,
) -> Verdict<MessageSummary> {
    let message = path.object(value)?;
    let role = match path.text(message, "role")? {
        "user" => MessageRole::User,
        "assistant" => MessageRole::Assistant,
        "system" => MessageRole::System,
        other => {
            return refuse(format!(
                "messages: Unexpected role \"{other}\". Allowed roles are \"user\" or \"assistant\""
            ));
        }
    };
    let known: &[&str] = match role {
        MessageRole::System => &["role", "content", "output_config"],
        MessageRole::User | MessageRole::Assistant => &["role", "content"],
    };
    path.only(message, known)?;
    let mut summary = MessageSummary::new(role);
    match message.get("content") {
        None => return path.key("content").refuse(REQUIRED),
        Some(Value::String(text)) => read_string(text, &mut summary),
        Some(Value::Array(content)) => {
            let place = path.key("content");
            for (index, block) in content.iter().enumerate() {
                blocks::check_block(block, &place, index, BlockHolder::Message, context, &mut summary)?;
            }
            summary.blocks = content.len();
            summary.ends_in_blank = content.last().is_some_and(ends_in_blank);
        }
        Some(_) => return path.key("content").refuse("Input should be a valid list"),
    }
    if context.binds_history {
        summary.block_hashes = block_hashes(role, message);
    }
    Ok(summary)
}

/// Adds content that is a string to the summary: it counts as one text block, or as none if it is empty. A string of
/// blanks is accepted, unlike a text block of blanks.
fn read_string(text: &str, summary: &mut MessageSummary) {
    summary.blocks = usize::from(!text.is_empty());
    summary.first_other = (!text.is_empty()).then_some(0);
    summary.first_kind = if text.is_empty() { String::new() } else { "text".to_owned() };
    summary.ends_in_blank = text.ends_with(char::is_whitespace);
    summary.text_bytes = text.len() as u64;
}

/// Returns whether the block is a text that ends with white space, which older models refuse at the end of a
/// prefilled response.
fn ends_in_blank(block: &Value) -> bool {
    block["type"] == "text" && block["text"].as_str().is_some_and(|text| text.ends_with(char::is_whitespace))
}

/// Returns a hash of each block that depends on the role, but not on cache marks or the formatting of the JSON. A text
/// counts as one text block; an empty one, or no content, gives none.
fn block_hashes(role: MessageRole, message: &Map<String, Value>) -> Vec<u64> {
    let hash = |block: &Value| {
        let mut hasher = DefaultHasher::new();
        (role as u8).hash(&mut hasher);
        hash_value(block, &mut hasher);
        hasher.finish()
    };
    match given(message, "content") {
        Some(Value::String(text)) if !text.is_empty() => {
            vec![hash(&serde_json::json!({"type": "text", "text": text}))]
        }
        Some(Value::Array(blocks)) => blocks.iter().map(hash).collect(),
        Some(_) | None => Vec::new(),
    }
}

/// Adds a value to the hash, without cache marks and whatever the order of its keys, because a client may move marks
/// and reorder keys without changing the message.
fn hash_value(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().filter(|key| *key != "cache_control").collect();
            keys.sort_unstable();
            keys.len().hash(hasher);
            for key in keys {
                key.hash(hasher);
                hash_value(&fields[key], hasher);
            }
        }
        Value::Array(items) => {
            items.len().hash(hasher);
            items.iter().for_each(|item| hash_value(item, hasher));
        }
        Value::String(text) => text.hash(hasher),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string().hash(hasher),
    }
}
