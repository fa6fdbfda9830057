//! The API message of a record: its content blocks as JSON text, and for each block the kind that decides where it may
//! be placed when it is sent again. `mend.rs` makes the block itself valid. Large transcripts are resumed through here,
//! so a record is parsed as few times as possible.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::head::{Key, Loose};
use crate::mend;
use crate::raw::RawObject;

/// The fields of a message record that a resume needs.
#[derive(Debug, Default)]
pub(crate) struct MessageRecord<'a> {
    pub uuid: Cow<'a, str>,
    /// Whether it reports a failed request.
    pub is_api_error: bool,
    /// Whether it is shown to people only.
    pub is_transcript_only: bool,
    pub permission_mode: Option<Cow<'a, str>>,
    pub turn_position: Option<&'a RawValue>,
    /// `message.content`.
    pub content: Option<&'a RawValue>,
}

impl<'de: 'a, 'a> Deserialize<'de> for MessageRecord<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MessageRecordVisitor)
    }
}

struct MessageRecordVisitor;

impl<'de> Visitor<'de> for MessageRecordVisitor {
    type Value = MessageRecord<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record with a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut record = MessageRecord::default();
        while let Some(Key(key)) = map.next_key()? {
            match &*key {
                "uuid" => record.uuid = map.next_value::<Loose>()?.text().unwrap_or_default(),
                "isApiErrorMessage" => record.is_api_error = map.next_value::<Loose>()?.is_true(),
                "isVisibleInTranscriptOnly" => {
                    record.is_transcript_only = map.next_value::<Loose>()?.is_true()
                }
                "permissionMode" => record.permission_mode = map.next_value::<Loose>()?.text(),
                "turnPosition" => record.turn_position = Some(map.next_value()?),
                "message" => record.content = map.next_value::<Content>()?.0,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(record)
    }
}

/// The `content` of a message.
struct Content<'a>(Option<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut content = None;
        while let Some(Key(key)) = map.next_key()? {
            if key == "content" {
                content = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Content(content))
    }
}

/// One content block.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub raw: Box<RawValue>,
    pub kind: BlockKind,
}

/// The kind of a block, as far as it matters for a valid conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BlockKind {
    ToolUse {
        id: String,
        name: String,
    },
    ToolResult {
        call: String,
    },
    /// A call of a server tool, which the server runs itself.
    ServerCall {
        id: String,
    },
    /// The result of such a call, which follows it in the same message.
    ServerResult {
        call: String,
    },
    /// Thinking, which may not be the last block of a message.
    Thinking,
    /// Text of white space only, which the API rejects.
    Blank,
    Other,
}

impl BlockKind {
    /// Returns the id of a call of a tool that the client runs; `None` for any other block, calls of server tools
    /// included.
    pub(crate) fn call_id(&self) -> Option<&str> {
        match self {
            Self::ToolUse { id, .. } => Some(id),
            Self::ToolResult { .. }
            | Self::ServerCall { .. }
            | Self::ServerResult { .. }
            | Self::Thinking
            | Self::Blank
            | Self::Other => None,
        }
    }
}

/// Returns content as blocks that can be sent; those that cannot be are left out. A plain string is one text block; a
/// value that is not content gives none.
pub(crate) fn blocks_of(content: &RawValue) -> Vec<Block> {
    let text = content.get();
    if text.starts_with('"') {
        return text_block(text).into_iter().collect();
    }
    let Ok(blocks) = serde_json::from_str::<Vec<&RawValue>>(text) else { return Vec::new() };
    blocks.into_iter().filter_map(mend::block).collect()
}

/// Returns a text block whose text is `json_string`, a JSON string with its quotes. `None` if that is not valid JSON.
pub(crate) fn text_block(json_string: &str) -> Option<Block> {
    mend::block(&RawValue::from_string(format!(r#"{{"type":"text","text":{json_string}}}"#)).ok()?)
}

/// Returns a text block with this text, for one that is not in the file. `None` only if the text cannot be serialised.
pub(crate) fn made_up_text(text: &str) -> Option<Block> {
    text_block(&serde_json::to_string(text).ok()?)
}

/// Returns whether the message of the record holds a tool result; false if it has no list of blocks.
pub(crate) fn has_tool_result(record: &RawObject<'_>) -> bool {
    let message = record.found("message").and_then(|raw| RawObject::parse(raw.get()).ok());
    let Some(content) = message.and_then(|message| message.found("content")) else { return false };
    let Ok(blocks) = serde_json::from_str::<Vec<Loose<'_>>>(content.get()) else { return false };
    blocks.into_iter().any(|block| block.member("type").is_some_and(|kind| kind == "tool_result"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(content: &str) -> Vec<BlockKind> {
        let record = format!(r#"{{"message":{{"role":"user","content":{content}}}}}"#);
        let record: MessageRecord = serde_json::from_str(&record).unwrap();
        blocks_of(record.content.unwrap()).into_iter().map(|block| block.kind).collect()
    }

    #[test]
    fn a_string_is_a_text_block_with_its_escapes_kept() {
        let record = r#"{"message":{"content":"a\n\ud83d"}}"#;
        let blocks = blocks_of(serde_json::from_str::<MessageRecord>(record).unwrap().content.unwrap());
        assert_eq!(blocks[0].raw.get(), r#"{"type":"text","text":"a\n\ud83d"}"#);
    }

    #[test]
    fn records_without_a_message_cannot_be_sent() {
        let parse = |json| serde_json::from_str::<MessageRecord>(json).map(|record| record.content.is_some());
        assert!(parse(r#"{"message":7}"#).is_err());
        assert!(!parse(r#"{"uuid":7,"message":{"id":"x"}}"#).unwrap());
        assert!(parse(r#"{"message":{"content":"a"},"isApiErrorMessage":"yes"}"#).unwrap());
    }

    #[test]
    fn blocks_are_sorted_by_what_the_api_demands_of_them() {
        let content = r#"[{"type":"thinking","thinking":"","signature":"s"},{"type":"text","text":" \n"},
            {"type":"text","text":"x"},{"type":"tool_use","id":"t","name":"Bash"},
            {"tool_use_id":"t","type":"tool_result"},{"type":"new"},7,{"type":"server_tool_use","id":"s"},
            {"type":"web_search_tool_result","tool_use_id":"s"},{"type":"tool_use","name":"Bash"},
            {"type":"tool_result","tool_use_id":""},{"content":"no type"}]"#;
        assert_eq!(
            kinds(content),
            [
                BlockKind::Thinking,
                BlockKind::Blank,
                BlockKind::Other,
                BlockKind::ToolUse { id: "t".into(), name: "Bash".into() },
                BlockKind::ToolResult { call: "t".into() },
                BlockKind::Other,
                BlockKind::ServerCall { id: "s".into() },
                BlockKind::ServerResult { call: "s".into() },
            ]
        );
        assert!(kinds("null").is_empty() && kinds("7").is_empty() && kinds("{}").is_empty());
        assert_eq!(kinds(r#""""#), [BlockKind::Blank]);
    }
}
