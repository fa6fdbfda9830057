//! Background tasks on disk: how their starts and ends are recorded, and what a resumed session makes of those whose
//! end is not there, or was not told to the model.
#![allow(clippy::disallowed_methods, reason = "tests look at the processes they start")]

mod tasks;

use lathe_testkit::TestContext;
use rustix::process::Signal;
use serde_json::{Value, json};

use tasks::*;

const ID: &str = "5e55104e-0000-4000-8000-000000000001";

/// Starts a session with a task behind the gate, and ends it with this signal.
fn broken_off(context: &TestContext, signal: Signal) -> Vec<Value> {
    let mut running = context.start(&[&DIALOGUE[..], &["--session-id", ID]].concat());
    running.send(&prompt("go"));
    running.wait_for("the result", |line| line["type"] == "result");
    running.signal(signal);
    let lines = running.finish().lines();
    context.assert_no_survivors();
    lines
}

fn resume(context: &TestContext, flags: &[&str]) -> Vec<Value> {
    context.run(&words(&[&["--resume", ID], flags].concat())).success().lines()
}

/// The last message that the model was sent.
fn last_request(context: &TestContext) -> String {
    last_message(context, context.server().requests().len() - 1)
}

#[test]
fn an_end_is_queued_taken_and_recorded_in_this_order() {
    let context = gated(&["Started.", "Seen."]);
    let mut running = with_task(&context);
    context.feed_pipe("gate", "");
    running.close_stdin();
    running.finish().success();
    let records = records(&context);
    let at = |fits: &dyn Fn(&Value) -> bool| records.iter().position(fits).expect("it is recorded");
    let start = at(&|record| record["toolUseResult"]["backgroundTaskId"].is_string());
    let queued = at(&|record| record["operation"] == "enqueue");
    let told = at(&|record| record["origin"]["kind"] == "task-notification");
    let taken = at(&|record| record["operation"] == "dequeue");
    assert!(start < queued && queued < told && told < taken, "{start} {queued} {told} {taken}");
    let notice = records[queued]["content"].as_str().unwrap();
    assert!(notice.starts_with("<task-notification>\n<task-id>b"), "{notice}");
    assert_eq!(records[queued]["runId"], records[told]["origin"]["runId"]);
    assert_eq!(records[queued]["runId"], records[taken]["runId"]);
}

#[test]
fn a_task_without_an_end_is_told_stopped_once() {
    let context = gated(&["Started.", "Resumed.", "Again."]);
    broken_off(&context, Signal::KILL);
    let lines = resume(&context, &[]);
    let notices = of_subtype(&lines, "task_notification");
    assert_eq!(notices.len(), 1);
    assert_eq!((&notices[0]["status"], &notices[0]["output_file"]), (&json!("stopped"), &json!("")));
    assert!(notices[0]["summary"].as_str().unwrap().contains("\"cat gate\""), "{}", notices[0]);
    let names = names(&lines);
    let at = |name: &str| names.iter().position(|other| other == name).unwrap();
    assert!(at("task_notification") < at("init"), "{names:?}");
    assert_eq!(names.iter().filter(|name| *name == "init").count(), 1, "no turn of its own");
    assert_eq!(names.iter().filter(|name| *name == "result").count(), 1);
    let sent = last_request(&context);
    assert!(sent.contains("<status>stopped</status>") && sent.contains("go"), "{sent}");
    let lines = resume(&context, &[]);
    assert_eq!(of_subtype(&lines, "task_notification"), [json!(null); 0]);
    assert!(!last_request(&context).contains("<status>stopped"), "{}", last_request(&context));
}

#[test]
fn a_session_that_was_told_to_end_has_told_its_host_and_tells_the_model_later() {
    let context = gated(&["Started.", "Resumed.", "Again."]);
    let before = broken_off(&context, Signal::TERM);
    assert_eq!(of_subtype(&before, "task_notification").len(), 1);
    let lines = resume(&context, &[]);
    assert_eq!(of_subtype(&lines, "task_notification").len(), 0, "the host knows");
    assert!(last_request(&context).contains("<status>killed</status>"), "{}", last_request(&context));
    resume(&context, &[]);
    assert_eq!(last_request(&context).matches("<status>killed</status>").count(), 0, "once");
}

#[test]
fn an_end_that_was_not_delivered_is_delivered_by_the_next_run() {
    // The budget is used up, so that the notice starts no turn, and the process dies with it.
    let usage = json!({"output_tokens": 1_000_000});
    let script =
        json!([in_background("cat gate"), {"text": "Started.", "usage": usage}, {"text": "Resumed."}]);
    let context = context(script);
    context.make_pipe("gate");
    let mut running =
        context.start(&[&DIALOGUE[..], &["--session-id", ID, "--max-budget-usd", "1"]].concat());
    running.send(&prompt("go"));
    running.wait_for("the result", |line| line["type"] == "result");
    context.feed_pipe("gate", "");
    running.wait_for("the end", |line| is(line, "task_notification"));
    running.signal(Signal::KILL);
    running.finish();
    assert_eq!(queue_operations(&records(&context)), ["enqueue"]);
    let lines = resume(&context, &[]);
    assert_eq!(of_subtype(&lines, "task_notification").len(), 0);
    let results: Vec<&Value> = lines.iter().filter(|line| line["type"] == "result").collect();
    assert_eq!(results.len(), 1, "it rides on the prompt");
    let sent = last_request(&context);
    assert_eq!(sent.matches("<status>completed</status>").count(), 1, "{sent}");
    assert_eq!(queue_operations(&records(&context)), ["enqueue", "dequeue"]);
}

