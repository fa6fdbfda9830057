//! What a host may ask of a running session, and what becomes of lines that make no sense.

mod common;

use common::{Setup, Talk, line, of_type, prompt};
use lathe_agent::PromptSurface;
use lathe_protocol::{Inbound, PermissionMode};
use serde_json::{Value, json};
use tempfile::tempdir;

fn request(id: &str, request: Value) -> Inbound {
    line(json!({"type": "control_request", "request_id": id, "request": request}))
}

fn answer(question: &Value, response: Value) -> Inbound {
    line(json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": question["request_id"], "response": response,
    }}))
}

fn is_reply(id: &str) -> impl Fn(&Value) -> bool {
    move |frame| frame["type"] == "control_response" && frame["response"]["request_id"] == id
}

fn is_result(frame: &Value) -> bool {
    frame["type"] == "result"
}

/// Asks and gives the answer.
async fn ask(talk: &mut Talk, id: &str, body: Value) -> Value {
    talk.send(request(id, body)).await;
    talk.until(is_reply(id)).await["response"].clone()
}

#[tokio::test]
async fn a_side_question_is_answered_by_the_model_and_leaves_no_trace() {
    let folder = tempdir().unwrap();
    let script = json!({"turns": [
        {"when": {"any_user": "why?"}, "text": "because", "usage": {"input_tokens": 7, "output_tokens": 3}},
        {"when": {"any_user": "why?"}, "text": "the question is in the history"},
        {"text": "main answer"},
        {"text": "nothing heard of it"},
    ]});
    let setup = Setup::new(script, folder.path());
    let mut talk = Talk::start(setup);
    talk.send(prompt("go")).await;
    talk.until(is_result).await;
    talk.send(request("q", json!({"subtype": "side_question", "question": "why?"}))).await;
    let progress = talk.until(|frame| frame["subtype"] == "control_request_progress").await;
    assert_eq!((&progress["request_id"], &progress["status"]), (&json!("q"), &json!("started")));
    let reply = talk.until(is_reply("q")).await;
    assert_eq!(reply["response"]["response"], json!({"response": "because", "synthetic": false}));
    let usage = ask(&mut talk, "u", json!({"subtype": "get_usage"})).await;
    let models = &usage["response"]["session"]["model_usage"]["claude-opus-5-5"];
    assert!(models["inputTokens"].as_u64() > Some(7), "what it used counts: {usage}");
    talk.send(prompt("next")).await;
    assert_eq!(talk.until(is_result).await["result"], "nothing heard of it");
    talk.finish().await;
}

#[tokio::test]
async fn a_side_question_during_a_turn_can_be_taken_back() {
    let folder = tempdir().unwrap();
    let script = json!({"turns": [
        {"tools": [{"name": "Bash", "input": {"command": "until [ -e go ]; do sleep 0.01; done"}}]},
        {"text": "never", "delay_ms": 600_000},
        {"text": "done"},
    ]});
    let mut talk = Talk::start(Setup::new(script, folder.path()));
    talk.send(prompt("go")).await;
    talk.until(|frame| frame["message"]["content"][0]["type"] == "tool_use").await;
    talk.send(request("q", json!({"subtype": "side_question", "question": "why?"}))).await;
    talk.until(|frame| frame["subtype"] == "control_request_progress").await;
    talk.send(line(json!({"type": "control_cancel_request", "request_id": "q"}))).await;
    let reply = talk.until(is_reply("q")).await;
    assert_eq!(reply["response"]["subtype"], "error");
    talk.send(line(json!({"type": "control_cancel_request", "request_id": "q"}))).await;
    std::fs::write(folder.path().join("go"), "").unwrap();
    let result = talk.until(is_result).await;
    assert_eq!(result["result"], "done");
    talk.finish().await;
}

