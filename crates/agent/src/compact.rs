//! Makes room in a conversation: the model summarises it, and the summary, the newest part word for word and the files
//! that were used last take its place. This happens automatically when the window fills up or the API says that a
//! request is too long, and when the user asks for it.
//!
//! Two laws. Nothing changes unless a complete summary exists and is smaller than what it replaces: after a failed,
//! refused, cut-off or interrupted attempt the conversation is as it was. And the number of attempts is bounded: see
//! [`crate::state::compact_policy`].

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

/// The largest size of the newest part, which stays word for word.
const TAIL_TOKENS: u64 = 8_000;

/// Characters that are kept of a prompt that no window holds.
const LEFT_CHARS: usize = 8_000;

/// Why a conversation is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompactCause {
    /// The user asked for it.
    Asked,
    /// The window fills up.
    NearlyFull,
    /// The API refused the request as too long.
    Refused,
}

/// The name of a cause in hooks and frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompactTrigger {
    Manual,
    Auto,
}

impl CompactTrigger {
    /// Returns the name of the trigger in hook inputs, frames and session files. Hosts and hooks compare it, so it must
    /// not change.
    fn wire_name(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Auto => "auto",
        }
    }
}

impl CompactCause {
    /// Returns the trigger that hooks and frames name for this cause: `auto` for both automatic causes.
    fn trigger(self) -> CompactTrigger {
        match self {
            Self::Asked => CompactTrigger::Manual,
            Self::NearlyFull | Self::Refused => CompactTrigger::Auto,
        }
    }
}

/// How a compaction ended.
pub(crate) enum CompactOutcome {
    /// The frames about it, still to be sent.
    Done(Box<CompactionFrames>),
    /// There was nothing to summarise.
    Nothing,
    /// The conversation is as it was.
    Failed(String),
    /// The turn was interrupted; the conversation is as it was.
    Interrupted,
}

/// The frames about a compaction that replaced the conversation; the boundary is sent first.
pub(crate) struct CompactionFrames {
    pub boundary: CompactBoundary,
    pub summary: UserMessage,
}

/// Why a compaction produced nothing.
enum Trouble {
    Interrupted,
    /// A hook blocked it.
    Blocked(String),
    Failed(String),
}

