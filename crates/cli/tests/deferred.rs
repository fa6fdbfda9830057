//! Calls that a hook puts off, over several runs of the built program: taken up once, whatever happened to the
//! runs before, and named when they cannot be taken up.

use lathe_testkit::{Finished, Running, TestContext};
use rustix::process::Signal;
use serde_json::{Value, json};

const ID: &str = "5e55104e-0000-4000-8000-00000000000d";
const STREAM: [&str; 4] = ["-p", "--output-format", "stream-json", "--verbose"];

/// A world in which every shell command is put off until the file `ready` is there.
fn context(command: &str) -> TestContext {
    let defer = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "defer"}});
    let hook = format!("test -e ready || printf '%s' '{defer}'");
    let hooks = json!({"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": hook}]}]});
    let script = json!([{"tools": [{"name": "Bash", "input": {"command": command}}]}, {"text": "after"}]);
    let context = TestContext::new(&script.to_string()).binary(env!("CARGO_BIN_EXE_lathe"));
    context.write_home(".claude/settings.json", &json!({"hooks": hooks}).to_string());
    context
}

fn words(flags: &[&'static str]) -> Vec<&'static str> {
    STREAM.iter().chain(flags).copied().collect()
}

/// A run that ends with the call put off.
fn put_off(context: &TestContext) {
    let first = context.run(&words(&["--session-id", ID, "--", "go"])).success();
    assert_eq!(first.result()["terminal_reason"], "tool_deferred");
}

fn resumed(context: &TestContext, flags: &[&'static str]) -> Finished {
    context.run(&[words(&["--resume", ID, "--allowedTools", "Bash"]), flags.to_vec()].concat())
}

fn lines(context: &TestContext, file: &str) -> usize {
    std::fs::read_to_string(context.cwd().join(file)).unwrap_or_default().lines().count()
}

fn talking(context: &TestContext, flags: &[&'static str]) -> Running {
    context.start(&[words(&["--input-format", "stream-json"]), flags.to_vec()].concat())
}

fn prompt(text: &str) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": null})
}

#[test]
fn a_run_that_is_killed_behind_the_deferral_leaves_the_call_to_the_next() {
    let context = context("echo x >> ran");
    let mut running = talking(&context, &["--session-id", ID]);
    running.send(&prompt("go"));
    let result = running.wait_for_type("result");
    assert_eq!(result["deferred_tool_use"]["name"], "Bash");
    running.signal(Signal::KILL);
    running.finish();
    assert_eq!(lines(&context, "ran"), 0);
    context.write("ready", "");
    let next = resumed(&context, &[]).success();
    assert_eq!(next.result()["result"], "after");
    assert_eq!(lines(&context, "ran"), 1);
    let again = resumed(&context, &[]);
    assert_eq!(again.code, Some(1), "there is nothing more to take up: {again:?}");
    assert_eq!(lines(&context, "ran"), 1);
}

#[test]
fn a_call_that_was_taken_up_and_killed_does_not_run_again() {
    let context = context("echo x >> ran; sleep 600");
    put_off(&context);
    context.write("ready", "");
    let mut running = context.start(&words(&["--resume", ID, "--allowedTools", "Bash"]));
    running.close_stdin();
    while lines(&context, "ran") == 0 {
        std::thread::yield_now();
    }
    running.signal(Signal::KILL);
    running.finish();
    assert_eq!(resumed(&context, &[]).code, Some(1), "no call waits any more");
    let next = resumed(&context, &["--", "go on"]).success();
    assert_eq!(next.result()["result"], "after");
    assert_eq!(lines(&context, "ran"), 1);
    let sent = context.server().requests().pop().unwrap().json()["messages"].to_string();
    assert!(sent.contains("tool_result"), "the model is told what became of the call: {sent}");
}

#[test]
fn a_call_whose_tool_is_gone_is_named_and_waits() {
    let context = context("echo x >> ran");
    put_off(&context);
    context.write("ready", "");
    let gone = resumed(&context, &["--tools", "Read"]);
    assert_eq!(gone.code, Some(1), "{gone:?}");
    let result = gone.result();
    for (key, value) in [
        ("subtype", json!("success")),
        ("is_error", json!(true)),
        ("terminal_reason", json!("tool_deferred_unavailable")),
        ("stop_reason", json!("tool_deferred_unavailable")),
        ("result", json!("")),
    ] {
        assert_eq!(result[key], value, "{key}");
    }
    assert_eq!(result["deferred_tool_use"]["input"], json!({"command": "echo x >> ran"}));
    assert_eq!(context.server().requests().len(), 1, "the model is not asked without the call's result");
    let next = resumed(&context, &[]).success();
    assert_eq!(next.result()["result"], "after");
    assert_eq!(lines(&context, "ran"), 1);
}

#[test]
fn a_prompt_and_the_call_before_it_have_one_result() {
    let context = context("echo x >> ran");
    put_off(&context);
    for ready in [false, true] {
        if ready {
            context.write("ready", "");
        }
        let mut running = talking(&context, &["--resume", ID, "--allowedTools", "Bash"]);
        running.send(
            &json!({"type": "control_request", "request_id": "i", "request": {"subtype": "initialize"}}),
        );
        running.wait_for_type("control_response");
        running.send(&prompt("and now?"));
        running.close_stdin();
        let finished = running.finish().success();
        let reason = if ready { "completed" } else { "tool_deferred" };
        assert_eq!(finished.result()["terminal_reason"], reason);
        assert_eq!(lines(&context, "ran"), usize::from(ready));
    }
}
