//! Signals, closed pipes, endless tools, killed processes: a defined end each time, and nothing left
//! running.
#![allow(clippy::disallowed_methods, reason = "a pipeline of the shell is what is tested here")]

use std::time::{Duration, Instant};

use lathe_testkit::TestContext;
use rustix::process::Signal;
use serde_json::{Value, json};

const STREAM: [&str; 6] = ["-p", "--output-format", "stream-json", "--verbose", "--allowedTools", "Bash"];

/// A run whose model asks for one command and then answers.
fn context(command: &str, timeout_ms: Option<u64>) -> TestContext {
    let mut input = json!({"command": command});
    if let Some(timeout) = timeout_ms {
        input["timeout"] = json!(timeout);
    }
    let script = json!([{"tools": [{"name": "Bash", "input": input}]}, {"text": "done"}]);
    TestContext::new(&script.to_string()).binary(env!("CARGO_BIN_EXE_lathe"))
}

fn with_prompt(prompt: &str) -> Vec<&str> {
    STREAM.into_iter().chain(["--", prompt]).collect()
}

/// Waits for a file that a command of the test makes.
fn wait_for(context: &TestContext, name: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !context.cwd().join(name).exists() {
        assert!(Instant::now() < deadline, "{name} never came");
        std::thread::yield_now();
    }
}

fn last_content(lines: &[Value]) -> String {
    let mut results = lines.iter().filter(|line| line["message"]["content"][0]["type"] == "tool_result");
    results.next_back().map(|line| line["message"]["content"][0]["content"].to_string()).unwrap_or_default()
}

#[test]
fn endless_output_is_bounded_and_its_tree_is_gone() {
    let context = context("yes & yes", Some(1000));
    let finished = context.run(&with_prompt("go")).success();
    let content = last_content(&finished.lines());
    assert!(
        content.contains("did not complete within its 1s timeout"),
        "{}",
        &content[..content.len().min(300)]
    );
    assert!(content.len() < 60_000, "{} bytes reach the model", content.len());
    context.assert_no_survivors();
}

#[test]
fn kill_9_leaves_no_process_behind() {
    let context = context("setsid sleep 1000 & (sleep 1000 &) ; touch started; sleep 1000", None);
    let mut running = context.start(&with_prompt("go"));
    running.close_stdin();
    wait_for(&context, "started");
    running.signal(Signal::KILL);
    context.assert_no_survivors();
}

#[test]
fn the_terminating_signal_kills_the_tool_and_exits_143() {
    let context = context("touch started; sleep 1000", None);
    let mut running = context.start(&with_prompt("go"));
    running.close_stdin();
    wait_for(&context, "started");
    running.signal(Signal::TERM);
    let finished = running.finish();
    assert_eq!(finished.code, Some(143));
    assert!(finished.of_type("result").is_empty(), "a run that is terminated has no result");
    context.assert_no_survivors();
}

#[test]
fn ctrl_c_ends_the_turn_with_its_result() {
    let context = context("touch started; sleep 1000", None);
    let mut running = context.start(&with_prompt("go"));
    running.close_stdin();
    wait_for(&context, "started");
    running.signal(Signal::INT);
    let finished = running.finish();
    assert_eq!(finished.code, Some(0));
    let result = finished.result();
    assert_eq!(result["subtype"], "error_during_execution");
    assert_eq!(result["terminal_reason"], "aborted_tools");
    context.assert_no_survivors();
}

#[test]
fn background_work_ends_with_the_session() {
    let context = context("sleep 1000 & echo started", None);
    let finished = context.run(&with_prompt("go")).success();
    assert!(last_content(&finished.lines()).contains("started"));
    assert!(finished.elapsed < Duration::from_secs(10), "the child does not hold the result");
    context.assert_no_survivors();
}

#[test]
fn a_closed_reader_ends_the_run_quietly() {
    let context = context("touch started; sleep 1000", None);
    // The shell's `head` leaves after the first line, which is long before the tool ends.
    let pipeline = format!(
        "'{}' {} -- go </dev/null 2>stderr | head -n 1 >first; echo ${{PIPESTATUS[0]}} >code",
        env!("CARGO_BIN_EXE_lathe"),
        STREAM.join(" "),
    );
    let status = std::process::Command::new("bash")
        .args(["-c", &pipeline])
        .current_dir(context.cwd())
        .env("HOME", context.home())
        .env("ANTHROPIC_BASE_URL", context.server().url())
        .env("ANTHROPIC_API_KEY", "test")
        .status()
        .expect("bash runs");
    assert!(status.success());
    assert_eq!(context.read("stderr"), "");
    assert!(context.read("first").contains("init"));
}

#[test]
fn a_refused_key_fails_within_a_second() {
    let script = json!([{"error": 401, "etype": "authentication_error"}]).to_string();
    let context = TestContext::new(&script).binary(env!("CARGO_BIN_EXE_lathe"));
    let finished = context.run(&["-p", "x"]);
    assert_eq!(finished.code, Some(1));
    assert!(finished.stdout.starts_with("Failed to authenticate. API Error: 401"), "{}", finished.stdout);
    assert_eq!(context.server().request_count(), 1);
}

#[test]
fn lines_that_are_no_protocol_end_a_streaming_run() {
    let words = ["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"];
    let context = context("true", None);
    let garbage = context.run_with_stdin(&words, "not json\n");
    assert_eq!(garbage.code, Some(1));
    assert_eq!(garbage.stderr, "Error parsing streaming input line (type=unknown, 8 chars): SyntaxError\n");
    let role = r#"{"type":"user","message":{"role":"assistant","content":"x"},"parent_tool_use_id":null}"#;
    let wrong = context.run_with_stdin(&words, &format!("{role}\n"));
    assert_eq!(wrong.code, Some(1));
    assert_eq!(wrong.stderr, "Error: Expected message role 'user', got 'assistant'\n");
    let nothing = context.run_with_stdin(&words, "");
    assert_eq!((nothing.code, nothing.stdout.as_str()), (Some(0), ""));
    let unknown = context.run_with_stdin(&words, "\n{\"type\":\"new\"}\n{\"type\":\"keep_alive\"}\n");
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(0), ""));
}

#[test]
fn a_home_that_cannot_be_written_is_a_warning() {
    let context = context("true", None).env("CLAUDE_CONFIG_DIR", "/proc/nowhere");
    let finished = context.run(&with_prompt("go")).success();
    assert_eq!(finished.result()["result"], "done");
    let warned = finished.lines().iter().any(|line| line["subtype"] == "informational");
    assert!(warned || !finished.stderr.is_empty(), "somebody is told that nothing is saved");
}
