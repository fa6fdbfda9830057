//! Interrupts, whatever the session is doing: answered at once, one result, nothing of the broken-off turn runs on,
//! and the next prompt is answered. Questions and running tools are in `host.rs`, compaction in `compaction.rs`.

mod common;

use common::hooked::{bash, command, on};
use common::{Setup, Talk, line, prompt};
use lathe_agent::FrameOptions;
use lathe_protocol::Inbound;
use serde_json::{Value, json};
use tempfile::tempdir;

/// One moment to interrupt.
struct Moment {
    name: &'static str,
    /// The first answer; a second one follows.
    turn: Value,
    hooks: Value,
    /// The frame that shows that the moment has come.
    sign: fn(&Value) -> bool,
    result: Value,
    /// Whether the model hears of the prompt later.
    kept: bool,
}

fn moment(name: &'static str, turn: Value, sign: fn(&Value) -> bool, result: Value) -> Moment {
    Moment { name, turn, hooks: json!({}), sign, result, kept: true }
}

/// A moment in which a hook runs, which would run for ever the first time: before there is a file `calm`.
fn in_hook(event: &'static str, turn: Value, result: Value) -> Moment {
    let hooks = on(event, command("test -e calm || sleep 600"));
    Moment { hooks, ..moment(event, turn, |frame| frame["subtype"] == "hook_started", result) }
}

fn event(frame: &Value) -> &str {
    frame["event"]["type"].as_str().unwrap_or("")
}

fn moments() -> Vec<Moment> {
    let broken = |num_turns: u64, reason: &str, stop: Value| {
        json!({"subtype": "error_during_execution", "is_error": true, "terminal_reason": reason,
            "num_turns": num_turns, "stop_reason": stop})
    };
    let streaming = || broken(2, "aborted_streaming", Value::Null);
    let tools = || broken(3, "aborted_tools", json!("tool_use"));
    let busy = json!({"error": {"status": 529, "headers": {"retry-after": "500"}}});
    let half_a_call = json!({"blocks": [
        {"tool": {"name": "Bash", "input": {"command": "sleep 600"}}}, {"text": "and so on"},
    ], "stall": {"after_events": 6}});
    vec![
        moment(
            "nothing has come",
            json!({"text": "late", "delay_ms": 600_000}),
            |frame| frame["status"] == "requesting",
            streaming(),
        ),
        moment(
            "text comes",
            json!({"text": "abcdefghabcdefgh", "stall": {"after_events": 4}}),
            |frame| event(frame) == "content_block_delta",
            streaming(),
        ),
        moment(
            "it has only thought so far",
            json!({"thinking": "hm", "text": "well", "stall": {"after_events": 6}}),
            |frame| frame["event"]["content_block"]["type"] == "text",
            streaming(),
        ),
        moment("text comes behind a call", half_a_call, |f| f["event"]["delta"]["text"].is_string(), tools()),
        moment("waiting to try again", busy, |frame| frame["subtype"] == "api_retry", streaming()),
        Moment { kept: false, ..in_hook("UserPromptSubmit", json!({"text": "never"}), streaming()) },
        in_hook("PreToolUse", bash("touch ran"), tools()),
        in_hook("PostToolUse", bash("true"), tools()),
        in_hook("PostToolBatch", bash("true"), tools()),
        in_hook("MessageDisplay", json!({"text": "shown"}), streaming()),
        in_hook(
            "Stop",
            json!({"text": "said"}),
            json!({"subtype": "success", "is_error": false, "result": "said", "num_turns": 1}),
        ),
    ]
}

fn interrupt() -> Inbound {
    line(json!({"type": "control_request", "request_id": "i", "request": {"subtype": "interrupt"}}))
}

fn is_result(frame: &Value) -> bool {
    frame["type"] == "result"
}

#[tokio::test]
async fn a_turn_can_be_interrupted_at_any_moment() {
    for moment in moments() {
        let folder = tempdir().unwrap();
        let mut setup = Setup::new(
            json!({"turns": [moment.turn, {"when": {"user": "the second"}, "text": "after"}]}),
            folder.path(),
        );
        setup.hooks = moment.hooks;
        setup.frames = FrameOptions { partial_messages: true, hook_events: true, ..FrameOptions::default() };
        let heard = setup.heard.clone();
        let mut talk = Talk::start(setup);
        talk.send(prompt("the first")).await;
        talk.until(moment.sign).await;
        talk.send(interrupt()).await;
        let reply = talk.until(|frame| frame["type"] == "control_response").await;
        assert_eq!(reply["response"]["response"], json!({"still_queued": []}), "{}", moment.name);
        let result = talk.until(is_result).await;
        for (key, value) in moment.result.as_object().unwrap() {
            assert_eq!(&result[key], value, "{}: {key} of {result}", moment.name);
        }
        std::fs::write(folder.path().join("calm"), "").unwrap();
        talk.send(prompt("the second")).await;
        let result = talk.until(is_result).await;
        assert_eq!(result["subtype"], "success", "{}", moment.name);
        let (rest, end) = talk.finish().await;
        assert!(!rest.iter().any(is_result) && !end.last_was_error, "{}", moment.name);
        let said = heard.lock().unwrap().last().cloned().unwrap_or_default();
        assert_eq!(said.contains("the first"), moment.kept, "{}: {said}", moment.name);
        assert!(said.contains("the second"), "{}: {said}", moment.name);
        assert!(!said.contains("thinking"), "{}: an answer must not end in thinking: {said}", moment.name);
        assert!(!folder.path().join("ran").exists(), "{}", moment.name);
    }
}

/// An interrupt that comes on the heels of its prompt counts, whether or not anything has begun. (While the session
/// itself begins it does not: the prompt has not been taken up then.)
#[tokio::test]
async fn an_interrupt_right_behind_a_prompt_counts() {
    for _ in 0..20 {
        let folder = tempdir().unwrap();
        let script = json!({"turns": [{"text": "hi"}, {"text": "late", "delay_ms": 600_000}]});
        let mut talk = Talk::start(Setup::new(script, folder.path()));
        talk.send(prompt("hello")).await;
        talk.until(is_result).await;
        talk.send(prompt("go")).await;
        talk.send(interrupt()).await;
        let result = talk.until(is_result).await;
        assert_eq!(result["terminal_reason"], "aborted_streaming");
        talk.finish().await;
    }
}

#[tokio::test]
async fn idle_there_is_nothing_to_interrupt() {
    let folder = tempdir().unwrap();
    let mut talk = Talk::start(Setup::new(json!([{"text": "hi"}]), folder.path()));
    talk.send(interrupt()).await;
    let reply = talk.until(|_| true).await;
    assert_eq!(reply["response"]["response"], json!({"still_queued": []}));
    talk.send(prompt("go")).await;
    let result = talk.until(is_result).await;
    assert_eq!(result["result"], "hi");
    let (rest, _) = talk.finish().await;
    assert!(rest.is_empty(), "{rest:?}");
}
