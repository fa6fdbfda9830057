//! Long file work on a separate thread that ends soon after its call does.
//!
//! The work polls a [`Stop`]; the waiting side sets it when the call is cancelled, when time is up, or when the call's
//! future is dropped. Work that hangs in a system call is left behind after [`GRACE`], so that the turn does not hang
//! with it. [`run`] is for work that only reads, [`change`] for work that changes a file: its true result is reported
//! even if the call was cancelled meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::ToolFailure;

/// How long a cancelled call waits for its work to notice.
const GRACE: Duration = Duration::from_millis(80);

/// Tells work to end, and why.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<AtomicU8>);

/// Why work should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    Cancelled,
    TimedOut,
}

impl Stop {
    /// Returns why the work has to stop; `None` while it may continue. Cheap enough to be called for every block
    /// that is read.
    pub fn reason(&self) -> Option<StopReason> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(StopReason::Cancelled),
            _ => Some(StopReason::TimedOut),
        }
    }

    /// Returns whether the work has to stop.
    pub fn is_set(&self) -> bool {
        self.reason().is_some()
    }

    /// Fails if the work has to stop. To be called right before a file is changed, so that a cancelled call changes
    /// nothing.
    pub fn check(&self) -> Result<(), ToolFailure> {
        if self.is_set() { Err(ToolFailure::Interrupted) } else { Ok(()) }
    }

    /// Tells the work to stop, for this reason; it replaces an earlier reason.
    fn set(&self, reason: StopReason) {
        let value = match reason {
            StopReason::Cancelled => 1,
            StopReason::TimedOut => 2,
        };
        self.0.store(value, Ordering::Relaxed);
    }
}

/// The time limit for a change of one file.
const CHANGE_TIME: Duration = Duration::from_secs(60);

/// Sets the stop when the call's future is dropped before the work ended.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if !self.0.is_set() {
            self.0.set(StopReason::Cancelled);
        }
    }
}

/// Runs `work` on a blocking thread. When `time` is up the work is told to stop, and its result is used if it comes
/// within [`GRACE`]; later is a failure. When `cancel` fires the result is [`ToolFailure::Interrupted`] in any case.
/// Work that does not end within [`GRACE`] after that is left behind, so work that changes a file of the user belongs
/// into [`change`].
pub(crate) async fn run<T: Send + 'static>(
    cancel: &CancellationToken,
    time: Duration,
    work: impl FnOnce(&Stop) -> T + Send + 'static,
) -> Result<T, ToolFailure> {
    let stop = StopOnDrop(Stop::default());
    let for_work = stop.0.clone();
    let mut handle = tokio::task::spawn_blocking(move || work(&for_work));
    let joined = tokio::select! {
        biased;
        () = cancel.cancelled() => {
            stop.0.set(StopReason::Cancelled);
            let _ended_or_left_behind = tokio::time::timeout(GRACE, handle).await;
            return Err(ToolFailure::Interrupted);
        }
        joined = &mut handle => joined,
        () = tokio::time::sleep(time) => {
            stop.0.set(StopReason::TimedOut);
            match tokio::time::timeout(GRACE, handle).await {
                Ok(joined) => joined,
                Err(_still_stuck) => {
                    let text = format!("The file system did not answer within {} s.", time.as_secs());
                    return Err(ToolFailure::Failed(text));
                }
            }
        }
    };
    joined.map_err(|error| panicked(&error))
}

