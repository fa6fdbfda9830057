//! Calls that a hook puts off: the turn ends with them, and the session takes them up when it goes on.

mod common;

use common::{Setup, Talk, kinds, of_type, prompt, run};
use serde_json::{Value, json};
use tempfile::tempdir;

/// A hook that puts every shell command off, until the file `ready` is there.
fn putting_off(script: Value, folder: &std::path::Path) -> Setup {
    let output =
        json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "defer"}});
    let command = format!("echo asked >> asked; test -e ready || printf '%s' '{output}'");
    let mut setup = Setup::new(script, folder);
    setup.hooks =
        json!({"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}]});
    setup
}

fn bash(command: &str) -> Value {
    json!({"name": "Bash", "input": {"command": command}})
}

#[tokio::test]
async fn a_call_that_is_put_off_ends_the_turn_and_runs_when_the_session_goes_on() {
    let folder = tempdir().unwrap();
    let script = json!([{"tools": [bash("touch ran")]}, {"text": "after"}]);
    let mut talk = Talk::start(putting_off(script, folder.path()));
    for asked in 1..3 {
        talk.send(prompt("go")).await;
        let result = talk.until(|frame| frame["type"] == "result").await;
        for (key, value) in [
            ("subtype", json!("success")),
            ("is_error", json!(false)),
            ("result", json!("")),
            ("stop_reason", json!("tool_deferred")),
            ("terminal_reason", json!("tool_deferred")),
            ("num_turns", json!(1)),
            (
                "deferred_tool_use",
                json!({"id": "toolu_001_0", "name": "Bash", "input": {"command": "touch ran"}}),
            ),
        ] {
            assert_eq!(result[key], value, "{key}, asked {asked} times");
        }
        assert!(result.get("api_error_status").is_none());
        assert!(!folder.path().join("ran").exists());
    }
    std::fs::write(folder.path().join("ready"), "").unwrap();
    talk.send(prompt("now")).await;
    let answer = talk.until(|frame| frame["message"]["content"][0]["type"] == "tool_result").await;
    assert_eq!(answer["message"]["content"][0]["tool_use_id"], "toolu_001_0");
    let result = talk.until(|frame| frame["type"] == "result").await;
    assert_eq!((&result["result"], &result["num_turns"]), (&json!("after"), &json!(1)));
    assert!(folder.path().join("ran").exists());
    let asked = std::fs::read_to_string(folder.path().join("asked")).unwrap();
    assert_eq!(asked.lines().count(), 3, "the hook is asked each time");
    talk.finish().await;
}

#[tokio::test]
async fn among_several_calls_none_is_put_off() {
    let folder = tempdir().unwrap();
    let script = json!([{"tools": [bash("touch one"), bash("touch two")]}, {"text": "done"}]);
    let (frames, _) = run(putting_off(script, folder.path()), &["go"]).await;
    let result = of_type(&frames, "result")[0];
    assert_eq!(result["result"], "done", "{:?}", kinds(&frames));
    assert!(folder.path().join("one").exists() && folder.path().join("two").exists());
    let told = frames.iter().filter(|frame| frame["tag"] == "defer_ignored").count();
    assert_eq!(told, 2);
}
