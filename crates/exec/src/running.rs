//! A running command with its pipes, and how a main process can end.

use std::sync::Arc;

use crate::ledger::{Entry, KILL_WAIT, Stage};
use crate::{Ended, InputPipe, OutputPipe};

/// How a main process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// Unknown: its supervisor was killed, or the tree would not die.
    Lost,
}

impl Exit {
    /// Returns whether the exit code is 0.
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }

    /// Converts a raw status of `waitpid`; a status that is neither an exit nor a signal becomes [`Exit::Lost`].
    pub(crate) fn from_wait_status(status: i32) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let status = std::process::ExitStatus::from_raw(status);
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Lost,
        }
    }
}

/// A running command with its pipes. Dropping it kills the whole tree.
pub struct Running {
    /// Present if the spec asked for [`StdinSource::Piped`](crate::StdinSource::Piped). Drop it to end the input.
    pub stdin: Option<InputPipe>,
    /// The output of the command. The owner must read it, or the command blocks; take and drop it to close it.
    pub stdout: Option<OutputPipe>,
    /// Present if the outputs are separate.
    pub stderr: Option<OutputPipe>,
    entry: Arc<Entry>,
}

/// The reading ends of a command's outputs.
pub(crate) struct Output {
    pub stdout: OutputPipe,
    pub stderr: Option<OutputPipe>,
}

impl Running {
    /// Creates the handle of a command whose pipes the caller reads. Dropping it kills the tree.
    pub(crate) fn new(entry: Arc<Entry>, stdin: Option<InputPipe>, output: Output) -> Self {
        Self { stdin, stdout: Some(output.stdout), stderr: output.stderr, entry }
    }

    /// Returns the pid of the main process, which is also its process group and session; 0 if it was lost at once.
    pub fn pid(&self) -> i32 {
        self.entry.pid
    }

    /// Waits for the main process to end and returns how; [`Exit::Lost`] if the runtime that watched it is gone. Can
    /// be called repeatedly; dropping the future is safe.
    pub async fn wait(&self) -> Exit {
        let mut stage = self.entry.stage.clone();
        let seen = stage.wait_for(|stage| *stage != Stage::Running).await;
        match seen.as_deref() {
            Ok(Stage::Ended { exit, .. } | Stage::Gone { exit }) => *exit,
            // The keeper died with its runtime.
            Ok(Stage::Running) | Err(_) => Exit::Lost,
        }
    }

    /// Ends the whole tree (SIGTERM, grace period, SIGKILL) and waits until it is gone, for at most the grace period
    /// and two seconds. Returns how the main process ended, or [`Exit::Lost`] if it has not by then.
    pub async fn kill(&self) -> Exit {
        self.entry.cut(Ended::Stopped);
        let patience = self.entry.grace + KILL_WAIT;
        let _ = tokio::time::timeout(patience, self.entry.gone()).await;
        match *self.entry.stage.borrow() {
            Stage::Running => Exit::Lost,
            Stage::Ended { exit, .. } | Stage::Gone { exit } => exit,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.entry.cut(Ended::Stopped);
    }
}
