//! References to tools in results (`tool_reference`): the API puts the description of a deferred tool in their place.
//!
//! A reference is only sent to a model that understands it, in a request whose `tools` hold the tool. For any other
//! request it becomes a text. Messages without references are not touched, and sharing their bytes costs nothing.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::Value;

use crate::request::WireMessage;

/// The type of such a block.
const KIND: &str = "tool_reference";

/// Finds the type in the bytes of a message. Inside of a text the quotes would be escaped.
static MARK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"tool_reference\""));

/// Returns whether the bytes of a message may hold a reference. True for some that hold none, false for no other.
pub(crate) fn may_occur(bytes: &[u8]) -> bool {
    MARK.find(bytes).is_some()
}

#[derive(Deserialize)]
struct Content {
    content: Vec<Value>,
}

/// Returns the blocks of a message that may hold references; `None` for any other message and for one that cannot be
/// parsed.
fn blocks(message: &WireMessage) -> Option<Vec<Value>> {
    if !message.refers_to_tools() {
        return None;
    }
    serde_json::from_slice::<Content>(message.bytes()).ok().map(|message| message.content)
}

/// Returns the blocks of a tool result; `None` for any other block and for a result that is a text.
fn result_blocks(block: &mut Value) -> Option<&mut Vec<Value>> {
    if block["type"] != "tool_result" {
        return None;
    }
    block.get_mut("content")?.as_array_mut()
}

/// Returns the name of the tool that a block refers to; `None` for a block of another type.
fn referred(block: &Value) -> Option<&str> {
    if block["type"] == KIND { block["tool_name"].as_str() } else { None }
}

/// Returns the tools that results in these messages refer to, each once, in the order of the references.
pub fn referenced_tools(messages: &[WireMessage]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for mut block in messages.iter().filter_map(blocks).flatten() {
        for name in result_blocks(&mut block).into_iter().flat_map(|blocks| &*blocks).filter_map(referred) {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
    }
    names
}

/// Replaces all references in the messages by texts, for a request that describes every tool. Messages without any keep
/// their bytes.
pub fn without_references(messages: &mut [WireMessage]) {
    for message in messages {
        let Some(mut blocks) = blocks(message) else { continue };
        blocks.iter_mut().filter_map(result_blocks).for_each(in_words);
        if let Ok(in_words) = WireMessage::new(message.role(), &blocks) {
            *message = in_words;
        }
    }
}

/// Replaces the references of a result by one text at its beginning that names the tools; does nothing without
/// references.
fn in_words(blocks: &mut Vec<Value>) {
    let names: Vec<String> = blocks.iter().filter_map(referred).map(str::to_owned).collect();
    if names.is_empty() {
        return;
    }
    blocks.retain(|block| block["type"] != KIND);
    let text = format!("These tools can be called: {}", names.join(", "));
    blocks.insert(0, serde_json::json!({ "type": "text", "text": text }));
}

#[cfg(test)]
mod tests {
    use lathe_protocol::Role;
    use serde_json::json;

    use super::*;

    fn message(blocks: &[Value]) -> WireMessage {
        WireMessage::new(Role::User, blocks).unwrap()
    }

    fn reference(name: &str) -> Value {
        json!({"type": "tool_reference", "tool_name": name})
    }

    fn result(content: Value) -> Value {
        json!({"type": "tool_result", "tool_use_id": "t", "content": content})
    }

    #[test]
    fn references_are_found_in_results_only() {
        let messages = [
            message(&[json!({"type": "text", "text": "\"tool_reference\""})]),
            message(&[result(json!("tool_reference")), json!({"type": "text", "text": "x"})]),
            message(&[result(json!([reference("B"), reference("A")]))]),
            message(&[result(json!([reference("A"), {"type": "text", "text": "t"}, reference("C")]))]),
        ];
        assert_eq!(referenced_tools(&messages), ["B", "A", "C"]);
        assert!(!messages[0].refers_to_tools(), "a text does not look like a reference");
    }

    #[test]
    fn references_become_texts_and_other_messages_keep_their_bytes() {
        let plain = message(&[result(json!("plain"))]);
        let mut messages = [
            plain.clone(),
            message(&[result(json!([reference("A"), reference("B")])), json!({"type": "text", "text": "x"})]),
        ];
        without_references(&mut messages);
        assert_eq!(messages[0].bytes().as_ptr(), plain.bytes().as_ptr());
        let sent: Value = serde_json::from_slice(messages[1].bytes()).unwrap();
        assert_eq!(
            sent["content"],
            json!([
                result(json!([{"type": "text", "text": "These tools can be called: A, B"}])),
                {"type": "text", "text": "x"},
            ])
        );
        assert!(referenced_tools(&messages).is_empty());
    }
}