impl Turn<'_> {
    /// Compacts the conversation and sends the frames about it if the next request would not fit into the window.
    /// Returns `None` if the request is to be sent, also after a failed compaction, because the size is only an
    /// estimate; otherwise the outcome that ends the turn. Counts a request, so it has to be called once before each.
    pub(crate) async fn make_room(&mut self) -> Option<TurnOutcome> {
        let (limits, context) = (self.limits(), self.context());
        let policy = self.compact_policy();
        let step = self.agent.compaction.memory.before_request(&policy, &limits, context);
        match step {
            CompactStep::Send => None,
            CompactStep::StopFull => Some(TurnOutcome::OutOfRoom(OutOfRoom::Full)),
            CompactStep::StopRefilled => Some(TurnOutcome::OutOfRoom(OutOfRoom::Refilled)),
            CompactStep::Compact => match self.compact_and_tell(CompactCause::NearlyFull).await {
                // After a failed attempt the request is sent as it is: the size is an estimate, and the API has the
                // last word.
                CompactOutcome::Done(_) | CompactOutcome::Nothing | CompactOutcome::Failed(_) => {
                    self.spent_too_much()
                }
                CompactOutcome::Interrupted => Some(TurnOutcome::Interrupted(TurnPhase::Streaming)),
            },
        }
    }

    /// Handles a failed request. If the API found it too long, compacts the conversation, at most once until a response
    /// comes, and returns `None` if the request is to be tried again. Otherwise returns the outcome that ends the turn;
    /// after a request that stays too long, very large texts without a response are also cut in the history.
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
        // A text that takes so much of the window on its own would be in the way of everything that follows.
        self.agent.history.shorten_unanswered(self.limits().window / 4, LEFT_CHARS);
        Some(outcome)
    }

    /// Resets the count of compactions in a row; to be called at the beginning of a turn. The count detects a window
    /// that fills up again at once, and what happened before a new prompt does not count.
    pub(crate) fn forget_refills(&mut self) {
        self.agent.compaction.memory.begin_turn();
    }

    /// Returns whether a request that the API found too long may be answered with a compaction: false if automatic
    /// compaction is off, has failed twice in a row, or did not help just now. Takes `&mut self` because the count of
    /// quick refills may be reset.
    fn may_recover(&mut self) -> bool {
        let policy = self.compact_policy();
        self.agent.compaction.memory.after_refusal(&policy)
    }

    /// Returns the policy in force now. Callers read it each time, because a command or settings may change it during
    /// the turn.
    fn compact_policy(&self) -> CompactPolicy {
        self.agent.handle.view().compact.policy
    }

    /// Returns the outcome that ends the turn if the session has reached its budget; `None` means that the turn goes
    /// on. Checked after a compaction, because the summary costs too.
    fn spent_too_much(&self) -> Option<TurnOutcome> {
        self.session.over_budget().then_some(TurnOutcome::Ended(crate::turn::decide::TurnEnding::Budget))
    }

    /// Compacts in the middle of a turn and sends the frames about the result at once. If it was interrupted, the mark
    /// of the interruption is added to the conversation; a failure is left to the caller.
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

    /// Compacts the conversation, with status frames before and after it; after a success, InstructionsLoaded hooks are
    /// told of the memory files again. The frames about the result are left to the caller, because they come later when
    /// the user has asked for it. A conversation without any response gives `Nothing`, without any frame; unless the
    /// outcome is `Done`, the conversation is as it was.
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

    /// Counts a failed automatic compaction; a failed `/compact` is not counted. After two in a row no more are made
    /// automatically, because each attempt is paid for, and the host is told once.
    async fn note_failure(&mut self, cause: CompactCause, why: &str) {
        // A failed `/compact` is shown to the user, who decides whether to try again.
        if cause != CompactCause::Asked && self.agent.compaction.memory.failed() {
            let text = format!(
                "compaction failed twice in a row ({why}); the conversation is not compacted by itself any \
                 more until /compact succeeds or /clear begins a new one"
            );
            self.session.emit(self.agent.handle.frames.note("auto_compact_paused", &text)).await;
        }
    }

    /// Runs the hooks around a compaction, asks the model for a summary, and puts it in place of the conversation,
    /// except for the newest part. The conversation is unchanged until `commit`, which has to stay the last step, so
    /// that an error before it loses nothing.
    async fn replace_history(
        &mut self,
        cause: CompactCause,
        instructions: Option<&str>,
    ) -> Result<CompactionFrames, Trouble> {
        let began = Instant::now();
        self.ask_hooks_before(cause, instructions).await?;
        let (limits, context) = (self.limits(), self.context());
        // Memory files precede every conversation and are not part of what was said.
        let memory = self.agent.instructions.preamble().map_or(0, |text| text_tokens(text.len()));
        let said = self.agent.history.size().messages.saturating_sub(memory);
        // A quarter at most: of a short conversation too, most must go into the summary, or nothing would shrink.
        let tail = self.agent.history.tail(TailBounds {
            tokens: TAIL_TOKENS.min(said / 4).min(limits.threshold / 10),
            prompt: limits.threshold / 2,
        });
        let mut messages = self.agent.history.messages();
        // The tail stays word for word, so the summary does not cover it.
        messages.truncate(tail.start);
        let instructions: Vec<String> = instructions.map(str::to_owned).into_iter().collect();
        let raw = self.ask_for_summary(messages, &summary::request(&instructions)).await?;
        let empty = || Trouble::Failed("summarization produced empty response".to_owned());
        let text = summary::extract(&raw).ok_or_else(empty)?;
        let before = match cause {
            CompactCause::Asked | CompactCause::NearlyFull => context.tokens,
            // The API has just shown that the estimate was too low.
            CompactCause::Refused => context.tokens.max(limits.window),
        };
        let head = self.head(&text, cause, &tail, before)?;
        // Before the commit, because their notes become part of the new conversation.
        let notes = self.run_hooks_after(cause.trigger(), raw).await;
        Ok(self.commit(ConversationReplacement { cause, head, tail, notes, before, began }))
    }

    /// Runs the PreCompact hooks. The error says that a hook blocks the compaction or stops the session, or that the
    /// turn was interrupted.
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

    /// Runs the SessionStart hooks and then the PostCompact hooks, which get the whole text of the model as `raw`.
    /// Returns the notes of the SessionStart hooks for the model; first words of the user that these give are dropped,
    /// and PostCompact hooks add none.
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

    /// Returns the sizes at which the conversation is compacted and at which the window is full, for the model of this
    /// turn with its betas and the policy in force now.
    fn limits(&self) -> WindowLimits {
        let window = catalog::context_window(&self.model_id, &self.agent.handle.choice().betas);
        self.compact_policy().limits(window)
    }

    /// Returns the size of the next request: what the API has counted and what was added since, or else an estimate of
    /// the history and of what every request carries besides.
    fn context(&self) -> RequestSize {
        RequestSize::of(self.agent.history.size(), self.agent.handle.overhead_tokens())
    }
}

impl AgentHandle {
    /// Returns an estimate of the tokens that every request contains besides the messages: system prompt and tools.
    pub(crate) fn overhead_tokens(&self) -> u64 {
        let offer = self.offer(&self.choice().id);
        let system: usize = offer.system.iter().map(|part| part.text.len()).sum();
        text_tokens(system) + text_tokens(offer.tools.len())
    }
}

impl crate::state::frames::FrameBuilder {
    /// Returns the status frame that has to be sent when a compaction begins.
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

    /// Returns the status frame that has to be sent when a compaction has ended, however it ended. `error` says why it
    /// failed or was interrupted; `None` means success.
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

    /// Returns the summary as the user message that hosts and the session's file get in place of the compacted part.
    /// The form of the frame depends on the trigger, as hosts expect it.
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
