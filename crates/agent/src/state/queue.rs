//! Prompts that wait: those the host sent while a turn was running, or several at once, and those that the clock is to
//! start. Knows their order and which have been seen before; the session decides when they run.

use std::collections::VecDeque;

use lathe_protocol::InboundUser;
use lathe_transcript::PromptIds;

use crate::state::schedule::ScheduleEntries;

/// The queued prompts of a session.
#[derive(Default)]
pub struct PromptQueue {
    waiting: VecDeque<InboundUser>,
    /// Client ids of every prompt so far: a repeated one is a duplicate.
    seen: PromptIds,
    /// Those of them that earlier runs of the session have seen.
    earlier: PromptIds,
    /// Prompts that wait for their time.
    pub scheduled: ScheduleEntries,
}

/// When a prompt is to be handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptPriority {
    /// Ends the current turn as soon as its tool is done.
    Now,
    /// Joins the current turn at its next pause.
    Next,
    /// Waits for the current turn to end.
    Later,
}

impl PromptPriority {
    /// Returns the priority that a prompt asks for; a missing or unknown one counts as [`Self::Next`].
    pub fn of(prompt: &InboundUser) -> Self {
        match prompt.priority.as_deref() {
            Some("now") => Self::Now,
            Some("later") => Self::Later,
            Some(_) | None => Self::Next,
        }
    }
}

/// Whether a prompt is new.
#[derive(Debug, PartialEq, Eq)]
pub enum QueueAdmission {
    Queued,
    Duplicate(SeenBefore),
}

/// When a prompt was seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenBefore {
    ThisRun,
    EarlierRun,
}

impl PromptQueue {
    /// Puts a prompt into the queue: in front of all others with the priority `now` (the newest of these is first),
    /// otherwise behind them. A prompt whose id was seen before is not queued, even if the earlier one was cancelled;
    /// one without an id always is.
    pub fn admit(&mut self, prompt: InboundUser) -> QueueAdmission {
        if let Some(uuid) = &prompt.uuid
            && !self.seen.insert(uuid)
        {
            let is_earlier = self.earlier.contains(uuid);
            return QueueAdmission::Duplicate(if is_earlier {
                SeenBefore::EarlierRun
            } else {
                SeenBefore::ThisRun
            });
        }
        match PromptPriority::of(&prompt) {
            PromptPriority::Now => self.waiting.push_front(prompt),
            PromptPriority::Next | PromptPriority::Later => self.waiting.push_back(prompt),
        }
        QueueAdmission::Queued
    }

    /// Marks the ids from earlier runs of the session as seen. To be called before the first prompt is admitted,
    /// because it replaces the ids that were seen so far.
    pub fn remember(&mut self, prompts: PromptIds) {
        self.earlier = prompts.clone();
        self.seen = prompts;
    }

    /// Takes the prompt that the next turn begins with; `None` if none waits.
    pub fn take_next(&mut self) -> Option<InboundUser> {
        self.waiting.pop_front()
    }

    /// Takes the prompts that join the current turn, in order: those with the priority [`PromptPriority::Next`], the
    /// others stay in their order. A command never joins, and a prompt behind one in the queue waits with it, because
    /// it may depend on what the command changes.
    pub fn joining(&mut self, is_command: impl Fn(&InboundUser) -> bool) -> Vec<InboundUser> {
        let behind = self.waiting.iter().position(is_command).unwrap_or(self.waiting.len());
        let behind = self.waiting.split_off(behind);
        let (joining, waiting): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).partition(|prompt| PromptPriority::of(prompt) == PromptPriority::Next);
        self.waiting = waiting.into();
        self.waiting.extend(behind);
        joining
    }

    /// Removes a prompt that has not started. Returns whether it was in the queue. Its id still counts as seen.
    pub fn cancel(&mut self, uuid: &str) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|prompt| prompt.uuid.as_deref() != Some(uuid));
        self.waiting.len() < before
    }

    /// Removes all queued prompts and returns the ids of those that have one. Scheduled prompts stay.
    pub fn cancel_all(&mut self) -> Vec<String> {
        self.waiting.drain(..).filter_map(|prompt| prompt.uuid).collect()
    }

    /// Returns the ids of the queued prompts in their order; those without an id are left out.
    pub fn waiting_ids(&self) -> Vec<String> {
        self.waiting.iter().filter_map(|prompt| prompt.uuid.clone()).collect()
    }

    /// Returns the number of queued prompts, without the scheduled ones.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(uuid: &str, priority: Option<&str>) -> InboundUser {
        InboundUser {
            uuid: Some(uuid.to_owned()),
            priority: priority.map(str::to_owned),
            ..InboundUser::default()
        }
    }

    fn ids(prompts: Vec<InboundUser>) -> Vec<String> {
        prompts.into_iter().filter_map(|prompt| prompt.uuid).collect()
    }

    #[test]
    fn prompts_keep_their_order_but_for_the_urgent_ones() {
        let mut queue = PromptQueue::default();
        for (uuid, priority) in [("a", None), ("b", Some("later")), ("c", Some("now")), ("d", Some("next"))] {
            assert_eq!(queue.admit(prompt(uuid, priority)), QueueAdmission::Queued);
        }
        assert_eq!(queue.waiting_ids(), ["c", "a", "b", "d"]);
        assert_eq!(ids(queue.joining(|_| false)), ["a", "d"]);
        assert_eq!(queue.waiting_ids(), ["c", "b"]);
    }

    #[test]
    fn nothing_overtakes_a_command() {
        let mut queue = PromptQueue::default();
        for uuid in ["a", "command", "b"] {
            queue.admit(prompt(uuid, None));
        }
        let is_command = |prompt: &InboundUser| prompt.uuid.as_deref() == Some("command");
        assert_eq!(ids(queue.joining(is_command)), ["a"]);
        assert_eq!(queue.waiting_ids(), ["command", "b"]);
    }

    #[test]
    fn an_id_counts_once() {
        let mut queue = PromptQueue::default();
        let mut earlier = PromptIds::default();
        earlier.insert("old");
        queue.remember(earlier);
        assert_eq!(queue.admit(prompt("old", None)), QueueAdmission::Duplicate(SeenBefore::EarlierRun));
        assert_eq!(queue.admit(prompt("a", None)), QueueAdmission::Queued);
        assert_eq!(queue.admit(prompt("a", None)), QueueAdmission::Duplicate(SeenBefore::ThisRun));
        assert_eq!(queue.len(), 1);
        assert!(queue.cancel("a"));
        assert!(!queue.cancel("a"));
        assert_eq!(queue.len(), 0);
    }
}
