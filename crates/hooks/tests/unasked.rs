//! Hooks that could not be asked: the machine had nothing left to start them with, or something else ended them.
//! A guard then refuses, everything else goes on as it did; and the places for hook processes are shared.

mod support;

use std::time::Duration;

use lathe_exec::{PlaceKind, PlaceLimit};
use lathe_hooks::{EngineOptions, HookSource, Outcome, ProblemKind, START_PATIENCE};
use lathe_protocol::hooks::{HookPermissionDecision, PermissionRequestDecision};
use lathe_protocol::web::WebError;
use lathe_protocol::{HookInput, SettingsSource};
use serde_json::json;
use support::{Bench, in_time, input};
use tokio::time::Instant;

const GUARDED: [&str; 5] =
    ["PreToolUse", "UserPromptSubmit", "UserPromptExpansion", "PreModelSwitch", "ConfigChange"];

/// Their "no" keeps work going, comes too late or answers a question that somebody else can answer.
const UNGUARDED: [&str; 9] = [
    "PermissionRequest",
    "Stop",
    "SubagentStop",
    "PreCompact",
    "TaskCompleted",
    "TeammateIdle",
    "PostToolUse",
    "Elicitation",
    "SessionStart",
];

/// The reason of the "no" of an outcome, in whichever way its event says it.
fn refusal(outcome: &Outcome) -> Option<String> {
    let denied = outcome.permission.as_ref().filter(|said| said.behavior == HookPermissionDecision::Deny);
    let denied = denied.map(|said| said.reason.clone().unwrap_or_default());
    denied.or_else(|| outcome.block().map(|block| block.reason.clone()))
}

fn exhausted() -> WebError {
    WebError::Exhausted("tcp open error: Too many open files (os error 24)".to_owned())
}

fn http_bench(event: &str) -> Bench {
    Bench::hooks(json!({ event: [{ "hooks": [{ "type": "http", "url": "http://127.0.0.1:9/guard" }] }] }))
}

#[tokio::test]
async fn a_guard_that_something_killed_refuses() {
    for event in GUARDED {
        let outcome = Bench::command(event, "kill -9 $$").run(&input(event, json!({}))).await;
        let reason = refusal(&outcome).unwrap_or_else(|| panic!("{event} goes on: {outcome:?}"));
        assert!(reason.contains("[kill -9 $$]: ") && reason.contains("signal 9"), "{event}: {reason}");
        assert_eq!(outcome.problems[0].kind, ProblemKind::Killed("signal 9".into()), "{event}");
    }
    for event in UNGUARDED {
        let outcome = Bench::command(event, "kill -9 $$").run(&input(event, json!({}))).await;
        assert_eq!((refusal(&outcome), outcome.permission_request), (None, None), "{event}");
        assert_eq!(outcome.problems.len(), 1, "{event}");
    }
}

#[tokio::test]
async fn nobody_can_block_managed_settings_by_dying() {
    let event = input("ConfigChange", json!({ "source": "policy_settings" }));
    let outcome = Bench::command("ConfigChange", "kill -9 $$").run(&event).await;
    assert_eq!(refusal(&outcome), None);
}

#[tokio::test]
async fn exit_codes_and_missing_programs_refuse_nothing() {
    for event in GUARDED {
        for command in ["exit 1", "exit 126", "exit 127", "exit 137", "no-such-program-here"] {
            let outcome = Bench::command(event, command).run(&input(event, json!({}))).await;
            assert_eq!(refusal(&outcome), None, "{event}: {command}");
        }
        let missing = json!({ "type": "command", "command": "/no/such/program", "args": [] });
        let bench = Bench::hooks(json!({ event: [{ "hooks": [missing] }] }));
        assert_eq!(refusal(&bench.run(&input(event, json!({}))).await), None, "{event}");
    }
}

