//! When a conversation is compacted, as pure arithmetic: limits from the model's window and the user's settings, and a
//! small memory of the last attempts, so that no loop burns tokens.

use crate::record::history::ConversationSize;

/// Tokens kept free for the response.
const ANSWER_RESERVE: u64 = 20_000;

/// Tokens kept free on top of it, for the results of the next tools.
const COMPACT_BUFFER: u64 = 13_000;

/// Tokens kept free on top of the reserve when nothing makes room: beyond that no request is sent.
const BLOCKING_BUFFER: u64 = 3_000;

/// The range of the window that a user may set.
const WINDOW_BOUNDS: (u64, u64) = (100_000, 1_000_000);

/// Failures in a row after which no more automatic attempts are made.
const MAX_FAILURES: u32 = 2;

/// Compactions in quick succession after which the turn ends.
const MAX_IN_A_ROW: u32 = 2;

/// Requests after a compaction within which the next one counts as quick.
const QUICK_REQUESTS: u32 = 2;

/// Whether a sort of compaction is enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompactSwitch {
    #[default]
    On,
    Off,
}

impl CompactSwitch {
    /// Returns `Off` if `off` is true, else `On`.
    pub fn off_if(off: bool) -> Self {
        if off { Self::Off } else { Self::On }
    }
}

/// The user's settings for compaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompactPolicy {
    /// Compaction without a command, when the window fills up.
    pub automatic: CompactSwitch,
    /// Compaction of any sort.
    pub manual: CompactSwitch,
    /// The window to compact for, if it is smaller than the model's.
    pub window: Option<u64>,
    /// The percentage of the window at which to compact, if that is earlier.
    pub percent: Option<u8>,
}

/// The limits that a policy sets for one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowLimits {
    /// The window in force for compaction.
    pub window: u64,
    /// The size from which on a conversation is compacted automatically.
    pub threshold: u64,
    /// The size from which on no request is sent without a compaction.
    pub blocking: u64,
}

impl CompactPolicy {
    /// Returns the window that a user asked for, moved into the range that a user may set.
    pub fn clamp_window(tokens: u64) -> u64 {
        tokens.clamp(WINDOW_BOUNDS.0, WINDOW_BOUNDS.1)
    }

    /// Returns whether conversations are compacted automatically. Both switches have to be on, because the one for
    /// commands turns off compaction as a whole.
    pub fn is_automatic(&self) -> bool {
        (self.automatic, self.manual) == (CompactSwitch::On, CompactSwitch::On)
    }

    /// Returns at which sizes a conversation is compacted and at which it counts as full, for a model with this window.
    /// The policy can only make compaction earlier; the size that counts as full follows from the model's window alone.
    pub fn limits(&self, model_window: u64) -> WindowLimits {
        let window = self.window.map_or(model_window, |wanted| model_window.min(Self::clamp_window(wanted)));
        // A small window cannot spare so much, so half of it is left to the conversation.
        let below = |window: u64, spare: u64| window.saturating_sub(spare).max(window / 2);
        let usual = below(window, ANSWER_RESERVE + COMPACT_BUFFER);
        let wanted = self.percent.map(|percent| window / 100 * u64::from(percent.clamp(1, 100)));
        WindowLimits {
            window,
            threshold: wanted.map_or(usual, |wanted| wanted.min(usual)),
            blocking: below(model_window, ANSWER_RESERVE + BLOCKING_BUFFER),
        }
    }
}

/// How the compactions of a session went so far.
#[derive(Debug, Default)]
pub struct CompactionMemory {
    /// Failures since the last success.
    failures: u32,
    /// Compactions in quick succession.
    in_a_row: u32,
    /// Requests since the last compaction.
    requests_since: u32,
    /// Tokens that all compactions have removed.
    pub dropped_tokens: u64,
}

/// What to do before a request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactStep {
    Send,
    Compact,
    /// The conversation fills up as fast as it is compacted.
    StopRefilled,
    /// It does not fit, and nothing makes room.
    StopFull,
}

