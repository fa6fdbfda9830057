//! Hooks over the life of a session: the events in their order, what runs on in the background, who is asked
//! besides commands, and what a session follows while it runs.

mod common;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::hooked::{answers, bash, command, hooked, lines, on, says, specific};
use common::{Setup, Talk, kinds, line, of_type, prompt, run};
use futures_util::future::BoxFuture;
use insta::assert_snapshot;
use lathe_agent::SetupTrigger as SetupHooks;
use lathe_agent::{FrameOptions, PromptSurface};
use lathe_agent::{ReloadedSettings, SettingsAccess};
use lathe_hooks::HookSource;
use lathe_protocol::control::GetSettingsResponse;
use lathe_protocol::{PermissionBehavior, PermissionMode, PermissionUpdate, Settings, SettingsSource};
use lathe_settings::Changed;
use lathe_settings::memory::{self, MemoryRequest};
use lathe_testkit::Normaliser;
use serde_json::{Value, json};
use tempfile::tempdir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A hook for each of these events that writes down what it was told.
fn log_all(events: &[&str]) -> Value {
    let log = command("cat >> \"$CLAUDE_PROJECT_DIR/log\"");
    let entries = events.iter().map(|event| ((*event).to_owned(), json!([{"hooks": [log]}])));
    Value::Object(entries.collect())
}

/// What hooks wrote to a file, a line for each: the event and its fields, without those that are the same for all.
fn told(root: &Path, file: &str) -> String {
    let line = |input: &Value| {
        let mut fields = input.as_object().unwrap().clone();
        fields.retain(|key, _| !["hook_event_name", "session_id", "transcript_path"].contains(&key.as_str()));
        format!("{:<20}{}", input["hook_event_name"].as_str().unwrap(), Value::Object(fields))
    };
    let lines: Vec<String> = lines(root, file).iter().map(line).collect();
    let root = root.canonicalize().unwrap().display().to_string();
    Normaliser::default().replace(&root, "<root>").numbered().text(&lines.join("\n"))
}

const EVENTS: [&str; 16] = [
    "Setup",
    "InstructionsLoaded",
    "SessionStart",
    "UserPromptSubmit",
    "MessageDisplay",
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "PostToolUseFailure",
    "CwdChanged",
    "PostToolBatch",
    "Stop",
    "StopFailure",
    "SessionEnd",
    "FileChanged",
    "Notification",
];

