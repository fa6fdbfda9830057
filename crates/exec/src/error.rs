//! Why a child could not be started. What a child does once it runs is never an error here: see `Exit`.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// A command that did not start.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The kernel refused the program: missing, not executable, arguments too long, too many processes.
    #[error("start {}: {source}", program.display())]
    Start {
        /// What was to be run.
        program: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The directory to run in is missing or closed to us.
    #[error("enter the working directory {}: {source}", cwd.display())]
    WorkingDirectory {
        /// Where the command was to run.
        cwd: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Pipes could not be made: usually out of file descriptors.
    #[error("make pipes for {}: {source}", program.display())]
    Pipes {
        /// What was to be run.
        program: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The scope that the command was to belong to has ended.
    #[error("start {label}: {scope} has ended")]
    ScopeEnded {
        /// What a person calls the command.
        label: String,
        /// The scope.
        scope: String,
    },
}

impl ExecError {
    /// Whether the machine had nothing left to start the command with: no descriptor, no process, no memory.
    /// The same command can start a moment later, when something else has ended. `exec` itself can fail this
    /// way too; the child reports its error number back, so the step does not matter here.
    pub fn is_exhaustion(&self) -> bool {
        let source = match self {
            Self::Start { source, .. }
            | Self::WorkingDirectory { source, .. }
            | Self::Pipes { source, .. } => source,
            Self::ScopeEnded { .. } => return false,
        };
        let exhausted = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM];
        source.raw_os_error().is_some_and(|number| exhausted.map(Errno::raw_os_error).contains(&number))
    }
}
