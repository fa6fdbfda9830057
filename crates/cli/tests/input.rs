//! Bad input on stdin: a defined end or a defined answer each time, never a crash, never silence.

use std::time::{Duration, Instant};

use lathe_testkit::{Finished, TestContext};
use serde_json::{Value, json};

const STREAM: [&str; 5] = ["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"];

fn context() -> TestContext {
    context_of(r#"[{"text": "fine"}]"#)
}

/// With a model that answers also what the API would refuse; each test says why.
fn lax_context() -> TestContext {
    context_of(r#"{"lax": true, "turns": [{"text": "fine"}]}"#)
}

fn context_of(script: &str) -> TestContext {
    TestContext::new(script).binary(env!("CARGO_BIN_EXE_lathe")).limit(Duration::from_secs(60))
}

fn prompt(content: &Value) -> String {
    format!("{}\n", json!({"type": "user", "message": {"role": "user", "content": content}}))
}

/// Lines in, then the end of input.
fn run(lines: &str) -> Finished {
    context().run_with_stdin(&STREAM, lines)
}

/// A run that ends with exit code 1 and these words on stderr.
fn refused(lines: &str, words: &str) {
    let finished = run(lines);
    assert_eq!(finished.code, Some(1), "{finished:#?}");
    assert!(finished.stderr.contains(words), "{words:?} is not in {:?}", finished.stderr);
    assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
}

#[test]
fn lines_that_are_no_json_object_end_the_run() {
    refused("this is not json\n", "Error parsing streaming input line (type=unknown, 16 chars): SyntaxError");
    for line in ["[]\n", "5\n", "\"user\"\n", "null\n"] {
        refused(line, "SyntaxError: not an object");
    }
    let deep = format!("{{\"type\":\"user\",\"x\":{}1{}}}\n", "[".repeat(100_000), "]".repeat(100_000));
    refused(&deep, "nested deeper than 127 levels");
}

#[test]
fn prompts_that_cannot_be_run_end_the_run() {
    refused(
        &json!({"type": "user", "message": {"role": "assistant", "content": "x"}}).to_string(),
        "Error: Expected message role 'user', got 'assistant'",
    );
    refused(r#"{"type":"user","message":"hello"}"#, "Error: Expected message role 'user', got 'undefined'");
    refused(r#"{"type":"user","message":{"role":"user"}}"#, "`message.content` must be");
}

#[test]
fn an_unknown_type_and_a_last_line_without_its_end_are_taken() {
    let lines = format!("\n  \n{{\"type\":\"tomorrow\"}}\n{}", prompt(&json!("hi")).trim_end());
    let finished = run(&lines).success();
    assert_eq!(finished.result()["result"], "fine");
    assert!(finished.stderr.contains("unknown type \"tomorrow\""), "{}", finished.stderr);
}

#[test]
fn ten_megabytes_in_one_line_arrive() {
    // lax: no window holds ten megabytes of text; this is about the way there.
    let context = lax_context();
    let finished = context.run_with_stdin(&STREAM, &prompt(&json!("y".repeat(10_000_000)))).success();
    assert_eq!(finished.result()["result"], "fine");
    assert_eq!(finished.stderr, "");
    let requests = context.server().requests();
    assert!(requests[0].body.len() > 10_000_000);
}

#[test]
fn bytes_that_are_no_utf8_are_replaced_with_a_word_about_it() {
    let context = context();
    let mut running = context.start(&STREAM);
    let line = prompt(&json!("a?b"));
    let (before, after) = line.split_once('?').unwrap();
    running.write_bytes(&[before.as_bytes(), &[0xff, 0xfe], after.as_bytes()].concat());
    running.close_stdin();
    let finished = running.finish().success();
    assert_eq!(finished.result()["result"], "fine");
    assert!(finished.stderr.contains("not valid UTF-8"), "{}", finished.stderr);
}

#[test]
fn blocks_images_and_odd_fields_make_a_prompt() {
    let content = json!([
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        {"type": "from_the_future", "x": 1},
    ]);
    let line = json!({
        "type": "user", "session_id": "whatever", "parent_tool_use_id": "toolu_x", "priority": "whenever",
        "message": {"role": "user", "content": content}, "origin": {"kind": "human"}, "unknown": [1, 2],
    });
    // lax: the API refuses blocks of a kind it does not know; they are passed on, so that a newer one gets them.
    let finished = lax_context().run_with_stdin(&STREAM, &format!("{line}\n")).success();
    assert_eq!(finished.result()["origin"], json!({"kind": "human"}));
}

#[test]
fn the_introduction_has_to_come_first_where_that_was_asked_for() {
    let words: Vec<&str> = STREAM.into_iter().chain(["--await-initialize"]).collect();
    let finished = context().run_with_stdin(&words, &prompt(&json!("hi")));
    assert_eq!(finished.code, Some(1));
    assert!(finished.stderr.starts_with("Error: --await-initialize requires the initialize control request"));
    assert_eq!(finished.stdout, "");
    let telling = context().env("CLAUDE_CODE_STARTUP_FAILURE_RESULTS", "1");
    let finished = telling.run_with_stdin(&words, &prompt(&json!("hi")));
    assert_eq!(finished.result()["startup_failure_reason"], "initialize_not_first");
    let first = json!({"type": "control_request", "request_id": "i", "request": {"subtype": "initialize"}});
    let lines = format!("{first}\n{}", prompt(&json!("hi")));
    assert_eq!(context().run_with_stdin(&words, &lines).success().result()["result"], "fine");
}

#[test]
fn old_clients_get_ends_they_can_take() {
    let script = json!([{"tools": [{"name": "Bash", "input": {"command": "echo x"}}]}]).to_string();
    let run = |env: &[(&str, &str)]| {
        let mut context = TestContext::new(&script).binary(env!("CARGO_BIN_EXE_lathe"));
        for (name, value) in env {
            context = context.env(name, *value);
        }
        let words: Vec<&str> = STREAM.into_iter().chain(["--max-turns", "1"]).collect();
        context.run_with_stdin(&words, &prompt(&json!("hi")))
    };
    for (env, is_error) in [
        (&[("CLAUDE_CODE_ENTRYPOINT", "sdk-ts"), ("CLAUDE_AGENT_SDK_VERSION", "0.2.34")][..], false),
        (&[("CLAUDE_CODE_ENTRYPOINT", "sdk-py"), ("CLAUDE_AGENT_SDK_VERSION", "0.1.40")], false),
        (&[("CLAUDE_CODE_ENTRYPOINT", "sdk-ts"), ("CLAUDE_AGENT_SDK_VERSION", "0.3.325")], true),
        (&[("CLAUDE_CODE_ENTRYPOINT", "sdk-py"), ("CLAUDE_AGENT_SDK_VERSION", "0.2.182")], true),
        (&[], true),
    ] {
        let finished = run(env);
        let result = finished.result();
        assert_eq!(result["subtype"], "error_max_turns");
        assert_eq!(result["is_error"], is_error, "{env:?}");
        assert_eq!(finished.code, Some(i32::from(is_error)), "{env:?}");
        assert_eq!(result["errors"], json!(["Reached maximum number of turns (1)"]));
    }
}

#[test]
fn a_run_that_is_refused_waits_for_what_its_host_is_about_to_write() {
    let words = [&STREAM[..], &["--resume", "00000000-0000-4000-8000-0000000000ff"]].concat();
    for speaks in [true, false] {
        let context = context();
        let mut running = context.start(&words);
        let result = running.wait_for_type("result");
        assert_eq!(result["subtype"], "error_during_execution");
        let since = Instant::now();
        if speaks {
            running.send(
                &json!({"type": "control_request", "request_id": "i", "request": {"subtype": "initialize"}}),
            );
        }
        assert_eq!(running.next_line(), None, "the end");
        assert!(speaks || since.elapsed() > Duration::from_millis(500), "a closed pipe is no answer");
        assert_eq!(running.finish().code, Some(1));
    }
}

/// A child that the parent starts at the same moment holds a copy of the pipe until its `exec`.
#[test]
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "another process holds the pipe for a while"
)]
fn a_process_that_lets_the_pipe_go_is_not_waited_for_any_longer() {
    use std::process::{Command, Stdio};
    let context = context();
    let (read, write) = std::io::pipe().unwrap();
    let mut holder = Command::new("sleep").arg("0.7").stdout(write.try_clone().unwrap()).spawn().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathe"));
    command
        .args(["-p", "hello"])
        .current_dir(context.cwd())
        .env_clear()
        .env("HOME", context.home())
        .env("ANTHROPIC_API_KEY", "key")
        .env("ANTHROPIC_BASE_URL", context.server().url())
        .stdin(read)
        .stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    // Dropped with the command, so that the pipe has no reader here.
    drop(command);
    let (told, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || told.send(child.wait_with_output()));
    let output =
        ended.recv_timeout(Duration::from_secs(30)).expect("the run does not wait for this process").unwrap();
    drop(write);
    holder.wait().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "fine\n");
}
