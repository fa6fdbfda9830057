//! The small requests beside the conversation: the list of models, the number of tokens of a request.

use reqwest::{Method, Url};
use serde_json::Value;

use super::{AnthropicClient, Call};
use crate::body::Purpose;
use crate::catalog::ModelInfo;
use crate::error::{ErrorKind, ModelError};
use crate::request::ModelRequest;

/// Models per page; the API's maximum.
const PAGE: &str = "1000";
/// The most pages that are read, so that a server that always announces another one cannot loop us.
const MAX_PAGES: usize = 20;

impl AnthropicClient {
    /// Returns the models that this credential may use, newest first as the API lists them. Reads all pages, at most
    /// 20; entries without an id are left out.
    pub async fn list_models(&self) -> Result<Vec<ModelInfo>, ModelError> {
        let mut models = Vec::new();
        let mut after = None;
        for _ in 0..MAX_PAGES {
            let page = self.get(self.models_page(after.as_deref())).await?;
            let Some(entries) = page["data"].as_array() else {
                return Err(ModelError::new(ErrorKind::Protocol, "the list of models has no data"));
            };
            models.extend(entries.iter().filter_map(model_info));
            after = match (&page["has_more"], page["last_id"].as_str()) {
                (Value::Bool(true), Some(last)) if after.as_deref() != Some(last) => Some(last.to_owned()),
                _ => return Ok(models),
            };
        }
        Ok(models)
    }

    /// Returns the number of input tokens of the request, as the API counts them; a response without that number is an
    /// error.
    pub async fn count_tokens(&self, request: &ModelRequest) -> Result<u64, ModelError> {
        let call = self.post("/v1/messages/count_tokens", request, Purpose::CountTokens)?;
        let counted = self.json(self.send(call).await?).await?;
        counted["input_tokens"]
            .as_u64()
            .ok_or_else(|| ModelError::new(ErrorKind::Protocol, "the count of tokens has no input_tokens"))
    }

    /// Returns the address of the page after the model `after`; of the first page for `None`.
    fn models_page(&self, after: Option<&str>) -> Url {
        let mut url = self.endpoint("/v1/models");
        url.query_pairs_mut().append_pair("limit", PAGE);
        if let Some(after) = after {
            url.query_pairs_mut().append_pair("after_id", after);
        }
        url
    }

    /// Requests an address and returns the JSON of the response; any status but 200 is an error.
    async fn get(&self, url: Url) -> Result<Value, ModelError> {
        let patience = self.config.timeouts.first_byte;
        let call =
            Call { method: Method::GET, url, accept: "application/json", betas: None, body: None, patience };
        self.json(self.send(call).await?).await
    }
}

/// Reads one entry of the list; `None` if it has no id, which skips the entry.
fn model_info(entry: &Value) -> Option<ModelInfo> {
    let text = |key: &str| entry[key].as_str().map(str::to_owned);
    Some(ModelInfo::of(text("id")?, text("display_name"), text("created_at")))
}
