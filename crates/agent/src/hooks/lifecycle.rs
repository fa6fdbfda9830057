//! The beginning and the end of a session as hooks see them, and what their outcomes change. Setup comes first, then
//! the instructions that were loaded, then SessionStart, which `/clear` and a compaction fire again.

use std::sync::Arc;

use lathe_hooks::{ContextText, Outcome};
use lathe_protocol::hooks::{
    CwdChangedInput, HookEventInput, SessionEndInput, SessionStartInput, SetupInput,
};
use tokio_util::sync::CancellationToken;

use crate::state::agent::{Agent, AgentHandle, AgentIdentity};
use crate::state::config::SetupTrigger;
use crate::state::services::SessionServices;

/// What hooks want a conversation to begin with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConversationOpening {
    /// Notes in front of the first prompt.
    pub notes: Vec<String>,
    /// Words of the user in front of the first prompt.
    pub first_words: Option<String>,
}

impl Agent {
    /// Runs everything that precedes the first prompt, in this order: Setup hooks if there is a trigger, memory files,
    /// and SessionStart hooks, which get `source` as the reason. Returns what they say, which belongs in front of the
    /// prompt; a hook cannot keep the conversation from beginning. Notes the state of watched files at the end, because
    /// later checks compare with it.
    pub(crate) async fn begin(
        &mut self,
        source: &str,
        setup: Option<SetupTrigger>,
        cancel: &CancellationToken,
    ) -> ConversationOpening {
        let mut notes = Vec::new();
        if let Some(setup) = setup {
            let input = SetupInput { trigger: setup.trigger().to_owned(), ..SetupInput::default() };
            let outcome = self.handle.fire(HookEventInput::Setup(input), None, cancel).await;
            notes.extend(outcome.contexts.iter().map(ContextText::line));
        }
        self.announce_instructions(cancel).await;
        let mut opening = self.handle.start_conversation(source, cancel).await;
        notes.append(&mut opening.notes);
        // Notes the files as they are now, because later checks are compared with that.
        self.handle.look_at_files(cancel).await;
        ConversationOpening { notes, ..opening }
    }

    /// Fires CwdChanged if a command has left the shell in another folder than the one that hooks were last told;
    /// otherwise does nothing.
    pub(crate) async fn tell_cwd(&mut self, cancel: &CancellationToken) {
        let now = self.handle.workspace.cwd();
        if now == self.cwd_told {
            return;
        }
        let before = std::mem::replace(&mut self.cwd_told, now.clone());
        let input = CwdChangedInput {
            old_cwd: before.display().to_string(),
            new_cwd: now.display().to_string(),
            ..CwdChangedInput::default()
        };
        self.handle.fire(HookEventInput::CwdChanged(input), None, cancel).await;
    }
}

impl AgentHandle {
    /// Fires SessionStart, also for a conversation that begins anew within a session. `source` says why and is a value
    /// of the wire. Takes over the title that a hook gives, and returns what belongs in front of the first prompt. A
    /// hook cannot keep the conversation from beginning.
    pub(crate) async fn start_conversation(
        self: &Arc<Self>,
        source: &str,
        cancel: &CancellationToken,
    ) -> ConversationOpening {
        let input = SessionStartInput {
            source: source.to_owned(),
            model: Some(self.choice().id.clone()),
            session_title: self.session.files.current_title(),
            ..SessionStartInput::default()
        };
        let outcome = self.fire(HookEventInput::SessionStart(input), None, cancel).await;
        self.session.take_title(outcome.session_start.session_title.as_deref()).await;
        ConversationOpening {
            notes: outcome.contexts.iter().map(ContextText::line).collect(),
            first_words: outcome.session_start.initial_user_message,
        }
    }

    /// Fires SessionEnd and returns its outcome. Only its own time limit ends it, because the session's token may be
    /// cancelled already.
    pub(crate) async fn end_conversation(self: &Arc<Self>, reason: &str) -> Outcome {
        let input = SessionEndInput { reason: reason.to_owned(), ..SessionEndInput::default() };
        self.fire(HookEventInput::SessionEnd(input), None, &CancellationToken::new()).await
    }

    /// Applies changed settings files and tells hooks of changed files, then collects the notes for the model: output
    /// of background hooks, ends of tasks (for the main agent only), deferred tools that came or went. The caller has
    /// to use the notes, because each comes once. Called before a turn and between two rounds, never while calls run.
    pub(crate) async fn catch_up(self: &Arc<Self>, cancel: &CancellationToken) -> Vec<String> {
        self.follow_settings(cancel).await;
        self.look_at_files(cancel).await;
        let mut notes = self.session.take_late().await;
        // The tasks are the main agent's: it is told of their ends.
        if matches!(self.identity, AgentIdentity::Main) {
            notes.extend(self.session.take_task_notes());
        }
        notes.extend(self.tool_changes());
        notes
    }
}

impl SessionServices {
    /// Gives the session the title that a hook returned; does nothing if it is blank or missing.
    pub(crate) async fn take_title(&self, title: Option<&str>) {
        let Some(title) = title.map(str::trim).filter(|title| !title.is_empty()) else { return };
        self.set_title(title).await;
    }
}
