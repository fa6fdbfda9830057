//! Content of messages: the blocks of the Messages API, passed through as they came.
//!
//! A block kind we do not know is kept raw, and so are unknown fields of known kinds (`cache_control`,
//! `citations`, …), because blocks are relayed to the model and to hosts unchanged.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Extra;

/// Content that is either plain text or a list of blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MessageContent {
    Text(String),
    Blocks(Vec<ContentBlock>),
    /// Neither: kept as it came.
    Unknown(Value),
}

/// What a user message holds.
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
    /// The text of it: the string, or the text blocks joined by line breaks.
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

open_enum! {
    /// One block of a message.
    pub enum ContentBlock by "type" {
        Text(TextBlock) = "text",
        Thinking(ThinkingBlock) = "thinking",
        RedactedThinking(RedactedThinkingBlock) = "redacted_thinking",
        ToolUse(ToolUseBlock) = "tool_use",
        ToolResult(ToolResultBlock) = "tool_result",
        /// A tool that the API itself runs.
        ServerToolUse(ToolUseBlock) = "server_tool_use",
        Image(SourceBlock) = "image",
        Document(SourceBlock) = "document",
    }
}

impl ContentBlock {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextBlock { text: text.into(), ..Default::default() })
    }

    /// The text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(block) => Some(&block.text),
            Self::Thinking(_)
            | Self::RedactedThinking(_)
            | Self::ToolUse(_)
            | Self::ToolResult(_)
            | Self::ServerToolUse(_)
            | Self::Image(_)
            | Self::Document(_)
            | Self::Unknown(_) => None,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TextBlock {
    pub text: String,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThinkingBlock {
    pub thinking: String,
    /// The API's seal on the thinking; must go back unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RedactedThinkingBlock {
    pub data: String,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolUseBlock {
    pub id: String,
    pub name: String,
    pub input: Value,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolResultBlock {
    pub tool_use_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<MessageContent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// An image or a document: `source` is `{type: base64, media_type, data}`, a URL or a file id.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceBlock {
    pub source: Value,
    #[serde(flatten)]
    pub extra: Extra,
}
