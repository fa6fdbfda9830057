//! Many background tasks at once, against the built program: every end is told once and in order, memory stays within
//! bounds, limits say what they are, nothing survives, and old output is removed.
#![allow(clippy::disallowed_methods, reason = "tests look at the processes they start")]

mod tasks;

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use lathe_testkit::{Running, TestContext};
use rustix::process::Signal;
use serde_json::{Value, json};

use tasks::*;

/// How many commands run at once.
const MANY: usize = 50;

/// Memory that the built program may take, in KB. The program of tests is not optimised; the limit of the release
/// program is a row of the benchmark.
const MOST_KB: u64 = 60 * 1024;

/// A context whose first answer starts these commands in the background at once.
fn starting(commands: &[String], texts: usize) -> TestContext {
    let call =
        |command: &String| json!({"name": "Bash", "input": {"command": command, "run_in_background": true}});
    let mut script = vec![json!({"tools": commands.iter().map(call).collect::<Vec<_>>()})];
    script.extend((0..texts).map(|_| json!({"text": "Noted."})));
    context(json!(script)).limit(Duration::from_secs(120))
}

/// The peak of a process's memory, in KB.
fn peak_kb(running: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn fifty_loud_commands_are_each_told_once_in_the_order_of_their_ends() {
    // Each waits for its turn, so that their order is known, and prints 10 MB first.
    let command =
        |nth: usize| format!("head -c 10000000 /dev/zero | tr '\\0' x; cat gate{nth}; exit {}", nth % 3);
    let commands: Vec<String> = (0..MANY).map(command).collect();
    let context = starting(&commands, MANY + 1);
    (0..MANY).for_each(|nth| context.make_pipe(&format!("gate{nth}")));
    let mut running = context.start(&DIALOGUE);
    running.send(&prompt("go"));
    running.wait_for("the result", |line| line["type"] == "result");
    for nth in (0..MANY).rev() {
        context.feed_pipe(&format!("gate{nth}"), "");
        let name = format!("gate{nth};");
        running.wait_for("its end", |line| {
            is(line, "task_notification") && line["summary"].as_str().unwrap_or_default().contains(&name)
        });
    }
    let peak = peak_kb(&running);
    running.close_stdin();
    let finished = running.finish().success();
    assert!(peak < MOST_KB, "{peak} KB");
    let lines = finished.lines();
    let ended: Vec<Value> =
        of_subtype(&lines, "task_notification").iter().map(|line| line["task_id"].clone()).collect();
    assert_eq!(ended.len(), MANY);
    // What the model was told, in the order in which it is on disk.
    let records = records(&context);
    let told = records
        .iter()
        .filter(|record| record["origin"]["runId"].is_string() || record["attachment"]["runId"].is_string());
    let texts: String = told.map(Value::to_string).collect();
    let ids: Vec<Value> = texts
        .split("<task-id>")
        .skip(1)
        .filter_map(|rest| rest.split_once("</task-id>"))
        .map(|(id, _)| json!(id))
        .collect();
    assert_eq!(ids, ended);
    for line in of_subtype(&lines, "task_notification") {
        let size = std::fs::metadata(line["output_file"].as_str().unwrap()).unwrap().len();
        assert!(size > 10_000_000, "{size}");
    }
    context.assert_no_survivors();
}

#[test]
fn a_killed_program_leaves_none_of_fifty_commands() {
    let commands = vec!["setsid sleep 1000 & tail -f /dev/null".to_owned(); MANY];
    let context = starting(&commands, 1);
    let mut running = context.start(&DIALOGUE);
    running.send(&prompt("go"));
    running.wait_for("the result", |line| line["type"] == "result");
    running.signal(Signal::KILL);
    running.finish();
    context.assert_no_survivors();
}

#[test]
fn a_session_runs_64_commands_in_the_background_and_no_more() {
    let commands = vec!["tail -f /dev/null".to_owned(); 65];
    let context = starting(&commands, 1);
    let finished = context.run(&words(&["--background", "stop"])).success();
    assert_eq!(of_subtype(&finished.lines(), "task_started").len(), 64);
    let results = finished.of_type("user");
    let refused: Vec<&Value> = results
        .iter()
        .map(|line| &line["message"]["content"][0])
        .filter(|block| block["is_error"] == true)
        .collect();
    assert_eq!(refused.len(), 1);
    assert!(refused[0]["content"].as_str().unwrap().contains("64 commands run in the background already"));
    context.assert_no_survivors();
}

#[test]
fn a_host_gets_the_last_8_kb_of_an_output() {
    let command = "head -c 20000 /dev/zero | tr '\\0' x; echo END; cat gate";
    let context = starting(&[command.to_owned()], 2);
    context.make_pipe("gate");
    let mut running = context.start(&DIALOGUE);
    running.send(&prompt("go"));
    let task = running.wait_for("the start", |line| is(line, "task_started"))["task_id"].clone();
    running.wait_for("the result", |line| line["type"] == "result");
    let output = loop {
        let reply = ask(&mut running, "r1", json!({"subtype": "get_task_output", "task_id": task}));
        if reply["response"]["total_bytes"] == 20_004 {
            break reply["response"].clone();
        }
    };
    assert_eq!(output["truncated"], true);
    let text = output["output"].as_str().unwrap();
    assert!(text.len() == 8192 && text.ends_with("xEND\n"), "{}", text.len());
    context.feed_pipe("gate", "");
    running.close_stdin();
    running.finish().success();
}

#[test]
fn a_command_is_stopped_when_its_time_is_up_and_the_model_is_told() {
    let input = json!({"command": "tail -f /dev/null", "run_in_background": true, "timeout": 200});
    let context = context(json!([tool("Bash", input), {"text": "Started."}, {"text": "Seen."}]));
    let finished = context.run(&words(&[])).success();
    let lines = finished.lines();
    assert_eq!(of_subtype(&lines, "task_notification")[0]["status"], "stopped");
    assert_eq!(finished.of_type("result").len(), 2);
    let told = last_message(&context, 2);
    assert!(told.contains("its time was up") && told.contains("<status>killed</status>"), "{told}");
    context.assert_no_survivors();
}

#[test]
fn an_output_file_keeps_the_end_of_what_it_cannot_hold() {
    let context = starting(&["head -c 120000000 /dev/zero | tr '\\0' x; echo END".to_owned()], 2);
    let finished = context.run(&words(&[])).success();
    let lines = finished.lines();
    let notice = &of_subtype(&lines, "task_notification")[0];
    assert_eq!(notice["status"], "completed");
    let file = std::fs::read(notice["output_file"].as_str().unwrap()).unwrap();
    assert!((50_000_000..=100 * 1024 * 1024 + 100).contains(&file.len()), "{}", file.len());
    assert!(file.ends_with(b"xEND\n\n[exited with code 0]\n"));
    let told = last_message(&context, context.server().requests().len() - 1);
    assert!(told.contains("It printed 120000004 bytes"), "{told}");
}

/// The folder of the output files of the only session.
fn outputs(context: &TestContext) -> PathBuf {
    let only = |folder: PathBuf| std::fs::read_dir(folder).unwrap().flatten().next().unwrap().path();
    let user = std::fs::read_dir(context.home()).unwrap().flatten().map(|entry| entry.path());
    let user =
        user.into_iter().find(|path| path.file_name().unwrap().to_string_lossy().starts_with("claude-"));
    only(only(user.unwrap()))
}

#[test]
fn output_files_stay_until_their_session_is_old() {
    let context = starting(&["echo kept".to_owned()], 2);
    let home = context.home().display().to_string();
    let context = context.env("CLAUDE_CODE_TMPDIR", home);
    context.run(&words(&[])).success();
    let stamp = context.home().join(".claude/.lathe-last-cleanup");
    let folder = outputs(&context);
    let files = |folder: &PathBuf| std::fs::read_dir(folder.join("tasks")).map_or(0, Iterator::count);
    assert_eq!(files(&folder), 1);
    // A sweep that is due leaves what is new.
    let _ = std::fs::remove_file(&stamp);
    context.run(&["-p", "--", "again"]).success();
    assert_eq!(files(&folder), 1);
    let old = SystemTime::now() - Duration::from_secs(40 * 24 * 60 * 60);
    for path in [folder.join("tasks"), folder.clone()]
        .into_iter()
        .chain(std::fs::read_dir(folder.join("tasks")).unwrap().flatten().map(|file| file.path()))
    {
        std::fs::File::open(path).unwrap().set_modified(old).unwrap();
    }
    let _ = std::fs::remove_file(&stamp);
    context.run(&["-p", "--", "again"]).success();
    assert!(!folder.exists());
}

#[test]
fn a_list_of_the_tasks_stands_behind_the_conversation() {
    let context = starting(&["exit 3".to_owned()], 2);
    let id = "5e55104e-0000-4000-8000-000000000001";
    context.run(&words(&["--session-id", id])).success();
    let shown = context.run(&["sessions", "show", id]).success().stdout;
    let (_, tasks) = shown.split_once("## Background tasks\n").unwrap_or_else(|| panic!("{shown}"));
    assert!(tasks.contains(" exit 3: failed"), "{tasks}");
}
