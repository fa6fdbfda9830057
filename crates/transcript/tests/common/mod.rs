//! Sessions made with the crate's own builders and writer, the way a run would make them.
#![allow(dead_code, reason = "each test file uses its part")]

mod api_rules;

use std::path::{Path, PathBuf};

use lathe_protocol::system::CompactMetadata;
use lathe_transcript::record::chain::TurnPosition;
use lathe_transcript::record::{AssistantBody, AttachmentBody, Envelope, Link, SystemBody, UserBody};
use lathe_transcript::{Durability, Line, SideRecord, TranscriptWriter};
use serde_json::{Value, json};

pub const SESSION: &str = "5e551011-0000-4000-8000-000000000001";
const TIME: &str = "2026-11-16T01:02:03.004Z";

/// Writes a session record by record.
pub struct Session {
    pub writer: TranscriptWriter,
    pub path: PathBuf,
    pub last: Option<String>,
    /// Chain records in the order of the file.
    pub uuids: Vec<String>,
    envelope: Envelope,
    answers: u64,
    turns: u64,
    calls: u64,
}

impl Session {
    pub fn create(dir: &Path) -> Self {
        let path = dir.join(format!("{SESSION}.jsonl"));
        Self {
            writer: TranscriptWriter::create(&path, Durability::ProcessCrash).unwrap(),
            path,
            last: None,
            uuids: Vec::new(),
            envelope: Envelope {
                session_id: SESSION.into(),
                cwd: "/w/project".into(),
                version: "2.1.325".into(),
                git_branch: Some("main".into()),
                entrypoint: "sdk-cli".into(),
                ..Envelope::default()
            },
            answers: 0,
            turns: 0,
            calls: 0,
        }
    }

    fn next_uuid(&mut self) -> String {
        let uuid = format!(
            "{:08x}-1111-4111-8111-{:012x}",
            self.uuids.len().wrapping_mul(0x9e37_79b1) as u32,
            self.uuids.len()
        );
        self.uuids.push(uuid.clone());
        uuid
    }

    fn write(&mut self, line: &Line) {
        self.writer.append(line).unwrap();
    }

    pub fn side(&mut self, record: &SideRecord) {
        self.write(&Line::of(record).unwrap());
    }

    pub fn prompt(&mut self, text: &str) -> String {
        self.turns += 1;
        let uuid = self.next_uuid();
        let message = json!({ "role": "user", "content": text });
        let turn_id = format!("turn-{}", self.turns);
        let body = UserBody {
            prompt_id: Some(&turn_id),
            permission_mode: Some("default"),
            prompt_source: Some("sdk"),
            turn_origin: Some("sdk"),
            turn_position: Some(TurnPosition { prompt_index: 0, turn_index: self.turns }),
            ..UserBody::prompt(&message)
        };
        let link = Link { uuid: &uuid, parent: self.last.as_deref(), timestamp: TIME };
        let line = self.envelope.line(link, &body).unwrap();
        self.write(&line);
        self.last = Some(uuid.clone());
        uuid
    }

    pub fn attachment(&mut self, attachment: &Value) {
        let uuid = self.next_uuid();
        let body = AttachmentBody { attachment, rendered: None, rendered_role: Some("system") };
        let link = Link { uuid: &uuid, parent: self.last.as_deref(), timestamp: TIME };
        let line = self.envelope.line(link, &body).unwrap();
        self.write(&line);
        self.last = Some(uuid);
    }

    /// Writes an answer of these blocks. Returns the record of each.
    pub fn answer(&mut self, blocks: &[Value]) -> Vec<String> {
        self.answers += 1;
        let mut uuids = Vec::new();
        for (index, block) in blocks.iter().enumerate() {
            let uuid = self.next_uuid();
            let message = json!({
                "id": format!("msg_{:06}", self.answers), "type": "message", "role": "assistant", "model": "claude-x",
                "content": [block], "stop_reason": "end_turn", "usage": { "input_tokens": 1, "output_tokens": 2 }
            });
            let link = Link { uuid: &uuid, parent: self.last.as_deref(), timestamp: TIME };
            let line = self.envelope.line(link, &AssistantBody::block(&message, index)).unwrap();
            self.write(&line);
            self.last = Some(uuid.clone());
            uuids.push(uuid);
        }
        uuids
    }

