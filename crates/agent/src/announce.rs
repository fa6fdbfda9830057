//! What the parts of a session say about prompts: how one is written down, acknowledged and shown, the state
//! of the session around it, and how the conversation of an earlier run is taken up. When any of this happens
//! is decided in `session.rs` and `turn.rs`.

use lathe_protocol::event::CommandLifecycle;
use lathe_protocol::reminder::system_reminder;
use lathe_protocol::{ContentBlock, InboundUser, MessageContent, Outbound};
use lathe_transcript::Resumed;
use serde_json::{Value, json};

use crate::commands;
use crate::history::History;
use crate::journal::{PromptRecord, Starts, Words};
use crate::shared::Shared;

impl Shared {
    /// Goes on where an earlier run ended: its conversation, its prompts, its cost.
    pub(crate) fn take_up(&self, resumed: Resumed) -> History {
        self.queue().remember(resumed.prompts);
        if let Some(cost) = &resumed.cost_state {
            self.totals().start_from(cost);
        }
        let mut journal = self.journal();
        journal.report(damage_note(&resumed.warnings).into_iter());
        let records = resumed.messages.iter().flat_map(|message| message.uuids.iter().cloned());
        journal.go_on_after(resumed.last_uuid, resumed.turn_index, records);
        journal.known_as(resumed.title, resumed.tag);
        History::restore(resumed.messages)
    }

    /// The prompt of the next turn: hooks see its id before it is written down.
    pub(crate) fn announce_prompt(&self, prompt: &InboundUser) {
        let uuid = prompt.uuid.clone().unwrap_or_else(|| self.frames.uuid());
        self.journal().announce_prompt(uuid);
    }

    /// Writes a prompt down and acknowledges it.
    pub(crate) async fn write_prompt(&self, prompt: &InboundUser, starts: Starts, words: Words) -> String {
        let announced = self.journal().take_announced();
        let uuid = prompt.uuid.clone().or(announced).unwrap_or_else(|| self.frames.uuid());
        let (mode, now) = (self.permissions().mode().as_str(), self.frames.now());
        self.journal().prompt(PromptRecord { prompt, starts, words, uuid: &uuid, now: &now, mode });
        self.checkpoint_prompt(&uuid);
        self.replay(&InboundUser { uuid: Some(uuid.clone()), ..prompt.clone() }).await;
        uuid
    }

    /// Writes down what the runtime has told the model.
    pub(crate) fn write_notes(&self, notes: &[String]) {
        for note in notes {
            let (uuid, now) = (self.frames.uuid(), self.frames.now());
            self.journal().told(note, &system_reminder(note), &uuid, &now);
        }
    }

    /// Acknowledges a prompt, for hosts that want that.
    pub(crate) async fn replay(&self, prompt: &InboundUser) {
        if self.options.replay_prompts {
            self.emit(self.frames.replay(prompt)).await;
        }
    }

    /// Tells how far a prompt with an id has come.
    pub(crate) async fn emit_lifecycle(&self, prompt: Option<&str>, state: &str) {
        if let Some(prompt) = prompt {
            self.emit(Outbound::CommandLifecycle(CommandLifecycle {
                command_uuid: prompt.to_owned(),
                state: state.to_owned(),
                uuid: self.frames.uuid(),
                session_id: self.frames.session_id(),
                ..CommandLifecycle::default()
            }))
            .await;
        }
    }

    /// Tells whether the session is at work, for hosts that want that.
    pub(crate) async fn emit_state(&self, state: &str) {
        if let Some(frame) = self.frames.state(state, self.options.states) {
            self.emit(frame).await;
        }
    }
}

/// What was wrong with the file of a session that goes on: one note, however much it was.
fn damage_note(warnings: &[lathe_transcript::Warning]) -> Option<String> {
    let texts: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// Whether there is nothing to read in a prompt, nor to look at.
pub(crate) fn is_blank(content: &MessageContent) -> bool {
    match content {
        MessageContent::Text(text) => text.trim().is_empty(),
        MessageContent::Blocks(blocks) => blocks
            .iter()
            .all(|block| matches!(block, ContentBlock::Text(text) if text.text.trim().is_empty())),
        MessageContent::Unknown(_) => false,
    }
}

/// The blocks of a prompt.
pub(crate) fn prompt_blocks(content: &MessageContent) -> Vec<Value> {
    match content {
        MessageContent::Text(text) => vec![json!({"type": "text", "text": text})],
        MessageContent::Blocks(blocks) => blocks.iter().map(block_value).collect(),
        MessageContent::Unknown(value) => vec![json!({"type": "text", "text": value.to_string()})],
    }
}

fn block_value(block: &ContentBlock) -> Value {
    serde_json::to_value(block).unwrap_or_default()
}

/// `system/init`, as things stand now.
pub(crate) fn init_frame(shared: &Shared, prompt: Option<&str>) -> lathe_protocol::Init {
    let mut init = shared.init.clone();
    init.session_id = shared.frames.session_id();
    init.uuid = shared.frames.uuid();
    init.cwd = shared.workspace.cwd().display().to_string();
    init.model.clone_from(&shared.choice().id);
    init.permission_mode = shared.permissions().mode().to_string();
    init.tools = shared.tools().names().map(str::to_owned).collect();
    init.mcp_servers.extend(shared.introduction().mcp_servers());
    init.slash_commands = commands::listing(shared).into_iter().map(|command| command.name).collect();
    init.user_message_uuids = prompt.map(|prompt| vec![prompt.to_owned()]);
    init
}
