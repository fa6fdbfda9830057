//! Which hooks run: sources and their order, matchers, conditions, duplicates, switches, and what is said
//! about hooks that make no sense.

mod support;

use std::sync::atomic::Ordering;

use lathe_hooks::{EngineOptions, HookSource, MAX_PARALLEL, Outcome, ProblemKind, PromptError, WarningKind};
use lathe_protocol::hooks::HookPermissionDecision;
use lathe_protocol::web::WebReply;
use lathe_protocol::{EnabledHooks, HookEvent, SettingsSource};
use serde_json::{Value, json};
use support::{Bench, input};

/// A hook that says its name.
fn says(name: &str) -> Value {
    json!({ "UserPromptSubmit": [{ "hooks": [{ "type": "command", "command": format!("echo {name}") }] }] })
}

fn texts(outcome: &Outcome) -> Vec<&str> {
    outcome.contexts.iter().map(|context| context.text.as_str()).collect()
}

fn prompt() -> lathe_protocol::HookInput {
    input("UserPromptSubmit", json!({}))
}

#[tokio::test]
async fn sources_speak_in_their_order_and_replace_themselves() {
    let bench = Bench::new();
    for (source, name) in [
        (HookSource::Settings(SettingsSource::Flag), "flag"),
        (HookSource::Skill("s".into()), "skill"),
        (HookSource::Settings(SettingsSource::Local), "local"),
        (HookSource::Settings(SettingsSource::User), "user"),
        (HookSource::Settings(SettingsSource::Policy), "policy"),
        (HookSource::Settings(SettingsSource::Project), "project"),
        (HookSource::Settings(SettingsSource::User), "user2"),
    ] {
        assert_eq!(bench.register(source, says(name)), []);
    }
    let outcome = bench.run(&prompt()).await;
    assert_eq!(texts(&outcome), ["policy", "user2", "project", "local", "flag", "skill"]);
    assert_eq!(bench.register(HookSource::Settings(SettingsSource::User), json!({})), []);
    assert_eq!(texts(&bench.run(&prompt()).await), ["policy", "project", "local", "flag", "skill"]);
}

#[tokio::test]
async fn initialize_again_replaces_the_callbacks() {
    let bench = Bench::new();
    for id in ["old", "new"] {
        assert_eq!(bench.callbacks(json!({ "Stop": [{ "hookCallbackIds": [id] }] })), []);
    }
    bench.run(&input("Stop", json!({}))).await;
    assert_eq!(bench.host.called(), ["new"]);
}

#[tokio::test]
async fn the_same_work_is_done_once() {
    let bench = Bench::new();
    let same = json!({ "type": "command", "command": "echo same" });
    let other = json!({ "type": "command", "command": "echo", "args": ["same"] });
    let conditional = json!({ "type": "command", "command": "echo same", "if": "Bash(ls)" });
    let hooks = |handlers: Value| json!({ "PreToolUse": [{ "hooks": handlers }] });
    assert_eq!(
        bench.register(HookSource::Settings(SettingsSource::User), hooks(json!([same, same, other]))),
        []
    );
    assert_eq!(
        bench.register(HookSource::Settings(SettingsSource::Project), hooks(json!([same, conditional]))),
        []
    );
    let outcome = bench.run(&input("PreToolUse", json!({}))).await;
    assert_eq!(outcome.ran, 3);
}

#[tokio::test]
async fn conditions_are_about_the_call() {
    let handler = |rule: &str| json!({ "type": "command", "command": "true", "if": rule });
    for (rule, tool, ran) in [
        ("Bash(git)", json!({ "command": "git push" }), 1),
        ("Bash(git)", json!({ "command": "ls" }), 0),
        ("Edit(git)", json!({ "command": "git" }), 0),
        // Fails open.
        ("???", json!({ "command": "ls" }), 1),
    ] {
        let bench = Bench::hooks(json!({ "PreToolUse": [{ "hooks": [handler(rule)] }] }));
        let outcome = bench.run(&input("PreToolUse", json!({ "tool_input": tool }))).await;
        assert_eq!(outcome.ran, ran, "{rule}");
    }
    let bench = Bench::new();
    let warnings = bench.register(
        HookSource::Settings(SettingsSource::User),
        json!({ "Stop": [{ "hooks": [handler("Bash(git)")] }] }),
    );
    assert!(matches!(warnings[0].kind, WarningKind::NeverRuns(_)));
    assert_eq!(bench.run(&input("Stop", json!({}))).await.ran, 0);
}

