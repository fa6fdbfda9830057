//! Our readers against session files that the reference wrote, and against what the official Python SDK
//! returns for them. The recordings lie beside the repository; without them there is nothing to compare.

mod common;

use std::path::{Path, PathBuf};

use lathe_transcript::{
    Page, Record, ResumeAt, SessionPaths, SessionScope, Sessions, list_subagents, load_for_resume,
    session_messages, subagent_messages, verify,
};
use serde_json::Value;

/// A recording with a golden file: its name, the golden value, and its sessions.
type RecordedCase = (String, Value, Sessions);

/// Every recording with a golden file; none where there are no recordings.
fn cases() -> Option<Vec<RecordedCase>> {
    let dir = lathe_testkit::beside_repository("recordings/wire/_transcripts")?;
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(dir.join("golden")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let golden = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let sessions = Sessions::new(&dir.join(&name));
        cases.push((name, golden, sessions));
    }
    assert!(cases.len() > 10, "the golden files are there");
    Some(cases)
}

fn cwd_of(name: &str) -> PathBuf {
    Path::new("/rec/proto/w").join(name)
}

fn session_files() -> Option<Vec<PathBuf>> {
    let mut files = Vec::new();
    for (name, golden, sessions) in cases()? {
        for id in golden["messages"].as_object().unwrap().keys() {
            files.push(sessions.find_by_id_anywhere(&cwd_of(&name), id).unwrap().transcript());
        }
    }
    Some(files)
}

/// Long strings were shortened in the recorded sessions, but not in what the SDK made of them.
fn shortened(value: &Value) -> Value {
    match value {
        Value::String(text) if text.chars().count() > 300 && !text.ends_with(" characters]") => {
            let kept: String = text.chars().take(300).collect();
            Value::String(format!("{kept}…[{} characters]", text.chars().count()))
        }
        Value::Array(items) => items.iter().map(shortened).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), shortened(value))).collect(),
        other => other.clone(),
    }
}

#[test]
fn lists_match_the_sdk() {
    let Some(cases) = cases() else { return };
    for (name, golden, sessions) in cases {
        let cwd = cwd_of(&name);
        let listed = sessions.list(SessionScope::Projects(&[&cwd]), Page::default());
        let expected = golden["list"].as_array().unwrap();
        assert_eq!(listed.len(), expected.len(), "{name}");
        for row in expected {
            let id = row["session_id"].as_str().unwrap();
            let ours = sessions.info(&cwd, id).unwrap().unwrap_or_else(|| panic!("{name}: {id} is shown"));
            assert!(listed.contains(&ours), "{name}: {id} is listed");
            let mut ours = serde_json::to_value(ours).unwrap();
            // Times and sizes changed when the recordings were copied.
            for volatile in ["last_modified", "file_size"] {
                ours[volatile] = row[volatile].clone();
            }
            assert_eq!(&ours, row, "{name}");
        }
    }
}

#[test]
fn messages_match_the_sdk() {
    let Some(cases) = cases() else { return };
    for (name, golden, sessions) in cases {
        for (id, expected) in golden["messages"].as_object().unwrap() {
            let path = sessions.find_by_id_anywhere(&cwd_of(&name), id).unwrap().transcript();
            let ours = serde_json::to_value(session_messages(&path).unwrap()).unwrap();
            assert_eq!(ours, shortened(expected), "{name} {id}");
        }
    }
}

#[test]
fn subagents_match_the_sdk() {
    let mut seen = 0;
    let Some(cases) = cases() else { return };
    for (name, golden, sessions) in cases {
        for (id, expected) in golden["subagents"].as_object().unwrap() {
            let session = sessions.find_by_id_anywhere(&cwd_of(&name), id).unwrap();
            let ids = list_subagents(&session).unwrap();
            assert_eq!(ids, expected.as_object().unwrap().keys().cloned().collect::<Vec<_>>(), "{name}");
            for agent in ids {
                let ours = serde_json::to_value(subagent_messages(&session, &agent).unwrap()).unwrap();
                assert_eq!(ours, expected[&agent], "{name} {agent}");
                seen += 1;
            }
        }
    }
    assert!(seen > 0);
}

#[test]
fn every_recorded_line_survives_reading_and_writing() {
    let Some(files) = session_files() else { return };
    for path in files {
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let value: Value = serde_json::from_str(line).unwrap();
            let record = Record::parse(line).unwrap();
            let mut ours = record.to_value();
            // Totals that an older cost state lacks come out as zero.
            if let (Value::Object(ours), Value::Object(theirs)) = (&mut ours, &value) {
                ours.retain(|key, _| theirs.contains_key(key));
            }
            assert_eq!(ours, value);
        }
    }
}

#[test]
fn every_recorded_session_can_be_resumed_and_is_sound() {
    let Some(files) = session_files() else { return };
    for path in files {
        let resumed = load_for_resume(&path, ResumeAt::Latest).unwrap();
        assert!(!resumed.messages.is_empty() && resumed.warnings.is_empty(), "{}", path.display());
        common::assert_valid(&resumed.messages);
        let report = verify(&path).unwrap();
        assert!(report.is_sound(), "{}: {report:?}", path.display());
    }
}

