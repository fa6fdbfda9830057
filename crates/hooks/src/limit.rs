//! How long a hook that could not be started is tried again.
//!
//! How many hook processes run at the same time is a limit of the process (`lathe_exec::ProcessLimits`), which each
//! engine is given. A hook that goes on in the background gives its place back, because background hooks are bounded in
//! `background.rs` and a guard must not wait for them. The surprising thing: a hook whose start failed keeps its
//! place while it waits for the next try. Starting is one synchronous step that holds no descriptor once it has
//! failed, so hooks that wait do not keep each other from starting.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::event::UnaskedHook;

/// How long a hook is tried again that the machine had no room for.
pub const START_PATIENCE: Duration = Duration::from_secs(10);

/// Between the first two tries; twice as long after each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

const LONGEST_PAUSE: Duration = Duration::from_millis(250);

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
