//! Hooks that run in the background while the action proceeds. Each is a tracked task with a deadline; its result waits
//! here until the agent takes it.
//!
//! A hook takes a slot when it moves to the background and gives it back when its result is taken, so one number bounds
//! both the processes and the results.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lathe_exec::Exit;
use lathe_protocol::HookEvent;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer::{Answer, At, refusal};
use crate::engine::MAX_ASYNC;
use crate::event::Facts;
use crate::frames::FrameEnd;
use crate::merge::{Speaker, add};
use crate::outcome::{ContextText, Outcome, SystemText};
use crate::process::{Pause, Process, async_marker};
use crate::text::Cutter;
use crate::{HookProblem, ProblemKind};

/// The result of a background hook. The action did not wait for it, so it contains no verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct AsyncResult {
    /// `Event` or `Event:subject`.
    pub hook_name: String,
    /// The event it ran for.
    pub event: HookEvent,
    /// The command.
    pub command: String,
    /// The call it was about.
    pub tool_use_id: Option<String>,
    /// Texts for the model.
    pub contexts: Vec<ContextText>,
    /// Texts for the user.
    pub system_messages: Vec<SystemText>,
    /// The text that wakes the model even if the session is idle. Set if the hook has `asyncRewake` and ended with exit
    /// code 2.
    pub wake: Option<String>,
    /// What went wrong.
    pub problems: Vec<HookProblem>,
}

/// A process that moves to the background.
pub(crate) struct Adopted {
    pub process: Process,
    pub speaker: Speaker,
    pub facts: Facts,
    pub timeout: Duration,
    pub wakes: bool,
    pub spill_dir: Option<PathBuf>,
}

/// All background hooks of an engine.
pub(crate) struct Background {
    tasks: TaskTracker,
    cancel: CancellationToken,
    slots: Arc<Semaphore>,
    done: Mutex<Vec<(AsyncResult, OwnedSemaphorePermit)>>,
    news: Notify,
}

impl Default for Background {
    fn default() -> Self {
        Self {
            tasks: TaskTracker::new(),
            cancel: CancellationToken::new(),
            slots: Arc::new(Semaphore::new(MAX_ASYNC)),
            done: Mutex::default(),
            news: Notify::new(),
        }
    }
}

