//! Child processes: started, watched, bounded, killed as a tree.
//!
//! Every child of a session is on its [`Ledger`], in the scope of its owner. It runs under its own small supervisor
//! process (`supervisor.rs`), which kills the whole tree, `setsid` and double-forked daemons included, as soon as its
//! owner lets go: on purpose, in a panic, or because the owner was killed with signal 9. [`Ledger::start`] makes a
//! command a job: its output is read and kept within bounds, it can be waited for, detached, read and waited for again.
//! [`Ledger::run`] waits for the end of one; [`Ledger::spawn`] returns the pipes instead. Whether a command may run is
//! decided elsewhere; nothing here knows about permissions. [`ProcessLimits`] says how many commands, searches and
//! hooks a process runs at the same time.
//!
//! Everything works on a current-thread tokio runtime with I/O and time enabled, without a thread per child and without
//! a helper program on disk.

mod blocking;
mod capture;
mod error;
mod job;
mod launch;
mod ledger;
mod limits;
mod pump;
mod reading;
mod run;
mod running;
mod scope;
mod spec;
mod supervisor;
mod wall;

pub use blocking::spawn_blocking;
pub use capture::{Captured, Spilled};
pub use error::ExecError;
pub use job::{CommandJob, DetachOutcome, ForegroundCommand, ForegroundEnd, JobEvent, JobEvents};
pub use ledger::{Ledger, LiveProcess};
pub use limits::{NoPlace, Place, PlaceKind, PlaceLimit, ProcessLimits};
pub use reading::{OutputPart, OutputStream};
pub use run::{Ended, Finished};
pub use running::{Exit, Running};
pub use scope::ScopeEndPolicy;
pub use spec::{
    Capture, ChildLimits, Leftovers, OutputLimit, OutputMode, RunLimits, Spec, SpillFile, StdinSource,
    WhenFull,
};
/// The pipe ends that [`Running`] hands out.
pub use tokio::net::unix::pipe::{Receiver as OutputPipe, Sender as InputPipe};
pub use wall::CommandWall;