#[tokio::test]
async fn a_side_question_that_fails_says_why() {
    let folder = tempdir().unwrap();
    let script = json!([{"error": {"status": 400, "message": "no such thing"}}]);
    let mut talk = Talk::start(Setup::new(script, folder.path()));
    let reply = ask(&mut talk, "q", json!({"subtype": "side_question", "question": "why?"})).await;
    assert_eq!(reply["subtype"], "error");
    assert!(reply["error"].as_str().unwrap().contains("no such thing"), "{reply}");
    let empty = ask(&mut talk, "e", json!({"subtype": "side_question", "question": " "})).await;
    assert_eq!(empty["subtype"], "error");
    talk.finish().await;
}

#[tokio::test]
async fn a_request_under_way_is_answered_before_the_session_ends() {
    let folder = tempdir().unwrap();
    let talk = Talk::start(Setup::new(
        json!({"turns": [{"text": "late but there", "delay_ms": 50}]}),
        folder.path(),
    ));
    talk.send(request("q", json!({"subtype": "side_question", "question": "why?"}))).await;
    let (frames, _) = talk.finish().await;
    let reply = frames.iter().find(|frame| is_reply("q")(frame)).expect("an answer");
    assert_eq!(reply["response"]["response"]["response"], "late but there");
}

#[tokio::test]
async fn a_title_is_made_and_kept_on_demand() {
    let folder = tempdir().unwrap();
    let script = json!([{"text": "\"Mend the fence.\"\n"}, {"text": "Other"}]);
    let mut talk = Talk::start(Setup::new(script, folder.path()));
    let body = json!({"subtype": "generate_session_title", "description": "fence", "persist": true});
    talk.send(request("t", body)).await;
    let frame = talk.until(|frame| frame["subtype"] == "session_title_changed").await;
    assert_eq!(frame["title"], "Mend the fence");
    let reply = talk.until(is_reply("t")).await;
    assert_eq!(reply["response"]["response"], json!({"title": "Mend the fence"}));
    let (frames, _) = talk.finish().await;
    assert!(frames.is_empty(), "{frames:?}");
}

/// A session whose host hooks model switches, introduced.
async fn with_switch_hooks(folder: &std::path::Path) -> Talk {
    let mut talk = Talk::start(Setup::new(json!([{"text": "one"}, {"text": "two"}]), folder));
    let hooks = json!({
        "PreModelSwitch": [{"hookCallbackIds": ["pre"]}],
        "PostModelSwitch": [{"hookCallbackIds": ["post"]}],
    });
    ask(&mut talk, "i", json!({"subtype": "initialize", "hooks": hooks})).await;
    talk
}

fn is_callback(id: &str) -> impl Fn(&Value) -> bool {
    move |frame| frame["request"]["callback_id"] == id
}

#[tokio::test]
async fn hooks_see_a_model_switch_and_the_next_prompt_waits_for_them() {
    let folder = tempdir().unwrap();
    let mut talk = with_switch_hooks(folder.path()).await;
    talk.send(request("m", json!({"subtype": "set_model", "model": "sonnet"}))).await;
    talk.send(prompt("go")).await;
    let pre = talk.until(is_callback("pre")).await;
    let input = &pre["request"]["input"];
    assert_eq!(input["from_model"], "claude-opus-5-5");
    assert_eq!(
        (&input["to_model"], &input["requested_model"]),
        (&json!("claude-sonnet-5-5"), &json!("sonnet"))
    );
    assert_eq!((&input["source"], &input["prompt_cache_warm"]), (&json!("sdk"), &json!(false)));
    talk.send(answer(&pre, json!({}))).await;
    let reply = talk.until(is_reply("m")).await;
    assert_eq!(reply["response"]["response"], json!({"model": "claude-sonnet-5-5"}));
    let post = talk.until(is_callback("post")).await;
    talk.send(answer(&post, json!({}))).await;
    let init = talk.until(|frame| frame["subtype"] == "init").await;
    assert_eq!(init["model"], "claude-sonnet-5-5", "the prompt came after the switch");
    talk.finish().await;
}

