//! One prompt, from question to result. [`Turn::run`] is the only loop of the runtime: sample a response (its tools run
//! meanwhile), decide, then repeat or finish.

pub mod announce;
mod calls;
mod child;
pub mod decide;
pub mod deferred;
pub mod finish;
pub mod outcome;
pub mod retry;
mod sampling;
mod saying;
mod schedule;
pub mod stats;
mod stop_hooks;
mod structured;

use std::sync::Arc;

use lathe_tools::{CALL_STRUCTURED_OUTPUT, STRUCTURED_OUTPUT};
use tokio_util::sync::CancellationToken;

use crate::record::journal::{PromptStarts, PromptWords};
use crate::record::response::ModelResponse;
use crate::state::agent::{Agent, AgentIdentity};
use crate::state::dispatch::is_command;
use crate::state::services::SessionServices;
use crate::state::wire_names::PromptState;
use crate::turn::announce::prompt_blocks;
use crate::turn::decide::{AfterRound, NextStep, Nudge, RoundEnd, TurnEnding, UsedSoFar, decide};
use crate::turn::outcome::{TurnHandle, TurnOutcome};
use crate::turn::stats::TurnStats;

/// A running turn.
pub struct Turn<'a> {
    pub(crate) session: Arc<SessionServices>,
    pub(crate) agent: &'a mut Agent,
    /// Fires when this turn is interrupted.
    pub(crate) cancel: CancellationToken,
    /// Fires when something more urgent waits: the turn ends at its next pause.
    pub(crate) preempt: CancellationToken,
    pub(crate) stats: TurnStats,
    /// The model in use: the chosen one, or a fallback for the rest of the turn.
    pub(crate) model_id: String,
    /// The model that the host had chosen when that was decided.
    pub(crate) chosen_id: String,
    pub(crate) fallbacks: Vec<String>,
}

impl<'a> Turn<'a> {
    /// Prepares a turn of this agent; `handle` is how the session cancels or preempts it. Nothing runs before
    /// [`Self::run`].
    pub(crate) fn new(agent: &'a mut Agent, handle: &TurnHandle, stats: TurnStats) -> Self {
        let choice = agent.handle.choice();
        Self {
            session: agent.handle.session.clone(),
            agent,
            cancel: handle.cancel.clone(),
            preempt: handle.preempt.clone(),
            stats,
            model_id: choice.id.clone(),
            chosen_id: choice.id.clone(),
            fallbacks: choice.fallbacks.clone(),
        }
    }

    /// Runs rounds until the turn ends: sample a response, run its calls, let `decide.rs` choose. The prompt must be in
    /// the history already; `finish.rs` makes the result of the outcome. If the budget is used up before the first
    /// request, no request is sent.
    pub async fn run(&mut self) -> TurnOutcome {
        // Before the first request too, because an earlier turn may have used up the budget.
        if self.session.over_budget() {
            return TurnOutcome::Ended(TurnEnding::Budget);
        }
        self.forget_refills();
        loop {
            if let Some(outcome) = self.make_room().await {
                return outcome;
            }
            let round = match self.sample().await {
                Ok(round) => round,
                Err(outcome) => match self.recover(outcome).await {
                    Some(outcome) => return outcome,
                    None => continue,
                },
            };
            let next = match decide(round, &self.used()) {
                AfterRound::Next(next) => next,
                AfterRound::AskStopHooks => self.ask_stop_hooks().await,
            };
            match next {
                NextStep::Again => {
                    self.stats.nudges.forget_overcome();
                    self.pause().await;
                }
                NextStep::Nudge(nudge) => self.nudge(nudge).await,
                NextStep::Fallback => self.turn_to_fallback().await,
                NextStep::End(ending) => return TurnOutcome::Ended(ending),
            }
        }
    }

    /// Returns what the turn has used up, as a value, and what it still owes: the input of the decision table in
    /// `turn/decide.rs`.
    pub(crate) fn used(&self) -> UsedSoFar {
        UsedSoFar {
            rounds: self.stats.rounds,
            max_rounds: self.agent.limits.max_rounds,
            over_budget: self.session.over_budget(),
            preempted: self.preempt.is_cancelled(),
            visible: self.stats.visible,
            fallback_left: self.has_fallback(),
            owes_structure: self.stats.structured.answer.is_none()
                && self.agent.handle.tool(STRUCTURED_OUTPUT).is_some(),
            nudges: self.stats.nudges,
        }
    }