#[tokio::test]
async fn matchers_look_at_what_the_event_is_about() {
    for (event, fields, matcher, ran) in [
        ("PreToolUse", json!({ "tool_name": "Agent" }), "Task", 1),
        ("PreToolUse", json!({ "tool_name": "Agent" }), "Bash", 0),
        ("PermissionRequest", json!({}), "Bash", 1),
        ("SessionStart", json!({ "source": "resume" }), "resume|clear", 1),
        ("SessionStart", json!({ "source": "startup" }), "resume|clear", 0),
        ("SubagentStart", json!({}), "my-agent", 1),
        ("SubagentStop", json!({}), "other", 0),
        ("PreCompact", json!({}), "manual", 1),
        ("PreCompact", json!({}), "auto", 0),
        ("Notification", json!({}), "idle_prompt", 1),
        ("UserPromptExpansion", json!({}), "hello", 1),
        ("StopFailure", json!({}), "rate_limit", 1),
        ("ConfigChange", json!({}), "user_settings", 0),
        ("FileChanged", json!({}), ".envrc|.env", 1),
        ("FileChanged", json!({ "file_path": "/w/readme" }), ".envrc|.env", 0),
        ("SessionEnd", json!({}), "other", 1),
        ("Elicitation", json!({}), "srv", 1),
        ("InstructionsLoaded", json!({}), "session_start", 1),
        ("DirectoryAdded", json!({}), "register_repo_root", 0),
        ("Setup", json!({}), "maintenance", 0),
        // These have nothing to look at, so every matcher matches.
        ("Stop", json!({}), "whatever", 1),
        ("UserPromptSubmit", json!({}), "whatever", 1),
        ("PostToolBatch", json!({}), "Bash", 1),
    ] {
        let handler = json!({ "type": "command", "command": "true" });
        let bench = Bench::hooks(json!({ event: [{ "matcher": matcher, "hooks": [handler] }] }));
        assert_eq!(bench.run(&input(event, fields)).await.ran, ran, "{event} {matcher}");
    }
}

#[tokio::test]
async fn switches() {
    for (enabled, expected) in [
        (EnabledHooks::All, vec!["policy", "user"]),
        (EnabledHooks::ManagedAndHost, vec!["policy"]),
        (EnabledHooks::Nothing, vec![]),
    ] {
        let bench = Bench::new();
        bench.engine.set_options(EngineOptions { enabled, ..EngineOptions::default() });
        assert_eq!(bench.register(HookSource::Settings(SettingsSource::User), says("user")), []);
        assert_eq!(bench.register(HookSource::Settings(SettingsSource::Policy), says("policy")), []);
        assert_eq!(bench.callbacks(json!({ "UserPromptSubmit": [{ "hookCallbackIds": ["h"] }] })), []);
        let outcome = bench.run(&prompt()).await;
        assert_eq!(texts(&outcome), expected);
        assert_eq!(bench.host.called().len(), usize::from(enabled != EnabledHooks::Nothing));
        assert_eq!(bench.engine.listens(&HookEvent::UserPromptSubmit), enabled != EnabledHooks::Nothing);
        assert!(!bench.engine.listens(&HookEvent::Stop));
    }
}

#[tokio::test]
async fn a_session_begins_before_its_host_is_asked() {
    let bench = Bench::new();
    assert_eq!(bench.callbacks(json!({ "SessionStart": [{ "hookCallbackIds": ["s"] }] })), []);
    for (source, asked) in [("startup", 0), ("resume", 0), ("fork", 0), ("clear", 1), ("compact", 1)] {
        let outcome = bench.run(&input("SessionStart", json!({ "source": source }))).await;
        assert_eq!(outcome.ran, asked, "{source}");
    }
}

#[tokio::test]
async fn hooks_of_an_agent_are_about_that_agent() {
    let bench = Bench::new();
    let command =
        |name: &str| json!([{ "hooks": [{ "type": "command", "command": format!("echo {name}") }] }]);
    let hooks = json!({ "Stop": command("stop"), "PreToolUse": command("pre") });
    assert_eq!(bench.register(HookSource::Agent("a1".into()), hooks), []);
    assert_eq!(bench.run(&input("Stop", json!({}))).await.ran, 0);
    assert_eq!(bench.run(&input("SubagentStop", json!({}))).await.ran, 1);
    assert_eq!(bench.run(&input("SubagentStop", json!({ "agent_id": "a2" }))).await.ran, 0);
    assert_eq!(bench.run(&input("PreToolUse", json!({ "agent_id": "a1" }))).await.ran, 1);
    assert_eq!(bench.run(&input("PreToolUse", json!({}))).await.ran, 0);
}

