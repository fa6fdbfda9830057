//! The records that are neither prompt nor response: compactions, commands, the beginning of another session. None of
//! them changes what is in the file already.

use lathe_protocol::UserMessage;
use lathe_protocol::message::UserTurn;
use lathe_protocol::system::CompactMetadata;
use lathe_transcript::record::{AttachmentBody, Link, SystemBody, UserBody};
use serde_json::{Map, json};

use super::AgentJournal;

/// A compaction as it is recorded.
pub struct CompactBoundaryRecord<'a> {
    pub uuid: &'a str,
    pub now: &'a str,
    /// The same as in the frame, with the ids of the records that stay.
    pub metadata: &'a CompactMetadata,
    /// The records of the part that stays word for word, oldest first.
    pub kept: Vec<String>,
    /// The summary that follows the boundary.
    pub summary: &'a UserMessage,
}

/// A command that the session ran itself.
pub struct CommandRecord<'a> {
    pub name: &'a str,
    pub args: &'a str,
    /// The record of the command.
    pub uuid: &'a str,
    /// The record of its output, and the output.
    pub output: (&'a str, &'a str),
    pub now: &'a str,
}

impl AgentJournal {
    /// Returns the id of the record that holds the first block of the last response; `None` before the first response.
    pub fn answer_record(&self) -> Option<String> {
        self.answer_record.clone()
    }

    /// Returns the id of the last record, which the next one will name as its parent; `None` before the first record.
    pub fn last_record(&self) -> Option<String> {
        self.last.clone()
    }

    /// Returns the records of the conversation from the record `head` on, oldest first; none if it is not among the
    /// newest.
    pub fn records_from(&self, head: &str) -> Vec<String> {
        let from = self.recent.iter().position(|record| record == head).unwrap_or(self.recent.len());
        self.recent.iter().skip(from).cloned().collect()
    }

    /// Records a boundary and the summary behind it; afterwards the conversation consists of the kept records. A run
    /// that dies between the two leaves a boundary without a summary: readers ignore it, and the conversation goes on
    /// as it was.
    pub fn compacted(&mut self, boundary: CompactBoundaryRecord<'_>) {
        let body = SystemBody::compact_boundary(boundary.metadata, self.last.as_deref());
        let link = Link { uuid: boundary.uuid, parent: None, timestamp: boundary.now };
        let line = self.envelope.line(link, &body);
        self.append(line);
        let mut body = UserBody::compact_summary(&boundary.summary.message);
        body.prompt_id = Some(&self.prompt_id).filter(|id| !id.is_empty()).map(String::as_str);
        let summary = &boundary.summary.uuid;
        let link = Link { uuid: summary, parent: Some(boundary.uuid), timestamp: boundary.now };
        let line = self.envelope.line(link, &body);
        self.append(line);
        self.last = Some(summary.clone());
        self.recent = boundary.kept.into();
    }

    /// Records a text of the runtime for the model, which the host is not shown.
    pub fn note(&mut self, uuid: &str, now: &str, text: &str) {
        let message = UserTurn::new(text.to_owned());
        let mut body = UserBody::prompt(&message);
        body.is_meta = true;
        let link = Link { uuid, parent: self.last.as_deref(), timestamp: now };
        let line = self.envelope.line(link, &body);
        self.append(line);
        self.follow(uuid);
    }

    /// Records what the runtime told the model after the last record, in the same words, so that a later run tells it
    /// again at the same place. `task_runs` are the runs of tasks whose ends the note tells, so that none tells them
    /// again. The last argument is the record's id and time.
    pub fn told(&mut self, note: &str, rendered: &str, task_runs: &[&str], (uuid, now): (&str, &str)) {
        let mut attachment = json!({"type": "hook_additional_context", "content": [note]});
        if let Some(first) = task_runs.first() {
            attachment["runId"] = json!(first);
            attachment["runIds"] = json!(task_runs);
        }
        let body =
            AttachmentBody { attachment: &attachment, rendered: Some(rendered), rendered_role: Some("user") };
        let link = Link { uuid, parent: self.last.as_deref(), timestamp: now };
        let line = self.envelope.line(link, &body);
        self.append(line);
        self.follow(uuid);
    }

    /// Records a command and its output. Both are for people who read the session; the model does not get them.
    pub fn command(&mut self, command: &CommandRecord<'_>) {
        let (name, args) = (command.name, command.args);
        let text = format!(
            "<command-name>/{name}</command-name>\n<command-message>{name}</command-message>\n\
             <command-args>{args}</command-args>"
        );
        let message = UserTurn::new(text);
        let mut body = UserBody::prompt(&message);
        body.is_visible_in_transcript_only = true;
        let link = Link { uuid: command.uuid, parent: self.last.as_deref(), timestamp: command.now };
        let line = self.envelope.line(link, &body);
        self.append(line);
        let (uuid, output) = command.output;
        let output = format!("<local-command-stdout>{output}</local-command-stdout>");
        let mut extra = Map::new();
        extra.insert("commandRun".to_owned(), json!({"command": name, "args": args}));
        let body = SystemBody { extra, ..SystemBody::new("local_command", &output, "info") };
        let link = Link { uuid, parent: Some(command.uuid), timestamp: command.now };
        let line = self.envelope.line(link, &body);
        self.append(line);
        self.follow(uuid);
    }

