//! Makes room in a conversation: what was said so far is summarised by the model, and the summary, the
//! newest part word for word, and the files at hand stand in its place. By itself when the window fills up,
//! when the API says that a request is too long, or when the user asks for it.
//!
//! Two laws. Nothing changes unless a whole summary is there and is smaller than what it replaces: a
//! failed, refused, cut or interrupted one leaves the conversation as it was. And nothing is tried again for
//! ever: see [`policy`].

mod ask;
mod replace;
mod restore;
mod summary;

use std::time::Instant;

use lathe_models::{ErrorKind, catalog};
use lathe_protocol::hooks::{HookEventInput, PostCompactInput, PreCompactInput};
use lathe_protocol::message::UserTurn;
use lathe_protocol::system::CompactBoundary;
use lathe_protocol::{Outbound, UserMessage};

use crate::record::estimate::text_tokens;
use crate::record::history::TailBounds;
use crate::state::agent::AgentHandle;
use crate::state::compact_policy::{CompactPolicy, CompactStep, RequestSize, WindowLimits};
use crate::turn::Turn;
use crate::turn::outcome::OutOfRoom;
use crate::turn::outcome::{TurnOutcome, TurnPhase};
use replace::ConversationReplacement;

/// The newest part that stays word for word.
const TAIL_TOKENS: u64 = 8_000;

/// Characters that are left of a prompt that no window holds.
const LEFT_CHARS: usize = 8_000;

/// Why a conversation is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompactCause {
    /// The user said so.
    Asked,
    /// The window fills up.
    NearlyFull,
    /// The API did not take the request.
    Refused,
}

/// What hooks and frames call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompactTrigger {
    Manual,
    Auto,
}

impl CompactTrigger {
    fn wire_name(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Auto => "auto",
        }
    }
}

impl CompactCause {
    fn trigger(self) -> CompactTrigger {
        match self {
            Self::Asked => CompactTrigger::Manual,
            Self::NearlyFull | Self::Refused => CompactTrigger::Auto,
        }
    }
}

/// What became of it.
pub(crate) enum CompactOutcome {
    /// The frames that tell of it, still to be shown.
    Done(Box<CompactionFrames>),
    /// There was nothing to summarise.
    Nothing,
    /// The conversation is as it was.
    Failed(String),
    Interrupted,
}

/// The frames about a compaction.
pub(crate) struct CompactionFrames {
    pub boundary: CompactBoundary,
    pub summary: UserMessage,
}

/// Why there is no summary.
enum Trouble {
    Interrupted,
    /// A hook did not want it.
    Blocked(String),
    Failed(String),
}

