//! Writes the session down: every frame that belongs to the conversation becomes a record before it is
//! shown, with the same id. A session that cannot be written goes on; the trouble is reported once.

use lathe_protocol::{AssistantMessage, InboundUser, ModelUsage, UserMessage};
use lathe_transcript::record::{AssistantBody, CostState, Envelope, Line, Link, SideRecord, UserBody};
use lathe_transcript::{TranscriptError, TranscriptWriter};
use serde_json::{Map, Value};

/// Where a session is written, and where in the chain it stands.
pub struct Journal {
    writer: Option<TranscriptWriter>,
    envelope: Envelope,
    /// The record that the next one follows.
    last: Option<String>,
    last_prompt: String,
    prompt_id: String,
    /// Block number within the answer under way, by the answer's id.
    block: (String, usize),
    troubles: Vec<String>,
}

/// What the session has used, as the file keeps it.
pub struct Spent {
    pub cost_usd: f64,
    pub api_ms: u64,
    pub duration_ms: u64,
    pub started_ms: u64,
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
            block: (String::new(), 0),
            troubles: Vec::new(),
        }
    }

    /// Goes on behind a record of an earlier run. What was wrong with its file is told once.
    pub fn go_on_after(&mut self, last: Option<String>, troubles: impl Iterator<Item = String>) {
        self.last = last;
        self.troubles.extend(troubles);
    }

    /// A prompt that starts a turn or joins it; `uuid` is its record's id.
    pub fn prompt(&mut self, prompt: &InboundUser, uuid: &str, now: &str, mode: &str) {
        let text = prompt.message.content.text();
        self.last_prompt = text.chars().take(1000).collect();
        self.prompt_id = uuid.to_owned();
        let mut body = UserBody::prompt(&prompt.message);
        body.prompt_id = Some(uuid);
        body.permission_mode = Some(mode);
        body.prompt_source = Some("sdk");
        body.turn_origin = Some("sdk");
        body.origin = prompt.origin.as_ref();
        let link = Link { uuid, parent: self.last.as_deref(), timestamp: now };
        let line = self.envelope.line(link, &body);
        self.append(line);
        self.last = Some(uuid.to_owned());
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
                    (frame.message.id.clone(), 0)
                };
                let mut body = AssistantBody::block(&frame.message, self.block.1);
                body.request_id = frame.request_id.as_deref();
                self.envelope.line(link, &body)
            }
        };
        self.append(line);
        self.last = Some(frame.uuid.clone());
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
        self.last = Some(frame.uuid.clone());
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
        self.last = Some(frame.uuid.clone());
    }

    /// The name a person gave the session.
    pub fn title(&mut self, title: &str) {
        let record = SideRecord::custom_title(&self.envelope.session_id, title);
        self.append(Line::of(&record));
    }

    /// The turn is over: what listings and a later run need to know.
    pub fn end_of_turn(&mut self, spent: Spent) {
        if self.writer.is_none() {
            return;
        }
        let session = self.envelope.session_id.clone();
        let leaf = self.last.clone().unwrap_or_default();
        let last_prompt = SideRecord::last_prompt(&session, &self.last_prompt, &leaf);
        self.append(Line::of(&last_prompt));
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
            total_tool_duration: 0,
            total_lines_added: 0,
            total_lines_removed: 0,
            total_duration: spent.duration_ms,
            start_time: spent.started_ms,
            model_usage,
            has_unknown_model_cost: false,
            extra: Map::new(),
        });
        self.append(Line::of(&cost));
        if let Some(writer) = &mut self.writer
            && let Err(error) = writer.end_turn()
        {
            self.troubles.push(error.to_string());
        }
    }

    /// Notes something for the host to hear about.
    pub fn report(&mut self, troubles: impl Iterator<Item = String>) {
        self.troubles.extend(troubles);
    }

    /// The prompt of the turn under way; none before the first.
    pub fn prompt_id(&self) -> Option<String> {
        (!self.prompt_id.is_empty()).then(|| self.prompt_id.clone())
    }

    /// What went wrong since the last look, for the host to hear about.
    pub fn take_troubles(&mut self) -> Vec<String> {
        std::mem::take(&mut self.troubles)
    }

    /// The file, where there is one.
    pub fn path(&self) -> Option<&std::path::Path> {
        self.writer.as_ref().map(TranscriptWriter::path)
    }

    fn append(&mut self, line: Result<Line, TranscriptError>) {
        let Some(writer) = &mut self.writer else { return };
        if let Err(error) = line.and_then(|line| writer.append(&line)) {
            self.troubles.push(format!("the session is not being saved: {error}"));
        }
    }
}
