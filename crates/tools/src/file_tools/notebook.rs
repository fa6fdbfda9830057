//! The two facts about notebook files that reading and editing share.

use serde_json::Value;

/// Returns the name of a cell: its id, or `cell-` and its position from 0 in notebooks from before cells had ids.
/// Reading and editing must name cells alike.
pub(crate) fn cell_id(cell: &Value, index: usize) -> String {
    match cell["id"].as_str() {
        Some(id) => id.to_owned(),
        None => format!("cell-{index}"),
    }
}

/// Returns the text of a cell, which is stored as one string or as a list of lines; empty if it is neither.
pub(crate) fn source_of(cell: &Value) -> String {
    match &cell["source"] {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}
