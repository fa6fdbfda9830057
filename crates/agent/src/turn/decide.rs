//! What follows a round, as a pure table: given how the round ended and what the turn has used up, go on, nudge the
//! model, ask the stop hooks, or end. Nothing here waits, prints or remembers.

/// How one round, that is a response and its calls, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundEnd {
    /// The response called tools and all of them have results. Anything but [`StopReason::Finished`] says that the
    /// response did not come to its own end after the calls.
    ToolsAnswered(StopReason),
    /// The response is final: it calls no tools.
    Answered(StopReason),
    /// The stream broke after a part of the response had been kept, and no tool was called.
    CutOff,
    /// A hook wants the turn to end here.
    StoppedByHook,
    /// A `PreToolUse` hook deferred the call to a later run.
    Deferred,
    /// The structured output was given.
    StructuredOutput,
    /// The structured output was wrong too often.
    StructuredOutputExhausted,
}

/// Why a response ended, as far as it makes a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// `end_turn`, `stop_sequence`, `pause_turn`, and unknown reasons.
    Finished,
    /// `max_tokens`, `model_context_window_exceeded`.
    OutOfTokens,
    Refusal,
}

impl StopReason {
    /// Reads the API's `stop_reason`. A missing or unknown one counts as [`Self::Finished`].
    pub fn read(reason: Option<&str>) -> Self {
        match reason {
            Some("max_tokens" | "model_context_window_exceeded") => Self::OutOfTokens,
            Some("refusal") => Self::Refusal,
            Some(_) | None => Self::Finished,
        }
    }
}

/// What the turn has used up so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct UsedSoFar {
    /// Responses received in this turn.
    pub rounds: u32,
    /// `--max-turns`; none means no limit.
    pub max_rounds: Option<u32>,
    /// Whether the spending limit is reached.
    pub over_budget: bool,
    /// Whether a prompt is queued that does not wait for the end of this turn.
    pub preempted: bool,
    /// Whether the response had anything a person can see (text or a tool call).
    pub visible: bool,
    /// Whether there is another model to turn to.
    pub fallback_left: bool,
    /// Whether a structured output was asked for and has not been given.
    pub owes_structure: bool,
    /// Nudges already spent, by kind.
    pub nudges: NudgeCounts,
}

/// Synthetic messages sent in this turn, as far as they still count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NudgeCounts {
    pub out_of_tokens: u32,
    pub refusal: u32,
    pub empty: u32,
    pub cut_off: u32,
    pub structure: u32,
}

impl NudgeCounts {
    /// Forgets the nudges that have helped, because tools have run since or hooks have sent the model back to work, so
    /// that a long turn does not end because of problems that were each solved. The counts of refusals and of
    /// structured output stay: each of these nudges is given once per turn.
    pub fn forget_overcome(&mut self) {
        *self = Self { refusal: self.refusal, structure: self.structure, ..Self::default() };
    }
}

/// A synthetic user message that lets the model recover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nudge {
    OutOfTokens,
    Refusal,
    Empty,
    CutOff,
    Structure,
}

/// What the loop does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// Send the next request.
    Again,
    /// Add this message and send the next request.
    Nudge(Nudge),
    /// Turn to the next fallback model and send the request again.
    Fallback,
    End(TurnEnding),
}

/// What follows a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterRound {
    Next(NextStep),
    /// The model is done, so the stop hooks are asked: without an objection the turn is [`TurnEnding::Completed`], with
    /// one [`after_objection`] says what follows.
    AskStopHooks,
}

/// How a turn ends, as far as the loop itself decides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEnding {
    Completed,
    MaxTurns(u32),
    Budget,
    /// Cut off by the output limit more often than we recover from.
    OutOfTokens,
    /// The stream broke more often than we recover from.
    CutOff,
    Refused,
    HookStopped,
    Deferred,
    /// A deferred call cannot be resumed, because its tool does not exist any more.
    DeferredUnavailable,
    StructuredOutputExhausted,
    /// A stop hook ended the session's work here.
    StopHookPrevented,
    /// Stop hooks kept the turn from ending too often.
    StopHookCap,
    /// A more urgent prompt came in.
    Preempted,
    /// The model was not asked: the prompt was empty, refused, or only to be kept.
    NothingAsked,
}

/// How often in a row the model is asked to go on after it ran out of output tokens.
const MAX_TOKEN_RECOVERIES: u32 = 3;

