//! Command hooks as people write them: shell and exec form, environment, exit codes, JSON and plain output,
//! frames.

mod support;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use lathe_hooks::{ContextKind, EngineOptions, HookFrame, HookSource, Outcome, PluginSource, ProblemKind};
use lathe_protocol::SettingsSource;
use lathe_protocol::hooks::{HookPermissionDecision, PermissionRequestDecision};
use serde_json::{Value, json};
use support::{Bench, file, in_time, input};

async fn prints(event: &str, command: &str) -> Outcome {
    Bench::command(event, command).run(&input(event, json!({}))).await
}

#[tokio::test]
async fn a_command_reads_its_event_as_one_line() {
    let bench = Bench::command("PreToolUse", "cat > in.json; wc -l < in.json > lines.txt");
    let event = input("PreToolUse", json!({}));
    assert_eq!(bench.run(&event).await, Outcome { ran: 1, ..Outcome::default() });
    let text = file(&bench.path("in.json")).await;
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), serde_json::to_value(&event).unwrap());
    assert_eq!(file(&bench.path("lines.txt")).await.trim(), "1");
}

#[tokio::test]
async fn exit_code_2_denies_a_call_with_what_stderr_says() {
    let outcome = prints("PreToolUse", "echo no >&2; exit 2").await;
    let verdict = outcome.permission.unwrap();
    assert_eq!(verdict.behavior, HookPermissionDecision::Deny);
    assert_eq!(verdict.tool_error(), "PreToolUse:Bash hook error: [echo no >&2; exit 2]: no\n");
    assert_eq!(verdict.source, HookSource::Settings(SettingsSource::User));
    assert_eq!(outcome.problems, []);
}

#[tokio::test]
async fn exit_code_2_means_what_the_event_makes_of_it() {
    let stop = prints("Stop", "echo always >&2; exit 2").await;
    assert_eq!(stop.block().unwrap().feedback(), "Stop hook feedback:\n[echo always >&2; exit 2]: always\n");
    let request = prints("PermissionRequest", "echo no >&2; exit 2").await;
    let PermissionRequestDecision::Deny { message, .. } = request.permission_request.unwrap().decision else {
        panic!("not denied")
    };
    assert_eq!(message.as_deref(), Some("[echo no >&2; exit 2]: no\n"));
    let start = prints("SessionStart", "echo oops >&2; exit 2").await;
    assert_eq!((start.blocks.len(), start.contexts.len()), (0, 0));
    assert_eq!(start.problems[0].kind, ProblemKind::Exited { code: 2, stderr: "oops\n".into() });
    let silent = prints("Stop", "exit 2").await;
    assert!(silent.block().unwrap().reason.starts_with("[exit 2]: "));
}

#[tokio::test]
async fn other_exit_codes_are_reported_and_stop_nothing() {
    let outcome = prints("PreToolUse", "echo oops >&2; echo text; exit 1").await;
    assert_eq!(outcome.permission, None);
    let [problem] = &outcome.problems[..] else { panic!("{:?}", outcome.problems) };
    assert_eq!(problem.kind, ProblemKind::Exited { code: 1, stderr: "oops\n".into() });
    assert_eq!(problem.informational(), None);
    assert!(problem.message().contains("oops"));
    // Plain words of a hook that failed are no context.
    assert_eq!(prints("UserPromptSubmit", "echo text; exit 1").await.contexts, []);
}

#[tokio::test]
async fn json_is_an_answer_whatever_the_exit_code() {
    let ask = r#"  {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask"}}"#;
    for code in [0, 1, 77] {
        let outcome = prints("PreToolUse", &format!("echo '{ask}'; exit {code}")).await;
        assert_eq!(outcome.permission.unwrap().behavior, HookPermissionDecision::Ask, "{code}");
        assert_eq!(outcome.problems.len(), usize::from(code != 0));
    }
    // Exit code 2 stays a "no"; JSON may give its reason.
    let reason = r#"echo '{"reason":"because","systemMessage":"sys"}'; echo err >&2; exit 2"#;
    let outcome = prints("Stop", reason).await;
    assert_eq!(outcome.block().unwrap().reason, "because");
    assert_eq!(outcome.system_messages.len(), 1);
    let allow = ask.replace("\"ask\"", "\"allow\"");
    let outcome = prints("PreToolUse", &format!("echo '{allow}'; echo err >&2; exit 2")).await;
    assert_eq!(outcome.permission.unwrap().behavior, HookPermissionDecision::Deny);
}

