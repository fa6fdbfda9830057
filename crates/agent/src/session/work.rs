//! What a turn is for, and doing it: mostly the model answers, but a turn may also be a command, a call that was put
//! off, or nothing at all. How the model answers is `turn.rs`; who decides what it is for is `session.rs`.

use lathe_protocol::Outbound;

use crate::commands;
use crate::state::dispatch::Invocation;
use crate::turn::Turn;
use crate::turn::announce::init_frame;
use crate::turn::decide::Ending;
use crate::turn::outcome::{Outcome, Phase};

/// What a turn does.
pub(crate) enum Work {
    /// Take up the call that was put off, and go on from there.
    TakeUp { command: String },
    /// The model answers.
    Answer,
    /// A command runs.
    Command(Box<Invocation>),
    /// Nobody answers; the result is this text.
    Nothing { text: String },
    /// Somebody broke it off before the model was asked.
    BrokenOff,
}

/// Does what a turn is for; with the id of the command that it was, where that is no prompt's.
pub(crate) async fn outcome_of(turn: &mut Turn<'_>, work: Work) -> (Outcome, Option<String>) {
    let (taken_up, command) = match work {
        Work::Command(call) => return (commands::run(turn, call).await, None),
        Work::Nothing { text } => {
            turn.stats.last_text = text;
            return (Outcome::Ended(Ending::NothingAsked), None);
        }
        Work::BrokenOff => {
            turn.mark_interrupted(Phase::Streaming).await;
            return (Outcome::Interrupted(Phase::Streaming), None);
        }
        Work::Answer => (turn.take_up().await, None),
        Work::TakeUp { command } => {
            let taken_up = turn.take_up().await;
            let init = init_frame(&turn.agent.handle, None);
            turn.session.emit(Outbound::system(init)).await;
            if taken_up.is_none() {
                turn.let_prompts_join().await;
            }
            (taken_up, Some(command))
        }
    };
    let outcome = match taken_up {
        Some(outcome) => outcome,
        None => Box::pin(turn.run()).await,
    };
    (outcome, command)
}
