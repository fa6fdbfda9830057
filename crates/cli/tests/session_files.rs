//! What sessions leave on the disk and find there again, with the built program: saved files of a fork, names,
//! outputs, hidden words, turns that were dropped, and files in which nothing is left to read.
#![allow(clippy::disallowed_methods, reason = "tests start the program in other folders")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lathe_testkit::{Finished, Running, TestContext};
use serde_json::{Value, json};

const STREAM: [&str; 4] = ["-p", "--output-format", "stream-json", "--verbose"];
const TALK: [&str; 2] = ["--input-format", "stream-json"];
const ID: &str = "5e55104e-0000-4000-8000-000000000001";
const OTHER: &str = "5e55104e-0000-4000-8000-000000000002";
const PROMPT: &str = "5e55104e-0000-4000-8000-0000000000a1";
const DROPPED: &str = "5e55104e-0000-4000-8000-0000000000a2";

fn context(script: Value) -> TestContext {
    TestContext::new(&script.to_string()).binary(env!("CARGO_BIN_EXE_lathe"))
}

/// A world whose model counts its answers.
fn counting() -> TestContext {
    context((1..9).map(|nth| json!({"text": format!("answer {nth}")})).collect())
}

fn run(context: &TestContext, flags: &[&str], prompt: &str) -> Finished {
    let words: Vec<&str> = STREAM.iter().chain(flags).copied().chain(["--", prompt]).collect();
    context.run(&words)
}

fn talk(context: &TestContext, flags: &[&str]) -> Running {
    let words: Vec<&str> = STREAM.iter().chain(&TALK).chain(flags).copied().collect();
    context.start(&words)
}

/// Lets a run end that has nothing more to do.
fn end(mut running: Running) {
    running.close_stdin();
    running.finish().success();
}

fn prompt(uuid: &str, content: Value) -> Value {
    json!({"type": "user", "uuid": uuid, "message": {"role": "user", "content": content}, "parent_tool_use_id": null})
}

fn ask(running: &mut Running, request: Value) -> Value {
    running.send(&json!({"type": "control_request", "request_id": "r", "request": request}));
    running.wait_for_type("control_response")["response"].clone()
}

/// All files below a folder, by path.
fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => pending.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found.sort();
    found
}

fn transcript(context: &TestContext, id: &str) -> PathBuf {
    let name = format!("{id}.jsonl");
    let files = files_below(&context.home().join(".claude/projects"));
    files.into_iter().find(|path| path.ends_with(&name)).expect("the session has a file")
}

/// The messages of a session, as its file has them.
fn session_messages(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.filter(|record| record.get("message").is_some()).collect()
}

fn last_request(context: &TestContext) -> String {
    context.server().requests().pop().unwrap().json()["messages"].to_string()
}