#[tokio::test]
async fn a_run_tells_its_events_in_order() {
    let folder = tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("deep")).unwrap();
    std::fs::write(root.join("CLAUDE.md"), "be brief\n@inc.md\n").unwrap();
    std::fs::write(root.join("inc.md"), "and kind").unwrap();
    let turns = json!([
        {"text": "I will", "tools": [{"name": "Bash", "input": {"command": "cd deep && pwd"}}]},
        bash("exit 4"),
        {"text": "done"},
    ]);
    let mut setup = hooked(turns, &root, log_all(&EVENTS));
    setup.setup = Some(SetupHooks::Init);
    setup.memory = Some(memory::load(MemoryRequest { cwd: root.clone(), ..MemoryRequest::default() }));
    setup.frames = FrameOptions { hook_events: true, ..FrameOptions::default() };
    let (frames, _) = run(setup, &["go"]).await;
    // Only what belongs to a turn says in which mode it runs, and all of a turn shares one prompt.
    assert_snapshot!(told(&root, "log"), @r#"
    Setup               {"cwd":"<root>","trigger":"init"}
    InstructionsLoaded  {"cwd":"<root>","file_path":"<root>/inc.md","memory_type":"Project","load_reason":"include","parent_file_path":"<root>/CLAUDE.md"}
    InstructionsLoaded  {"cwd":"<root>","file_path":"<root>/CLAUDE.md","memory_type":"Project","load_reason":"session_start"}
    SessionStart        {"cwd":"<root>","source":"startup","model":"claude-opus-5-5"}
    UserPromptSubmit    {"cwd":"<root>","prompt_id":"<uuid-1>","permission_mode":"bypassPermissions","prompt":"go"}
    MessageDisplay      {"cwd":"<root>","prompt_id":"<uuid-1>","turn_id":"<uuid-2>","message_id":"<uuid-3>","index":0,"final":true,"delta":"I will"}
    PreToolUse          {"cwd":"<root>","prompt_id":"<uuid-1>","permission_mode":"bypassPermissions","effort":{"level":"medium"},"tool_name":"Bash","tool_input":{"command":"cd deep && pwd"},"tool_use_id":"toolu_001_0"}
    PostToolUse         {"cwd":"<root>/deep","prompt_id":"<uuid-1>","permission_mode":"bypassPermissions","effort":{"level":"medium"},"tool_name":"Bash","tool_input":{"command":"cd deep && pwd"},"tool_response":{"stdout":"<root>/deep","stderr":"","interrupted":false,"isImage":false,"noOutputExpected":false},"tool_use_id":"toolu_001_0","duration_ms":"<ms>"}
    CwdChanged          {"cwd":"<root>/deep","prompt_id":"<uuid-1>","old_cwd":"<root>","new_cwd":"<root>/deep"}
    PostToolBatch       {"cwd":"<root>/deep","prompt_id":"<uuid-1>","permission_mode":"bypassPermissions","effort":{"level":"medium"},"tool_calls":[{"tool_name":"Bash","tool_input":{"command":"cd deep && pwd"},"tool_use_id":"toolu_001_0","tool_response":"<root>/deep"}]}
    PreToolUse          {"cwd":"<root>/deep","prompt_id":"<uuid-1>","permission_mode":"bypassPermissions","effort":{"level":"medium"},"tool_name":"Bash","tool_input":{"command":"exit 4"},"tool_use_id":"toolu_002_0"}
    PostToolUseFailure  {"cwd":"<root>/deep","prompt_id":"<uuid-1>","permission_mode":"bypassPermissions","effort":{"level":"medium"},"tool_name":"Bash","tool_input":{"command":"exit 4"},"tool_use_id":"toolu_002_0","error":"Exit code 4","is_interrupt":false,"duration_ms":"<ms>"}
    PostToolBatch       {"cwd":"<root>/deep","prompt_id":"<uuid-1>","permission_mode":"bypassPermissions","effort":{"level":"medium"},"tool_calls":[{"tool_name":"Bash","tool_input":{"command":"exit 4"},"tool_use_id":"toolu_002_0","tool_response":"Exit code 4"}]}
    MessageDisplay      {"cwd":"<root>/deep","prompt_id":"<uuid-1>","turn_id":"<uuid-2>","message_id":"<uuid-4>","index":0,"final":true,"delta":"done"}
    Stop                {"cwd":"<root>/deep","prompt_id":"<uuid-1>","permission_mode":"bypassPermissions","effort":{"level":"medium"},"stop_hook_active":false,"last_assistant_message":"done","background_tasks":[],"session_crons":[]}
    SessionEnd          {"cwd":"<root>/deep","prompt_id":"<uuid-1>","reason":"other"}
    "#);
    // Of the loading of instructions, a changed folder and the end of the session there are no frames.
    let framed: Vec<&str> = frames
        .iter()
        .filter(|f| f["subtype"] == "hook_started")
        .filter_map(|f| f["hook_event"].as_str())
        .collect();
    assert_snapshot!(framed.join(" "), @"Setup SessionStart UserPromptSubmit MessageDisplay PreToolUse PostToolUse PostToolBatch PreToolUse PostToolUseFailure PostToolBatch MessageDisplay Stop");
}

