//! Sessions in the form in which the reference writes them, made up for these tests: whatever kinds of records they
//! hold, the conversation that comes out is one the Messages API takes.

mod common;

use std::path::PathBuf;

use common::assert_valid;
use lathe_transcript::{ResumeAt, Resumed, load_for_resume};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A file of records, each following the one before it unless its parent is named.
struct SessionFile {
    folder: TempDir,
    lines: Vec<String>,
    last: Option<String>,
}

impl SessionFile {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), lines: Vec::new(), last: None }
    }

    fn add(&mut self, kind: &str, uuid: &str, parent: Option<&str>, fields: Value) -> &mut Self {
        let parent = parent.map(str::to_owned).or(self.last.take());
        let mut record = json!({
            "parentUuid": parent, "isSidechain": false, "type": kind, "uuid": uuid,
            "timestamp": "2026-11-16T00:02:23.105Z", "userType": "external", "entrypoint": "sdk-cli", "cwd": "/w",
            "sessionId": "s", "version": "2.1.325", "gitBranch": "HEAD",
        });
        for (key, value) in fields.as_object().unwrap() {
            record[key] = value.clone();
        }
        self.lines.push(record.to_string());
        self.last = Some(uuid.to_owned());
        self
    }

    fn prompt(&mut self, uuid: &str, content: Value) -> &mut Self {
        let message = json!({"role": "user", "content": content});
        self.add(
            "user",
            uuid,
            None,
            json!({"message": message, "promptSource": "sdk", "permissionMode": "default"}),
        )
    }

    /// A block of an answer.
    fn block(
        &mut self,
        uuid: &str,
        parent: Option<&str>,
        answer: &str,
        index: usize,
        block: Value,
    ) -> &mut Self {
        let message =
            json!({"id": answer, "type": "message", "role": "assistant", "model": "m", "content": [block]});
        self.add(
            "assistant",
            uuid,
            parent,
            json!({"message": message, "apiBlockIndex": index, "requestId": "r"}),
        )
    }

    fn result(&mut self, uuid: &str, call_record: &str, call: &str, content: Value) -> &mut Self {
        let block = json!({"type": "tool_result", "tool_use_id": call, "content": content});
        let message = json!({"role": "user", "content": [block]});
        let fields = json!({"message": message, "toolUseResult": {}, "sourceToolAssistantUUID": call_record});
        self.add("user", uuid, Some(call_record), fields)
    }

    fn attachment(&mut self, uuid: &str, kind: &str, role: &str, rendered: Value) -> &mut Self {
        let fields = json!({"attachment": {"type": kind}, "rendered": rendered, "renderedRole": role});
        self.add("attachment", uuid, None, fields)
    }

    fn resume(&self) -> Resumed {
        let path: PathBuf = self.folder.path().join("s.jsonl");
        std::fs::write(&path, self.lines.join("\n") + "\n").unwrap();
        let resumed = load_for_resume(&path, ResumeAt::Latest).unwrap();
        assert_valid(&resumed.messages);
        resumed
    }
}

/// The conversation: a line for each message, its blocks by what is said in them.
fn sketch(resumed: &Resumed) -> Vec<String> {
    let block = |raw: &serde_json::value::RawValue| {
        let value: Value = serde_json::from_str(raw.get()).unwrap();
        match value["type"].as_str().unwrap() {
            "text" => value["text"].as_str().unwrap().to_owned(),
            "tool_use" => format!("call:{}{}", value["id"].as_str().unwrap(), value["input"]),
            "tool_result" => format!("result:{}", value["tool_use_id"].as_str().unwrap()),
            other => other.to_owned(),
        }
    };
    let messages = resumed.messages.iter();
    messages.map(|m| m.blocks.iter().map(|raw| block(raw)).collect::<Vec<_>>().join(" | ")).collect()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call(id: &str, input: Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Bash", "input": input})
}

fn thinking(signature: &str) -> Value {
    json!({"type": "thinking", "thinking": "hm", "signature": signature})
}

#[test]
fn attachments_of_the_users_side_become_texts() {
    let mut file = SessionFile::new();
    file.prompt("p", json!("first"));
    for (nth, kind) in ["environment", "model", "skill_listing", "date"].into_iter().enumerate() {
        file.attachment(&format!("e{nth}"), kind, "system", json!([{"content": "surroundings"}]));
    }
    file.add("attachment", "ctx", None, json!({"attachment": {"type": "session_context"}}));
    file.attachment("n1", "remote_session_change", "user", json!([{"content": "<system-reminder>one"}]));
    file.attachment("n2", "hook_additional_context", "user", json!([{"content": [text("two"), text(" ")]}]));
    file.attachment("n3", "unknown_command_fallback", "user", json!([{"role": "user", "content": "three"}]));
    file.attachment("n4", "of_a_later_version", "user", json!("four"));
    file.attachment("n5", "of_a_later_version", "user", json!([{"unknown": 1}, 7, null, []]));
    file.attachment("n6", "of_a_later_version", "user", json!({"a": 1}));
    file.add(
        "attachment",
        "snap",
        None,
        json!({"attachment": {"type": "prompt_snapshot"}, "rendered": null}),
    );
    file.block("a", None, "msg_1", 0, text("answer"));
    file.add("system", "stop", None, json!({"subtype": "stop_hook_summary", "content": "x"}));
    let queued = json!({"attachment": {"type": "queued_command", "prompt": "queued", "source_uuid": "q"}, "renderedRole": "system"});
    file.add("attachment", "q1", None, queued);
    let picture =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}});
    let queued = json!({"attachment": {"type": "queued_command", "prompt": [text("look"), picture]}});
    file.add("attachment", "q2", None, queued);
    file.attachment("n7", "budget_usd", "user", json!([{"content": "five"}]));
    let resumed = file.resume();
    assert_eq!(
        sketch(&resumed),
        ["first | <system-reminder>one | two | three | four", "answer", "queued | look | image | five"]
    );
    assert!(resumed.prompts.contains("q") && resumed.warnings.is_empty(), "{:?}", resumed.warnings);
}

