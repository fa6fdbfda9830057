//! Hooks that hang, flood, crash, talk nonsense or leave things behind; hosts that do not answer.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lathe_hooks::{Consequence, EngineOptions, HookSource, MAX_TEXT_CHARS, Outcome, ProblemKind, RunContext};
use lathe_protocol::SettingsSource;
use lathe_protocol::hooks::HookPermissionDecision;
use serde_json::{Value, json};
use support::{Bench, Reply, gone, in_time, input, pid_in};

fn command(event: &str, command: &str, timeout: f64) -> Bench {
    let handler = json!({ "type": "command", "command": command, "timeout": timeout });
    Bench::hooks(json!({ event: [{ "hooks": [handler] }] }))
}

fn only_problem(outcome: &Outcome) -> &ProblemKind {
    let [problem] = &outcome.problems[..] else { panic!("{:?}", outcome.problems) };
    &problem.kind
}

fn no_verdict(outcome: &Outcome) -> Value {
    let line = outcome.problems[0].informational().unwrap();
    assert_eq!((line.level.as_str(), line.tag.as_deref()), ("warning", Some("hook_no_verdict")));
    line.extra["hook_no_verdict"].clone()
}

#[tokio::test]
async fn a_hook_that_hangs_is_killed_with_everything_it_started() {
    // It ignores the polite signal, and so does its daemon.
    let script = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; echo $$ > daemon; sleep 1000' &) ; \
                  echo $$ > main; while true; do sleep 1000; done";
    let bench = command("PreToolUse", script, 0.5);
    let started = Instant::now();
    let outcome = bench.run(&input("PreToolUse", json!({}))).await;
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(only_problem(&outcome), &ProblemKind::TimedOut(Duration::from_millis(500)));
    assert_eq!(outcome.permission, None, "the call goes on");
    let expected = json!({ "hook_event": "PreToolUse", "tool_use_id": "tu-1", "timed_out": true });
    assert_eq!(no_verdict(&outcome), expected);
    for name in ["main", "daemon"] {
        gone(pid_in(&bench.path(name)).await).await;
    }
    let last = bench.frames.lines().pop().unwrap();
    assert_eq!((&last["outcome"], last.get("exit_code")), (&json!("cancelled"), None));
}

#[tokio::test]
async fn what_a_finished_hook_leaves_behind_is_killed() {
    let bench = Bench::command("Stop", "setsid sleep 1000 & echo $! > left; echo done");
    let started = Instant::now();
    let outcome = bench.run(&input("Stop", json!({}))).await;
    assert_eq!(outcome, Outcome { ran: 1, ..Outcome::default() });
    assert!(started.elapsed() < Duration::from_secs(5), "it holds the pipe, not the answer");
    gone(pid_in(&bench.path("left")).await).await;
}

