//! Sessions that we wrote ourselves, taken up again.

mod common;

use common::{SESSION, Session, assert_valid};
use lathe_protocol::Role;
use lathe_protocol::system::{CompactMetadata, PreservedMessages, PreservedSegment};
use lathe_transcript::{
    Durability, ForkIds, ForkPlan, ResumeAt, Resumed, SideRecord, TranscriptError, TranscriptWriter, Warning,
    fork, load_for_resume,
};
use serde_json::{Value, json};

fn resume(session: &Session) -> Resumed {
    let resumed = load_for_resume(&session.path, ResumeAt::Latest).unwrap();
    assert_valid(&resumed.messages);
    resumed
}

/// The texts of the conversation, tool calls and results by their ids.
fn texts(resumed: &Resumed) -> Vec<String> {
    let text = |raw: &serde_json::value::RawValue| {
        let value: Value = serde_json::from_str(raw.get()).unwrap();
        ["text", "id", "tool_use_id"].iter().find_map(|key| value[*key].as_str()).unwrap_or("?").to_owned()
    };
    let of_message = |message: &lathe_transcript::HistoryMessage| {
        message.blocks.iter().map(|raw| text(raw)).collect::<Vec<_>>().join(" ")
    };
    resumed.messages.iter().map(of_message).collect()
}

#[test]
fn a_conversation_comes_back_with_its_state() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    let first = session.prompt("one");
    session.text("two");
    session.side(&SideRecord::custom_title(SESSION, "Old"));
    session.side(&SideRecord::mode(SESSION, "normal"));
    session.answer(&[json!({ "type": "tool_use", "id": "t", "name": "TodoWrite", "input": { "todos": [{ "content": "x" }] } })]);
    let call = (session.last.clone().unwrap(), "t".to_owned());
    session.result(&call, "ok");
    session.side(&SideRecord::custom_title(SESSION, "New"));
    session.side(&SideRecord::tag(SESSION, "red"));
    session.side(&SideRecord::tag(SESSION, ""));
    session.prompt("three");
    let resumed = resume(&session);
    assert_eq!(texts(&resumed), ["one", "two t", "t three"]);
    assert_eq!(resumed.last_uuid, session.last);
    assert_eq!(
        (resumed.title.as_deref(), resumed.tag, resumed.mode.as_deref()),
        (Some("New"), None, Some("normal"))
    );
    assert_eq!((resumed.permission_mode.as_deref(), resumed.turn_index), (Some("default"), 2));
    assert_eq!(resumed.todos, Some(json!([{ "content": "x" }])));
    let mut prompts = resumed.prompts;
    assert!(prompts.contains(&first) && !prompts.contains("new"));
    assert!(prompts.insert("new") && !prompts.insert("new"));
}

#[test]
fn a_prompt_that_a_cut_dropped_may_come_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    let kept = session.prompt("one");
    let cut = session.text("two");
    let dropped = session.prompt("three");
    session.attachment(&json!({ "type": "queued_command", "source_uuid": "queued", "prompt": "four" }));
    session.text("five");
    let at = ResumeAt::Message { uuid: &cut, drops_turn: Some(&dropped) };
    let prompts = load_for_resume(&session.path, at).unwrap().prompts;
    assert!(prompts.contains(&kept));
    assert!(!prompts.contains(&dropped) && !prompts.contains("queued"));
    let prompts = resume(&session).prompts;
    assert!(prompts.contains(&dropped) && prompts.contains("queued"));
}

#[test]
fn words_that_were_hidden_from_the_model_stay_hidden() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    session.prompt("one");
    session.text("two");
    session.prompt("the secret");
    session.text("three");
    drop(session.writer);
    let text = std::fs::read_to_string(&session.path).unwrap();
    let mark = r#""isVisibleInTranscriptOnly":true,"message":{"role":"user","content":"the secret"#;
    let hidden = text.replace(r#""message":{"role":"user","content":"the secret"#, mark);
    assert_ne!(text, hidden);
    std::fs::write(&session.path, hidden).unwrap();
    let resumed = load_for_resume(&session.path, ResumeAt::Latest).unwrap();
    assert_eq!(texts(&resumed), ["one", "two three"]);
    assert_eq!(resumed.turn_index, 2, "it was a turn all the same");
}

