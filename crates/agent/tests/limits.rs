//! The limits of a process: sessions share the places for commands, and hooks never wait for one of them.

mod common;

use std::path::Path;
use std::time::Duration;

use common::{Setup, run};
use lathe_exec::{PlaceKind, PlaceLimit, ProcessLimits};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const MINUTE: Duration = Duration::from_secs(60);

/// Limits with this many places for commands.
fn commands(places: usize) -> ProcessLimits {
    ProcessLimits { commands: PlaceLimit::new(PlaceKind::Command, places), ..ProcessLimits::default() }
}

fn bash(input: Value) -> Value {
    json!({"name": "Bash", "input": input})
}

/// The answers of all calls, with whether they are errors.
fn answers(frames: &[Value]) -> Vec<(bool, String)> {
    let blocks = frames.iter().filter(|frame| frame["type"] == "user");
    let blocks = blocks.flat_map(|frame| frame["message"]["content"].as_array().cloned().unwrap_or_default());
    blocks
        .filter(|block| block["type"] == "tool_result")
        .map(|block| (block["is_error"] == true, block["content"].as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// How many commands were between their first and their last line at the same time.
fn most_at_once(log: &Path) -> i32 {
    let (mut now, mut most) = (0, 0);
    for line in std::fs::read_to_string(log).unwrap().lines() {
        now += if line == "+" { 1 } else { -1 };
        most = most.max(now);
    }
    most
}

#[tokio::test]
async fn a_hundred_commands_of_ten_sessions_keep_to_three_places() {
    let folder = tempfile::tempdir().unwrap();
    let (limits, log) = (commands(3), folder.path().join("log"));
    // The first ones wait until all places are taken.
    let taken = "until [ $(wc -l <LOG) -ge 3 ]; do sleep 0.01; done";
    let command = format!("echo + >>LOG; {taken}; sleep 0.05; echo - >>LOG");
    let command = command.replace("LOG", &log.display().to_string());
    let sessions = (0..10).map(|_| {
        let tools: Vec<Value> = (0..10).map(|_| bash(json!({"command": command}))).collect();
        let script = json!({"turns": [{"tools": tools}, {"text": "done"}]});
        let mut setup = Setup::new(script, folder.path());
        setup.process_limits = limits.clone();
        async move { run(setup, &["go"]).await }
    });
    let all = futures_util::future::join_all(sessions).await;
    let answered: Vec<_> = all.iter().flat_map(|(frames, _)| answers(frames)).collect();
    assert_eq!(answered.len(), 100);
    assert!(answered.iter().all(|(is_error, _)| !is_error), "{answered:?}");
    assert_eq!(most_at_once(&log), 3);
    assert_eq!(limits.commands.free(), 3);
}

#[tokio::test]
async fn a_process_runs_so_many_commands_in_the_background_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let limits = ProcessLimits { tasks: PlaceLimit::new(PlaceKind::Task, 1), ..ProcessLimits::default() };
    let call = bash(json!({"command": "true", "run_in_background": true}));
    // Another session of the process holds the only place at first.
    let held = limits.tasks.free_place().unwrap();
    let one = async || {
        let script = json!({"turns": [{"tools": [call.clone()]}, {"text": "done"}]});
        let mut setup = Setup::new(script, folder.path());
        setup.process_limits = limits.clone();
        let (frames, _) = run(setup, &["go"]).await;
        answers(&frames).remove(0)
    };
    let (is_error, text) = one().await;
    assert!(is_error && text.contains("this process runs as many"), "{text}");
    drop(held);
    let (is_error, text) = one().await;
    assert!(!is_error, "{text}");
    assert_eq!(limits.tasks.free(), 1);
}

#[tokio::test]
async fn a_hook_runs_while_every_place_for_commands_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let limits = commands(1);
    let held = limits.commands.place(MINUTE, &CancellationToken::new()).await.unwrap();
    let script = json!({"turns": [
        {"tools": [bash(json!({"command": "echo started", "timeout": 50}))]},
        {"text": "done"},
    ]});
    let mut setup = Setup::new(script, folder.path());
    setup.process_limits = limits;
    let hook = json!({"type": "command", "command": "touch asked"});
    setup.hooks = json!({"PreToolUse": [{"hooks": [hook]}]});
    let (frames, _) = run(setup, &["go"]).await;
    assert!(folder.path().join("asked").exists());
    let text =
        "Not started: no place for a command became free within 0.05 s: 1 command is running in this process";
    assert_eq!(answers(&frames), [(true, text.to_owned())]);
    drop(held);
}
