//! Commands that run beside the turn, and the end of a run that has some: one test per edge of the table "The end of a
//! run" in ARCHITECTURE.md, against the built program.

use lathe_testkit::{Running, TestContext};
use rustix::process::Signal;
use serde_json::{Value, json};

const STREAM: [&str; 6] = ["-p", "--output-format", "stream-json", "--verbose", "--allowedTools", "Bash"];
const DIALOGUE: [&str; 8] = [
    "-p",
    "--output-format",
    "stream-json",
    "--verbose",
    "--input-format",
    "stream-json",
    "--allowedTools",
    "Bash",
];

fn context(script: Value) -> TestContext {
    TestContext::new(&script.to_string()).binary(env!("CARGO_BIN_EXE_lathe"))
}

/// A response with one command in the background.
fn in_background(command: &str) -> Value {
    json!({"tools": [{"name": "Bash", "input": {"command": command, "run_in_background": true}}]})
}

fn tool(name: &str, input: Value) -> Value {
    json!({"tools": [{"name": name, "input": input}]})
}

fn words<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    STREAM.iter().chain(flags).chain(&["--", "go"]).copied().collect()
}

fn subtypes(lines: &[Value]) -> Vec<String> {
    let name = |line: &Value| {
        let kind = line["type"].as_str().unwrap_or_default();
        line["subtype"].as_str().filter(|_| kind == "system").unwrap_or(kind).to_owned()
    };
    lines.iter().map(name).collect()
}

fn is(line: &Value, subtype: &str) -> bool {
    line["subtype"] == subtype
}

fn prompt(text: &str) -> Value {
    json!({"type": "user", "session_id": "", "parent_tool_use_id": null,
        "message": {"role": "user", "content": text}})
}

fn ask(running: &mut Running, id: &str, request: Value) -> Value {
    running.send(&json!({"type": "control_request", "request_id": id, "request": request}));
    running.wait_for("the reply", |line| line["type"] == "control_response")["response"].clone()
}

/// The texts of the last message of a request.
fn last_message(context: &TestContext, request: usize) -> String {
    let body = context.server().requests()[request].json();
    body["messages"].as_array().and_then(|all| all.last()).map(Value::to_string).unwrap_or_default()
}

