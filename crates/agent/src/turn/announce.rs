//! How prompts are recorded, acknowledged and shown, the state of the session around them, and how the conversation of
//! an earlier run is resumed. `session.rs` and `turn.rs` decide when.

use lathe_protocol::event::CommandLifecycle;
use lathe_protocol::reminder::system_reminder;
use lathe_protocol::{ContentBlock, InboundUser, MessageContent, Outbound};
use lathe_tools::TodoItem;
use lathe_transcript::Resumed;

use crate::background::records::NoticeRecord;
use crate::record::history::ConversationHistory;
use crate::record::journal::{PromptRecord, PromptStarts, PromptWords};
use crate::state::agent::{Agent, AgentHandle};
use crate::state::dispatch::listing;
use crate::state::services::SessionServices;
use crate::state::wire_names::{PromptState, SessionState};

impl Agent {
    /// Continues where an earlier run ended: takes over its conversation, the ids of its prompts, its tasks, to-dos,
    /// cost, title and tag, and reports damage of its file. Must come before the first prompt. The deferred call is not
    /// taken over here.
    pub(crate) fn resume(&mut self, resumed: Resumed) {
        let session = &self.handle.session;
        session.queue().remember(resumed.prompts);
        if let Some(cost) = &resumed.cost_state {
            session.totals().start_from(cost);
        }
        session.tasks.list().resume(resumed.tasks);
        session.files.report(damage_note(&resumed.warnings).into_iter());
        session.files.known_as(resumed.title, resumed.tag);
        let records = resumed.messages.iter().flat_map(|message| message.uuids.iter().cloned());
        self.journal.go_on_after(resumed.last_uuid, resumed.turn_index, records);
        self.history = ConversationHistory::restore(resumed.messages);
        let todos = resumed.todos.as_ref().map(TodoItem::list).unwrap_or_default();
        self.handle.change(|view| view.todos = todos.into());
    }

    /// Chooses the id of the turn's prompt (its own, or a fresh one) and publishes it, because hooks are told it before
    /// the prompt is recorded. [`Self::write_prompt`] records the prompt under the same id.
    pub(crate) fn announce_prompt(&mut self, prompt: &InboundUser) {
        let uuid = prompt.uuid.clone().unwrap_or_else(|| self.handle.frames.uuid());
        self.journal.announce_prompt(uuid);
        self.publish_prompt_id();
    }

    /// Records a prompt, begins its checkpoint and acknowledges it; notices of tasks that its text contains count as
    /// delivered. `prompt` is what the host sent, `told` what the model gets. Returns the id of its record. Must come
    /// before any call of the turn, which may change files.
    pub(crate) async fn write_prompt(
        &mut self,
        prompt: &InboundUser,
        told: &InboundUser,
        starts: PromptStarts,
        words: PromptWords,
    ) -> String {
        let (handle, session) = (self.handle.clone(), self.handle.session.clone());
        let announced = self.journal.take_announced();
        // Under the announced id, because hooks were told it and may have kept it.
        let uuid = prompt.uuid.clone().or(announced).unwrap_or_else(|| handle.frames.uuid());
        let (mode, now) = (handle.view().scope.mode().as_str(), handle.frames.now());
        self.journal.prompt(PromptRecord { prompt, told, starts, words, uuid: &uuid, now: &now, mode });
        session.notices_delivered(&prompt.message.content.text());
        self.publish_prompt_id();
        // Before the turn goes on, because its calls may change files.
        session.checkpoint_prompt(&uuid).await;
        session.replay(&InboundUser { uuid: Some(uuid.clone()), ..prompt.clone() }).await;
        uuid
    }

    /// Copies the id of the current prompt from the journal into the shared view of the agent. Must follow every change
    /// of it in the journal.
    fn publish_prompt_id(&self) {
        let prompt_id = self.journal.prompt_id();
        self.handle.change(|view| view.prompt_id = prompt_id);
    }

    /// Adds notes of the runtime to the history and records them; the host gets no frame.
    pub(crate) fn tell_model(&mut self, notes: &[String]) {
        self.history.add_notes(notes);
        self.write_notes(notes);
    }

