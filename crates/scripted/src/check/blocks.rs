//! Content blocks: the kinds, the fields of each, and the valid values.
//!
//! Blocks that only servers of the API write (results of its own tools) are known by name; their content is not
//! checked, because a client only sends back what it was given.

use serde_json::{Map, Value};

use super::cache::check_mark;
use super::media;
use super::message::{
    BlockId, MessageContext, MessageRole, MessageSummary, ServerResult, ThinkingBlock, ToolReference,
};
use super::refusal::{FieldPath, REQUIRED, Verdict, given, refuse};
use crate::signature;

/// What contains a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockHolder {
    Message,
    ToolResult,
}

/// A kind of block and its fields; `None` if they are not checked.
struct BlockKind {
    name: &'static str,
    fields: Option<&'static [&'static str]>,
}

/// Returns a kind of block whose fields are checked: any field but these is refused.
const fn kind(name: &'static str, fields: &'static [&'static str]) -> BlockKind {
    BlockKind { name, fields: Some(fields) }
}

/// Returns a kind of block that is known by its name only; its fields are not checked.
const fn opaque(name: &'static str) -> BlockKind {
    BlockKind { name, fields: None }
}

const KINDS: &[BlockKind] = &[
    kind("text", &["type", "text", "cache_control", "citations"]),
    kind("image", &["type", "source", "cache_control"]),
    kind("document", &["type", "source", "cache_control", "citations", "context", "title"]),
    kind("search_result", &["type", "source", "title", "content", "cache_control", "citations"]),
    kind("thinking", &["type", "thinking", "signature"]),
    kind("redacted_thinking", &["type", "data"]),
    kind("tool_use", &["type", "id", "name", "input", "cache_control", "caller"]),
    kind("tool_result", &["type", "tool_use_id", "content", "is_error", "cache_control"]),
    kind("server_tool_use", &["type", "id", "name", "input", "cache_control", "caller"]),
    opaque("web_search_tool_result"),
    opaque("web_fetch_tool_result"),
    opaque("code_execution_tool_result"),
    opaque("bash_code_execution_tool_result"),
    opaque("text_editor_code_execution_tool_result"),
    opaque("tool_search_tool_result"),
    opaque("advisor_tool_result"),
    opaque("mcp_tool_use"),
    opaque("mcp_tool_result"),
    opaque("container_upload"),
    opaque("compaction"),
];

/// The fields of a reference to a tool, which only a tool result may hold.
const REFERENCE_FIELDS: &[&str] = &["type", "tool_name", "cache_control"];

/// The kinds of blocks that a tool result may hold.
const RESULT_KINDS: &[&str] = &["text", "image", "document", "search_result", "tool_reference"];

/// Checks the block at `place[index]`, and adds to `summary` what the rules about the conversation need. The blocks of
/// a message must be checked in their order, since the summary keeps it.
pub(crate) fn check_block(
    value: &Value,
    place: &FieldPath<'_>,
    index: usize,
    holder: BlockHolder,
    context: MessageContext,
    summary: &mut MessageSummary,
) -> Verdict {
    let at = place.index(index);
    let block = at.object(value)?;
    let name = match block.get("type") {
        Some(Value::String(name)) => name.as_str(),
        Some(other) => return at.tag(&other.to_string(), &known_names(holder)),
        None => return at.key("type").refuse(REQUIRED),
    };
    let inside = at.key(name);
    match (holder, KINDS.iter().find(|kind| kind.name == name)) {
        (BlockHolder::ToolResult, _) if !RESULT_KINDS.contains(&name) => {
            return at.tag(name, RESULT_KINDS);
        }
        (BlockHolder::ToolResult, _) if name == "tool_reference" => inside.only(block, REFERENCE_FIELDS)?,
        (_, Some(BlockKind { fields: Some(fields), .. })) => inside.only(block, fields)?,
        (_, Some(BlockKind { fields: None, .. })) | (BlockHolder::ToolResult, None) => {}
        (BlockHolder::Message, None) => return at.tag(name, &known_names(holder)),
    }
    if holder == BlockHolder::Message {
        if summary.first_kind.is_empty() {
            summary.first_kind = name.to_owned();
        }
        if name != "tool_result" && summary.first_other.is_none() {
            summary.first_other = Some(index);
        }
    }
    if let Some(mark) = given(block, "cache_control") {
        summary.marks.push(check_mark(mark, &at, &inside, context.cache_scope)?);
    }
    let seen = BlockInMessage { block, at: &at, inside: &inside, index, holder, context };
    seen.check(name, summary)
}

/// Returns the kinds that this holder may contain, in the order of the table.
fn known_names(holder: BlockHolder) -> Vec<&'static str> {
    match holder {
        BlockHolder::Message => KINDS.iter().map(|kind| kind.name).collect(),
        BlockHolder::ToolResult => RESULT_KINDS.to_vec(),
    }
}

/// A block whose kind is known.
struct BlockInMessage<'a> {
    block: &'a Map<String, Value>,
    /// `messages.N.content.M`.
    at: &'a FieldPath<'a>,
    /// The same, followed by the kind.
    inside: &'a FieldPath<'a>,
    index: usize,
    holder: BlockHolder,
    context: MessageContext,
}

