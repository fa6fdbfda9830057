//! Reads inputs and results without knowing which tool they belong to: the tools of this crate share field names, and
//! tools of others are searched for the same names. A missing field reads as nothing.

use serde_json::Value;

use crate::Content;

/// The fields of an input that say in one text what a call does, best first.
const TELLING_FIELDS: [&str; 6] = ["command", "description", "file_path", "notebook_path", "url", "query"];

/// Returns the part of an input that tells a person most about the call, such as the command or the path; `None` if
/// it has no such field. Only for showing, never for a decision.
pub fn telling_text(input: &Value) -> Option<&str> {
    TELLING_FIELDS.iter().find_map(|key| input[*key].as_str())
}

/// Returns what the model reads of a `tool_use_result` that a hook wrote in place of the tool's: as the tool would have
/// worded it if the shape is known, otherwise as JSON.
pub fn content_of_result(result: &Value) -> Content {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    Content::Text(match result {
        Value::Object(fields) if fields.contains_key("stdout") => {
            let parts = [text(&result["stdout"]), text(&result["stderr"])];
            let parts: Vec<&str> =
                parts.iter().map(|part| part.trim_end()).filter(|part| !part.is_empty()).collect();
            parts.join("\n")
        }
        Value::Object(_) if result["file"]["content"].is_string() => {
            let first = result["file"]["startLine"].as_u64().unwrap_or(1);
            let content = text(&result["file"]["content"]);
            let lines = (first..).zip(content.split('\n')).map(|(number, line)| format!("{number}\t{line}"));
            lines.collect::<Vec<_>>().join("\n")
        }
        Value::String(text) => text.clone(),
        Value::Array(blocks) => return Content::Blocks(blocks.clone()),
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) => result.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn results_read_as_their_tools_write_them() {
        for (result, text) in [
            (json!({"stdout": "a\n", "stderr": ""}), "a"),
            (json!({"stdout": "a", "stderr": "b"}), "a\nb"),
            (json!({"type": "text", "file": {"content": "x\ny", "startLine": 7}}), "7\tx\n8\ty"),
            (json!("words"), "words"),
            (json!({"filenames": ["a"]}), r#"{"filenames":["a"]}"#),
        ] {
            assert_eq!(content_of_result(&result), Content::Text(text.to_owned()), "{result}");
        }
        let blocks = vec![json!({"type": "text", "text": "a"})];
        assert_eq!(content_of_result(&json!(blocks)), Content::Blocks(blocks));
    }

    #[test]
    fn the_best_field_of_an_input_counts() {
        assert_eq!(telling_text(&json!({"file_path": "/a", "command": "ls"})), Some("ls"));
        assert_eq!(telling_text(&json!({"command": 1, "query": "spades"})), Some("spades"));
        assert_eq!(telling_text(&json!({"other": "x"})), None);
    }
}
