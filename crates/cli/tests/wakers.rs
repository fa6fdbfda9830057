//! Monitors and turns that start by the clock, against the built program. What has a test with a clock of its own is in
//! `crates/agent/tests/schedule.rs`; here one job comes in real time.
#![allow(clippy::disallowed_methods, reason = "tests work on real files")]

mod tasks;

use std::io::Write;
use std::time::Duration;

use lathe_testkit::{Running, TestContext};
use serde_json::{Value, json};

use tasks::{context, is, last_message, names, prompt, tool};

const TALK: [&str; 6] =
    ["-p", "--output-format", "stream-json", "--verbose", "--input-format", "stream-json"];

fn monitor(command: &str, timeout_ms: u64) -> Value {
    tool("Monitor", json!({"description": "d", "command": command, "timeout_ms": timeout_ms}))
}

fn start(context: &TestContext, flags: &[&str]) -> Running {
    context.start(&[&TALK[..], flags].concat())
}

fn result(running: &mut Running) -> Value {
    running.wait_for("a result", |line| line["type"] == "result")
}

#[test]
fn lines_that_come_together_are_one_event_and_the_last_ride_with_the_end() {
    let script =
        json!([monitor("cat gate", 60_000), {"text": "Watching."}, {"text": "Event."}, {"text": "End."}]);
    let context = context(script);
    context.make_pipe("gate");
    let mut running = start(&context, &["--allowedTools", "Monitor"]);
    running.send(&prompt("go"));
    let started = running.wait_for("the start", |line| is(line, "task_started"));
    assert_eq!((&started["description"], &started["task_type"]), (&json!("d"), &json!("local_bash")));
    let answer = running.wait_for("the result of the call", |line| line["type"] == "user");
    let text = answer["message"]["content"][0]["content"].as_str().unwrap();
    assert!(
        text.starts_with(&format!("Monitor started (task {}", started["task_id"].as_str().unwrap())),
        "{text}"
    );
    assert_eq!(
        answer["tool_use_result"],
        json!({"taskId": started["task_id"], "timeoutMs": 60_000, "persistent": false})
    );
    let first = result(&mut running);
    assert_eq!(first["background_tasks"][0]["type"], "monitor");
    assert_eq!(first["background_tasks"][0]["command"], "cat gate");

    let gate = context.cwd().join("gate");
    let mut pipe = std::fs::OpenOptions::new().write(true).open(gate).unwrap();
    pipe.write_all(b"one\ntwo <b>\nthr").unwrap();
    let event = result(&mut running);
    assert_eq!(event["origin"], json!({"kind": "task-notification", "producer": "session-task"}));
    let told = last_message(&context, 2);
    assert!(
        told.contains("<summary>Monitor event: \\\"d\\\"</summary>\\n<event>one\\ntwo &lt;b></event>"),
        "{told}"
    );
    pipe.write_all(b"ee").unwrap();
    drop(pipe);
    let end = running.wait_for("the notice", |line| is(line, "task_notification"));
    assert_eq!(
        (&end["status"], &end["summary"]),
        (&json!("completed"), &json!("Monitor \"d\" stream ended"))
    );
    let last = result(&mut running);
    assert_eq!(last["origin"]["runId"], started["run_id"]);
    let told = last_message(&context, 3);
    assert!(told.contains("stream ended</summary>\\n<event>three</event>"), "{told}");
    let file = std::fs::read_to_string(end["output_file"].as_str().unwrap()).unwrap();
    assert_eq!(file, "one\ntwo <b>\nthree\n[exited with code 0]\n");
    running.close_stdin();
    let finished = running.finish().success();
    let tasks = ["task_started", "task_updated", "task_notification"];
    let frames: Vec<_> =
        names(&finished.lines()).into_iter().filter(|name| name.starts_with("task_")).collect();
    assert_eq!(frames, tasks, "an event has no frame");
}

#[test]
fn a_watch_expires_and_a_flood_is_stopped() {
    let flood = "yes flood; sleep 100";
    let script = json!([
        monitor("echo early; cat never", 1000),
        {"text": "Watching."},
        {"text": "Early."},
        {"text": "Expired."},
        monitor(flood, 60_000),
        {"text": "Watching."},
        {"text": "Flooded."},
    ]);
    let context = context(script);
    context.make_pipe("never");
    let mut running = start(&context, &["--allowedTools", "Monitor"]);
    running.send(&prompt("go"));
    for _ in 0..2 {
        result(&mut running);
    }
    let expired = running.wait_for("the notice", |line| is(line, "task_notification"));
    assert_eq!((&expired["status"], &expired["summary"]), (&json!("stopped"), &json!("d")));
    result(&mut running);
    let told = last_message(&context, 3);
    assert!(told.contains("[Monitor expired after 1s with 1 event delivered."), "{told}");
    running.send(&prompt("again"));
    result(&mut running);
    let stopped = running.wait_for("the notice", |line| is(line, "task_notification"));
    assert_eq!(stopped["status"], "stopped");
    result(&mut running);
    let told = last_message(&context, 6);
    assert!(told.contains("[Monitor stopped: it printed more than 256 KB within 10 s."), "{told}");
    assert!(told.len() < 20_000, "{} bytes", told.len());
    running.close_stdin();
    running.finish().success();
    context.assert_no_survivors();
}

