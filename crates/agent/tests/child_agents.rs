//! Two agents at once below a turn: each has its own conversation, tools, model and folder; rules, budget, host and
//! files are the session's.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{Setup, Talk, line, of_type, prompt};
use futures_util::future::BoxFuture;
use lathe_agent::AgentJournal;
use lathe_agent::{PromptSurface, SessionConfig};
use lathe_protocol::{CallSubject, PermissionMode};
use lathe_tools::{
    AgentRequest, Content, Tool, ToolContext, ToolFailure, ToolOutput, ToolSet, builtin_tools,
};
use lathe_transcript::record::Envelope;
use lathe_transcript::{Durability, SessionPaths, TranscriptWriter, list_subagents, subagent_messages};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

const SESSION: &str = "00000000-0000-4000-8000-00000000abcd";

/// Starts an agent of the type that the input names, in the folder of that name, with that tool alone.
struct StartAgent {
    root: PathBuf,
}

impl Tool for StartAgent {
    fn name(&self) -> &str {
        "StartAgent"
    }

    fn description(&self) -> &str {
        "starts an agent"
    }

    fn input_schema(&self) -> &Value {
        static SCHEMA: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| json!({"type": "object"}));
        &SCHEMA
    }

    fn subject(&self, input: &Value) -> CallSubject {
        let agent_type = input["type"].as_str().unwrap_or_default().to_owned();
        CallSubject::Agent { agent_type }
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            let agent_type = input["type"].as_str().unwrap_or_default().to_owned();
            let only = [input["tool"].as_str().unwrap_or_default().to_owned()];
            let request = AgentRequest {
                folder: Some(self.root.join(&agent_type)),
                system_prompt: format!("You are {agent_type}."),
                description: "a test".to_owned(),
                prompt: format!("work as {agent_type}"),
                tools: ToolSet::new(builtin_tools()).select(lathe_tools::Selection::Only(&only)),
                model: input["model"].as_str().map(str::to_owned),
                max_rounds: None,
                agent_type,
            };
            let report = {
                let (id, cancel) = (context.tool_use_id.clone(), context.cancel.clone());
                context.session.clone().run_agent(request, id, cancel).await
            };
            let result = json!({"end": format!("{:?}", report.end), "agent": report.agent_id});
            Ok(ToolOutput::new(Content::Text(report.text), result))
        })
    }
}

/// A project with a folder for each agent.
fn world() -> TempDir {
    let world = tempdir().unwrap();
    for folder in ["one", "two"] {
        fs::create_dir_all(world.path().join(folder)).unwrap();
        fs::write(world.path().join(folder).join("here"), folder).unwrap();
    }
    world
}

/// A session that starts two agents in its first answer. `one` and `two` are the scripts of their turns.
fn config(world: &TempDir, mode: PermissionMode, one: Value, two: Value) -> SessionConfig {
    setup_config(world, mode, one, two, |_| {})
}

fn setup_config(
    world: &TempDir,
    mode: PermissionMode,
    one: Value,
    two: Value,
    change: impl FnOnce(&mut Setup),
) -> SessionConfig {
    let start = |kind: &str, tool: &str, model: &str| json!({"name": "StartAgent", "id": kind, "input": {"type": kind, "tool": tool, "model": model}});
    let for_agent = |agent: &str, turns: &Value| {
        let turns = turns.as_array().cloned().unwrap_or_default();
        turns
            .into_iter()
            .map(|mut turn| {
                turn["when"] = json!({"agent": agent});
                turn["times"] = json!(1);
                turn
            })
            .collect::<Vec<Value>>()
    };
    let main = json!([
        {"tools": [start("one", "Bash", "haiku"), start("two", "Read", "opus")]},
        {"text": "both are done"},
        {"text": "next"},
    ]);
    let mut turns = for_agent("main", &main);
    turns.extend(for_agent("one", &one));
    turns.extend(for_agent("two", &two));
    let root = world.path().canonicalize().unwrap();
    let mut setup = Setup::new(json!({"turns": turns}), &root);
    setup.mode = mode;
    setup.surface = PromptSurface::Host;
    let file = root.join(format!("{SESSION}.jsonl"));
    let writer = TranscriptWriter::create(&file, Durability::ProcessCrash).unwrap();
    let envelope = Envelope { session_id: SESSION.to_owned(), ..Envelope::default() };
    setup.journal = Some(AgentJournal::new(writer, envelope));
    change(&mut setup);
    let mut config = setup.config();
    config.main.tools = config.main.tools.with(Arc::new(StartAgent { root }));
    config
}

