//! What can start a turn without a prompt of the host. Each kind of waker is asked here and nowhere else: whether it can
//! still wake the session, for its prompt, for its name when the run ends before it, and to stop.

use std::time::Duration;

use lathe_protocol::InboundUser;
use lathe_tools::TaskKind;
use tokio::time::Instant;

use crate::state::background_tasks::SessionTask;
use crate::state::services::SessionServices;

impl SessionServices {
    /// Returns whether a task in the background, a notice or a wake-up is left that can start a turn, so that the run
    /// waits for it. Scheduled jobs do not count, because they do not keep a run alive; the budget is the caller's
    /// question.
    pub(super) fn can_wake(&self) -> bool {
        self.tasks.list().can_wake() || self.queue().scheduled.wake_up().is_some()
    }

    /// Returns when the wake-up starts a turn; `None` if there is none, or if a task or a notice may start one before.
    /// Scheduled jobs are not considered.
    pub(super) fn wakes_at(&self, now: Instant) -> Option<Instant> {
        if self.tasks.list().can_wake() {
            return None;
        }
        let at_ms = self.queue().scheduled.wake_up()?.at_ms;
        now.checked_add(Duration::from_millis(at_ms.saturating_sub(self.process.host.now_ms())))
    }

    /// Takes the notices that wait, as the prompt of a turn; `None` unless one of them starts a turn. With the budget
    /// used up they stay where they are: the turn could not ask the model, and its result would come unasked.
    pub(super) fn wake_up_prompt(&self) -> Option<InboundUser> {
        if self.over_budget() {
            return None;
        }
        self.task_prompt()
    }

    /// Returns the running tasks in the background and the wake-up, which would be lost if the session ended now, in
    /// words for the operator. Notices are not among them; see [`Self::untold_ends`].
    pub(super) fn named_wakers(&self) -> Vec<String> {
        let wake_up = self.queue().scheduled.wake_up().map(|wake_up| {
            let at = self.schedule.zoned(wake_up.at_ms);
            format!("wake-up at {}", at.strftime("%H:%M:%S"))
        });
        let list = self.tasks.list();
        let task = |task: &SessionTask| {
            let kind = match task.kind {
                TaskKind::Shell => "command",
                TaskKind::Monitor => "monitor",
            };
            format!("{kind} \"{}\" ({})", task.description, task.id)
        };
        list.in_background().map(task).chain(wake_up).collect()
    }

    /// Returns the ids of the tasks whose end was to start a turn that tells the model, but has not yet.
    pub(super) fn untold_ends(&self) -> Vec<String> {
        self.tasks.list().untold().map(str::to_owned).collect()
    }

    /// Returns the scheduled jobs that end with the session, in words for the operator. Jobs of the folder outlive it
    /// and are not among them.
    pub(super) fn named_jobs(&self) -> Vec<String> {
        let queue = self.queue();
        queue.scheduled.of_session().map(|job| format!("{} ({})", job.id, job.job.cron.in_words())).collect()
    }

    /// Removes the wake-up and stops all tasks in the background. Scheduled jobs are left as they are, because the
    /// clock is not looked at any more.
    pub(super) async fn stop_wakers(&self) {
        self.queue().scheduled.set_wake_up(None);
        self.stop_all_tasks().await;
    }
}
