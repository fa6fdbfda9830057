//! Content of messages: the blocks of the Messages API, passed through unchanged.
//!
//! A [`ContentBlock`] keeps its original JSON whole: blocks are relayed to the model and to hosts, so unknown kinds,
//! unknown fields (`cache_control`, `citations`, …) and the order of fields must all survive. [`ContentBlock::view`]
//! reads a block and borrows from it. Unlike elsewhere in this crate, a known kind with a missing field is still of
//! that kind: the missing part reads as empty.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Content that is either plain text or a list of blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MessageContent {
    Text(String),
    Blocks(Vec<ContentBlock>),
    /// Neither: kept unchanged.
    Unknown(Value),
}

/// The content of a user message.
pub type UserContent = MessageContent;

impl Default for MessageContent {
    fn default() -> Self {
        Self::Blocks(Vec::new())
    }
}

impl From<String> for MessageContent {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for MessageContent {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Vec<ContentBlock>> for MessageContent {
    fn from(blocks: Vec<ContentBlock>) -> Self {
        Self::Blocks(blocks)
    }
}

impl MessageContent {
    /// Returns the text: the string, or the text blocks joined by line breaks. Other blocks are left out; content of an
    /// unknown form has no text.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => {
                blocks.iter().filter_map(ContentBlock::as_text).collect::<Vec<_>>().join("\n")
            }
            Self::Unknown(_) => String::new(),
        }
    }
}

/// One block of a message, unchanged. Serialising it gives back what was read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContentBlock(Value);

/// The parts of a block, borrowed from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BlockView<'a> {
    Text(&'a str),
    Thinking(ThinkingView<'a>),
    /// Thinking that only the API can read.
    RedactedThinking,
    ToolUse(ToolUseView<'a>),
    /// A call that the API itself runs.
    ServerToolUse(ToolUseView<'a>),
    /// A call that the API passes to an MCP server.
    McpToolUse(ToolUseView<'a>),
    ToolResult(ToolResultView<'a>),
    Image(SourceView<'a>),
    Document(SourceView<'a>),
    /// An unknown kind, or not a block at all.
    Unknown,
}

/// Thinking of the model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThinkingView<'a> {
    pub text: &'a str,
    /// The API's signature over it; both must be sent back unchanged.
    pub signature: &'a str,
}

/// A call of a tool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToolUseView<'a> {
    pub id: &'a str,
    pub name: &'a str,
    pub input: &'a Value,
}

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToolResultView<'a> {
    pub tool_use_id: &'a str,
    /// A text, or a list of blocks; null if there is none.
    pub content: &'a Value,
    pub is_error: Option<bool>,
}

impl ToolResultView<'_> {
    /// Returns the text of the result: the string, or the text blocks joined by line breaks. Other blocks are left out;
    /// content that is neither a string nor a list has no text.
    pub fn text(&self) -> String {
        match self.content {
            Value::String(text) => text.clone(),
            Value::Array(blocks) => {
                let text =
                    |block| if let BlockView::Text(text) = BlockView::of(block) { Some(text) } else { None };
                blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n")
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
        }
    }
}

/// Where an image or a document comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SourceView<'a> {
    /// Such as `image/png`, if it is given.
    pub media_type: Option<&'a str>,
    /// The data in the block itself, as base64 or text; `None` for a URL or the id of a file.
    pub data: Option<&'a str>,
}

impl<'a> SourceView<'a> {
    /// Returns the source of any block that has one; `None` if the block has no object in `source`.
    pub fn of(block: &'a Value) -> Option<Self> {
        let source = block.get("source")?.as_object()?;
        let text = |key| source.get(key).and_then(Value::as_str);
        Some(Self { media_type: text("media_type"), data: text("data") })
    }
}

/// Returns the `type` of a block on the wire; empty if it has none.
pub fn tag_of(block: &Value) -> &str {
    block["type"].as_str().unwrap_or("")
}

impl<'a> BlockView<'a> {
    /// Reads a block that is part of something larger, such as the content of a result. Missing parts read as empty; a
    /// block of an unknown kind is [`BlockView::Unknown`].
    pub fn of(block: &'a Value) -> Self {
        let text = |key: &str| block[key].as_str().unwrap_or("");
        let call = || ToolUseView { id: text("id"), name: text("name"), input: &block["input"] };
        let source = || SourceView::of(block).unwrap_or_default();
        match tag_of(block) {
            "text" => Self::Text(text("text")),
            "thinking" => {
                Self::Thinking(ThinkingView { text: text("thinking"), signature: text("signature") })
            }
            "redacted_thinking" => Self::RedactedThinking,
            "tool_use" => Self::ToolUse(call()),
            "server_tool_use" => Self::ServerToolUse(call()),
            "mcp_tool_use" => Self::McpToolUse(call()),
            "tool_result" => Self::ToolResult(ToolResultView {
                tool_use_id: text("tool_use_id"),
                content: &block["content"],
                is_error: block["is_error"].as_bool(),
            }),
            "image" => Self::Image(source()),
            "document" => Self::Document(source()),
            _ => Self::Unknown,
        }
    }
}

impl ContentBlock {
    /// The kinds that [`BlockView`] knows.
    pub const TAGS: &'static [&'static str] = &[
        "text",
        "thinking",
        "redacted_thinking",
        "tool_use",
        "server_tool_use",
        "mcp_tool_use",
        "tool_result",
        "image",
        "document",
    ];

    /// Returns a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self(json!({"type": "text", "text": text.into()}))
    }

    /// Returns the parts of the block, borrowed from it; an unknown kind is [`BlockView::Unknown`].
    pub fn view(&self) -> BlockView<'_> {
        BlockView::of(&self.0)
    }

    /// Returns the `type` of the block on the wire; empty if it has none.
    pub fn tag(&self) -> &str {
        tag_of(&self.0)
    }

    /// Returns the text of a text block; `None` for any other block.
    pub fn as_text(&self) -> Option<&str> {
        if let BlockView::Text(text) = self.view() { Some(text) } else { None }
    }

    /// Returns the call in a `tool_use` block; `None` for any other block, including calls that the API runs
    /// itself.
    pub fn as_tool_use(&self) -> Option<ToolUseView<'_>> {
        if let BlockView::ToolUse(call) = self.view() { Some(call) } else { None }
    }

    /// Returns whether the block is thinking, readable or redacted.
    pub fn is_thinking(&self) -> bool {
        matches!(self.view(), BlockView::Thinking(_) | BlockView::RedactedThinking)
    }

    /// Replaces the text of a text block. The kind of the block is not checked: any other one gets the field in
    /// addition.
    pub fn set_text(&mut self, text: impl Into<String>) {
        self.set("text", Value::String(text.into()));
    }

    /// Replaces thinking and signature of a thinking block. The kind of the block is not checked: any other one gets
    /// the fields in addition.
    pub fn set_thinking(&mut self, thinking: String, signature: String) {
        self.set("thinking", Value::String(thinking));
        self.set("signature", Value::String(signature));
    }

    /// Replaces the input of a call. The kind of the block is not checked: any other one gets the field in addition.
    pub fn set_input(&mut self, input: Value) {
        self.set("input", input);
    }

    /// Returns the content of a `tool_result` block, to be changed in place; `None` for any other block, and for a
    /// result without content.
    pub fn result_content_mut(&mut self) -> Option<&mut Value> {
        if !matches!(self.view(), BlockView::ToolResult(_)) {
            return None;
        }
        self.0.get_mut("content")
    }

    /// Sets a field. An existing one keeps its position; a new one comes last. No effect on a block that is not an
    /// object.
    fn set(&mut self, key: &str, value: Value) {
        if let Value::Object(fields) = &mut self.0 {
            fields.insert(key.to_owned(), value);
        }
    }

    /// Returns the block as JSON.
    pub fn as_value(&self) -> &Value {
        &self.0
    }

    /// Returns the block as JSON and consumes it.
    pub fn into_value(self) -> Value {
        self.0
    }
}

