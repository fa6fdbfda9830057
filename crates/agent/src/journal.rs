//! Writes the session down: every frame that belongs to the conversation becomes a record before it is
//! shown, with the same id. A session that cannot be written goes on; the trouble is reported once.
//!
//! A host that keeps its own copy of the session (`--session-mirror`) gets every record as well, also
//! those for which the disk has no room.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use lathe_protocol::event::TranscriptMirror;
use lathe_protocol::{AssistantMessage, InboundUser, ModelUsage, UserMessage};
use lathe_transcript::record::{
    AssistantBody, AttachmentBody, CostState, Envelope, Line, Link, SideRecord, TurnPosition, UserBody,
};
use lathe_transcript::{Names, TranscriptError, TranscriptWriter};
use serde_json::{Map, Value};

mod marks;

pub use marks::{Boundary, CommandRecord};

/// Records in one frame of the mirror.
const MIRROR_BATCH: usize = 500;

/// Records that are remembered: more than a compaction keeps.
const MAX_RECENT: usize = 4096;

/// Where a session is written, and where in the chain it stands.
pub struct Journal {
    writer: Option<TranscriptWriter>,
    envelope: Envelope,
    /// The record that the next one follows.
    last: Option<String>,
    last_prompt: String,
    prompt_id: String,
    /// How many prompts have started a turn, over all runs of the session.
    turn_index: u64,
    /// The id under which the next prompt will be written, if hooks were told already.
    announced: Option<String>,
    /// The name the session has now.
    title: Option<String>,
    /// What lists of sessions are to find in the file.
    names: Names,
    /// The newest records of the conversation as the model has it, oldest first.
    recent: VecDeque<String>,
    /// Block number within the answer under way, by the answer's id.
    block: (String, usize),
    /// The record of that answer's first block.
    answer_record: Option<String>,
    troubles: Vec<String>,
    mirror: Option<Mirror>,
}

/// The records that the host has not got yet, for the file they belong to.
struct Mirror {
    path: PathBuf,
    records: Vec<Value>,
}

/// What a prompt starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starts {
    /// A turn of its own.
    Turn,
    /// Nothing: it joins the turn under way.
    Nothing,
}

/// Whether the model reads what the user wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    Shown,
    /// Notes of hooks stand for it, also after a resume; people still find it in the file.
    Hidden,
}

/// A prompt as it is written down.
#[derive(Debug, Clone, Copy)]
pub struct PromptRecord<'a> {
    pub prompt: &'a InboundUser,
    pub starts: Starts,
    pub words: Words,
    /// The record's id.
    pub uuid: &'a str,
    pub now: &'a str,
    /// The permission mode it is given in.
    pub mode: &'a str,
}

/// What the session has used, as the file keeps it.
pub struct Spent {
    pub cost_usd: f64,
    pub api_ms: u64,
    pub tool_ms: u64,
    pub lines_added: u64,
    pub lines_removed: u64,
    pub duration_ms: u64,
    pub started_ms: u64,
    pub has_unknown_cost: bool,
    pub model_usage: std::collections::BTreeMap<String, ModelUsage>,
}

impl Journal {
    /// A journal that writes to `writer`.
    pub fn new(writer: TranscriptWriter, envelope: Envelope) -> Self {
        Self { writer: Some(writer), ..Self::off(envelope) }
    }

    /// A journal of a session that is not kept.
    pub fn off(envelope: Envelope) -> Self {
        Self {
            writer: None,
            envelope,
            last: None,
            last_prompt: String::new(),
            prompt_id: String::new(),
            turn_index: 0,
            announced: None,
            title: None,
            names: Names::default(),
            recent: VecDeque::new(),
            block: (String::new(), 0),
            answer_record: None,
            troubles: Vec::new(),
            mirror: None,
        }
    }

    /// Hands every record to the host as well, as part of the file at `path`, beginning with `copied`.
    pub fn mirror(&mut self, path: &Path, copied: Vec<Value>) {
        self.mirror = Some(Mirror { path: path.to_owned(), records: copied });
    }

    /// Goes on behind a record of an earlier run, in which so many prompts have started a turn. `records` are
    /// those of the conversation.
    pub fn go_on_after(
        &mut self,
        last: Option<String>,
        turn_index: u64,
        records: impl IntoIterator<Item = String>,
    ) {
        records.into_iter().for_each(|record| self.follow(&record));
        self.last = last;
        self.turn_index = turn_index;
    }

