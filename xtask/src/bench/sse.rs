//! The responses of the benchmark's server, as bytes of a Messages API stream.
//!
//! They are built in advance, so that the server only writes while a subject is being timed.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

/// The model that subjects are told to use.
pub const MODEL: &str = "claude-sonnet-5";

/// Returns a response with a short text, which ends the turn.
pub fn text() -> Vec<u8> {
    let block = json!({ "type": "text", "text": "" });
    let delta = json!({ "type": "text_delta", "text": "Done." });
    message("msg_text", &block, &[delta], "end_turn")
}

/// Returns a response with the `number`th call of the shell in the session, which prints a word.
pub fn echo(number: usize) -> Vec<u8> {
    call(number, "Bash", &json!({ "command": "echo hi", "description": "Print a word" }))
}

/// Returns a response with a call that writes a new file in `folder`; `number` makes file and call unique.
pub fn write(number: usize, folder: &Path) -> Vec<u8> {
    let file = folder.join(format!("{number:06}"));
    call(number, "Write", &json!({ "file_path": file, "content": "x" }))
}

/// Returns a response with a call of any tool; `number` makes its id unique in the session.
pub fn call(number: usize, tool: &str, input: &Value) -> Vec<u8> {
    let block = json!({ "type": "tool_use", "id": format!("toolu_{number:06}"), "name": tool, "input": {} });
    let delta = json!({ "type": "input_json_delta", "partial_json": input.to_string() });
    message(&format!("msg_{number:06}"), &block, &[delta], "tool_use")
}

/// Returns a response with a text that arrives in `count` deltas.
pub fn pieces(count: usize) -> Vec<u8> {
    let block = json!({ "type": "text", "text": "" });
    let delta = json!({ "type": "text_delta", "text": "some words " });
    message("msg_pieces", &block, &vec![delta; count], "end_turn")
}

/// Returns the event stream of a message with one block.
fn message(id: &str, block: &Value, deltas: &[Value], stop_reason: &str) -> Vec<u8> {
    let mut stream = String::new();
    let mut event = |name: &str, mut data: Value| {
        data["type"] = json!(name);
        write!(stream, "event: {name}\ndata: {data}\n\n").expect("writing to a string cannot fail");
    };
    let usage = json!({ "input_tokens": 100, "output_tokens": 10 });
    event(
        "message_start",
        json!({ "message": {
            "id": id, "type": "message", "role": "assistant", "model": MODEL, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage,
        }}),
    );
    event("content_block_start", json!({ "index": 0, "content_block": block }));
    for delta in deltas {
        event("content_block_delta", json!({ "index": 0, "delta": delta }));
    }
    event("content_block_stop", json!({ "index": 0 }));
    event(
        "message_delta",
        json!({ "delta": { "stop_reason": stop_reason, "stop_sequence": null }, "usage": { "output_tokens": 10 } }),
    );
    event("message_stop", json!({}));
    stream.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names and data of a stream; fails on anything that is not an event.
    fn events(stream: &[u8]) -> Vec<(String, Value)> {
        let text = std::str::from_utf8(stream).unwrap();
        let mut found = Vec::new();
        for event in text.split_terminator("\n\n") {
            let (name, data) = event.split_once('\n').unwrap();
            let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            found.push((name.strip_prefix("event: ").unwrap().to_owned(), data));
        }
        found
    }

    #[test]
    fn a_tool_call_is_a_whole_message() {
        let found = events(&echo(7));
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "message_start",
                "content_block_start",
                "content_block_delta",
                "content_block_stop",
                "message_delta",
                "message_stop"
            ]
        );
        assert_eq!(found[1].1["content_block"]["id"], "toolu_000007");
        assert_eq!(found[4].1["delta"]["stop_reason"], "tool_use");
        let input = found[2].1["delta"]["partial_json"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(input).unwrap()["command"], "echo hi");
    }

    #[test]
    fn pieces_arrive_as_many_events() {
        let found = events(&pieces(50));
        assert_eq!(found.iter().filter(|(name, _)| name == "content_block_delta").count(), 50);
        assert!(found.iter().all(|(name, data)| data["type"] == name.as_str()));
    }
}
