//! Stop hooks: they decide last whether a turn is over. They may send the model back to work, with their reason as the
//! user's words or with a note, but only a limited number of times.

use lathe_hooks::{ContextText, Outcome};
use lathe_protocol::hooks::{HookEventInput, StopInput, SubagentStopInput};

use crate::state::wire_names::NotificationPriority;
use crate::turn::Turn;
use crate::turn::decide::{NextStep, TurnEnding, after_objection};

impl Turn<'_> {
    /// Runs the stop hooks. Returns the end of the turn, or another round if a hook objects or has a note for the model
    /// and the limits permit one. Objections and notes are added to the conversation even if the limits end the turn,
    /// and count against the limit. If a hook stops the session's work, the turn ends at once, and all objections and
    /// notes are dropped.
    pub(crate) async fn ask_stop_hooks(&mut self) -> NextStep {
        let event = self.stop_event();
        let outcome = self.agent.handle.fire(event, None, &self.cancel).await;
        if let Some(stop) = &outcome.stop {
            self.session.tell_stop(stop).await;
            return NextStep::End(TurnEnding::StopHookPrevented);
        }
        let notes: Vec<String> = outcome.contexts.iter().map(ContextText::line).collect();
        if outcome.blocks.is_empty() && notes.is_empty() {
            return NextStep::End(TurnEnding::Completed);
        }
        // A note keeps a turn alive just as a block does, so it counts as one.
        self.stats.stop_blocks += 1;
        for block in &outcome.blocks {
            let feedback = block.feedback();
            self.agent.history.add_user_text(&feedback);
            let frame = self.agent.handle.frames.synthetic_user(&feedback);
            self.say_as_user(frame).await;
        }
        self.agent.tell_model(&notes);
        match self.tell_of_block(&outcome).await {
            Some(ending) => NextStep::End(ending),
            None => after_objection(&self.used()),
        }
    }

    /// Returns the input for the stop hooks: `Stop` for the main agent, `SubagentStop` for a child. `stop_hook_active`
    /// tells a hook that stop hooks have already sent this turn back.
    fn stop_event(&self) -> HookEventInput {
        let (active, text) = (self.stats.stop_blocks > 0, self.stats.last_text.clone());
        match self.agent.handle.identity.child() {
            None => HookEventInput::Stop(StopInput {
                stop_hook_active: active,
                last_assistant_message: Some(text),
                background_tasks: Some(self.session.tasks.list().told()),
                session_crons: Some(self.session.schedule.told(&self.session.queue().scheduled)),
                ..StopInput::default()
            }),
            Some(child) => HookEventInput::SubagentStop(SubagentStopInput {
                stop_hook_active: active,
                agent_transcript_path: self.session.files.agent_path(&child.agent_id).unwrap_or_default(),
                last_assistant_message: Some(text),
                background_tasks: Some(Vec::new()),
                session_crons: Some(Vec::new()),
                ..SubagentStopInput::default()
            }),
        }
    }

    /// Tells people of a hook's objection, but only if it is the first thing that keeps the turn from ending, and of
    /// the objection or note that exceeds the limit. Returns the end of the turn in the latter case, otherwise `None`.
    /// A note without an objection counts against the limit; the first one is not shown, and an objection after it is
    /// not shown either.
    async fn tell_of_block(&mut self, outcome: &Outcome) -> Option<TurnEnding> {
        let (frames, blocks) = (&self.agent.handle.frames, self.stats.stop_blocks);
        // A note is not an error, so it is not shown as one.
        if blocks == 1 && !outcome.blocks.is_empty() {
            let text = "A stop hook keeps the turn from ending";
            self.session
                .emit(frames.notification("stop-hook-error", text, NotificationPriority::Immediate))
                .await;
        }
        if blocks <= self.agent.limits.max_stop_blocks {
            return None;
        }
        let text = format!(
            "Stop hooks kept this turn from ending {blocks} times in a row; it ends now. A hook can look at \
             stop_hook_active and let go; CLAUDE_CODE_STOP_HOOK_BLOCK_CAP sets the limit."
        );
        self.session.emit(frames.warning(&text)).await;
        self.session
            .emit(frames.notification("stop-hook-block-cap", &text, NotificationPriority::High))
            .await;
        Some(TurnEnding::StopHookCap)
    }
}
