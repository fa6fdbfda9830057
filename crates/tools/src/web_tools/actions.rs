//! What the web tools need of the session that calls them: its HTTP client, its rules about hosts, and its model.

use futures_util::future::BoxFuture;
use lathe_protocol::web::{PageGet, PageReply, WebError};
use serde_json::Value;

use crate::DetachedSession;

/// The web, as tools of a session reach it.
pub trait WebActions: Send + Sync {
    /// Returns whether a page with this address is requested through a proxy, which then looks up the host.
    fn uses_proxy(&self, url: &str) -> bool;

    /// Gets a page with the proxies and certificates of the session. No redirect is followed, and no time limit
    /// applies.
    fn get_page<'a>(&'a self, get: PageGet<'a>) -> BoxFuture<'a, Result<PageReply, WebError>>;

    /// Returns whether a rule names this host in full, so that it may be reached although it is internal. Only rules of
    /// the user, of an administrator and of `--settings` count.
    fn names_host(&self, host: &str) -> bool;

    /// Asks the model something outside of the conversation, which stays unchanged. The session pays for it and counts
    /// the cost.
    fn ask_side_question(&self, question: SideQuestion) -> BoxFuture<'_, Result<SideAnswer, SideFailure>>;
}

/// A question to the model outside of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct SideQuestion {
    /// What it is for, in one word that scripts choose responses by.
    pub purpose: &'static str,
    /// Which model is asked.
    pub model: SideModel,
    /// The system prompt.
    pub system: String,
    /// The only message.
    pub prompt: String,
    /// A tool that the API itself runs.
    pub server_tool: Option<Value>,
    /// The most tokens of the answer; none means the most that the model gives.
    pub max_tokens: Option<u32>,
}

/// The model that a side question goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SideModel {
    /// The cheap model for side work.
    SmallFast,
    /// The model of the conversation.
    OfConversation,
}

/// The answer to a side question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SideAnswer {
    /// The content blocks of the response, as the API wrote them.
    pub blocks: Vec<Value>,
    /// Web searches that the API counted.
    pub web_searches: u64,
}

/// Why a response is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SideFailure {
    /// The spending limit of the session is reached: nothing was asked.
    OverBudget,
    /// The API does not take such a request.
    Refused(String),
    /// The request failed.
    Failed(String),
}

/// The web of a tool that is called alone, as in tests: there is none.
impl WebActions for DetachedSession {
    fn uses_proxy(&self, _: &str) -> bool {
        false
    }

    fn get_page<'a>(&'a self, _: PageGet<'a>) -> BoxFuture<'a, Result<PageReply, WebError>> {
        Box::pin(std::future::ready(Err(WebError::Unusable("there is no session".to_owned()))))
    }

    fn names_host(&self, _: &str) -> bool {
        false
    }

    fn ask_side_question(&self, _: SideQuestion) -> BoxFuture<'_, Result<SideAnswer, SideFailure>> {
        Box::pin(std::future::ready(Err(SideFailure::Failed("there is no session".to_owned()))))
    }
}