    /// Prepares the next round of the main agent: tells the model of changes around the session and lets waiting
    /// prompts join. Does nothing for a child, because prompts and notes are meant for the agent that the user talks
    /// to.
    async fn pause(&mut self) {
        // Prompts and notes are for the agent that the user talks to.
        if self.agent.handle.identity != AgentIdentity::Main {
            return;
        }
        let notes = self.agent.handle.catch_up(&self.cancel).await;
        self.agent.tell_model(&notes);
        self.let_prompts_join().await;
    }

    /// Adds the prompts that came in during this turn to its conversation, so that they share its result; each is
    /// recorded and the host told that it has started. Commands, prompts behind a command and prompts of another
    /// priority stay in the queue.
    pub(crate) async fn let_prompts_join(&mut self) {
        let joining = self.session.queue().joining(|prompt| is_command(&self.agent.handle, prompt));
        for prompt in joining {
            self.stats.asked.push(prompt.message.content.text());
            self.agent.history.add_user(prompt_blocks(&prompt.message.content));
            let record =
                self.agent.write_prompt(&prompt, &prompt, PromptStarts::Nothing, PromptWords::Shown).await;
            self.agent.history.note_prompt(record);
            self.session.emit_lifecycle(prompt.uuid.as_deref(), PromptState::Started).await;
            self.stats.prompts.extend(prompt.uuid);
        }
    }

    /// Counts a nudge and adds its text as a synthetic user message behind the response, for the model, the record and
    /// the host. Before a nudge after a refusal, the host also gets a notice.
    async fn nudge(&mut self, nudge: Nudge) {
        let nudges = &mut self.stats.nudges;
        match nudge {
            Nudge::OutOfTokens => nudges.out_of_tokens += 1,
            Nudge::Refusal => nudges.refusal += 1,
            Nudge::Empty => nudges.empty += 1,
            Nudge::CutOff => nudges.cut_off += 1,
            Nudge::Structure => nudges.structure += 1,
        }
        if nudge == Nudge::Refusal {
            let text = format!("{} stopped its answer for safety; it is asked once to go on", self.model_id);
            self.session.emit(self.agent.handle.frames.notice(&text)).await;
        }
        let text = nudge_text(nudge);
        self.agent.history.add_user_text(text);
        let mut frame = self.agent.handle.frames.synthetic_user(text);
        if nudge == Nudge::Refusal {
            frame.extra.insert("refused_message_id".to_owned(), self.stats.answer_id.clone().into());
        }
        self.say_as_user(frame).await;
    }

    /// Continues with the next fallback model after a refusal that a nudge did not overcome, and tells the host and the
    /// model. The change lasts for the rest of the session. Does nothing if no fallback is left.
    async fn turn_to_fallback(&mut self) {
        let Some(fallback) = self.next_fallback() else { return };
        let original = std::mem::replace(&mut self.model_id, fallback.clone());
        self.chosen_id.clone_from(&fallback);
        self.agent.handle.change_choice(|choice| choice.id.clone_from(&fallback));
        let request_id = self.stats.request_id.clone();
        let prompt = self.agent.journal.prompt_id();
        let frame = self.agent.handle.frames.refusal_fallback(&original, &fallback, request_id, prompt);
        self.session.emit(frame).await;
        // The refused response may have left text behind; a request must not end with it.
        self.agent.history.add_user_text(nudge_text(Nudge::Refusal));
    }

    /// Takes the next fallback model off the list of the turn; `None` if none is left. The model in use is removed from
    /// the list.
    pub(crate) fn next_fallback(&mut self) -> Option<String> {
        self.fallbacks.retain(|model| *model != self.model_id);
        (!self.fallbacks.is_empty()).then(|| self.fallbacks.remove(0))
    }
}

/// Returns the text of a nudge, which the model and the host see.
fn nudge_text(nudge: Nudge) -> &'static str {
    match nudge {
        Nudge::OutOfTokens => {
            "Your answer reached the output limit and was cut. Carry on exactly where it stopped, without \
             repeating or summarising, and do what is left in smaller steps."
        }
        Nudge::Refusal => {
            "Your last answer was withheld by the provider's safety filter; calls in it that had not \
             finished did not run. Do not write that content again. If the task can be done another way, \
             go on with it; otherwise say what you can and cannot do."
        }
        Nudge::Empty => {
            "Your last answer was empty. Please answer with text that the user can read, or call a tool."
        }
        Nudge::CutOff => {
            "The connection broke while you were answering and the rest was lost. Carry on exactly where \
             the text above stops."
        }
        Nudge::Structure => CALL_STRUCTURED_OUTPUT,
    }
}

/// Returns the end of a round whose response calls no tool: [`RoundEnd::Answered`] with the stop reason of the
/// response.
pub(crate) fn answered(answer: &ModelResponse) -> RoundEnd {
    RoundEnd::Answered(crate::turn::decide::StopReason::read(answer.stop_reason.as_deref()))
}
