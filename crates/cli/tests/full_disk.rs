//! S4 and S5 of the failure catalogue with the built program: a disk that is full, read-only or not there
//! costs the session its file, never its turn, and one warning says so.
#![allow(clippy::disallowed_methods, reason = "limits and mounts are set up by the shell")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use lathe_testkit::TestContext;
use serde_json::{Value, json};

const ID: &str = "5e55104e-0000-4000-8000-000000000001";

/// A world whose model answers three prompts at length.
fn context() -> TestContext {
    let long = "word ".repeat(6000);
    let script =
        json!([{"text": format!("1 {long}")}, {"text": format!("2 {long}")}, {"text": "3"}, {"text": "4"}]);
    TestContext::new(&script.to_string()).binary(env!("CARGO_BIN_EXE_lathe"))
}

fn prompts(count: usize) -> String {
    let line = |nth: usize| {
        json!({"type": "user", "message": {"role": "user", "content": format!("prompt {nth}")}, "priority": "later"})
            .to_string()
    };
    (0..count).map(|nth| line(nth) + "\n").collect()
}

const STREAM: [&str; 6] =
    ["-p", "--output-format", "stream-json", "--verbose", "--input-format", "stream-json"];

/// Runs the program below `script`, in which `"$0" "$@"` is the program.
fn run_below(context: &TestContext, wrapper: &[&str], script: &str, words: &[&str], stdin: &str) -> Output {
    use std::io::Write;
    let mut child = Command::new(wrapper[0])
        .args(&wrapper[1..])
        .args(["sh", "-c", script, env!("CARGO_BIN_EXE_lathe")])
        .args(words)
        .current_dir(context.cwd())
        .env("HOME", context.home())
        .env("ANTHROPIC_BASE_URL", context.server().url())
        .env("ANTHROPIC_API_KEY", "test")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn frames(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn warnings(frames: &[Value]) -> Vec<String> {
    let notes = frames.iter().filter(|frame| frame["subtype"] == "informational");
    notes.map(|note| note["content"].as_str().unwrap().to_owned()).collect()
}

fn results(frames: &[Value]) -> usize {
    frames.iter().filter(|frame| frame["type"] == "result" && frame["is_error"] == false).count()
}

/// The records of the only session file, each of them whole.
fn whole_records(config: &Path) -> Vec<Value> {
    let folder = std::fs::read_dir(config.join("projects")).unwrap().flatten().next().unwrap();
    let text = std::fs::read_to_string(folder.path().join(format!("{ID}.jsonl"))).unwrap();
    assert!(text.ends_with('\n'), "the last line is whole");
    text.lines().map(|line| serde_json::from_str(line).expect("every line is a record")).collect()
}

#[test]
fn a_file_size_limit_costs_records_and_nothing_else() {
    let context = context();
    // Blocks of 512 bytes: the first answer fits, the second does not.
    let script = r#"ulimit -f 100; exec "$0" "$@""#;
    let words: Vec<&str> = STREAM.into_iter().chain(["--session-id", ID]).collect();
    let output = run_below(&context, &["env"], script, &words, &prompts(3));
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let frames = frames(&output);
    assert_eq!(results(&frames), 3);
    let said = warnings(&frames);
    assert_eq!(said.len(), 2, "once when it begins, once when nothing can be done any more: {said:?}");
    assert!(said[0].contains("no space left") && said[0].contains(".claude/projects"), "{said:?}");
    assert!(said[1].contains("record(s) of this session were not saved"), "{said:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("were not saved"), "also for those who read no frames: {stderr}");
    let records = whole_records(&context.home().join(".claude"));
    assert!(records.iter().any(|record| record["type"] == "assistant"));
    // What is left goes on, when there is room again.
    let words = ["-p", "--resume", ID, "--", "more"];
    let on = context.run(&words).success();
    assert_eq!((on.stdout.as_str(), on.stderr.as_str()), ("4\n", ""));
}

/// Whether a test may mount here; CI containers may not.
fn namespaces() -> Option<Vec<&'static str>> {
    let wrapper = vec!["unshare", "--user", "--map-root-user", "--mount"];
    let probe = Command::new(wrapper[0])
        .args(&wrapper[1..])
        .args(["sh", "-c", "mount -t tmpfs none /mnt"])
        .stderr(Stdio::null())
        .status();
    probe.is_ok_and(|status| status.success()).then_some(wrapper)
}

#[test]
fn a_full_disk_is_said_once_and_what_waited_is_written_when_there_is_room() {
    // The limit above takes the same path where nothing may be mounted.
    let Some(wrapper) = namespaces() else { return };
    let long = "word ".repeat(6000);
    let rm = json!({"name": "Bash", "input": {"command": "rm disk/ballast"}});
    let turns = json!([{"text": long}, {"text": long}, {"tools": [rm]}, {"text": "there is room"}]);
    let context = TestContext::new(&turns.to_string());
    std::fs::create_dir(context.cwd().join("disk")).unwrap();
    // A ballast leaves room for the first answer only; the third prompt gets rid of it.
    let script = r#"
        mount -t tmpfs -o size=128k none disk && head -c 73728 /dev/zero > disk/ballast &&
        CLAUDE_CONFIG_DIR=$PWD/disk/claude "$0" "$@"; code=$?
        cp -r disk/claude saved; exit $code"#;
    let words: Vec<&str> = STREAM.into_iter().chain(["--session-id", ID, "--allowedTools", "Bash"]).collect();
    let output = run_below(&context, &wrapper, script, &words, &prompts(3));
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let frames = frames(&output);
    assert_eq!((results(&frames), warnings(&frames).len()), (3, 1), "{:?}", warnings(&frames));
    let saved: Vec<Value> = whole_records(&context.cwd().join("saved"))
        .into_iter()
        .map(|record| record["uuid"].clone())
        .collect();
    let shown = frames.iter().filter(|frame| frame["type"] == "assistant" || frame["type"] == "user");
    for frame in shown {
        assert!(saved.contains(&frame["uuid"]), "what waited for room is in the file");
    }
}

#[test]
fn a_place_that_cannot_be_written_is_said_once() {
    let mut place = context().home().join("locked");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o500)).unwrap();
    if rustix::process::geteuid().is_root() {
        // Nothing is forbidden to root, except here.
        place = "/sys".into();
    }
    let context = context().env("CLAUDE_CONFIG_DIR", place.join("claude").to_str().unwrap());
    let plain = context.run(&["-p", "hi"]).success();
    assert!(plain.stdout.starts_with("1 word"));
    assert_eq!(plain.stderr.matches("Warning:").count(), 1, "{}", plain.stderr);
    assert!(plain.stderr.contains("not saved"), "{}", plain.stderr);
    let chosen = context.run(&["-p", "--session-id", ID, "hi"]).success();
    assert_eq!(chosen.stderr.matches("not saved").count(), 1, "{}", chosen.stderr);
}