#[test]
fn a_notice_after_the_last_result_starts_a_turn() {
    let context =
        context(json!([in_background("cat gate; exit 3"), {"text": "Started."}, {"text": "Seen."}]));
    context.make_pipe("gate");
    let mut running = context.start(&words(&[]));
    running.wait_for("the first result", |line| line["type"] == "result");
    context.feed_pipe("gate", "printed\n");
    let ended = running.wait_for("the end", |line| is(line, "task_updated"));
    let finished = running.finish().success();
    assert_eq!(ended["patch"]["status"], "failed");
    let lines = finished.lines();
    let names = subtypes(&lines);
    let from = |name: &str| {
        names.iter().position(|other| other == name).unwrap_or_else(|| panic!("{name}: {names:?}"))
    };
    let start = from("background_tasks_changed");
    assert_eq!(names[start..start + 3], ["background_tasks_changed", "task_started", "user"]);
    let end = from("task_updated");
    assert_eq!(
        names[end..end + 4],
        ["task_updated", "task_notification", "background_tasks_changed", "init"],
        "{names:?}"
    );
    let notice = &lines[end + 1];
    assert_eq!(notice["status"], "failed");
    assert_eq!(notice["summary"], "Background command \"cat gate; exit 3\" failed with exit code 3");
    let file = notice["output_file"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(file).unwrap(), "printed\n\n[exited with code 3]\n");
    let results = finished.of_type("result");
    assert_eq!(results.len(), 2);
    assert_eq!(results[0]["background_tasks"][0]["type"], "shell");
    assert_eq!(results[1]["background_tasks"], json!([]));
    assert_eq!(results[1]["origin"]["kind"], "task-notification");
    assert_eq!(results[1]["origin"]["runId"], notice["run_id"]);
    let told = last_message(&context, 2);
    for part in ["<task-notification>", "<status>failed</status>", "failed with exit code 3</summary>", file]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn a_notice_during_a_turn_rides_on_its_next_request() {
    let script =
        json!([in_background("cat gate"), tool("Bash", json!({"command": "cat door"})), {"text": "Done."}]);
    let context = context(script);
    context.make_pipe("gate");
    context.make_pipe("door");
    let mut running = context.start(&words(&[]));
    running.wait_for("the start", |line| is(line, "task_started"));
    context.feed_pipe("gate", "x");
    running
        .wait_for("the empty set", |line| is(line, "background_tasks_changed") && line["tasks"] == json!([]));
    context.feed_pipe("door", "y");
    let finished = running.finish().success();
    assert_eq!(finished.of_type("result").len(), 1);
    assert!(last_message(&context, 2).contains("<task-notification>"), "{}", last_message(&context, 2));
}

#[test]
fn a_host_reads_and_stops_a_task_and_the_model_gets_no_notice() {
    let context =
        context(json!([in_background("echo early; cat gate"), {"text": "Started."}, {"text": "Again."}]));
    context.make_pipe("gate");
    let mut running = context.start(&DIALOGUE);
    running.send(&prompt("go"));
    let task = running.wait_for("the start", |line| is(line, "task_started"))["task_id"].clone();
    running.wait_for("the result", |line| line["type"] == "result");
    let output = loop {
        let reply = ask(&mut running, "r1", json!({"subtype": "get_task_output", "task_id": task}));
        if reply["response"]["total_bytes"] != 0 {
            break reply["response"].clone();
        }
    };
    assert_eq!(output, json!({"output": "early\n", "total_bytes": 6, "truncated": false}));
    let unknown = ask(&mut running, "r2", json!({"subtype": "get_task_output", "task_id": "b0"}));
    assert_eq!(unknown["error"], "No task found with ID: b0");
    assert_eq!(
        ask(&mut running, "r3", json!({"subtype": "stop_task", "task_id": task}))["response"],
        json!({})
    );
    assert_eq!(
        ask(&mut running, "r4", json!({"subtype": "stop_task", "task_id": task}))["subtype"],
        "success"
    );
    running.close_stdin();
    let finished = running.finish().success();
    let names = subtypes(&finished.lines());
    let end = names.iter().position(|name| name == "task_updated").unwrap();
    let order = ["task_updated", "task_notification", "background_tasks_changed", "control_response"];
    assert_eq!(names[end..end + 4], order, "{names:?}");
    let notice = finished.lines()[end + 1].clone();
    assert_eq!((&notice["status"], &notice["summary"]), (&json!("stopped"), &json!("echo early; cat gate")));
    assert_eq!(finished.of_type("result").len(), 1);
    context.assert_no_survivors();
}

#[test]
fn a_host_moves_a_foreground_command_to_the_background() {
    let call = tool("Bash", json!({"command": "echo so far; cat gate", "description": "wait"}));
    let context = context(json!([call, {"text": "Moved."}, {"text": "Ended."}]));
    context.make_pipe("gate");
    let mut running = context.start(&DIALOGUE);
    running.send(&prompt("go"));
    let started = running.wait_for("the task", |line| is(line, "task_started"));
    assert_eq!(started["is_backgrounded"], false);
    let reply = ask(&mut running, "r1", json!({"subtype": "background_tasks", "tool_use_id": "other"}));
    assert_eq!(reply["response"], json!({"backgrounded": false}));
    let id = started["tool_use_id"].clone();
    let reply = ask(&mut running, "r2", json!({"subtype": "background_tasks", "tool_use_id": id}));
    assert_eq!(reply["response"], json!({"backgrounded": true}));
    let result = running.wait_for("the result of the call", |line| line["type"] == "user");
    assert_eq!(result["tool_use_result"]["backgroundedByUser"], true);
    let text = result["message"]["content"][0]["content"].as_str().unwrap().to_owned();
    assert!(text.starts_with("so far\n"), "{text}");
    running.wait_for("the first result", |line| line["type"] == "result");
    context.feed_pipe("gate", "");
    running.wait_for("the second result", |line| line["type"] == "result");
    running.close_stdin();
    let finished = running.finish().success();
    let moved = finished.lines().into_iter().find(|line| is(line, "task_updated")).unwrap();
    assert_eq!(moved["patch"], json!({"is_backgrounded": true}));
    let notice = finished.lines().into_iter().find(|line| is(line, "task_notification")).unwrap();
    let file = std::fs::read_to_string(notice["output_file"].as_str().unwrap()).unwrap();
    assert_eq!(file, "so far\n\n[exited with code 0]\n");
}

#[test]
fn a_command_whose_time_is_up_goes_on_in_the_background() {
    let call = tool("Bash", json!({"command": "echo so far; cat gate", "timeout": 100}));
    let waits = tool("Bash", json!({"command": "sleep 100", "timeout": 100}));
    let context = context(json!([call, waits, {"text": "Moved."}, {"text": "Ended."}]));
    context.make_pipe("gate");
    let mut running = context.start(&words(&[]));
    let result = running.wait_for("the result of the call", |line| line["type"] == "user");
    let text = result["message"]["content"][0]["content"].as_str().unwrap().to_owned();
    assert!(text.starts_with("so far\nCommand did not complete within its 0.1s timeout"), "{text}");
    let killed = running.wait_for("the other result", |line| line["type"] == "user");
    let text = killed["message"]["content"][0]["content"].as_str().unwrap().to_owned();
    assert_eq!(text, "Exit code 143\nCommand timed out after 0.1s");
    running.wait_for("the first result", |line| line["type"] == "result");
    context.feed_pipe("gate", "");
    assert_eq!(running.finish().success().of_type("result").len(), 2);
}

#[test]
fn without_background_tasks_a_command_ends_with_its_call() {
    let context = context(json!([
        in_background("echo now"),
        tool("Bash", json!({"command": "tail -f /dev/null", "timeout": 100})),
        {"text": "Done."}
    ]))
    .env("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1");
    let finished = context.run(&words(&[])).success();
    let users = finished.of_type("user");
    assert_eq!(users[0]["message"]["content"][0]["content"], "now");
    let text = users[1]["message"]["content"][0]["content"].as_str().unwrap();
    assert!(text.starts_with("Exit code 143"), "{text}");
    context.assert_no_survivors();
}

#[test]
fn at_the_ceiling_tasks_are_named_and_stopped() {
    for (flags, ceiling) in [(&["--background", "stop"][..], None), (&[][..], Some("300"))] {
        let mut context = context(json!([in_background("cat gate"), {"text": "Started."}]));
        if let Some(ceiling) = ceiling {
            context = context.env("CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS", ceiling);
        }
        context.make_pipe("gate");
        let finished = context.run(&words(flags)).success();
        assert!(finished.stderr.contains("command \"cat gate\""), "{}", finished.stderr);
        let names = subtypes(&finished.lines());
        let end = ["result", "task_updated", "task_notification", "background_tasks_changed"];
        assert_eq!(names[names.len() - 4..], end, "{names:?}");
        context.assert_no_survivors();
    }
    let refused = context(json!([{"text": "x"}])).run(&words(&["--background", "later"]));
    assert!(refused.stderr.contains("--background is wait or stop"), "{}", refused.stderr);
}

#[test]
fn a_terminated_session_tells_of_its_tasks_and_leaves_none() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 0)] {
        let context = context(json!([in_background("cat gate"), {"text": "Started."}]));
        context.make_pipe("gate");
        let mut running = context.start(&DIALOGUE);
        running.send(&prompt("go"));
        running.wait_for("the result", |line| line["type"] == "result");
        running.signal(signal);
        let finished = running.finish();
        assert_eq!(finished.code, Some(code), "{signal:?}");
        let notice = finished.lines().into_iter().find(|line| is(line, "task_notification"));
        assert_eq!(notice.map(|notice| notice["status"].clone()), Some(json!("stopped")), "{signal:?}");
        context.assert_no_survivors();
    }
}

