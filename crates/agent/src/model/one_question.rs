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
        let answer = self.ask_model_for_all(request, retry_frame).await?;
        let texts = answer.blocks.iter().filter_map(ContentBlock::as_text);
        Ok(texts.collect::<Vec<_>>().join("\n\n"))
    }

    /// Sends a request outside of the conversation, with the retries that every request has, and returns the whole
    /// response. The error is that of the last attempt; the cost of each attempt counts, also if the caller drops the
    /// future, as it may, because nothing limits its time here. The budget is not checked here, and `retry_frame` makes
    /// the frame about a retry, if the host is to see one.
    pub(crate) async fn ask_model_for_all(
        &self,
        request: ModelRequest,
        retry_frame: impl Fn(RetryWait, &ModelError) -> Option<Outbound>,
    ) -> Result<ModelResponse, ModelError> {
        let request = Arc::new(request);
        let mut failed = FailedAttempts::default();
        loop {
            let error = match self.ask_model_once(&request).await {
                Ok(answer) => return Ok(answer),
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

    /// Sends the request once and returns the response. A stream that ends early is an error; what arrived is paid for
    /// in any case, by the drop of `Paid`.
    async fn ask_model_once(&self, request: &Arc<ModelRequest>) -> Result<ModelResponse, ModelError> {
        let mut paid = Paid { session: self, model: &request.model, answer: Some(ModelResponse::default()) };
        let mut stream = self.model.stream(request.clone()).await?;
        while let Some(event) = stream.events.next().await {
            let event = event?.event;
            if let Some(answer) = &mut paid.answer {
                drop(answer.fold(&event));
            }
        }
        match paid.settle() {
            Some(answer) if answer.complete => Ok(answer),
            Some(_) | None => Err(cut_short()),
        }
    }
}

/// A response that is paid for as far as it arrived, also when it is cut off or the future is dropped.
struct Paid<'a> {
    session: &'a SessionServices,
    model: &'a str,
    /// None once it is paid for.
    answer: Option<ModelResponse>,
}

impl Paid<'_> {
    /// Adds the cost to the session's totals, and returns the response. `None` if that was done before, so a response
    /// is never counted twice.
    fn settle(&mut self) -> Option<ModelResponse> {
        let answer = self.answer.take()?;
        let model = if answer.model.is_empty() { self.model } else { &answer.model };
        self.session.totals().add(model, &answer.usage);
        Some(answer)
    }
}

impl Drop for Paid<'_> {
    fn drop(&mut self) {
        drop(self.settle());
    }
}
