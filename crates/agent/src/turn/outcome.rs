//! How a turn can end, and the two tokens by which others end it.

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
    /// Someone broke it off.
    Interrupted(TurnPhase),
    /// The conversation does not fit into the model's window.
    OutOfRoom(OutOfRoom),
    /// A command that the session answered itself.
    Command(CommandEnd),
}

/// What an interrupt broke off.
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
    /// `local_command`; none for one that cannot run here.
    pub name: Option<String>,
    pub text: String,
    pub is_error: bool,
    /// Whether another session began.
    pub cleared: bool,
}

/// The turn under way, as far as others may touch it.
#[derive(Clone)]
pub(crate) struct TurnHandle {
    /// Breaks it off.
    pub cancel: CancellationToken,
    /// Ends it at its next pause, because something more urgent came.
    pub preempt: CancellationToken,
}
