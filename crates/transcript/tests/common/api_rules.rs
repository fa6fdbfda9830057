//! What the Messages API demands of the messages of a request, as far as a resumed conversation can break it. Tests
//! of other crates include this file as well.

use serde_json::Value;

/// Fails unless the API would take these messages (`[{"role": …, "content": [blocks]}]`) in front of a prompt.
pub fn assert_accepted(messages: &[Value]) {
    let mut rules = Rules::default();
    for (nth, message) in messages.iter().enumerate() {
        let role = if nth.is_multiple_of(2) { "user" } else { "assistant" };
        assert_eq!(message["role"], role, "roles alternate: {message}");
        let blocks = message["content"].as_array().expect("content is a list");
        assert!(!blocks.is_empty(), "no message is empty");
        for block in blocks {
            rules.check(block, role);
        }
        rules.end_message(role);
    }
    assert!(rules.unanswered.is_empty(), "calls without a result: {:?}", rules.unanswered);
}

#[derive(Default)]
struct Rules {
    /// Ids of all calls so far.
    calls: Vec<String>,
    /// Calls of the message before, in their order.
    unanswered: Vec<String>,
    /// Calls of this message.
    asked: Vec<String>,
    server_calls: Vec<String>,
    /// The last block of this message.
    last: String,
    /// Something that is no result stood in this message.
    has_other: bool,
}

impl Rules {
    fn check(&mut self, block: &Value, role: &str) {
        let kind = block["type"].as_str().unwrap_or_else(|| panic!("a block without a type: {block}"));
        let (by, members): (&[&str], &[&str]) = match kind {
            "text" => (&["user", "assistant"], &["text", "citations"]),
            "image" | "document" => (&["user"], &["source", "title", "context", "citations"]),
            "thinking" => (&["assistant"], &["thinking", "signature"]),
            "redacted_thinking" => (&["assistant"], &["data"]),
            "tool_use" => (&["assistant"], &["id", "name", "input", "caller"]),
            "tool_result" => (&["user"], &["tool_use_id", "content", "is_error"]),
            "server_tool_use" => (&["assistant"], &["id", "name", "input", "caller"]),
            "web_search_tool_result" => (&["assistant"], &["tool_use_id", "content", "caller"]),
            _ => panic!("a block of an unknown type: {block}"),
        };
        assert!(by.contains(&role), "{kind} in a message of the {role}");
        for key in block.as_object().unwrap().keys() {
            assert!(key == "type" || members.contains(&key.as_str()), "extra input {key}: {block}");
        }
        match kind {
            "text" => check_text(block),
            "thinking" => assert!(
                block["thinking"].is_string() && block["signature"].as_str().is_some_and(|s| !s.is_empty()),
                "thinking without a signature: {block}"
            ),
            "redacted_thinking" => assert!(block["data"].as_str().is_some_and(|data| !data.is_empty())),
            "tool_use" => self.check_call(block),
            "tool_result" => self.check_result(block),
            "server_tool_use" => {
                assert!(block["input"].is_object(), "{block}");
                self.server_calls.push(block["id"].as_str().unwrap().to_owned());
            }
            "web_search_tool_result" => {
                let call = block["tool_use_id"].as_str().unwrap();
                assert!(self.server_calls.iter().any(|id| id == call), "a result without its call: {block}");
            }
            _ => {}
        }
        self.has_other |= kind != "tool_result";
        self.last = kind.to_owned();
    }

    fn check_call(&mut self, block: &Value) {
        let id = block["id"].as_str().unwrap().to_owned();
        for text in [&id, block["name"].as_str().unwrap()] {
            let is_plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
            assert!(is_plain && !text.is_empty() && text.len() <= 128, "{block}");
        }
        assert!(block["input"].is_object(), "the input of a call is an object: {block}");
        assert!(!self.calls.contains(&id), "ids are unique: {block}");
        self.calls.push(id.clone());
        self.asked.push(id);
    }

    fn check_result(&mut self, block: &Value) {
        assert!(!self.has_other, "results come first: {block}");
        let call = block["tool_use_id"].as_str().unwrap();
        assert_eq!(self.unanswered.first().map(String::as_str), Some(call), "results in the order of calls");
        self.unanswered.remove(0);
        match &block["content"] {
            Value::Null => assert!(block.get("content").is_none(), "{block}"),
            Value::String(text) => assert!(text.is_empty() || !text.trim().is_empty(), "{block}"),
            Value::Array(nested) => {
                for nested in nested {
                    let kind = nested["type"].as_str().unwrap_or_default();
                    assert!(["text", "image", "document", "search_result"].contains(&kind), "{block}");
                    assert!(nested.get("cache_control").is_none(), "{block}");
                    if kind == "text" {
                        check_text(nested);
                    }
                }
            }
            _ => panic!("{block}"),
        }
    }

    fn end_message(&mut self, role: &str) {
        assert!(self.unanswered.is_empty(), "calls without a result: {:?}", self.unanswered);
        assert!(!self.last.ends_with("thinking"), "no {role} message ends in thinking");
        self.unanswered = std::mem::take(&mut self.asked);
        self.has_other = false;
    }
}

fn check_text(block: &Value) {
    assert!(block["text"].as_str().is_some_and(|text| !text.trim().is_empty()), "an empty text: {block}");
}