impl BlockInMessage<'_> {
    /// Checks the fields of a block of the kind `name`, and adds to the summary what the rules about the conversation
    /// need. Kinds without a rule of their own are accepted.
    fn check(&self, name: &str, summary: &mut MessageSummary) -> Verdict {
        match name {
            "text" => self.text(summary),
            "image" => media::check_image(self.block, self.inside, summary),
            "document" => media::check_document(self.block, self.at, summary),
            "thinking" => self.thinking(summary),
            "tool_use" => self.tool_use(summary),
            "tool_result" => self.tool_result(summary),
            "tool_reference" => self.tool_reference(summary),
            "server_tool_use" => {
                summary.server_calls.push(self.inside.text(self.block, "id")?.to_owned());
                Ok(())
            }
            "mcp_tool_result" => Ok(()),
            name if name.ends_with("_tool_result") => {
                let id = self.inside.text(self.block, "tool_use_id")?.to_owned();
                summary.server_results.push(ServerResult { block: self.index, id, kind: name.to_owned() });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Checks a text and adds its length to the summary. Refuses an empty text, and in a message (not in a tool result)
    /// also one of blanks only.
    fn text(&self, summary: &mut MessageSummary) -> Verdict {
        let text = self.inside.text(self.block, "text")?;
        summary.text_bytes += text.len() as u64;
        if text.is_empty() && given(self.block, "cache_control").is_some() {
            return self.inside.refuse("cache_control cannot be set for empty text blocks");
        }
        if text.is_empty() {
            return refuse("messages: text content blocks must be non-empty");
        }
        // Blank output of a tool is accepted; a blank text of a person or a model is not.
        if self.holder == BlockHolder::Message && text.chars().all(char::is_whitespace) {
            return refuse("messages: text content blocks must contain non-whitespace text");
        }
        Ok(())
    }

    /// Adds the block with its seal to the summary. Whether the seal is accepted depends on the model and the position,
    /// so `thinking.rs` decides that later.
    fn thinking(&self, summary: &mut MessageSummary) -> Verdict {
        let text = self.inside.text(self.block, "thinking")?;
        let signature = self.inside.text(self.block, "signature")?;
        let seal = signature::inspect(signature, text);
        summary.thinking.push(ThinkingBlock { block: self.index, seal });
        Ok(())
    }

    /// Checks a call: in a response, with an id, a name and a map as input. Adds the call and the size of its input to
    /// the summary; whether the id is unique is checked in `conversation.rs`.
    fn tool_use(&self, summary: &mut MessageSummary) -> Verdict {
        if summary.role != MessageRole::Assistant {
            return self.message_path("`tool_use` blocks can only be in `assistant` messages");
        }
        let id = self.id("id")?;
        self.inside.text(self.block, "name")?;
        match self.block.get("input") {
            Some(input @ Value::Object(_)) => summary.text_bytes += input.to_string().len() as u64,
            Some(_) => return self.inside.key("input").refuse("Input should be a valid dictionary"),
            None => return self.inside.key("input").refuse(REQUIRED),
        }
        summary.calls.push(BlockId { block: self.index, id });
        Ok(())
    }

    /// Checks a result: in a user message, with the id of its call, and adds it to the summary. Its content is absent,
    /// a text or a list of blocks, each checked with the stricter list of kinds; whether the call exists is checked in
    /// `conversation.rs`.
    fn tool_result(&self, summary: &mut MessageSummary) -> Verdict {
        if summary.role != MessageRole::User {
            return self.message_path("`tool_result` blocks can only be in `user` messages");
        }
        let id = self.id("tool_use_id")?;
        summary.results.push(BlockId { block: self.index, id });
        match given(self.block, "content") {
            None => Ok(()),
            Some(Value::String(text)) => {
                summary.text_bytes += text.len() as u64;
                Ok(())
            }
            Some(Value::Array(blocks)) => {
                let place = self.inside.key("content");
                for (index, block) in blocks.iter().enumerate() {
                    check_block(block, &place, index, BlockHolder::ToolResult, self.context, summary)?;
                }
                Ok(())
            }
            Some(_) => self.inside.key("content").refuse("Input should be a valid list"),
        }
    }

    /// Adds a reference to a tool to the summary, with its path inside the message. Whether the request offers the tool
    /// is checked with all of its messages.
    fn tool_reference(&self, summary: &mut MessageSummary) -> Verdict {
        let name = self.inside.text(self.block, "tool_name")?.to_owned();
        let path = self.at.to_string();
        // Remembered without the position of the message, which may be another in the next request.
        let path = path.find(".content").map_or("", |start| &path[start..]).to_owned();
        summary.tool_references.push(ToolReference { path, name });
        Ok(())
    }

    /// Returns the id in the field `name`; refuses an empty one and one with other characters than ASCII letters,
    /// digits, `_` and `-`.
    fn id(&self, name: &str) -> Verdict<String> {
        let id = self.inside.text(self.block, name)?;
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if id.is_empty() || !id.bytes().all(legal) {
            return self.inside.key(name).refuse("String should match pattern '^[a-zA-Z0-9_-]+$'");
        }
        Ok(id.to_owned())
    }

    /// Refuses the request because of the message that contains the block: the error names its path, not that of the
    /// block.
    fn message_path<T>(&self, text: &str) -> Verdict<T> {
        let path = self.at.to_string();
        let message = path.split(".content").next().unwrap_or(&path);
        refuse(format!("{message}: {text}"))
    }
}
