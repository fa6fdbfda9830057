//! The `tool_result` block of a call, as a value: its content, and whether it is an error. It becomes JSON once for the
//! frame and once for the history, here and nowhere else.
//!
//! Surprising: the order of fields differs. Frames and records always write `type` first. In requests a result of the
//! tool and an error of the runtime each keep an order of their own, because a resumed session sends what an earlier
//! version sent, and the API's cache compares bytes.

use lathe_protocol::ContentBlock;
use lathe_tools::Content;
use serde_json::{Map, Value, json};

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    tool_use_id: String,
    content: Content,
    origin: ResultOrigin,
}

/// Where a result comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResultOrigin {
    /// The tool. `is_error` is written only if the tool has said something about it.
    Tool { is_error: Option<bool> },
    /// The runtime, because the call failed or did not run: always an error.
    Runtime,
}

impl ToolResult {
    /// Creates a result that a tool gave; `is_error` is written on the wire only if it is set.
    pub fn of_tool(tool_use_id: &str, content: Content, is_error: Option<bool>) -> Self {
        Self { tool_use_id: tool_use_id.to_owned(), content, origin: ResultOrigin::Tool { is_error } }
    }

    /// Creates the error result of a call that the runtime did not let run or could not finish.
    pub fn error(tool_use_id: &str, text: String) -> Self {
        Self {
            tool_use_id: tool_use_id.to_owned(),
            content: Content::Text(text),
            origin: ResultOrigin::Runtime,
        }
    }

    /// Returns whether the call failed.
    pub fn is_error(&self) -> bool {
        self.wire_is_error() == Some(true)
    }

    /// Returns the value of the field `is_error` on the wire; `None` leaves the field out.
    fn wire_is_error(&self) -> Option<bool> {
        match self.origin {
            ResultOrigin::Tool { is_error } => is_error,
            ResultOrigin::Runtime => Some(true),
        }
    }

    /// Returns the content if it is a single text, and an empty text if it consists of blocks.
    pub fn plain_text(&self) -> &str {
        match &self.content {
            Content::Text(text) => text,
            Content::Blocks(_) => "",
        }
    }

    /// Returns the content as a JSON value.
    pub fn content_value(&self) -> Value {
        content_value(self.content.clone())
    }

    /// Replaces the content; id and error state stay.
    pub fn set_content(&mut self, content: Content) {
        self.content = content;
    }

    /// Returns the block in the form that hosts and session files get.
    pub fn shown(&self) -> ContentBlock {
        block([
            ("type", Some(json!("tool_result"))),
            ("tool_use_id", Some(json!(self.tool_use_id))),
            ("content", Some(self.content_value())),
            ("is_error", self.wire_is_error().map(Value::Bool)),
        ])
    }

    /// Returns the block in the form that the model gets. It differs from [`Self::shown`] only in the order of its
    /// fields, which depends on where the result comes from; the order must stay, because the API's cache compares
    /// bytes with what earlier versions sent.
    pub fn into_sent(self) -> ContentBlock {
        let (kind, id) = (json!("tool_result"), json!(self.tool_use_id));
        let is_error = self.wire_is_error().map(Value::Bool);
        let content = content_value(self.content);
        match self.origin {
            ResultOrigin::Tool { .. } => block([
                ("tool_use_id", Some(id)),
                ("type", Some(kind)),
                ("content", Some(content)),
                ("is_error", is_error),
            ]),
            ResultOrigin::Runtime => block([
                ("type", Some(kind)),
                ("content", Some(content)),
                ("is_error", is_error),
                ("tool_use_id", Some(id)),
            ]),
        }
    }
}

/// Converts content into the JSON value of a block's field `content`: a string or an array of blocks.
pub fn content_value(content: Content) -> Value {
    match content {
        Content::Text(text) => Value::String(text),
        Content::Blocks(blocks) => Value::Array(blocks),
    }
}

/// Builds a block of these fields in this order, without those that have no value.
fn block(fields: [(&str, Option<Value>); 4]) -> ContentBlock {
    let fields = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    fields.collect::<Map<String, Value>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(block: &ContentBlock) -> String {
        serde_json::to_string(block).unwrap()
    }

    #[test]
    fn each_origin_keeps_its_order_of_fields() {
        let output = |is_error| ToolResult::of_tool("t", Content::Text("done".to_owned()), is_error);
        let error = ToolResult::error("t", "no".to_owned());
        let rows = [
            (
                output(None),
                r#"{"type":"tool_result","tool_use_id":"t","content":"done"}"#,
                r#"{"tool_use_id":"t","type":"tool_result","content":"done"}"#,
            ),
            (
                output(Some(false)),
                r#"{"type":"tool_result","tool_use_id":"t","content":"done","is_error":false}"#,
                r#"{"tool_use_id":"t","type":"tool_result","content":"done","is_error":false}"#,
            ),
            (
                error,
                r#"{"type":"tool_result","tool_use_id":"t","content":"no","is_error":true}"#,
                r#"{"type":"tool_result","content":"no","is_error":true,"tool_use_id":"t"}"#,
            ),
        ];
        for (result, shown, sent) in rows {
            assert_eq!(written(&result.shown()), shown);
            assert_eq!(written(&result.into_sent()), sent);
        }
    }

    #[test]
    fn an_error_is_known_whoever_says_so() {
        let blocks = || Content::Blocks(vec![json!({"type": "text", "text": "a"})]);
        assert!(ToolResult::error("t", String::new()).is_error());
        assert!(ToolResult::of_tool("t", blocks(), Some(true)).is_error());
        assert!(!ToolResult::of_tool("t", blocks(), Some(false)).is_error());
        assert!(!ToolResult::of_tool("t", blocks(), None).is_error());
        assert_eq!(ToolResult::of_tool("t", blocks(), None).plain_text(), "");
    }
}