#[tokio::test]
async fn half_an_answer_is_no_consent() {
    let run = async |event: &str, said: serde_json::Value| {
        let command = format!("echo '{said}'; kill -9 $$");
        Bench::command(event, &command).run(&input(event, json!({}))).await
    };
    let allow = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "allow", "permissionDecisionReason": "fine",
    } });
    let reason = refusal(&run("PreToolUse", allow).await).expect("a refusal");
    assert!(reason.contains("signal 9") && !reason.starts_with("fine"), "{reason}");

    let deny = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "not here",
    } });
    assert_eq!(refusal(&run("PreToolUse", deny).await).as_deref(), Some("not here"));

    let decision = |decision: serde_json::Value| json!({ "hookSpecificOutput": { "hookEventName": "PermissionRequest", "decision": decision } });
    let allowed = run("PermissionRequest", decision(json!({ "behavior": "allow" }))).await;
    assert_eq!(allowed.permission_request, None);
    let denied =
        run("PermissionRequest", decision(json!({ "behavior": "deny", "message": "not here" }))).await;
    let verdict = denied.permission_request.expect("a verdict").decision;
    assert!(
        matches!(verdict, PermissionRequestDecision::Deny { message: Some(why), .. } if why == "not here")
    );
}

#[tokio::test(start_paused = true)]
async fn a_guard_without_a_socket_is_tried_for_ten_seconds_and_then_refuses() {
    for event in GUARDED {
        let bench = http_bench(event);
        *bench.net.reply.lock().unwrap() = Some(Err(exhausted()));
        let started = Instant::now();
        let outcome = bench.run(&input(event, json!({}))).await;
        assert_eq!(started.elapsed(), START_PATIENCE, "{event}");
        let reason = refusal(&outcome).unwrap_or_else(|| panic!("{event} goes on: {outcome:?}"));
        for part in ["[http://127.0.0.1:9/guard]: ", "(os error 24)", "within 10 s"] {
            assert!(reason.contains(part), "{event}: {part} in {reason}");
        }
        assert!(bench.net.posted.lock().unwrap().len() > 10, "{event} is tried again and again");
    }
}

#[tokio::test(start_paused = true)]
async fn where_nothing_is_guarded_nobody_waits() {
    for event in UNGUARDED.into_iter().filter(|event| !matches!(*event, "PermissionRequest" | "SessionStart"))
    {
        let bench = http_bench(event);
        *bench.net.reply.lock().unwrap() = Some(Err(exhausted()));
        let started = Instant::now();
        let outcome = bench.run(&input(event, json!({}))).await;
        assert_eq!((started.elapsed(), refusal(&outcome)), (Duration::ZERO, None), "{event}");
        assert_eq!(bench.net.posted.lock().unwrap().len(), 1, "{event}");
    }
    let bench = http_bench("PermissionRequest");
    *bench.net.reply.lock().unwrap() = Some(Err(exhausted()));
    let started = Instant::now();
    let outcome = bench.run(&input("PermissionRequest", json!({}))).await;
    assert_eq!((started.elapsed(), outcome.permission_request), (START_PATIENCE, None));
}

#[tokio::test(start_paused = true)]
async fn a_guard_answers_once_there_is_a_socket_again() {
    let bench = http_bench("PreToolUse");
    *bench.net.reply.lock().unwrap() = Some(Err(exhausted()));
    let event = input("PreToolUse", json!({}));
    let answers = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        bench.net.replies(200, "{}");
    };
    let started = Instant::now();
    let (outcome, ()) = tokio::join!(bench.run(&event), answers);
    assert_eq!((refusal(&outcome), outcome.problems.len()), (None, 0));
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_short_timeout_and_an_interrupt_end_the_tries() {
    let hook = json!({ "type": "http", "url": "http://127.0.0.1:9/guard", "timeout": 2 });
    let bench = Bench::hooks(json!({ "PreToolUse": [{ "hooks": [hook] }] }));
    *bench.net.reply.lock().unwrap() = Some(Err(exhausted()));
    let event = input("PreToolUse", json!({}));
    let started = Instant::now();
    assert!(refusal(&bench.run(&event).await).is_some());
    assert_eq!(started.elapsed(), Duration::from_secs(2));

    let started = Instant::now();
    let interrupt = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        bench.cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(bench.run(&event), interrupt);
    assert!(outcome.cancelled);
    assert_eq!((started.elapsed(), refusal(&outcome)), (Duration::from_secs(1), None));
}