#[tokio::test]
async fn only_setup_runs_if_that_is_all_that_was_asked_for() {
    let folder = tempdir().unwrap();
    let mut setup = hooked(json!([]), folder.path(), log_all(&EVENTS));
    setup.setup = Some(SetupHooks::InitOnly);
    let (frames, end) = run(setup, &[]).await;
    assert_snapshot!(told(folder.path(), "log"), @r#"
    Setup               {"cwd":"<root>","trigger":"init"}
    SessionStart        {"cwd":"<root>","source":"startup","model":"claude-opus-5-5"}
    SessionEnd          {"cwd":"<root>","reason":"other"}
    "#);
    assert!(of_type(&frames, "result").is_empty() && !end.last_was_error);
    let folder = tempdir().unwrap();
    let mut setup = hooked(json!([{"text": "done"}]), folder.path(), log_all(&EVENTS));
    setup.setup = Some(SetupHooks::Maintenance);
    run(setup, &["go"]).await;
    assert_eq!(lines(folder.path(), "log")[0]["trigger"], "maintenance");
}

#[tokio::test]
async fn a_failed_turn_is_told_and_a_denied_call_is_part_of_its_batch() {
    let folder = tempdir().unwrap();
    let turns = json!([bash("touch made"), {"error": 400}]);
    let mut setup = hooked(turns, folder.path(), log_all(&EVENTS));
    setup.mode = PermissionMode::Default;
    run(setup, &["go"]).await;
    assert_snapshot!(told(folder.path(), "log"), @r#"
    SessionStart        {"cwd":"<root>","source":"startup","model":"claude-opus-5-5"}
    UserPromptSubmit    {"cwd":"<root>","prompt_id":"<uuid-1>","permission_mode":"default","prompt":"go"}
    PreToolUse          {"cwd":"<root>","prompt_id":"<uuid-1>","permission_mode":"default","effort":{"level":"medium"},"tool_name":"Bash","tool_input":{"command":"touch made"},"tool_use_id":"toolu_001_0"}
    PermissionRequest   {"cwd":"<root>","prompt_id":"<uuid-1>","permission_mode":"default","effort":{"level":"medium"},"tool_name":"Bash","tool_input":{"command":"touch made"},"permission_suggestions":[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"touch made *"}],"behavior":"allow","destination":"localSettings"},{"type":"addDirectories","directories":["<root>"],"destination":"session"},{"type":"setMode","mode":"acceptEdits","destination":"session"}]}
    PostToolBatch       {"cwd":"<root>","prompt_id":"<uuid-1>","permission_mode":"default","effort":{"level":"medium"},"tool_calls":[{"tool_name":"Bash","tool_input":{"command":"touch made"},"tool_use_id":"toolu_001_0","tool_response":"touch in '<root>/made' needs approval. The path is inside the working directories ('<root>'), where a shell command may change files only with approval."}]}
    StopFailure         {"cwd":"<root>","prompt_id":"<uuid-1>","error":"unknown","error_details":"API Error: 400 scripted","last_assistant_message":""}
    SessionEnd          {"cwd":"<root>","prompt_id":"<uuid-1>","reason":"other"}
    "#);
}

#[tokio::test]
async fn variables_that_hooks_export_reach_later_commands() {
    let folder = tempdir().unwrap();
    let hooks = json!({
        "SessionStart": [{"hooks": [command("echo 'export FRUIT=pear TREE=tall' >> \"$CLAUDE_ENV_FILE\"")]}],
        "CwdChanged": [{"hooks": [command("echo \"export HERE=$(basename \"$PWD\")\" >> \"$CLAUDE_ENV_FILE\"")]}],
    });
    std::fs::create_dir_all(folder.path().join("one")).unwrap();
    let show = "echo [$FRUIT/$TREE/$HERE]";
    let turns = json!([
        bash(show), bash("cd one"), bash(show), bash("cd .."), bash(show), {"text": "done"},
    ]);
    let mut setup = hooked(turns, folder.path(), hooks);
    setup.hooking.env_dir = Some(folder.path().join("env"));
    let (frames, _) = run(setup, &["go"]).await;
    let shown: Vec<&str> = frames
        .iter()
        .filter_map(|frame| frame["message"]["content"][0]["content"].as_str())
        .filter(|text| text.starts_with('['))
        .collect();
    let name = folder.path().file_name().unwrap().to_str().unwrap();
    assert_eq!(shown, ["[pear/tall/]", "[pear/tall/one]", &format!("[pear/tall/{name}]")]);
}

#[tokio::test]
async fn a_broken_environment_file_is_reported_and_nothing_else() {
    let folder = tempdir().unwrap();
    let hooks = on("SessionStart", command("echo 'export A=1; exit 7' >> \"$CLAUDE_ENV_FILE\""));
    let mut setup = hooked(json!([bash("echo [$A]"), {"text": "done"}]), folder.path(), hooks);
    setup.hooking.env_dir = Some(folder.path().join("env"));
    let (frames, _) = run(setup, &["go"]).await;
    assert!(frames.iter().any(|frame| frame["tag"] == "hook_env_file"), "{:?}", kinds(&frames));
    assert!(frames.iter().any(|frame| frame["message"]["content"][0]["content"] == "[]"));
}