#[test]
fn what_follows_a_compaction_is_all_that_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    let early = session.prompt("old");
    session.text("older");
    session.compact("first summary");
    session.prompt("between");
    session.text("yes");
    session.compact("second summary");
    session.prompt("new");
    let resumed = resume(&session);
    assert_eq!(texts(&resumed), ["second summary new"]);
    assert!(resumed.prompts.contains(&early), "prompts of before still count as duplicates");
    assert!(std::fs::read_to_string(&session.path).unwrap().contains("older"), "compaction deletes nothing");
}

#[test]
fn records_kept_by_a_compaction_follow_the_summary() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    session.prompt("dropped");
    session.text("dropped too");
    let kept = vec![session.prompt("kept"), session.text("kept answer")];
    let preserved = PreservedMessages {
        anchor_uuid: "summary".into(),
        uuids: kept.clone(),
        ..PreservedMessages::default()
    };
    session.compact_with(
        "summary",
        CompactMetadata { preserved_messages: Some(preserved), ..CompactMetadata::default() },
    );
    session.prompt("next");
    assert_eq!(texts(&resume(&session)), ["summary kept", "kept answer", "next"]);
    // The other spelling: a stretch of the old chain.
    let text = std::fs::read_to_string(&session.path).unwrap();
    let list = serde_json::to_string(&json!({ "anchorUuid": "summary", "uuids": kept })).unwrap();
    let stretch = json!({ "headUuid": kept[0], "anchorUuid": "summary", "tailUuid": kept[1] }).to_string();
    let other =
        text.replace(&format!("\"preservedMessages\":{list}"), &format!("\"preservedSegment\":{stretch}"));
    assert_ne!(text, other);
    std::fs::write(&session.path, other).unwrap();
    assert_eq!(texts(&resume(&session)), ["summary kept", "kept answer", "next"]);
}

#[test]
fn a_fork_with_ids_of_its_own_keeps_what_a_compaction_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    session.prompt("dropped");
    session.text("dropped too");
    let (head, tail) = (session.prompt("kept"), session.text("kept answer"));
    let segment = PreservedSegment {
        head_uuid: head,
        anchor_uuid: "summary".into(),
        tail_uuid: tail,
        ..PreservedSegment::default()
    };
    session.compact_with(
        "summary",
        CompactMetadata { preserved_segment: Some(segment), ..CompactMetadata::default() },
    );
    session.prompt("next");
    let mut count = 0;
    let mut new_uuid = || {
        count += 1;
        format!("f0f0f0f0-0000-4000-8000-{count:012}")
    };
    let ids = ForkIds::Fresh { new_uuid: &mut new_uuid, now: "2026-11-16T02:00:00.000Z", title: None };
    let plan = ForkPlan { session_id: "f0f0f0f0-0000-4000-8000-ffffffffffff", dir: None, up_to: None, ids };
    let forked = fork(&session.path, plan).unwrap().transcript();
    let resumed = load_for_resume(&forked, ResumeAt::Latest).unwrap();
    assert_eq!(texts(&resumed), ["summary kept", "kept answer", "next"]);
}

#[test]
fn a_lost_boundary_does_not_bring_the_old_history_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    session.prompt("old");
    session.text("older");
    session.compact("summary");
    session.prompt("new");
    let text = std::fs::read_to_string(&session.path).unwrap();
    let without: Vec<&str> = text.lines().filter(|line| !line.contains("compact_boundary")).collect();
    std::fs::write(&session.path, without.join("\n") + "\n").unwrap();
    let resumed = resume(&session);
    assert_eq!(texts(&resumed), ["summary new"]);
    assert_eq!(resumed.warnings, [Warning::MissingParents(1)]);
}

