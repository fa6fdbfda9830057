//! Slash commands as a host sees them: which are answered by the session itself, with which frames, and what
//! goes to the model.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{Setup, Talk, kinds, line, of_type, prompt, run};
use futures_util::future::BoxFuture;
use lathe_agent::{
    AddedCommand, CommandAction, CommandNameTaken, CommandRegistry, CompactPolicy, CompactSwitch,
    SlashCommands,
};
use lathe_settings::memory::{self, Memory, MemoryRequest};
use serde_json::{Value, json};
use tempfile::tempdir;

/// A script whose turns check what they are asked.
fn turns(turns: Value) -> Value {
    json!({"turns": turns})
}

/// Memory of a folder whose instructions are these.
fn remembering(text: &str, folder: &Path) -> Memory {
    std::fs::write(folder.join("CLAUDE.md"), text).unwrap();
    memory::load(MemoryRequest { cwd: folder.canonicalize().unwrap(), ..MemoryRequest::default() })
}

fn results(frames: &[Value]) -> Vec<&Value> {
    of_type(frames, "result")
}

#[tokio::test]
async fn a_local_command_costs_nothing_and_says_what_ran() {
    let folder = tempdir().unwrap();
    let (frames, end) =
        run(Setup::new(json!([{"text": "never"}]), folder.path()), &["/context", "/cost"]).await;
    let turn = ["system init", "assistant text", "result success"];
    assert_eq!(kinds(&frames), [turn, turn].concat());
    assert!(!end.last_was_error);
    let (answer, result) = (&frames[1], &frames[2]);
    assert_eq!(answer["message"]["model"], "<synthetic>");
    assert_eq!(answer["message"]["stop_reason"], "end_turn");
    assert_eq!(answer["local_command_run"], json!({"command": "context", "args": ""}));
    let source = answer["local_command_source"].as_str().unwrap();
    assert!(source.starts_with("<local-command-stdout>## Context Usage"), "{source}");
    assert_eq!(answer["context_usage"]["raw_max_tokens"], 1_000_000);
    assert_eq!(result["local_command"], "context");
    assert_eq!((&result["num_turns"], &result["stop_reason"]), (&json!(0), &Value::Null));
    assert_eq!(result.get("terminal_reason"), None);
    assert_eq!(result["result"], answer["message"]["content"][0]["text"]);
    assert_eq!(results(&frames)[1]["local_command"], "usage", "the alias leads to its command");
    assert!(results(&frames)[1]["result"].as_str().unwrap().starts_with("Total cost: $0.0000"));
}

#[tokio::test]
async fn commands_change_what_they_are_about() {
    let folder = tempdir().unwrap();
    let script = turns(json!([{"text": "ok", "expect": {"model": "claude-haiku-4-5"}}]));
    let prompts =
        ["/model haiku-nope", "/model claude-haiku-4-5", "/effort sideways", "/rename Kettle", "hi"];
    let (frames, end) = run(Setup::new(script, folder.path()), &prompts).await;
    let results = results(&frames);
    assert_eq!(results[1]["result"], "Set model to claude-haiku-4-5");
    assert_eq!((&results[2]["is_error"], &results[2]["local_command"]), (&json!(true), &json!("effort")));
    assert!(frames.iter().any(|f| f["subtype"] == "session_title_changed" && f["title"] == "Kettle"));
    assert_eq!(results[4]["result"], "ok");
    assert!(!end.last_was_error);
}

#[tokio::test]
async fn a_command_of_a_terminal_says_that_it_is_none_here() {
    let folder = tempdir().unwrap();
    let (frames, _) = run(Setup::new(json!([{"text": "never"}]), folder.path()), &["/vim"]).await;
    assert_eq!(frames[1]["local_command_outcome"], json!({"kind": "unavailable_headless"}));
    assert_eq!(results(&frames)[0]["result"], "/vim isn't available in this environment.");
    assert_eq!(results(&frames)[0].get("local_command"), None);
}

#[tokio::test]
async fn what_nobody_knows_goes_to_the_model_with_a_note() {
    let folder = tempdir().unwrap();
    let script = turns(json!([{
        "text": "hm", "expect": {"user": "/nosuch x", "body": {"/messages/0/content/1/text": {"contains": "no such command"}}},
    }]));
    let (frames, _) = run(Setup::new(script, folder.path()), &["/nosuch x"]).await;
    assert_eq!(results(&frames)[0]["result"], "hm", "{frames:?}");
    let path =
        turns(json!([{"text": "hm", "expect": {"body": {"/messages/0/content/1": {"absent": true}}}}]));
    let (frames, _) = run(Setup::new(path, folder.path()), &["/etc/hosts is odd"]).await;
    assert_eq!(results(&frames)[0]["result"], "hm", "a path is no command: {frames:?}");
}

