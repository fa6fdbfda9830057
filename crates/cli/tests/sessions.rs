//! Sessions of the built program: what each flag makes of a session that is there, is not there, or is in
//! use, and what the file says afterwards.
#![allow(clippy::disallowed_methods, reason = "tests start the program in other folders, and many at once")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use lathe_testkit::{Finished, TestContext};
use serde_json::{Value, json};

const STREAM: [&str; 4] = ["-p", "--output-format", "stream-json", "--verbose"];
const ID: &str = "5e55104e-0000-4000-8000-000000000001";
const OTHER: &str = "5e55104e-0000-4000-8000-000000000002";

/// A world whose model counts its answers.
fn context() -> TestContext {
    let answers: Vec<Value> = (1..30).map(|nth| json!({"text": format!("answer {nth}")})).collect();
    TestContext::new(&json!(answers).to_string()).binary(env!("CARGO_BIN_EXE_lathe"))
}

fn run(context: &TestContext, flags: &[&str], prompt: &str) -> Finished {
    let words: Vec<&str> = STREAM.iter().chain(flags).copied().chain(["--", prompt]).collect();
    context.run(&words)
}

/// A session of two turns; the uuid of the first answer.
fn two_turns(context: &TestContext) -> String {
    let first = run(context, &["--session-id", ID], "first").success();
    run(context, &["--resume", ID], "second").success();
    first.of_type("assistant")[0]["uuid"].as_str().unwrap().to_owned()
}

fn projects(context: &TestContext) -> PathBuf {
    context.home().join(".claude/projects")
}

/// The session files there are, by name.
fn files(context: &TestContext) -> Vec<String> {
    let folders = std::fs::read_dir(projects(context)).into_iter().flatten().flatten();
    let mut names: Vec<String> = folders
        .flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten())
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn file(context: &TestContext, id: &str) -> PathBuf {
    let folder = std::fs::read_dir(projects(context)).unwrap().flatten().next().unwrap().path();
    folder.join(format!("{id}.jsonl"))
}

fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What the model was sent last, as text.
fn last_request(context: &TestContext) -> String {
    context.server().requests().pop().unwrap().json()["messages"].to_string()
}

/// A run somewhere else than in the folder of the test.
fn run_in(context: &TestContext, cwd: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lathe"))
        .args(words)
        .current_dir(cwd)
        .env("HOME", context.home())
        .env("ANTHROPIC_BASE_URL", context.server().url())
        .env("ANTHROPIC_API_KEY", "test")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn a_resumed_session_keeps_its_id_its_file_and_its_words() {
    let context = context();
    two_turns(&context);
    let third = run(&context, &["--resume", ID], "third").success();
    assert_eq!(third.result()["session_id"], ID);
    assert_eq!(files(&context), [format!("{ID}.jsonl")]);
    let sent = last_request(&context);
    for said in ["first", "answer 1", "second", "answer 2", "third"] {
        assert!(sent.contains(said), "{said} is not in {sent}");
    }
    // Nothing of it is shown again.
    assert_eq!(third.of_type("assistant").len(), 1);
}

#[test]
fn continue_takes_the_newest_of_the_folder_or_starts_anew() {
    let context = context();
    let fresh = run(&context, &["--continue"], "nothing there yet").success();
    let id = fresh.result()["session_id"].as_str().unwrap().to_owned();
    let on = run(&context, &["--continue"], "more").success();
    assert_eq!(on.result()["session_id"], id.as_str());
    let elsewhere = context.home().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let words: Vec<&str> = STREAM.into_iter().chain(["--continue", "--", "hi"]).collect();
    let other = run_in(&context, &elsewhere, &words);
    assert!(!String::from_utf8_lossy(&other.stdout).contains(&id), "another folder, another session");
    // Where both are given, the named one counts.
    let both = run(&context, &["--continue", "--resume", OTHER], "x");
    assert_eq!(both.code, Some(1));
    assert_eq!(both.stderr, format!("No conversation found with session ID: {OTHER}\n"));
}

#[test]
fn a_session_is_found_from_any_folder_by_id_and_by_title() {
    let context = context();
    run(&context, &["--session-id", ID, "--name", "The parser"], "first").success();
    for name in [ID, "The parser"] {
        let words: Vec<&str> = STREAM.into_iter().chain(["--resume", name, "--", "again"]).collect();
        let output = run_in(&context, Path::new("/"), &words);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains(ID));
    }
    assert_eq!(files(&context).len(), 1, "it goes on in its own file");
}

