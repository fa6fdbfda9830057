//! Questions to a person: AskUserQuestion, and the consent that ends plan mode.

mod common;

use common::{Setup, Talk, line, of_type, prompt};
use lathe_agent::PromptSurface;
use lathe_protocol::{Inbound, PermissionMode};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

fn setup(script: Value, folder: &TempDir, mode: PermissionMode) -> Setup {
    let mut setup = Setup::new(script, folder.path());
    setup.surface = PromptSurface::Host;
    setup.mode = mode;
    setup
}

fn answer(question: &Value, response: Value) -> Inbound {
    line(json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": question["request_id"], "response": response,
    }}))
}

fn is_question(frame: &Value) -> bool {
    frame["request"]["subtype"] == "can_use_tool"
}

fn is_tool_result(frame: &Value) -> bool {
    frame["message"]["content"][0]["type"] == "tool_result"
}

fn ask_script(more: Value) -> Value {
    let mut input = json!({"questions": [{"question": "Which?", "header": "Pick", "options": [
        {"label": "A", "description": "a"}, {"label": "B", "description": "b"},
    ]}]});
    for (key, value) in more.as_object().into_iter().flatten() {
        input[key] = value.clone();
    }
    json!([{"tools": [{"name": "AskUserQuestion", "input": input}]}, {"text": "done"}])
}

#[tokio::test]
async fn a_question_is_answered_by_the_host_in_every_mode() {
    for mode in [PermissionMode::Default, PermissionMode::BypassPermissions, PermissionMode::Plan] {
        let folder = tempdir().unwrap();
        // What the model claims to be the answer is not shown to anybody.
        let script = ask_script(json!({"answers": {"Which?": "made up"}}));
        let mut talk = Talk::start(setup(script, &folder, mode));
        talk.send(prompt("go")).await;
        let question = talk.until(is_question).await;
        let input = &question["request"]["input"];
        assert_eq!(question["request"]["requires_user_interaction"], true);
        assert_eq!(input.get("answers"), None);
        let mut answered = input.clone();
        answered["answers"] = json!({"Which?": "B"});
        talk.send(answer(&question, json!({"behavior": "allow", "updatedInput": answered}))).await;
        let frame = talk.until(is_tool_result).await;
        let content = frame["message"]["content"][0]["content"].as_str().unwrap();
        assert!(content.starts_with("Your questions have been answered: \"Which?\"=\"B\"."), "{content}");
        assert_eq!(frame["tool_use_result"]["answers"], json!({"Which?": "B"}));
        talk.finish().await;
    }
}

#[tokio::test]
async fn a_question_nobody_answers_is_told_so_and_one_nobody_may_ask_is_denied() {
    let folder = tempdir().unwrap();
    let mut talk = Talk::start(setup(ask_script(json!({})), &folder, PermissionMode::Default));
    talk.send(prompt("go")).await;
    let question = talk.until(is_question).await;
    talk.send(answer(&question, json!({"behavior": "allow"}))).await;
    let frame = talk.until(is_tool_result).await;
    assert_eq!(frame["tool_use_result"]["answers"], json!({}));
    talk.finish().await;
    let mut talk = Talk::start(setup(ask_script(json!({})), &folder, PermissionMode::DontAsk));
    talk.send(prompt("go")).await;
    let frame = talk.until(is_tool_result).await;
    assert_eq!(frame["message"]["content"][0]["is_error"], true);
    let (frames, _) = talk.finish().await;
    assert_eq!(of_type(&frames, "result")[0]["permission_denials"].as_array().unwrap().len(), 1);
}

/// Plans, writes the plan, asks for consent, then writes a file.
fn plan_script(plan: &std::path::Path, made: &std::path::Path) -> Value {
    json!([
        {"tools": [{"name": "EnterPlanMode", "input": {}}]},
        {"tools": [{"name": "Write", "input": {"file_path": plan, "content": "# Do it"}}]},
        {"tools": [{"name": "ExitPlanMode", "input": {"plan": "not this"}}]},
        {"tools": [{"name": "Write", "input": {"file_path": made, "content": "x"}}]},
        {"text": "done"},
    ])
}

#[tokio::test]
async fn plan_mode_is_entered_by_the_model_and_left_with_consent() {
    let folder = tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (plan, made) = (root.join("plans/p.md"), root.join("made"));
    let mut setup = setup(plan_script(&plan, &made), &folder, PermissionMode::AcceptEdits);
    setup.plan_file = Some(plan.clone());
    let mut talk = Talk::start(setup);
    talk.send(prompt("go")).await;
    let entered = talk.until(|frame| frame["subtype"] == "status").await;
    assert_eq!(entered["permissionMode"], "plan");
    let question = talk.until(is_question).await;
    assert_eq!(question["request"]["tool_name"], "ExitPlanMode");
    let input = &question["request"]["input"];
    assert_eq!((&input["plan"], &input["planFilePath"]), (&json!("# Do it"), &json!(plan)));
    talk.send(answer(&question, json!({"behavior": "allow"}))).await;
    let left = talk.until(|frame| frame["subtype"] == "status").await;
    assert_eq!(left["permissionMode"], "acceptEdits", "the mode that planning interrupted");
    let frame = talk.until(is_tool_result).await;
    assert_eq!(frame["tool_use_result"]["plan"], "# Do it");
    assert_eq!(frame["tool_use_result"]["filePath"], json!(plan));
    let (_, end) = talk.finish().await;
    assert!(made.exists() && !end.last_was_error);
}

#[tokio::test]
async fn a_refused_plan_keeps_plan_mode_and_a_changed_one_is_what_counts() {
    let folder = tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let plan = root.join("plans/p.md");
    std::fs::create_dir_all(root.join("plans")).unwrap();
    std::fs::write(&plan, "first").unwrap();
    let exit = json!({"tools": [{"name": "ExitPlanMode", "input": {}}]});
    let mut setup = setup(json!([exit, exit, {"text": "done"}]), &folder, PermissionMode::Plan);
    setup.plan_file = Some(plan.clone());
    let mut talk = Talk::start(setup);
    talk.send(prompt("go")).await;
    let question = talk.until(is_question).await;
    talk.send(answer(&question, json!({"behavior": "deny", "message": "think again"}))).await;
    let frame = talk.until(is_tool_result).await;
    assert_eq!(frame["message"]["content"][0]["content"], "think again");
    let question = talk.until(is_question).await;
    let mode = json!([{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]);
    let changed =
        json!({"behavior": "allow", "updatedInput": {"plan": "better"}, "updatedPermissions": mode});
    talk.send(answer(&question, changed)).await;
    let status = talk.until(|frame| frame["subtype"] == "status").await;
    assert_eq!(status["permissionMode"], "acceptEdits", "the host's choice holds");
    let frame = talk.until(is_tool_result).await;
    assert_eq!(frame["tool_use_result"]["planWasEdited"], true);
    assert_eq!(std::fs::read_to_string(&plan).unwrap(), "better");
    talk.finish().await;
}