#[tokio::test]
async fn verbatim_prompts_and_switched_off_commands_are_text() {
    let folder = tempdir().unwrap();
    let script = turns(json!([{"text": "text", "expect": {"user": {"equals": "/context"}}}]));
    let mut talk = Talk::start(Setup::new(script.clone(), folder.path()));
    talk.send(line(json!({
        "type": "user", "message": {"role": "user", "content": "/context"}, "parent_tool_use_id": null,
        "client_composed": true,
    })))
    .await;
    assert_eq!(talk.until(|frame| frame["type"] == "result").await["result"], "text");
    talk.finish().await;
    let mut setup = Setup::new(script, folder.path());
    setup.slash_commands = SlashCommands::Off;
    let (frames, _) = run(setup, &["/context"]).await;
    assert_eq!(results(&frames)[0]["result"], "text");
    assert_eq!(frames[0]["slash_commands"], json!([]));
}

#[tokio::test]
async fn hosts_can_list_the_commands() {
    let folder = tempdir().unwrap();
    let mut setup = Setup::new(json!([{"text": "hi"}]), folder.path());
    setup.compaction = CompactPolicy { manual: CompactSwitch::Off, ..CompactPolicy::default() };
    let mut talk = Talk::start(setup);
    let request = json!({"type": "control_request", "request_id": "r", "request": {"subtype": "initialize"}});
    talk.send(line(request)).await;
    let answer = talk.until(|frame| frame["type"] == "control_response").await;
    let commands = answer["response"]["response"]["commands"].as_array().unwrap().clone();
    let clear = commands.iter().find(|command| command["name"] == "clear").unwrap();
    assert_eq!((&clear["aliases"], &clear["builtin"]), (&json!(["reset", "new"]), &json!(true)));
    assert_eq!(clear["argumentHint"], "[name]");
    assert!(!commands.iter().any(|command| command["name"] == "compact"), "it is switched off");
    talk.finish().await;
}

#[tokio::test]
async fn a_command_waits_for_the_turn_and_nothing_overtakes_it() {
    let folder = tempdir().unwrap();
    let script = turns(json!([
        {"tools": [{"name": "Bash", "input": {"command": "while [ ! -e go ]; do sleep 0.01; done"}}]},
        {"text": "first", "expect": {"body": {"/messages/2/content/1": {"absent": true}}}},
        {"text": "second", "expect": {"user": "behind"}},
    ]));
    let mut talk = Talk::start(Setup::new(script, folder.path()));
    talk.send(prompt("start")).await;
    talk.until(|frame| frame["message"]["content"][0]["type"] == "tool_use").await;
    talk.send(prompt("/context")).await;
    talk.send(prompt("behind")).await;
    let status =
        json!({"type": "control_request", "request_id": "sync", "request": {"subtype": "get_context_usage"}});
    talk.send(line(status)).await;
    talk.until(|frame| frame["type"] == "control_response").await;
    std::fs::write(folder.path().join("go"), "").unwrap();
    let (rest, _) = talk.finish().await;
    let said: Vec<&Value> = results(&rest).into_iter().map(|result| &result["result"]).collect();
    assert_eq!(said.len(), 3, "{rest:?}");
    assert_eq!((said[0], said[2]), (&json!("first"), &json!("second")));
    assert_eq!(results(&rest)[1]["local_command"], "context");
}

#[tokio::test]
async fn clear_begins_another_session() {
    let folder = tempdir().unwrap();
    let script = turns(json!([
        {"text": "one"},
        {"text": "two", "expect": {"first_user": {"equals": "new"}, "body": {"/messages/1": {"absent": true}}}},
    ]));
    let mut setup = Setup::new(script, folder.path());
    setup.memory = Some(remembering("remember the heron", folder.path()));
    let (frames, end) = run(setup, &["old", "/clear", "new"]).await;
    let at = frames.iter().position(|frame| frame["type"] == "conversation_reset").unwrap();
    assert_eq!(
        kinds(&frames[at..]),
        [
            "conversation_reset",
            "system background_tasks_changed",
            "system init",
            "result success",
            "system init",
            "assistant text",
            "result success"
        ]
    );
    let (reset, tasks, init, result) = (&frames[at], &frames[at + 1], &frames[at + 2], &frames[at + 3]);
    assert_eq!((&reset["trigger"], &reset["new_conversation_id"]), (&json!("clear"), &reset["uuid"]));
    assert_eq!(reset["session_id"], frames[0]["session_id"]);
    assert_eq!(tasks["session_id"], frames[0]["session_id"]);
    assert_ne!(init["session_id"], frames[0]["session_id"]);
    assert_eq!(result["session_id"], init["session_id"]);
    assert_eq!((&result["result"], &result["local_command"]), (&json!(""), &json!("clear")));
    assert_eq!((&result["total_cost_usd"], &result["modelUsage"]), (&json!(0), &json!({})));
    assert_eq!((&result["num_turns"], &result["result_index"]), (&json!(0), &json!(1)));
    let last = frames.last().unwrap();
    assert_eq!((&last["result"], &last["session_id"]), (&json!("two"), &init["session_id"]));
    assert!(!end.last_was_error);
}