#[tokio::test]
async fn plain_output_is_context_where_a_prompt_or_a_session_begins() {
    for (event, name) in [
        ("SessionStart", "SessionStart:startup"),
        ("UserPromptSubmit", "UserPromptSubmit"),
        ("UserPromptExpansion", "UserPromptExpansion:hello"),
    ] {
        let outcome = prints(event, "echo some context").await;
        let [context] = &outcome.contexts[..] else { panic!("{event}") };
        assert_eq!(context.kind, ContextKind::PlainOutput);
        assert_eq!(context.line(), format!("{name} hook success: some context"));
    }
    for event in ["PreToolUse", "Stop", "PostToolUse", "Notification"] {
        assert_eq!(prints(event, "echo some context").await.contexts, [], "{event}");
    }
    assert_eq!(prints("SessionStart", "echo; echo ' '").await.contexts, []);
}

#[tokio::test]
async fn a_worktree_hook_prints_its_path_or_fails() {
    let outcome = prints("WorktreeCreate", "echo making it; echo /tmp/wt").await;
    assert_eq!((outcome.worktree_path.as_deref(), outcome.blocks.len()), (Some("/tmp/wt"), 0));
    for failure in ["exit 1", "exit 2", "kill -9 $$", "echo '{broken'"] {
        let outcome = prints("WorktreeCreate", failure).await;
        assert_eq!(outcome.blocks.len(), 1, "{failure}");
        assert_eq!(outcome.worktree_path, None, "{failure}");
    }
}

#[tokio::test]
async fn commands_know_where_they_are() {
    let mut bench = Bench::command("SessionStart", "pwd > pwd.txt; env > env.txt");
    for (name, value) in [
        ("AI_AGENT", "lathe_1_harness"),
        ("CLAUDECODE", "other"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
        ("OTEL_METRICS_EXPORTER", "otlp"),
        ("OTEL_RESOURCE_ATTRIBUTES", "kept"),
    ] {
        bench.env.all.push((name.to_owned(), value.to_owned()));
    }
    bench.env_file = Some("/tmp/env-file".into());
    bench.run(&input("SessionStart", json!({ "effort": { "level": "high" } }))).await;
    let folder = bench.folder.path().canonicalize().unwrap();
    assert_eq!(file(&bench.path("pwd.txt")).await.trim(), folder.to_str().unwrap());
    let text = file(&bench.path("env.txt")).await;
    let env: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
    for (name, value) in [
        ("AI_AGENT", "lathe_1_harness"),
        ("CLAUDECODE", "1"),
        ("CLAUDE_CODE_CHILD_SESSION", "1"),
        ("CLAUDE_CODE_SESSION_ID", "sess-1"),
        ("CLAUDE_EFFORT", "high"),
        ("CLAUDE_ENV_FILE", "/tmp/env-file"),
        ("CLAUDE_PROJECT_DIR", bench.folder.path().to_str().unwrap()),
        ("OTEL_RESOURCE_ATTRIBUTES", "kept"),
    ] {
        assert_eq!(env.get(name), Some(&value), "{name}");
    }
    for name in ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_METRICS_EXPORTER", "CLAUDE_PLUGIN_ROOT"] {
        assert_eq!(env.get(name), None, "{name}");
    }
}

