//! The one retry policy around the model. [`FailedAttempts`] counts what failed on the way to one response and says
//! what follows each failure: the same request after a wait, another model, one request without a stream, or the end.
//! The caller does the rest, because only the caller knows which part of a broken response it has acted on, and whom to
//! tell.

use lathe_models::retry::RetryDecision;
use lathe_models::{ErrorKind, ModelError};

use crate::state::process::{ProcessServices, RetryWait};

/// Overloads in a row after which the fallback model takes over.
const OVERLOADS_BEFORE_FALLBACK: u32 = 3;

/// The failed attempts at one response so far.
#[derive(Debug, Default)]
pub struct FailedAttempts {
    retries: u32,
    overloads_in_a_row: u32,
}

/// What can be tried besides sending the same request again.
#[derive(Debug, Clone, Copy, Default)]
pub struct RetryAlternatives {
    /// Whether there is another model.
    pub fallback_model: bool,
    /// Whether the caller can take a response that comes whole.
    pub without_stream: bool,
}

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// The same request, after a wait.
    Retry(RetryWait),
    /// The next fallback model, and why.
    FallbackModel {
        trigger: &'static str,
    },
    /// One last request without a stream, because streams keep breaking.
    WithoutStream,
    GiveUp,
}

impl FailedAttempts {
    /// Counts a failed attempt and returns what follows: a retry after a delay, another model, a request without a
    /// stream, or the end. Must be called once per failure, and nothing else decides this. What `alternatives` does not
    /// offer is never returned.
    pub fn add(
        &mut self,
        error: &ModelError,
        alternatives: RetryAlternatives,
        process: &ProcessServices,
    ) -> AfterFailure {
        if let Some(trigger) = self.fallback_trigger(error.kind)
            && alternatives.fallback_model
        {
            // The next model starts with a clean count, and the change is not counted as a retry.
            self.overloads_in_a_row = 0;
            return AfterFailure::FallbackModel { trigger };
        }
        self.retries += 1;
        match process.retry.decide(self.retries, error, process.host.random()) {
            RetryDecision::Retry { delay } => AfterFailure::Retry(RetryWait {
                attempt: self.retries,
                max_retries: process.retry.max_retries,
                delay,
            }),
            RetryDecision::GiveUp if alternatives.without_stream && breaks_streams(error.kind) => {
                AfterFailure::WithoutStream
            }
            RetryDecision::GiveUp => AfterFailure::GiveUp,
        }
    }

    /// Counts how many overloads came in a row. Returns why another model should take over: this one was overloaded
    /// several times in a row, or fails on its own side; `None` after any other failure.
    fn fallback_trigger(&mut self, kind: ErrorKind) -> Option<&'static str> {
        let is_overload = kind == ErrorKind::Overloaded;
        self.overloads_in_a_row = if is_overload { self.overloads_in_a_row + 1 } else { 0 };
        if self.overloads_in_a_row >= OVERLOADS_BEFORE_FALLBACK {
            return Some("overloaded");
        }
        (kind == ErrorKind::Server).then_some("server_error")
    }
}

/// Returns whether the error concerns the stream and not the request, so that a request without a stream may succeed.
fn breaks_streams(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StreamCut | ErrorKind::Stalled | ErrorKind::StreamError)
}
