//! The kit itself, with `sh` in place of the program under test.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use lathe_testkit::{TestContext, scan_survivors};
use serde_json::json;

fn shell(script: &str) -> TestContext {
    TestContext::new(script).binary("/bin/sh")
}

#[test]
fn a_run_has_its_own_folders_and_environment() {
    let context = shell("turns: [{text: hi}]").env("EXTRA", "yes").without_env("LANG");
    context.write("sub/a.txt", "content");
    let run = context.run(&["-c", "printf '{\"home\":\"%s\",\"pwd\":\"%s\",\"extra\":\"%s\",\"lang\":\"%s\"}\n' \"$HOME\" \"$PWD\" \"$EXTRA\" \"$LANG\"; cat sub/a.txt >&2; exit 3"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(3), "content"));
    let line = context.normaliser().value(&run.lines()[0]);
    assert_eq!(line, json!({"home": "<home>", "pwd": "<cwd>", "extra": "yes", "lang": ""}));
}

#[test]
fn stdin_and_stdout_go_line_by_line() {
    let context = shell("turns: [{text: hi}]");
    let mut run = context.start(&["-c", "echo '{\"type\":\"init\"}'; while read -r line; do echo \"{\\\"type\\\":\\\"echo\\\",\\\"line\\\":$line}\"; done; echo '{\"type\":\"result\"}'"]);
    run.wait_for_type("init");
    run.send(&json!({"n": 1}));
    assert_eq!(run.wait_for_type("echo")["line"], json!({"n": 1}));
    run.close_stdin();
    let run = run.finish().success();
    assert_eq!(run.lines().len(), 3);
    assert_eq!(run.result(), json!({"type": "result"}));
}

#[test]
fn the_server_answers_while_the_test_waits() {
    let context = shell("turns: [{text: hi}]");
    assert!(context.server().url().starts_with("http://127.0.0.1:"));
    let run = context.run(&["-c", "echo \"\\\"$ANTHROPIC_BASE_URL\\\"\""]);
    assert_eq!(run.lines()[0], context.server().url());
    assert_eq!(context.server().request_count(), 0);
}

#[test]
fn a_run_that_does_not_end_fails_with_what_it_said() {
    let context = shell("turns: [{text: hi}]").limit(Duration::from_millis(300));
    let failed = std::panic::catch_unwind(AssertUnwindSafe(|| {
        context.run(&["-c", "echo '{\"said\":1}'; exec sleep 60"])
    }));
    let message = *failed.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("it has not ended") && message.contains("{\"said\":1}"), "{message}");
    context.assert_no_survivors();
}

#[test]
fn survivors_are_found_by_their_cookie_wherever_they_went() {
    let context = shell("turns: [{text: hi}]");
    let started = Instant::now();
    let run = context.run(&["-c", "setsid sleep 300 >/dev/null 2>&1 & echo '{}'"]).success();
    assert!(started.elapsed() < Duration::from_secs(10) && run.lines().len() == 1);
    let survivors = context.survivors(Duration::ZERO);
    assert_eq!(survivors.len(), 1, "{survivors:?}");
    assert!(survivors[0].command.trim_end().ends_with("sleep 300"), "{survivors:?}");
    let pid = survivors[0].pid;
    drop(context);
    let gone = Instant::now();
    while std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.ends_with(b"sleep\x00300\x00"))
    {
        assert!(gone.elapsed() < Duration::from_secs(5), "the context leaves nobody behind");
        std::thread::yield_now();
    }
    assert!(scan_survivors("no such cookie").is_empty());
}