#[test]
fn what_a_host_stopped_is_neither_lost_nor_told() {
    let context = gated(&["Started.", "Resumed."]);
    let mut running = context.start(&[&DIALOGUE[..], &["--session-id", ID]].concat());
    running.send(&prompt("go"));
    let task = running.wait_for("the start", |line| is(line, "task_started"))["task_id"].clone();
    running.wait_for("the result", |line| line["type"] == "result");
    ask(&mut running, "r1", json!({"subtype": "stop_task", "task_id": task}));
    running.signal(Signal::KILL);
    running.finish();
    let lines = resume(&context, &[]);
    assert_eq!(of_subtype(&lines, "task_notification").len(), 0);
    assert!(!last_request(&context).contains("<task-notification>"), "{}", last_request(&context));
}

#[test]
fn an_end_that_the_model_has_read_is_not_told_again() {
    let read = tool("TaskOutput", json!({"task_id": "{{last:with ID: (b[a-z0-9]{8})}}"}));
    let context =
        context(json!([in_background("cat gate; exit 4"), read, {"text": "Read."}, {"text": "Never."}]))
            .env("LATHE_CLIENT_GENERATION", "sdk-0.2");
    context.make_pipe("gate");
    let mut running = context.start(&words(&[]));
    running.wait_for("the second call", |line| line["message"]["content"][0]["name"] == "TaskOutput");
    context.feed_pipe("gate", "");
    let finished = running.finish().success();
    assert_eq!(finished.of_type("result").len(), 1);
    let operations = queue_operations(&records(&context));
    assert_eq!(operations.last().map(String::as_str), Some("remove"), "{operations:?}");
}

#[test]
fn a_fork_knows_the_ends_that_its_origin_knew() {
    let context = gated(&["Started.", "Forked."]);
    broken_off(&context, Signal::TERM);
    let lines = resume(&context, &["--fork-session"]);
    assert_eq!(of_subtype(&lines, "task_notification").len(), 0);
    assert!(last_request(&context).contains("<status>killed</status>"), "{}", last_request(&context));

    let context = gated(&["Started.", "Forked."]);
    broken_off(&context, Signal::KILL);
    let lines = resume(&context, &["--fork-session"]);
    assert_eq!(of_subtype(&lines, "task_notification").len(), 1);
    assert!(last_request(&context).contains("<status>stopped</status>"), "{}", last_request(&context));
}

#[test]
fn a_task_that_outlived_its_conversation_is_not_lost_to_it() {
    let context = gated(&["Started.", "Resumed."]);
    let mut running = context.start(&[&DIALOGUE[..], &["--session-id", ID]].concat());
    running.send(&prompt("go"));
    running.wait_for("the result", |line| line["type"] == "result");
    running.send(&prompt("/clear"));
    running.wait_for("the result of the command", |line| line["type"] == "result");
    running.signal(Signal::KILL);
    running.finish();
    let lines = resume(&context, &[]);
    assert_eq!(of_subtype(&lines, "task_notification").len(), 0);
    assert!(last_request(&context).contains("went on after this conversation"), "{}", last_request(&context));
}

#[test]
fn hooks_are_asked_about_the_notice_and_told_what_runs() {
    let command = format!("cat gate; : {}", "x".repeat(2000));
    let context = context(json!([in_background(&command), {"text": "Started."}, {"text": "Seen."}]));
    context.make_pipe("gate");
    let log = context.cwd().join("asked.jsonl");
    let hook = json!({"type": "command", "command": format!("cat >> '{}'", log.display())});
    let settings =
        json!({"hooks": {"UserPromptSubmit": [{"hooks": [hook.clone()]}], "Stop": [{"hooks": [hook]}]}});
    context.write_home(".claude/settings.json", &settings.to_string());
    let mut running = with_task(&context);
    running.close_stdin();
    context.feed_pipe("gate", "");
    running.finish().success();
    let text = context.read("asked.jsonl");
    let inputs: Vec<Value> =
        serde_json::Deserializer::from_str(&text).into_iter::<Value>().map(Result::unwrap).collect();
    let events: Vec<&str> = inputs.iter().filter_map(|input| input["hook_event_name"].as_str()).collect();
    assert_eq!(events, ["UserPromptSubmit", "Stop", "UserPromptSubmit", "Stop"]);
    assert_eq!(inputs[0]["prompt"], "go");
    let asked = inputs[2]["prompt"].as_str().unwrap();
    assert!(asked.starts_with("<task-notification>") && asked.ends_with("</task-notification>"), "{asked}");
    let task = &inputs[1]["background_tasks"][0];
    assert_eq!(
        (&task["type"], &task["status"], &task["command"]),
        (&json!("shell"), &json!("running"), &json!(command[..1000]))
    );
    assert_eq!(inputs[3]["background_tasks"], json!([]));
    assert_eq!(inputs[1]["session_crons"], json!([]));
}
