//! What holds a session when no prompt is left: tasks whose ends start a turn, up to the ceiling.

use std::time::Duration;

use tokio::time::Instant;

use super::SessionLoop;
use crate::state::background_tasks::SessionTask;
use crate::state::config::StateFrames;
use crate::state::services::SessionServices;
use crate::state::wire_names::SessionState;

/// What the loop waits for besides lines of the host.
pub(super) struct TaskWait {
    /// Whether a task can still start a turn.
    pub can_wake: bool,
    /// When the wait for tasks ends.
    pub ceiling: Option<Instant>,
}

impl SessionLoop {
    /// Looks at the tasks while no turn runs. Once the ceiling has passed, the host is told that the session is idle,
    /// and if it sends no more, the tasks are stopped.
    pub(super) async fn follow_tasks(&mut self, now: Instant) -> TaskWait {
        let tasks = &self.session.tasks;
        let ends_at = match (tasks.config.ceiling, self.last_turn_ended) {
            (Some(ceiling), Some(ended)) => Some(ended + ceiling),
            (_, _) => None,
        };
        let mut can_wake = tasks.list().can_wake();
        let is_over = ends_at.is_some_and(|ends_at| now >= ends_at);
        if can_wake && is_over && !self.inbox_open {
            let ceiling = tasks.config.ceiling.unwrap_or_default();
            let line = still_running(ceiling, tasks.list().in_background());
            self.session.process.host.log(&line);
            self.session.stop_all_tasks().await;
            can_wake = false;
        }
        if self.owes_idle && (!can_wake || is_over) {
            self.owes_idle = false;
            self.session.emit_state(SessionState::Idle).await;
        }
        TaskWait { can_wake, ceiling: ends_at.filter(|_| can_wake && !is_over) }
    }
}

/// Returns the line for the operator that names the tasks which are stopped.
fn still_running<'a>(ceiling: Duration, tasks: impl Iterator<Item = &'a SessionTask>) -> String {
    let named: Vec<String> =
        tasks.map(|task| format!("command \"{}\" ({})", task.description, task.id)).collect();
    format!(
        "Background tasks still running {}s after the last turn: {}; stopping them. \
         CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS sets how long a session waits, 0 is without limit.",
        ceiling.as_millis() as f64 / 1000.0,
        named.join(", "),
    )
}

impl SessionServices {
    /// Returns whether the session counts as idle although a task may still start a turn. Hosts that close their input
    /// when it is idle must not be told so: the turn may need them.
    pub(super) fn shows_idle_despite_tasks(&self) -> bool {
        match self.options.states {
            StateFrames::SdkOnly => !self.tasks.list().can_wake(),
            StateFrames::Public | StateFrames::None => true,
        }
    }
}