#[test]
fn a_fork_goes_back_to_before_a_prompt_of_its_source() {
    let write =
        |text: &str| json!({"tools": [{"name": "Write", "input": {"file_path": "a.txt", "content": text}}]});
    let done = json!({"text": "done"});
    let script = json!([write("one\n"), done, write("two\n"), done, write("three\n"), done, done]);
    let context = context(script).env("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "true");
    context.write("a.txt", "before\n");
    let flags = ["--permission-mode", "acceptEdits"];
    let say = |flags: &[&str], uuid: &str| {
        let mut running = talk(&context, flags);
        running.send(&prompt(uuid, json!("go")));
        running.wait_for_type("result");
        running
    };
    end(say(&[&flags[..], &["--session-id", ID]].concat(), PROMPT));
    end(say(&[&flags[..], &["--resume", ID]].concat(), DROPPED));
    assert_eq!(context.read("a.txt"), "two\n");
    let mut fork =
        say(&[&flags[..], &["--resume", ID, "--fork-session", "--session-id", OTHER]].concat(), OTHER);
    assert_eq!(context.read("a.txt"), "three\n");
    let rewind = |uuid: &str| json!({"subtype": "rewind_files", "user_message_id": uuid});
    let answer = ask(&mut fork, rewind(DROPPED));
    assert_eq!(answer["subtype"], "success", "{answer}");
    assert_eq!(context.read("a.txt"), "one\n");
    end(fork);
    // The copies are the fork's own: what becomes of the source does not matter to a later run.
    std::fs::remove_dir_all(context.home().join(".claude/file-history").join(ID)).unwrap();
    std::fs::remove_file(transcript(&context, ID)).unwrap();
    let mut later = talk(&context, &["--resume", OTHER]);
    let answer = ask(&mut later, rewind(PROMPT));
    assert_eq!(answer["subtype"], "success", "{answer}");
    assert_eq!(context.read("a.txt"), "before\n");
    end(later);
}

#[test]
fn a_turn_that_was_dropped_is_asked_again_under_its_own_id() {
    let context = counting();
    let first = run(&context, &["--session-id", ID], "first").success();
    let answer = first.of_type("assistant")[0]["uuid"].as_str().unwrap().to_owned();
    let resend = |flags: &[&str]| {
        let words: Vec<&str> =
            STREAM.iter().chain(&TALK).chain(&["--resume", ID]).chain(flags).copied().collect();
        context.run_with_stdin(&words, &format!("{}\n", prompt(DROPPED, json!("second")))).success()
    };
    resend(&[]);
    let again = resend(&["--resume-session-at", &answer, "--resume-drops-turn", DROPPED]);
    assert_eq!(again.result()["result"], "answer 3");
    let sent = last_request(&context);
    assert_eq!((sent.matches("second").count(), sent.matches("answer 2").count()), (1, 0), "{sent}");
    // From now on it is a part of the conversation, and a duplicate.
    let third = resend(&[]);
    assert!(third.of_type("result").is_empty(), "{}", third.stdout);
    run(&context, &["--resume", ID], "on").success();
    let sent = last_request(&context);
    assert!(sent.contains("answer 3") && !sent.contains("answer 2"), "{sent}");
    // A copy that is cut has nothing of what was cut away.
    run(
        &context,
        &["--resume", ID, "--resume-session-at", &answer, "--fork-session", "--session-id", OTHER],
        "x",
    );
    assert!(!std::fs::read_to_string(transcript(&context, OTHER)).unwrap().contains("second"));
}

#[test]
fn a_prompt_without_a_word_asks_nobody_and_has_its_result() {
    let context = counting();
    run(&context, &["--session-id", ID], "first").success();
    let before = session_messages(&transcript(&context, ID));
    let lines: String = [json!(""), json!([]), json!([{"type": "text", "text": " \n"}])]
        .into_iter()
        .map(|content| {
            let line =
                json!({"type": "user", "message": {"role": "user", "content": content}, "priority": "later"});
            format!("{line}\n")
        })
        .collect();
    let words: Vec<&str> = STREAM.iter().chain(&TALK).chain(&["--resume", ID]).copied().collect();
    let said = context.run_with_stdin(&words, &lines).success();
    let results = said.of_type("result");
    assert_eq!(results.len(), 3, "every prompt has its result");
    assert!(results.iter().all(|result| result["result"] == "" && result["num_turns"] == 0), "{results:?}");
    assert_eq!(said.of_type("system")[0]["subtype"], "init", "hosts wait for it before they ask for more");
    assert_eq!(context.server().request_count(), 1);
    assert_eq!(session_messages(&transcript(&context, ID)), before);
    let listed = context.run(&["sessions", "list", "--json"]).success();
    assert_eq!(listed.lines()[0]["summary"], "first");
    run(&context, &["--resume", ID], "second").success();
    assert!(last_request(&context).contains("second"));
}

#[test]
fn words_that_a_hook_hid_stay_hidden_after_a_resume() {
    let context = counting();
    let output = json!({"hookSpecificOutput": {"hookEventName": "UserPromptSubmit",
        "suppressOriginalPrompt": true, "additionalContext": "the user wants fruit"}});
    let hook = json!([{"hooks": [{"type": "command", "command": format!("echo '{output}'")}]}]);
    let settings = json!({"hooks": {"UserPromptSubmit": hook}}).to_string();
    run(&context, &["--session-id", ID, "--settings", &settings], "the secret").success();
    assert!(!last_request(&context).contains("the secret"));
    run(&context, &["--resume", ID], "more").success();
    let sent = last_request(&context);
    assert!(sent.contains("the user wants fruit") && !sent.contains("the secret"), "{sent}");
    assert!(std::fs::read_to_string(transcript(&context, ID)).unwrap().contains("the secret"));
}

#[test]
fn a_fork_belongs_to_the_folder_it_runs_in() {
    let context = counting();
    run(&context, &["--session-id", ID], "first").success();
    let elsewhere = context.home().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let in_folder = |flags: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_lathe"))
            .args(STREAM.iter().chain(flags))
            .current_dir(&elsewhere)
            .env("HOME", context.home())
            .env("ANTHROPIC_BASE_URL", context.server().url())
            .env("ANTHROPIC_API_KEY", "test")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    in_folder(&["--resume", ID, "--fork-session", "--session-id", OTHER, "--", "second"]);
    assert_ne!(transcript(&context, ID).parent(), transcript(&context, OTHER).parent());
    assert!(in_folder(&["--continue", "--", "third"]).contains(OTHER));
    assert!(last_request(&context).contains("answer 1"));
    let here = run(&context, &["--continue"], "fourth").success();
    assert_eq!(here.result()["session_id"], ID);
}

#[test]
fn outputs_lie_beside_the_transcript_or_go_with_the_run() {
    let long = json!({"tools": [{"name": "Bash", "input": {"command": "seq 1 30000"}}]});
    let done = json!({"text": "done"});
    let context = context(json!([{"text": "hi"}, long, done, long, done]));
    run(&context, &["--session-id", ID], "first").success();
    let path = transcript(&context, ID);
    let words: Vec<&str> =
        STREAM.iter().chain(&["--resume", ID, "--allowedTools", "Bash", "--", "go"]).copied().collect();
    let elsewhere = Command::new(env!("CARGO_BIN_EXE_lathe"))
        .args(&words)
        .current_dir("/")
        .env("HOME", context.home())
        .env("ANTHROPIC_BASE_URL", context.server().url())
        .env("ANTHROPIC_API_KEY", "test")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(elsewhere.status.success(), "{}", String::from_utf8_lossy(&elsewhere.stderr));
    let projects = context.home().join(".claude/projects");
    let files = files_below(&projects);
    let outputs = path.with_extension("").join("tool-results");
    assert!(files.iter().any(|file| file.starts_with(&outputs)), "{files:?}");
    assert!(files.iter().all(|file| file.starts_with(path.parent().unwrap())), "{files:?}");
    let unsaved = run(&context, &["--no-session-persistence", "--allowedTools", "Bash"], "go").success();
    assert!(unsaved.stdout.contains("30000"), "the output was long");
    assert_eq!(files_below(&projects), files, "nothing is added");
    let left = files_below(&context.cwd().with_file_name("tmp"));
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_title_given_in_the_middle_of_a_long_session_is_still_found() {
    let long = json!({"text": "word ".repeat(30_000)});
    let context = context(json!([long, long, long, {"text": "short"}, {"text": "short"}]));
    let mut running = talk(&context, &["--session-id", ID, "--name", "Old"]);
    running.send(&prompt(PROMPT, json!("first")));
    running.wait_for_type("result");
    assert_eq!(ask(&mut running, json!({"subtype": "rename_session", "title": "New"}))["subtype"], "success");
    for uuid in [DROPPED, OTHER] {
        running.send(&prompt(uuid, json!("more")));
        running.wait_for_type("result");
    }
    end(running);
    let listed = context.run(&["sessions", "list", "--json"]).success();
    assert_eq!(listed.lines()[0]["custom_title"], "New");
    run(&context, &["--resume", "New"], "on").success();
    assert_eq!(run(&context, &["--resume", "Old"], "on").code, Some(1));
}

#[test]
fn a_file_in_which_nothing_is_left_is_refused_and_not_taken_for_a_new_session() {
    let context = counting();
    run(&context, &["--session-id", ID], "first").success();
    let path = transcript(&context, ID);
    // What a power cut leaves on some file systems.
    std::fs::write(&path, vec![0; 5000]).unwrap();
    for flags in [&["--resume", ID][..], &["--resume", ID, "--fork-session"]] {
        let refused = run(&context, flags, "more");
        assert_eq!(refused.code, Some(1));
        assert!(
            refused.stderr.contains(&format!("No conversation found with session ID: {ID}")),
            "{}",
            refused.stderr
        );
        assert!(refused.stderr.contains("unreadable"), "{}", refused.stderr);
    }
    assert_eq!(context.server().request_count(), 1);
    let anew = run(&context, &["--continue"], "more").success();
    assert_ne!(anew.result()["session_id"], ID);
}

#[test]
fn the_branch_of_a_worktree_is_its_own() {
    let context = counting();
    context.write(".git/HEAD", "ref: refs/heads/main\n");
    context.write(".git/worktrees/tree/HEAD", "ref: refs/heads/feature\n");
    context.write("tree/.git", "gitdir: ../.git/worktrees/tree\n");
    let output = Command::new(env!("CARGO_BIN_EXE_lathe"))
        .args(["-p", "--session-id", ID, "hi"])
        .current_dir(context.cwd().join("tree"))
        .env("HOME", context.home())
        .env("ANTHROPIC_BASE_URL", context.server().url())
        .env("ANTHROPIC_API_KEY", "test")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(transcript(&context, ID)).unwrap();
    assert!(text.contains(r#""gitBranch":"feature""#), "{text}");
}

#[test]
fn a_list_does_not_steer_the_terminal() {
    let context = counting();
    run(&context, &["--session-id", ID, "--name", "a\u{1b}[2Jb\nc"], "first").success();
    let tag = json!({"type": "tag", "tag": "\u{1b}[31m", "sessionId": ID});
    let path = transcript(&context, ID);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}{tag}\n")).unwrap();
    let listed = context.run(&["sessions", "list", "--all"]).success();
    assert_eq!(listed.stdout.lines().count(), 1);
    assert!(!listed.stdout.contains('\u{1b}'), "{:?}", listed.stdout);
}
