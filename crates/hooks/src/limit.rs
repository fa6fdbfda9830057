//! How many hook processes run at the same time in the whole program, and how long a hook that could not be
//! started is tried again.
//!
//! The limit is a value that the program makes once and hands to each engine; all clones share its places. A
//! hook that goes on in the background gives its place back, because background hooks are bounded in
//! `background.rs` and a guard must not wait for them. The surprising thing: a hook whose start failed keeps its
//! place while it waits for the next try. Starting is one synchronous step that holds no descriptor once it has
//! failed, so hooks that wait do not keep each other from starting.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::event::UnaskedHook;

/// How long a hook is tried again that the machine had no room for.
pub const START_PATIENCE: Duration = Duration::from_secs(10);

/// Between the first two tries; twice as long after each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// The places for hook processes. Clones are the same limit.
#[derive(Debug, Clone)]
pub struct HookLimit {
    places: Arc<Semaphore>,
    size: usize,
}

impl Default for HookLimit {
    fn default() -> Self {
        Self::new(Self::USUAL_PROCESSES)
    }
}

impl HookLimit {
    /// Hook processes at the same time, unless told otherwise. Each takes about five descriptors.
    pub const USUAL_PROCESSES: usize = 32;

    /// A limit of this many processes, at least one.
    pub fn new(processes: usize) -> Self {
        let size = processes.max(1);
        Self { places: Arc::new(Semaphore::new(size)), size }
    }

    /// Waits for a free place, first come first served.
    pub(crate) async fn place(
        &self,
        at_most: Duration,
        cancel: &CancellationToken,
    ) -> Result<HookPlace, NoHookPlace> {
        let free = Arc::clone(&self.places).acquire_owned();
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(NoHookPlace::Cancelled),
            place = free => Ok(HookPlace { _permit: place.expect("the semaphore is never closed") }),
            () = tokio::time::sleep(at_most) => Err(NoHookPlace::NoneFree { size: self.size, waited: at_most }),
        }
    }
}

/// A place for one hook process, free again when this is dropped.
pub(crate) struct HookPlace {
    _permit: OwnedSemaphorePermit,
}

/// Why there is no place for a hook process.
#[derive(Debug)]
pub(crate) enum NoHookPlace {
    Cancelled,
    NoneFree { size: usize, waited: Duration },
}

impl fmt::Display for NoHookPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("the event was broken off"),
            Self::NoneFree { size, waited } => {
                let seconds = waited.as_secs_f64();
                write!(f, "none of the {size} places for hook processes came free within {seconds} s")
            }
        }
    }
}

/// The tries to start one hook.
pub(crate) struct StartTries {
    /// None for an event that goes on without the hook at once.
    until: Option<Instant>,
    pause: Duration,
    patience: Duration,
}

impl StartTries {
    /// Tries of a hook with this timeout: a hook that may run for less than [`START_PATIENCE`] is not waited
    /// for any longer than that either.
    pub fn new(unasked: UnaskedHook, timeout: Duration) -> Self {
        let patience = timeout.min(START_PATIENCE);
        let until = match unasked {
            UnaskedHook::GoesOn => None,
            UnaskedHook::NoOpinion | UnaskedHook::Refuses => Some(Instant::now() + patience),
        };
        Self { until, pause: FIRST_PAUSE, patience }
    }

    /// After a try that failed for want of resources: waits, and says whether there is another try. The last
    /// one is at the very end.
    pub async fn again(&mut self, cancel: &CancellationToken) -> bool {
        let Some(until) = self.until.filter(|until| Instant::now() < *until) else { return false };
        let next = until.min(Instant::now() + self.pause);
        self.pause = LONGEST_PAUSE.min(self.pause * 2);
        tokio::select! {
            biased;
            () = cancel.cancelled() => false,
            () = tokio::time::sleep_until(next) => true,
        }
    }

    /// The last error, and how long it was the error.
    pub fn describe(&self, error: &str) -> String {
        match self.until {
            Some(_) => format!("{error}, at every try within {} s", self.patience.as_secs_f64()),
            None => error.to_owned(),
        }
    }
}