#[test]
fn a_fork_has_an_id_and_a_file_of_its_own() {
    let context = context();
    two_turns(&context);
    let before = std::fs::read(file(&context, ID)).unwrap();
    let fork = run(&context, &["--resume", ID, "--fork-session"], "third").success();
    let id = fork.result()["session_id"].as_str().unwrap().to_owned();
    assert_ne!(id, ID);
    assert!(last_request(&context).contains("answer 2"));
    let named = run(&context, &["--resume", ID, "--fork-session", "--session-id", OTHER], "fourth").success();
    assert_eq!(named.result()["session_id"], OTHER);
    assert_eq!(std::fs::read(file(&context, ID)).unwrap(), before, "the source is only read");
    let copied = records(&file(&context, OTHER));
    assert!(copied.iter().all(|record| record["sessionId"] == OTHER));
    let taken = run(&context, &["--resume", ID, "--fork-session", "--session-id", OTHER], "x");
    assert_eq!(taken.stderr, format!("Error: Session ID {OTHER} is already in use.\n"));
    // A fork that cannot be made leaves nothing.
    let bad = ["--resume", ID, "--fork-session", "--resume-session-at", OTHER];
    assert_eq!(run(&context, &bad, "x").code, Some(1));
    assert_eq!(files(&context).len(), 3);
}

#[test]
fn a_session_is_cut_where_it_was_asked_to_be() {
    let context = context();
    let first_answer = two_turns(&context);
    let cut = run(&context, &["--resume", ID, "--resume-session-at", &first_answer], "instead").success();
    assert_eq!(cut.result()["session_id"], ID);
    let sent = last_request(&context);
    assert!(sent.contains("answer 1") && sent.contains("instead") && !sent.contains("second"), "{sent}");
    // The new branch is the conversation from now on, and the old one is still in the file.
    run(&context, &["--resume", ID], "on").success();
    assert!(!last_request(&context).contains("second"));
    assert!(std::fs::read_to_string(file(&context, ID)).unwrap().contains("second"));
    let unknown = run(&context, &["--resume", ID, "--resume-session-at", OTHER], "x");
    assert_eq!(unknown.code, Some(1));
    assert_eq!(unknown.stderr, format!("No message found with message.uuid of: {OTHER}\n"));
    assert_eq!(unknown.result()["session_id"], ID);
}

#[test]
fn a_cut_drops_the_named_turn_or_is_refused() {
    let context = context();
    let first_answer = two_turns(&context);
    let prompts: Vec<Value> =
        records(&file(&context, ID)).into_iter().filter(|record| record["type"] == "user").collect();
    let uuid = |nth: usize| prompts[nth]["uuid"].as_str().unwrap();
    let cut = |turn: &str| {
        run(
            &context,
            &["--resume", ID, "--resume-session-at", &first_answer, "--resume-drops-turn", turn],
            "x",
        )
    };
    let wrong = cut(uuid(0));
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stderr.starts_with("Resume rejected by --resume-drops-turn:"), "{}", wrong.stderr);
    assert_eq!(wrong.result()["errors"][0], wrong.stderr.trim_end());
    let requests = context.server().request_count();
    cut(uuid(1)).success();
    assert_eq!(context.server().request_count(), requests + 1);
    // Now the turn behind the cut is another one.
    assert_eq!(cut(uuid(1)).code, Some(1));
}

#[test]
fn what_is_not_there_is_refused_in_the_words_that_programs_match() {
    let context = context();
    two_turns(&context);
    let unknown = run(&context, &["--resume", OTHER], "x");
    assert_eq!(
        (unknown.code, unknown.stderr.trim()),
        (Some(1), format!("No conversation found with session ID: {OTHER}").as_str())
    );
    let result = unknown.result();
    assert_eq!(
        (&result["subtype"], &result["session_id"]),
        (&json!("error_during_execution"), &json!(OTHER))
    );
    assert_eq!(result["errors"], json!([unknown.stderr.trim()]));
    assert_eq!(result.get("terminal_reason"), None);
    let title = run(&context, &["--resume", "no such title"], "x");
    let text = "Error: --resume requires a valid session ID or session title when used with --print";
    assert!(title.code == Some(1) && title.stderr.starts_with(text), "{}", title.stderr);
    assert_eq!(
        title.result()["session_id"].as_str().map(str::len),
        Some(36),
        "an id, whatever was asked for"
    );
    let taken = run(&context, &["--session-id", ID], "x");
    assert_eq!(taken.stderr, format!("Error: Session ID {ID} is already in use.\n"));
    assert!(taken.stdout.is_empty());
    assert_eq!(context.server().request_count(), 2, "none of them has asked the model");
}

