//! Estimates how many tokens something takes, without a tokenizer: text counts by its bytes, pictures and documents by
//! what they usually cost, because their bytes say little. Good enough to decide when to make room; the real size of a
//! request is what the API reports.

use lathe_protocol::ContentBlock;
use lathe_protocol::content::{BlockView, SourceView};
use serde_json::Value;
use serde_json::value::RawValue;

/// Bytes per token, roughly.
pub const BYTES_PER_TOKEN: u64 = 4;

/// Tokens of a picture of the size that the API scales to.
const IMAGE_TOKENS: u64 = 1600;

/// Bytes of a base64 document per token.
const DOCUMENT_BYTES_PER_TOKEN: u64 = 25;

/// Blocks shorter than this are counted by their bytes, whatever they hold.
const WORTH_A_LOOK: usize = 2000;

/// Estimates the tokens of a text of this many bytes.
pub fn text_tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_PER_TOKEN)
}

/// Estimates the tokens of a content block.
pub fn block_tokens(block: &ContentBlock) -> u64 {
    value_tokens(block.as_value())
}

/// Estimates the tokens of a block, or of a part of one, that has no typed form. Media may be in it at any depth: a
/// picture counts a fixed amount, a document by the length of its base64 data, at fewer tokens per byte than text.
pub fn value_tokens(value: &Value) -> u64 {
    match value {
        Value::String(text) => text_tokens(text.len()),
        Value::Array(parts) => parts.iter().map(value_tokens).sum(),
        Value::Object(members) => match SourceView::of(value).and_then(|source| source.data) {
            Some(_) if matches!(BlockView::of(value), BlockView::Image(_)) => IMAGE_TOKENS,
            Some(data) => (data.len() as u64).div_ceil(DOCUMENT_BYTES_PER_TOKEN),
            None => {
                members.iter().map(|(key, value)| 1 + text_tokens(key.len()) / 2 + value_tokens(value)).sum()
            }
        },
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

/// Estimates the tokens of a content block that is still JSON text. It is parsed only if it is long and contains base64
/// data; one that cannot be parsed then counts nothing.
pub fn raw_block_tokens(block: &RawValue) -> u64 {
    let text = block.get();
    if text.len() > WORTH_A_LOOK && text.contains("\"base64\"") {
        return serde_json::from_str(text).map_or(0, |block| block_tokens(&block));
    }
    text_tokens(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_counts_by_its_length() {
        let block = ContentBlock::text("x".repeat(4000));
        assert!((1000..1020).contains(&block_tokens(&block)), "{}", block_tokens(&block));
    }

    #[test]
    fn pictures_count_by_what_they_cost_and_not_by_their_bytes() {
        let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A".repeat(1 << 20)}});
        assert_eq!(value_tokens(&image), IMAGE_TOKENS);
        let result: ContentBlock =
            json!({"type": "tool_result", "tool_use_id": "t", "content": [image]}).into();
        assert!(block_tokens(&result) < 2 * IMAGE_TOKENS);
        let raw = serde_json::value::to_raw_value(&result).unwrap();
        assert_eq!(raw_block_tokens(&raw), block_tokens(&result));
    }
}
