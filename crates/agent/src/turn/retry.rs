//! What a turn does between two attempts at a response, for its own requests and for those of a compaction: it turns to
//! the next model or waits, and tells the host. `model/attempts.rs` decides what follows a failure.

use lathe_models::ModelError;

use crate::model::attempts::{AfterFailure, FailedAttempts, RetryAlternatives};
use crate::turn::Turn;

/// Why no further attempt is made.
pub(crate) enum GaveUp {
    Failed(ModelError),
    Interrupted,
}

/// How the next attempt is made.
pub(crate) enum NextAttempt {
    WithStream,
    /// One last request without a stream, because streams keep breaking.
    WithoutStream,
}

impl Turn<'_> {
    /// Decides with the retry policy what follows a failed attempt, tells the host, and waits out the delay. Returns
    /// how to send the request again, or why not to: the failure is final, or the turn was interrupted meanwhile. A
    /// change to a fallback model lasts for this turn only.
    pub(crate) async fn after_failure(
        &mut self,
        error: ModelError,
        failed: &mut FailedAttempts,
    ) -> Result<NextAttempt, GaveUp> {
        let alternatives = RetryAlternatives { fallback_model: self.has_fallback(), without_stream: true };
        match failed.add(&error, alternatives, &self.session.process) {
            AfterFailure::Retry(wait) => {
                let frame = self.agent.handle.frames.api_retry(&wait, &error);
                self.session.emit(frame).await;
                match tokio::time::timeout(wait.delay, self.cancel.cancelled()).await {
                    Ok(()) => Err(GaveUp::Interrupted),
                    Err(_elapsed) => Ok(NextAttempt::WithStream),
                }
            }
            AfterFailure::FallbackModel { trigger } => {
                // Only for this turn: the choice of the session stays, so the next turn tries the first model
                // again.
                if let Some(fallback) = self.next_fallback() {
                    let original = std::mem::replace(&mut self.model_id, fallback.clone());
                    let frame = self.agent.handle.frames.model_fallback(trigger, &original, &fallback);
                    self.session.emit(frame).await;
                }
                Ok(NextAttempt::WithStream)
            }
            AfterFailure::WithoutStream => Ok(NextAttempt::WithoutStream),
            AfterFailure::GiveUp => Err(GaveUp::Failed(error)),
        }
    }

    /// Returns whether a fallback model is left that is not the one in use.
    pub(crate) fn has_fallback(&self) -> bool {
        self.fallbacks.iter().any(|model| *model != self.model_id)
    }
}