    /// A prompt that starts a turn or joins it.
    pub fn prompt(&mut self, record: PromptRecord<'_>) {
        let PromptRecord { prompt, starts, words, uuid, now, mode } = record;
        let text = prompt.message.content.text();
        self.last_prompt = text.chars().take(1000).collect();
        let mut body = UserBody::prompt(&prompt.message);
        if starts == Starts::Turn {
            self.prompt_id = uuid.to_owned();
            self.turn_index += 1;
            body.turn_position = Some(TurnPosition { prompt_index: 0, turn_index: self.turn_index });
        }
        body.prompt_id = Some(&self.prompt_id);
        body.permission_mode = Some(mode);
        body.prompt_source = Some("sdk");
        body.turn_origin = Some("sdk");
        body.origin = prompt.origin.as_ref();
        body.is_visible_in_transcript_only = words == Words::Hidden;
        let link = Link { uuid, parent: self.last.as_deref(), timestamp: now };
        let line = self.envelope.line(link, &body);
        self.append(line);
        self.follow(uuid);
    }

    /// A block of an answer, or a message made up for a failed one.
    pub fn assistant(&mut self, frame: &AssistantMessage) {
        let now = frame.timestamp.as_deref().unwrap_or("");
        let link = Link { uuid: &frame.uuid, parent: self.last.as_deref(), timestamp: now };
        let line = match &frame.error {
            Some(error) => {
                let mut body = AssistantBody::api_error(&frame.message, error);
                body.api_error_status = frame.api_error_status;
                self.envelope.line(link, &body)
            }
            None => {
                self.block = if self.block.0 == frame.message.id {
                    (std::mem::take(&mut self.block.0), self.block.1 + 1)
                } else {
                    self.answer_record = Some(frame.uuid.clone());
                    (frame.message.id.clone(), 0)
                };
                let mut body = AssistantBody::block(&frame.message, self.block.1);
                body.request_id = frame.request_id.as_deref();
                self.envelope.line(link, &body)
            }
        };
        self.append(line);
        self.follow(&frame.uuid);
    }

    /// The answer to a tool call. It follows its own call, wherever the conversation is by now.
    pub fn tool_result(&mut self, frame: &UserMessage, call_uuid: &str) {
        let now = frame.timestamp.as_deref().unwrap_or("");
        let nothing = Value::Null;
        let result = frame.tool_use_result.as_ref().unwrap_or(&nothing);
        let mut body = UserBody::tool_result(&frame.message, call_uuid, result);
        body.prompt_id = Some(&self.prompt_id);
        let meta = frame.tool_result_meta.as_ref().and_then(|list| list.first());
        body.tool_denial_kind = meta.and_then(|meta| meta.non_execution_kind.as_deref());
        let link = Link { uuid: &frame.uuid, parent: Some(call_uuid), timestamp: now };
        let line = self.envelope.line(link, &body);
        self.append(line);
        self.follow(&frame.uuid);
    }

    /// Anything else on the user's side: notes to the model, marks of an interruption.
    pub fn user(&mut self, frame: &UserMessage) {
        let now = frame.timestamp.as_deref().unwrap_or("");
        let mut body = UserBody::prompt(&frame.message);
        body.prompt_id = Some(&self.prompt_id);
        body.is_meta = frame.is_synthetic == Some(true);
        let link = Link { uuid: &frame.uuid, parent: self.last.as_deref(), timestamp: now };
        let line = self.envelope.line(link, &body);
        self.append(line);
        self.follow(&frame.uuid);
    }

    /// The name a person gave the session.
    pub fn title(&mut self, title: &str) {
        self.title = Some(title.to_owned());
        let record = SideRecord::custom_title(&self.envelope.session_id, title);
        self.append(Line::of(&record));
    }

    /// The names that the session has from an earlier run; a title that this one was given counts instead.
    pub fn known_as(&mut self, title: Option<String>, tag: Option<String>) {
        self.title = self.title.take().or(title);
        if let Some(path) = self.path() {
            self.names = Names::of_session(path, self.title.clone(), tag);
        }
    }

    /// A mark in the conversation that the model does not see.
    pub fn attachment(&mut self, attachment: &Value, uuid: &str, now: &str) {
        let body = AttachmentBody { attachment, rendered: None, rendered_role: None };
        let link = Link { uuid, parent: self.last.as_deref(), timestamp: now };
        let line = self.envelope.line(link, &body);
        self.append(line);
        self.follow(uuid);
    }

    /// A fact beside the conversation.
    pub fn side(&mut self, record: &SideRecord) {
        self.append(Line::of(record));
    }