#[test]
fn a_session_that_is_not_kept_leaves_nothing() {
    let context = context();
    run(&context, &["--no-session-persistence"], "x").success();
    assert!(files(&context).is_empty());
    two_turns(&context);
    let before = std::fs::read(file(&context, ID)).unwrap();
    for flags in [&["--resume", ID][..], &["--resume", ID, "--fork-session"]] {
        let flags: Vec<&str> = flags.iter().copied().chain(["--no-session-persistence"]).collect();
        run(&context, &flags, "third").success();
        assert!(last_request(&context).contains("answer 2"), "it still knows what was said");
    }
    assert_eq!(files(&context).len(), 1);
    assert_eq!(std::fs::read(file(&context, ID)).unwrap(), before);
}

#[test]
fn the_file_says_what_later_readers_need() {
    let script = json!([
        {"tools": [{"name": "Write", "input": {"file_path": "a.txt", "content": "one\ntwo\n"}}]},
        {"tools": [{"name": "Edit", "input": {"file_path": "a.txt", "old_string": "two", "new_string": "2\n3"}}]},
        {"text": "done"},
        {"text": "again"},
    ]);
    let context = TestContext::new(&script.to_string()).binary(env!("CARGO_BIN_EXE_lathe"));
    let flags = ["--session-id", ID, "--permission-mode", "acceptEdits"];
    let first = run(&context, &flags, "go").success();
    let second = run(&context, &["--resume", ID], "more").success();
    let costs = |run: &Finished| run.result()["total_cost_usd"].as_f64().unwrap();
    assert!(costs(&second) > costs(&first), "the cost goes on");
    assert_eq!(second.result()["modelUsage"].as_object().unwrap().len(), 1);
    assert_eq!(second.of_type("system")[0]["permissionMode"], "acceptEdits", "the mode is the saved one");
    let records = records(&file(&context, ID));
    let positions: Vec<&Value> = records.iter().filter_map(|record| record.get("turnPosition")).collect();
    assert_eq!(
        positions,
        [&json!({"promptIndex": 0, "turnIndex": 1}), &json!({"promptIndex": 0, "turnIndex": 2})]
    );
    let state = records.iter().rfind(|record| record["type"] == "cost-state").unwrap();
    assert_eq!((&state["totalLinesAdded"], &state["totalLinesRemoved"]), (&json!(4), &json!(1)));
    assert_eq!(state["totalCostUSD"].as_f64(), Some(costs(&second)));
    // A mode that skips questions has to be asked for each time.
    let plan = run(&context, &["--resume", ID, "--permission-mode", "plan"], "x").success();
    assert_eq!(plan.of_type("system")[0]["permissionMode"], "plan");
    let after = run(&context, &["--resume", ID], "x").success();
    assert_eq!(after.of_type("system")[0]["permissionMode"], "default");
}

#[test]
fn a_prompt_of_an_earlier_run_is_a_duplicate() {
    let context = context();
    let words: Vec<&str> =
        STREAM.into_iter().chain(["--input-format", "stream-json", "--replay-user-messages"]).collect();
    let line = json!({"type": "user", "uuid": OTHER, "message": {"role": "user", "content": "hi"},
        "parent_tool_use_id": null});
    let with = |flag: &'static str| words.iter().copied().chain([flag, ID]).collect::<Vec<_>>();
    context.run_with_stdin(&with("--session-id"), &format!("{line}\n")).success();
    let again = context.run_with_stdin(&with("--resume"), &format!("{line}\n"));
    assert_eq!(context.server().request_count(), 1);
    let kinds: Vec<String> =
        again.lines().iter().map(|line| format!("{} {}", line["type"], line["state"])).collect();
    assert_eq!(kinds, ["\"user\" null", "\"command_lifecycle\" \"completed\""]);
}

