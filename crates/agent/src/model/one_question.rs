//! One question to the model outside of the conversation: returns the text of the response, and adds its cost to the
//! session. The caller decides whom to tell of a retry, and how long to wait.

use std::sync::Arc;

use futures_util::StreamExt;
use lathe_models::{ModelError, ModelRequest};
use lathe_protocol::{ContentBlock, Outbound};

use crate::model::attempts::{AfterFailure, FailedAttempts, RetryAlternatives};
use crate::model::cut_short;
use crate::record::response::ModelResponse;
use crate::state::process::RetryWait;
use crate::state::services::SessionServices;

impl SessionServices {
    /// Sends a request outside of the conversation, with the retries that every request has, and returns the texts
    /// of the response joined by blank lines. `retry_frame` makes the frame about a retry, if the host is to see
    /// one.
    pub(crate) async fn ask_model(
        &self,
        request: ModelRequest,
        retry_frame: impl Fn(RetryWait, &ModelError) -> Option<Outbound>,
    ) -> Result<String, ModelError> {
        let request = Arc::new(request);
        let mut failed = FailedAttempts::default();
        loop {
            let error = match self.ask_model_once(&request).await {
                Ok(text) => return Ok(text),
                Err(error) => error,
            };
            match failed.add(&error, RetryAlternatives::default(), &self.process) {
                AfterFailure::Retry(wait) => {
                    if let Some(frame) = retry_frame(wait, &error) {
                        self.emit(frame).await;
                    }
                    tokio::time::sleep(wait.delay).await;
                }
                // The first two are not among the alternatives that were offered.
                AfterFailure::FallbackModel { .. } | AfterFailure::WithoutStream | AfterFailure::GiveUp => {
                    return Err(error);
                }
            }
        }
    }

    /// Sends the request once and returns the texts of the response, joined by blank lines. A stream that ends early is
    /// an error; what arrived is paid for in any case, by the drop of `Paid`.
    async fn ask_model_once(&self, request: &Arc<ModelRequest>) -> Result<String, ModelError> {
        let mut paid = Paid { session: self, model: &request.model, answer: ModelResponse::default() };
        let mut stream = self.model.stream(request.clone()).await?;
        while let Some(event) = stream.events.next().await {
            drop(paid.answer.fold(&event?.event));
        }
        if !paid.answer.complete {
            return Err(cut_short());
        }
        let texts = paid.answer.blocks.iter().filter_map(ContentBlock::as_text);
        Ok(texts.collect::<Vec<_>>().join("\n\n"))
    }
}

/// A response that is paid for as far as it arrived, also when it is cut off or the future is dropped.
struct Paid<'a> {
    session: &'a SessionServices,
    model: &'a str,
    answer: ModelResponse,
}

impl Drop for Paid<'_> {
    fn drop(&mut self) {
        let model = if self.answer.model.is_empty() { self.model } else { &self.answer.model };
        self.session.totals().add(model, &self.answer.usage);
    }
}
