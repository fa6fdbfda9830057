//! The web, as the tools of an agent reach it: through the HTTP client of the session, under its rules, and with its
//! model for questions outside of the conversation. Which hosts may be reached is judged by the tools, which know when.

use futures_util::future::BoxFuture;
use lathe_models::{ErrorKind, ModelError, ModelRequest, SystemPart, WireMessage};
use lathe_protocol::web::{PageGet, PageReply, WebError};
use lathe_protocol::{ContentBlock, Role};
use lathe_tools::{SideAnswer, SideFailure, SideModel, SideQuestion, WebActions};
use serde_json::{Value, json};

use crate::model::request;
use crate::state::agent::AgentHandle;

impl WebActions for AgentHandle {
    fn uses_proxy(&self, url: &str) -> bool {
        self.session.web.uses_proxy(url)
    }

    fn get_page<'a>(&'a self, get: PageGet<'a>) -> BoxFuture<'a, Result<PageReply, WebError>> {
        Box::pin(self.session.web.get_page(get))
    }

    fn names_host(&self, host: &str) -> bool {
        self.session.permissions().names_host(host)
    }

    fn ask_side_question(&self, question: SideQuestion) -> BoxFuture<'_, Result<SideAnswer, SideFailure>> {
        Box::pin(self.answer_of_model(question))
    }
}

impl AgentHandle {
    /// Asks the model a question outside of the conversation, with the usual retries. Its cost counts for the session,
    /// whatever becomes of it. Fails without asking if the session has reached its budget.
    async fn answer_of_model(&self, question: SideQuestion) -> Result<SideAnswer, SideFailure> {
        if self.session.over_budget() {
            return Err(SideFailure::OverBudget);
        }
        let request = self.side_question(question).map_err(|error| SideFailure::Failed(error.to_string()))?;
        let response = self.session.ask_model_for_all(request, |_, _| None).await.map_err(side_failure)?;
        let web_searches = response.usage.web_search_requests();
        let blocks = response.blocks.into_iter().map(ContentBlock::into_value).collect();
        Ok(SideAnswer { blocks, web_searches })
    }

    /// Builds the request of a side question, with the model that it asks for. A server tool is offered, and the model
    /// may choose whether to use it.
    fn side_question(&self, question: SideQuestion) -> Result<ModelRequest, serde_json::Error> {
        let choice = self.choice();
        let (model, betas) = match question.model {
            // The betas were chosen for the model of the conversation.
            SideModel::SmallFast => (self.session.process.catalog.small_fast(), Vec::new()),
            SideModel::OfConversation => (choice.id.clone(), choice.betas.clone()),
        };
        let prompt = json!({"type": "text", "text": question.prompt});
        let side = request::side_request(&choice, &model, question.purpose);
        let mut request = ModelRequest {
            max_tokens: question.max_tokens.unwrap_or(side.max_tokens),
            system: vec![SystemPart { text: question.system, cached: false }],
            messages: vec![WireMessage::new(Role::User, &[prompt])?.without_breakpoint()],
            betas,
            ..side
        };
        if let Some(tool) = question.server_tool {
            request.tools = Value::Array(vec![tool]).to_string().into();
            request.extra_body.insert("tool_choice".to_owned(), json!({"type": "auto"}));
        }
        Ok(request)
    }
}

/// Returns the error of a side question as its tool gets it: `Refused` if the API will never take the request, so that
/// it must not be repeated, otherwise `Failed`.
fn side_failure(error: ModelError) -> SideFailure {
    match error.kind {
        ErrorKind::InvalidRequest | ErrorKind::ModelNotFound => SideFailure::Refused(error.message),
        ErrorKind::NoCredentials
        | ErrorKind::Authentication
        | ErrorKind::PromptTooLong
        | ErrorKind::TooLarge
        | ErrorKind::RateLimit
        | ErrorKind::Overloaded
        | ErrorKind::Server
        | ErrorKind::Connection
        | ErrorKind::StreamCut
        | ErrorKind::StreamError
        | ErrorKind::Stalled
        | ErrorKind::Protocol => SideFailure::Failed(error.message),
    }
}
