//! A call is described once and decided on when it runs: what an earlier call of the same answer did to the folder, to
//! links and to the rules is seen by the decision about a later one, and a changed input is a new one.

mod common;

use std::fs;
use std::sync::Arc;

use common::{Setup, Talk, line, of_type, prompt, run};
use futures_util::future::BoxFuture;
use lathe_agent::{PromptSurface, SessionConfig};
use lathe_protocol::{CallSubject, PermissionBehavior, PermissionMode};
use lathe_tools::{Content, Tool, ToolContext, ToolFailure, ToolOutput};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

/// A folder with a project, a place outside of it, and files of the same name in each.
fn world() -> TempDir {
    let world = tempdir().unwrap();
    for (folder, word) in
        [("project", "top"), ("project/sub", "CANARY"), ("project/dir", "inner"), ("outside", "CANARY")]
    {
        fs::create_dir_all(world.path().join(folder)).unwrap();
        fs::write(world.path().join(folder).join("f"), word).unwrap();
    }
    world
}

fn setup(world: &TempDir, calls: Value, rules: &[(PermissionBehavior, &str)]) -> Setup {
    let script = json!([{"tools": calls}, {"text": "done"}]);
    let mut setup = Setup::new(script, &world.path().join("project"));
    setup.mode = PermissionMode::Default;
    setup.rules = rules.iter().map(|(behavior, rule)| (*behavior, (*rule).to_owned())).collect();
    setup
}

/// The contents of the tool results, in the order of the calls.
fn results(frames: &[Value]) -> Vec<String> {
    let mut results: Vec<(String, String)> = of_type(frames, "user")
        .iter()
        .flat_map(|frame| frame["message"]["content"].as_array().into_iter().flatten())
        .filter(|block| block["type"] == "tool_result")
        .map(|block| {
            let text = block["content"].as_str().unwrap_or_default().to_owned();
            (block["tool_use_id"].as_str().unwrap_or_default().to_owned(), text)
        })
        .collect();
    results.sort();
    results.into_iter().map(|(_, text)| text).collect()
}

#[tokio::test]
async fn a_change_of_folder_is_seen_by_the_decision_about_the_next_call() {
    let deny = [(PermissionBehavior::Deny, "Read(./sub/f)")];
    for second in [
        json!({"name": "Read", "id": "b", "input": {"file_path": "f"}}),
        json!({"name": "Bash", "id": "b", "input": {"command": "cat f"}}),
    ] {
        let world = world();
        let calls = json!([{"name": "Bash", "id": "a", "input": {"command": "cd sub"}}, second]);
        let (frames, _) = run(setup(&world, calls, &deny), &["go"]).await;
        let results = results(&frames);
        assert!(results[1].contains("denied"), "{results:?}");
        assert!(!results[1].contains("CANARY"), "{results:?}");
        // Without the change of folder the same call is fine.
        let (frames, _) = run(setup(&world, json!([second]), &deny), &["go"]).await;
        assert!(self::results(&frames)[0].contains("top"), "{frames:?}");
    }
}

#[tokio::test]
async fn a_link_swapped_by_an_earlier_call_is_seen_by_the_decision_about_the_next() {
    let allow = [
        (PermissionBehavior::Allow, "Bash(rm -r dir)"),
        (PermissionBehavior::Allow, "Bash(ln -s ../outside dir)"),
    ];
    for second in [
        json!({"name": "Read", "id": "b", "input": {"file_path": "dir/f"}}),
        json!({"name": "Bash", "id": "b", "input": {"command": "cat dir/f"}}),
        json!({"name": "Grep", "id": "b", "input": {"pattern": "CAN", "path": "dir", "output_mode": "content"}}),
    ] {
        let world = world();
        let swap =
            json!({"name": "Bash", "id": "a", "input": {"command": "rm -r dir && ln -s ../outside dir"}});
        let (frames, _) = run(setup(&world, json!([swap, second]), &allow), &["go"]).await;
        assert!(fs::symlink_metadata(world.path().join("project/dir")).unwrap().is_symlink(), "{frames:?}");
        let results = results(&frames);
        assert!(!results[1].contains("CANARY"), "{results:?}");
        assert_eq!(of_type(&frames, "result")[0]["permission_denials"][0]["tool_use_id"], "b", "{frames:?}");
    }
}