#[test]
fn a_monitor_needs_a_rule_of_its_own_and_keeps_to_those_for_commands() {
    let call = monitor("touch made", 1000);
    let run = |flags: &[&str]| {
        let context = context(json!([call, {"text": "x"}, {"text": "x"}, {"text": "x"}]));
        let args = ["-p", "--output-format", "stream-json", "--verbose"];
        let finished = context.run(&[&args[..], flags, &["--", "go"]].concat()).success();
        (context.cwd().join("made").exists(), finished.of_type("result")[0]["permission_denials"].clone())
    };
    let (made, denials) = run(&["--allowedTools", "Bash"]);
    assert_eq!((made, &denials[0]["tool_name"]), (false, &json!("Monitor")));
    assert_eq!(run(&["--allowedTools", "Monitor"]), (true, json!([])));
    assert_eq!(run(&["--allowedTools", "Bash(touch *)"]), (true, json!([])));
    for rule in ["Bash(touch *)", "Monitor(touch *)"] {
        let (made, _) = run(&["--allowedTools", "Monitor", "--disallowedTools", rule]);
        assert!(!made, "{rule}");
    }
}

#[test]
fn the_clock_can_be_switched_off() {
    let script = json!([tool("CronCreate", json!({"cron": "* * * * *", "prompt": "x"})), {"text": "x"}]);
    for off in [false, true] {
        let mut context = context(script.clone());
        if off {
            context = context.env("CLAUDE_CODE_DISABLE_CRON", "1");
        }
        let args = ["-p", "--output-format", "stream-json", "--verbose", "--", "go"];
        let finished = context.run(&args).success();
        let init = &finished.lines()[0];
        let has = |list: &str, name: &str| init[list].as_array().unwrap().iter().any(|item| item == name);
        for name in ["CronCreate", "CronDelete", "CronList", "ScheduleWakeup"] {
            assert_eq!(has("tools", name), !off, "{name}");
        }
        assert_eq!(has("slash_commands", "loop"), !off);
        assert!(has("tools", "Monitor"));
        assert_eq!(
            finished.stderr.contains("Scheduled jobs end with the session"),
            !off,
            "{}",
            finished.stderr
        );
    }
}

/// In real time, so it takes up to a minute.
#[test]
fn a_job_comes_at_the_next_full_minute() {
    let script = json!([
        tool("CronCreate", json!({"cron": "* * * * *", "prompt": "the minute is full", "recurring": false})),
        {"text": "Scheduled."},
        {"text": "Came."},
    ]);
    let context = context(script).env("TZ", "Asia/Kathmandu").limit(Duration::from_secs(130));
    let hook = json!([{"hooks": [{"type": "command", "command": "cat >> hooks.jsonl"}]}]);
    let settings = json!({"hooks": {"UserPromptSubmit": hook, "Stop": hook}}).to_string();
    let mut running = start(&context, &["--settings", &settings]);
    running.send(&prompt("go"));
    let made = running.wait_for("the result of the call", |line| line["type"] == "user");
    let due = made["tool_use_result"]["nextFireAt"].as_u64().unwrap();
    assert_eq!(due % 60_000, 0);
    result(&mut running);
    let came = result(&mut running);
    assert_eq!((&came["result"], &came["origin"]), (&json!("Came."), &Value::Null));
    assert!(last_message(&context, 2).contains("the minute is full"));
    running.close_stdin();
    let finished = running.finish().success();
    assert_eq!(finished.of_type("result").len(), 2);
    assert_eq!(finished.stderr, "");
    let kept = std::fs::read_to_string(context.cwd().join("hooks.jsonl")).unwrap();
    let inputs: Vec<Value> = kept.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&inputs[0]["prompt"], &inputs[0]["source"]), (&json!("go"), &Value::Null));
    let told = json!([{"id": made["tool_use_result"]["id"], "schedule": "* * * * *", "recurring": false,
        "prompt": "the minute is full"}]);
    assert_eq!(inputs[1]["session_crons"], told);
    let woken = (&inputs[2]["prompt"], &inputs[2]["source"]);
    assert_eq!(woken, (&json!("the minute is full"), &json!("schedule_wakeup")));
    assert_eq!(inputs[3]["session_crons"], json!([]));
}