    /// Records notes that are in the history already; notices of tasks in them count as delivered. Every note has to be
    /// recorded, or a resumed session sends the model another conversation.
    pub(crate) fn write_notes(&mut self, notes: &[String]) {
        for note in notes {
            let (uuid, now) = (self.handle.frames.uuid(), self.handle.frames.now());
            let delivered = self.handle.session.tasks.list().delivered_with(note);
            let runs: Vec<&str> = delivered.iter().filter_map(|notice| notice.run_id.as_deref()).collect();
            self.journal.told(note, &system_reminder(note), &runs, (&uuid, &now));
            for notice in &delivered {
                self.handle.session.record_notice(NoticeRecord::Delivered, notice);
            }
        }
    }
}

impl SessionServices {
    /// Sends the acknowledgement of a prompt, but only to a host that asked for them (`--replay-user-messages`).
    pub(crate) async fn replay(&self, prompt: &InboundUser) {
        if self.options.replay_prompts {
            self.emit(self.frames.replay(prompt)).await;
        }
    }

    /// Sends the state of the prompt with this id to the host. A prompt without an id (`None`) has no state to report,
    /// so nothing is sent.
    pub(crate) async fn emit_lifecycle(&self, prompt: Option<&str>, state: PromptState) {
        if let Some(prompt) = prompt {
            self.emit(Outbound::CommandLifecycle(CommandLifecycle {
                command_uuid: prompt.to_owned(),
                state: state.wire_name().to_owned(),
                uuid: self.frames.uuid(),
                session_id: self.frames.session_id(),
                ..CommandLifecycle::default()
            }))
            .await;
        }
    }

    /// Tells the host that a wake-up with the id `uuid` starts its turn. `scheduled_for` is when it was due, in
    /// milliseconds since the epoch.
    pub(crate) async fn emit_wake_up(&self, uuid: &str, source: &str, scheduled_for: u64) {
        self.emit(Outbound::CommandLifecycle(CommandLifecycle {
            command_uuid: uuid.to_owned(),
            state: PromptState::Started.wire_name().to_owned(),
            wakeup_source: Some(source.to_owned()),
            scheduled_for: Some(scheduled_for),
            uuid: self.frames.uuid(),
            session_id: self.frames.session_id(),
            ..CommandLifecycle::default()
        }))
        .await;
    }

    /// Sends whether the session is running, idle or waiting for the host; nothing if the host did not ask for such
    /// frames.
    pub(crate) async fn emit_state(&self, state: SessionState) {
        if let Some(frame) = self.frames.state(state, self.options.states) {
            self.emit(frame).await;
        }
    }
}

/// Describes what was wrong with the file of a resumed session, in one note however much it was; `None` if nothing was.
fn damage_note(warnings: &[lathe_transcript::Warning]) -> Option<String> {
    let texts: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// Returns whether a prompt has no text but white space, and no other block. A prompt without blocks is blank; one of
/// an unknown form is not.
pub(crate) fn is_blank(content: &MessageContent) -> bool {
    match content {
        MessageContent::Text(text) => text.trim().is_empty(),
        MessageContent::Blocks(blocks) => {
            blocks.iter().all(|block| block.as_text().is_some_and(|text| text.trim().is_empty()))
        }
        MessageContent::Unknown(_) => false,
    }
}

/// Returns the content blocks of a prompt. A text becomes one block, and content of an unknown form one with its JSON
/// as text.
pub(crate) fn prompt_blocks(content: &MessageContent) -> Vec<ContentBlock> {
    match content {
        MessageContent::Text(text) => vec![ContentBlock::text(text)],
        MessageContent::Blocks(blocks) => blocks.clone(),
        MessageContent::Unknown(value) => vec![ContentBlock::text(value.to_string())],
    }
}

/// Builds `system/init` with what is in force now. `prompt` is the id of the prompt that the turn belongs to, if it has
/// one. Sends nothing.
pub(crate) fn init_frame(agent: &AgentHandle, prompt: Option<&str>) -> lathe_protocol::Init {
    let mut init = agent.session.init.clone();
    init.session_id = agent.frames.session_id();
    init.uuid = agent.frames.uuid();
    init.cwd = agent.workspace.cwd().display().to_string();
    init.model.clone_from(&agent.choice().id);
    init.permission_mode = agent.view().scope.mode().to_string();
    init.tools = agent.tools().names().map(str::to_owned).collect();
    init.mcp_servers.extend(agent.session.introduction().mcp_servers());
    init.slash_commands = listing(agent).into_iter().map(|command| command.name).collect();
    init.user_message_uuids = prompt.map(|prompt| vec![prompt.to_owned()]);
    init
}
