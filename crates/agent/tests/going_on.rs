//! What a session that goes on sends to the model: what the run before it would have sent, and nothing that the API refuses.
#![allow(clippy::disallowed_methods, reason = "tests look at the real file system")]

mod common;

#[path = "../../transcript/tests/common/api_rules.rs"]
mod api_rules;

use std::path::Path;

use common::{Setup, Talk, of_type, prompt, run};
use lathe_agent::AgentJournal;
use lathe_agent::SessionBeginning;
use lathe_transcript::record::Envelope;
use lathe_transcript::{Durability, ResumeAt, TranscriptWriter, load_for_resume};
use serde_json::{Value, json};
use tempfile::tempdir;

const SESSION: &str = "5e55104e-0000-4000-8000-000000000000";

/// A session on these turns that is written to `path`.
fn kept_at(path: &Path, turns: &Value, folder: &Path) -> Setup {
    let envelope = Envelope { session_id: SESSION.to_owned(), cwd: "/".into(), ..Envelope::default() };
    let writer = TranscriptWriter::create(path, Durability::ProcessCrash).unwrap();
    Setup { journal: Some(AgentJournal::new(writer, envelope)), ..setup(turns, folder) }
}

fn setup(turns: &Value, folder: &Path) -> Setup {
    Setup::new(json!({"turns": turns, "at_end": "error"}), folder)
}

/// The session at `path`, with a further prompt: what the model hears.
async fn go_on(path: &Path, folder: &Path) -> String {
    let resumed = load_for_resume(path, ResumeAt::Latest).unwrap();
    let setup = setup(&json!([{"text": "went on"}]), folder);
    let setup = Setup { beginning: SessionBeginning::Resumed(Box::new(resumed)), ..setup };
    let heard = setup.heard.clone();
    let (frames, _) = run(setup, &["and now"]).await;
    assert_eq!(of_type(&frames, "result")[0]["result"], "went on", "{frames:?}");
    let told = heard.lock().unwrap().last().unwrap().clone();
    api_rules::assert_accepted(&messages_of(&told));
    told
}

fn messages_of(told: &str) -> Vec<Value> {
    told.lines().map(|message| serde_json::from_str(message).unwrap()).collect()
}

/// The first call may have its result before the second call has come. Whether it has, depends on the machine; what
/// the model is told later does not.
#[tokio::test]
async fn a_resumed_conversation_is_the_one_before() {
    let folder = tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::write(root.join("a.txt"), "alpha\n").unwrap();
    let read = json!({"name": "Read", "input": {"file_path": root.join("a.txt")}});
    let bash = |command: &str| json!({"name": "Bash", "input": {"command": command}});
    let turns = json!([
        {"thinking": "hm", "text": "both", "tools": [read, bash("echo b"), bash("exit 3")], "pace_ms": 30},
        {"tools": [bash("echo c")]},
        {"text": "done"},
        {"text": "went on"},
    ]);
    let hook = json!({"type": "command", "command":
        "echo '{\"hookSpecificOutput\": {\"hookEventName\": \"PostToolUse\", \"additionalContext\": \"noted\"}}'"});
    let hooks = json!({"PostToolUse": [{"hooks": [hook]}]});
    let path = root.join(format!("{SESSION}.jsonl"));
    let live = Setup { hooks: hooks.clone(), ..kept_at(&root.join("live.jsonl"), &turns, &root) };
    let heard = live.heard.clone();
    let mut talk = Talk::start(live);
    for text in ["go", "and now"] {
        talk.send(prompt(text)).await;
        talk.until(|frame| frame["type"] == "result").await;
    }
    talk.finish().await;
    let told_live = heard.lock().unwrap().last().unwrap().clone();
    let before = Setup { hooks, ..kept_at(&path, &turns, &root) };
    run(before, &["go"]).await;
    let told = go_on(&path, &root).await;
    assert!(told.contains("noted") && told.contains("both") && told.contains("hm"), "{told}");
    for (live, resumed) in told_live.lines().zip(told.lines()) {
        // Results are written down with their members in another order, which means the same to the API.
        assert_eq!(messages_of(resumed), messages_of(live));
        assert!(resumed == live || live.contains("tool_result"), "{resumed}\n{live}");
    }
    assert_eq!(told.lines().count(), told_live.lines().count());
}

#[tokio::test]
async fn a_session_of_the_reference_goes_on() {
    let folder = tempdir().unwrap();
    let path = folder.path().join(format!("{SESSION}.jsonl"));
    let mut last = Value::Null;
    let mut lines = String::new();
    let mut add = |kind: &str, uuid: &str, fields: Value| {
        let mut record = json!({"parentUuid": last, "type": kind, "uuid": uuid, "sessionId": SESSION,
            "isSidechain": false, "version": "2.1.325"});
        record.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        lines.push_str(&format!("{record}\n"));
        last = json!(uuid);
    };
    let reminder = json!([{"content": "<system-reminder>\nfrom elsewhere\n</system-reminder>"}]);
    add("user", "p", json!({"message": {"role": "user", "content": "first"}}));
    add(
        "attachment",
        "e",
        json!({"attachment": {"type": "environment"}, "renderedRole": "system",
        "rendered": [{"content": "surroundings"}]}),
    );
    add(
        "attachment",
        "n",
        json!({"attachment": {"type": "remote_session_change"}, "renderedRole": "user",
        "rendered": reminder}),
    );
    let call =
        json!({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": "{\"command\":\"true\"}"});
    add(
        "assistant",
        "a",
        json!({"apiBlockIndex": 0, "message": {"id": "m", "role": "assistant", "content": [call]}}),
    );
    let result =
        json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": ""}]});
    add("user", "r", json!({"message": {"role": "user", "content": [result]}}));
    std::fs::write(&path, lines).unwrap();
    let told = go_on(&path, folder.path()).await;
    let expected = [
        r#"{"role":"user","content":[{"type":"text","text":"first"},{"type":"text","text":"<system-reminder>\nfrom elsewhere\n</system-reminder>"}]}"#,
        r#"{"role":"assistant","content":[{"id":"toolu_1","input":{"command":"true"},"name":"Bash","type":"tool_use"}]}"#,
        r#"{"role":"user","content":[{"tool_use_id":"toolu_1","type":"tool_result"},{"text":"and now","type":"text"}]}"#,
    ];
    assert_eq!(messages_of(&told), messages_of(&expected.join("\n")));
}
