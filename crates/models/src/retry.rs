//! Whether and when to send a failed request again: a pure table, with no clock and no randomness of its own.
//!
//! The loop asks after each failed attempt and does the waiting, because only it knows whether it has already acted on
//! a part of the broken response. A 401 that a fresh helper key may solve is retried inside the client, once, and does
//! not appear here.

use std::time::Duration;

use crate::error::{ErrorKind, ModelError};

/// The number of retries without a setting.
pub const DEFAULT_MAX_RETRIES: u32 = 10;
/// The most retries that a setting can ask for.
pub const MAX_RETRIES_CAP: u32 = 15;

/// When to give up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Retries after the first attempt; [`MAX_RETRIES_CAP`] at most.
    pub max_retries: u32,
    /// Middle of the first delay; each further one doubles.
    pub base: Duration,
    /// The doubling stops here, so no delay is longer than one and a half times this.
    pub longest: Duration,
    /// The longest `retry-after` that is waited for. If a server asks for more (a quota that renews in hours), there is
    /// no retry: waiting that long is the user's decision.
    pub longest_retry_after: Duration,
    /// Whether 429 and 529 count against `max_retries`.
    pub on_overload: OnOverload,
}

/// How repeated 429 and 529 count towards the number of retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnOverload {
    /// They count like any other failure.
    Bounded,
    /// They are retried until they stop (`CLAUDE_CODE_RETRY_WATCHDOG`).
    Forever,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: DEFAULT_MAX_RETRIES,
            base: Duration::from_millis(500),
            longest: Duration::from_secs(60),
            longest_retry_after: Duration::from_secs(600),
            on_overload: OnOverload::Bounded,
        }
    }
}

/// The decision after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Wait this long, then send the same request again.
    Retry {
        /// How long to wait.
        delay: Duration,
    },
    /// The failure is final.
    GiveUp,
}

impl RetryPolicy {
    /// Returns the default policy with another number of retries, at most [`MAX_RETRIES_CAP`].
    pub fn with_max_retries(max_retries: u32) -> Self {
        Self { max_retries: max_retries.min(MAX_RETRIES_CAP), ..Self::default() }
    }

    /// Decides after attempt number `attempt` (the first is 1) failed with `error`: a delay, or no retry. A
    /// `retry_after` other than zero is the delay, without jitter, and means no retry if it is over
    /// `longest_retry_after`. `jitter` is a fresh random number in 0..1: other delays range from half to one and a half
    /// times the nominal one, so that sessions that failed together do not retry together.
    pub fn decide(&self, attempt: u32, error: &ModelError, jitter: f64) -> RetryDecision {
        if !error.kind.is_retryable() || !self.has_retry_left(attempt, error.kind) {
            return RetryDecision::GiveUp;
        }
        match error.retry_after {
            Some(wait) if wait > self.longest_retry_after => RetryDecision::GiveUp,
            // Zero would be a busy loop; it only means that the server does not ask for a delay.
            Some(wait) if !wait.is_zero() => RetryDecision::Retry { delay: wait },
            Some(_) | None => RetryDecision::Retry { delay: self.backoff(attempt, jitter) },
        }
    }

    /// Returns whether attempt number `attempt` may be followed by another. Overloads are not counted if the policy
    /// says so.
    fn has_retry_left(&self, attempt: u32, kind: ErrorKind) -> bool {
        let overload = matches!(kind, ErrorKind::RateLimit | ErrorKind::Overloaded);
        (overload && self.on_overload == OnOverload::Forever)
            || attempt <= self.max_retries.min(MAX_RETRIES_CAP)
    }

    /// Returns the delay after attempt number `attempt`: doubled each time up to `longest`, then scaled by the jitter.
    /// The number of doublings is bounded so that the shift cannot overflow.
    fn backoff(&self, attempt: u32, jitter: f64) -> Duration {
        let doublings = attempt.saturating_sub(1).min(20);
        let middle = self.base.saturating_mul(1 << doublings).min(self.longest);
        let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.5 };
        middle.mul_f64(0.5 + jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: ErrorKind) -> ModelError {
        ModelError::new(kind, "scripted")
    }

    fn delay_ms(policy: &RetryPolicy, attempt: u32, error: &ModelError, jitter: f64) -> Option<u128> {
        match policy.decide(attempt, error, jitter) {
            RetryDecision::Retry { delay } => Some(delay.as_millis()),
            RetryDecision::GiveUp => None,
        }
    }

    #[test]
    fn doubles_up_to_the_cap_and_then_gives_up() {
        let policy = RetryPolicy::default();
        let error = error(ErrorKind::Overloaded);
        let delays: Vec<_> = (1..=12).map(|attempt| delay_ms(&policy, attempt, &error, 0.5)).collect();
        let expected = [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000];
        assert_eq!(delays[..10], expected.map(Some));
        assert_eq!(delays[10..], [None, None]);
    }

    #[test]
    fn jitter_spreads_around_the_middle() {
        let policy = RetryPolicy::default();
        let error = error(ErrorKind::Connection);
        assert_eq!(delay_ms(&policy, 2, &error, 0.0), Some(500));
        assert_eq!(delay_ms(&policy, 2, &error, 1.0), Some(1500));
        assert_eq!(delay_ms(&policy, 2, &error, f64::NAN), Some(1000));
        assert_eq!(delay_ms(&policy, 2, &error, -9.0), Some(500));
    }

    #[test]
    fn what_cannot_get_better_fails_at_once() {
        for status in [400, 401, 403, 404, 413] {
            let error = ModelError::from_api(Some(status), None, "scripted");
            assert_eq!(RetryPolicy::default().decide(1, &error, 0.5), RetryDecision::GiveUp, "{status}");
        }
        let missing = error(ErrorKind::NoCredentials);
        assert_eq!(RetryPolicy::default().decide(1, &missing, 0.5), RetryDecision::GiveUp);
    }

    #[test]
    fn retry_after_is_kept_exactly_up_to_its_cap() {
        let policy = RetryPolicy::default();
        let mut error = error(ErrorKind::RateLimit);
        error.retry_after = Some(Duration::from_secs(1));
        assert_eq!(delay_ms(&policy, 5, &error, 0.9), Some(1000));
        error.retry_after = Some(Duration::from_secs(600));
        assert_eq!(delay_ms(&policy, 1, &error, 0.9), Some(600_000));
        error.retry_after = Some(Duration::from_secs(601));
        assert_eq!(delay_ms(&policy, 1, &error, 0.9), None);
        error.retry_after = Some(Duration::ZERO);
        assert_eq!(delay_ms(&policy, 1, &error, 0.5), Some(500));
    }

    #[test]
    fn the_number_of_retries_is_bounded_unless_told_otherwise() {
        let mut policy = RetryPolicy::with_max_retries(99);
        let storm = error(ErrorKind::Overloaded);
        assert!(delay_ms(&policy, 15, &storm, 0.5).is_some());
        assert_eq!(delay_ms(&policy, 16, &storm, 0.5), None);
        policy.on_overload = OnOverload::Forever;
        assert_eq!(delay_ms(&policy, u32::MAX, &storm, 0.5), Some(60_000));
        assert_eq!(delay_ms(&policy, 16, &error(ErrorKind::Connection), 0.5), None);
        assert_eq!(delay_ms(&RetryPolicy::with_max_retries(0), 1, &storm, 0.5), None);
    }
}