#[tokio::test]
async fn a_hook_may_refuse_a_model_switch() {
    let folder = tempdir().unwrap();
    let mut talk = with_switch_hooks(folder.path()).await;
    talk.send(request("m", json!({"subtype": "set_model", "model": "sonnet"}))).await;
    let pre = talk.until(is_callback("pre")).await;
    let deny = json!({"hookSpecificOutput": {
        "hookEventName": "PreModelSwitch", "permissionDecision": "deny", "permissionDecisionReason": "too dear",
    }});
    talk.send(answer(&pre, deny)).await;
    let reply = talk.until(is_reply("m")).await["response"].clone();
    assert_eq!(reply["error"], "Model switch blocked by a PreModelSwitch hook: too dear");
    assert_eq!(
        (&reply["error_code"], &reply["model"]),
        (&json!("blocked_by_hook"), &json!("claude-opus-5-5"))
    );
    talk.send(prompt("go")).await;
    let init = talk.until(|frame| frame["subtype"] == "init").await;
    assert_eq!(init["model"], "claude-opus-5-5");
    talk.finish().await;
}

#[tokio::test]
async fn a_switch_whose_hook_cannot_answer_any_more_does_not_hold_the_end() {
    let folder = tempdir().unwrap();
    let talk = with_switch_hooks(folder.path()).await;
    talk.send(request("m", json!({"subtype": "set_model", "model": "sonnet"}))).await;
    talk.send(prompt("go")).await;
    let (frames, end) = talk.finish().await;
    assert!(frames.iter().any(|frame| is_reply("m")(frame)), "{frames:?}");
    assert_eq!(of_type(&frames, "result").len(), 1);
    assert!(!end.last_was_error);
}

#[tokio::test]
async fn rules_of_every_source_are_listed() {
    let folder = tempdir().unwrap();
    let script = json!([{"tools": [{"name": "Bash", "input": {"command": "touch made"}}]}, {"text": "done"}]);
    let mut setup = Setup::new(script, folder.path());
    setup.mode = PermissionMode::Default;
    setup.surface = PromptSurface::Host;
    let mut talk = Talk::start(setup);
    talk.send(prompt("go")).await;
    let question = talk.until(|frame| frame["request"]["subtype"] == "can_use_tool").await;
    let updates = json!([
        {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "curl *"}], "behavior": "deny",
         "destination": "session"},
        {"type": "addDirectories", "directories": ["/tmp"], "destination": "session"},
    ]);
    talk.send(answer(&question, json!({"behavior": "allow", "updatedPermissions": updates}))).await;
    talk.until(is_result).await;
    let reply = ask(&mut talk, "r", json!({"subtype": "list_permission_rules"})).await;
    let state = &reply["response"]["state"];
    let rule =
        json!({"behavior": "deny", "source": "session", "rule": "Bash(curl *)", "editability": "session"});
    assert_eq!(state["rules"], json!([rule]));
    assert_eq!(state["workspaceDirectories"], json!([{"path": "/tmp", "source": "session"}]));
    talk.finish().await;
}

#[tokio::test]
async fn hooks_are_listed() {
    let folder = tempdir().unwrap();
    let mut talk = with_switch_hooks(folder.path()).await;
    let reply = ask(&mut talk, "h", json!({"subtype": "get_hooks_listing"})).await["response"].clone();
    assert_eq!(reply["events"], json!(["PostModelSwitch", "PreModelSwitch"]));
    assert_eq!(reply["hooks"][0]["callback"], "post");
    assert_eq!((&reply["hooks"][0]["source"], &reply["hooks"][0]["enabled"]), (&json!("sdk"), &json!(true)));
    let catalog = reply["eventCatalog"].as_array().unwrap();
    assert!(catalog.iter().any(|event| event["name"] == "PreToolUse" && event["supportsMatcher"] == true));
    talk.finish().await;
}

