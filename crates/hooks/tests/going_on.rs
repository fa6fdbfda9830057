//! Hooks that go on by themselves: the action proceeds, what they say later is kept for the agent.

mod support;

use std::time::Duration;

use lathe_hooks::{AsyncResult, HookSource, MAX_ASYNC, Outcome, ProblemKind};
use lathe_protocol::SettingsSource;
use serde_json::{Value, json};
use support::{Bench, file, gone, in_time, input, is_alive, pid_in};

fn handler(command: &str, more: Value) -> Value {
    let mut handler = json!({ "type": "command", "command": command });
    for (key, value) in more.as_object().unwrap() {
        handler[key] = value.clone();
    }
    handler
}

fn bench(event: &str, command: &str, more: Value) -> Bench {
    Bench::hooks(json!({ event: [{ "hooks": [handler(command, more)] }] }))
}

/// Runs a hook that goes on by itself; the action must not wait for it.
async fn leave(bench: &Bench, event: &str) {
    let outcome = bench.run(&input(event, json!({}))).await;
    assert_eq!(outcome, Outcome { ran: 1, ..Outcome::default() });
    assert_eq!(bench.engine.async_running(), 1);
    assert_eq!(bench.engine.take_async_results(), []);
}

async fn result(bench: &Bench) -> AsyncResult {
    let mut results = in_time(bench.engine.next_async_results()).await;
    assert_eq!(results.len(), 1);
    results.remove(0)
}

const WAIT: &str = "while [ ! -e go ]; do sleep 0.01; done";

fn context(event: &str) -> String {
    json!({
        "systemMessage": "sys", "decision": "block", "continue": false,
        "hookSpecificOutput": { "hookEventName": event, "additionalContext": "later" },
    })
    .to_string()
}

#[tokio::test]
async fn the_first_line_can_ask_for_more_time() {
    let command = format!(
        "echo '{{\"async\":true,\"asyncTimeout\":20000}}'; {WAIT}; echo '{}'",
        context("PostToolUse")
    );
    let bench = bench("PostToolUse", &command, json!({}));
    leave(&bench, "PostToolUse").await;
    std::fs::write(bench.path("go"), "").unwrap();
    let result = result(&bench).await;
    assert_eq!(result.contexts[0].line(), "PostToolUse:Bash hook additional context: later");
    assert_eq!(result.system_messages[0].text, "sys");
    assert_eq!((result.wake, result.problems.len()), (None, 0));
    assert_eq!(result.tool_use_id.as_deref(), Some("tu-1"));
    let last = bench.frames.lines().pop().unwrap();
    assert_eq!((&last["subtype"], &last["outcome"]), (&json!("hook_response"), &json!("success")));
}

#[tokio::test]
async fn settings_can_ask_for_it() {
    let command = format!("{WAIT}; echo '{}'", context("Stop"));
    let bench = bench("Stop", &command, json!({ "async": true }));
    leave(&bench, "Stop").await;
    std::fs::write(bench.path("go"), "").unwrap();
    assert_eq!(result(&bench).await.contexts[0].text, "later");
    assert_eq!(bench.engine.async_running(), 0);
}

#[tokio::test]
async fn exit_code_2_wakes_the_model_if_it_was_meant_to() {
    let command = format!("{WAIT}; echo 'tests fail' >&2; exit 2");
    let waking = bench("Stop", &command, json!({ "asyncRewake": true }));
    leave(&waking, "Stop").await;
    std::fs::write(waking.path("go"), "").unwrap();
    let woken = result(&waking).await;
    assert_eq!(woken.wake.as_deref(), Some(&*format!("[{command}]: tests fail\n")));
    assert_eq!(woken.problems, []);

    let quiet = bench("Stop", &command, json!({ "async": true }));
    leave(&quiet, "Stop").await;
    std::fs::write(quiet.path("go"), "").unwrap();
    let result = result(&quiet).await;
    assert_eq!(result.wake, None);
    assert!(matches!(result.problems[0].kind, ProblemKind::Exited { code: 2, .. }));
}

#[tokio::test]
async fn what_it_started_may_go_on_with_it() {
    let command = "(sh -c 'while [ ! -e go ]; do sleep 0.01; done; echo done > done' \
                   >/dev/null 2>&1 & echo $! > pid); echo $$ > main; echo '{\"async\":true}'";
    let bench = bench("Stop", command, json!({}));
    leave(&bench, "Stop").await;
    let pid = pid_in(&bench.path("pid")).await;
    gone(pid_in(&bench.path("main")).await).await;
    let too_early = tokio::time::timeout(Duration::from_millis(400), bench.engine.next_async_results());
    assert!(too_early.await.is_err(), "it is over although something of it is left");
    assert!(is_alive(pid));
    std::fs::write(bench.path("go"), "").unwrap();
    assert_eq!(file(&bench.path("done")).await, "done\n");
    result(&bench).await;
    gone(pid).await;
}

#[tokio::test]
async fn its_time_ends_too() {
    let command = "echo '{\"async\":true,\"asyncTimeout\":200}'; echo $$ > pid; sleep 1000";
    let bench = bench("Stop", command, json!({}));
    leave(&bench, "Stop").await;
    let result = result(&bench).await;
    assert_eq!(result.problems[0].kind, ProblemKind::TimedOut(Duration::from_millis(200)));
    gone(pid_in(&bench.path("pid")).await).await;
    assert_eq!(bench.frames.lines().pop().unwrap()["outcome"], "cancelled");
}

#[tokio::test]
async fn the_turn_that_started_it_may_be_cancelled() {
    let bench = bench("Stop", &format!("{WAIT}; echo '{}'", context("Stop")), json!({ "async": true }));
    leave(&bench, "Stop").await;
    bench.cancel.cancel();
    std::fs::write(bench.path("go"), "").unwrap();
    assert_eq!(result(&bench).await.contexts.len(), 1);
}

#[tokio::test]
async fn the_end_of_the_session_ends_it() {
    for drop_it in [false, true] {
        let bench = bench("Stop", "echo $$ > pid; sleep 1000", json!({ "async": true }));
        leave(&bench, "Stop").await;
        let pid = pid_in(&bench.path("pid")).await;
        let Bench { engine, folder, .. } = bench;
        if drop_it {
            drop(engine);
        } else {
            in_time(engine.shut_down()).await;
            assert!(!is_alive(pid));
            assert_eq!(engine.take_async_results(), []);
        }
        gone(pid).await;
        drop(folder);
    }
}

#[tokio::test]
async fn there_are_only_so_many() {
    let bench = Bench::new();
    let handlers: Vec<Value> =
        (0..MAX_ASYNC + 1).map(|n| handler(&format!("echo {n}; {WAIT}"), json!({ "async": true }))).collect();
    assert_eq!(
        bench
            .register(HookSource::Settings(SettingsSource::User), json!({ "Stop": [{ "hooks": handlers }] })),
        []
    );
    let event = input("Stop", json!({}));
    let outcome = bench.run(&event).await;
    let [problem] = &outcome.problems[..] else { panic!("{:?}", outcome.problems) };
    assert_eq!(problem.kind, ProblemKind::TooManyInBackground);
    std::fs::write(bench.path("go"), "").unwrap();
    // Results that nobody has taken keep their slot.
    in_time(async {
        while bench.engine.async_running() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(bench.run(&event).await.problems.len(), MAX_ASYNC + 1);
    assert_eq!(bench.engine.take_async_results().len(), MAX_ASYNC);
    assert_eq!(bench.run(&event).await.problems.len(), 1);
    in_time(bench.engine.shut_down()).await;
}