#[tokio::test]
async fn watched_files_are_told_when_they_change() {
    let folder = tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let hooks = json!({
        "SessionStart": [{"hooks": [specific("SessionStart", json!({"watchPaths": ["notes.txt"]}))]}],
        "FileChanged": [{"matcher": ".env", "hooks": [command("cat >> log")]},
            {"matcher": "notes.txt", "hooks": [command("cat >> log")]}],
    });
    let turns = json!([
        bash("echo A=1 > .env"), bash("echo B=22 > .env; echo x > notes.txt"), bash("rm .env"), {"text": "done"},
    ]);
    run(hooked(turns, &root, hooks), &["go"]).await;
    assert_snapshot!(told(&root, "log"), @r#"
    FileChanged         {"cwd":"<root>","prompt_id":"<uuid-1>","file_path":"<root>/.env","event":"add"}
    FileChanged         {"cwd":"<root>","prompt_id":"<uuid-1>","file_path":"<root>/.env","event":"change"}
    FileChanged         {"cwd":"<root>","prompt_id":"<uuid-1>","file_path":"<root>/notes.txt","event":"add"}
    FileChanged         {"cwd":"<root>","prompt_id":"<uuid-1>","file_path":"<root>/.env","event":"unlink"}
    "#);
}

/// A command that goes on by itself, once in the session.
fn in_background(script: &str, how: &str) -> Value {
    let mut hook = command(&format!("[ -e once ] && exit 0; touch once; {script}"));
    hook[how] = json!(true);
    hook
}

#[tokio::test]
async fn background_hooks_are_heard_with_the_next_request() {
    let folder = tempdir().unwrap();
    let said = json!({"systemMessage": "all linted", "hookSpecificOutput":
        {"hookEventName": "PreToolUse", "additionalContext": "lint is clean"}});
    let script = format!("while [ ! -e asked ]; do sleep 0.02; done; cat <<'END'\n{said}\nEND");
    // The model goes on until it hears of it.
    let script = in_background(&script, "async");
    let turns = json!({
        "turns": [
            {"when": {"body": {"/messages": {"contains": "PreToolUse:Bash hook additional context: lint is clean"}}},
                "text": "done"},
            bash("touch asked; sleep 0.02"),
        ],
        "at_end": "repeat",
    });
    let mut setup = Setup::new(turns, folder.path());
    setup.hooks = on("PreToolUse", script);
    setup.limits.max_rounds = Some(500);
    let (frames, _) = run(setup, &["go"]).await;
    assert_eq!(of_type(&frames, "result")[0]["result"], "done");
    let told = |frame: &&Value| frame["content"] == "PreToolUse:Bash says: all linted";
    assert_eq!(frames.iter().filter(told).count(), 1);
}

#[tokio::test]
async fn a_background_hook_wakes_an_idle_session() {
    let folder = tempdir().unwrap();
    let hook = in_background(
        "while [ ! -e idle ]; do sleep 0.02; done; echo x >> ran; echo the build broke >&2; exit 2",
        "asyncRewake",
    );
    let woken = says("fixed it", &["UserPromptSubmit hook that ran in the background: ", "the build broke"]);
    let turns = json!([{"text": "first"}, woken]);
    let mut talk = Talk::start(hooked(turns, folder.path(), on("UserPromptSubmit", hook)));
    talk.send(prompt("go")).await;
    let first = talk.until(|frame| frame["type"] == "result").await;
    assert_eq!(first["result"], "first");
    std::fs::write(folder.path().join("idle"), "").unwrap();
    let second = talk.until(|frame| frame["type"] == "result").await;
    assert_eq!(second["result"], "fixed it");
    assert_eq!(second["origin"]["kind"], "task-notification");
    let (rest, _) = talk.finish().await;
    assert!(of_type(&rest, "result").is_empty(), "it wakes once");
    assert_eq!(std::fs::read_to_string(folder.path().join("ran")).unwrap(), "x\n");
}

#[tokio::test]
async fn the_end_of_a_session_ends_its_background_hooks() {
    let folder = tempdir().unwrap();
    let mut hook = command("echo $$ > pid; sleep 600");
    hook["async"] = json!(true);
    let turns = json!([bash("while [ ! -s pid ]; do sleep 0.02; done"), {"text": "done"}]);
    let began = std::time::Instant::now();
    run(hooked(turns, folder.path(), on("PreToolUse", hook)), &["go"]).await;
    assert!(began.elapsed() < Duration::from_secs(30));
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "it is gone");
}

