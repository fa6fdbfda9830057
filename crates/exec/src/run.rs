//! Runs a command to its end, for callers that want no more of it: input in, bounded output out, and a reason
//! why it ended. The work is that of a job; see `job.rs` and `pump.rs`.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::{Captured, ExecError, Exit, Ledger, RunLimits, Spec};

/// A command that has ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// How the main process ended.
    pub exit: Exit,
    /// What made it end.
    pub ended: Ended,
    /// What it printed; both outputs if they are merged.
    pub stdout: Captured,
    /// What it printed to stderr; empty if the outputs are merged.
    pub stderr: Captured,
    /// What it wrote to [`Spec::note_fd`], up to 16 KiB.
    pub note: Vec<u8>,
    /// From start to end.
    pub duration: Duration,
}

/// What made a command end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It came to its end, good or bad.
    ByItself,
    /// [`RunLimits::timeout`] was over, and the tree was killed.
    TimedOut,
    /// The token was cancelled, and the tree was killed.
    Cancelled,
    /// It printed more than [`OutputLimit::KillAt`](crate::OutputLimit::KillAt), and the tree was killed.
    OutputLimit,
    /// Its handle, its scope or the end of the session told it to end.
    Stopped,
}

impl Ledger {
    /// Runs a command to its end. Dropping the future kills the tree. An error means that it did not start.
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
