//! What tests of background tasks share: a session with a command that waits for a gate, and readers of its frames.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::disallowed_methods, reason = "tests look at the processes they start")]

use lathe_testkit::{Running, TestContext};
use serde_json::{Value, json};

/// A run for one prompt.
pub const STREAM: [&str; 6] = ["-p", "--output-format", "stream-json", "--verbose", "--allowedTools", "Bash"];

/// A run whose host sends lines.
pub const DIALOGUE: [&str; 8] = [
    "-p",
    "--output-format",
    "stream-json",
    "--verbose",
    "--input-format",
    "stream-json",
    "--allowedTools",
    "Bash",
];

pub fn context(script: Value) -> TestContext {
    TestContext::new(&script.to_string()).binary(env!("CARGO_BIN_EXE_lathe"))
}

/// A response with one command in the background.
pub fn in_background(command: &str) -> Value {
    json!({"tools": [{"name": "Bash", "input": {"command": command, "run_in_background": true}}]})
}

/// A response with one call.
pub fn tool(name: &str, input: Value) -> Value {
    json!({"tools": [{"name": name, "input": input}]})
}

/// A context whose first answer starts a command that reads from the pipe `gate`, and whose next ones are `texts`.
pub fn gated(texts: &[&str]) -> TestContext {
    let mut script = vec![in_background("cat gate")];
    script.extend(texts.iter().map(|text| json!({"text": text})));
    let context = context(json!(script));
    context.make_pipe("gate");
    context
}

/// The words of a run for one prompt.
pub fn words<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    STREAM.iter().chain(flags).chain(&["--", "go"]).copied().collect()
}

pub fn is(line: &Value, subtype: &str) -> bool {
    line["subtype"] == subtype
}

/// The types of lines, the subtypes of system frames.
pub fn names(lines: &[Value]) -> Vec<String> {
    let name = |line: &Value| {
        let kind = line["type"].as_str().unwrap_or_default();
        line["subtype"].as_str().filter(|_| kind == "system").unwrap_or(kind).to_owned()
    };
    lines.iter().map(name).collect()
}

pub fn of_subtype(lines: &[Value], subtype: &str) -> Vec<Value> {
    lines.iter().filter(|line| is(line, subtype)).cloned().collect()
}

pub fn prompt(text: &str) -> Value {
    json!({"type": "user", "session_id": "", "parent_tool_use_id": null,
        "message": {"role": "user", "content": text}})
}

/// Sends a request and returns its reply.
pub fn ask(running: &mut Running, id: &str, request: Value) -> Value {
    running.send(&json!({"type": "control_request", "request_id": id, "request": request}));
    running.wait_for("the reply", |line| line["type"] == "control_response")["response"].clone()
}

/// Starts a dialogue whose first turn leaves a command behind the gate, up to its result.
pub fn with_task(context: &TestContext) -> Running {
    let mut running = context.start(&DIALOGUE);
    running.send(&prompt("go"));
    running.wait_for("the result", |line| line["type"] == "result");
    running
}

/// The text of the last message of a request.
pub fn last_message(context: &TestContext, request: usize) -> String {
    let body = context.server().requests()[request].json();
    body["messages"].as_array().and_then(|all| all.last()).map(Value::to_string).unwrap_or_default()
}

/// The records of every session file there is, in the order of the ids of the sessions.
pub fn records(context: &TestContext) -> Vec<Value> {
    let folders = std::fs::read_dir(context.home().join(".claude/projects")).unwrap().flatten();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten());
    let mut files: Vec<_> = files.map(|file| file.path()).filter(|path| path.is_file()).collect();
    files.sort();
    let texts = files.iter().map(|path| std::fs::read_to_string(path).unwrap());
    texts
        .flat_map(|text| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<_>>())
        .collect()
}

/// The operations of the queue about notices, in order.
pub fn queue_operations(records: &[Value]) -> Vec<String> {
    let operations = records.iter().filter(|record| record["type"] == "queue-operation");
    operations.map(|record| record["operation"].as_str().unwrap_or_default().to_owned()).collect()
}