/// Parallel calls: the records of an answer follow each other, each result follows its call, and the session goes
/// on behind whichever result came last.
#[test]
fn an_answer_with_parallel_calls_is_one_message() {
    let expected = [
        "go",
        "thinking | par | call:c1{} | call:c2{} | call:c3{}",
        "result:c1 | result:c2 | result:c3 | noted",
        "done",
    ];
    // Result 1 is written before call 2; call 2 follows call 1, as in the reference, or result 1, as in Lathe. Or it
    // is written behind call 2, which then follows call 1, and call 3 follows the result.
    for (parent_of_second, parent_of_third) in [("a2", "a3"), ("r1", "a3"), ("a2", "r1")] {
        for last in ["r1", "r2", "r3"] {
            let mut file = SessionFile::new();
            file.prompt("p", json!("go"));
            file.block("a0", None, "msg_1", 0, thinking("s"));
            file.block("a1", None, "msg_1", 1, text("par"));
            file.block("a2", None, "msg_1", 2, call("c1", json!({})));
            if parent_of_third != "r1" {
                file.result("r1", "a2", "c1", json!("one"));
            }
            file.block("a3", Some(parent_of_second), "msg_1", 3, call("c2", json!({})));
            if parent_of_third == "r1" {
                file.result("r1", "a2", "c1", json!("one"));
            }
            file.block("a4", Some(parent_of_third), "msg_1", 4, call("c3", json!({})));
            file.result("r3", "a4", "c3", json!("three"));
            file.result("r2", "a3", "c2", json!("two"));
            let note = json!({"attachment": {"type": "hook_additional_context"}, "renderedRole": "user",
                "rendered": [{"content": "noted"}]});
            file.add("attachment", "n", Some(last), note);
            file.block("b", None, "msg_2", 0, text("done"));
            assert_eq!(sketch(&file.resume()), expected, "{parent_of_second} {parent_of_third} {last}");
        }
    }
}

#[test]
fn notes_between_the_blocks_of_an_answer_come_behind_its_results() {
    let mut file = SessionFile::new();
    file.prompt("p", json!("go"));
    file.block("a1", None, "msg_1", 0, call("c1", json!({})));
    file.result("r1", "a1", "c1", json!("one"));
    file.attachment("n1", "hook_additional_context", "user", json!([{"content": "note"}]));
    let meta = json!({"isMeta": true, "message": {"role": "user", "content": "meta"}});
    file.add("user", "m", None, meta);
    file.block("a2", None, "msg_1", 1, call("c2", json!({})));
    file.result("r2", "a2", "c2", json!("two"));
    let expected = ["go", "call:c1{} | call:c2{}", "result:c1 | result:c2 | note | meta"];
    assert_eq!(sketch(&file.resume()), expected);
    // Answers that share an id: a server that counts from one, and a file without block numbers.
    let mut file = SessionFile::new();
    file.prompt("p", json!("go"));
    for round in ["1", "2"] {
        let message =
            json!({"id": "msg", "role": "assistant", "content": [call(&format!("c{round}"), json!({}))]});
        file.add("assistant", &format!("a{round}"), None, json!({"message": message}));
        file.result(&format!("r{round}"), &format!("a{round}"), &format!("c{round}"), json!("x"));
    }
    assert_eq!(sketch(&file.resume()), ["go", "call:c1{}", "result:c1", "call:c2{}", "result:c2"]);
}