#[tokio::test]
async fn endless_output_ends_at_the_timeout() {
    let bench = command("Stop", "yes", 0.3);
    let outcome = bench.run(&input("Stop", json!({}))).await;
    assert!(matches!(only_problem(&outcome), ProblemKind::TimedOut(_)));
    let bench = command("Stop", "yes & exit 0", 20.0);
    let started = Instant::now();
    let outcome = bench.run(&input("Stop", json!({}))).await;
    assert_eq!(outcome.problems, []);
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn answers_too_large_to_read_are_no_verdict() {
    let bench = Bench::command(
        "PreToolUse",
        r#"printf '{"decision":"block","reason":"'; head -c 3000000 /dev/zero | tr '\0' x; printf '"}'"#,
    );
    let outcome = bench.run(&input("PreToolUse", json!({}))).await;
    assert!(matches!(only_problem(&outcome), ProblemKind::InvalidOutput(_)));
    assert_eq!(outcome.permission, None);
}

#[tokio::test]
async fn long_texts_go_to_a_file() {
    let bench = Bench::command("UserPromptSubmit", "head -c 20000 /dev/zero | tr '\\0' x");
    let dir = bench.path("spill");
    let context = RunContext { spill_dir: Some(&dir), ..bench.context() };
    let outcome = in_time(bench.engine.run(&input("UserPromptSubmit", json!({})), context)).await;
    let text = &outcome.contexts[0].text;
    assert!(text.chars().count() <= MAX_TEXT_CHARS);
    let files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(std::fs::read_to_string(&files[0]).unwrap(), "x".repeat(20_000));
    assert!(text.contains(files[0].to_str().unwrap()));
}

#[tokio::test]
async fn nonsense_in_json_is_no_verdict() {
    for output in [
        "{broken",
        "{\"decision\":\"wat\"}",
        "{\"hookSpecificOutput\":{\"hookEventName\":\"Stop\"}}",
        "{} and more",
        "{\"continue\":\"false\"}",
    ] {
        let bench = Bench::command("PreToolUse", &format!("echo '{output}'"));
        let outcome = bench.run(&input("PreToolUse", json!({}))).await;
        assert!(matches!(only_problem(&outcome), ProblemKind::InvalidOutput(_)), "{output}");
        assert_eq!(no_verdict(&outcome)["timed_out"], json!(false));
        assert_eq!((outcome.permission, outcome.stop), (None, None), "{output}");
    }
}

#[tokio::test]
async fn output_that_is_not_text_is_read_as_far_as_it_is() {
    let bench = Bench::command("UserPromptSubmit", r"printf 'a\377b\0c'");
    let outcome = bench.run(&input("UserPromptSubmit", json!({}))).await;
    assert_eq!(outcome.contexts[0].text, "a\u{fffd}b\0c");
}

#[tokio::test]
async fn a_hook_that_does_not_read_its_input_is_fine() {
    let big = "x".repeat(4_000_000);
    let bench = Bench::command("UserPromptSubmit", "exec 0<&-; echo fine");
    let outcome = bench.run(&input("UserPromptSubmit", json!({ "prompt": big }))).await;
    assert_eq!((outcome.contexts[0].text.as_str(), outcome.problems.len()), ("fine", 0));
}

#[tokio::test]
async fn hooks_that_do_not_start_or_die_are_reported() {
    let dead = Bench::command("PreToolUse", "kill -9 $$").run(&input("PreToolUse", json!({}))).await;
    assert_eq!(only_problem(&dead), &ProblemKind::Killed("signal 9".into()));
    assert_eq!(no_verdict(&dead)["timed_out"], json!(false));

    let missing =
        Bench::command("PreToolUse", "no-such-program-here").run(&input("PreToolUse", json!({}))).await;
    assert!(matches!(only_problem(&missing), ProblemKind::Exited { code: 127, .. }));

    let bench = Bench::new();
    std::fs::write(bench.path("not-executable"), "#!/bin/sh\n").unwrap();
    for program in ["no-such-program-here", bench.path("not-executable").to_str().unwrap()] {
        let handler = json!({ "type": "command", "command": program, "args": [] });
        assert_eq!(
            bench.register(
                HookSource::Settings(SettingsSource::User),
                json!({ "PreToolUse": [{ "hooks": [handler] }] })
            ),
            []
        );
        let outcome = bench.run(&input("PreToolUse", json!({}))).await;
        assert!(matches!(only_problem(&outcome), ProblemKind::NotStarted(_)), "{program}");
        assert_eq!(outcome.permission, None);
        let last = bench.frames.lines().pop().unwrap();
        assert_eq!(last["outcome"], "error");
    }

    let bench = Bench::command("Stop", "true");
    let nowhere = bench.path("nowhere");
    let context = RunContext { cwd: &nowhere, ..bench.context() };
    let outcome = in_time(bench.engine.run(&input("Stop", json!({})), context)).await;
    assert!(matches!(only_problem(&outcome), ProblemKind::NotStarted(_)));
}

#[tokio::test]
async fn one_bad_hook_does_not_silence_the_others() {
    let hooks = json!({ "PreToolUse": [{ "hooks": [
        { "type": "command", "command": "sleep 1000", "timeout": 0.2 },
        { "type": "command", "command": "kill -9 $$" },
        { "type": "command", "command": "echo no >&2; exit 2" },
    ] }] });
    let outcome = Bench::hooks(hooks).run(&input("PreToolUse", json!({}))).await;
    assert_eq!(outcome.permission.unwrap().behavior, HookPermissionDecision::Deny);
    assert_eq!((outcome.ran, outcome.problems.len()), (3, 2));
}

#[tokio::test]
async fn cancelling_kills_every_hook_of_the_event() {
    let script = |name: &str| format!("echo $$ > {name}; sleep 1000; echo never");
    let bench = Bench::hooks(json!({ "Stop": [{ "hooks": [
        { "type": "command", "command": script("a") },
        { "type": "command", "command": script("b") },
    ] }] }));
    assert_eq!(bench.callbacks(json!({ "Stop": [{ "hookCallbackIds": ["h"] }] })), []);
    bench.host.reply("h", Reply::TimesOut);
    let event = input("Stop", json!({}));
    let pids = async {
        let pids = [pid_in(&bench.path("a")).await, pid_in(&bench.path("b")).await];
        bench.cancel.cancel();
        pids
    };
    let (outcome, pids) = in_time(async { tokio::join!(bench.run(&event), pids) }).await;
    assert!(outcome.cancelled);
    assert_eq!((outcome.ran, &outcome.blocks[..], &outcome.problems[..]), (3, &[][..], &[][..]));
    for pid in pids {
        gone(pid).await;
    }
    assert_eq!(bench.host.withdrawn.load(Ordering::Relaxed), 1);
    // Nothing starts once the run is cancelled.
    std::fs::remove_file(bench.path("a")).unwrap();
    assert!(bench.run(&event).await.cancelled);
    assert!(!bench.path("a").exists());
}

#[tokio::test]
async fn dropping_a_run_kills_its_hooks() {
    let bench = Bench::command("Stop", "echo $$ > pid; sleep 1000");
    let event = input("Stop", json!({}));
    let pid = {
        let run = bench.run(&event);
        let pid_file = bench.path("pid");
        tokio::select! {
            _ = run => panic!("it cannot end"),
            pid = pid_in(&pid_file) => pid,
        }
    };
    gone(pid).await;
}

/// Runs SessionEnd hooks that all hang and checks how long that takes.
async fn session_end(hooks: Value, budget: Option<Duration>, limit: f64) {
    let options = EngineOptions { session_end_budget: budget, ..EngineOptions::default() };
    let bench = Bench::with_options(options);
    assert_eq!(
        bench.register(
            HookSource::Settings(SettingsSource::User),
            json!({ "SessionEnd": [{ "hooks": hooks }] })
        ),
        []
    );
    let started = Instant::now();
    let outcome = bench.run(&input("SessionEnd", json!({}))).await;
    let took = started.elapsed().as_secs_f64();
    assert!(took >= limit && took < limit + 5.0, "{took} s, not {limit} s");
    for problem in &outcome.problems {
        let ProblemKind::TimedOut(after) = problem.kind else { panic!("{problem:?}") };
        assert!(after.as_secs_f64() <= limit);
    }
    assert!(!outcome.problems.is_empty());
}

#[tokio::test]
async fn the_end_of_a_session_does_not_wait_for_its_hooks() {
    let hang = |n: u32| json!({ "type": "command", "command": format!("sleep {n}") });
    let hang_for = |timeout: f64| json!({ "type": "command", "command": "sleep 1000", "timeout": timeout });
    tokio::join!(
        // Nothing configured: a second and a half for all of them.
        session_end(json!([hang(1000)]), None, 1.5),
        session_end(json!([hang_for(1.8), hang(2000)]), None, 1.8),
        session_end(json!([hang_for(1000.0)]), Some(Duration::from_millis(100)), 0.1),
    );
}

#[tokio::test(start_paused = true)]
async fn a_callback_that_does_not_answer_blocks_a_call_and_nothing_else() {
    for reply in [Reply::TimesOut, Reply::Hangs, Reply::Closed] {
        for (event, blocks) in [("PreToolUse", true), ("PostToolUse", false), ("Stop", false)] {
            let bench = Bench::new();
            assert_eq!(bench.callbacks(json!({ event: [{ "hookCallbackIds": ["h"], "timeout": 2 }] })), []);
            bench.host.reply("h", reply.clone());
            let started = tokio::time::Instant::now();
            let outcome = bench.run(&input(event, json!({}))).await;
            assert!(started.elapsed() <= Duration::from_secs(4));
            let consequence = if blocks { Consequence::Blocks } else { Consequence::GoesOn };
            let ProblemKind::CallbackFailed { consequence: actual, .. } = only_problem(&outcome) else {
                panic!("{reply:?}: {:?}", outcome.problems)
            };
            assert_eq!(*actual, consequence, "{event} {reply:?}");
            assert_eq!(outcome.permission.is_some(), blocks, "{event} {reply:?}");
            assert_eq!(outcome.blocks, [], "{event} {reply:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn callbacks_have_ten_minutes_unless_they_say_otherwise() {
    let bench = Bench::new();
    assert_eq!(bench.callbacks(json!({ "UserPromptSubmit": [{ "hookCallbackIds": ["h"] }] })), []);
    bench.host.reply("h", Reply::TimesOut);
    let started = tokio::time::Instant::now();
    let context = bench.context();
    bench.engine.run(&input("UserPromptSubmit", json!({})), context).await;
    assert_eq!(started.elapsed().as_secs(), 600);
}

#[tokio::test]
async fn a_failed_callback_blocks_if_it_was_registered_so() {
    for (on_failure, blocks) in [(json!(null), false), (json!("continue"), false), (json!("block"), true)] {
        for reply in [Reply::Error("boom".into()), Reply::Answer(json!({ "decision": "wat" }))] {
            for event in ["PreToolUse", "UserPromptSubmit"] {
                let bench = Bench::new();
                let mut group = json!({ "hookCallbackIds": ["h1"] });
                if !on_failure.is_null() {
                    group["onFailure"] = on_failure.clone();
                }
                assert_eq!(bench.callbacks(json!({ event: [group] })), []);
                bench.host.reply("h1", reply.clone());
                let outcome = bench.run(&input(event, json!({}))).await;
                assert_eq!(outcome.permission.is_some() || outcome.block().is_some(), blocks, "{event}");
                let line = outcome.problems[0].informational().unwrap();
                assert_eq!(line.tag.as_deref(), Some("hook_callback_failed"));
                assert!(line.content.contains("h1"));
            }
        }
    }
}

#[tokio::test]
async fn a_host_that_has_left_is_missed_unless_the_session_ends() {
    for (event, problems) in [("Stop", 1), ("SessionEnd", 0)] {
        let bench = Bench::new();
        assert_eq!(bench.callbacks(json!({ event: [{ "hookCallbackIds": ["h"] }] })), []);
        bench.host.reply("h", Reply::Closed);
        let outcome = bench.run(&input(event, json!({}))).await;
        assert_eq!((outcome.ran, outcome.problems.len(), outcome.blocks.len()), (1, problems, 0), "{event}");
    }
}

#[tokio::test]
async fn many_hooks_of_two_events_at_once_all_answer() {
    let handlers: Vec<Value> =
        (0..100).map(|n| json!({ "type": "command", "command": format!("echo {n}") })).collect();
    let bench = Arc::new(Bench::hooks(json!({ "UserPromptSubmit": [{ "hooks": handlers }] })));
    let run = || {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move { bench.run(&input("UserPromptSubmit", json!({}))).await })
    };
    let (one, two) = tokio::join!(run(), run());
    for outcome in [one.unwrap(), two.unwrap()] {
        let texts: Vec<String> = outcome.contexts.into_iter().map(|context| context.text).collect();
        assert_eq!(texts, (0..100).map(|n| n.to_string()).collect::<Vec<_>>());
    }
}