#[test]
fn a_crash_between_calls_and_results_is_made_up_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    session.prompt("go");
    let calls = session.calls(3);
    session.result(&calls[1], "b");
    let resumed = resume(&session);
    assert_eq!(
        texts(&resumed),
        ["go", "toolu_000000 toolu_000001 toolu_000002", "toolu_000000 toolu_000001 toolu_000002"]
    );
    let lost: Vec<_> = resumed
        .dangling
        .iter()
        .map(|call| (call.tool_use_id.as_str(), call.assistant_uuid.as_str()))
        .collect();
    assert_eq!(lost, [("toolu_000000", calls[0].0.as_str()), ("toolu_000002", calls[2].0.as_str())]);
    assert_eq!(resumed.warnings, [Warning::DanglingCalls(2)]);
    // The session goes on behind the result, and the calls stay closed.
    session.last = resumed.last_uuid;
    session.prompt("go on");
    assert_eq!(texts(&resume(&session)).last().unwrap(), "toolu_000000 toolu_000001 toolu_000002 go on");
}

#[test]
fn a_cut_starts_a_branch_and_the_newest_branch_wins() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    session.prompt("a");
    let point = session.text("b");
    session.prompt("c");
    session.text("d");
    let at = ResumeAt::Message { uuid: &point, drops_turn: None };
    let cut = load_for_resume(&session.path, at).unwrap();
    assert_eq!(texts(&cut), ["a", "b"]);
    assert_eq!(cut.last_uuid.as_deref(), Some(point.as_str()));
    session.last = cut.last_uuid;
    session.prompt("e");
    session.text("f");
    assert_eq!(texts(&resume(&session)), ["a", "b", "e", "f"]);
}

#[test]
fn a_cut_inside_an_answer_drops_its_later_calls() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    session.prompt("go");
    let blocks = session.answer(&[
        json!({ "type": "text", "text": "first" }),
        json!({ "type": "tool_use", "id": "t", "name": "B", "input": {} }),
    ]);
    session.result(&(blocks[1].clone(), "t".to_owned()), "x");
    session.text("done");
    let at = ResumeAt::Message { uuid: &blocks[0], drops_turn: None };
    let cut = load_for_resume(&session.path, at).unwrap();
    assert_eq!(texts(&cut), ["go", "first"]);
    // They stay dropped once the conversation has gone on from there.
    session.last = cut.last_uuid;
    session.prompt("instead");
    session.text("fine");
    assert_eq!(texts(&resume(&session)), ["go", "first", "instead", "fine"]);
}

#[test]
fn messages_for_people_are_not_sent_to_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    session.prompt("go");
    session.text("fine");
    let path = session.path.clone();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace(r#""apiBlockIndex":0"#, r#""isApiErrorMessage":true"#)).unwrap();
    assert_eq!(texts(&resume(&session)), ["go"]);
}

#[test]
fn attachments_come_back_only_if_they_are_conversation() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    session.prompt("go");
    session.attachment(&json!({ "type": "environment", "cwd": "/w" }));
    session.attachment(&json!({ "type": "queued_command", "prompt": "and this", "source_uuid": "q" }));
    session.attachment(&json!({ "type": "queued_command", "prompt": [{ "type": "text", "text": "that" }] }));
    let resumed = resume(&session);
    assert_eq!(texts(&resumed), ["go and this that"]);
    assert!(resumed.prompts.contains("q"));
    let text = std::fs::read_to_string(&session.path).unwrap();
    let shown = r#""rendered":"reminder","renderedRole":"user""#;
    std::fs::write(&session.path, text.replacen(r#""renderedRole":"system""#, shown, 1)).unwrap();
    assert_eq!(texts(&resume(&session)), ["go reminder and this that"]);
}

#[test]
fn a_file_without_a_conversation_resumes_empty() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("S.jsonl");
    std::fs::write(&path, "{\"type\":\"mode\",\"mode\":\"normal\",\"sessionId\":\"S\"}\nrubbish\n").unwrap();
    let resumed = load_for_resume(&path, ResumeAt::Latest).unwrap();
    assert!(resumed.messages.is_empty() && resumed.last_uuid.is_none());
    assert_eq!(resumed.mode.as_deref(), Some("normal"));
    let missing = load_for_resume(&dir.path().join("none.jsonl"), ResumeAt::Latest);
    assert!(matches!(missing, Err(TranscriptError::NotFound { .. })));
}

