//! How a turn can end, and the two tokens that end it from outside.

use lathe_models::ModelError;
use tokio_util::sync::CancellationToken;

use crate::turn::decide::TurnEnding;

/// How a turn ended.
#[derive(Debug)]
pub enum TurnOutcome {
    /// The loop's own decision.
    Ended(TurnEnding),
    /// The model could not be reached or refused the request.
    Failed(ModelError),
    /// It was interrupted.
    Interrupted(TurnPhase),
    /// The conversation does not fit into the model's window.
    OutOfRoom(OutOfRoom),
    /// A command that the session ran itself.
    Command(CommandEnd),
}

/// What an interrupt cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnPhase {
    Streaming,
    Tools,
}

/// Why a turn cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutOfRoom {
    /// The conversation does not fit, and nothing makes room.
    Full,
    /// It fills up as fast as it is compacted.
    Refilled,
}

/// How a command ended.
#[derive(Debug, Default)]
pub struct CommandEnd {
    /// `local_command`; none for a command that cannot run here.
    pub name: Option<String>,
    pub text: String,
    pub is_error: bool,
    /// Whether `/clear` began another session.
    pub cleared: bool,
}

/// The current turn, as far as others may touch it.
#[derive(Clone)]
pub(crate) struct TurnHandle {
    /// Interrupts it.
    pub cancel: CancellationToken,
    /// Ends it at its next pause, because something more urgent came.
    pub preempt: CancellationToken,
}
