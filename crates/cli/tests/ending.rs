//! The end of a run, against the built program: one test for each edge of the state machine in ARCHITECTURE.md ("The
//! end of a run"). The table itself is tested in `agent/src/session/ending.rs`, the frames of tasks in `background.rs`.
#![allow(clippy::disallowed_methods, reason = "tests look at the processes they start")]

mod tasks;

use lathe_testkit::TestContext;
use rustix::process::Signal;
use serde_json::{Value, json};

use tasks::*;

/// The line about tasks that are stopped, if there is one.
fn last_words(stderr: &str) -> Option<&str> {
    stderr.lines().find(|line| line.contains("Background tasks still running"))
}

/// Checks that a run told the host of the end of its only task, stopped, and said why.
fn assert_stopped(lines: &[Value], stderr: &str, why: &str) {
    let notices = of_subtype(lines, "task_notification");
    assert_eq!(notices.len(), 1, "{:?}", names(lines));
    assert_eq!((&notices[0]["status"], &notices[0]["output_file"]), (&json!("stopped"), &json!("")));
    assert_eq!(of_subtype(lines, "task_updated")[0]["patch"]["status"], "killed");
    let line = last_words(stderr).unwrap_or_else(|| panic!("nothing is said: {stderr}"));
    assert!(line.contains("command \"cat gate\" (b") && line.contains(why), "{line}");
}

#[test]
fn with_the_input_closed_and_nothing_left_the_run_ends() {
    let context = context(json!([{"text": "Done."}]));
    let mut running = context.start(&DIALOGUE);
    running.send(&prompt("go"));
    running.wait_for("the result", |line| line["type"] == "result");
    running.close_stdin();
    let finished = running.finish().success();
    assert_eq!(finished.of_type("result").len(), 1);
    assert_eq!(finished.stderr, "");
}

#[test]
fn an_end_after_the_input_is_closed_starts_the_last_turn() {
    let context = gated(&["Started.", "Seen."]);
    let mut running = with_task(&context);
    running.close_stdin();
    context.feed_pipe("gate", "");
    let finished = running.finish().success();
    let results = finished.of_type("result");
    assert_eq!(results.iter().map(|result| &result["result"]).collect::<Vec<_>>(), ["Started.", "Seen."]);
    assert_eq!(names(&finished.lines()).last().map(String::as_str), Some("result"), "nothing follows");
    assert_eq!(finished.stderr, "");
}

#[test]
fn an_interrupt_ends_the_turn_and_not_the_task() {
    let script =
        json!([in_background("cat gate"), tool("Bash", json!({"command": "cat door"})), {"text": "Seen."}]);
    let context = context(script);
    context.make_pipe("gate");
    context.make_pipe("door");
    let mut running = context.start(&DIALOGUE);
    running.send(&prompt("go"));
    running
        .wait_for("the second call", |line| line["message"]["content"][0]["input"]["command"] == "cat door");
    ask(&mut running, "r1", json!({"subtype": "interrupt"}));
    let result = running.wait_for("the result", |line| line["type"] == "result");
    assert_eq!(result["background_tasks"][0]["command"], "cat gate");
    // While idle, too: only the reply.
    ask(&mut running, "r2", json!({"subtype": "interrupt"}));
    running.close_stdin();
    context.feed_pipe("gate", "");
    let finished = running.finish().success();
    assert_eq!(of_subtype(&finished.lines(), "task_notification")[0]["status"], "completed");
    assert_eq!(finished.of_type("result").len(), 2);
}

#[test]
fn the_interrupt_signal_in_a_turn_lets_it_write_its_result() {
    let script = json!([in_background("cat gate"), tool("Bash", json!({"command": "cat door"}))]);
    let context = context(script);
    context.make_pipe("gate");
    context.make_pipe("door");
    let mut running = context.start(&words(&[]));
    running
        .wait_for("the second call", |line| line["message"]["content"][0]["input"]["command"] == "cat door");
    running.signal(Signal::INT);
    let finished = running.finish();
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert_eq!(finished.of_type("result").len(), 1);
    assert_stopped(&finished.lines(), &finished.stderr, "the session was interrupted");
    context.assert_no_survivors();
}

#[test]
fn the_interrupt_signal_ends_an_idle_session_with_its_tasks() {
    let context = gated(&["Started."]);
    let running = with_task(&context);
    running.signal(Signal::INT);
    let finished = running.finish();
    assert_eq!(finished.code, Some(0));
    assert_stopped(&finished.lines(), &finished.stderr, "the session was interrupted");
    context.assert_no_survivors();
}

#[test]
fn the_first_terminating_signal_tells_of_the_tasks() {
    let context = gated(&["Started."]);
    let running = with_task(&context);
    running.signal(Signal::TERM);
    let finished = running.finish();
    assert_eq!(finished.code, Some(143));
    assert_stopped(&finished.lines(), &finished.stderr, "the session was told to end");
    context.assert_no_survivors();
}