#[test]
fn a_ring_of_parents_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("S.jsonl");
    let record = |uuid: &str, parent: &str| {
        json!({ "type": "user", "uuid": uuid, "parentUuid": parent, "sessionId": "S", "message": { "content": uuid } }).to_string()
    };
    let text =
        [record("a", "c"), record("b", "a"), record("c", "b"), record("d", "c"), record("e", "e")].join("\n");
    std::fs::write(&path, text).unwrap();
    let resumed = load_for_resume(&path, ResumeAt::Latest).unwrap();
    assert_eq!(resumed.messages.len(), 1);
    assert_eq!(resumed.messages[0].role, Role::User);
}

#[test]
fn the_session_goes_on_in_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    session.turn("x");
    let path = session.path.clone();
    session.writer = TranscriptWriter::create(&dir.path().join("other"), Durability::ProcessCrash).unwrap();
    let writer = TranscriptWriter::open_existing(&path, Durability::ProcessCrash).unwrap();
    session.last = load_for_resume(&path, ResumeAt::Latest).unwrap().last_uuid;
    session.writer = writer;
    session.turn("y");
    let resumed = resume(&session);
    assert_eq!(resumed.turn_index, 2);
    assert_eq!(resumed.messages.len(), 8);
}

/// A server that counts its messages from one in every process: two answers share an id.
#[test]
fn answers_with_the_same_id_are_told_apart() {
    let record = |uuid: &str, parent: Option<&str>, kind: &str, content: serde_json::Value| {
        let message = match kind {
            "assistant" => json!({ "id": "msg_0001", "role": "assistant", "content": content }),
            _ => json!({ "role": "user", "content": content }),
        };
        let mut record =
            json!({ "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "S", "message": message });
        if kind == "assistant" {
            record["apiBlockIndex"] = json!(0);
        }
        format!("{record}\n")
    };
    let said = |text: &str| json!([{ "type": "text", "text": text }]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("S.jsonl");
    // Three runs; the third was cut behind the first answer, so that the second is an abandoned branch.
    let text = [
        record("p1", None, "user", json!("one")),
        record("a1", Some("p1"), "assistant", said("first")),
        record("p2", Some("a1"), "user", json!("two")),
        record("a2", Some("p2"), "assistant", said("second")),
        record("p3", Some("a1"), "user", json!("three")),
        record("a3", Some("p3"), "assistant", said("third")),
    ]
    .concat();
    std::fs::write(&path, text).unwrap();
    let resumed = load_for_resume(&path, ResumeAt::Latest).unwrap();
    assert_eq!(texts(&resumed), ["one", "first", "three", "third"]);
}

#[test]
fn a_prompt_that_joined_a_turn_is_dropped_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("S.jsonl");
    let user = |uuid: &str, parent: Option<&str>, turn: &str, position: Option<u64>| {
        let mut record = json!({ "type": "user", "uuid": uuid, "parentUuid": parent, "sessionId": "S",
            "promptId": turn, "message": { "role": "user", "content": uuid } });
        if let Some(index) = position {
            record["turnPosition"] = json!({ "promptIndex": 0, "turnIndex": index });
        }
        format!("{record}\n")
    };
    let joined =
        [user("a", None, "a", Some(1)), user("b", Some("a"), "b", Some(2)), user("c", Some("b"), "b", None)];
    std::fs::write(&path, joined.concat()).unwrap();
    let at = ResumeAt::Message { uuid: "a", drops_turn: Some("b") };
    assert!(load_for_resume(&path, at).is_ok());
    // The prompts of a fork may all carry one id: what has a number starts a turn all the same.
    let forked = [
        user("a", None, "x", Some(1)),
        user("b", Some("a"), "x", Some(2)),
        user("c", Some("b"), "x", Some(3)),
    ];
    std::fs::write(&path, forked.concat()).unwrap();
    assert!(matches!(load_for_resume(&path, at), Err(TranscriptError::DropsTurn { .. })));
}
