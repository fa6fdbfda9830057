//! A host that talks with a session: permissions, interrupts, queued prompts, control requests.

mod common;

use common::{Setup, Talk, line, of_type, prompt, run};
use lathe_agent::{FrameOptions, PromptSurface};
use lathe_protocol::PermissionMode;
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

/// A session in which writing needs the host's permission.
fn asking(folder: &TempDir) -> Setup {
    let script = json!([
        {"tools": [{"name": "Bash", "input": {"command": "touch made"}}]},
        {"text": "done"},
    ]);
    let mut setup = Setup::new(script, folder.path());
    setup.mode = PermissionMode::Default;
    setup.surface = PromptSurface::Host;
    setup
}

fn is_question(frame: &Value) -> bool {
    frame["type"] == "control_request" && frame["request"]["subtype"] == "can_use_tool"
}

fn answer(question: &Value, response: Value) -> lathe_protocol::Inbound {
    line(json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": question["request_id"], "response": response,
    }}))
}

/// Asks for the one call of [`asking`], answers with `response`, and gives the frames that follow.
async fn ask_and_answer(folder: &TempDir, response: Value) -> Vec<Value> {
    let mut talk = Talk::start(asking(folder));
    talk.send(prompt("go")).await;
    let question = talk.until(is_question).await;
    assert_eq!(question["request"]["tool_name"], "Bash");
    assert_eq!(question["request"]["input"], json!({"command": "touch made"}));
    assert_eq!(question["request"]["tool_use_id"], "toolu_001_0");
    talk.send(answer(&question, response)).await;
    talk.finish().await.0
}

fn tool_result(frames: &[Value]) -> &Value {
    frames
        .iter()
        .find(|frame| frame["message"]["content"][0]["type"] == "tool_result")
        .expect("a tool result")
}

#[tokio::test]
async fn allow_runs_the_call_with_or_without_an_input() {
    for response in [
        json!({"behavior": "allow"}),
        json!({"behavior": "allow", "updatedInput": {}}),
        json!({"behavior": "allow", "updatedInput": {"command": "touch made"}}),
    ] {
        let folder = tempdir().unwrap();
        let frames = ask_and_answer(&folder, response).await;
        assert!(folder.path().join("made").exists());
        assert_eq!(of_type(&frames, "result")[0]["permission_denials"], json!([]));
    }
}

#[tokio::test]
async fn allow_may_change_the_input() {
    let folder = tempdir().unwrap();
    let changed = json!({"behavior": "allow", "updatedInput": {"command": "touch other"}});
    ask_and_answer(&folder, changed).await;
    assert!(folder.path().join("other").exists());
    assert!(!folder.path().join("made").exists());
}

#[tokio::test]
async fn deny_tells_the_model_and_goes_on() {
    let folder = tempdir().unwrap();
    let frames = ask_and_answer(&folder, json!({"behavior": "deny", "message": "not today"})).await;
    assert!(!folder.path().join("made").exists());
    assert_eq!(tool_result(&frames)["message"]["content"][0]["content"], "not today");
    let result = of_type(&frames, "result")[0];
    assert_eq!(result["subtype"], "success");
    assert_eq!(result["permission_denials"][0]["tool_use_id"], "toolu_001_0");
}

#[tokio::test]
async fn deny_with_interrupt_ends_the_turn_and_not_the_session() {
    let folder = tempdir().unwrap();
    let mut talk = Talk::start(asking(&folder));
    talk.send(prompt("go")).await;
    let question = talk.until(is_question).await;
    let deny = json!({"behavior": "deny", "message": "stop", "interrupt": true});
    talk.send(answer(&question, deny)).await;
    let marker = talk.until(|frame| frame["message"]["content"][0]["type"] == "text").await;
    assert_eq!(marker["message"]["content"][0]["text"], "[Request interrupted by user for tool use]");
    let result = talk.until(|frame| frame["type"] == "result").await;
    assert_eq!(result["subtype"], "error_during_execution");
    assert_eq!(result["terminal_reason"], "aborted_tools");
    talk.send(prompt("again")).await;
    let next = talk.until(|frame| frame["type"] == "result").await;
    assert_eq!(next["result"], "done");
    talk.finish().await;
}

