//! The messages of a turn: each is recorded in the session's file and then sent to the host, so that a host never has a
//! message that the file does not.

use lathe_protocol::hooks::{HookEventInput, MessageDisplayInput};
use lathe_protocol::{AssistantMessage, ContentBlock, HookEvent, UserMessage};

use crate::record::response::ModelResponse;
use crate::record::tool_call::ToolCallResult;
use crate::turn::Turn;
use crate::turn::outcome::TurnPhase;

impl Turn<'_> {
    /// Records a finished block of a response, then sends it to the host. A text becomes the last text of the turn and
    /// is told to MessageDisplay hooks before. Returns the id of its record.
    pub(crate) async fn say_block(
        &mut self,
        answer: &ModelResponse,
        block: &ContentBlock,
        stop_reason: Option<String>,
    ) -> String {
        if let Some(text) = block.as_text() {
            self.stats.last_text = text.to_owned();
            self.tell_display().await;
        }
        self.stats.first_frame_ms.get_or_insert(self.stats.started.elapsed().as_millis() as u64);
        let mut frame = self.agent.handle.frames.assistant_block(answer, block, stop_reason);
        self.add_prompt_ids(&mut frame);
        let uuid = frame.uuid.clone();
        self.agent.journal.assistant(&frame);
        self.session.emit(frame).await;
        uuid
    }

    /// Writes the client ids of the turn's prompts into `frame`, if it is the first assistant message of the turn;
    /// later calls do nothing. The host learns from them which prompts the turn responds to.
    ///
    /// Call this before the message is recorded and sent. Stream events carry the ids only until this has been called.
    pub(crate) fn add_prompt_ids(&mut self, frame: &mut AssistantMessage) {
        if !self.stats.prompt_ids_sent {
            self.stats.prompt_ids_sent = true;
            frame.user_message_uuid = self.stats.prompts.first().cloned();
            frame.user_message_uuids = self.stats.prompt_list();
        }
    }

    /// Tells MessageDisplay hooks that the last text is about to be shown, if any listen. What they would show instead
    /// is for screens and ignored: the frames of a headless session are data and stay as the model wrote them.
    async fn tell_display(&mut self) {
        if !self.session.listens(&HookEvent::MessageDisplay) {
            return;
        }
        let frames = &self.agent.handle.frames;
        let turn_id = self.stats.turn_id.get_or_insert_with(|| frames.uuid()).clone();
        let event = MessageDisplayInput {
            turn_id,
            message_id: frames.uuid(),
            index: 0,
            final_: true,
            delta: self.stats.last_text.clone(),
            ..MessageDisplayInput::default()
        };
        self.agent.handle.fire(HookEventInput::MessageDisplay(event), None, &self.cancel).await;
    }

    /// Adds the memory files that became relevant because this call touched a file to the notes behind its result. A
    /// call that failed adds none.
    pub(crate) async fn add_instructions_due(&mut self, answered: &mut ToolCallResult) {
        if !answered.block.is_error() {
            let due = self.agent.instructions_due(&answered.call, &self.cancel).await;
            answered.notes.extend(due);
        }
    }

    /// Records the result of a tool call, then sends it to the host, followed by the notices of its hooks. Counts it as
    /// a user frame and keeps its denial, if it was denied, for the result of the turn; the history is not changed.
    pub(crate) async fn say_tool_result(&mut self, answered: &ToolCallResult) {
        self.stats.denials.extend(answered.denial.clone());
        let frame = self.agent.handle.frames.tool_result(
            &answered.block,
            answered.result.clone(),
            answered.meta.clone(),
        );
        self.stats.user_frames += 1;
        self.agent.journal.tool_result(&frame, &answered.call.assistant_uuid);
        self.session.emit(frame).await;
        for notice in &answered.notices {
            self.session.show(notice.clone()).await;
        }
    }

    /// Records a user message that is not a tool result, then sends it to the host. Counts it as a user frame of the
    /// turn; the history is not changed.
    pub(crate) async fn say_as_user(&mut self, frame: UserMessage) {
        self.stats.user_frames += 1;
        self.agent.journal.user(&frame);
        self.session.emit(frame).await;
    }

    /// Adds the marker of an interruption to the history and the session's file, and sends it to the host unless the
    /// session was told to stop. Readers of the session look for its text, so it must not change.
    pub(crate) async fn mark_interrupted(&mut self, phase: TurnPhase) {
        let text = match phase {
            TurnPhase::Streaming => "[Request interrupted by user]",
            TurnPhase::Tools => "[Request interrupted by user for tool use]",
        };
        self.agent.history.add_user_text(text);
        let frame = self.agent.handle.frames.user(vec![ContentBlock::text(text)]);
        if self.session.stop.is_cancelled() {
            // The process ends, without an interrupt by the user. Readers of the session need the marker, the host does
            // not.
            self.agent.journal.user(&frame);
            return;
        }
        self.say_as_user(frame).await;
    }
}