impl From<Value> for ContentBlock {
    fn from(block: Value) -> Self {
        Self(block)
    }
}

impl From<Map<String, Value>> for ContentBlock {
    fn from(fields: Map<String, Value>) -> Self {
        Self(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_written_as_it_was_read() {
        for text in [
            r#"{"text":"order","type":"text","citations":null,"cache_control":{"type":"ephemeral"}}"#,
            r#"{"type":"thinking","signature":null,"thinking":"hm"}"#,
            r#"{"input":{"b":1,"a":2.0},"caller":{"type":"direct"},"name":"Bash","id":"t","type":"tool_use"}"#,
            r#"{"content":[{"new":1,"type":"brand_new"}],"type":"tool_result","tool_use_id":"t"}"#,
            r#"{"z":1,"type":"brand_new","a":[{}]}"#,
            r#"{"type":"text"}"#,
            r#""no object""#,
        ] {
            let block: ContentBlock = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&block).unwrap(), text);
            let content: MessageContent = serde_json::from_str(&format!("[{text}]")).unwrap();
            assert!(matches!(content, MessageContent::Blocks(_)), "{content:?}");
            assert_eq!(serde_json::to_string(&content).unwrap(), format!("[{text}]"));
        }
    }

    #[test]
    fn what_is_changed_keeps_its_place() {
        let changed = |text: &str, change: fn(&mut ContentBlock)| {
            let mut block: ContentBlock = serde_json::from_str(text).unwrap();
            change(&mut block);
            serde_json::to_string(&block).unwrap()
        };
        assert_eq!(
            changed(r#"{"text":"a","type":"text","x":1}"#, |block| block.set_text("b")),
            r#"{"text":"b","type":"text","x":1}"#
        );
        assert_eq!(
            changed(r#"{"type":"tool_use","input":{},"id":"t"}"#, |block| block.set_input(json!({"a": 1}))),
            r#"{"type":"tool_use","input":{"a":1},"id":"t"}"#
        );
        assert_eq!(
            changed(r#"{"type":"thinking"}"#, |block| block.set_thinking("a".into(), "s".into())),
            r#"{"type":"thinking","thinking":"a","signature":"s"}"#
        );
        let result = |block: &mut ContentBlock| *block.result_content_mut().unwrap() = json!("b");
        assert_eq!(
            changed(r#"{"content":"a","type":"tool_result"}"#, result),
            r#"{"content":"b","type":"tool_result"}"#
        );
        assert_eq!(ContentBlock::text("a").result_content_mut(), None);
    }

    #[test]
    fn every_kind_with_a_name_has_a_view() {
        for tag in ContentBlock::TAGS {
            let block = ContentBlock::from(json!({ "type": tag }));
            assert_ne!(block.view(), BlockView::Unknown, "{tag}");
            assert_eq!(block.tag(), *tag);
        }
        for odd in [json!({"type": "brand_new"}), json!({"type": 1}), json!("text"), json!(null)] {
            assert_eq!(ContentBlock::from(odd).view(), BlockView::Unknown);
        }
    }

    #[test]
    fn a_result_reads_as_its_text() {
        let blocks = json!([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]);
        for (content, text) in
            [(json!("plain"), "plain"), (blocks, "a\nb"), (json!(null), ""), (json!(1), "")]
        {
            let block = ContentBlock::from(json!({"type": "tool_result", "content": content}));
            let BlockView::ToolResult(result) = block.view() else { panic!("{block:?}") };
            assert_eq!(result.text(), text);
        }
    }
}