fn bash(id: &str, command: &str) -> Value {
    json!({"tools": [{"name": "Bash", "id": id, "input": {"command": command}}]})
}

/// The frames of one agent.
fn of_agent<'a>(frames: &'a [Value], parent: &str) -> Vec<&'a Value> {
    frames.iter().filter(|frame| frame["parent_tool_use_id"] == parent).collect()
}

#[tokio::test]
async fn each_child_has_its_own_place_and_says_who_it_is() {
    let world = world();
    let one = json!([bash("b1", "cat here; cd /"), {"text": "I am one"}]);
    let two = json!([
        {"tools": [{"name": "Read", "id": "r1", "input": {"file_path": "here"}}]},
        {"text": "I am two"},
    ]);
    let config = config(&world, PermissionMode::BypassPermissions, one, two);
    let (frames, end) = common::run_config(config, &["go"]).await;
    assert!(!end.last_was_error, "{frames:?}");
    for (kind, text, seen) in [("one", "I am one", "one"), ("two", "I am two", "two")] {
        let own = of_agent(&frames, kind);
        assert!(own.iter().all(|frame| frame["agent_id"].is_string()), "{own:?}");
        let said = serde_json::to_string(&own).unwrap();
        assert!(said.contains(text) && said.contains(&format!("work as {kind}")), "{said}");
        let result = frames.iter().find(|frame| {
            frame["message"]["content"][0]["tool_use_id"] == kind && frame["parent_tool_use_id"].is_null()
        });
        assert_eq!(result.unwrap()["message"]["content"][0]["content"], text, "{frames:?}");
        assert!(said.contains(seen));
    }
    let ids = list_subagents(&SessionPaths::of_transcript(&session_file(&world))).unwrap();
    assert_eq!(ids.len(), 2);
    let texts: Vec<String> = ids
        .iter()
        .map(|id| {
            let rows = subagent_messages(&SessionPaths::of_transcript(&session_file(&world)), id).unwrap();
            serde_json::to_string(&rows.iter().map(|row| format!("{row:?}")).collect::<Vec<_>>()).unwrap()
        })
        .collect();
    assert!(texts.iter().any(|text| text.contains("I am one")), "{texts:?}");
    assert!(texts.iter().any(|text| text.contains("I am two")), "{texts:?}");
    let main = fs::read_to_string(session_file(&world)).unwrap();
    assert!(!main.contains("\"isSidechain\":true") && !main.contains("work as"), "{main}");
}

fn session_file(world: &TempDir) -> PathBuf {
    world.path().canonicalize().unwrap().join(format!("{SESSION}.jsonl"))
}

#[tokio::test]
async fn what_a_host_allows_one_child_holds_for_the_other() {
    let world = world();
    let one = json!([bash("b1", "touch made"), bash("b2", "touch made"), {"text": "I am one"}]);
    let two = json!([{"text": "I am two"}]);
    let config = config(&world, PermissionMode::Default, one, two);
    let mut talk = Talk::start_config(config);
    talk.send(prompt("go")).await;
    let asked = talk.until(|frame| frame["request"]["subtype"] == "can_use_tool").await;
    assert_eq!(asked["request"]["tool_name"], "Bash");
    assert!(asked["request"]["agent_id"].is_string(), "{asked}");
    let rule = json!([{"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "touch made"}],
        "behavior": "allow", "destination": "session"}]);
    talk.send(allow(&asked, rule)).await;
    let result = talk.until(|frame| frame["type"] == "result").await;
    assert_eq!(result["permission_denials"], json!([]), "{result}");
    assert!(world.path().join("one/made").exists());
    let (rest, _) = talk.finish().await;
    assert!(of_type(&rest, "control_request").is_empty(), "{rest:?}");
}