impl CompactionMemory {
    /// Counts a request of size `context` and decides what to do before it: send it, compact first, or end the turn.
    /// Where no automatic compaction is made, only a size that the API has measured can end the turn. Must be called
    /// exactly once for each request, because compactions in quick succession are told by the number of requests
    /// between them.
    pub fn before_request(
        &mut self,
        policy: &CompactPolicy,
        limits: &WindowLimits,
        context: RequestSize,
    ) -> CompactStep {
        self.requests_since = self.requests_since.saturating_add(1);
        let pauses = !policy.is_automatic() || self.failures >= MAX_FAILURES;
        if pauses {
            // An estimate alone must not end a turn: the API may still accept the request.
            let full = context.is_measured && context.tokens >= limits.blocking;
            return if full { CompactStep::StopFull } else { CompactStep::Send };
        }
        if context.tokens < limits.threshold {
            return CompactStep::Send;
        }
        if self.requests_since > QUICK_REQUESTS {
            self.in_a_row = 0;
        }
        if self.in_a_row >= MAX_IN_A_ROW {
            // Reported once; the next prompt may try again.
            self.in_a_row = 0;
            return CompactStep::StopRefilled;
        }
        CompactStep::Compact
    }

    /// Resets the count of compactions in a row when a new prompt begins a turn.
    pub fn begin_turn(&mut self) {
        self.in_a_row = 0;
    }

    /// Returns whether a request that the API found too long is worth a compaction: compaction is automatic, it has not
    /// failed too often, and it did not just happen several times in a row. Enough requests since the last compaction
    /// end such a row.
    pub fn after_refusal(&mut self, policy: &CompactPolicy) -> bool {
        if self.requests_since > QUICK_REQUESTS {
            self.in_a_row = 0;
        }
        policy.is_automatic() && self.failures < MAX_FAILURES && self.in_a_row < MAX_IN_A_ROW
    }

    /// Counts a compaction that made room, which clears the failures before it; `dropped` is how many tokens it saved.
    pub fn succeeded(&mut self, dropped: u64) {
        self.failures = 0;
        self.in_a_row += 1;
        self.requests_since = 0;
        self.dropped_tokens += dropped;
    }

    /// Counts an automatic compaction that failed. Returns true only for the failure after which no further automatic
    /// attempt is made, so that it is reported once.
    pub fn failed(&mut self) -> bool {
        self.failures += 1;
        self.failures == MAX_FAILURES
    }
}

/// The size of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestSize {
    pub tokens: u64,
    /// Whether the API has counted most of it; otherwise it is an estimate.
    pub is_measured: bool,
}

impl RequestSize {
    /// Returns the size of a request. If the API has counted the conversation, that number already includes everything
    /// that is not a message, so `overhead`, the tokens of those parts, is only added to an estimate.
    pub fn of(size: ConversationSize, overhead: u64) -> Self {
        match size.measured {
            Some(measured) => Self { tokens: measured + size.added, is_measured: true },
            None => Self { tokens: overhead + size.messages, is_measured: false },
        }
    }
}

/// The state of the compaction of one agent.
#[derive(Default)]
pub struct CompactionState {
    pub memory: CompactionMemory,
}

/// When a conversation is compacted: the settings, and what a command has changed since.
#[derive(Debug, Clone, Copy, Default)]
pub struct CompactChoice {
    /// The policy in force.
    pub policy: CompactPolicy,
    /// The policy that settings said last.
    written: CompactPolicy,
}

impl CompactChoice {
    /// Begins with the policy of the settings, which is also remembered to notice a later change of them.
    pub fn new(policy: CompactPolicy) -> Self {
        Self { policy, written: policy }
    }