#[tokio::test]
async fn a_model_judges_for_a_prompt_hook_and_is_paid_for() {
    let hook = json!({"type": "prompt", "prompt": "Is $ARGUMENTS harmless?", "model": "claude-haiku-4-5"});
    for (verdict, runs) in
        [("{\"ok\": true, \"reason\": \"fine\"}", true), ("{\"ok\": false, \"reason\": \"rm\"}", false)]
    {
        let folder = tempdir().unwrap();
        let script = json!({
            "turns": [bash("touch made"), {"text": "done"}],
            "routes": [{"when": {"agent": "hook", "model": "claude-haiku-4-5", "has_tools": false,
                "any_user": "touch made"}, "turns": [{"text": verdict, "usage": {"input_tokens": 1000}}]}],
            "at_end": "error",
        });
        let mut setup = Setup::new(script, folder.path());
        setup.hooks = on("PreToolUse", hook.clone());
        let (frames, _) = run(setup, &["go"]).await;
        assert_eq!(folder.path().join("made").exists(), runs, "{verdict}");
        let result = of_type(&frames, "result")[0];
        assert!(result["modelUsage"]["claude-haiku-4-5"]["inputTokens"].as_u64() >= Some(1000), "{result}");
        if !runs {
            let told = frames
                .iter()
                .any(|frame| frame["message"]["content"][0]["content"] == "PreToolUse:Bash hook error: rm");
            assert!(told);
        }
    }
    // A model that fails has no verdict, and says so.
    let folder = tempdir().unwrap();
    let script = json!({"turns": [bash("touch made"), {"text": "done"}],
        "routes": [{"when": {"agent": "hook"}, "turns": [{"error": 400}], "at_end": "repeat"}]});
    let mut setup = Setup::new(script, folder.path());
    setup.hooks = on("PreToolUse", hook);
    let (frames, _) = run(setup, &["go"]).await;
    assert!(folder.path().join("made").exists());
    assert!(frames.iter().any(|frame| frame["tag"] == "hook_no_verdict"));
}

/// A server that answers every request with the same JSON; what it was sent, head and body.
async fn endpoint(
    status: &str,
    reply: &str,
) -> (String, Arc<Mutex<Vec<String>>>, tokio::task::JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (kept, answer) = (
        seen.clone(),
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{reply}", reply.len()),
    );
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut got = Vec::new();
            let mut buffer = [0; 4096];
            loop {
                let count = stream.read(&mut buffer).await.unwrap_or(0);
                got.extend_from_slice(&buffer[..count]);
                let text = String::from_utf8_lossy(&got).into_owned();
                let length = text
                    .to_lowercase()
                    .split("content-length: ")
                    .nth(1)
                    .and_then(|rest| rest.split("\r\n").next()?.parse::<usize>().ok());
                let body = text.split_once("\r\n\r\n").map_or(0, |(_, body)| body.len());
                if count == 0 || length.is_some_and(|length| text.contains("\r\n\r\n") && body >= length) {
                    kept.lock().unwrap().push(text);
                    break;
                }
            }
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (url, seen, serving)
}