#[test]
fn text_shows_every_result_and_json_the_last() {
    let script = json!([in_background("true"), {"text": "One."}, {"text": "Two."}]);
    let text = context(script.clone()).run(&["-p", "--allowedTools", "Bash", "--", "go"]).success();
    assert!(text.stdout == "One.\n\nTwo.\n" || text.stdout == "One.\n", "{:?}", text.stdout);
    let shown = context(json!([in_background("cat gate"), {"text": "One."}, {"text": "Two."}]));
    shown.make_pipe("gate");
    let args = ["-p", "--allowedTools", "Bash", "--output-format", "json", "--", "go"];
    let running = shown.start(&args);
    shown.feed_pipe("gate", "");
    let finished = running.finish().success();
    assert_eq!(finished.lines().len(), 1);
    assert_eq!(finished.lines()[0]["type"], "result");
}

#[test]
fn the_model_waits_for_a_task_and_stops_another() {
    let context = context(json!([
        in_background("echo out; exit 4"),
        tool("TaskOutput", json!({"task_id": "nothing"})),
        tool("TaskStop", json!({})),
        tool("KillShell", json!({"shell_id": "nothing"})),
        {"text": "Done."},
    ]))
    .env("LATHE_CLIENT_GENERATION", "sdk-0.2");
    let finished = context.run(&words(&[])).success();
    let texts: Vec<String> = finished
        .of_type("user")
        .iter()
        .map(|line| line["message"]["content"][0]["content"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(texts[1], "<tool_use_error>No task found with ID: nothing</tool_use_error>");
    assert_eq!(texts[2], "<tool_use_error>Missing required parameter: task_id</tool_use_error>");
    assert_eq!(texts[3], "<tool_use_error>No task found with ID: nothing</tool_use_error>");
}