#[test]
fn records_are_handed_to_a_host_that_keeps_its_own_copy() {
    let context = context();
    let first = run(&context, &["--session-id", ID, "--session-mirror"], "first").success();
    let mirrored = |run: &Finished| -> Vec<Value> {
        let frames = run.of_type("transcript_mirror");
        assert!(frames.iter().all(|frame| frame["filePath"] == file(&context, ID).to_str().unwrap()));
        frames.iter().flat_map(|frame| frame["entries"].as_array().unwrap().clone()).collect()
    };
    assert_eq!(mirrored(&first), records(&file(&context, ID)), "the mirror is the file");
    let order: Vec<Value> = first.lines().iter().map(|line| line["type"].clone()).collect();
    let result = order.iter().position(|kind| kind == "result").unwrap();
    let last = order.iter().rposition(|kind| kind == "transcript_mirror").unwrap();
    assert!(last < result, "whoever has the result has the records: {order:?}");
    let second = run(&context, &["--resume", ID, "--session-mirror"], "second").success();
    assert_eq!([mirrored(&first), mirrored(&second)].concat(), records(&file(&context, ID)));
    // A copy is mirrored from its beginning.
    let fork = ["--resume", ID, "--fork-session", "--session-id", OTHER, "--session-mirror"];
    let fork = run(&context, &fork, "third").success();
    let entries: Vec<Value> = fork
        .of_type("transcript_mirror")
        .iter()
        .flat_map(|frame| frame["entries"].as_array().unwrap().clone())
        .collect();
    assert_eq!(entries, records(&file(&context, OTHER)));
}

/// A hundred starts at once, none of which is given a prompt: whoever gets the session waits for one, and
/// all others have to leave. What the losers said on stderr; the winner is given its prompt then.
fn hundred_starts(context: &TestContext, flags: &[&str]) -> Vec<String> {
    let words = STREAM.iter().chain(&["--input-format", "stream-json"]).chain(flags);
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathe"));
    command
        .args(words)
        .current_dir(context.cwd())
        .env("HOME", context.home())
        .env("ANTHROPIC_BASE_URL", context.server().url())
        .env("ANTHROPIC_API_KEY", "test")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut running: Vec<Child> = (0..100).map(|_| command.spawn().unwrap()).collect();
    let mut refused = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(60);
    while refused.len() < 99 && Instant::now() < deadline {
        let mut waiting = Vec::new();
        for mut child in running {
            match child.try_wait().unwrap() {
                Some(status) => {
                    assert_eq!(status.code(), Some(1));
                    refused.push(std::io::read_to_string(child.stderr.take().unwrap()).unwrap());
                }
                None => waiting.push(child),
            }
        }
        running = waiting;
        std::thread::yield_now();
    }
    let held = running.len();
    for mut winner in running {
        let prompt = json!({"type": "user", "message": {"role": "user", "content": "go"}});
        let _ = winner.stdin.take().unwrap().write_all(format!("{prompt}\n").as_bytes());
        let end = winner.wait_with_output().unwrap();
        assert!(end.status.success(), "{}", String::from_utf8_lossy(&end.stderr));
    }
    assert_eq!(held, 1, "one has the session, 99 were refused: {refused:?}");
    refused
}

#[test]
fn of_a_hundred_that_resume_a_session_one_goes_on() {
    let context = context();
    run(&context, &["--session-id", ID], "first").success();
    let refused = hundred_starts(&context, &["--resume", ID]);
    assert!(
        refused.iter().all(|text| text.contains("is in use") && text.contains("--fork-session")),
        "{refused:?}"
    );
    let records = records(&file(&context, ID));
    assert_eq!(records.iter().filter(|record| record["type"] == "user").count(), 2, "no line of a loser");
}

#[test]
fn of_a_hundred_that_choose_an_id_one_gets_it() {
    let context = context();
    let refused = hundred_starts(&context, &["--session-id", ID]);
    let text = format!("Error: Session ID {ID} is already in use.\n");
    assert!(refused.iter().all(|said| *said == text), "{refused:?}");
    assert_eq!(records(&file(&context, ID)).iter().filter(|record| record["type"] == "user").count(), 1);
}