#[test]
fn the_second_terminating_signal_waits_for_nothing() {
    // The command refuses to end, which takes the first signal two seconds.
    let command = "trap '' TERM; echo up > up; while :; do read line < gate; done";
    let context = context(json!([in_background(command), {"text": "Started."}]));
    context.make_pipe("gate");
    context.make_pipe("up");
    let running = with_task(&context);
    assert_eq!(context.drain_pipe("up"), "up\n");
    running.signal(Signal::TERM);
    // The program looks at signals one after the other, and this one says that the first was seen.
    while !running.stderr_so_far().contains("told to end") {
        std::thread::yield_now();
    }
    running.signal(Signal::TERM);
    let finished = running.finish();
    assert_eq!(finished.code, Some(143));
    // Whoever waits for the command to end tells of it afterwards.
    assert_eq!(of_subtype(&finished.lines(), "task_notification"), [json!(null); 0]);
    // The supervisor ends the command that is left.
    context.assert_no_survivors();
}

#[test]
fn a_reader_that_goes_away_ends_the_session_and_its_tasks() {
    let context = gated(&["Started."]);
    // `sed` leaves with the result; the command holds the run.
    let pipeline = format!(
        "'{}' {} -- go </dev/null 2>stderr | sed '/\"type\":\"result\"/q' >shown; echo ${{PIPESTATUS[0]}} >code",
        env!("CARGO_BIN_EXE_lathe"),
        STREAM.join(" "),
    );
    let status = std::process::Command::new("bash")
        .args(["-c", &pipeline])
        .current_dir(context.cwd())
        .env("HOME", context.home())
        .env("CLAUDE_CODE_TMPDIR", context.home())
        .env("ANTHROPIC_BASE_URL", context.server().url())
        .env("ANTHROPIC_API_KEY", "test")
        .status()
        .expect("bash runs");
    assert!(status.success());
    assert_eq!(context.read("code"), "0\n");
    let stderr = context.read("stderr");
    let line = last_words(&stderr).unwrap_or_else(|| panic!("{stderr}"));
    assert!(line.contains("command \"cat gate\""), "{line}");
    context.assert_no_survivors();
}

#[test]
fn a_host_ends_an_idle_session() {
    let context = gated(&["Started."]);
    let mut running = with_task(&context);
    let reply = ask(&mut running, "r1", json!({"subtype": "end_session", "reason": "enough"}));
    assert_eq!(reply["subtype"], "success");
    let finished = running.finish().success();
    assert_stopped(&finished.lines(), &finished.stderr, "the host ends the session");
    context.assert_no_survivors();
}

#[test]
fn a_host_ends_a_session_after_the_running_turn() {
    let script =
        json!([tool("Bash", json!({"command": "cat door"})), {"text": "Finished."}, {"text": "Never."}]);
    let context = context(script);
    context.make_pipe("door");
    let mut running = context.start(&DIALOGUE);
    running.send(&prompt("go"));
    running.wait_for("the call", |line| line["type"] == "assistant");
    let mut later = prompt("later");
    later["uuid"] = json!("5e55104e-0000-4000-8000-00000000000a");
    later["priority"] = json!("later");
    running.send(&later);
    running.wait_for("its place", |line| line["state"] == "queued");
    ask(&mut running, "r1", json!({"subtype": "end_session"}));
    context.feed_pipe("door", "");
    let finished = running.finish().success();
    let results = finished.of_type("result");
    assert_eq!(results.len(), 1);
    assert_eq!((&results[0]["result"], &results[0]["queued_turn_count"]), (&json!("Finished."), &json!(0)));
    let states: Vec<Value> =
        finished.of_type("command_lifecycle").iter().map(|line| line["state"].clone()).collect();
    assert!(states.contains(&json!("cancelled")), "{states:?}");
}

#[test]
fn at_the_ceiling_every_task_is_named_and_told() {
    let script = json!([
        {"tools": [
            {"name": "Bash", "input": {"command": "cat gate", "run_in_background": true}},
            {"name": "Bash", "input": {"command": "cat door", "description": "Wait", "run_in_background": true}},
        ]},
        {"text": "Started."},
        {"text": "Never."},
    ]);
    let context = context(script).env("CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS", "200");
    context.make_pipe("gate");
    context.make_pipe("door");
    let finished = context.run(&words(&[])).success();
    let line = last_words(&finished.stderr).unwrap_or_else(|| panic!("{}", finished.stderr));
    assert!(line.contains("0.2s after the last turn: command \"cat gate\" (b"), "{line}");
    assert!(line.contains("command \"Wait\" (b"), "{line}");
    assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    let lines = finished.lines();
    let ends: Vec<Value> =
        of_subtype(&lines, "task_notification").iter().map(|line| line["status"].clone()).collect();
    assert_eq!(ends, ["stopped", "stopped"]);
    assert_eq!(finished.of_type("result").len(), 1, "no further turn");
    context.assert_no_survivors();
}

