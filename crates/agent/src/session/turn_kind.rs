//! What a turn does: mostly the model responds, but a turn may also run a command, resume a deferred call, or do
//! nothing at all. The loop of the model is `turn.rs`; `session.rs` decides what a turn is for.

use lathe_protocol::Outbound;

use crate::commands;
use crate::state::dispatch::CommandInvocation;
use crate::turn::Turn;
use crate::turn::announce::init_frame;
use crate::turn::decide::TurnEnding;
use crate::turn::outcome::{TurnOutcome, TurnPhase};

/// The work of a turn.
pub(crate) enum TurnKind {
    /// Resumes the deferred call, and goes on from there.
    ResumeDeferredCall { command: String },
    /// The model responds.
    Prompt,
    /// A command runs.
    Command(Box<CommandInvocation>),
    /// The model is not asked; the result is this text.
    NoModelCall { text: String },
    /// Cancelled before the model was asked.
    Cancelled,
}

/// Runs a turn of this kind to its outcome. Also returns the id under which the host was told of a resumed deferred
/// call, because its final state has to be reported too; `None` for every other turn.
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
