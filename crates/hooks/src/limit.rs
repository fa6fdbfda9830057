//! Further tries to start a hook for which the machine had no resources.
//!
//! The number of hook processes at the same time is a limit of the process (`lathe_exec::ProcessLimits`), which each
//! engine is given. A hook that moves to the background gives its place back, because background hooks are bounded in
//! `background.rs` and a guard must not wait for them. The surprising thing: a hook whose start failed keeps its place
//! while it waits for the next try. Starting is one synchronous step that holds no descriptor once it has failed, so
//! hooks that wait do not keep each other from starting.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::event::UnaskedHook;

/// How long the start of a hook is tried again if the machine has no resources for it.
pub const START_PATIENCE: Duration = Duration::from_secs(10);

/// The pause between the first two tries; it doubles after each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// The tries to start one hook.
pub(crate) struct StartTries {
    /// The end of the tries; `None` for an event that goes on without the hook after the first.
    until: Option<Instant>,
    pause: Duration,
    patience: Duration,
}

impl StartTries {
    /// Creates the tries for a hook with this timeout, whose time runs from now on. A timeout shorter than
    /// [`START_PATIENCE`] limits them too.
    pub fn new(unasked: UnaskedHook, timeout: Duration) -> Self {
        let patience = timeout.min(START_PATIENCE);
        let until = match unasked {
            UnaskedHook::GoesOn => None,
            UnaskedHook::NoOpinion | UnaskedHook::Refuses => Some(Instant::now() + patience),
        };
        Self { until, pause: FIRST_PAUSE, patience }
    }

    /// Waits after a try that failed for lack of resources, and returns whether there is another try. The last try is
    /// at the end of the patience. Returns false at once for an event that goes on without the hook, and when the run
    /// is cancelled.
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

    /// Returns the last error with the time over which the start was tried, or the error alone if there was only one
    /// try.
    pub fn describe(&self, error: &str) -> String {
        match self.until {
            Some(_) => format!("{error}, at every try within {} s", self.patience.as_secs_f64()),
            None => error.to_owned(),
        }
    }
}