#[tokio::test]
async fn an_endpoint_answers_for_an_http_hook() {
    let deny = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
        "permissionDecisionReason": "the server says no"}});
    let (url, seen, serving) = endpoint("200 OK", &deny.to_string()).await;
    let folder = tempdir().unwrap();
    let hook = json!({"type": "http", "url": url, "headers": {"X-Token": "Bearer $TOKEN $OTHER"}, "allowedEnvVars": ["TOKEN"]});
    let mut setup =
        hooked(json!([bash("touch made"), {"text": "done"}]), folder.path(), on("PreToolUse", hook));
    setup.hooking.env.all.push(("TOKEN".to_owned(), "t0k".to_owned()));
    setup.hooking.env.all.push(("OTHER".to_owned(), "secret".to_owned()));
    let (frames, _) = run(setup, &["go"]).await;
    assert!(!folder.path().join("made").exists());
    let told = |frame: &Value| {
        frame["message"]["content"][0]["content"].as_str().is_some_and(|t| t.contains("the server says no"))
    };
    assert!(frames.iter().any(told));
    let request = seen.lock().unwrap()[0].clone();
    let head = request.to_lowercase();
    assert!(
        head.starts_with("post /hook http/1.1") && head.contains("content-type: application/json"),
        "{request}"
    );
    assert!(request.contains("Bearer t0k ") && !request.contains("secret"), "{request}");
    assert!(request.contains("\"hook_event_name\":\"PreToolUse\""));
    serving.abort();

    for (status, url_of) in
        [("302 Found", None), ("500 Oops", None), ("200 OK", Some("http://127.0.0.1:1/x"))]
    {
        let (url, _, serving) = endpoint(status, "{}").await;
        let folder = tempdir().unwrap();
        let hook = json!({"type": "http", "url": url_of.unwrap_or(&url)});
        let setup =
            hooked(json!([bash("touch made"), {"text": "done"}]), folder.path(), on("PreToolUse", hook));
        let (frames, _) = run(setup, &["go"]).await;
        assert!(folder.path().join("made").exists(), "no verdict");
        assert!(frames.iter().any(|frame| frame["tag"] == "hook_no_verdict"), "{status}");
        serving.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_takes_long_over_a_hook_sees_that_the_session_waits() {
    let folder = tempdir().unwrap();
    let mut talk = Talk::start(Setup::new(json!({"turns": [{"text": "done"}]}), folder.path()));
    talk.send(line(
        json!({"type": "control_request", "request_id": "i", "request": {"subtype": "initialize",
        "hooks": {"Stop": [{"hookCallbackIds": ["h0"]}]}}}),
    ))
    .await;
    talk.send(prompt("go")).await;
    let asked = talk.until(|frame| frame["request"]["subtype"] == "hook_callback").await;
    let id = asked["request"]["tool_use_id"].as_str().unwrap().to_owned();
    // The clock of the test runs ahead whenever everybody waits.
    for count in 0..2 {
        let beat = tokio::time::timeout(Duration::from_secs(45), talk.frames.recv()).await.unwrap().unwrap();
        let beat = common::to_json(&beat);
        assert_eq!(beat["type"], "tool_progress");
        assert_eq!(beat["tool_name"], "Stop");
        assert_eq!(beat["tool_use_id"], format!("hook-Stop-{id}-heartbeat-{count}"));
        assert_eq!(beat["elapsed_time_seconds"], 30 * (count + 1));
        assert_eq!(beat["heartbeat"], true);
    }
    talk.send(line(json!({"type": "control_response", "response": {"subtype": "success",
        "request_id": asked["request_id"], "response": {}}})))
        .await;
    let result = talk.until(|frame| frame["type"] == "result").await;
    assert_eq!(result["result"], "done");
    talk.finish().await;
}

#[tokio::test]
async fn instructions_further_down_are_told_when_a_file_there_is_touched() {
    let folder = tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let write = |name: &str, text: &str| {
        std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        std::fs::write(root.join(name), text).unwrap();
    };
    write("sub/CLAUDE.md", "use tabs in sub");
    write("sub/a.txt", "x");
    write("agents/AGENTS.md", "agents are polite");
    write("agents/b.txt", "y");
    write("skipped/CLAUDE.md", "never told");
    write("skipped/c.txt", "z");
    write(".claude/rules/ts.md", "---\npaths: \"**/*.ts\"\n---\nno any in ts");
    write("src/d.ts", "w");
    let read = |name: &str| json!({"tools": [{"name": "Read", "input": {"file_path": root.join(name)}}]});
    let turns = json!([
        read("sub/a.txt"), read("sub/a.txt"), read("agents/b.txt"), read("skipped/c.txt"),
        {"tools": [{"name": "Edit", "input": {"file_path": root.join("src/d.ts"), "old_string": "w", "new_string": "v"}}]},
        {"text": "done"},
    ]);
    let mut setup =
        hooked(turns, &root, on("InstructionsLoaded", command("cat >> \"$CLAUDE_PROJECT_DIR/log\"")));
    setup.memory = Some(memory::load(MemoryRequest {
        cwd: root.clone(),
        excludes: vec!["**/skipped/CLAUDE.md".to_owned()],
        ..MemoryRequest::default()
    }));
    let heard = setup.heard.clone();
    let (frames, _) = run(setup, &["go"]).await;
    assert_eq!(of_type(&frames, "result")[0]["result"], "done", "{:#?}", of_type(&frames, "result")[0]);
    let heard = heard.lock().unwrap().last().unwrap().clone();
    for text in ["use tabs in sub", "agents are polite", "no any in ts"] {
        assert_eq!(heard.matches(text).count(), 1, "{text}");
    }
    assert!(!heard.contains("never told"));
    assert_snapshot!(told(&root, "log"), @r#"
    InstructionsLoaded  {"cwd":"<root>","prompt_id":"<uuid-1>","file_path":"<root>/sub/CLAUDE.md","memory_type":"Project","load_reason":"nested_traversal","trigger_file_path":"<root>/sub/a.txt"}
    InstructionsLoaded  {"cwd":"<root>","prompt_id":"<uuid-1>","file_path":"<root>/agents/AGENTS.md","memory_type":"Project","load_reason":"nested_traversal","trigger_file_path":"<root>/agents/b.txt"}
    InstructionsLoaded  {"cwd":"<root>","prompt_id":"<uuid-1>","file_path":"<root>/.claude/rules/ts.md","memory_type":"Project","load_reason":"path_glob_match","globs":["**/*.ts"],"trigger_file_path":"<root>/src/d.ts"}
    "#);
}

#[tokio::test]
async fn a_conversation_that_begins_anew_is_instructed_anew() {
    let folder = tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("sub")).unwrap();
    std::fs::write(root.join("sub/CLAUDE.md"), "use tabs in sub").unwrap();
    std::fs::write(root.join("sub/a.txt"), "x").unwrap();
    let read = json!({"tools": [{"name": "Read", "input": {"file_path": root.join("sub/a.txt")}}]});
    let turns = json!([read, {"text": "one"}, read, {"text": "two"}]);
    let mut setup = hooked(turns, &root, json!({}));
    setup.memory = Some(memory::load(MemoryRequest { cwd: root.clone(), ..MemoryRequest::default() }));
    let heard = setup.heard.clone();
    let (frames, _) = run(setup, &["go", "/clear", "go"]).await;
    assert_eq!(of_type(&frames, "result").last().unwrap()["result"], "two");
    let heard = heard.lock().unwrap();
    assert_eq!(heard.len(), 4);
    assert!(!heard[2].contains("use tabs in sub"), "a new conversation");
    assert!(heard[3].contains("use tabs in sub"), "told again");
}

/// Settings whose files change when a test says so.
struct Edited {
    changed: Mutex<Vec<Changed>>,
    next: Mutex<Option<ReloadedSettings>>,
    left: Mutex<Vec<PathBuf>>,
}

impl SettingsAccess for Edited {
    fn listing(&self) -> GetSettingsResponse {
        GetSettingsResponse::default()
    }
    fn apply_flag(&self, settings: &Value) -> Result<Settings, String> {
        Ok(serde_json::from_value(settings.clone()).unwrap())
    }
    fn update<'a>(&'a self, _source: &'a str, _settings: &'a Value) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
    fn save_permission<'a>(&'a self, _update: &'a PermissionUpdate) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
    fn changed(&self) -> Vec<Changed> {
        std::mem::take(&mut self.changed.lock().unwrap())
    }
    fn leave(&self, files: &[Changed]) {
        self.left.lock().unwrap().extend(files.iter().map(|file| file.path.clone()));
    }
    fn reload(&self, _files: &[Changed]) -> ReloadedSettings {
        self.next.lock().unwrap().take().unwrap_or_default()
    }
}

