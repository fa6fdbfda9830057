//! What a turn says: each piece is written into the session's file and shown to the host, in this order, so that a host
//! never has a message that the file does not.

use lathe_protocol::hooks::{HookEventInput, MessageDisplayInput};
use lathe_protocol::{AssistantMessage, ContentBlock, HookEvent, UserMessage};

use crate::record::response::ModelResponse;
use crate::record::tool_call::ToolCallResult;
use crate::turn::Turn;
use crate::turn::outcome::TurnPhase;

impl Turn<'_> {
    /// Writes down and shows a finished block of an answer; returns its id.
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
        self.name_prompts(&mut frame);
        let uuid = frame.uuid.clone();
        self.agent.journal.assistant(&frame);
        self.session.emit(frame).await;
        uuid
    }

    /// The first message of an answer says which prompts it is for.
    pub(crate) fn name_prompts(&mut self, frame: &mut AssistantMessage) {
        if !self.stats.prompts_named {
            self.stats.prompts_named = true;
            frame.user_message_uuid = self.stats.prompts.first().cloned();
            frame.user_message_uuids = self.stats.prompt_list();
        }
    }

    /// MessageDisplay: a text is about to be shown. What hooks would show instead is for screens; the frames
    /// of a headless session are data and stay as the model wrote them.
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

    /// Memory files that became due because a call touched a file follow its result.
    pub(crate) async fn add_instructions_due(&mut self, answered: &mut ToolCallResult) {
        if !answered.block.is_error() {
            let due = self.agent.instructions_due(&answered.call, &self.cancel).await;
            answered.notes.extend(due);
        }
    }

    /// Writes down and shows the answer to a tool call.
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

    /// Writes down and shows something on the user's side that is no tool result.
    pub(crate) async fn say_as_user(&mut self, frame: UserMessage) {
        self.stats.user_frames += 1;
        self.agent.journal.user(&frame);
        self.session.emit(frame).await;
    }

    /// The marker that tells readers of the session where it was broken off.
    pub(crate) async fn mark_interrupted(&mut self, phase: TurnPhase) {
        let text = match phase {
            TurnPhase::Streaming => "[Request interrupted by user]",
            TurnPhase::Tools => "[Request interrupted by user for tool use]",
        };
        self.agent.history.add_user_text(text);
        let frame = self.agent.handle.frames.user(vec![ContentBlock::text(text)]);
        if self.session.stop.is_cancelled() {
            // Nobody asked for an interrupt: the process ends. Readers of the session need the marker, the
            // host does not.
            self.agent.journal.user(&frame);
            return;
        }
        self.say_as_user(frame).await;
    }
}