    /// The turn is over: what listings and a later run need to know.
    pub fn end_of_turn(&mut self, spent: Spent) {
        if self.writer.is_none() && self.mirror.is_none() {
            return;
        }
        let session = self.envelope.session_id.clone();
        let leaf = self.last.clone().unwrap_or_default();
        // A run without a prompt must not hide the last one from lists.
        if !self.last_prompt.is_empty() {
            let last_prompt = SideRecord::last_prompt(&session, &self.last_prompt, &leaf);
            self.append(Line::of(&last_prompt));
        }
        let model_usage: Map<String, Value> = spent
            .model_usage
            .into_iter()
            .map(|(model, usage)| (model, serde_json::to_value(usage).unwrap_or_default()))
            .collect();
        let cost = SideRecord::CostState(CostState {
            session_id: session,
            total_cost_usd: spent.cost_usd,
            total_api_duration: spent.api_ms,
            total_api_duration_without_retries: spent.api_ms,
            total_tool_duration: spent.tool_ms,
            total_lines_added: spent.lines_added,
            total_lines_removed: spent.lines_removed,
            total_duration: spent.duration_ms,
            start_time: spent.started_ms,
            model_usage,
            has_unknown_model_cost: spent.has_unknown_cost,
            extra: Map::new(),
        });
        self.append(Line::of(&cost));
        self.keep_names_in_sight();
        if let Some(writer) = &mut self.writer
            && let Err(error) = writer.end_turn()
        {
            self.troubles.push(error.to_string());
        }
    }

    /// Repeats the session's names where lists would not find them any more.
    fn keep_names_in_sight(&mut self) {
        let Some(path) = self.path().map(Path::to_owned) else { return };
        // A file that cannot be read now may be at the end of the next turn; nothing else hangs on it.
        let due = self.names.out_of_sight(&path, &self.envelope.session_id).unwrap_or_default();
        for record in due {
            self.append(Line::of(&record));
        }
    }

    /// Notes something for the host to hear about.
    pub fn report(&mut self, troubles: impl Iterator<Item = String>) {
        self.troubles.extend(troubles);
    }

    /// The name the session has now, as far as this run knows it.
    pub fn current_title(&self) -> Option<String> {
        self.title.clone()
    }

    /// A prompt is about to be written: hooks that see it first are told its id.
    pub fn announce_prompt(&mut self, uuid: String) {
        self.prompt_id.clone_from(&uuid);
        self.announced = Some(uuid);
    }

    /// The id that was announced for the prompt that is written now.
    pub fn take_announced(&mut self) -> Option<String> {
        self.announced.take()
    }

    /// The prompt of the turn under way; none before the first.
    pub fn prompt_id(&self) -> Option<String> {
        (!self.prompt_id.is_empty()).then(|| self.prompt_id.clone())
    }

    /// What went wrong since the last look, for the host to hear about.
    pub fn take_troubles(&mut self) -> Vec<String> {
        std::mem::take(&mut self.troubles)
    }

    /// The run is over: a last try for what waits for room on the disk. What is lost if that fails.
    pub fn close(&mut self) -> Option<String> {
        let writer = self.writer.as_mut()?;
        let failure = writer.end_turn().err();
        match (writer.held(), failure) {
            (0, None) => None,
            (0, Some(error)) => Some(format!("the end of this session was not saved: {error}")),
            (held, _) => Some(format!(
                "{held} record(s) of this session were not saved: until its end there was no room for them on \
                 the filesystem of {}",
                writer.path().display()
            )),
        }
    }

    /// The file, where there is one.
    pub fn path(&self) -> Option<&std::path::Path> {
        self.writer.as_ref().map(TranscriptWriter::path)
    }

    /// The next records that the host has not got yet.
    pub fn take_mirrored(&mut self) -> Option<TranscriptMirror> {
        let mirror = self.mirror.as_mut().filter(|mirror| !mirror.records.is_empty())?;
        let batch = mirror.records.len().min(MIRROR_BATCH);
        Some(TranscriptMirror {
            file_path: mirror.path.display().to_string(),
            entries: mirror.records.drain(..batch).collect(),
            ..TranscriptMirror::default()
        })
    }

    /// The next record follows this one.
    fn follow(&mut self, uuid: &str) {
        self.last = Some(uuid.to_owned());
        self.recent.push_back(uuid.to_owned());
        if self.recent.len() > MAX_RECENT {
            self.recent.pop_front();
        }
    }

    fn append(&mut self, line: Result<Line, TranscriptError>) {
        if let (Some(mirror), Ok(line)) = (&mut self.mirror, &line) {
            mirror.records.extend(serde_json::from_str(line.json()).ok());
        }
        let Some(writer) = &mut self.writer else { return };
        match line.and_then(|line| writer.append(&line)) {
            Ok(_) => {}
            Err(error @ TranscriptError::NoSpace { .. }) => self
                .troubles
                .push(format!("{error}: the session goes on, and is saved as soon as there is room")),
            Err(error) => self.troubles.push(format!("the session is not saved any more: {error}")),
        }
    }
}