/// How often in a row it is asked to go on after its stream broke.
const CUT_OFF_RECOVERIES: u32 = 3;

/// Decides what follows a round: another one, a nudge, the stop hooks, or the end of the turn. A used-up budget ends
/// the turn whatever the round brought; a more urgent prompt ends it only after a round with calls. A pure table, so
/// that every case can be tested.
pub fn decide(end: RoundEnd, used: &UsedSoFar) -> AfterRound {
    // Before everything else, because whatever follows costs more.
    if used.over_budget {
        return AfterRound::Next(NextStep::End(TurnEnding::Budget));
    }
    let next = match end {
        RoundEnd::StoppedByHook => NextStep::End(TurnEnding::HookStopped),
        RoundEnd::Deferred => NextStep::End(TurnEnding::Deferred),
        // The model is not asked for more, but the stop hooks are.
        RoundEnd::StructuredOutput => return AfterRound::AskStopHooks,
        RoundEnd::StructuredOutputExhausted => NextStep::End(TurnEnding::StructuredOutputExhausted),
        RoundEnd::ToolsAnswered(_) if used.preempted => NextStep::End(TurnEnding::Preempted),
        RoundEnd::ToolsAnswered(StopReason::Finished) => within_rounds(used, NextStep::Again),
        RoundEnd::CutOff if used.nudges.cut_off < CUT_OFF_RECOVERIES => {
            within_rounds(used, NextStep::Nudge(Nudge::CutOff))
        }
        // A part of a response is not presented as a whole one.
        RoundEnd::CutOff => NextStep::End(TurnEnding::CutOff),
        RoundEnd::ToolsAnswered(reason) | RoundEnd::Answered(reason) => return after_answer(reason, used),
    };
    AfterRound::Next(next)
}

/// Decides whether the turn goes on after a stop hook has objected: only within the budget and the limit of rounds.
pub fn after_objection(used: &UsedSoFar) -> NextStep {
    if used.over_budget { NextStep::End(TurnEnding::Budget) } else { within_rounds(used, NextStep::Again) }
}

/// Decides what follows a response by its stop reason. Each nudge has a limit of its own and needs a round within the
/// limit of rounds; the stop hooks are asked only about a finished response for which no nudge is due.
fn after_answer(reason: StopReason, used: &UsedSoFar) -> AfterRound {
    let next = match reason {
        StopReason::OutOfTokens if used.nudges.out_of_tokens < MAX_TOKEN_RECOVERIES => {
            within_rounds(used, NextStep::Nudge(Nudge::OutOfTokens))
        }
        StopReason::OutOfTokens => NextStep::End(TurnEnding::OutOfTokens),
        StopReason::Refusal if used.nudges.refusal == 0 => {
            within_rounds(used, NextStep::Nudge(Nudge::Refusal))
        }
        StopReason::Refusal if used.fallback_left => within_rounds(used, NextStep::Fallback),
        StopReason::Refusal => NextStep::End(TurnEnding::Refused),
        StopReason::Finished if !used.visible && used.nudges.empty == 0 => {
            within_rounds(used, NextStep::Nudge(Nudge::Empty))
        }
        StopReason::Finished if used.owes_structure && used.nudges.structure == 0 => {
            within_rounds(used, NextStep::Nudge(Nudge::Structure))
        }
        StopReason::Finished => return AfterRound::AskStopHooks,
    };
    AfterRound::Next(next)
}

