//! The events of a command, for any number of readers.
//!
//! No queue exists that a slow reader could fill: each reader compares the state of the command with the state it
//! reported last. So a slow reader sees growth in fewer, larger steps, and everything else exactly once.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Held, JobPhase, JobShared, JobState};
use crate::{Ended, Exit};

/// An event of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEvent {
    /// It runs.
    Started {
        /// Its main process.
        pid: i32,
    },
    /// It printed something.
    OutputGrew {
        /// Bytes of stdout and stderr together, since the start.
        total_bytes: u64,
    },
    /// The file of an output is full; from now on only the tail in memory is kept.
    OutputCapReached,
    /// It continues without its caller.
    Detached,
    /// The main process has ended and its output has been read.
    Exited {
        /// The code or the signal.
        exit: Exit,
        /// The cause of the end.
        ended: Ended,
    },
    /// No process of the tree is left, and all output has been read. The last event.
    Gone,
}

/// The events of one command for one reader; see [`CommandJob::events`](crate::CommandJob::events).
pub struct JobEvents {
    shared: Arc<JobShared>,
    state: watch::Receiver<JobState>,
    /// The state reported last; `None` before the start was reported.
    told: Option<JobState>,
}

impl JobEvents {
    /// Returns a reader that has reported nothing yet, so its first event is [`JobEvent::Started`] even if the command
    /// has ended.
    pub(super) fn new(shared: Arc<JobShared>) -> Self {
        let state = shared.state.subscribe();
        Self { shared, state, told: None }
    }

    /// Returns the next event; `None` after [`JobEvent::Gone`]. Cancel-safe.
    pub async fn next(&mut self) -> Option<JobEvent> {
        loop {
            let now = *self.state.borrow_and_update();
            if let Some(event) = self.news(now) {
                return Some(event);
            }
            if now.phase == JobPhase::Gone {
                return None;
            }
            self.state.changed().await.ok()?;
        }
    }

    /// Compares `now` with the state reported last, returns the first difference as an event and marks it as reported;
    /// `None` if there is none. The order of the comparisons is the order of the events: growth is reported before the
    /// end.
    fn news(&mut self, now: JobState) -> Option<JobEvent> {
        let Some(told) = &mut self.told else {
            self.told = Some(JobState {
                phase: JobPhase::Running,
                held: Held::InForeground,
                total_bytes: 0,
                file_full: false,
            });
            return Some(JobEvent::Started { pid: self.shared.entry.pid });
        };
        if now.held != told.held {
            told.held = now.held;
            return Some(JobEvent::Detached);
        }
        if now.total_bytes > told.total_bytes {
            told.total_bytes = now.total_bytes;
            return Some(JobEvent::OutputGrew { total_bytes: now.total_bytes });
        }
        if now.file_full && !told.file_full {
            told.file_full = true;
            return Some(JobEvent::OutputCapReached);
        }
        if now.phase > told.phase {
            let was_running = told.phase == JobPhase::Running;
            if was_running {
                told.phase = JobPhase::Ended;
                let end = self.shared.end();
                return Some(JobEvent::Exited { exit: end.exit, ended: end.ended });
            }
            told.phase = JobPhase::Gone;
            return Some(JobEvent::Gone);
        }
        None
    }
}