    /// Starts the chain of records again for another session id, in a new file beside the old one.
    pub fn begin_anew(&mut self, session_id: &str) {
        self.envelope.session_id = session_id.to_owned();
        (self.last, self.answer_record) = (None, None);
        self.recent.clear();
        self.last_prompt.clear();
        self.prompt_id.clear();
        self.turn_index = 0;
        self.announced = None;
        self.block = (String::new(), 0);
        self.files.begin_anew(session_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::journal::{PromptRecord, PromptStarts, PromptWords};
    use lathe_protocol::InboundUser;
    use lathe_transcript::record::Envelope;
    use lathe_transcript::{Durability, ResumeAt, TranscriptWriter, load_for_resume};

    fn journal(path: &std::path::Path) -> AgentJournal {
        let envelope = Envelope { session_id: "s".into(), cwd: "/".into(), ..Envelope::default() };
        AgentJournal::new(TranscriptWriter::create(path, Durability::ProcessCrash).unwrap(), envelope)
    }

    fn say(journal: &mut AgentJournal, text: &str, uuid: &str) {
        let prompt = InboundUser { message: UserTurn::new(text.to_owned()), ..InboundUser::default() };
        let (starts, words) = (PromptStarts::Turn, PromptWords::Shown);
        journal.prompt(PromptRecord {
            prompt: &prompt,
            told: &prompt,
            starts,
            words,
            uuid,
            now: "T",
            mode: "default",
        });
    }

    fn summary(text: &str) -> UserMessage {
        UserMessage { message: UserTurn::new(text.to_owned()), uuid: "sum".into(), ..UserMessage::default() }
    }

    fn texts(path: &std::path::Path) -> Vec<String> {
        let resumed = load_for_resume(path, ResumeAt::Latest).unwrap();
        resumed.messages.iter().flat_map(|m| m.blocks.iter().map(|b| b.get().to_owned())).collect()
    }

    #[test]
    fn a_boundary_hides_the_past_and_deletes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let mut journal = journal(&path);
        say(&mut journal, "the old days", "p1");
        let metadata = CompactMetadata { trigger: "manual".into(), ..CompactMetadata::default() };
        let said = summary("what was said");
        journal.compacted(CompactBoundaryRecord {
            uuid: "b",
            now: "T",
            metadata: &metadata,
            kept: Vec::new(),
            summary: &said,
        });
        journal.note("n", "T", "a note");
        let command =
            CommandRecord { name: "compact", args: "", uuid: "c", output: ("o", "Compacted"), now: "T" };
        journal.command(&command);
        say(&mut journal, "the new days", "p2");
        let loaded = texts(&path).join("\n");
        for (text, is_there) in [
            ("what was said", true),
            ("a note", true),
            ("the new days", true),
            ("old days", false),
            ("Compacted", false),
        ] {
            assert_eq!(loaded.contains(text), is_there, "{text}: {loaded}");
        }
        assert!(std::fs::read_to_string(&path).unwrap().contains("the old days"));
    }

    /// Tools run while the response streams in, so a result may be written between two calls of one response.
    #[test]
    fn an_answer_is_whole_again_whatever_was_written_between_its_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let mut journal = journal(&path);
        say(&mut journal, "go", "p1");
        for id in ["1", "2"] {
            let call = json!({"type": "tool_use", "id": id, "name": "Bash", "input": {}});
            let answer =
                json!({"id": "msg", "type": "message", "role": "assistant", "model": "m", "content": [call]});
            let uuid = format!("a{id}");
            let frame = json!({"type": "assistant", "message": answer, "uuid": uuid, "session_id": "s"});
            journal.assistant(&serde_json::from_value(frame).unwrap());
            let result = json!({"type": "tool_result", "tool_use_id": id, "content": "x"});
            let message = json!({"role": "user", "content": [result]});
            let frame =
                json!({"type": "user", "message": message, "uuid": format!("r{id}"), "session_id": "s"});
            journal.tool_result(&serde_json::from_value(frame).unwrap(), &uuid);
            journal.told("note", "<note>", &[], (&format!("n{id}"), "T"));
        }
        let resumed = load_for_resume(&path, ResumeAt::Latest).unwrap();
        let uuids: Vec<&[String]> = resumed.messages.iter().map(|message| &message.uuids[..]).collect();
        assert_eq!(uuids, [&["p1"][..], &["a1", "a2"], &["r1", "r2", "n1", "n2"]], "{:?}", texts(&path));
    }

    #[test]
    fn a_run_that_died_at_the_boundary_goes_on_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let mut journal = journal(&path);
        say(&mut journal, "the old days", "p1");
        let said = summary("never written");
        let metadata = CompactMetadata::default();
        journal.compacted(CompactBoundaryRecord {
            uuid: "b",
            now: "T",
            metadata: &metadata,
            kept: Vec::new(),
            summary: &said,
        });
        let whole = std::fs::read_to_string(&path).unwrap();
        let cut: Vec<&str> = whole.lines().take(2).collect();
        drop(journal);
        std::fs::write(&path, cut.join("\n")).unwrap();
        assert!(texts(&path).concat().contains("the old days"));
    }

    #[test]
    fn another_session_gets_a_file_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let mut journal = journal(&path);
        say(&mut journal, "first", "p1");
        journal.begin_anew("t");
        assert_eq!(journal.prompt_id(), None);
        say(&mut journal, "second", "p2");
        let second = std::fs::read_to_string(dir.path().join("t.jsonl")).unwrap();
        assert!(second.contains("\"parentUuid\":null") && second.contains("\"sessionId\":\"t\""), "{second}");
        assert!(!std::fs::read_to_string(&path).unwrap().contains("second"));
        assert!(journal.files().take_troubles().is_empty());
    }
}