#[tokio::test]
async fn a_skill_can_have_hooks_that_run_once() {
    let bench = Bench::new();
    let once = json!({ "type": "command", "command": "true", "once": true });
    let hooks = json!({ "PreToolUse": [{ "matcher": "Bash", "hooks": [once] }] });
    assert_eq!(bench.register(HookSource::Skill("s".into()), hooks.clone()), []);
    let ran = |tool: &str| input("PreToolUse", json!({ "tool_name": tool }));
    assert_eq!(bench.run(&ran("Read")).await.ran, 0);
    assert_eq!(bench.run(&ran("Bash")).await.ran, 1);
    assert_eq!(bench.run(&ran("Bash")).await.ran, 0);
    assert_eq!(bench.register(HookSource::Settings(SettingsSource::User), hooks), []);
    for _ in 0..2 {
        assert_eq!(bench.run(&ran("Bash")).await.ran, 1);
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_said_once_at_registration() {
    let bench = Bench::new();
    let command = json!({ "type": "command", "command": "true" });
    let warnings = bench.register(
        HookSource::Settings(SettingsSource::Project),
        json!({
            "PreToolUze": [{ "hooks": [command] }],
            "PreToolUse": [
                { "matcher": "(?i)bash", "hooks": [command, { "type": "command", "command": "false" }] },
                { "hooks": [
                    { "type": "telepathy" },
                    { "type": "command" },
                    { "type": "command", "command": "true", "timeout": -1 },
                    { "type": "mcp_tool", "server": "s", "tool": "t" },
                    { "type": "command", "command": "true", "shell": "fish" },
                ] },
            ],
            "SessionStart": [{ "hooks": [{ "type": "prompt", "prompt": "p" }, { "type": "http", "url": "u" }] }],
        }),
    );
    let lines: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    let expected = [
        "hooks.PreToolUse: matcher `(?i)bash` matches nothing",
        "hooks.PreToolUse: a handler is ignored: the type of",
        "hooks.PreToolUse: a handler is ignored: a field of",
        "hooks.PreToolUse: timeout -1 makes no sense",
        "hooks.PreToolUse: a handler never runs: mcp_tool hooks are not supported yet",
        "hooks.PreToolUse: a handler never runs: its shell",
        "hooks.PreToolUze: there is no such event",
        "hooks.SessionStart: a handler never runs: prompt hooks",
        "hooks.SessionStart: a handler never runs: http hooks",
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(&format!("project settings: {expected}")), "{line}");
    }
    // And what cannot run says so whenever it should have.
    let outcome = bench.run(&input("PreToolUse", json!({}))).await;
    let not_supported =
        |problem: &&lathe_hooks::HookProblem| matches!(problem.kind, ProblemKind::NotSupported(_));
    assert_eq!((outcome.ran, outcome.problems.iter().filter(not_supported).count()), (3, 2));
    assert!(outcome.problems.iter().all(|problem| problem.informational().is_some()));
    assert_eq!(outcome.permission, None);
}

#[tokio::test]
async fn callbacks_are_asked_side_by_side_with_the_call_they_are_about() {
    let bench = Bench::new();
    let ids: Vec<String> = (0..10).map(|n| format!("h{n}")).collect();
    assert_eq!(bench.callbacks(json!({ "PreToolUse": [{ "hookCallbackIds": ids }] })), []);
    bench.run(&input("PreToolUse", json!({}))).await;
    assert_eq!(bench.host.called(), ids);
    assert_eq!(bench.host.most_open.load(Ordering::Relaxed), 10);
    let calls = bench.host.calls.lock().unwrap().clone();
    assert!(calls.iter().all(|call| call["tool_use_id"] == "tu-1"));
    assert_eq!(calls[0]["input"], serde_json::to_value(input("PreToolUse", json!({}))).unwrap());
    assert_eq!(bench.frames.all(), []);
    // An event without a call has an id all the same, and one can be given.
    assert_eq!(
        bench.callbacks(json!({
            "Stop": [{ "hookCallbackIds": ["s"] }], "PermissionRequest": [{ "hookCallbackIds": ["p"] }]
        })),
        []
    );
    bench.run(&input("Stop", json!({}))).await;
    let context = lathe_hooks::RunContext { tool_use_id: Some("tu-9"), ..bench.context() };
    bench.engine.run(&input("PermissionRequest", json!({})), context).await;
    let calls = bench.host.calls.lock().unwrap().clone();
    assert!(!calls[10]["tool_use_id"].as_str().unwrap().is_empty());
    assert_eq!(calls[11]["tool_use_id"], "tu-9");
}

#[tokio::test]
async fn not_more_than_the_bound_at_once() {
    let bench = Bench::new();
    let ids: Vec<String> = (0..3 * MAX_PARALLEL).map(|n| format!("h{n}")).collect();
    assert_eq!(bench.callbacks(json!({ "Stop": [{ "hookCallbackIds": ids }] })), []);
    assert_eq!(bench.run(&input("Stop", json!({}))).await.ran, ids.len());
    assert_eq!(bench.host.most_open.load(Ordering::Relaxed), MAX_PARALLEL as u64);
}

#[tokio::test]
async fn files_to_watch() {
    let bench = Bench::hooks(json!({ "FileChanged": [
        { "matcher": ".envrc|.env", "hooks": [{ "type": "command", "command": "true" }] },
        { "matcher": "*", "hooks": [{ "type": "command", "command": "false" }] },
    ] }));
    assert_eq!(bench.engine.watched_names(), [".env", ".envrc"]);
}

fn prompt_hook(more: Value) -> Value {
    let mut hook = json!({ "type": "prompt", "prompt": "Is this fine? $ARGUMENTS" });
    for (key, value) in more.as_object().unwrap() {
        hook[key] = value.clone();
    }
    hook
}

#[tokio::test]
async fn a_model_can_say_no() {
    for (event, more, answer) in [
        ("PreToolUse", json!({}), r#"{"ok":true,"reason":"fine"}"#),
        ("PreToolUse", json!({ "model": "m" }), r#"{"ok":false,"reason":"no"}"#),
        ("Stop", json!({}), r#"{"ok":false,"reason":"not done"}"#),
        ("Stop", json!({}), r#"{"ok":false,"reason":"never","impossible":true}"#),
        ("PostToolUse", json!({}), r#"{"ok":false,"reason":"bad"}"#),
        ("PostToolUse", json!({ "continueOnBlock": true }), r#"{"ok":false,"reason":"bad"}"#),
    ] {
        let bench = Bench::hooks(json!({ event: [{ "hooks": [prompt_hook(more.clone())] }] }));
        bench.model.answers(answer);
        let outcome = bench.run(&input(event, json!({}))).await;
        let (asked, model) = bench.model.asked.lock().unwrap()[0].clone();
        assert!(asked.starts_with("Is this fine? {\"session_id\":"), "{asked}");
        assert_eq!(model.as_deref(), more["model"].as_str());
        let denied = outcome.permission.as_ref().is_some_and(|v| v.behavior == HookPermissionDecision::Deny);
        let said = (denied, outcome.blocks.len(), outcome.stop.is_some(), outcome.system_messages.len());
        let expected = match (event, answer.contains("true"), more["continueOnBlock"] == json!(true)) {
            ("PreToolUse", false, _) => (true, 0, false, 0),
            ("Stop", false, _) => (false, 1, false, 0),
            ("Stop", true, _) => (false, 0, false, 1),
            ("PostToolUse", _, continues) => (false, 1, !continues, 0),
            _ => (false, 0, false, 0),
        };
        assert_eq!(said, expected, "{event} {answer}");
    }
}

#[tokio::test]
async fn an_agent_is_asked_like_a_model_and_says_when_it_would_have_to_look() {
    let hook = json!({ "type": "agent", "prompt": "Do the tests pass? $ARGUMENTS", "model": "m" });
    let bench = Bench::hooks(json!({ "Stop": [{ "hooks": [hook] }] }));
    bench.model.answers(r#"{"ok":false,"reason":"not yet"}"#);
    let outcome = bench.run(&input("Stop", json!({}))).await;
    assert_eq!(outcome.block().unwrap().reason, "not yet");
    bench.model.answers(r#"{"ok":false,"reason":"I cannot see them","needs_tools":true}"#);
    let outcome = bench.run(&input("Stop", json!({}))).await;
    assert_eq!(outcome.blocks, []);
    let problem = &outcome.problems[0];
    assert!(matches!(problem.kind, ProblemKind::NotSupported(_)), "{problem:?}");
    assert!(problem.message().contains("without looking at files"), "{}", problem.message());
    // A model that is asked by a prompt hook has no such way out.
    let bench = Bench::hooks(json!({ "Stop": [{ "hooks": [prompt_hook(json!({}))] }] }));
    bench.model.answers(r#"{"ok":false,"reason":"no","needs_tools":true}"#);
    assert_eq!(bench.run(&input("Stop", json!({}))).await.blocks.len(), 1);
}

#[tokio::test]
async fn a_model_without_an_answer_is_no_verdict() {
    let hooks =
        |timeout: f64| json!({ "PreToolUse": [{ "hooks": [prompt_hook(json!({ "timeout": timeout }))] }] });
    let bench = Bench::hooks(hooks(5.0));
    for (answer, timed_out) in [
        (Ok("I would say yes".to_owned()), false),
        (Err(PromptError::Failed("overloaded".into())), false),
        (Err(PromptError::TimedOut), true),
    ] {
        bench.model.answers.lock().unwrap().push(answer);
        let outcome = bench.run(&input("PreToolUse", json!({}))).await;
        assert_eq!(outcome.permission, None);
        let line = outcome.problems[0].informational().unwrap();
        assert_eq!(line.tag.as_deref(), Some("hook_no_verdict"));
        assert_eq!(line.extra["hook_no_verdict"]["timed_out"], json!(timed_out));
        assert_eq!(line.extra["hook_no_verdict"]["tool_use_id"], "tu-1");
    }
    // A model that hangs is not waited for.
    let bench = Bench::hooks(hooks(0.05));
    let outcome = bench.run(&input("PreToolUse", json!({}))).await;
    assert!(matches!(outcome.problems[0].kind, ProblemKind::TimedOut(_)));
}

#[tokio::test]
async fn an_endpoint_answers_like_a_command() {
    let hook = json!({
        "type": "http", "url": "https://hooks.example/x",
        "headers": { "Authorization": "Bearer $TOKEN", "X-Other": "${SECRET}" },
        "allowedEnvVars": ["TOKEN"],
    });
    let mut bench = Bench::hooks(json!({ "UserPromptSubmit": [{ "hooks": [hook] }] }));
    bench.env.all.extend([("TOKEN".into(), "t0k".into()), ("SECRET".into(), "s".into())]);
    bench.net.replies(200, r#"{"decision":"block","reason":"no"}"#);
    let outcome = bench.run(&prompt()).await;
    assert_eq!(outcome.block().unwrap().reason, "no");
    let (url, headers, body) = bench.net.posted.lock().unwrap()[0].clone();
    assert_eq!(url, "https://hooks.example/x");
    let expected = [("Authorization", "Bearer t0k"), ("X-Other", "")];
    assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), serde_json::to_value(prompt()).unwrap());

    bench.net.replies(204, "");
    assert_eq!(bench.run(&prompt()).await, Outcome { ran: 1, ..Outcome::default() });
    bench.net.replies(200, "plain words");
    assert_eq!(texts(&bench.run(&prompt()).await), ["plain words"]);
    for status in [302, 400, 500] {
        bench.net.replies(status, r#"{"decision":"block"}"#);
        let outcome = bench.run(&prompt()).await;
        assert_eq!(outcome.blocks, []);
        assert!(matches!(outcome.problems[0].kind, ProblemKind::HttpFailed(_)), "{status}");
    }
    let cut = WebReply { status: 200, body: r#"{"decision":"block"}"#.into(), is_cut: true };
    *bench.net.reply.lock().unwrap() = Some(Ok(cut));
    let outcome = bench.run(&prompt()).await;
    let too_long = ProblemKind::HttpFailed("its answer is too long".into());
    assert_eq!((&outcome.blocks[..], &outcome.problems[0].kind), (&[][..], &too_long));
    *bench.net.reply.lock().unwrap() = None;
    assert!(matches!(bench.run(&prompt()).await.problems[0].kind, ProblemKind::HttpFailed(_)));

    // An administrator's limits.
    let posted = bench.net.posted.lock().unwrap().len();
    let options = EngineOptions {
        allowed_http_urls: Some(vec!["https://other.example/*".into()]),
        http_env_vars: Some(vec![]),
        ..EngineOptions::default()
    };
    bench.engine.set_options(options.clone());
    assert!(matches!(bench.run(&prompt()).await.problems[0].kind, ProblemKind::HttpFailed(_)));
    assert_eq!(bench.net.posted.lock().unwrap().len(), posted, "it was not called");
    bench.engine.set_options(EngineOptions { allowed_http_urls: None, ..options });
    bench.run(&prompt()).await;
    assert_eq!(bench.net.posted.lock().unwrap().last().unwrap().1[0].1, "Bearer ");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_is_not_waited_for_once_the_event_is_cancelled() {
    let hook = json!({ "type": "http", "url": "https://hooks.example/x" });
    let bench = Bench::hooks(json!({ "UserPromptSubmit": [{ "hooks": [hook] }] }));
    bench.net.is_silent.store(true, Ordering::Relaxed);
    let began = tokio::time::Instant::now();
    let event = prompt();
    let cancel_once_asked = async {
        while bench.net.posted.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        bench.cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(bench.run(&event), cancel_once_asked);
    assert!(outcome.cancelled);
    assert_eq!(began.elapsed(), std::time::Duration::ZERO);
}
