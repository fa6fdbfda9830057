//! Records the session: every frame that belongs to the conversation becomes a record before it is shown, with the same
//! id. A session that cannot be written goes on; the problem is reported once.
//!
//! [`SessionFiles`] belongs to the session and knows the disk and the host's mirror; an [`AgentJournal`] belongs to one
//! agent and knows which record follows which.

use std::collections::VecDeque;
use std::sync::Arc;

use lathe_protocol::text::first_chars;
use lathe_protocol::{AssistantMessage, InboundUser, ModelUsage, UserMessage};
use lathe_transcript::record::{
    AssistantBody, AttachmentBody, CostState, Envelope, Line, Link, SideRecord, TurnPosition, UserBody,
};
use lathe_transcript::{TranscriptError, TranscriptWriter};
use serde_json::{Map, Value};

mod files;
mod marks;

pub use files::{SessionFile, SessionFiles};
pub use marks::{CommandRecord, CompactBoundaryRecord};

/// The number of records that are remembered: more than a compaction keeps.
const MAX_RECENT: usize = 4096;

/// The place of an agent's next record in its conversation. Borrowed by the agent's turn alone.
pub struct AgentJournal {
    /// The files that records go to.
    files: Arc<SessionFiles>,
    file: SessionFile,
    envelope: Envelope,
    /// The record that the next one follows.
    last: Option<String>,
    last_prompt: String,
    prompt_id: String,
    /// How many prompts have started a turn, over all runs of the session.
    turn_index: u64,
    /// The id under which the next prompt will be recorded, if hooks have been told it.
    announced: Option<String>,
    /// The newest records of the conversation as the model has it, oldest first.
    recent: VecDeque<String>,
    /// Block number within the current response, by the id of the response.
    block: (String, usize),
    /// The record of the first block of that response.
    answer_record: Option<String>,
}

/// What a prompt starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptStarts {
    /// A turn of its own.
    Turn,
    /// Nothing: it joins the current turn.
    Nothing,
}

/// Whether the model reads what the user wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptWords {
    Shown,
    /// Notes of hooks take its place, also after a resume; people still find it in the file.
    Hidden,
}

/// A prompt as it is recorded.
#[derive(Debug, Clone, Copy)]
pub struct PromptRecord<'a> {
    /// As it was written.
    pub prompt: &'a InboundUser,
    /// As the model got it.
    pub told: &'a InboundUser,
    pub starts: PromptStarts,
    pub words: PromptWords,
    /// The record's id.
    pub uuid: &'a str,
    pub now: &'a str,
    /// The permission mode when it was given.
    pub mode: &'a str,
}

/// What the session has used, as the file keeps it.
pub struct SpentTotals {
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

impl AgentJournal {
    /// Creates the journal of the main agent, which writes to `writer`.
    pub fn new(writer: TranscriptWriter, envelope: Envelope) -> Self {
        Self::of_file(Arc::new(SessionFiles::new(Some(writer))), SessionFile::Main, envelope)
    }

    /// Creates the journal of a session that keeps no records; everything else works as usual.
    pub fn off(envelope: Envelope) -> Self {
        Self::of_file(Arc::new(SessionFiles::new(None)), SessionFile::Main, envelope)
    }

    /// Creates a journal that writes to one of the files of a session; child agents have a file each.
    pub fn of_file(files: Arc<SessionFiles>, file: SessionFile, envelope: Envelope) -> Self {
        Self {
            files,
            file,
            envelope,
            last: None,
            last_prompt: String::new(),
            prompt_id: String::new(),
            turn_index: 0,
            announced: None,
            recent: VecDeque::new(),
            block: (String::new(), 0),
            answer_record: None,
        }
    }

    /// Returns the files of the session that this journal belongs to.
    pub fn files(&self) -> &Arc<SessionFiles> {
        &self.files
    }

    /// Returns the fields that every record of this journal begins with.
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// Continues the chain of records of an earlier run behind the record `last`. `records` are those of its
    /// conversation, oldest first; `turn_index` is the number of prompts that have started a turn.
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