#[tokio::test]
async fn credentials_are_for_hooks_of_the_user_and_the_administrator() {
    use SettingsSource::{Flag, Local, Policy, Project, User};
    let plugin =
        PluginSource { name: "p".into(), root: "/p".into(), data: "/d".into(), options: BTreeMap::default() };
    let sources = [
        (HookSource::Settings(Policy), "key"),
        (HookSource::Settings(User), "key"),
        (HookSource::Settings(Flag), "key"),
        (HookSource::Settings(Project), ""),
        (HookSource::Settings(Local), ""),
        (HookSource::Plugin(plugin), ""),
        (HookSource::Skill("s".into()), ""),
    ];
    for (source, expected) in sources {
        let mut bench = Bench::new();
        bench.env.all.extend([("KEY".into(), "key".into()), ("OTHER".into(), "other".into())]);
        bench.env.withheld.push("KEY".into());
        let name = source.to_string();
        let headers = json!({ "X-Key": "$KEY", "X-Other": "$OTHER" });
        let hooks = json!({ "UserPromptSubmit": [{ "hooks": [
            { "type": "command", "command": "printf '[%s,%s]\\n' \"$KEY\" \"$OTHER\" > seen.txt" },
            { "type": "http", "url": "https://x.example/", "headers": headers, "allowedEnvVars": ["KEY", "OTHER"] },
        ] }] });
        assert_eq!(bench.register(source, hooks), []);
        bench.net.replies(204, "");
        bench.run(&input("UserPromptSubmit", json!({}))).await;
        assert_eq!(file(&bench.path("seen.txt")).await, format!("[{expected},other]\n"), "{name}");
        let sent = bench.net.posted.lock().unwrap()[0].1.clone();
        assert_eq!(sent[0].1, expected, "{name}");
        assert_eq!(sent[1].1, "other", "{name}");
    }
}

#[tokio::test]
async fn only_four_events_get_the_environment_file() {
    for event in ["SessionStart", "Setup", "CwdChanged", "FileChanged", "Stop", "PreToolUse"] {
        let mut bench = Bench::command(event, "echo \"${CLAUDE_ENV_FILE-none}\" > file.txt");
        bench.env_file = Some("/e".into());
        bench.run(&input(event, json!({}))).await;
        let expected = if matches!(event, "Stop" | "PreToolUse") { "none" } else { "/e" };
        assert_eq!(file(&bench.path("file.txt")).await.trim(), expected, "{event}");
    }
}

#[tokio::test]
async fn plugins_find_their_own_things() {
    let bench = Bench::new();
    let plugin = PluginSource {
        name: "plug".into(),
        root: bench.path("root"),
        data: "/data/plug".into(),
        options: BTreeMap::from([("api-key".to_owned(), "v".to_owned())]),
    };
    std::fs::create_dir(bench.path("root")).unwrap();
    let script = bench.path("root/say.sh");
    std::fs::write(&script, "#!/bin/sh\necho \"$1|$CLAUDE_PLUGIN_DATA|$CLAUDE_PLUGIN_OPTION_API_KEY\"\n")
        .unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let warnings = bench.register(
        HookSource::Plugin(plugin),
        json!({ "UserPromptSubmit": [{ "hooks": [
            { "type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/say.sh", "args": ["$HOME ${CLAUDE_PLUGIN_DATA}"] },
            { "type": "command", "command": "\"$CLAUDE_PLUGIN_ROOT\"/say.sh two" },
        ] }] }),
    );
    assert_eq!(warnings, []);
    let outcome = bench.run(&input("UserPromptSubmit", json!({}))).await;
    let texts: Vec<&str> = outcome.contexts.iter().map(|context| context.text.as_str()).collect();
    assert_eq!(texts, ["$HOME /data/plug|/data/plug|v", "two|/data/plug|v"]);
}

#[tokio::test]
async fn the_exec_form_uses_no_shell() {
    let bench = Bench::hooks(json!({ "UserPromptSubmit": [{ "hooks": [
        { "type": "command", "command": "echo", "args": ["a  b", "$(id)", "*"] },
    ] }] }));
    let outcome = bench.run(&input("UserPromptSubmit", json!({}))).await;
    assert_eq!(outcome.contexts[0].text, "a  b $(id) *");
}

#[tokio::test]
async fn a_system_without_bash_uses_its_shell() {
    let mut bench = Bench::command("UserPromptSubmit", "echo \"shell: ${BASH_VERSION:-plain}\"");
    assert!(!bench.run(&input("UserPromptSubmit", json!({}))).await.contexts[0].text.ends_with("plain"));
    bench.env.all = vec![("PATH".to_owned(), bench.path("nothing").to_str().unwrap().to_owned())];
    let outcome = bench.run(&input("UserPromptSubmit", json!({}))).await;
    assert!(outcome.contexts[0].text.starts_with("shell: "), "{outcome:?}");
}