impl Background {
    /// Runs a process in the background, or gives it back, still running, if no slot is free. The slot is free again
    /// when the result is taken.
    pub fn adopt(self: &Arc<Self>, adopted: Adopted) -> Result<(), Box<Adopted>> {
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            return Err(Box::new(adopted));
        };
        let background = Arc::clone(self);
        self.tasks.spawn(async move {
            let cancel = background.cancel.clone();
            if let Some(result) = adopted.follow(&cancel).await {
                background.done().push((result, slot));
                background.news.notify_waiters();
            }
        });
        Ok(())
    }

    /// Locks the list of finished hooks, also after a panic under the lock. Each entry holds its slot, so results that
    /// are not taken limit how many hooks can start.
    fn done(&self) -> std::sync::MutexGuard<'_, Vec<(AsyncResult, OwnedSemaphorePermit)>> {
        // The list is only pushed to and taken as a whole, so a panic under the lock cannot leave it half changed.
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all finished results without waiting and frees their slots.
    pub fn take(&self) -> Vec<AsyncResult> {
        std::mem::take(&mut *self.done()).into_iter().map(|(result, _slot)| result).collect()
    }

    /// Waits until there are results, and takes all of them. Cancel-safe: results that are not returned stay in the
    /// list.
    pub async fn next(&self) -> Vec<AsyncResult> {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            // Registered before the list is read, so a result that is pushed in between wakes this task.
            news.as_mut().enable();
            let results = self.take();
            if !results.is_empty() {
                return results;
            }
            news.await;
        }
    }

    /// Returns the number of hooks that have not ended; results that wait to be taken do not count.
    pub fn running(&self) -> usize {
        self.tasks.len()
    }

    /// Tells all hooks to end, without waiting. Their processes are killed by their tasks.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Tells all hooks to end and waits until their processes are killed. Their results are dropped.
    pub async fn shut_down(&self) {
        self.cancel.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Adopted {
    /// Waits for the end of the process, and of its children as far as the timeout allows, and returns the result. A
    /// process that exceeds the timeout is killed. `None` if the session ended first, because no later turn can read
    /// the result.
    async fn follow(mut self, cancel: &CancellationToken) -> Option<AsyncResult> {
        let deadline = Instant::now() + self.timeout;
        let pause = loop {
            match self.process.watch(deadline, cancel).await {
                // A hook that is configured as `async` may print the marker as well.
                Pause::SaysAsync(_) => {}
                other => break other,
            }
        };
        let (end, answer, exit) = match pause {
            Pause::Ended(exit) => {
                // Children of the command may outlive it; they get the rest of its time.
                self.process.linger(deadline, cancel).await;
                (FrameEnd::Exited(exit), self.answer(exit), Some(exit))
            }
            Pause::TimedOut | Pause::Cancelled | Pause::SaysAsync(_) => {
                self.process.kill().await;
                let problem = ProblemKind::TimedOut(self.timeout);
                (FrameEnd::Cancelled, Answer { problems: vec![problem], ..Answer::default() }, None)
            }
        };
        self.process.frames.ended(&self.process.printed(), end, cancel).await;
        // The session has ended, and no later turn can read the result.
        if cancel.is_cancelled() {
            return None;
        }
        Some(self.result(answer, exit))
    }

    /// Reads the output behind the `{"async": true}` line, or all of it without such a line, and the exit. For a
    /// hook that may wake the model, exit code 2 is not a problem.
    fn answer(&self, exit: Exit) -> Answer {
        let printed = self.process.printed();
        let stdout = printed.stdout.text();
        let said = match stdout.split_once('\n') {
            Some((first, rest)) if async_marker(first).is_some() => rest,
            Some(_) | None => stdout.as_str(),
        };
        let facts = self.facts_after_event();
        let at = At { event: &self.speaker.event, facts: &facts };
        let mut answer = Answer::of_command(&printed, said, exit, &self.speaker.label, at);
        // For these hooks exit code 2 is the request to wake the model and not a failure.
        if self.wakes {
            let no = |problem: &ProblemKind| matches!(problem, ProblemKind::Exited { code: 2, .. });
            answer.problems.retain(|problem| !no(problem));
        }
        answer
    }

    /// Returns what a hook may still do once the event is over: it can no longer refuse anything.
    fn facts_after_event(&self) -> Facts {
        self.facts.without_veto()
    }

    /// Builds the result for a later turn. Only what may still have an effect is kept: verdicts about the past event
    /// are dropped by [`Self::facts_after_event`]. The text that wakes the model is stderr, or stdout if stderr is
    /// blank.
    fn result(&self, answer: Answer, exit: Option<Exit>) -> AsyncResult {
        let mut texts = Cutter::new(self.spill_dir.as_deref(), &self.process.frames.hook_id);
        let printed = self.process.printed();
        let wake = (self.wakes && exit == Some(Exit::Code(2))).then(|| {
            let stderr = printed.stderr.text();
            let said = if stderr.trim().is_empty() { printed.stdout.text() } else { stderr };
            texts.cut(refusal(&self.speaker.label, &said))
        });
        let mut outcome = Outcome::default();
        add(&mut outcome, &self.speaker, &self.facts_after_event(), answer, &mut texts);
        AsyncResult {
            hook_name: self.speaker.hook_name.clone(),
            event: self.speaker.event.clone(),
            command: self.speaker.label.clone(),
            tool_use_id: self.speaker.tool_use_id.clone(),
            contexts: outcome.contexts,
            system_messages: outcome.system_messages,
            wake,
            problems: outcome.problems,
        }
    }
}
