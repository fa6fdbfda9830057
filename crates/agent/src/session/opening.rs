//! What happens to a prompt before its turn runs: it is announced, the hooks see it, the host gets the init frame, and
//! the prompt goes into the history and the session's file. The work of the turn comes out as a [`TurnKind`].

use std::borrow::Cow;

use lathe_protocol::{ContentBlock, HookEvent, InboundUser, Outbound};

use super::turn_kind::TurnKind;
use super::{Due, SessionLoop};
use crate::call::planning;
use crate::hooks::submit::SubmittedPrompt;
use crate::record::journal::{PromptStarts, PromptWords};
use crate::state::agent::Agent;
use crate::state::commands::expansion::ExpandedPrompt;
use crate::state::dispatch::{PromptDispatch, dispatch};
use crate::state::wire_names::{PromptState, SessionState};
use crate::turn::announce::{init_frame, is_blank, prompt_blocks};
use crate::turn::outcome::TurnHandle;

/// A prompt for the model, on its way to the hooks.
struct Submission<'a> {
    prompt: &'a InboundUser,
    /// What started its turn, if it was not the host.
    source: Option<&'static str>,
    form: PromptForm,
}

/// How a prompt reaches the model.
enum PromptForm {
    /// Word for word, with what the model should know about it.
    AsWritten { note: Option<String> },
    /// As the text of a command.
    Expanded(Box<ExpandedPrompt>),
}

impl SessionLoop {
    /// Opens the turn of a prompt, of a scheduled prompt or of a deferred call: tells the host that it has started, has
    /// the hooks look at the prompt, and records it as far as they permit. The preamble goes into the history before
    /// the first prompt that is not empty, also before a command. Returns the prompt (an empty one for a deferred call)
    /// and what the turn does.
    pub(super) async fn open_turn(
        &mut self,
        agent: &mut Agent,
        due: Due,
        handle: &TurnHandle,
    ) -> (InboundUser, TurnKind) {
        agent.deferral.turn_began();
        self.session.tell_of_earlier_tasks().await;
        self.session.emit_state(SessionState::Running).await;
        let (prompt, source) = match due {
            Due::DeferredCall => {
                let command = self.main.frames.uuid();
                self.session.emit_lifecycle(Some(&command), PromptState::Started).await;
                return (InboundUser::default(), TurnKind::ResumeDeferredCall { command });
            }
            Due::Prompt(prompt) => (*prompt, None),
            Due::Scheduled(turn) => {
                let source = turn.source.wire_name();
                if let Some(wake_up) = &turn.wake_up {
                    self.session.emit_wake_up(&wake_up.uuid, source, wake_up.at_ms).await;
                }
                (turn.prompt, Some(source))
            }
        };
        self.session.emit_lifecycle(prompt.uuid.as_deref(), PromptState::Started).await;
        if self.asks_nothing(&prompt) {
            let work = self.open_empty_prompt(agent, &prompt).await;
            return (prompt, work);
        }
        // The hooks are told the id of the prompt, so it has to be fixed before they run.
        agent.announce_prompt(&prompt);
        if let Some(preamble) = self.preamble.take() {
            agent.history.add_user_text(&preamble);
        }
        let work = match dispatch(&self.main, &prompt) {
            PromptDispatch::Command(call) => TurnKind::Command(call),
            PromptDispatch::Expanded(expanded) => {
                let submission = Submission { prompt: &prompt, source, form: PromptForm::Expanded(expanded) };
                self.submit_prompt(agent, submission, handle).await
            }
            PromptDispatch::Prompt { note } => {
                let submission = Submission { prompt: &prompt, source, form: PromptForm::AsWritten { note } };
                self.submit_prompt(agent, submission, handle).await
            }
        };
        (prompt, work)
    }

    /// Returns whether the prompt gives the model nothing to respond to: it is blank, and no hook has words for it. A
    /// prompt that is only to be recorded (`should_query: false`) does not count as such, even if it is blank.
    fn asks_nothing(&self, prompt: &InboundUser) -> bool {
        let has_words = self.first_words.is_some() || prompt.should_query == Some(false);
        !has_words && is_blank(&prompt.message.content)
    }

    /// Opens the turn of an empty prompt: sends the init frame and acknowledges the prompt. Hosts send one to get a
    /// session for some other request, such as rewinding files. The API refuses empty messages, so the model is not
    /// asked and nothing is recorded; only a deferred call is resumed.
    async fn open_empty_prompt(&mut self, agent: &Agent, prompt: &InboundUser) -> TurnKind {
        let init = init_frame(&self.main, prompt.uuid.as_deref());
        self.session.emit(Outbound::system(init)).await;
        let uuid = prompt.uuid.clone().unwrap_or_else(|| self.main.frames.uuid());
        self.session.replay(&InboundUser { uuid: Some(uuid), ..prompt.clone() }).await;
        match agent.deferral.call() {
            Some(_) => TurnKind::Prompt,
            None => TurnKind::NoModelCall { text: String::new() },
        }
    }