/// Returns `next`, or the end of the turn if the limit of rounds is reached. For steps that send another request.
fn within_rounds(used: &UsedSoFar, next: NextStep) -> NextStep {
    match used.max_rounds {
        Some(limit) if used.rounds >= limit => NextStep::End(TurnEnding::MaxTurns(limit)),
        Some(_) | None => next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used() -> UsedSoFar {
        UsedSoFar { rounds: 1, visible: true, ..UsedSoFar::default() }
    }

    fn go(next: NextStep) -> AfterRound {
        AfterRound::Next(next)
    }

    fn check(rows: Vec<(RoundEnd, UsedSoFar, AfterRound)>) {
        for (end, used, next) in rows {
            assert_eq!(decide(end, &used), next, "{end:?} with {used:?}");
        }
    }

    /// The rows of responses and tools: how the round ended, what was used, what comes next.
    #[test]
    fn the_table_of_answers() {
        use StopReason::{Finished, OutOfTokens, Refusal};
        use TurnEnding::{MaxTurns, Refused};
        let spent = |nudges| UsedSoFar { nudges, ..used() };
        let rows: Vec<(RoundEnd, UsedSoFar, AfterRound)> = vec![
            (RoundEnd::ToolsAnswered(Finished), used(), go(NextStep::Again)),
            (
                RoundEnd::ToolsAnswered(Finished),
                UsedSoFar { max_rounds: Some(2), ..used() },
                go(NextStep::Again),
            ),
            (
                RoundEnd::ToolsAnswered(Finished),
                UsedSoFar { max_rounds: Some(1), ..used() },
                go(NextStep::End(MaxTurns(1))),
            ),
            (
                RoundEnd::ToolsAnswered(Finished),
                UsedSoFar { preempted: true, ..used() },
                go(NextStep::End(TurnEnding::Preempted)),
            ),
            (RoundEnd::Answered(Finished), UsedSoFar { preempted: true, ..used() }, AfterRound::AskStopHooks),
            (RoundEnd::Answered(Finished), used(), AfterRound::AskStopHooks),
            (
                RoundEnd::Answered(Finished),
                UsedSoFar { max_rounds: Some(1), ..used() },
                AfterRound::AskStopHooks,
            ),
            (
                RoundEnd::Answered(Finished),
                UsedSoFar { over_budget: true, ..used() },
                go(NextStep::End(TurnEnding::Budget)),
            ),
            (
                RoundEnd::ToolsAnswered(Finished),
                UsedSoFar { over_budget: true, ..used() },
                go(NextStep::End(TurnEnding::Budget)),
            ),
            (
                RoundEnd::Answered(Finished),
                UsedSoFar { visible: false, ..used() },
                go(NextStep::Nudge(Nudge::Empty)),
            ),
            (
                RoundEnd::Answered(Finished),
                UsedSoFar { visible: false, ..spent(NudgeCounts { empty: 1, ..NudgeCounts::default() }) },
                AfterRound::AskStopHooks,
            ),
            (RoundEnd::Answered(OutOfTokens), used(), go(NextStep::Nudge(Nudge::OutOfTokens))),
            (
                RoundEnd::Answered(OutOfTokens),
                spent(NudgeCounts { out_of_tokens: 2, ..NudgeCounts::default() }),
                go(NextStep::Nudge(Nudge::OutOfTokens)),
            ),
            (
                RoundEnd::Answered(OutOfTokens),
                spent(NudgeCounts { out_of_tokens: 3, ..NudgeCounts::default() }),
                go(NextStep::End(TurnEnding::OutOfTokens)),
            ),
            (
                RoundEnd::Answered(OutOfTokens),
                UsedSoFar { max_rounds: Some(1), ..used() },
                go(NextStep::End(MaxTurns(1))),
            ),
            (RoundEnd::Answered(Refusal), used(), go(NextStep::Nudge(Nudge::Refusal))),
            (
                RoundEnd::Answered(Refusal),
                spent(NudgeCounts { refusal: 1, ..NudgeCounts::default() }),
                go(NextStep::End(Refused)),
            ),
            (
                RoundEnd::Answered(Refusal),
                UsedSoFar {
                    fallback_left: true,
                    ..spent(NudgeCounts { refusal: 1, ..NudgeCounts::default() })
                },
                go(NextStep::Fallback),
            ),
        ];
        check(rows);
    }

    /// The rows of rounds that did not end with a whole response, or ended with something else.
    #[test]
    fn the_table_of_other_ends() {
        use StopReason::{Finished, OutOfTokens, Refusal};
        use TurnEnding::{Deferred, HookStopped, MaxTurns, Refused};
        let spent = |nudges| UsedSoFar { nudges, ..used() };
        let rows: Vec<(RoundEnd, UsedSoFar, AfterRound)> = vec![
            (RoundEnd::CutOff, used(), go(NextStep::Nudge(Nudge::CutOff))),
            (
                RoundEnd::CutOff,
                spent(NudgeCounts { cut_off: 3, ..NudgeCounts::default() }),
                go(NextStep::End(TurnEnding::CutOff)),
            ),
            (RoundEnd::CutOff, UsedSoFar { max_rounds: Some(1), ..used() }, go(NextStep::End(MaxTurns(1)))),
            (
                RoundEnd::CutOff,
                UsedSoFar { over_budget: true, ..used() },
                go(NextStep::End(TurnEnding::Budget)),
            ),
            (RoundEnd::ToolsAnswered(OutOfTokens), used(), go(NextStep::Nudge(Nudge::OutOfTokens))),
            (
                RoundEnd::ToolsAnswered(OutOfTokens),
                spent(NudgeCounts { out_of_tokens: 3, ..NudgeCounts::default() }),
                go(NextStep::End(TurnEnding::OutOfTokens)),
            ),
            (
                RoundEnd::ToolsAnswered(OutOfTokens),
                UsedSoFar { preempted: true, ..used() },
                go(NextStep::End(TurnEnding::Preempted)),
            ),
            (RoundEnd::ToolsAnswered(Refusal), used(), go(NextStep::Nudge(Nudge::Refusal))),
            (
                RoundEnd::ToolsAnswered(Refusal),
                spent(NudgeCounts { refusal: 1, ..NudgeCounts::default() }),
                go(NextStep::End(Refused)),
            ),
            (
                RoundEnd::Answered(OutOfTokens),
                UsedSoFar { over_budget: true, ..used() },
                go(NextStep::End(TurnEnding::Budget)),
            ),
            (RoundEnd::StoppedByHook, used(), go(NextStep::End(HookStopped))),
            (RoundEnd::Deferred, used(), go(NextStep::End(Deferred))),
            (
                RoundEnd::Answered(Finished),
                UsedSoFar { owes_structure: true, ..used() },
                go(NextStep::Nudge(Nudge::Structure)),
            ),
            (
                RoundEnd::Answered(Finished),
                UsedSoFar {
                    owes_structure: true,
                    ..spent(NudgeCounts { structure: 1, ..NudgeCounts::default() })
                },
                AfterRound::AskStopHooks,
            ),
            (
                RoundEnd::Answered(Finished),
                UsedSoFar { owes_structure: true, max_rounds: Some(1), ..used() },
                go(NextStep::End(MaxTurns(1))),
            ),
            (
                RoundEnd::ToolsAnswered(Finished),
                UsedSoFar { owes_structure: true, ..used() },
                go(NextStep::Again),
            ),
            (
                RoundEnd::StructuredOutput,
                UsedSoFar { max_rounds: Some(1), ..used() },
                AfterRound::AskStopHooks,
            ),
            (
                RoundEnd::StructuredOutput,
                UsedSoFar { over_budget: true, ..used() },
                go(NextStep::End(TurnEnding::Budget)),
            ),
            (
                RoundEnd::StructuredOutputExhausted,
                UsedSoFar { max_rounds: Some(1), ..used() },
                go(NextStep::End(TurnEnding::StructuredOutputExhausted)),
            ),
            (RoundEnd::StructuredOutput, used(), AfterRound::AskStopHooks),
            (
                RoundEnd::StructuredOutputExhausted,
                used(),
                go(NextStep::End(TurnEnding::StructuredOutputExhausted)),
            ),
        ];
        check(rows);
    }

    #[test]
    fn an_objection_of_stop_hooks_needs_a_round_and_money() {
        let rows = [
            (used(), NextStep::Again),
            (UsedSoFar { preempted: true, ..used() }, NextStep::Again),
            (UsedSoFar { max_rounds: Some(1), ..used() }, NextStep::End(TurnEnding::MaxTurns(1))),
            (UsedSoFar { over_budget: true, ..used() }, NextStep::End(TurnEnding::Budget)),
        ];
        for (used, next) in rows {
            assert_eq!(after_objection(&used), next, "{used:?}");
        }
    }

    #[test]
    fn what_was_overcome_is_forgotten() {
        let mut nudges = NudgeCounts { out_of_tokens: 2, refusal: 1, empty: 1, cut_off: 3, structure: 1 };
        nudges.forget_overcome();
        assert_eq!(nudges, NudgeCounts { refusal: 1, structure: 1, ..NudgeCounts::default() });
    }

    #[test]
    fn reasons_we_do_not_know_end_the_turn() {
        for reason in [None, Some("end_turn"), Some("stop_sequence"), Some("pause_turn"), Some("new_one")] {
            assert_eq!(StopReason::read(reason), StopReason::Finished);
        }
    }
}