#[tokio::test]
async fn frames_tell_the_life_of_a_command() {
    let bench = Bench::command("PreToolUse", "echo blocked >&2; exit 2");
    bench.run(&input("PreToolUse", json!({}))).await;
    let who = json!({ "type": null, "hook_name": "PreToolUse:Bash", "hook_event": "PreToolUse" });
    let mut started = who.clone();
    started["subtype"] = json!("hook_started");
    let mut ended = who;
    for (key, value) in [
        ("subtype", json!("hook_response")),
        ("output", json!("blocked\n")),
        ("stdout", json!("")),
        ("stderr", json!("blocked\n")),
        ("exit_code", json!(2)),
        ("outcome", json!("error")),
    ] {
        ended[key] = value;
    }
    for frame in [&mut started, &mut ended] {
        frame.as_object_mut().unwrap().remove("type");
    }
    assert_eq!(bench.frames.lines(), [started, ended]);
    let ids: Vec<String> = bench
        .frames
        .all()
        .into_iter()
        .map(|frame| match frame {
            HookFrame::Started(frame) => frame.hook_id,
            HookFrame::Progress(frame) => frame.hook_id,
            HookFrame::Response(frame) => frame.hook_id,
        })
        .collect();
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test]
async fn some_events_leave_no_frames_and_some_are_always_shown() {
    for (event, count, always) in [
        ("SessionStart", 2, true),
        ("Setup", 2, true),
        ("Stop", 2, false),
        ("SessionEnd", 0, false),
        ("CwdChanged", 0, false),
        ("InstructionsLoaded", 0, false),
    ] {
        let bench = Bench::command(event, "true");
        bench.run(&input(event, json!({}))).await;
        let frames = bench.frames.all();
        assert_eq!(frames.len(), count, "{event}");
        assert!(frames.iter().all(|frame| frame.is_always_shown() == always), "{event}");
    }
    let bench = Bench::command("SubagentStop", "true");
    bench.run(&input("SubagentStop", json!({}))).await;
    assert_eq!(bench.frames.lines()[0]["hook_name"], "SubagentStop");
}

#[tokio::test]
async fn progress_is_all_that_was_printed_so_far() {
    let options = EngineOptions { progress_every: Duration::from_millis(10), ..EngineOptions::default() };
    let bench = Bench::with_options(options);
    // Each line waits until the one before was seen.
    let command = "echo one; while [ ! -e 1 ]; do sleep 0.01; done; echo two >&2; \
                   while [ ! -e 2 ]; do sleep 0.01; done; echo three";
    let hooks = json!({ "Stop": [{ "hooks": [{ "type": "command", "command": command }] }] });
    assert_eq!(bench.register(HookSource::Settings(SettingsSource::User), hooks), []);
    let event = input("Stop", json!({}));
    let watch = async {
        for (output, flag) in [("one\n", "1"), ("one\ntwo\n", "2")] {
            let seen = |frame: &HookFrame| match frame {
                HookFrame::Progress(progress) => progress.output == output,
                HookFrame::Started(_) | HookFrame::Response(_) => false,
            };
            bench.frames.wait_for(seen).await;
            std::fs::write(bench.path(flag), "").unwrap();
        }
    };
    let (outcome, ()) = in_time(async { tokio::join!(bench.run(&event), watch) }).await;
    assert_eq!(outcome.problems, []);
    let lines = bench.frames.lines();
    let second = lines.iter().find(|line| line["stderr"] == "two\n").unwrap();
    assert_eq!((&second["stdout"], &second["output"]), (&json!("one\n"), &json!("one\ntwo\n")));
    // Nothing new, nothing said: one frame for each text.
    let progress = lines.iter().filter(|line| line["subtype"] == "hook_progress");
    let mut outputs: Vec<&str> = progress.map(|line| line["output"].as_str().unwrap()).collect();
    let all = outputs.len();
    outputs.dedup();
    assert_eq!(outputs.len(), all);
    assert_eq!(lines.last().unwrap()["output"], "one\ntwo\nthree\n");
}
