//! The lists that a model keeps of its work: what the tools say and write, what hooks make of it, and which list is
//! whose.

mod common;

use std::path::{Path, PathBuf};

use common::hooked::{answers, command, hooked, lines, on};
use common::{Setup, Talk, of_type, prompt, run};
use lathe_agent::{AgentJournal, SessionBeginning, TaskListName};
use lathe_transcript::record::Envelope;
use lathe_transcript::{Durability, ResumeAt, TranscriptWriter, load_for_resume};
use serde_json::{Value, json};
use tempfile::tempdir;

const SESSION: &str = "5e55104e-0000-4000-8000-000000000000";

/// A turn with one call.
fn call(name: &str, input: Value) -> Value {
    json!({"tools": [{"name": name, "input": input}]})
}

fn create(subject: &str) -> Value {
    call("TaskCreate", json!({"subject": subject, "description": format!("about {subject}")}))
}

fn update(id: &str, fields: Value) -> Value {
    let mut input = fields;
    input["taskId"] = json!(id);
    call("TaskUpdate", input)
}

/// The folder of the session's list.
fn list(folder: &Path) -> PathBuf {
    folder.join(".tasks").join(SESSION)
}

fn task(folder: &Path, id: u32) -> Value {
    let text = std::fs::read_to_string(list(folder).join(format!("{id}.json"))).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Content, error mark and result for programs of each call.
fn outcomes(frames: &[Value]) -> Vec<(String, bool, Value)> {
    let users = of_type(frames, "user");
    let results = users.iter().filter(|frame| frame["message"]["content"][0]["type"] == "tool_result");
    results
        .map(|frame| {
            let block = &frame["message"]["content"][0];
            let text = block["content"].as_str().expect("a text").to_owned();
            (text, block["is_error"] == true, frame["tool_use_result"].clone())
        })
        .collect()
}

/// Runs these calls one after the other.
async fn outcomes_of(folder: &Path, hooks: Value, mut turns: Vec<Value>) -> Vec<(String, bool, Value)> {
    turns.push(json!({"text": "done"}));
    let (frames, _) = run(hooked(json!(turns), folder, hooks), &["go"]).await;
    outcomes(&frames)
}

#[tokio::test]
async fn tasks_are_listed_changed_and_taken_off() {
    let folder = tempdir().unwrap();
    let rows = [
        (
            create("S1"),
            "Task #1 created successfully: S1",
            json!({"task": {"id": "1", "subject": "S1", "description": "about S1"}}),
        ),
        (
            create("S2"),
            "Task #2 created successfully: S2",
            json!({"task": {"id": "2", "subject": "S2", "description": "about S2"}}),
        ),
        (
            update("2", json!({"addBlockedBy": ["1"], "owner": "me"})),
            "Updated task #2 owner, blockedBy",
            json!({"success": true, "taskId": "2", "updatedFields": ["owner", "blockedBy"]}),
        ),
        (
            call("TaskList", json!({})),
            "#1 [pending] S1\n#2 [pending] S2 (me) [blocked by #1]",
            json!({"tasks": [
                {"id": "1", "subject": "S1", "status": "pending", "blockedBy": []},
                {"id": "2", "subject": "S2", "status": "pending", "owner": "me", "blockedBy": ["1"]},
            ]}),
        ),
        (
            call("TaskGet", json!({"taskId": "2"})),
            "Task #2: S2\nStatus: pending\nDescription: about S2\nBlocked by: #1",
            json!({"task": {"id": "2", "subject": "S2", "description": "about S2", "status": "pending", "blocks": [], "blockedBy": ["1"]}}),
        ),
        (
            update("1", json!({"status": "in_progress"})),
            "Updated task #1 status",
            json!({"success": true, "taskId": "1", "updatedFields": ["status"], "statusChange": {"from": "pending", "to": "in_progress"}}),
        ),
        (
            update("#1", json!({"status": "completed"})),
            "Updated task #1 status",
            json!({"success": true, "taskId": "1", "updatedFields": ["status"], "statusChange": {"from": "in_progress", "to": "completed"}}),
        ),
        (
            call("TaskGet", json!({"taskId": "2"})),
            "Task #2: S2\nStatus: pending\nDescription: about S2",
            json!({"task": {"id": "2", "subject": "S2", "description": "about S2", "status": "pending", "blocks": [], "blockedBy": []}}),
        ),
        (
            update("2", json!({"status": "deleted"})),
            "Updated task #2 deleted",
            json!({"success": true, "taskId": "2", "updatedFields": ["deleted"], "statusChange": {"from": "pending", "to": "deleted"}}),
        ),
        (
            call("TaskList", json!({})),
            "#1 [completed] S1",
            json!({"tasks": [{"id": "1", "subject": "S1", "status": "completed", "blockedBy": []}]}),
        ),
        (
            create("S3"),
            "Task #3 created successfully: S3",
            json!({"task": {"id": "3", "subject": "S3", "description": "about S3"}}),
        ),
    ];
    let turns = rows.iter().map(|(turn, ..)| turn.clone()).collect();
    let outcomes = outcomes_of(folder.path(), json!({}), turns).await;
    for ((turn, text, result), outcome) in rows.into_iter().zip(outcomes) {
        assert_eq!(outcome, (text.to_owned(), false, result), "{turn}");
    }
    assert_eq!(task(folder.path(), 1)["blocks"], json!([]), "the deleted task waits for nothing");
    assert!(task(folder.path(), 2).is_null());
}

#[tokio::test]
async fn a_task_that_is_not_there_is_no_error_and_nonsense_is_one() {
    let folder = tempdir().unwrap();
    let turns = vec![
        create("S1"),
        update("9", json!({"status": "completed"})),
        call("TaskGet", json!({"taskId": "9"})),
        update("1", json!({"addBlocks": ["9"], "owner": "me"})),
        update("1", json!({"addBlockedBy": ["1"]})),
        update("1", json!({"status": "paused"})),
        update("1", json!({"status": "pending"})),
        call("TaskCreate", json!({"subject": "S2"})),
    ];
    let outcomes = outcomes_of(folder.path(), json!({}), turns).await;
    let missing = json!({"success": false, "taskId": "9", "updatedFields": [], "error": "Task not found"});
    assert_eq!(outcomes[1], ("Task not found".to_owned(), false, missing));
    assert_eq!(outcomes[2], ("Task not found".to_owned(), false, json!({"task": null})));
    for (at, text) in [
        (3, "<tool_use_error>Task 9 of addBlocks is not on the list; nothing was changed.</tool_use_error>"),
        (4, "<tool_use_error>Task #1 cannot wait for itself (addBlockedBy).</tool_use_error>"),
    ] {
        assert_eq!((outcomes[at].0.as_str(), outcomes[at].1), (text, true));
    }
    assert!(outcomes[5].1 && outcomes[5].0.contains("InputValidationError"), "{:?}", outcomes[5]);
    assert_eq!(outcomes[6].0, "Updated task #1 (no change)");
    assert!(outcomes[7].0.contains("The required parameter `description` is missing"), "{:?}", outcomes[7]);
    assert_eq!(task(folder.path(), 1)["owner"], Value::Null);
}

#[tokio::test]
async fn a_blocker_that_is_done_stays_in_the_file_and_blocks_again_when_it_is_reopened() {
    let folder = tempdir().unwrap();
    let turns = vec![
        create("S1"),
        create("S2"),
        update("1", json!({"addBlocks": ["2", "#2"], "status": "completed"})),
        call("TaskList", json!({})),
        update("1", json!({"status": "pending"})),
        call("TaskList", json!({})),
    ];
    let outcomes = outcomes_of(folder.path(), json!({}), turns).await;
    assert_eq!(outcomes[2].0, "Updated task #1 status, blocks");
    assert_eq!(outcomes[3].0, "#1 [completed] S1\n#2 [pending] S2");
    assert_eq!(outcomes[5].0, "#1 [pending] S1\n#2 [pending] S2 [blocked by #1]");
    assert_eq!(
        (&task(folder.path(), 1)["blocks"], &task(folder.path(), 2)["blockedBy"]),
        (&json!(["2"]), &json!(["1"]))
    );
}

#[tokio::test]
async fn files_without_a_task_are_named_and_tasks_of_the_runtime_are_not_listed() {
    let folder = tempdir().unwrap();
    std::fs::create_dir_all(list(folder.path())).unwrap();
    std::fs::write(list(folder.path()).join("1.json"), "{").unwrap();
    let internal = json!({"id": "2", "subject": "bob", "description": "", "status": "in_progress", "blocks": [],
        "blockedBy": [], "metadata": {"_internal": true}});
    std::fs::write(list(folder.path()).join("2.json"), internal.to_string()).unwrap();
    let turns = vec![call("TaskList", json!({})), create("S"), call("TaskList", json!({}))];
    let outcomes = outcomes_of(folder.path(), json!({}), turns).await;
    let note = "Files that hold no task and were left out: 1.json";
    assert_eq!(outcomes[0], (format!("There are no tasks.\n{note}"), false, json!({"tasks": []})));
    assert_eq!(outcomes[1].0, "Task #3 created successfully: S");
    assert_eq!(outcomes[2].0, format!("#3 [pending] S\n{note}"));
}

#[tokio::test]
async fn a_list_that_cannot_be_made_is_told() {
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join(".tasks"), "a file").unwrap();
    let outcomes = outcomes_of(folder.path(), json!({}), vec![create("S")]).await;
    assert!(outcomes[0].1 && outcomes[0].0.contains("could not be made"), "{outcomes:?}");
}

