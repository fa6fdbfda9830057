//! Runs a command to its end, for callers that need nothing else: input in, bounded output out, and the cause of its
//! end. A job does the work; see `job.rs` and `pump.rs`.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::{Captured, ExecError, Exit, Ledger, RunLimits, Spec};

/// A command that has ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// How the main process ended.
    pub exit: Exit,
    /// The cause of the end.
    pub ended: Ended,
    /// The bytes it printed; both outputs if they are merged.
    pub stdout: Captured,
    /// The bytes it printed to stderr; empty if the outputs are merged.
    pub stderr: Captured,
    /// The bytes it wrote to [`Spec::note_fd`], up to 16 KiB.
    pub note: Vec<u8>,
    /// From start to end.
    pub duration: Duration,
}

/// The cause of a command's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It ended on its own, with success or not.
    ByItself,
    /// [`RunLimits::timeout`] was over, and the tree was killed.
    TimedOut,
    /// The token was cancelled, and the tree was killed.
    Cancelled,
    /// It printed more than [`OutputLimit::KillAt`](crate::OutputLimit::KillAt), and the tree was killed.
    OutputLimit,
    /// Its handle, its scope or the end of the session stopped it.
    Stopped,
}

impl Ledger {
    /// Starts a command and waits for its end. If `cancel` fires, the tree is killed and the result says so; dropping
    /// the future kills the tree too. An error means that the command did not start.
    pub async fn run(
        &self,
        spec: Spec,
        limits: RunLimits,
        cancel: &CancellationToken,
    ) -> Result<Finished, ExecError> {
        let command = self.start(spec, limits)?;
        Ok(command.finish(cancel).await)
    }
}