#[test]
fn old_sessions_go_when_a_run_is_over_and_used_ones_stay() {
    let context = context();
    two_turns(&context);
    let aged = |path: &Path| {
        let time = std::time::SystemTime::now() - Duration::from_secs(9 * 24 * 3600);
        std::fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
    };
    let old = file(&context, ID);
    let locked = file(&context, OTHER);
    std::fs::copy(&old, &locked).unwrap();
    let holder = std::fs::File::open(&locked).unwrap();
    holder.lock().unwrap();
    std::fs::create_dir_all(old.with_extension("").join("tool-results")).unwrap();
    [&old, &locked].iter().for_each(|path| aged(path));
    let stamp = context.home().join(".claude/.lathe-last-cleanup");
    std::fs::remove_file(&stamp).unwrap();
    context.write_home(".claude/settings.json", r#"{"cleanupPeriodDays": 30}"#);
    run(&context, &[], "x").success();
    assert!(old.exists(), "nine days are not thirty");
    context.write_home(".claude/settings.json", r#"{"cleanupPeriodDays": 7}"#);
    run(&context, &[], "x").success();
    assert!(old.exists(), "once a day is enough");
    std::fs::remove_file(&stamp).unwrap();
    context.write_home(".claude/settings.json", r#"{"cleanupPeriodDays": 0}"#);
    let warned = run(&context, &[], "x").success();
    assert!(warned.stderr.contains("cleanupPeriodDays is 0") && old.exists(), "{}", warned.stderr);
    context.write_home(".claude/settings.json", r#"{"cleanupPeriodDays": 7}"#);
    run(&context, &[], "x").success();
    assert!(!old.exists() && !old.with_extension("").exists(), "old, and nobody has it open");
    assert!(locked.exists(), "somebody has it open");
    assert_eq!(files(&context).len(), 5, "those of today are all there");
}

/// A session as the reference writes it: context between prompt and answer, calls side by side, records that
/// only it knows.
fn foreign_session() -> String {
    let chain = |uuid: &str, parent: Option<&str>, mut record: Value| {
        record["uuid"] = json!(uuid);
        record["parentUuid"] = json!(parent);
        record["isSidechain"] = json!(false);
        record["sessionId"] = json!(ID);
        record["cwd"] = json!("/somewhere/else");
        record["version"] = json!("2.1.325");
        record["timestamp"] = json!("2026-01-01T00:00:00.000Z");
        record.to_string()
    };
    let call = |uuid: &str, parent: &str, index: u64, id: &str| {
        let block = json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "true"}});
        let message = json!({"id": "msg_a", "role": "assistant", "model": "m", "content": [block],
            "stop_reason": "tool_use"});
        let record =
            json!({"type": "assistant", "message": message, "apiBlockIndex": index, "madeBy": "model"});
        chain(uuid, Some(parent), record)
    };
    let result = |uuid: &str, parent: &str, id: &str| {
        let block = json!({"type": "tool_result", "tool_use_id": id, "content": format!("out of {id}")});
        let record = json!({"type": "user", "message": {"role": "user", "content": [block]}, "promptId": "t",
            "toolUseResult": {"stdout": "x"}, "sourceToolAssistantUUID": parent});
        chain(uuid, Some(parent), record)
    };
    let prompt = json!({"type": "user", "message": {"role": "user", "content": "the old prompt"}, "promptId": "t",
        "permissionMode": "acceptEdits", "turnPosition": {"promptIndex": 0, "turnIndex": 7}});
    let context = json!({"type": "attachment", "attachment": {"type": "environment"}, "renderedRole": "system",
        "rendered": "you are somewhere else"});
    let usage = json!({"m": {"inputTokens": 5, "outputTokens": 6, "cacheReadInputTokens": 0,
        "cacheCreationInputTokens": 0, "webSearchRequests": 0, "costUSD": 1.5}});
    [
        json!({"type": "mode", "mode": "normal", "sessionId": ID}).to_string(),
        json!({"type": "atis-latch", "atis": "", "sessionId": ID}).to_string(),
        json!({"type": "queue-operation", "operation": "enqueue", "timestamp": "t", "sessionId": ID,
            "content": "the old prompt"}).to_string(),
        chain("p", None, prompt),
        chain("e", Some("p"), context),
        call("a1", "e", 0, "t1"),
        call("a2", "a1", 1, "t2"),
        result("r2", "a2", "t2"),
        result("r1", "a1", "t1"),
        chain("h", Some("r1"), json!({"type": "hologram", "of": ["the", "future"]})),
        json!({"type": "api-request-shape", "sessionId": ID, "shape": {"x": 1}}).to_string(),
        json!({"type": "cost-state", "sessionId": ID, "totalCostUSD": 1.5, "totalAPIDuration": 10,
            "totalAPIDurationWithoutRetries": 9, "totalToolDuration": 3, "totalLinesAdded": 2, "totalLinesRemoved": 1,
            "totalDuration": 50, "startTime": 1, "modelUsage": usage, "hasUnknownModelCost": false}).to_string(),
    ]
    .join("\n")
        + "\n"
}

#[test]
fn a_session_of_the_reference_goes_on() {
    let context = context();
    let path =
        context.write_home(&format!(".claude/projects/-somewhere-else/{ID}.jsonl"), &foreign_session());
    let run = run(&context, &["--resume", ID], "the new prompt").success();
    let result = run.result();
    assert!(result["total_cost_usd"].as_f64().unwrap() > 1.5, "the cost goes on");
    assert_eq!(result["modelUsage"]["m"]["inputTokens"], 5);
    assert_eq!(run.of_type("system")[0]["permissionMode"], "acceptEdits");
    let messages = context.server().requests().pop().unwrap().json()["messages"].clone();
    let kinds: Vec<String> = messages
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            let blocks = message["content"].as_array().unwrap().iter();
            let kinds: Vec<&str> = blocks.map(|block| block["type"].as_str().unwrap()).collect();
            format!("{} {}", message["role"].as_str().unwrap(), kinds.join(" "))
        })
        .collect();
    assert_eq!(kinds, ["user text", "assistant tool_use tool_use", "user tool_result tool_result text"]);
    assert!(!messages.to_string().contains("somewhere else"), "the new run describes its own surroundings");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with(&foreign_session()), "nothing of it was touched");
    let added = &records(&path)[foreign_session().lines().count()..];
    assert_eq!(added[0]["parentUuid"], "h");
    assert_eq!(added[0]["turnPosition"]["turnIndex"], 8);
    let state = added.iter().rfind(|record| record["type"] == "cost-state").unwrap();
    assert_eq!((&state["startTime"], &state["totalLinesAdded"]), (&json!(1), &json!(2)));
}

