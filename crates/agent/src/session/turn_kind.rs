//! What a turn is for, and doing it: mostly the model answers, but a turn may also be a command, a call that was put
//! off, or nothing at all. How the model answers is `turn.rs`; who decides what it is for is `session.rs`.

use lathe_protocol::Outbound;

use crate::commands;
use crate::state::dispatch::CommandInvocation;
use crate::turn::Turn;
use crate::turn::announce::init_frame;
use crate::turn::decide::TurnEnding;
use crate::turn::outcome::{TurnOutcome, TurnPhase};

/// What a turn does.
pub(crate) enum TurnKind {
    /// Take up the call that was put off, and go on from there.
    ResumeDeferredCall { command: String },
    /// The model answers.
    Prompt,
    /// A command runs.
    Command(Box<CommandInvocation>),
    /// Nobody answers; the result is this text.
    NoModelCall { text: String },
    /// Somebody broke it off before the model was asked.
    Cancelled,
}

/// Does what a turn is for; with the id of the command that it was, where that is no prompt's.
pub(crate) async fn outcome_of(turn: &mut Turn<'_>, work: TurnKind) -> (TurnOutcome, Option<String>) {
    let (resumed, command) = match work {
        TurnKind::Command(call) => return (commands::run(turn, call).await, None),
        TurnKind::NoModelCall { text } => {
            turn.stats.last_text = text;
            return (TurnOutcome::Ended(TurnEnding::NothingAsked), None);
        }
        TurnKind::Cancelled => {
            turn.mark_interrupted(TurnPhase::Streaming).await;
            return (TurnOutcome::Interrupted(TurnPhase::Streaming), None);
        }
        TurnKind::Prompt => (turn.resume_deferred_call().await, None),
        TurnKind::ResumeDeferredCall { command } => {
            let resumed = turn.resume_deferred_call().await;
            let init = init_frame(&turn.agent.handle, None);
            turn.session.emit(Outbound::system(init)).await;
            if resumed.is_none() {
                turn.let_prompts_join().await;
            }
            (resumed, Some(command))
        }
    };
    let outcome = match resumed {
        Some(outcome) => outcome,
        None => Box::pin(turn.run()).await,
    };
    (outcome, command)
}
