//! What follows a turn: its result goes to the host behind everything that belongs to it, and the host is told what went
//! wrong meanwhile.

use super::SessionLoop;
use crate::state::agent::Agent;
use crate::state::wire_names::{PromptState, SessionState};
use crate::turn::finish::Finished;

impl SessionLoop {
    /// Sends the result, and says what became of the prompts it is for.
    pub(super) async fn close_turn(
        &mut self,
        agent: &mut Agent,
        mut result: lathe_protocol::ResultMessage,
        finished: Finished,
        prompts: &[String],
    ) {
        let waiting = self.session.queue().len();
        result.queued_turn_count = Some(waiting as u64);
        self.results += 1;
        self.end.last_was_error = finished.is_error;
        self.session.totals().add_api_time(result.duration_api_ms);
        let spent = self.session.totals().spent(self.started_ms, self.session.process.host.now_ms());
        agent.journal.end_of_turn(spent);
        self.report_troubles().await;
        self.session.emit(result).await;
        let state = if finished.cut_short { PromptState::Cancelled } else { PromptState::Completed };
        for prompt in prompts {
            self.session.emit_lifecycle(Some(prompt), state).await;
        }
        if waiting == 0 {
            self.session.emit_state(SessionState::Idle).await;
        }
    }

    /// Tells the host what went wrong behind the scenes.
    pub(super) async fn report_troubles(&mut self) {
        let unknown = self.session.totals().take_unknown_models();
        let mut troubles = self.session.files.take_troubles();
        troubles.extend(unknown.into_iter().map(|model| {
            format!("no price is known for {model}: its cost is counted as the default model's")
        }));
        for trouble in troubles {
            self.session.emit(self.main.frames.warning(&trouble)).await;
        }
    }
}