#[tokio::test]
async fn the_memory_is_there_after_clear_and_the_budget_goes_on() {
    let folder = tempdir().unwrap();
    let script = json!([
        {"text": "one", "in": 50000, "out": 2000},
        {"text": "never"},
    ]);
    let mut setup = Setup::new(script, folder.path());
    setup.max_budget_usd = Some(0.001);
    let (frames, _) = run(setup, &["old", "/clear", "new"]).await;
    let results = results(&frames);
    assert_eq!(results[1]["subtype"], "success", "clearing costs nothing");
    assert_eq!(results[2]["subtype"], "error_max_budget_usd", "the run has spent it: {}", results[2]);
    let script = turns(json!([
        {"text": "one"},
        {"text": "two", "expect": {"body": {"/messages/0/content/0/text": {"contains": "the heron"}}}},
    ]));
    let mut setup = Setup::new(script, folder.path());
    setup.memory = Some(remembering("remember the heron", folder.path()));
    let (frames, _) = run(setup, &["old", "/clear", "new"]).await;
    assert_eq!(frames.last().unwrap()["result"], "two");
}

#[tokio::test]
async fn the_memory_files_that_were_told_are_listed_with_their_share() {
    let folder = tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("sub")).unwrap();
    std::fs::write(root.join("sub/CLAUDE.md"), "herons only").unwrap();
    std::fs::write(root.join("sub/f"), "x").unwrap();
    let script = turns(
        json!([{"tools": [{"name": "Read", "input": {"file_path": root.join("sub/f")}}]}, {"text": "one"}]),
    );
    let mut setup = Setup::new(script, &root);
    setup.memory = Some(remembering(&"remember the heron ".repeat(100), &root));
    let mut talk = Talk::start(setup);
    let listed = async |talk: &mut Talk| {
        let request = json!({"subtype": "get_context_usage"});
        talk.send(line(json!({"type": "control_request", "request_id": "u", "request": request}))).await;
        talk.until(|frame| frame["type"] == "control_response").await["response"]["response"].clone()
    };
    let share = |usage: &Value, id: &str| {
        let categories = usage["categories"].as_array().unwrap();
        categories
            .iter()
            .find(|category| category["id"] == id)
            .map(|category| category["tokens"].as_u64().unwrap())
    };
    let before = listed(&mut talk).await;
    let own =
        json!({"path": root.join("CLAUDE.md"), "type": "Project", "tokens": share(&before, "memory_files")});
    assert_eq!(before["memoryFiles"], json!([own]));
    assert!((475..600).contains(&share(&before, "memory_files").unwrap()), "{before}");
    talk.send(prompt("go")).await;
    talk.until(|frame| frame["type"] == "result").await;
    let after = listed(&mut talk).await;
    let counted = json!({"input_tokens": 100, "output_tokens": 20, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0});
    assert_eq!((&before["apiUsage"], &after["apiUsage"]), (&Value::Null, &counted));
    let rows = after["gridRows"].as_array().unwrap();
    assert_eq!((rows.len(), rows.iter().map(|row| row.as_array().unwrap().len()).sum::<usize>()), (10, 200));
    let squares: Vec<&Value> = rows.iter().flat_map(|row| row.as_array().unwrap()).collect();
    let count = |name: &str| squares.iter().filter(|square| square["categoryName"] == name).count();
    assert_eq!((count("Messages"), count("Autocompact buffer")), (1, 7), "of 5,000 tokens each");
    assert_eq!((&squares[199]["squareFullness"], &squares[199]["percentage"]), (&json!(0.6), &json!(3)));
    let paths: Vec<&str> =
        after["memoryFiles"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(
        paths,
        [root.join("CLAUDE.md").to_str().unwrap(), root.join("sub/CLAUDE.md").to_str().unwrap()]
    );
    assert!(share(&after, "messages").unwrap() < 400, "they are counted once: {after}");
    talk.send(prompt("/context")).await;
    let shown = talk.until(|frame| frame["type"] == "assistant").await;
    assert_eq!(shown["context_usage"]["memory_files"], after["memoryFiles"]);
    let text = shown["message"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("| Memory files |") && text.contains("sub/CLAUDE.md"), "{text}");
    talk.finish().await;
}

