//! What can start a turn without a prompt of the host. Each kind of waker is asked here and nowhere else: whether it can
//! still wake the session, for its prompt, for its name when the run ends before it, and to stop.

use lathe_protocol::InboundUser;

use crate::state::services::SessionServices;

impl SessionServices {
    /// Returns whether something is left that will start a turn.
    pub(super) fn can_wake(&self) -> bool {
        self.tasks.list().can_wake()
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
        let list = self.tasks.list();
        list.in_background().map(|task| format!("command \"{}\" ({})", task.description, task.id)).collect()
    }

    /// Returns the tasks whose end the model was to be told, but was not.
    pub(super) fn untold_ends(&self) -> Vec<String> {
        self.tasks.list().untold().map(str::to_owned).collect()
    }

    /// Stops everything that could start a turn.
    pub(super) async fn stop_wakers(&self) {
        self.stop_all_tasks().await;
    }
}
