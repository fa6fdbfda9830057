//! What the shell of a command begins with, with the built program: the user's aliases and functions, and the files that
//! hooks and the user leave for commands.
#![allow(clippy::disallowed_methods, reason = "tests work on real files")]

use std::path::PathBuf;

use lathe_testkit::{Finished, TestContext};
use rustix::process::Signal;
use serde_json::{Value, json};

const STREAM: [&str; 4] = ["-p", "--output-format", "stream-json", "--verbose"];

const RC: &str = "alias hello='echo hello'\ngit() { echo \"my git $*\"; }\nsecret() { [ -z \"$ANTHROPIC_API_KEY\" ] || echo canary; }\n\
                  [ -z \"$ANTHROPIC_API_KEY\" ] || touch \"$HOME/rc-has-a-key\"\n";

/// A model that calls Bash with each of the commands in turn, and a user with this file for interactive shells.
fn context(rc: &str, commands: &[&str]) -> TestContext {
    let calls =
        commands.iter().map(|command| json!({"tools": [{"name": "Bash", "input": {"command": command}}]}));
    let script: Value = calls.chain([json!({"text": "done"})]).collect();
    let context = TestContext::new(&script.to_string()).binary(env!("CARGO_BIN_EXE_lathe"));
    context.write_home(".bashrc", rc);
    context
}

fn run(context: &TestContext, more: &[&str]) -> Finished {
    context.run(&[&STREAM[..], more, &["--", "go"]].concat()).success()
}

/// The texts that came back from the calls.
fn answers(finished: &Finished) -> Vec<String> {
    let lines = finished.lines();
    let contents = lines.iter().filter_map(|line| line["message"]["content"].as_array());
    let results = contents.flatten().filter(|block| block["type"] == "tool_result");
    results.map(|block| block["content"].as_str().unwrap_or_default().to_owned()).collect()
}

fn snapshots(context: &TestContext) -> Vec<PathBuf> {
    let folder = context.home().join(".claude/shell-snapshots");
    std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn commands_know_the_users_aliases_and_functions_and_nothing_is_left() {
    let context = context(RC, &["hello; git status; secret", "ls ~/.claude/shell-snapshots"]);
    let finished = run(&context, &["--allowedTools", "Bash"]);
    let answers = answers(&finished);
    assert_eq!(answers[0], "hello\nmy git status");
    let session = finished.result()["session_id"].as_str().unwrap().to_owned();
    assert_eq!(answers[1], format!("snapshot-bash-{session}.sh"));
    assert_eq!(snapshots(&context).len(), 0);
    assert!(!context.home().join("rc-has-a-key").exists(), "the user's file runs like a command");
}

#[test]
fn a_rule_for_a_command_covers_what_the_user_made_of_it_and_a_judgement_of_its_text_does_not() {
    let ruled = context(RC, &["git status"]);
    let finished = run(&ruled, &["--allowedTools", "Bash(git status *)"]);
    assert_eq!(answers(&finished), ["my git status"]);
    // Without a rule the same command is judged read-only, and the function is not there.
    let judged = context(RC, &["git status"]);
    let answer = &answers(&run(&judged, &[]))[0];
    assert!(answer.contains("not a git repository"), "{answer}");
}

#[test]
fn a_variable_turns_the_snapshot_off() {
    for (value, expected) in [("0", "Exit code 127"), ("1", "hello")] {
        let context = context(RC, &["hello"]).env("LATHE_SHELL_SNAPSHOT", value);
        let answer = &answers(&run(&context, &["--allowedTools", "Bash"]))[0];
        assert!(answer.starts_with(expected), "{value}: {answer}");
    }
}

#[test]
fn a_file_that_hangs_costs_two_seconds_once_and_is_told_to_the_host() {
    let context = context("alias hello='echo hello'; sleep 1000", &["echo x", "echo y"]);
    let finished = run(&context, &["--allowedTools", "Bash"]);
    assert_eq!(answers(&finished), ["x", "y"]);
    let notes = finished.of_type("system");
    let told: Vec<&Value> = notes.iter().filter(|note| note["tag"] == "shell_snapshot").collect();
    assert_eq!(told.len(), 1, "{notes:?}");
    assert!(told[0]["content"].as_str().unwrap().contains("took longer than 2 s"), "{told:?}");
    context.assert_no_survivors();
}

#[test]
fn a_session_that_is_terminated_takes_its_snapshot_along() {
    let context = context(RC, &["hello; cat gate"]);
    context.make_pipe("gate");
    let mut running = context.start(&[&STREAM[..], &["--allowedTools", "Bash", "--", "go"]].concat());
    running.wait_for("the command", |line| line["subtype"] == "task_started");
    assert_eq!(snapshots(&context).len(), 1);
    running.signal(Signal::TERM);
    running.finish();
    assert_eq!(snapshots(&context).len(), 0);
}

#[test]
fn what_hooks_and_the_user_leave_for_commands_is_sourced() {
    let hook = "echo 'hi() { echo hi; }; alias say=\"echo said\"; export FRUIT=pear' >> \"$CLAUDE_ENV_FILE\"";
    let context =
        context("", &["hi; say x; echo $FRUIT $MINE", "FRUIT=plum; unset -f hi", "hi; echo $FRUIT"]);
    let hooks = json!({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": hook}]}]}});
    context.write_home(".claude/settings.json", &hooks.to_string());
    let file = context.write_home("mine.sh", "export MINE=mine FRUIT=apple\n");
    let context = context.env("CLAUDE_ENV_FILE", file.display().to_string());
    let finished = run(&context, &["--allowedTools", "Bash"]);
    let answers = answers(&finished);
    assert_eq!([&answers[0], &answers[2]], ["hi\nsaid x\npear mine", "hi\npear"]);
}