    /// Records a prompt. One that starts a turn gives the turn its prompt id and is counted in `turn_index`; one that
    /// joins keeps the id of the current turn. Every record names the one before it, so the order of these calls is the
    /// order of the conversation; this holds for all methods below.
    pub fn prompt(&mut self, record: PromptRecord<'_>) {
        let PromptRecord { prompt, told, starts, words, uuid, now, mode } = record;
        let text = prompt.message.content.text();
        // For lists of sessions, which show the beginning only.
        self.last_prompt = first_chars(&text, 1000).to_owned();
        let mut body = UserBody::prompt(&told.message);
        if starts == PromptStarts::Turn {
            self.prompt_id = uuid.to_owned();
            self.turn_index += 1;
            body.turn_position = Some(TurnPosition { prompt_index: 0, turn_index: self.turn_index });
        }
        body.prompt_id = Some(&self.prompt_id);
        body.permission_mode = Some(mode);
        body.prompt_source = Some("sdk");
        body.turn_origin = Some("sdk");
        body.origin = prompt.origin.as_ref();
        body.is_visible_in_transcript_only = words == PromptWords::Hidden;
        let link = Link { uuid, parent: self.last.as_deref(), timestamp: now };
        let line = self.envelope.line(link, &body);
        self.append(line);
        self.follow(uuid);
    }

    /// Records a block of a response, or the message that stands for a failed one. Blocks with the same message id
    /// become one response when the file is read.
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
                // A response is recorded block by block, so the same id means the same response.
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

    /// Records the result of a tool call. Its parent is the record of its own call, `call_uuid`, also when other
    /// records have come in between; the next record follows the result.
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

    /// Records a user message that is neither a prompt nor the result of a call: a note to the model, or the mark of an
    /// interruption. A synthetic one is marked as such (`isMeta`), because no person wrote it.
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

    /// Records a mark in the conversation that the model is not shown.
    pub fn attachment(&mut self, attachment: &Value, uuid: &str, now: &str) {
        let body = AttachmentBody { attachment, rendered: None, rendered_role: None };
        let link = Link { uuid, parent: self.last.as_deref(), timestamp: now };
        let line = self.envelope.line(link, &body);
        self.append(line);
        self.follow(uuid);
    }

    /// Writes the records that close a turn: the last prompt of this run, for lists of sessions (left out if there was
    /// none, so that an earlier one stays visible), and the cost so far, for a later run. Makes sure that all records
    /// of the session are in its file; a failure is kept for [`SessionFiles::take_troubles`]. Does nothing if the
    /// session is not kept.
    pub fn end_of_turn(&mut self, spent: SpentTotals) {
        if !self.files.are_kept() {
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
        self.files.end_turn(&self.envelope.session_id);
    }

    /// Announces the id of the prompt that will be recorded next, because hooks see the prompt and its id first.
    /// [`Self::prompt_id`] returns it from now on.
    pub fn announce_prompt(&mut self, uuid: String) {
        self.prompt_id.clone_from(&uuid);
        self.announced = Some(uuid);
    }

    /// Takes the id announced by [`Self::announce_prompt`], for the record that is written now; `None` if none was
    /// announced since the last call.
    pub fn take_announced(&mut self) -> Option<String> {
        self.announced.take()
    }

    /// Returns the id of the current turn's prompt; `None` before the first.
    pub fn prompt_id(&self) -> Option<String> {
        (!self.prompt_id.is_empty()).then(|| self.prompt_id.clone())
    }

    /// Notes that this record was written last, so that the next record names it as its parent. Only the newest
    /// [`MAX_RECENT`] records are remembered for a compaction.
    fn follow(&mut self, uuid: &str) {
        self.last = Some(uuid.to_owned());
        self.recent.push_back(uuid.to_owned());
        if self.recent.len() > MAX_RECENT {
            self.recent.pop_front();
        }
    }

    /// Appends a record to the file of this agent. Does not fail: [`SessionFiles`] keeps the problem and reports it.
    fn append(&mut self, line: Result<Line, TranscriptError>) {
        self.files.append(&self.file, line);
    }
}
