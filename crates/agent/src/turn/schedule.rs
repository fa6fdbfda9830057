//! Which tool calls of one response may run now. Calls start in the order of the response: readers side by side up to a
//! limit, a writer alone, and no call overtakes another.
//!
//! Only what a call is about is looked at. Whether it may run is decided when it starts, so neither rules nor the disk
//! are consulted here.

use std::collections::VecDeque;

use lathe_permissions::DescribedCall;
use lathe_protocol::{CallSubject, FileAccess, McpAccess, SessionAccess, UserQuestion};

/// Waiting and running calls of one response. `C` is whatever the caller needs to start a call.
pub struct CallSchedule<C> {
    waiting: VecDeque<(C, CallAccess)>,
    running_readers: usize,
    writer_running: bool,
    limit: usize,
}

/// Whether a call may run beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallAccess {
    Shared,
    Exclusive,
}

impl CallAccess {
    /// Returns [`Self::Shared`] for a call that may run beside others, because it only reads or (a child agent)
    /// schedules its own calls. Everything that may change something, and every unknown call, runs alone.
    pub fn of(call: &DescribedCall) -> Self {
        match call.subject() {
            CallSubject::Shell { .. } if call.is_reading_command() => Self::Shared,
            CallSubject::File { access: FileAccess::Read | FileAccess::Search { .. }, .. }
            | CallSubject::Host { .. }
            | CallSubject::WebSearch { .. }
            | CallSubject::McpTool { access: McpAccess::ReadOnly, .. }
            // The calls of a child agent have a schedule of their own.
            | CallSubject::Agent { .. }
            | CallSubject::Question(UserQuestion::Open | UserQuestion::Answered)
            | CallSubject::Session(SessionAccess::Reads) => Self::Shared,
            CallSubject::Shell { .. }
            | CallSubject::File { access: FileAccess::Write, .. }
            | CallSubject::McpTool { access: McpAccess::MayChange, .. }
            | CallSubject::Skill { .. }
            | CallSubject::Question(UserQuestion::PlanApproval)
            | CallSubject::Session(SessionAccess::Changes)
            // It ends the task, so it waits for the calls before it.
            | CallSubject::StructuredOutput
            | CallSubject::Unknown => Self::Exclusive,
        }
    }
}

impl<C> CallSchedule<C> {
    /// Creates an empty schedule for at most `limit` calls at once; 0 counts as 1.
    pub fn new(limit: usize) -> Self {
        Self { waiting: VecDeque::new(), running_readers: 0, writer_running: false, limit: limit.max(1) }
    }

    /// Adds a call behind all others. A call never overtakes one before it.
    pub fn add(&mut self, call: C, access: CallAccess) {
        self.waiting.push_back((call, access));
    }

    /// Takes the next call if it may start now; `None` if it has to wait or there is none. Only the first is looked at,
    /// so no call overtakes another. It counts as running until [`Self::finished`] is called with its access.
    pub fn start_next(&mut self) -> Option<(C, CallAccess)> {
        // Only the first is looked at: a call that overtook it might read what that one is about to write.
        let (_, access) = self.waiting.front()?;
        let free = match access {
            CallAccess::Shared => !self.writer_running && self.running_readers < self.limit,
            CallAccess::Exclusive => !self.writer_running && self.running_readers == 0,
        };
        if !free {
            return None;
        }
        let (call, access) = self.waiting.pop_front()?;
        match access {
            CallAccess::Shared => self.running_readers += 1,
            CallAccess::Exclusive => self.writer_running = true,
        }
        Some((call, access))
    }

    /// Notes that a call which [`Self::start_next`] returned has ended; to be called once for each. `access` must be
    /// the one that it started with.
    pub fn finished(&mut self, access: CallAccess) {
        match access {
            CallAccess::Shared => self.running_readers -= 1,
            CallAccess::Exclusive => self.writer_running = false,
        }
    }

    /// Takes out the calls that have not started, in their order. Running calls still count.
    pub fn drain_waiting(&mut self) -> Vec<C> {
        self.waiting.drain(..).map(|(call, _)| call).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn startable(schedule: &mut CallSchedule<u32>) -> Vec<u32> {
        std::iter::from_fn(|| schedule.start_next().map(|(call, _)| call)).collect()
    }

    #[test]
    fn readers_share_writers_do_not_and_nobody_overtakes() {
        let mut schedule = CallSchedule::new(10);
        for (call, access) in [
            (1, CallAccess::Shared),
            (2, CallAccess::Shared),
            (3, CallAccess::Exclusive),
            (4, CallAccess::Shared),
        ] {
            schedule.add(call, access);
        }
        assert_eq!(startable(&mut schedule), [1, 2]);
        schedule.finished(CallAccess::Shared);
        assert!(startable(&mut schedule).is_empty());
        schedule.finished(CallAccess::Shared);
        assert_eq!(startable(&mut schedule), [3]);
        schedule.finished(CallAccess::Exclusive);
        assert_eq!(startable(&mut schedule), [4]);
    }

    #[test]
    fn the_limit_holds() {
        let mut schedule = CallSchedule::new(2);
        (0..5).for_each(|call| schedule.add(call, CallAccess::Shared));
        assert_eq!(startable(&mut schedule), [0, 1]);
        schedule.finished(CallAccess::Shared);
        assert_eq!(startable(&mut schedule), [2]);
        assert_eq!(schedule.drain_waiting(), [3, 4]);
    }
}