/// The session files that were recorded from the reference, where they are at hand.
#[test]
fn every_recorded_session_goes_on() {
    let Some(recorded) = lathe_testkit::beside_repository("recordings/wire/_transcripts") else { return };
    let runs = std::fs::read_dir(&recorded).expect("the folder of recorded sessions can be listed");
    let files: Vec<PathBuf> = runs
        .flatten()
        .flat_map(|run| std::fs::read_dir(run.path().join("projects")).into_iter().flatten().flatten())
        .flat_map(|project| std::fs::read_dir(project.path()).into_iter().flatten().flatten())
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    assert!(files.len() > 10, "{}", files.len());
    for source in files {
        let context = context();
        let id = source.file_stem().unwrap().to_str().unwrap();
        let before = std::fs::read_to_string(&source).unwrap();
        let path = context.write_home(&format!(".claude/projects/-elsewhere/{id}.jsonl"), &before);
        let run = run(&context, &["--resume", id], "go on").success();
        assert_eq!(run.result()["session_id"], id, "{}", source.display());
        let notes: Vec<Value> =
            run.lines().into_iter().filter(|line| line["subtype"] == "informational").collect();
        assert!(notes.is_empty(), "{}: {notes:?}", source.display());
        assert!(std::fs::read_to_string(&path).unwrap().starts_with(&before));
    }
}

#[test]
fn what_hooks_told_the_model_is_told_again() {
    let context = context();
    let hook = |text: &str| json!([{"hooks": [{"type": "command", "command": format!("echo {text}")}]}]);
    let settings = json!({"hooks": {"UserPromptSubmit": hook("the-word-is-quince")}}).to_string();
    run(&context, &["--session-id", ID, "--settings", &settings], "first").success();
    let told = last_request(&context);
    run(&context, &["--resume", ID], "second").success();
    let again = last_request(&context);
    assert!(told.contains("the-word-is-quince"), "{told}");
    let note = again.find("the-word-is-quince").expect("the note comes back");
    let prompt = again.find("first").expect("the prompt is there");
    let answer = again.find("answer 1").expect("the answer is there");
    assert!(prompt < note && note < answer, "{again}");
    let marks = records(&file(&context, ID));
    assert!(marks.iter().any(|record| record["attachment"]["type"] == "hook_additional_context"));
}
