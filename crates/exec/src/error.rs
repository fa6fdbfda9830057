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
        /// The program.
        program: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The working directory is missing or not accessible.
    #[error("enter the working directory {}: {source}", cwd.display())]
    WorkingDirectory {
        /// The working directory.
        cwd: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The pipes could not be created, usually because no file descriptor is left.
    #[error("make pipes for {}: {source}", program.display())]
    Pipes {
        /// The program.
        program: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The scope that the command was to belong to has ended.
    #[error("start {label}: {scope} has ended")]
    ScopeEnded {
        /// The name of the command for people.
        label: String,
        /// The scope.
        scope: String,
    },
}

impl ExecError {
    /// Returns whether the machine ran out of something that a start needs: descriptors, processes or memory. The same
    /// command may start a moment later, when something else has ended. `exec` itself can fail this way too; the child
    /// reports its error number back, so the failing step does not matter here.
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