fn edited(source: SettingsSource, reloaded: ReloadedSettings) -> Arc<Edited> {
    let changed = vec![Changed { source, path: "/s/settings.json".into() }];
    Arc::new(Edited {
        changed: Mutex::new(changed),
        next: Mutex::new(Some(reloaded)),
        left: Mutex::default(),
    })
}

fn denying() -> ReloadedSettings {
    let rule = (
        PermissionBehavior::Deny,
        lathe_permissions::RuleSource::Settings(SettingsSource::User),
        "Bash(touch *)".into(),
    );
    let hooks = serde_json::from_value(on("PreToolUse", command("cat >> new-hook"))).unwrap();
    ReloadedSettings {
        rules: vec![rule],
        hooks: vec![(HookSource::Settings(SettingsSource::User), hooks)],
        problems: vec!["/s/settings.json:3:1: something is odd".to_owned()],
        ..ReloadedSettings::default()
    }
}

#[tokio::test]
async fn changed_settings_take_effect_with_the_next_turn() {
    let folder = tempdir().unwrap();
    let old = json!({
        "ConfigChange": [{"hooks": [command("cat >> config")]}],
        "PreToolUse": [{"hooks": [command("cat >> old-hook")]}],
    });
    let mut setup = hooked(json!([bash("touch made"), {"text": "done"}]), folder.path(), old);
    setup.settings = edited(SettingsSource::User, denying());
    let (frames, _) = run(setup, &["go"]).await;
    assert!(!folder.path().join("made").exists(), "the new rule counts");
    assert!(folder.path().join("new-hook").exists() && !folder.path().join("old-hook").exists());
    assert_snapshot!(told(folder.path(), "config"), @r#"
    ConfigChange        {"cwd":"<root>","prompt_id":"<uuid-1>","source":"user_settings","file_path":"/s/settings.json"}
    "#);
    let odd = frames.iter().filter(|frame| frame["tag"] == "settings_changed").count();
    assert_eq!(odd, 1);
}

#[tokio::test]
async fn a_hook_may_keep_a_change_out_but_not_the_administrators() {
    for (source, kept_out) in [(SettingsSource::Project, true), (SettingsSource::Policy, false)] {
        let folder = tempdir().unwrap();
        let hooks = on("ConfigChange", answers(&json!({"decision": "block", "reason": "frozen"})));
        let mut setup = hooked(json!([bash("touch made"), {"text": "done"}]), folder.path(), hooks);
        let settings = edited(source, denying());
        setup.settings = settings.clone();
        let (frames, _) = run(setup, &["go"]).await;
        assert_eq!(folder.path().join("made").exists(), kept_out, "{source:?}");
        assert_eq!(settings.left.lock().unwrap().len(), usize::from(kept_out));
        assert_eq!(frames.iter().any(|frame| frame["tag"] == "config_change_blocked"), kept_out);
    }
}

#[tokio::test]
async fn callbacks_for_the_end_are_asked_while_somebody_listens() {
    let folder = tempdir().unwrap();
    let mut setup = Setup::new(json!({"turns": [{"text": "done"}]}), folder.path());
    setup.surface = PromptSurface::Host;
    let mut talk = Talk::start(setup);
    talk.send(line(json!({"type": "control_request", "request_id": "i", "request": {"subtype": "initialize",
        "hooks": {"SessionEnd": [{"hookCallbackIds": ["e"]}], "SessionStart": [{"hookCallbackIds": ["s"]}]}}}))).await;
    talk.send(prompt("go")).await;
    talk.until(|frame| frame["type"] == "result").await;
    // Ctrl-C ends the session while its host still listens.
    talk.signals.finish_early.cancel();
    let asked = talk.until(|frame| frame["request"]["subtype"] == "hook_callback").await;
    assert_eq!(asked["request"]["callback_id"], "e");
    assert_eq!(asked["request"]["input"]["reason"], "other");
    talk.send(line(json!({"type": "control_response", "response": {"subtype": "success",
        "request_id": asked["request_id"], "response": {}}})))
        .await;
    let (rest, _) = talk.finish().await;
    assert!(rest.iter().all(|frame| frame["request"]["callback_id"] != "s"));
}

#[tokio::test]
async fn initialize_is_answered_while_a_start_hook_runs() {
    let folder = tempdir().unwrap();
    let hooks = on("SessionStart", command("while [ ! -e answered ]; do sleep 0.02; done"));
    let mut talk = Talk::start(hooked(json!([{"text": "done"}]), folder.path(), hooks));
    talk.send(line(
        json!({"type": "control_request", "request_id": "i", "request": {"subtype": "initialize"}}),
    ))
    .await;
    talk.until(|frame| frame["type"] == "control_response").await;
    std::fs::write(folder.path().join("answered"), "").unwrap();
    talk.send(prompt("go")).await;
    talk.until(|frame| frame["type"] == "result").await;
    talk.finish().await;
}

#[tokio::test]
async fn a_start_hook_that_hangs_does_not_hold_the_end() {
    let folder = tempdir().unwrap();
    let hooks = on("SessionStart", command("touch began; sleep 600"));
    let mut talk = Talk::start(hooked(json!([{"text": "done"}]), folder.path(), hooks));
    talk.until(|frame| frame["subtype"] == "hook_started").await;
    talk.signals.finish_early.cancel();
    let (_, end) = tokio::time::timeout(Duration::from_secs(20), talk.finish()).await.expect("it ends");
    assert!(end.interrupted);
}