#[tokio::test]
async fn an_input_that_the_host_changed_is_validated_and_described_like_a_new_one() {
    let calls = json!([{"name": "Write", "id": "a", "input": {"file_path": "new", "content": "x"}}]);
    let answers = [
        (json!({"file_path": "sub/f", "content": "x"}), "denied"),
        (json!({"file_path": "new"}), "content"),
        (json!({"file_path": "other", "content": "x"}), "other"),
    ];
    for (updated, expected) in answers {
        let world = world();
        let deny = [(PermissionBehavior::Deny, "Edit(./sub/**)")];
        let mut setup = setup(&world, calls.clone(), &deny);
        setup.surface = PromptSurface::Host;
        let mut talk = Talk::start(setup);
        talk.send(prompt("go")).await;
        let question = talk.until(|frame| frame["request"]["subtype"] == "can_use_tool").await;
        talk.send(line(json!({"type": "control_response", "response": {
            "subtype": "success", "request_id": question["request_id"],
            "response": {"behavior": "allow", "updatedInput": updated},
        }})))
        .await;
        let frame = talk.until(|frame| frame["message"]["content"][0]["type"] == "tool_result").await;
        let content = frame["message"]["content"][0]["content"].as_str().unwrap();
        assert!(content.contains(expected), "{updated}: {content}");
        assert_eq!(fs::read_to_string(world.path().join("project/sub/f")).unwrap(), "CANARY");
        assert!(!world.path().join("project/new").exists(), "{updated}");
        talk.finish().await;
    }
}

#[tokio::test]
async fn an_input_that_a_hook_made_useless_is_not_asked_about() {
    let world = world();
    let calls = json!([{"name": "Write", "id": "a", "input": {"file_path": "new", "content": "x"}}]);
    let mut setup = setup(&world, calls, &[]);
    setup.hooks = json!({"PreToolUse": [{"hooks": [{"type": "command", "command": format!(
        "echo '{}'",
        json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"file_path": 7}}})
    )}]}]});
    let (frames, _) = run(setup, &["go"]).await;
    let results = results(&frames);
    assert!(results[0].contains("InputValidationError"), "{results:?}");
    assert_eq!(of_type(&frames, "result")[0]["permission_denials"], json!([]), "{frames:?}");
}

/// A tool that does not know what its calls are about.
struct Taciturn;

impl Tool for Taciturn {
    fn name(&self) -> &str {
        "TodoWrite"
    }

    fn description(&self) -> &str {
        "does something"
    }

    fn input_schema(&self) -> &Value {
        static SCHEMA: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| json!({"type": "object"}));
        &SCHEMA
    }

    fn subject(&self, _input: &Value) -> CallSubject {
        CallSubject::Unknown
    }

    fn call<'a>(
        &'a self,
        _input: &'a Value,
        _context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        let content = Content::Text("it ran".to_owned());
        Box::pin(async { Ok(ToolOutput::new(content, json!("it ran"))) })
    }
}

#[tokio::test]
async fn a_tool_that_does_not_describe_itself_is_asked_about_in_every_mode_but_bypass() {
    use PermissionMode::{AcceptEdits, BypassPermissions, Default, DontAsk, Plan};
    for mode in [Default, AcceptEdits, Plan, DontAsk, BypassPermissions] {
        let world = world();
        let calls = json!([{"name": "TodoWrite", "id": "a", "input": {}}]);
        let mut setup = setup(&world, calls, &[(PermissionBehavior::Allow, "TodoWrite")]);
        setup.mode = mode;
        let add = |mut config: SessionConfig| {
            config.main.tools = config.main.tools.with(Arc::new(Taciturn));
            config
        };
        let (frames, _) = common::run_config(add(setup.config()), &["go"]).await;
        let ran = results(&frames)[0].contains("it ran");
        assert_eq!(ran, mode == BypassPermissions, "{mode}: {frames:?}");
    }
}
