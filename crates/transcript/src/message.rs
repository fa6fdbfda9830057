//! Looks into the API message of a record: its content blocks as text, and of each block the little that
//! decides how it may be sent again.

use serde_json::value::RawValue;

use crate::head::Loose;
use crate::raw::RawObject;

/// One content block.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub raw: Box<RawValue>,
    pub kind: BlockKind,
}

/// What a block is, as far as it matters for a valid conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BlockKind {
    ToolUse {
        id: String,
        name: String,
    },
    ToolResult {
        call: String,
    },
    /// Thinking, which may not stand last in a message.
    Thinking,
    /// Text without anything to read, which the API refuses.
    Blank,
    Other,
}

/// The content of a record's message as blocks. A plain string is one text block; anything that is not
/// content at all is none.
pub(crate) fn blocks(record: &RawObject<'_>) -> Vec<Block> {
    content(record).map(blocks_of).unwrap_or_default()
}

/// Content that stands elsewhere, e.g. the prompt of a `queued_command`.
pub(crate) fn blocks_of(content: &RawValue) -> Vec<Block> {
    let text = content.get();
    if text.starts_with('"') {
        return text_block(text).into_iter().collect();
    }
    let Ok(blocks) = serde_json::from_str::<Vec<&RawValue>>(text) else { return Vec::new() };
    blocks
        .into_iter()
        .filter_map(|raw| block_kind(raw).map(|kind| Block { raw: raw.to_owned(), kind }))
        .collect()
}

/// A text block around a string that is already JSON.
fn text_block(json_string: &str) -> Option<Block> {
    let raw = RawValue::from_string(format!(r#"{{"type":"text","text":{json_string}}}"#)).ok()?;
    let kind = block_kind(&raw)?;
    Some(Block { raw, kind })
}

/// A text block of our own.
pub(crate) fn made_up_text(text: &str) -> Option<Block> {
    text_block(&serde_json::to_string(text).ok()?)
}

/// `None` for what cannot be sent: no object, or a call or result that lost its id.
fn block_kind(raw: &RawValue) -> Option<BlockKind> {
    let Loose::Object(members) = serde_json::from_str::<Loose<'_>>(raw.get()).ok()? else { return None };
    let member = |key| members.iter().rev().find(|(name, _)| *name == key).map(|(_, text)| &**text);
    let named = |key| member(key).filter(|text| !text.is_empty()).map(str::to_owned);
    Some(match member("type").unwrap_or_default() {
        "tool_use" => BlockKind::ToolUse { id: named("id")?, name: named("name")? },
        "tool_result" => BlockKind::ToolResult { call: named("tool_use_id")? },
        "thinking" | "redacted_thinking" => BlockKind::Thinking,
        "text" if is_blank_text(raw) => BlockKind::Blank,
        _ => BlockKind::Other,
    })
}

fn is_blank_text(block: &RawValue) -> bool {
    // Long blocks are not blank, and unescaping them only to find that out would cost.
    if block.get().len() > 200 {
        return false;
    }
    let text = RawObject::parse(block.get()).ok().and_then(|block| block.text("text"));
    text.is_none_or(|text| text.trim().is_empty())
}

/// Whether the message holds a tool result.
pub(crate) fn has_tool_result(record: &RawObject<'_>) -> bool {
    let Some(content) = content(record) else { return false };
    let Ok(blocks) = serde_json::from_str::<Vec<Loose<'_>>>(content.get()) else { return false };
    blocks.into_iter().any(|block| block.member("type").is_some_and(|kind| kind == "tool_result"))
}

fn content<'a>(record: &RawObject<'a>) -> Option<&'a RawValue> {
    RawObject::parse(record.found("message")?.get()).ok()?.found("content")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(content: &str) -> Vec<BlockKind> {
        let record = format!(r#"{{"message":{{"role":"user","content":{content}}}}}"#);
        blocks(&RawObject::parse(&record).unwrap()).into_iter().map(|block| block.kind).collect()
    }

    #[test]
    fn a_string_is_a_text_block_with_its_escapes_kept() {
        let record = r#"{"message":{"content":"a\n\ud83d"}}"#;
        let blocks = blocks(&RawObject::parse(record).unwrap());
        assert_eq!(blocks[0].raw.get(), r#"{"type":"text","text":"a\n\ud83d"}"#);
    }

    #[test]
    fn blocks_are_sorted_by_what_the_api_demands_of_them() {
        let content = r#"[{"type":"thinking"},{"type":"text","text":" \n"},{"type":"text","text":"x"},
            {"type":"tool_use","id":"t","name":"Bash"},{"tool_use_id":"t","type":"tool_result"},{"type":"new"},7,
            {"type":"tool_use","name":"Bash"},{"type":"tool_result","tool_use_id":""}]"#;
        assert_eq!(
            kinds(content),
            [
                BlockKind::Thinking,
                BlockKind::Blank,
                BlockKind::Other,
                BlockKind::ToolUse { id: "t".into(), name: "Bash".into() },
                BlockKind::ToolResult { call: "t".into() },
                BlockKind::Other,
            ]
        );
        assert!(kinds("null").is_empty() && kinds("7").is_empty() && kinds("{}").is_empty());
        assert_eq!(kinds(r#""""#), [BlockKind::Blank]);
    }
}