impl Turn<'_> {
    /// Before a request: makes room if it will not fit. None: it can be sent.
    pub(crate) async fn make_room(&mut self) -> Option<TurnOutcome> {
        let (limits, context) = (self.limits(), self.context());
        let policy = self.compact_policy();
        let step = self.agent.compaction.memory.before_request(&policy, &limits, context);
        match step {
            CompactStep::Send => None,
            CompactStep::StopFull => Some(TurnOutcome::OutOfRoom(OutOfRoom::Full)),
            CompactStep::StopRefilled => Some(TurnOutcome::OutOfRoom(OutOfRoom::Refilled)),
            CompactStep::Compact => match self.compact_and_tell(CompactCause::NearlyFull).await {
                CompactOutcome::Done(_) | CompactOutcome::Nothing | CompactOutcome::Failed(_) => {
                    self.spent_too_much()
                }
                CompactOutcome::Interrupted => Some(TurnOutcome::Interrupted(TurnPhase::Streaming)),
            },
        }
    }

    /// After a failed request: if it was too long, compacts and lets the turn go on, once. None: go on.
    pub(crate) async fn recover(&mut self, outcome: TurnOutcome) -> Option<TurnOutcome> {
        let too_long =
            matches!(&outcome, TurnOutcome::Failed(error) if error.kind == ErrorKind::PromptTooLong);
        if !too_long {
            return Some(outcome);
        }
        if !self.stats.made_room && self.may_recover() {
            self.stats.made_room = true;
            match self.compact_and_tell(CompactCause::Refused).await {
                CompactOutcome::Done(_) => return self.spent_too_much(),
                CompactOutcome::Nothing | CompactOutcome::Failed(_) => {}
                CompactOutcome::Interrupted => return Some(TurnOutcome::Interrupted(TurnPhase::Streaming)),
            }
        }
        // A text that takes so much of the window by itself would be in the way of everything that follows.
        self.agent.history.shorten_unanswered(self.limits().window / 4, LEFT_CHARS);
        Some(outcome)
    }

    /// A prompt begins: how quickly the window filled up before it says nothing about a loop.
    pub(crate) fn forget_refills(&mut self) {
        self.agent.compaction.memory.begin_turn();
    }

    fn may_recover(&mut self) -> bool {
        let policy = self.compact_policy();
        self.agent.compaction.memory.after_refusal(&policy)
    }

    fn compact_policy(&self) -> CompactPolicy {
        self.agent.handle.view().compact.policy
    }

    fn spent_too_much(&self) -> Option<TurnOutcome> {
        self.session.over_budget().then_some(TurnOutcome::Ended(crate::turn::decide::TurnEnding::Budget))
    }

    /// Compacts in the middle of a turn: the frames follow at once, and the turn goes on.
    async fn compact_and_tell(&mut self, cause: CompactCause) -> CompactOutcome {
        let compacted = self.compact(cause, None).await;
        match &compacted {
            CompactOutcome::Done(told) => {
                self.session.emit(Outbound::system(told.boundary.clone())).await;
                self.stats.user_frames += 1;
                self.session.emit(told.summary.clone()).await;
            }
            CompactOutcome::Interrupted => self.mark_interrupted(TurnPhase::Streaming).await,
            CompactOutcome::Nothing | CompactOutcome::Failed(_) => {}
        }
        compacted
    }

    /// Compacts the conversation. The frames about the result are left to the caller, because they stand
    /// elsewhere when the user has asked for it.
    pub(crate) async fn compact(
        &mut self,
        cause: CompactCause,
        instructions: Option<&str>,
    ) -> CompactOutcome {
        if !self.agent.history.has_answers() {
            return CompactOutcome::Nothing;
        }
        let trigger = cause.trigger();
        self.session.emit(self.agent.handle.frames.compacting(trigger)).await;
        let trouble = match self.replace_history(cause, instructions).await {
            Ok(told) => {
                self.agent.announce_instructions(&self.cancel).await;
                self.session.emit(self.agent.handle.frames.compacted(None)).await;
                return CompactOutcome::Done(Box::new(told));
            }
            Err(trouble) => trouble,
        };
        let (text, outcome) = match trouble {
            Trouble::Interrupted => ("the summary was interrupted".to_owned(), CompactOutcome::Interrupted),
            Trouble::Blocked(reason) => {
                let text = format!("blocked by a PreCompact hook: {reason}");
                (text.clone(), CompactOutcome::Failed(text))
            }
            Trouble::Failed(text) => {
                self.note_failure(cause, &text).await;
                (text.clone(), CompactOutcome::Failed(text))
            }
        };
        self.session.emit(self.agent.handle.frames.compacted(Some(&text))).await;
        outcome
    }

    /// An attempt that cost something and brought nothing: after two in a row no more are made by themselves.
    async fn note_failure(&mut self, cause: CompactCause, why: &str) {
        if cause != CompactCause::Asked && self.agent.compaction.memory.failed() {
            let text = format!(
                "compaction failed twice in a row ({why}); the conversation is not compacted by itself any \
                 more until /compact succeeds or /clear begins a new one"
            );
            self.session.emit(self.agent.handle.frames.note("auto_compact_paused", &text)).await;
        }
    }

    async fn replace_history(
        &mut self,
        cause: CompactCause,
        instructions: Option<&str>,
    ) -> Result<CompactionFrames, Trouble> {
        let began = Instant::now();
        self.ask_hooks_before(cause, instructions).await?;
        let (limits, context) = (self.limits(), self.context());
        // Memory files stand in front of every conversation and are no part of what was said.
        let memory = self.agent.instructions.preamble().map_or(0, |text| text_tokens(text.len()));
        let said = self.agent.history.size().messages.saturating_sub(memory);
        let tail = self.agent.history.tail(TailBounds {
            tokens: TAIL_TOKENS.min(said / 4).min(limits.threshold / 10),
            prompt: limits.threshold / 2,
        });
        let mut messages = self.agent.history.messages();
        if let Some(todos) = restore::last_todos(&messages) {
            self.agent.compaction.todos = todos.text();
        }
        messages.truncate(tail.start);
        let instructions: Vec<String> = instructions.map(str::to_owned).into_iter().collect();
        let raw = self.ask_for_summary(messages, &summary::request(&instructions)).await?;
        let empty = || Trouble::Failed("summarization produced empty response".to_owned());
        let text = summary::extract(&raw).ok_or_else(empty)?;
        let before = match cause {
            CompactCause::Asked | CompactCause::NearlyFull => context.tokens,
            CompactCause::Refused => context.tokens.max(limits.window),
        };
        let head = self.head(&text, cause, &tail, before)?;
        let notes = self.run_hooks_after(cause.trigger(), raw).await;
        Ok(self.commit(ConversationReplacement { cause, head, tail, notes, before, began }))
    }

    /// Lets the hooks say no.
    async fn ask_hooks_before(
        &mut self,
        cause: CompactCause,
        instructions: Option<&str>,
    ) -> Result<(), Trouble> {
        let input = PreCompactInput {
            trigger: cause.trigger().wire_name().to_owned(),
            custom_instructions: instructions.map(str::to_owned),
            ..PreCompactInput::default()
        };
        let outcome = self.agent.handle.fire(HookEventInput::PreCompact(input), None, &self.cancel).await;
        if let Some(block) = outcome.block() {
            return Err(Trouble::Blocked(block.reason.clone()));
        }
        if let Some(stop) = outcome.stop {
            return Err(Trouble::Blocked(stop.reason.unwrap_or_else(|| "no reason was given".to_owned())));
        }
        if self.cancel.is_cancelled() { Err(Trouble::Interrupted) } else { Ok(()) }
    }

    /// The hooks that follow a summary; what they want the model to know.
    async fn run_hooks_after(&mut self, trigger: CompactTrigger, raw: String) -> Vec<String> {
        let opening = self.agent.handle.start_conversation("compact", &self.cancel).await;
        let post = PostCompactInput {
            trigger: trigger.wire_name().to_owned(),
            compact_summary: raw,
            ..PostCompactInput::default()
        };
        self.agent.handle.fire(HookEventInput::PostCompact(post), None, &self.cancel).await;
        opening.notes
    }

    fn limits(&self) -> WindowLimits {
        let window = catalog::context_window(&self.model_id, &self.agent.handle.choice().betas);
        self.compact_policy().limits(window)
    }

    fn context(&self) -> RequestSize {
        RequestSize::of(self.agent.history.size(), self.agent.handle.overhead_tokens())
    }
}