#[test]
fn calls_and_results_of_every_shape_can_be_sent() {
    let mut file = SessionFile::new();
    let marked = json!({"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}});
    file.prompt("p", json!([marked, text(""), text(&" ".repeat(500))]));
    let inputs = [json!({"a": 1}), json!("{\"a\":2}"), json!("rm"), json!(null), json!([1]), json!(7)];
    let contents = [
        json!("x"),
        json!(null),
        json!([text("a"), text("")]),
        json!(" \n"),
        json!([{"type": "resource", "uri": "u"}, "b"]),
        json!({"odd": true}),
    ];
    for (nth, (input, content)) in inputs.into_iter().zip(contents).enumerate() {
        let (record, id) = (format!("a{nth}"), format!("c{nth}"));
        file.block(&record, None, &format!("msg_{nth}"), 0, thinking(if nth == 0 { "s" } else { "" }));
        file.block(&format!("{record}b"), None, &format!("msg_{nth}"), 1, call(&id, input));
        file.result(&format!("r{nth}"), &format!("{record}b"), &id, content);
    }
    let expected = [
        "go",
        "thinking | call:c0{\"a\":1}",
        "result:c0",
        "call:c1{\"a\":2}",
        "result:c1",
        "call:c2{\"input\":\"rm\"}",
        "result:c2",
        "call:c3{}",
        "result:c3",
        "call:c4{\"input\":[1]}",
        "result:c4",
        "call:c5{\"input\":7}",
        "result:c5",
    ];
    assert_eq!(sketch(&file.resume()), expected);
}

#[test]
fn a_list_of_todos_that_is_none_does_no_harm() {
    for (input, todos) in [
        (json!("text"), json!(null)),
        (json!([1]), json!(null)),
        (json!("{\"todos\":[1]}"), json!([1])),
        (json!({"todos": [2]}), json!([2])),
    ] {
        let mut file = SessionFile::new();
        file.prompt("p", json!("go"));
        let call = json!({"type": "tool_use", "id": "c", "name": "TodoWrite", "input": input});
        file.block("a", None, "msg_1", 0, call);
        file.result("r", "a", "c", json!("ok"));
        assert_eq!(file.resume().todos, Some(todos));
    }
}

#[test]
fn ids_that_come_again_and_ids_of_other_servers_are_changed() {
    let mut file = SessionFile::new();
    for round in 0..3 {
        file.prompt(&format!("p{round}"), json!("go"));
        let (record, id) = (format!("a{round}"), "functions.Bash:0");
        file.block(&record, None, &format!("msg_{round}"), 0, call(id, json!({"round": round})));
        file.result(&format!("r{round}"), &record, id, json!(round.to_string()));
    }
    let expected = [
        "go",
        "call:functions_Bash_0{\"round\":0}",
        "result:functions_Bash_0 | go",
        "call:functions_Bash_0-2{\"round\":1}",
        "result:functions_Bash_0-2 | go",
        "call:functions_Bash_0-3{\"round\":2}",
        "result:functions_Bash_0-3",
    ];
    assert_eq!(sketch(&file.resume()), expected);
}

#[test]
fn halves_of_surrogate_pairs_do_not_spoil_the_request() {
    let mut file = SessionFile::new();
    file.prompt("p", json!("cut HERE"));
    file.attachment("n", "hook_additional_context", "user", json!([{"content": "note HERE"}]));
    file.block("a", None, "msg_1", 0, call("c", json!({"command": "HERE"})));
    file.result("r", "a", "c", json!("\u{1f600} HERE"));
    for line in &mut file.lines {
        *line = line.replace("HERE", "\\ud83d");
    }
    let expected = ["cut \u{fffd} | note \u{fffd}", "call:c{\"command\":\"\u{fffd}\"}", "result:c"];
    assert_eq!(sketch(&file.resume()), expected);
}

#[test]
fn failures_and_words_for_people_are_left_out() {
    let mut file = SessionFile::new();
    file.prompt("p", json!("go"));
    file.block("t", None, "msg_1", 0, thinking("s"));
    let failure = json!({"isApiErrorMessage": true, "error": "unknown",
        "message": {"id": "x", "role": "assistant", "content": [text("API Error")]}});
    file.add("assistant", "f", None, failure);
    file.add("system", "e", None, json!({"subtype": "api_error", "content": "x"}));
    file.prompt("i", json!([text("[Request interrupted by user]")]));
    let shown = json!({"isVisibleInTranscriptOnly": true, "message": {"role": "user", "content": "/cost"}});
    file.add("user", "c", None, shown);
    file.prompt("p2", json!("again"));
    file.block("a", None, "msg_2", 0, text("yes"));
    file.block("h", None, "msg_2", 1, json!({"type": "redacted_thinking", "data": "x"}));
    assert_eq!(sketch(&file.resume()), ["go | [Request interrupted by user] | again", "yes"]);
}