#[tokio::test]
async fn a_hook_refuses_a_task_and_its_number_is_used_up() {
    let block = answers(&json!({"decision": "block", "reason": "name the file"}));
    for (handler, reason) in [
        (command("cat >> seen; test -e once || { touch once; echo no >&2; exit 2; }"), "[cat"),
        (block, "name the file"),
    ] {
        let folder = tempdir().unwrap();
        let turns = vec![create("S1"), create("S2"), call("TaskList", json!({}))];
        let outcomes = outcomes_of(folder.path(), on("TaskCreated", handler), turns).await;
        let (text, is_error, result) = &outcomes[0];
        assert!(text.starts_with(&format!("TaskCreated hook feedback:\n{reason}")) && *is_error, "{text}");
        assert_eq!(result, &json!(format!("Error: {text}")));
        assert!(task(folder.path(), 1).is_null(), "it is not on the list");
        if reason == "[cat" {
            assert!(text.ends_with("]: no\n"), "{text}");
            assert_eq!(outcomes[1].0, "Task #2 created successfully: S2");
            let seen = &lines(folder.path(), "seen")[0];
            for (key, value) in [
                ("hook_event_name", json!("TaskCreated")),
                ("task_id", json!("1")),
                ("task_subject", json!("S1")),
                ("task_description", json!("about S1")),
                ("permission_mode", Value::Null),
                ("session_id", json!(SESSION)),
            ] {
                assert_eq!(seen[key], value, "{key}");
            }
        }
    }
}