fn prompt() -> HookInput {
    input("UserPromptSubmit", json!({}))
}

/// An engine with this limit and one command for two events.
fn limited(limit: &PlaceLimit, hook: serde_json::Value) -> Bench {
    let bench = Bench::with_limit(EngineOptions::default(), limit.clone());
    let hooks = json!([{ "hooks": [hook] }]);
    let hooks = json!({ "UserPromptSubmit": hooks, "PreToolUse": hooks });
    assert_eq!(bench.register(HookSource::Settings(SettingsSource::User), hooks), []);
    bench
}

#[tokio::test]
async fn engines_share_the_places_for_processes() {
    let limit = PlaceLimit::new(PlaceKind::Hook, 2);
    let log = tempfile::NamedTempFile::new().unwrap();
    let command = format!("echo + >>{0}; sleep 0.02; echo - >>{0}", log.path().display());
    let benches = [0, 1].map(|_| limited(&limit, json!({ "type": "command", "command": command })));
    let event = prompt();
    let runs = (0..10).map(|n| benches[n % 2].run(&event));
    in_time(futures_util::future::join_all(runs)).await;
    let (mut now, mut most, mut started) = (0, 0, 0);
    for line in std::fs::read_to_string(log.path()).unwrap().lines() {
        now += if line == "+" { 1 } else { -1 };
        most = most.max(now);
        started += i32::from(line == "+");
    }
    assert!(most <= 2, "{most} at the same time");
    assert_eq!(started, 10);
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_never_gets_a_place_refuses_and_says_so() {
    let limit = PlaceLimit::new(PlaceKind::Hook, 1);
    let busy = limited(&limit, json!({ "type": "command", "command": "sleep 1000", "timeout": 3600 }));
    let waiting = limited(&limit, json!({ "type": "command", "command": "true", "timeout": 1 }));
    let (call, event) = (input("PreToolUse", json!({})), prompt());
    let holder = busy.engine.run(&call, busy.context());
    let waiter = async {
        busy.frames.wait_for(|_| true).await;
        let started = Instant::now();
        let context = waiting.context();
        let outcome = waiting.engine.run(&event, context).await;
        busy.cancel.cancel();
        (outcome, started.elapsed())
    };
    let (_, (outcome, waited)) = tokio::join!(holder, waiter);
    assert_eq!(waited, Duration::from_secs(30), "the event's own time, not the hook's");
    let reason = refusal(&outcome).expect("a refusal");
    assert!(
        reason.contains("[true]: ")
            && reason.contains("no place for a hook became free within 30 s: 1 hook is running"),
        "{reason}"
    );
}

#[tokio::test]
async fn hooks_in_the_background_hold_no_place() {
    let limit = PlaceLimit::new(PlaceKind::Hook, 1);
    let configured = json!({ "type": "command", "command": "sleep 1000", "async": true });
    let says_so = json!({ "type": "command", "command": "echo '{\"async\":true}'; sleep 1000" });
    for hook in [configured, says_so] {
        let behind = limited(&limit, hook);
        behind.run(&prompt()).await;
        assert_eq!(behind.engine.async_running(), 1);
        let guard = limited(&limit, json!({ "type": "command", "command": "echo no >&2; exit 2" }));
        let reason = refusal(&guard.run(&prompt()).await).expect("a refusal");
        assert_eq!(reason, "[echo no >&2; exit 2]: no\n");
        behind.engine.shut_down().await;
    }
}

#[tokio::test]
async fn a_hook_in_the_background_guards_nothing() {
    let hook = json!({ "type": "command", "command": "kill -9 $$", "async": true });
    let bench = Bench::hooks(json!({ "PreToolUse": [{ "hooks": [hook] }] }));
    assert_eq!(refusal(&bench.run(&input("PreToolUse", json!({}))).await), None);
    let result = &in_time(bench.engine.next_async_results()).await[0];
    assert_eq!(result.problems[0].kind, ProblemKind::Killed("signal 9".into()));
}
