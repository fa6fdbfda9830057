//! Runs blocking work on the blocking pool of the runtime, even on a machine that has no thread left.
//!
//! The runtime panics if it cannot start the first thread of its pool, and offers no way to check beforehand. So a
//! thread that does nothing is started and joined first, which costs less than a tenth of a millisecond; if that fails,
//! the work runs on the event loop, as it would without a pool. Work that costs less than this check should stay on the
//! event loop; this module is for the rest.

use tokio::task::JoinHandle;

/// Runs `work` on the blocking pool, or, when the machine has no thread left, in a task of the event loop, where it
/// blocks other tasks. Must be called inside a tokio runtime. The work continues if the handle is dropped.
pub fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    match can_start_thread() {
        true => tokio::task::spawn_blocking(work),
        // In a separate task, so that a panic of the work ends only that task.
        false => tokio::spawn(async move { work() }),
    }
}

/// Starts and joins a thread that does nothing, and returns whether that worked. The result is a snapshot: another
/// process may take the last thread afterwards.
#[allow(clippy::disallowed_methods, reason = "the thread that is joined does nothing")]
fn can_start_thread() -> bool {
    // The thread has ended before the pool starts its own.
    std::thread::Builder::new().spawn(|| {}).is_ok_and(|thread| thread.join().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_done_on_another_thread_and_its_panic_is_an_error() {
        let here = std::thread::current().id();
        assert_ne!(spawn_blocking(|| std::thread::current().id()).await.unwrap(), here);
        assert!(spawn_blocking(|| panic!("oh")).await.unwrap_err().is_panic());
    }
}