fn allow(asked: &Value, updates: Value) -> lathe_protocol::Inbound {
    line(json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": asked["request_id"],
        "response": {"behavior": "allow", "updatedInput": asked["request"]["input"],
            "updatedPermissions": updates},
    }}))
}

#[tokio::test]
async fn another_model_during_the_turn_is_for_the_main_agent() {
    let world = world();
    let one =
        json!([bash("b1", "echo $$ > pid; while [ ! -e go ]; do sleep 0.02; done"), {"text": "I am one"}]);
    let two = json!([{"text": "I am two"}]);
    let config = config(&world, PermissionMode::BypassPermissions, one, two);
    let mut talk = Talk::start_config(config);
    talk.send(prompt("go")).await;
    pid_in(&world.path().join("one/pid")).await;
    let request = json!({"subtype": "set_model", "model": "sonnet"});
    talk.send(line(json!({"type": "control_request", "request_id": "m", "request": request}))).await;
    talk.until(|frame| frame["response"]["request_id"] == "m").await;
    fs::write(world.path().join("one/go"), "").unwrap();
    let says = |frame: &Value, text: &str| frame["message"]["content"][0]["text"] == text;
    let child = talk.until(|frame| says(frame, "I am one")).await;
    let main = talk.until(|frame| says(frame, "both are done")).await;
    let model = |frame: &Value| frame["message"]["model"].as_str().unwrap_or_default().to_owned();
    assert!(model(&child).contains("haiku"), "{child}");
    assert!(model(&main).contains("sonnet"), "{main}");
    talk.finish().await;
}

#[tokio::test]
async fn children_count_into_the_budget_which_ends_the_turn() {
    let world = world();
    let one = json!([{"text": "expensive", "usage": {"output_tokens": 1_000_000}}]);
    let two = json!([{"text": "I am two"}]);
    let config = setup_config(&world, PermissionMode::BypassPermissions, one, two, |setup| {
        setup.max_budget_usd = Some(0.2);
    });
    let (frames, _) = common::run_config(config, &["go"]).await;
    let result = of_type(&frames, "result")[0];
    assert_eq!(result["subtype"], "error_max_budget_usd", "{result}");
}

#[tokio::test]
async fn an_interrupt_ends_all_and_nothing_is_left_running() {
    let world = world();
    let one = json!([bash("b1", "echo $$ > pid; exec sleep 1000"), {"text": "never"}]);
    let two = json!([{"text": "I am two"}]);
    let config = config(&world, PermissionMode::BypassPermissions, one, two);
    let mut talk = Talk::start_config(config);
    talk.send(prompt("go")).await;
    let pid = pid_in(&world.path().join("one/pid")).await;
    talk.send(line(
        json!({"type": "control_request", "request_id": "i", "request": {"subtype": "interrupt"}}),
    ))
    .await;
    let result = talk.until(|frame| frame["type"] == "result").await;
    assert_eq!(result["terminal_reason"], "aborted_tools", "{result}");
    assert!(!Path::new("/proc").join(pid.to_string()).exists(), "the child's command is gone");
    talk.send(prompt("/clear")).await;
    talk.until(|frame| frame["type"] == "result").await;
    let (_, end) = talk.finish().await;
    assert!(!end.last_was_error);
}

#[tokio::test]
async fn a_child_that_ends_kills_its_own_commands_only() {
    let world = world();
    let one = json!([bash("b1", "(sleep 1000 & echo $! > child)"), {"text": "I am one"}]);
    let two = json!([{"text": "I am two"}]);
    let config = config(&world, PermissionMode::BypassPermissions, one, two);
    let mut talk = Talk::start_config(config);
    talk.send(prompt("go")).await;
    talk.until(|frame| {
        frame["message"]["content"][0]["tool_use_id"] == "one" && frame["parent_tool_use_id"].is_null()
    })
    .await;
    let pid = pid_in(&world.path().join("one/child")).await;
    assert!(!Path::new("/proc").join(pid.to_string()).exists(), "what the child left running ended with it");
    talk.until(|frame| frame["type"] == "result").await;
    talk.finish().await;
}

/// The number that a command writes to a file, once it is there.
async fn pid_in(path: &Path) -> u32 {
    let read = async {
        loop {
            if let Some(pid) = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()) {
                return pid;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), read).await.expect("the command starts")
}
