//! Streams that break: at every byte, at every event, in every manner. Always exactly one result, and no
//! tool ever runs twice.
#![allow(clippy::disallowed_methods, reason = "a variable chooses how thorough the test is")]

mod common;

use common::{Setup, kinds, of_type, run};
use lathe_agent::FrameOptions;
use lathe_scripted::Script;
use serde_json::json;
use tempfile::tempdir;

/// An answer with text and a tool call that leaves a mark each time it runs, cut after `bytes`, and then
/// the whole again.
fn cut_after(bytes: usize) -> Script {
    let text = json!({"turns": [
        {"thinking": "hm", "text": "I will count.", "tools": [
            {"name": "Bash", "input": {"command": "echo x >> runs"}},
            {"name": "Bash", "input": {"command": "echo y >> runs"}},
        ], "cut": {"after_bytes": bytes}},
        {"text": "done"},
    ]});
    Script::parse("cut.json", &text.to_string()).expect("the script is valid")
}

#[tokio::test]
async fn a_stream_cut_at_any_byte_gives_one_result_and_no_tool_runs_twice() {
    // The whole answer is a little over 2,000 bytes; one step behind the end nothing is cut any more.
    let step = if std::env::var_os("LATHE_EVERY_BYTE").is_some() { 1 } else { 7 };
    for bytes in (0..2600).step_by(step) {
        let folder = tempdir().unwrap();
        let mut setup = Setup::with_script(cut_after(bytes), folder.path());
        setup.frames = FrameOptions { partial_messages: bytes % 2 == 0, ..FrameOptions::default() };
        let (frames, end) = run(setup, &["count"]).await;
        assert_eq!(of_type(&frames, "result").len(), 1, "cut at {bytes}: {:?}", kinds(&frames));
        assert!(!end.last_was_error, "cut at {bytes}: {:?}", kinds(&frames));
        let runs = std::fs::read_to_string(folder.path().join("runs")).unwrap_or_default();
        for mark in ["x", "y"] {
            let count = runs.lines().filter(|line| *line == mark).count();
            assert!(count <= 1, "cut at {bytes}: {mark} ran {count} times");
        }
        let asked = frames.iter().filter(|f| f["message"]["content"][0]["type"] == "tool_use").count();
        let answered = frames.iter().filter(|f| f["message"]["content"][0]["type"] == "tool_result").count();
        assert_eq!(asked, answered, "cut at {bytes}: every call has one answer");
    }
}

#[tokio::test]
async fn begun_blocks_are_closed_for_hosts_that_watch_the_stream() {
    let folder = tempdir().unwrap();
    let script = json!({"turns": [
        {"text": "partial text here", "cut": {"after_events": 4}},
        {"text": "recovered"},
    ]});
    let script = Script::parse("cut.json", &script.to_string()).unwrap();
    let mut setup = Setup::with_script(script, folder.path());
    setup.frames = FrameOptions { partial_messages: true, ..FrameOptions::default() };
    let (frames, _) = run(setup, &["go"]).await;
    let events: Vec<&str> =
        of_type(&frames, "stream_event").iter().filter_map(|frame| frame["event"]["type"].as_str()).collect();
    let starts = events.iter().filter(|kind| **kind == "content_block_start").count();
    let stops = events.iter().filter(|kind| **kind == "content_block_stop").count();
    assert_eq!(starts, stops, "{events:?}");
    assert_eq!(of_type(&frames, "assistant").len(), 1, "the broken block is no message");
}