#[tokio::test]
async fn answers_that_make_no_sense_deny_the_call_and_are_said_back() {
    for response in [json!({}), json!({"behavior": "maybe"}), json!({"behavior": "deny"}), json!("yes")] {
        let folder = tempdir().unwrap();
        let frames = ask_and_answer(&folder, response.clone()).await;
        assert!(!folder.path().join("made").exists(), "{response}");
        let said = frames.iter().any(|frame| frame["tag"] == "invalid_permission_result");
        assert!(said, "{response} is said back to the host");
        assert_eq!(of_type(&frames, "result")[0]["permission_denials"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn an_error_and_a_closed_host_deny_the_call() {
    let folder = tempdir().unwrap();
    let mut talk = Talk::start(asking(&folder));
    talk.send(prompt("go")).await;
    let question = talk.until(is_question).await;
    talk.send(line(json!({"type": "control_response", "response": {
        "subtype": "error", "request_id": question["request_id"], "error": "boom",
    }})))
    .await;
    let (frames, _) = talk.finish().await;
    let text = tool_result(&frames)["message"]["content"][0]["content"].as_str().unwrap().to_owned();
    assert_eq!(text, "Tool permission request failed: Error: boom");

    let mut talk = Talk::start(asking(&folder));
    talk.send(prompt("go")).await;
    talk.until(is_question).await;
    let (frames, end) = talk.finish().await;
    let text = tool_result(&frames)["message"]["content"][0]["content"].as_str().unwrap().to_owned();
    assert_eq!(text, "Tool permission request failed: AbortError: Stream closed");
    assert_eq!(of_type(&frames, "result").len(), 1, "the turn still ends with its result");
    assert!(!end.last_was_error);
}

#[tokio::test]
async fn an_interrupt_withdraws_the_question_and_ends_the_turn() {
    let folder = tempdir().unwrap();
    let mut talk = Talk::start(asking(&folder));
    talk.send(prompt("go")).await;
    let question = talk.until(is_question).await;
    let interrupt =
        json!({"type": "control_request", "request_id": "i", "request": {"subtype": "interrupt"}});
    talk.send(line(interrupt)).await;
    let (frames, _) = talk.finish().await;
    let withdrawn = of_type(&frames, "control_cancel_request");
    assert_eq!(withdrawn[0]["request_id"], question["request_id"]);
    let reply = of_type(&frames, "control_response")[0];
    assert_eq!(reply["response"]["response"], json!({"still_queued": []}));
    let result = of_type(&frames, "result")[0];
    assert_eq!(result["terminal_reason"], "aborted_tools");
    assert_eq!(result["permission_denials"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_interrupt_kills_a_running_tool() {
    let folder = tempdir().unwrap();
    let script = json!([{"tools": [{"name": "Bash", "input": {"command": "echo $$ > pid; sleep 1000"}}]}, {"text": "x"}]);
    let mut talk = Talk::start(Setup::new(script, folder.path()));
    talk.send(prompt("go")).await;
    talk.until(|frame| frame["message"]["content"][0]["type"] == "tool_use").await;
    let begun = async {
        while !folder.path().join("pid").exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), begun).await.expect("the tool starts");
    let interrupt =
        json!({"type": "control_request", "request_id": "i", "request": {"subtype": "interrupt"}});
    talk.send(line(interrupt)).await;
    let result = talk.until(|frame| frame["type"] == "result").await;
    assert_eq!(result["terminal_reason"], "aborted_tools");
    assert_eq!(result["is_error"], true);
    talk.finish().await;
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    assert!(!std::path::Path::new("/proc").join(pid.trim()).exists(), "the tool is gone");
}

#[tokio::test]
async fn several_prompts_get_a_result_each_and_ids_are_followed() {
    let folder = tempdir().unwrap();
    let script = json!([{"text": "one"}, {"text": "two"}]);
    let mut setup = Setup::new(script, folder.path());
    setup.frames = FrameOptions { replay_prompts: true, ..FrameOptions::default() };
    let talk = Talk::start(setup);
    let stamped = json!({"type": "user", "uuid": "u-1", "message": {"role": "user", "content": "a"}, "parent_tool_use_id": null});
    talk.send(line(stamped.clone())).await;
    talk.send(line(stamped)).await;
    talk.send(prompt("b")).await;
    let (frames, _) = talk.finish().await;
    let results = of_type(&frames, "result");
    assert_eq!(results.len(), 2, "a repeated id is no new prompt");
    assert_eq!(results[0]["user_message_uuids"], json!(["u-1"]));
    assert_eq!((&results[0]["result_index"], &results[1]["result_index"]), (&json!(0), &json!(1)));
    let states: Vec<&str> =
        of_type(&frames, "command_lifecycle").iter().filter_map(|frame| frame["state"].as_str()).collect();
    assert_eq!(states, ["queued", "started", "completed"]);
    let replays = frames.iter().filter(|frame| frame["isReplay"] == true).count();
    assert_eq!(replays, 3, "both copies of the first, and the second");
}

#[tokio::test]
async fn a_prompt_during_a_turn_joins_it_at_the_next_pause() {
    let folder = tempdir().unwrap();
    let script = json!([
        {"tools": [{"name": "Bash", "input": {"command": "until [ -e go ]; do sleep 0.01; done"}}]},
        {"text": "both"},
    ]);
    let mut talk = Talk::start(Setup::new(script, folder.path()));
    talk.send(prompt("first")).await;
    talk.until(|frame| frame["message"]["content"][0]["type"] == "tool_use").await;
    let second = json!({"type": "user", "uuid": "u-2", "message": {"role": "user", "content": "second"}, "parent_tool_use_id": null});
    talk.send(line(second)).await;
    talk.until(|frame| frame["type"] == "command_lifecycle" && frame["state"] == "queued").await;
    std::fs::write(folder.path().join("go"), "").unwrap();
    let (frames, _) = talk.finish().await;
    let results = of_type(&frames, "result");
    assert_eq!(results.len(), 1);
    assert_eq!(results[0]["user_message_uuids"], json!(["u-2"]));
}

#[tokio::test]
async fn requests_nobody_knows_get_an_error() {
    let folder = tempdir().unwrap();
    let talk = Talk::start(Setup::new(json!([{"text": "x"}]), folder.path()));
    let ask = |id: &str, request: Value| {
        line(json!({"type": "control_request", "request_id": id, "request": request}))
    };
    talk.send(ask("a", json!({"subtype": "totally_unknown"}))).await;
    talk.send(ask("b", json!({"subtype": "set_permission_mode", "mode": "bogus"}))).await;
    talk.send(ask("c", json!({"subtype": "set_permission_mode"}))).await;
    talk.send(ask("d", json!({"subtype": "set_permission_mode", "mode": "plan"}))).await;
    talk.send(ask("e", json!({"subtype": "set_model", "model": "sonnet"}))).await;
    let (frames, _) = talk.finish().await;
    let reply = |id: &str| {
        let fits = |frame: &&&Value| frame["response"]["request_id"] == id;
        let replies = of_type(&frames, "control_response");
        replies.iter().find(fits).map(|frame| frame["response"].clone()).unwrap_or_default()
    };
    assert_eq!(reply("a")["error"], "Unsupported control request subtype: totally_unknown");
    assert_eq!(reply("a")["error_code"], "unsupported_request");
    assert_eq!(reply("b")["error_code"], "invalid_mode");
    assert_eq!(reply("c")["error_code"], "invalid_mode");
    assert_eq!(reply("d")["response"], json!({"mode": "plan"}));
    assert_eq!(reply("e")["response"], json!({"model": "claude-sonnet-5-5"}));
    assert!(frames.iter().any(|frame| frame["subtype"] == "status" && frame["permissionMode"] == "plan"));
}

#[tokio::test]
async fn a_prompt_that_asks_nothing_is_only_remembered() {
    let folder = tempdir().unwrap();
    let talk = Talk::start(Setup::new(json!([{"text": "x"}]), folder.path()));
    let note = json!({"type": "user", "shouldQuery": false, "message": {"role": "user", "content": "note"}, "parent_tool_use_id": null});
    talk.send(line(note)).await;
    let (frames, _) = talk.finish().await;
    let result = of_type(&frames, "result")[0];
    assert_eq!((&result["num_turns"], &result["result"]), (&json!(0), &json!("")));
}

#[tokio::test]
async fn nothing_in_nothing_out() {
    let folder = tempdir().unwrap();
    let (frames, end) = run(Setup::new(json!([{"text": "x"}]), folder.path()), &[]).await;
    assert!(frames.is_empty());
    assert!(!end.last_was_error);
}
