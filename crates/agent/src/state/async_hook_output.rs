//! Output of hooks that ended after their event, until the next request takes it. `hooks/async_output.rs` fires such
//! hooks and shows their output.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lathe_hooks::{AsyncResult, ContextText, HookProblem, SystemText};
use lathe_protocol::system::Informational;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The largest number of notes that are kept while the model is not asked.
const MAX_NOTES: usize = 256;

/// Texts that wait for the next request, and the events that run in the background.
#[derive(Debug, Default)]
pub struct AsyncHookOutput {
    /// Written by hooks that end after their event; read by the main agent between rounds, and while it is idle.
    waiting: Mutex<WaitingOutput>,
    pub side: TaskTracker,
    pub ended: CancellationToken,
}

/// Output that has not been taken yet.
#[derive(Debug, Default)]
pub struct WaitingOutput {
    /// For the model.
    pub notes: Vec<String>,
    /// For the host.
    pub notices: VecDeque<Informational>,
    /// Whether a hook wants the model to be asked now.
    pub wakes: bool,
}

impl AsyncHookOutput {
    /// Locks the output that waits for the next request. The lock must not be held when another method of this type is
    /// called, because those take it too.
    pub fn waiting(&self) -> MutexGuard<'_, WaitingOutput> {
        // Nothing that is done under the lock could leave it half changed.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues notes for the next request. Beyond [`MAX_NOTES`] the oldest are dropped.
    pub fn add(&self, lines: impl IntoIterator<Item = String>) {
        let notes = &mut self.waiting().notes;
        notes.extend(lines);
        let too_many = notes.len().saturating_sub(MAX_NOTES);
        notes.drain(..too_many);
    }

    /// Queues everything that finished hooks left: notes for the model, notices for the host, and the wish to wake the
    /// model. Does not wait, because the future that collects the results may be dropped at any time.
    pub fn keep(&self, results: Vec<AsyncResult>) {
        for result in results {
            let name = result.hook_name;
            let wake = result.wake.map(|why| format!("{name} hook that ran in the background: {why}"));
            let problems = result.problems.iter().filter_map(HookProblem::informational);
            let told = result.system_messages.iter().map(SystemText::informational);
            // Unlocked before `add`, which takes the lock itself.
            {
                let mut waiting = self.waiting();
                waiting.wakes |= wake.is_some();
                waiting.notices.extend(problems.chain(told));
            }
            self.add(result.contexts.iter().map(ContextText::line).chain(wake));
        }
    }

    /// Takes the notes for a request that is about to be sent, and clears the wish to wake the model. Notices for the
    /// host stay.
    pub fn take(&self) -> Vec<String> {
        let mut waiting = self.waiting();
        waiting.wakes = false;
        std::mem::take(&mut waiting.notes)
    }

    /// Cancels the hooks that still run in the background and waits until they have ended.
    pub async fn shut_down(&self) {
        self.ended.cancel();
        self.side.close();
        self.side.wait().await;
    }
}