    pub fn text(&mut self, text: &str) -> String {
        self.answer(&[json!({ "type": "text", "text": text })]).remove(0)
    }

    /// An answer with `count` calls. Returns (call record, call id) of each.
    pub fn calls(&mut self, count: u64) -> Vec<(String, String)> {
        let ids: Vec<String> = (0..count).map(|nth| format!("toolu_{:06}", self.calls + nth)).collect();
        self.calls += count;
        let call = |id: &String| json!({ "type": "tool_use", "id": id, "name": "Bash", "input": { "command": "echo" } });
        let blocks: Vec<Value> = ids.iter().map(call).collect();
        self.answer(&blocks).into_iter().zip(ids).collect()
    }

    pub fn result(&mut self, (call, id): &(String, String), text: &str) -> String {
        let uuid = self.next_uuid();
        let message = json!({
            "role": "user",
            "content": [{ "type": "tool_result", "tool_use_id": id, "content": text, "is_error": false }]
        });
        let outcome = json!({ "stdout": text });
        let link = Link { uuid: &uuid, parent: Some(call), timestamp: TIME };
        let line = self.envelope.line(link, &UserBody::tool_result(&message, call, &outcome)).unwrap();
        self.write(&line);
        self.last = Some(uuid.clone());
        uuid
    }

    pub fn compact(&mut self, summary: &str) {
        let metadata =
            CompactMetadata { trigger: "auto".into(), pre_tokens: 1000, ..CompactMetadata::default() };
        self.compact_with(summary, metadata);
    }

    pub fn compact_with(&mut self, summary: &str, metadata: CompactMetadata) {
        let uuid = self.next_uuid();
        let logical = self.last.take();
        let body = SystemBody::compact_boundary(&metadata, logical.as_deref());
        let link = Link { uuid: &uuid, parent: None, timestamp: TIME };
        let line = self.envelope.line(link, &body).unwrap();
        self.write(&line);
        let message = json!({ "role": "user", "content": summary });
        let parent = uuid;
        let uuid = self.next_uuid();
        let link = Link { uuid: &uuid, parent: Some(&parent), timestamp: TIME };
        let line = self.envelope.line(link, &UserBody::compact_summary(&message)).unwrap();
        self.write(&line);
        self.last = Some(uuid);
    }

    /// One turn: prompt, context, one or three calls, results in another order than the calls, an answer.
    pub fn turn(&mut self, filler: &str) {
        let nth = self.turns;
        self.prompt(&format!("prompt {nth} {filler}"));
        self.attachment(&json!({ "type": "environment", "cwd": "/w" }));
        let mut calls = self.calls(if nth.is_multiple_of(3) { 3 } else { 1 });
        calls.rotate_left(1);
        for call in &calls {
            self.result(call, &format!("out {filler}"));
        }
        self.text(&format!("answer {nth} {filler}"));
        let leaf = self.last.clone().unwrap();
        self.side(&SideRecord::last_prompt(SESSION, &format!("prompt {nth}"), &leaf));
    }

    /// Turns until there are at least `records` chain records.
    pub fn grow(&mut self, records: usize, filler: &str) {
        while self.uuids.len() < records {
            self.turn(filler);
        }
    }
}

/// Random numbers that are the same in every run.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Fails unless the API would accept the conversation.
pub fn assert_valid(messages: &[lathe_transcript::HistoryMessage]) {
    let messages: Vec<Value> = messages
        .iter()
        .map(|message| {
            let blocks: Vec<Value> =
                message.blocks.iter().map(|raw| serde_json::from_str(raw.get()).unwrap()).collect();
            json!({ "role": message.role, "content": blocks })
        })
        .collect();
    api_rules::assert_accepted(&messages);
}