#[tokio::test]
async fn a_file_the_host_saw_being_read_may_be_edited() {
    let folder = tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("a.txt");
    std::fs::write(&path, "one\n").unwrap();
    let mtime = std::fs::metadata(&path).unwrap().modified().unwrap();
    let mtime = mtime.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    let write = |text: &str| json!({"name": "Write", "input": {"file_path": path, "content": text}});
    for (seeded, succeeds) in [(mtime, true), (1, false)] {
        let script = json!([{"tools": [write("two\n")]}, {"text": "done"}]);
        let mut setup = Setup::new(script, folder.path());
        setup.must_read_first = true;
        let mut talk = Talk::start(setup);
        let body = json!({"subtype": "seed_read_state", "path": path, "mtime": seeded});
        assert_eq!(ask(&mut talk, "s", body).await["subtype"], "success");
        talk.send(prompt("go")).await;
        let result = talk.until(|frame| frame["message"]["content"][0]["type"] == "tool_result").await;
        let failed = result["message"]["content"][0]["is_error"] == true;
        assert_eq!(failed, !succeeds, "{result}");
        talk.finish().await;
    }
}

#[tokio::test]
async fn variables_reach_later_commands() {
    let folder = tempdir().unwrap();
    let script =
        json!([{"tools": [{"name": "Bash", "input": {"command": "echo \"<$FOO>\""}}]}, {"text": "done"}]);
    let mut talk = Talk::start(Setup::new(script, folder.path()));
    let variables = json!({"FOO": "bar", "BAD=NAME": "x"});
    talk.send(line(json!({"type": "update_environment_variables", "variables": variables}))).await;
    talk.send(prompt("go")).await;
    let result = talk.until(|frame| frame["message"]["content"][0]["type"] == "tool_result").await;
    assert_eq!(result["message"]["content"][0]["content"], "<bar>");
    talk.finish().await;
}

#[tokio::test]
async fn lines_that_make_no_sense_are_answered_or_said_back() {
    let folder = tempdir().unwrap();
    let setup = Setup::new(json!([{"text": "still here"}]), folder.path());
    let log = setup.log.clone();
    let talk = Talk::start(setup);
    for value in [
        json!({"type": "control_request", "request_id": "a"}),
        json!({"type": "control_request", "request_id": "b", "request": {}}),
        json!({"type": "control_request", "request_id": "c", "request": {"subtype": "stop_task"}}),
        json!({"type": "control_request", "request": {"subtype": "interrupt"}}),
        json!({"type": "control_response", "response": {"subtype": "success", "request_id": "ghost"}}),
        json!({"type": "control_response"}),
        json!({"type": "user", "message": "no object"}),
        json!({"type": "update_environment_variables", "variables": 5}),
        json!({"type": "some_new_thing", "x": "y".repeat(5000)}),
        json!({"no": "type"}),
    ] {
        talk.send(line(value)).await;
    }
    talk.send(prompt("go")).await;
    let (frames, _) = talk.finish().await;
    for id in ["a", "b", "c"] {
        let replies: Vec<_> = frames.iter().filter(|frame| is_reply(id)(frame)).collect();
        assert_eq!(replies.len(), 1, "{id}");
        assert_eq!(replies[0]["response"]["subtype"], "error", "{id}");
    }
    let tags: Vec<&str> = frames.iter().filter_map(|frame| frame["tag"].as_str()).collect();
    let malformed = tags.iter().filter(|tag| **tag == "malformed_line").count();
    assert_eq!((tags.len(), malformed), (5, 4), "{tags:?}");
    assert!(tags.contains(&"unexpected_control_response"));
    let log = log.lock().unwrap();
    assert_eq!(log.len(), 7, "{log:#?}");
    assert!(log.iter().all(|line| line.len() < 400), "long lines are cut: {log:#?}");
    assert_eq!(of_type(&frames, "result")[0]["result"], "still here");
}