#[tokio::test]
async fn a_hook_keeps_a_task_open() {
    let folder = tempdir().unwrap();
    let once = command("cat >> seen; test -e once || { touch once; echo not yet >&2; exit 2; }");
    let turns = vec![
        create("S1"),
        update("1", json!({"status": "in_progress"})),
        update("1", json!({"status": "completed", "subject": "S", "owner": "me"})),
        call("TaskList", json!({})),
        update("1", json!({"status": "completed"})),
        update("1", json!({"status": "completed"})),
    ];
    let outcomes = outcomes_of(folder.path(), on("TaskCompleted", once), turns).await;
    let (text, is_error, result) = &outcomes[2];
    assert!(text.starts_with("TaskCompleted hook feedback:\n[") && text.ends_with("]: not yet\n"), "{text}");
    assert!(!is_error);
    assert_eq!(result, &json!({"success": false, "taskId": "1", "updatedFields": [], "error": text}));
    assert_eq!(outcomes[3].0, "#1 [in_progress] S1");
    assert_eq!(
        (outcomes[4].0.as_str(), outcomes[5].0.as_str()),
        ("Updated task #1 status", "Updated task #1 (no change)")
    );
    let seen = std::fs::read_to_string(folder.path().join("seen")).unwrap();
    assert_eq!(seen.matches("\"TaskCompleted\"").count(), 2, "not for a task that is done: {seen}");
    assert!(seen.contains(r#""task_subject":"S""#), "the title that it would have: {seen}");
}

#[tokio::test]
async fn a_model_judges_a_step() {
    let folder = tempdir().unwrap();
    let hook = json!({"type": "prompt", "prompt": "Is this a task? $ARGUMENTS"});
    let verdict = r#"{"ok": false, "reason": "it says nothing"}"#;
    let script = json!({
        "turns": [create("S1"), {"text": "done"}],
        "routes": [{"when": {"agent": "hook", "any_user": "about S1"}, "turns": [{"text": verdict}]}],
        "at_end": "error",
    });
    let mut setup = Setup::new(script, folder.path());
    setup.hooks = on("TaskCreated", hook);
    let (frames, _) = run(setup, &["go"]).await;
    let (text, is_error, _) = &outcomes(&frames)[0];
    assert!(*is_error && text.contains("it says nothing"), "{text}");
    assert!(task(folder.path(), 1).is_null());
}

#[tokio::test]
async fn a_hook_ends_the_turn_after_the_step() {
    let folder = tempdir().unwrap();
    let stop = answers(&json!({"continue": false, "stopReason": "enough"}));
    let script = json!([create("S1"), {"text": "never"}]);
    let (frames, _) = run(hooked(script, folder.path(), on("TaskCreated", stop)), &["go"]).await;
    assert_eq!(outcomes(&frames)[0].0, "Task #1 created successfully: S1");
    let results = of_type(&frames, "result");
    assert_eq!((&results[0]["result"], &results[0]["terminal_reason"]), (&json!(""), &json!("hook_stopped")));
    assert_eq!(task(folder.path(), 1)["status"], "pending");
}

#[tokio::test]
async fn an_interrupted_step_is_not_taken() {
    let folder = tempdir().unwrap();
    let hook = command("touch asked; cat gate");
    let pipe = folder.path().join("gate");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    let script = json!([create("S1"), {"text": "never"}]);
    let mut talk = Talk::start(hooked(script, folder.path(), on("TaskCreated", hook)));
    talk.send(prompt("go")).await;
    talk.until(|frame| frame["message"]["content"][0]["type"] == "tool_use").await;
    while !folder.path().join("asked").exists() {
        tokio::task::yield_now().await;
    }
    talk.send(common::line(
        json!({"type": "control_request", "request_id": "i", "request": {"subtype": "interrupt"}}),
    ))
    .await;
    let result = talk.until(|frame| frame["type"] == "result").await;
    assert_eq!(result["subtype"], "error_during_execution");
    assert!(task(folder.path(), 1).is_null());
    talk.finish().await;
}

#[tokio::test]
async fn a_named_list_is_shared_and_another_session_has_its_own() {
    let folder = tempdir().unwrap();
    let script = json!([create("S1"), {"text": "done"}, call("TaskList", json!({})), {"text": "done"}]);
    let (frames, _) = run(Setup::new(script.clone(), folder.path()), &["go", "/clear", "again"]).await;
    let texts: Vec<String> = outcomes(&frames).into_iter().map(|(text, ..)| text).collect();
    assert_eq!(texts, ["Task #1 created successfully: S1", "There are no tasks."]);

    let mut config = Setup::new(script, folder.path()).config();
    config.task_lists.name = TaskListName::Shared("team a/../b".to_owned());
    let (frames, _) = common::run_config(config, &["go", "/clear", "again"]).await;
    let texts: Vec<String> = outcomes(&frames).into_iter().map(|(text, ..)| text).collect();
    assert_eq!(texts, ["Task #1 created successfully: S1", "#1 [pending] S1"]);
    assert!(folder.path().join(".tasks/team-a----b/1.json").is_file());
}

fn todos(words: &[&str]) -> Value {
    let todo =
        |word: &&str| json!({"content": word, "status": "pending", "activeForm": format!("{word}ing")});
    json!(words.iter().map(todo).collect::<Vec<_>>())
}

#[tokio::test]
async fn to_dos_are_replaced_and_a_resumed_session_has_them() {
    let folder = tempdir().unwrap();
    let write = |words: &[&str]| call("TodoWrite", json!({"todos": todos(words)}));
    let path = folder.path().join(format!("{SESSION}.jsonl"));
    let envelope = Envelope { session_id: SESSION.to_owned(), ..Envelope::default() };
    let writer = TranscriptWriter::create(&path, Durability::ProcessCrash).unwrap();
    let mut setup = Setup::new(json!([write(&["z"]), {"text": "done"}]), folder.path());
    setup.journal = Some(AgentJournal::new(writer, envelope));
    run(setup, &["go"]).await;
    let script = json!([write(&["a", "b"]), write(&["c"]), write(&[]), {"text": "done"}]);
    let mut setup = Setup::new(script, folder.path());
    let resumed = load_for_resume(&path, ResumeAt::Latest).unwrap();
    setup.beginning = SessionBeginning::Resumed(Box::new(resumed));
    let (frames, _) = run(setup, &["go"]).await;
    let results: Vec<Value> = outcomes(&frames).into_iter().map(|(_, _, result)| result).collect();
    assert_eq!(
        results,
        [
            json!({"oldTodos": todos(&["z"]), "newTodos": todos(&["a", "b"])}),
            json!({"oldTodos": todos(&["a", "b"]), "newTodos": todos(&["c"])}),
            json!({"oldTodos": todos(&["c"]), "newTodos": []}),
        ]
    );
}

#[tokio::test]
async fn a_to_do_without_words_does_not_fit() {
    let folder = tempdir().unwrap();
    let bad = json!({"todos": [{"content": "", "status": "later", "activeForm": "x"}]});
    let outcomes =
        outcomes_of(folder.path(), json!({}), vec![call("TodoWrite", bad), call("TodoWrite", json!({}))])
            .await;
    for issue in ["too_small", "status"] {
        assert!(outcomes[0].1 && outcomes[0].0.contains(issue), "{issue}: {outcomes:?}");
    }
    assert!(outcomes[1].0.contains("The required parameter `todos` is missing"), "{outcomes:?}");
}