#[test]
fn a_session_on_a_disk_that_became_read_only_goes_on_unsaved() {
    let Some(wrapper) = namespaces() else { return };
    let context = context();
    context.run(&["-p", "--session-id", ID, "hi"]).success();
    let script = r#"mount --bind "$HOME" "$HOME" && mount -o remount,ro,bind "$HOME" && exec "$0" "$@""#;
    let words = ["-p", "--output-format", "json", "--resume", ID, "--", "more"];
    let output = run_below(&context, &wrapper, script, &words, "");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.matches("not saved").count() == 1, "{stderr}");
    let sent = context.server().requests().pop().unwrap().json()["messages"].to_string();
    assert!(sent.contains("1 word"), "the conversation is there all the same");
}

#[test]
fn without_a_home_nothing_is_saved_and_nothing_can_be_resumed() {
    let context = context().without_env("HOME");
    let new = context.run(&["-p", "hi"]).success();
    assert_eq!(new.stderr, "Warning: HOME is not set, so this session is not saved\n");
    assert!(context.run(&["-p", "--continue", "hi"]).success().stdout.starts_with("2 word"));
    let resumed = context.run(&["-p", "--resume", ID, "hi"]);
    assert_eq!(resumed.code, Some(1));
    assert!(resumed.stderr.contains(&format!("No conversation found with session ID: {ID}")));
}
