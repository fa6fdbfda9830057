//! The end of a run: what a session does when no turn runs and no prompt waits. The table is [`idle_step`], a pure
//! function; ARCHITECTURE.md ("The end of a run") draws it. What can still start a turn is asked in `wakers.rs`.
//!
//! The surprising thing: the ceiling and the budget end a run only once the host has closed its input. While it is open
//! the host decides, and is told that the session is idle.

use std::time::Duration;

use lathe_tools::ClockTurns;
use tokio::time::Instant;

use super::SessionLoop;
use crate::state::config::StateFrames;
use crate::state::services::SessionServices;
use crate::state::wire_names::SessionState;

/// Why a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaveReason {
    /// The input is closed and nothing is left that could start a turn.
    NothingLeft,
    /// The input is closed and the wait for tasks took this long, which is all it may.
    Ceiling(Duration),
    /// The input is closed and the budget is used up, so that a further turn could ask nothing.
    Budget,
    /// The input is closed, and the only wake-up is due after the longest wait.
    TooLate,
    /// The host asked for it (`end_session`).
    Asked,
    /// It was told to finish early.
    Interrupted,
    /// It was told to end at once, or its reader is gone.
    Stopped,
}

/// Whether the host may still send lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostInput {
    Open,
    Closed,
}

/// What can start a turn without a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeUps {
    /// Nothing.
    Impossible,
    /// A task whose end the model is told, or a notice that waits.
    Possible,
    /// The same, but the budget is used up.
    Unaffordable,
    /// Nothing but a wake-up that is due after the ceiling.
    TooLate,
}

/// How far the wait for tasks is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CeilingState {
    /// There is none, or no turn has ended yet.
    NotCounting,
    /// It will pass then.
    Ahead(Instant),
    /// It has passed; it was this long.
    Passed(Duration),
}

/// What the session knows while no turn runs and no prompt waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IdleOutlook {
    pub input: HostInput,
    pub wake_ups: WakeUps,
    pub ceiling: CeilingState,
}

/// What the session does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleStep {
    /// It ends.
    Leave(LeaveReason),
    /// It waits, and a wake-up starts a turn; at that time it looks again.
    Await { until: Option<Instant> },
    /// It waits for the host alone, which is told that the session is idle. Wake-ups still start a turn if they can.
    Idle,
}

/// Decides what a session does that has neither a turn nor a prompt; a pure function of `outlook`. Only closed input
/// can end the run: while it is open, the session waits whatever the ceiling and the budget say.
pub(super) fn idle_step(outlook: IdleOutlook) -> IdleStep {
    use CeilingState::{Ahead, NotCounting, Passed};
    use HostInput::{Closed, Open};
    use WakeUps::{Impossible, Possible, TooLate, Unaffordable};
    match (outlook.input, outlook.wake_ups, outlook.ceiling) {
        (Closed, Impossible, _) => IdleStep::Leave(LeaveReason::NothingLeft),
        (Closed, Unaffordable, _) => IdleStep::Leave(LeaveReason::Budget),
        (Closed, Possible | TooLate, Passed(ceiling)) => IdleStep::Leave(LeaveReason::Ceiling(ceiling)),
        // A host that has closed its input would wait for nothing.
        (Closed, TooLate, Ahead(_)) => IdleStep::Leave(LeaveReason::TooLate),
        (Open, Impossible | Unaffordable, _) | (Open, Possible | TooLate, Passed(_)) => IdleStep::Idle,
        (Closed, Possible, Ahead(until)) | (Open, Possible | TooLate, Ahead(until)) => {
            IdleStep::Await { until: Some(until) }
        }
        (Open | Closed, Possible | TooLate, NotCounting) => IdleStep::Await { until: None },
    }
}

impl SessionLoop {
    /// Returns why the session has to end now, whatever waits, or `None` if it may go on. If there are several reasons,
    /// the signal to stop comes first, then the one to finish early, then the host's request.
    pub(super) fn told_to_leave(&self) -> Option<LeaveReason> {
        if self.session.stop.is_cancelled() {
            Some(LeaveReason::Stopped)
        } else if self.finish_early.is_cancelled() {
            Some(LeaveReason::Interrupted)
        } else if self.session.end_asked.is_cancelled() {
            Some(LeaveReason::Asked)
        } else {
            None
        }
    }

    /// Looks at what can still start a turn while no turn runs and no prompt waits, and returns what to do. If the host
    /// is still to be told that the session is idle (`owes_idle`), it is told once nothing is awaited.
    pub(super) async fn follow_wakers(&mut self, now: Instant) -> IdleStep {
        let ceiling = match (self.session.tasks.config.ceiling, self.last_turn_ended) {
            (Some(ceiling), Some(ended)) if now >= ended + ceiling => CeilingState::Passed(ceiling),
            (Some(ceiling), Some(ended)) => CeilingState::Ahead(ended + ceiling),
            (None, _) | (_, None) => CeilingState::NotCounting,
        };
        let is_too_late = match (ceiling, self.session.wakes_at(now)) {
            (CeilingState::Ahead(until), Some(at)) => at > until,
            (_, _) => false,
        };
        let wake_ups = match (self.session.can_wake(), self.session.over_budget()) {
            (false, _) => WakeUps::Impossible,
            (true, false) if is_too_late => WakeUps::TooLate,
            (true, false) => WakeUps::Possible,
            (true, true) => WakeUps::Unaffordable,
        };
        let input = if self.inbox_open { HostInput::Open } else { HostInput::Closed };
        let step = idle_step(IdleOutlook { input, wake_ups, ceiling });
        match step {
            IdleStep::Idle | IdleStep::Leave(_) if self.owes_idle => {
                self.owes_idle = false;
                self.session.emit_state(SessionState::Idle).await;
            }
            IdleStep::Idle | IdleStep::Leave(_) | IdleStep::Await { .. } => {}
        }
        step
    }

