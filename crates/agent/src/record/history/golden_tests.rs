//! Every message of the golden requests, parsed into blocks and written again, is the same bytes: blocks are passed on
//! as they came.

use std::path::Path;

use lathe_models::WireMessage;
use lathe_protocol::{ContentBlock, Role};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::blocks_of;

/// The part of a line of `requests.jsonl` that holds messages.
#[derive(Deserialize)]
struct Recorded<'a> {
    #[serde(borrow)]
    body: Option<Body<'a>>,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    messages: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: Vec<ContentBlock>,
}

#[test]
fn the_messages_of_golden_requests_are_written_as_they_were_read() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/golden");
    let mut kinds = std::collections::BTreeSet::new();
    let mut messages = 0;
    for case in std::fs::read_dir(&golden).unwrap() {
        let Ok(requests) = std::fs::read_to_string(case.unwrap().path().join("requests.jsonl")) else {
            continue;
        };
        for line in requests.lines() {
            let recorded: Recorded<'_> = serde_json::from_str(line).unwrap();
            for raw in recorded.body.map(|body| body.messages).unwrap_or_default() {
                let read: Message = serde_json::from_str(raw.get()).unwrap();
                let role = if read.role == "user" { Role::User } else { Role::Assistant };
                let message = WireMessage::new(role, &read.content).unwrap();
                assert_eq!(std::str::from_utf8(message.bytes()).unwrap(), raw.get());
                // Once more in the way that a compaction does it.
                let again = WireMessage::new(role, &blocks_of(&message)).unwrap();
                assert_eq!(again.bytes(), message.bytes());
                kinds.extend(read.content.iter().map(|block| block.tag().to_owned()));
                messages += 1;
            }
        }
    }
    assert!(messages > 300, "{messages}");
    for kind in ["text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "document"] {
        assert!(kinds.contains(kind), "{kinds:?}");
    }
}