#[tokio::test]
async fn usage_is_measured_against_the_window_that_counts() {
    let folder = tempdir().unwrap();
    let script = turns(json!([{"text": "word ".repeat(100_000)}]));
    let (frames, _) =
        run(Setup::new(script, folder.path()), &["go", "/context", "/autocompact 100000", "/context"]).await;
    let shown: Vec<&Value> =
        frames.iter().map(|frame| &frame["context_usage"]).filter(|usage| usage.is_object()).collect();
    assert_eq!((&shown[0]["raw_max_tokens"], shown[0].get("over_limit")), (&json!(1_000_000), None));
    assert_eq!(shown[1]["raw_max_tokens"], 100_000);
    assert_eq!(shown[1]["over_limit"]["kind"], "compaction_window");
    let over = shown[1]["total_tokens"].as_u64().unwrap() - 100_000;
    assert_eq!(shown[1]["over_limit"]["tokens_over"], over);
}

#[tokio::test]
async fn commands_of_the_shell_belong_to_the_new_session() {
    let folder = tempdir().unwrap();
    let script = json!([{"tools": [{"name": "Bash", "input": {"command": "echo id=$CLAUDE_CODE_SESSION_ID"}}]}, {"text": "ok"}]);
    let (frames, _) = run(Setup::new(script, folder.path()), &["/clear", "go"]).await;
    let shown = &of_type(&frames, "user")[0]["message"]["content"][0]["content"];
    let id = frames.last().unwrap()["session_id"].as_str().unwrap();
    assert_eq!(shown, &json!(format!("id={id}")));
}

/// A command that says what it was given, or fails without anything.
#[derive(Debug)]
struct Echo;

impl CommandAction for Echo {
    fn answer<'a>(&'a self, args: &'a str) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            if args.is_empty() { Err("nothing to say".to_owned()) } else { Ok(format!("echo: {args}")) }
        })
    }
}

fn echo(name: &str, alias: &str) -> AddedCommand {
    AddedCommand {
        name: name.to_owned(),
        aliases: vec![alias.to_owned()],
        description: "Say it again".to_owned(),
        argument_hint: "<words>".to_owned(),
        action: Arc::new(Echo),
    }
}

#[tokio::test]
async fn commands_come_and_go_while_the_session_runs() {
    let folder = tempdir().unwrap();
    let registry = Arc::new(CommandRegistry::default());
    let mut setup = Setup::new(json!([{"text": "the model"}, {"text": "the model"}]), folder.path());
    setup.slash_commands = SlashCommands::On(registry.clone());
    let mut talk = Talk::start(setup);
    let mut ask = async |text: &str| {
        talk.send(prompt(text)).await;
        let init = talk.until(|frame| frame["subtype"] == "init").await;
        (init["slash_commands"].to_string(), talk.until(|frame| frame["type"] == "result").await)
    };
    let (names, result) = ask("/plug:echo hi").await;
    assert!(!names.contains("plug:echo"), "{names}");
    assert_eq!(result["result"], "the model");

    registry.add(echo("plug:echo", "say")).unwrap();
    let (names, result) = ask("/plug:echo hi").await;
    assert!(names.contains(r#""model","plug:echo","rename""#), "in the order of names: {names}");
    assert_eq!((&result["result"], &result["local_command"]), (&json!("echo: hi"), &json!("plug:echo")));
    let (_, result) = ask("/say").await;
    assert_eq!((&result["result"], &result["is_error"]), (&json!("nothing to say"), &json!(true)));

    registry.remove("plug:echo");
    registry.remove("clear");
    let (names, result) = ask("/plug:echo hi").await;
    assert!(!names.contains("plug:echo") && names.contains("clear"), "{names}");
    assert_eq!(result["result"], "the model");
    talk.finish().await;
}

#[test]
fn a_name_is_taken_once() {
    let registry = CommandRegistry::default();
    for (name, alias, taken) in [("clear", "x", "clear"), ("cost", "x", "cost"), ("x", "new", "new")] {
        assert_eq!(registry.add(echo(name, alias)), Err(CommandNameTaken { name: taken.to_owned() }));
    }
    registry.add(echo("vim", "x")).unwrap();
    assert!(registry.add(echo("vim", "y")).is_err());
}