#[test]
fn the_exit_code_at_the_ceiling_is_that_of_the_last_result() {
    let script = json!([in_background("cat gate"), {"error": {"status": 400, "message": "no"}}]);
    let context = context(script);
    context.make_pipe("gate");
    let finished = context.run(&words(&["--background", "stop"]));
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert!(last_words(&finished.stderr).is_some(), "{}", finished.stderr);
}

#[test]
fn an_open_session_is_idle_at_the_ceiling_and_ends_with_its_input() {
    let context = gated(&["Started."])
        .env("CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS", "200")
        .env("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1");
    let mut running = context.start(&DIALOGUE);
    ask(&mut running, "r1", json!({"subtype": "initialize"}));
    running.send(&prompt("go"));
    running.wait_for("the result", |line| line["type"] == "result");
    let idle = running.wait_for("idle", |line| line["state"] == "idle");
    assert_eq!(idle["sdk_host_only"], true);
    running.close_stdin();
    let finished = running.finish().success();
    assert_stopped(&finished.lines(), &finished.stderr, "0.2s after the last turn");
}

#[test]
fn a_host_is_told_idle_only_when_nothing_can_wake_the_session() {
    let context = gated(&["Started.", "Seen."]).env("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1");
    let mut running = with_task(&context);
    context.feed_pipe("gate", "");
    running.wait_for("the second result", |line| line["type"] == "result");
    running.wait_for("idle", |line| line["state"] == "idle");
    running.close_stdin();
    let finished = running.finish().success();
    let names: Vec<String> = finished
        .lines()
        .iter()
        .filter(|line| is(line, "session_state_changed") || line["type"] == "result")
        .map(|line| line["state"].as_str().unwrap_or("result").to_owned())
        .collect();
    assert_eq!(names, ["running", "result", "running", "result", "idle"]);
}

#[test]
fn without_budget_no_end_can_start_a_turn() {
    let context = gated(&["Started.", "Never."]);
    let finished = context.run(&words(&["--max-budget-usd", "0.0000001"]));
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    let results = finished.of_type("result");
    assert_eq!((results.len(), &results[0]["subtype"]), (1, &json!("error_max_budget_usd")));
    context.assert_no_survivors();
}

#[test]
fn a_task_that_outlives_the_budget_is_stopped_when_the_input_is_closed() {
    // The first answer is paid for, the second one uses up the budget.
    let mut script = vec![in_background("cat gate")];
    script.push(json!({"text": "Started.", "usage": {"output_tokens": 1_000_000}}));
    let context = context(json!(script));
    context.make_pipe("gate");
    let mut running = context.start(&[&DIALOGUE[..], &["--max-budget-usd", "1"]].concat());
    running.send(&prompt("go"));
    let result = running.wait_for("the result", |line| line["type"] == "result");
    assert_eq!(result["subtype"], "error_max_budget_usd");
    running.close_stdin();
    let finished = running.finish();
    assert_eq!(finished.code, Some(1));
    assert_stopped(&finished.lines(), &finished.stderr, "the budget is used up");
    assert_eq!(finished.of_type("result").len(), 1);
    context.assert_no_survivors();
}

#[test]
fn a_cleared_session_keeps_its_tasks() {
    let context = gated(&["Started.", "Seen."]);
    let mut running = with_task(&context);
    running.send(&prompt("/clear"));
    running.wait_for("the result of the command", |line| line["type"] == "result");
    context.feed_pipe("gate", "");
    running.wait_for("the notice's turn", |line| line["type"] == "result");
    running.close_stdin();
    let finished = running.finish().success();
    let results = finished.of_type("result");
    assert_eq!(results[2]["result"], "Seen.");
    assert_eq!(results[2]["session_id"], results[1]["session_id"]);
    assert_ne!(results[2]["session_id"], results[0]["session_id"]);
    let message = last_message(&context, 2);
    assert!(message.contains("<status>completed</status>"), "{message}");
}

#[test]
fn each_format_shows_its_results() {
    let both = |format: &[&'static str]| {
        let context = gated(&["One.", "Two."]);
        let args = [&["-p", "--allowedTools", "Bash"], format, &["--", "go"]].concat();
        let running = context.start(&args);
        context.feed_pipe("gate", "");
        wait_for_two(&context);
        running.finish().success().stdout
    };
    let text = both(&[]);
    assert!(text == "One.\n\nTwo.\n" || text == "One.\n", "{text:?}");
    let last: Value = serde_json::from_str(&both(&["--output-format", "json"])).unwrap();
    assert_eq!(last["type"], "result");
}

/// Waits until the model was asked twice.
fn wait_for_two(context: &TestContext) {
    while context.server().requests().len() < 2 {
        std::thread::yield_now();
    }
}
