//! What can start a turn without a prompt of the host. Each kind of waker is asked here and nowhere else: whether it can
//! still wake the session, for its prompt, for its name when the run ends before it, and to stop.

use std::time::Duration;

use lathe_protocol::InboundUser;
use lathe_tools::TaskKind;
use tokio::time::Instant;

use crate::state::background_tasks::SessionTask;
use crate::state::services::SessionServices;

impl SessionServices {
    /// Returns whether something is left that will start a turn.
    pub(super) fn can_wake(&self) -> bool {
        self.tasks.list().can_wake() || self.queue().scheduled.wake_up().is_some()
    }

    /// Returns when the clock wakes the session; `None` if something else may do so before, or nothing does.
    pub(super) fn wakes_at(&self, now: Instant) -> Option<Instant> {
        if self.tasks.list().can_wake() {
            return None;
        }
        let at_ms = self.queue().scheduled.wake_up()?.at_ms;
        now.checked_add(Duration::from_millis(at_ms.saturating_sub(self.process.host.now_ms())))
    }

    /// Takes the prompt of a turn that is due now, or `None`. With the budget used up no turn is due: it could not ask
    /// the model, and its result would come unasked.
    pub(super) fn wake_up_prompt(&self) -> Option<InboundUser> {
        if self.over_budget() {
            return None;
        }
        self.task_prompt()
    }

    /// Returns what would be lost if the session ended now, in words for the operator.
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

    /// Returns the tasks whose end the model was to be told, but was not.
    pub(super) fn untold_ends(&self) -> Vec<String> {
        self.tasks.list().untold().map(str::to_owned).collect()
    }

    /// Returns the jobs that end with the session, in words for the operator.
    pub(super) fn named_jobs(&self) -> Vec<String> {
        let queue = self.queue();
        queue.scheduled.of_session().map(|job| format!("{} ({})", job.id, job.job.cron.in_words())).collect()
    }

    /// Stops everything that could start a turn.
    pub(super) async fn stop_wakers(&self) {
        self.queue().scheduled.set_wake_up(None);
        self.stop_all_tasks().await;
    }
}