    /// Stops the tasks and the wake-up that could still have started a turn. Before that, they, the ends that the model
    /// was not told of and the jobs of the session are named in the operator's log, so that a run never ends before its
    /// work without a word.
    pub(super) async fn leave_wakers(&self, reason: LeaveReason) {
        let (running, untold) = (self.session.named_wakers(), self.session.untold_ends());
        if !running.is_empty() {
            self.session.process.host.log(&still_running(reason, &running));
        }
        if !untold.is_empty() {
            let untold = untold.join(", ");
            self.session.process.host.log(&format!(
                "The session ends before the model was told of the end of: {untold}. It is told when the session is \
                 resumed."
            ));
        }
        let jobs = self.session.named_jobs();
        if !jobs.is_empty() {
            let jobs = jobs.join(", ");
            self.session.process.host.log(&format!("Scheduled jobs end with the session: {jobs}."));
        }
        self.session.stop_wakers().await;
    }

    /// Returns whether the clock may start turns now: it is on, and the budget is not used up. It does not start the
    /// first turn, because hosts take the first result for the answer to their first prompt.
    pub(super) fn clock_counts(&self) -> bool {
        let schedule = &self.session.schedule;
        let is_on = schedule.config.clock == ClockTurns::On;
        is_on && self.last_turn_ended.is_some() && !self.session.over_budget()
    }
}

/// Returns the line for the operator that names what is stopped (`named`) and why. For the ceiling it also says how to
/// set it.
fn still_running(reason: LeaveReason, named: &[String]) -> String {
    let named = named.join(", ");
    let why = match reason {
        LeaveReason::Ceiling(ceiling) => {
            let seconds = ceiling.as_millis() as f64 / 1000.0;
            return format!(
                "Background tasks still running {seconds}s after the last turn: {named}; stopping them. \
                 CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS sets how long a session waits, 0 is without limit."
            );
        }
        LeaveReason::Budget => "the budget is used up, so their ends could start no turn",
        LeaveReason::TooLate => {
            "it is due after the longest wait (CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS, 0 is without limit)"
        }
        LeaveReason::Asked => "the host ends the session",
        LeaveReason::Interrupted => "the session was interrupted",
        LeaveReason::Stopped => "the session was told to end",
        LeaveReason::NothingLeft => "the session ends",
    };
    format!("Background tasks still running: {named}; stopping them, because {why}.")
}

impl SessionServices {
    /// Returns whether the host may be told that the session is idle although something may still start a turn. With
    /// [`StateFrames::SdkOnly`] it may not while anything can: such hosts close their input when the session is idle,
    /// and the turn may need them.
    pub(super) fn shows_idle_despite_wakers(&self) -> bool {
        match self.options.states {
            StateFrames::SdkOnly => !self.can_wake(),
            StateFrames::Public | StateFrames::None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every combination, so that no edge is left to chance.
    #[test]
    fn each_outlook_has_its_step() {
        let (now, long) = (Instant::now(), Duration::from_secs(600));
        let leave = IdleStep::Leave;
        let waits = IdleStep::Await { until: None };
        let until = IdleStep::Await { until: Some(now) };
        let rows = [
            (WakeUps::Impossible, CeilingState::NotCounting, leave(LeaveReason::NothingLeft), IdleStep::Idle),
            (WakeUps::Impossible, CeilingState::Ahead(now), leave(LeaveReason::NothingLeft), IdleStep::Idle),
            (
                WakeUps::Impossible,
                CeilingState::Passed(long),
                leave(LeaveReason::NothingLeft),
                IdleStep::Idle,
            ),
            (WakeUps::Possible, CeilingState::NotCounting, waits, waits),
            (WakeUps::Possible, CeilingState::Ahead(now), until, until),
            (
                WakeUps::Possible,
                CeilingState::Passed(long),
                leave(LeaveReason::Ceiling(long)),
                IdleStep::Idle,
            ),
            (WakeUps::Unaffordable, CeilingState::NotCounting, leave(LeaveReason::Budget), IdleStep::Idle),
            (WakeUps::Unaffordable, CeilingState::Ahead(now), leave(LeaveReason::Budget), IdleStep::Idle),
            (WakeUps::Unaffordable, CeilingState::Passed(long), leave(LeaveReason::Budget), IdleStep::Idle),
        ];
        for (wake_ups, ceiling, closed, open) in rows {
            for (input, wanted) in [(HostInput::Closed, closed), (HostInput::Open, open)] {
                let outlook = IdleOutlook { input, wake_ups, ceiling };
                assert_eq!(idle_step(outlook), wanted, "{outlook:?}");
            }
        }
    }

    #[test]
    fn the_operator_reads_what_is_stopped_and_why() {
        let named = ["command \"x\" (b1)".to_owned(), "command \"y\" (b2)".to_owned()];
        let at_ceiling = still_running(LeaveReason::Ceiling(Duration::from_millis(1500)), &named);
        assert!(at_ceiling.starts_with(
            "Background tasks still running 1.5s after the last turn: command \"x\" (b1), command \"y\" (b2);"
        ));
        let asked = still_running(LeaveReason::Asked, &named[..1]);
        assert_eq!(
            asked,
            "Background tasks still running: command \"x\" (b1); stopping them, because the host ends the session."
        );
    }
}