impl AgentHandle {
    /// Estimate of what every request holds besides the messages.
    pub(crate) fn overhead_tokens(&self) -> u64 {
        let system: usize = self.system_prompt().parts().iter().map(|part| part.text.len()).sum();
        text_tokens(system) + text_tokens(self.tools().api_json().len())
    }
}

impl crate::state::frames::FrameBuilder {
    /// A compaction begins.
    fn compacting(&self, trigger: CompactTrigger) -> Outbound {
        Outbound::system(lathe_protocol::system::Status {
            status: Some("compacting".to_owned()),
            compact_output_chars: match trigger {
                CompactTrigger::Manual => None,
                CompactTrigger::Auto => Some(0),
            },
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..lathe_protocol::system::Status::default()
        })
    }

    /// A compaction is over.
    fn compacted(&self, error: Option<&str>) -> Outbound {
        Outbound::system(lathe_protocol::system::Status {
            status: None,
            compact_result: Some(if error.is_some() { "failed" } else { "success" }.to_owned()),
            compact_error: error.map(str::to_owned),
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..lathe_protocol::system::Status::default()
        })
    }

    /// The summary as a message of the user's side.
    fn summary(&self, text: &str, trigger: CompactTrigger) -> UserMessage {
        match trigger {
            CompactTrigger::Auto => self.synthetic_user(text),
            CompactTrigger::Manual => UserMessage {
                message: UserTurn::new(text.to_owned()),
                is_synthetic: Some(true),
                is_replay: Some(false),
                ..self.user(Vec::new())
            },
        }
    }
}
