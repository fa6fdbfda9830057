//! One question to the model beside the conversation: its answer as text, and what it cost on the session's
//! bill. Whether it is worth another attempt, and what is said meanwhile, is the asker's business.

use std::sync::Arc;

use futures_util::StreamExt;
use lathe_models::{ModelError, ModelRequest};

use crate::model::cut_short;
use crate::record::answer::Answer;
use crate::state::services::SessionServices;

impl SessionServices {
    /// Asks once. The texts of the answer, with an empty line between them.
    pub(crate) async fn ask_model_once(&self, request: &Arc<ModelRequest>) -> Result<String, ModelError> {
        let mut paid = Paid { session: self, model: &request.model, answer: Answer::default() };
        let mut stream = self.model.stream(request.clone()).await?;
        while let Some(event) = stream.events.next().await {
            drop(paid.answer.fold(&event?.event));
        }
        if !paid.answer.complete {
            return Err(cut_short());
        }
        let texts = paid.answer.blocks.iter().filter_map(|block| block["text"].as_str());
        Ok(texts.collect::<Vec<_>>().join("\n\n"))
    }
}

/// An answer that is paid for as far as it arrived, also when it breaks off or nobody waits for it any more.
struct Paid<'a> {
    session: &'a SessionServices,
    model: &'a str,
    answer: Answer,
}

impl Drop for Paid<'_> {
    fn drop(&mut self) {
        let model = if self.answer.model().is_empty() { self.model } else { self.answer.model() };
        self.session.totals().add(model, &self.answer.usage);
    }
}