/// The conversation of a recording in one line.
fn sketch(cases: &[RecordedCase], name: &str, id: &str, at: ResumeAt<'_>) -> String {
    let (_, _, sessions) = cases.iter().find(|case| case.0 == name).expect("it was recorded");
    let path = sessions.find_by_id_anywhere(&cwd_of(name), id).unwrap().transcript();
    let resumed = load_for_resume(&path, at).unwrap();
    let block = |raw: &serde_json::value::RawValue| {
        let value: Value = serde_json::from_str(raw.get()).unwrap();
        let text = ["text", "id", "tool_use_id"].iter().find_map(|key| value[*key].as_str()).unwrap_or("?");
        text.chars().take(14).collect::<String>()
    };
    let message = |message: &lathe_transcript::HistoryMessage| {
        message.blocks.iter().map(|raw| block(raw)).collect::<Vec<_>>().join("+")
    };
    resumed.messages.iter().map(message).collect::<Vec<_>>().join(" | ")
}

#[test]
fn resume_gives_the_model_what_it_had() {
    let Some(cases) = cases() else { return };
    let id = "1d230623-bc2d-4e6b-9a62-999c0c342320";
    let calls = "toolu_001_0+toolu_001_1+toolu_001_2";
    let parallel = sketch(&cases, "parallel", id, ResumeAt::Latest);
    assert_eq!(parallel, format!("go | par+{calls} | {calls} | Done."));
    let id = "d0514f63-c66e-4bd0-8737-dccd5ae00197";
    let branch = sketch(&cases, "resume_chain", id, ResumeAt::Latest);
    assert_eq!(branch, "first | A1 | branch | A6 | again | A7 | again | A8");
    let third = ResumeAt::Message { uuid: "ec4cab00-1755-48f9-8be0-20501702358a", drops_turn: None };
    let third = sketch(&cases, "resume_chain", id, third);
    assert_eq!(third, "first | A1 | second | A2 | third | A3");
    // A prompt that came while a turn ran stands only in an attachment.
    let id = "6c0ec237-850f-486f-a141-a6b7891aaf7f";
    let queued = sketch(&cases, "priority_queue", id, ResumeAt::Latest);
    assert!(queued.contains("mid default"), "{queued}");
    let id = "3e2dfe04-81ca-4f97-a135-444f9f9151e3";
    let compacted = sketch(&cases, "compact", id, ResumeAt::Latest);
    assert!(compacted.starts_with("This session i"), "it begins with the summary: {compacted}");
    assert!(!compacted.contains("first answer"), "{compacted}");
}

#[test]
fn a_cut_must_drop_the_turn_it_names() {
    let Some(cases) = cases() else { return };
    let (name, _, sessions) = cases.iter().find(|case| case.0 == "resume_chain").expect("it was recorded");
    let id = "d0514f63-c66e-4bd0-8737-dccd5ae00197";
    let path = sessions.find_by_id_anywhere(&cwd_of(name), id).unwrap().transcript();
    let resume = |uuid, turn| load_for_resume(&path, ResumeAt::Message { uuid, drops_turn: Some(turn) });
    let last_turn = "ce713e27-";
    let rows = session_messages(&path).unwrap();
    let find = |prefix: &str| rows.iter().find(|row| row.uuid.starts_with(prefix)).unwrap().uuid.clone();
    let (prompt, before, earlier) = (find(last_turn), find("c9b307f4-"), find("9dc6e7f5-"));
    assert_eq!(resume(&before, &prompt).unwrap().last_uuid.as_deref(), Some(before.as_str()));
    let refused = resume(&earlier, &prompt).unwrap_err().to_string();
    assert!(
        refused.starts_with("Resume rejected by --resume-drops-turn: resuming at 9dc6e7f5-"),
        "{refused}"
    );
    // The turn named comes first, but another follows it.
    let refused = resume(&earlier, &find("5962baeb-")).unwrap_err().to_string();
    assert!(refused.contains("ce713e27-"), "{refused}");
    let unknown = load_for_resume(&path, ResumeAt::Message { uuid: "nope", drops_turn: None }).unwrap_err();
    assert_eq!(unknown.to_string(), "No message found with message.uuid of: nope");
}

#[test]
fn side_records_come_back() {
    let Some(cases) = cases() else { return };
    let (name, _, sessions) = cases.iter().find(|case| case.0 == "bi_controls").expect("it was recorded");
    let paths: SessionPaths =
        sessions.find_by_id_anywhere(&cwd_of(name), "e97504f6-941a-474d-970e-36b4466877fc").unwrap();
    let resumed = load_for_resume(&paths.transcript(), ResumeAt::Latest).unwrap();
    assert_eq!(resumed.title.as_deref(), Some("My title"));
    assert_eq!(resumed.agent_name.as_deref(), Some("My title"));
    assert_eq!(resumed.permission_mode.as_deref(), Some("default"));
    assert_eq!(resumed.turn_index, 2);
    assert_eq!(resumed.cost_state.unwrap().total_cost_usd, 0.002);
    let first = session_messages(&paths.transcript()).unwrap().remove(0).uuid;
    assert!(resumed.prompts.contains(&first) && !resumed.prompts.contains("nobody"));
    assert_eq!(sessions.find_by_title(&cwd_of(name), " My title ").unwrap().session_id, paths.session_id());
    assert!(sessions.find_by_title(&cwd_of(name), "my titl").is_none());
}