    /// Runs the hooks for a prompt and records it as far as they permit; the host's lines are read meanwhile. Returns
    /// what kind of turn follows. If hooks were listening and `handle` was cancelled, the prompt is not recorded,
    /// because nothing has agreed to it.
    async fn submit_prompt(
        &mut self,
        agent: &mut Agent,
        submission: Submission<'_>,
        handle: &TurnHandle,
    ) -> TurnKind {
        let Submission { prompt, source, form } = submission;
        let main = self.main.clone();
        let before = async {
            let notes = main.catch_up(&handle.cancel).await;
            let submitted = main.submit_to_hooks(prompt, source, &handle.cancel).await;
            let submitted = match &form {
                PromptForm::AsWritten { .. } => submitted,
                PromptForm::Expanded(expanded) => {
                    main.expand_before_hooks(prompt, expanded, submitted, &handle.cancel).await
                }
            };
            (notes, submitted)
        };
        let (notes, mut submitted) = self.while_listening(before, Some(handle), Some(&handle.cancel)).await;
        // Hooks that were cancelled have not agreed, so the prompt must not reach the model, now or later.
        let asked = [HookEvent::UserPromptSubmit, HookEvent::UserPromptExpansion];
        if handle.cancel.is_cancelled() && asked.iter().any(|event| self.session.listens(event)) {
            submitted = SubmittedPrompt::Cancelled;
        }
        let told = match form {
            PromptForm::AsWritten { note } => {
                if let (SubmittedPrompt::Accepted { contexts, .. }, Some(note)) = (&mut submitted, note) {
                    contexts.push(note);
                }
                Cow::Borrowed(prompt)
            }
            PromptForm::Expanded(expanded) => Cow::Owned(expanded.told),
        };
        self.record_prompt(agent, (prompt, &told), &submitted, &notes).await;
        match submitted {
            SubmittedPrompt::Refused(refusal) => TurnKind::NoModelCall { text: refusal.text },
            SubmittedPrompt::Cancelled => TurnKind::Cancelled,
            SubmittedPrompt::Accepted { .. } if prompt.should_query == Some(false) => {
                TurnKind::NoModelCall { text: String::new() }
            }
            SubmittedPrompt::Accepted { .. } => TurnKind::Prompt,
        }
    }

    /// Sends the init frame, then puts the first words of hooks, the prompt and its notes into the history and the
    /// session's file. `prompt` is what the host sent, `told` what the model gets. A cancelled prompt stays out, and
    /// the notices of tasks in it wait again; a refused one stays out unless the kind of its refusal keeps it. What the
    /// runtime noted (`notes`) goes in even then.
    async fn record_prompt(
        &mut self,
        agent: &mut Agent,
        (prompt, told): (&InboundUser, &InboundUser),
        submitted: &SubmittedPrompt,
        notes: &[String],
    ) {
        let init = init_frame(&self.main, prompt.uuid.as_deref());
        self.session.emit(Outbound::system(init)).await;
        if let Some(words) = self.first_words.take() {
            agent.history.add_user_text(&words);
            let frame = self.main.frames.user(vec![ContentBlock::text(&words)]);
            agent.journal.user(&frame);
            self.session.emit(frame).await;
        }
        agent.history.add_notes(notes);
        match submitted {
            SubmittedPrompt::Accepted { contexts, words } => {
                if *words == PromptWords::Shown {
                    agent.history.add_user(prompt_blocks(&told.message.content));
                }
                agent.history.add_notes(contexts);
                agent.history.add_notes(planning::note(&self.main).as_slice());
                let record = agent.write_prompt(prompt, told, PromptStarts::Turn, *words).await;
                agent.history.note_prompt(record);
                agent.write_notes(notes);
                agent.write_notes(contexts);
            }
            SubmittedPrompt::Refused(refusal) => {
                agent.write_notes(notes);
                if refusal.kind.keeps_prompt() {
                    agent.history.add_user(prompt_blocks(&told.message.content));
                    agent.write_prompt(prompt, told, PromptStarts::Turn, PromptWords::Shown).await;
                }
                self.session.emit(self.main.frames.prompt_refused(refusal)).await;
            }
            SubmittedPrompt::Cancelled => {
                agent.write_notes(notes);
                self.session.tasks.list().put_back(&prompt.message.content.text());
            }
        }
        self.report_troubles().await;
    }
}