    /// Takes over the policy of settings that were read again. If they say the same as before, what a command has set
    /// in between stays.
    pub fn follow(&mut self, written: CompactPolicy) {
        if self.written != written {
            (self.policy, self.written) = (written, written);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tokens: u64) -> RequestSize {
        RequestSize { tokens, is_measured: true }
    }

    #[test]
    fn limits_follow_the_window_and_what_the_user_set() {
        let limits = |policy: CompactPolicy, window| {
            let limits = policy.limits(window);
            (limits.threshold, limits.blocking)
        };
        let usual = CompactPolicy::default();
        assert_eq!(limits(usual, 1_000_000), (967_000, 977_000));
        assert_eq!(limits(usual, 200_000), (167_000, 177_000));
        assert_eq!(limits(usual, 32_000), (16_000, 16_000));
        let window = |tokens| CompactPolicy { window: Some(tokens), ..usual };
        assert_eq!(limits(window(100_000), 1_000_000), (67_000, 977_000));
        assert_eq!(limits(window(5), 1_000_000), (67_000, 977_000));
        assert_eq!(limits(window(500_000), 200_000), (167_000, 177_000), "never more than the model has");
        let percent = |percent| CompactPolicy { percent: Some(percent), ..usual };
        assert_eq!(limits(percent(50), 200_000).0, 100_000);
        assert_eq!(
            limits(percent(99), 200_000).0,
            167_000,
            "a later moment than the usual one has no effect"
        );
    }

    #[test]
    fn it_compacts_at_the_threshold_and_stops_when_that_does_not_help() {
        let (policy, mut memory) = (CompactPolicy::default(), CompactionMemory::default());
        let limits = policy.limits(200_000);
        assert_eq!(memory.before_request(&policy, &limits, at(166_999)), CompactStep::Send);
        assert_eq!(memory.before_request(&policy, &limits, at(167_000)), CompactStep::Compact);
        memory.succeeded(100_000);
        assert_eq!(memory.before_request(&policy, &limits, at(190_000)), CompactStep::Compact);
        memory.succeeded(100_000);
        assert_eq!(memory.before_request(&policy, &limits, at(190_000)), CompactStep::StopRefilled);
        assert_eq!(
            memory.before_request(&policy, &limits, at(190_000)),
            CompactStep::Compact,
            "a new prompt may try"
        );
        assert_eq!(memory.dropped_tokens, 200_000);
    }

    #[test]
    fn compactions_far_apart_are_no_loop() {
        let (policy, mut memory) = (CompactPolicy::default(), CompactionMemory::default());
        let limits = policy.limits(200_000);
        for _ in 0..5 {
            for _ in 0..3 {
                assert_eq!(memory.before_request(&policy, &limits, at(1000)), CompactStep::Send);
            }
            assert_eq!(memory.before_request(&policy, &limits, at(170_000)), CompactStep::Compact);
            memory.succeeded(1);
        }
    }

    #[test]
    fn after_two_failures_nothing_is_tried_and_the_wall_is_named() {
        let (policy, mut memory) = (CompactPolicy::default(), CompactionMemory::default());
        let limits = policy.limits(200_000);
        assert!(!memory.failed());
        assert_eq!(memory.before_request(&policy, &limits, at(170_000)), CompactStep::Compact);
        assert!(memory.failed(), "the second is the last");
        assert_eq!(memory.before_request(&policy, &limits, at(176_999)), CompactStep::Send);
        assert_eq!(memory.before_request(&policy, &limits, at(177_000)), CompactStep::StopFull);
        let guessed = RequestSize { tokens: 900_000, is_measured: false };
        assert_eq!(
            memory.before_request(&policy, &limits, guessed),
            CompactStep::Send,
            "a guess blocks no one"
        );
        memory.succeeded(1);
        assert_eq!(memory.before_request(&policy, &limits, at(170_000)), CompactStep::Compact);
    }

    #[test]
    fn a_request_that_stays_too_long_is_given_up() {
        let (policy, mut memory) = (CompactPolicy::default(), CompactionMemory::default());
        let limits = policy.limits(200_000);
        for _ in 0..2 {
            assert!(memory.after_refusal(&policy));
            memory.succeeded(1);
            memory.before_request(&policy, &limits, at(1000));
        }
        assert!(!memory.after_refusal(&policy));
        for _ in 0..3 {
            memory.before_request(&policy, &limits, at(1000));
        }
        assert!(memory.after_refusal(&policy), "later it may try again");
        assert!(!memory.after_refusal(&CompactPolicy { automatic: CompactSwitch::Off, ..policy }));
    }

    #[test]
    fn switched_off_means_off() {
        for policy in [
            CompactPolicy { automatic: CompactSwitch::Off, ..CompactPolicy::default() },
            CompactPolicy { manual: CompactSwitch::Off, ..CompactPolicy::default() },
        ] {
            let limits = policy.limits(1_000_000);
            let mut memory = CompactionMemory::default();
            assert_eq!(memory.before_request(&policy, &limits, at(970_000)), CompactStep::Send);
            assert_eq!(memory.before_request(&policy, &limits, at(979_000)), CompactStep::StopFull);
        }
    }
}