/// Runs work that changes a file on a blocking thread, for at most [`CHANGE_TIME`]. The work checks the stop right
/// before it changes anything and returns [`ToolFailure::Interrupted`] if it is set. Work that was past this check when
/// `cancel` fired or time was up runs to its end: its result is that of the call if it comes within [`GRACE`],
/// otherwise the call fails although the file may still be changed.
pub(crate) async fn change<T: Send + 'static>(
    cancel: &CancellationToken,
    work: impl FnOnce(&Stop) -> Result<T, ToolFailure> + Send + 'static,
) -> Result<T, ToolFailure> {
    // The call may have been cancelled before the work starts, while it waited for the copy of the file.
    if cancel.is_cancelled() {
        return Err(ToolFailure::Interrupted);
    }
    let stop = StopOnDrop(Stop::default());
    let for_work = stop.0.clone();
    let mut handle = lathe_exec::spawn_blocking(move || work(&for_work));
    let (reason, late) = tokio::select! {
        biased;
        joined = &mut handle => return joined.unwrap_or_else(|error| Err(panicked(&error))),
        () = cancel.cancelled() => (StopReason::Cancelled, ToolFailure::Interrupted),
        () = tokio::time::sleep(CHANGE_TIME) => {
            let text = format!("The file system did not answer within {} s.", CHANGE_TIME.as_secs());
            (StopReason::TimedOut, ToolFailure::Failed(text))
        }
    };
    stop.0.set(reason);
    match tokio::time::timeout(GRACE, handle).await {
        Ok(Ok(Err(ToolFailure::Interrupted))) | Err(_) => Err(late),
        Ok(joined) => joined.unwrap_or_else(|error| Err(panicked(&error))),
    }
}

/// Returns the failure of a call whose work panicked, or was dropped by the runtime.
fn panicked(error: &tokio::task::JoinError) -> ToolFailure {
    ToolFailure::Failed(format!("The tool broke off: {error}"))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::sync::oneshot;

    use super::*;

    fn spin(stop: &Stop) -> Option<StopReason> {
        while !stop.is_set() {
            std::thread::yield_now();
        }
        stop.reason()
    }

    #[tokio::test]
    async fn cancelled_work_ends_at_once() {
        let cancel = CancellationToken::new();
        let soon = cancel.clone();
        let started = Instant::now();
        let (outcome, ()) = tokio::join!(run(&cancel, Duration::from_secs(60), spin), async move {
            tokio::task::yield_now().await;
            soon.cancel();
        });
        assert_eq!(outcome, Err(ToolFailure::Interrupted));
        assert!(started.elapsed() < Duration::from_secs(3));
    }

    #[tokio::test]
    async fn work_out_of_time_still_gives_what_it_has() {
        let cancel = CancellationToken::new();
        let outcome = run(&cancel, Duration::from_millis(5), spin).await;
        assert_eq!(outcome, Ok(Some(StopReason::TimedOut)));
    }

    #[tokio::test]
    #[allow(clippy::disallowed_methods, reason = "the work of this test is to be stuck")]
    async fn stuck_work_is_left_behind() {
        let cancel = CancellationToken::new();
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let outcome = run(&cancel, Duration::from_millis(5), move |_| receive.recv().is_ok()).await;
        assert!(matches!(outcome, Err(ToolFailure::Failed(_))), "{outcome:?}");
        drop(send);
    }

    /// Returns the result of a change that is cancelled right after it has begun.
    async fn cancelled(
        work: impl FnOnce(&Stop, oneshot::Sender<()>) -> Result<u8, ToolFailure> + Send + 'static,
    ) -> Result<u8, ToolFailure> {
        let (cancel, (begun, has_begun)) = (CancellationToken::new(), oneshot::channel());
        let (outcome, ()) = tokio::join!(change(&cancel, move |stop| work(stop, begun)), async {
            has_begun.await.unwrap();
            cancel.cancel();
        });
        outcome
    }

    #[tokio::test]
    async fn a_cancelled_change_is_not_made_or_its_outcome_is_told() {
        let before_the_look = cancelled(|stop, begun| {
            begun.send(()).unwrap();
            spin(stop);
            stop.check().map(|()| 7)
        });
        assert_eq!(before_the_look.await, Err(ToolFailure::Interrupted));
        let after_the_look = cancelled(|stop, begun| {
            stop.check()?;
            begun.send(()).unwrap();
            spin(stop);
            Ok(7)
        });
        assert_eq!(after_the_look.await, Ok(7));
    }

    #[tokio::test]
    async fn a_panic_is_a_failure_of_the_call() {
        let cancel = CancellationToken::new();
        let outcome = run(&cancel, Duration::from_secs(60), |_| if true { panic!("oh") } else { 1 }).await;
        assert!(matches!(outcome, Err(ToolFailure::Failed(_))), "{outcome:?}");
    }
}