#[tokio::test]
async fn a_clean_run_logs_nothing_and_a_late_answer_is_no_trouble() {
    let folder = tempdir().unwrap();
    let script = json!([{"tools": [{"name": "Bash", "input": {"command": "touch made"}}]}, {"text": "next"}]);
    let mut setup = Setup::new(script, folder.path());
    setup.mode = PermissionMode::Default;
    setup.surface = PromptSurface::Host;
    let log = setup.log.clone();
    let mut talk = Talk::start(setup);
    talk.send(prompt("go")).await;
    let question = talk.until(|frame| frame["request"]["subtype"] == "can_use_tool").await;
    let again = ask(&mut talk, "i", json!({"subtype": "initialize"})).await;
    assert_eq!(again["pending_permission_requests"][0]["request_id"], question["request_id"]);
    assert_eq!(again["response"]["session_state"], "requires_action");
    talk.send(request("x", json!({"subtype": "interrupt"}))).await;
    let cancel = talk.until(|frame| frame["type"] == "control_cancel_request").await;
    assert_eq!(cancel["request_id"], question["request_id"]);
    talk.send(answer(&question, json!({"behavior": "allow"}))).await;
    talk.until(is_result).await;
    let (frames, _) = talk.finish().await;
    assert!(frames.iter().all(|frame| frame["subtype"] != "informational"), "{frames:?}");
    assert!(!folder.path().join("made").exists());
    assert_eq!(log.lock().unwrap().as_slice(), [] as [&str; 0]);
}

#[tokio::test]
async fn an_invalid_permission_answer_is_logged() {
    let folder = tempdir().unwrap();
    let script = json!([{"tools": [{"name": "Bash", "input": {"command": "touch made"}}]}, {"text": "next"}]);
    let mut setup = Setup::new(script, folder.path());
    setup.mode = PermissionMode::Default;
    setup.surface = PromptSurface::Host;
    let log = setup.log.clone();
    let mut talk = Talk::start(setup);
    talk.send(prompt("go")).await;
    let question = talk.until(|frame| frame["request"]["subtype"] == "can_use_tool").await;
    talk.send(answer(&question, json!({"behavior": "perhaps"}))).await;
    let (frames, _) = talk.finish().await;
    assert!(frames.iter().any(|frame| frame["tag"] == "invalid_permission_result"));
    assert!(!folder.path().join("made").exists());
    let log = log.lock().unwrap();
    assert!(log.len() == 1 && log[0].contains("can_use_tool"), "{log:?}");
}

#[tokio::test]
async fn what_has_no_effect_yet_is_said_and_aliases_have_theirs() {
    let folder = tempdir().unwrap();
    let script = json!([{"tools": [{"name": "Shell", "input": {"command": "echo hi"}}]}, {"text": "done"}]);
    let mut talk = Talk::start(Setup::new(script, folder.path()));
    let body = json!({
        "subtype": "initialize", "hooks": null, "sdkMcpServers": ["calc"], "toolAliases": {"Shell": "Bash"},
        "agents": {"a": {"description": "d", "prompt": "p"}},
    });
    let reply = ask(&mut talk, "i", body).await;
    assert_eq!(reply["response"]["agents"], json!([{"name": "a", "description": "d"}]));
    let note = talk.until(|frame| frame["tag"] == "initialize_ignored").await;
    assert!(note["content"].as_str().unwrap().contains("sdkMcpServers, agents"), "{note}");
    let status = ask(&mut talk, "s", json!({"subtype": "mcp_status"})).await;
    assert_eq!(status["response"]["mcpServers"][0]["status"], "failed");
    talk.send(prompt("go")).await;
    let init = talk.until(|frame| frame["subtype"] == "init").await;
    assert_eq!(init["mcp_servers"][0], json!({"name": "calc", "status": "failed", "source": "sdk"}));
    let result = talk.until(|frame| frame["message"]["content"][0]["type"] == "tool_result").await;
    assert_eq!(result["message"]["content"][0]["content"], "hi");
    talk.finish().await;
}
