//! What the engine needs of others: the host that answers callbacks, a model, HTTP, the rule language, ids,
//! and somebody who wants to see the frames. Small traits, so that this crate knows none of them.
//!
//! Each implementation keeps the deadline it is given; the engine waits only a moment longer.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use lathe_exec::{Ledger, PlaceLimit};
use lathe_protocol::HookEvent;
use lathe_protocol::web::{JsonPost, WebError, WebReply};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::HookFrame;

/// Everything an engine is built on.
#[derive(Clone)]
pub struct Services {
    /// Where command hooks run.
    pub ledger: Ledger,
    /// How many of them run at the same time, here and in every other engine that has the same limit.
    pub limit: PlaceLimit,
    /// Makes ids (UUIDs) for hooks and for callbacks of events that have no tool call.
    pub new_id: Arc<dyn Fn() -> String + Send + Sync>,
    /// Reaches the host; without it callbacks fail as if the host were gone.
    pub callbacks: Option<Arc<dyn Callbacks>>,
    /// Asks models; without it prompt hooks are reported as not supported.
    pub prompter: Option<Arc<dyn Prompter>>,
    /// Posts; without it HTTP hooks are reported as not supported.
    pub http: Option<Arc<dyn HttpPoster>>,
}

/// Sends `hook_callback` requests to the host.
pub trait Callbacks: Send + Sync {
    /// Asks the host and waits for its answer, the output of the hook. At the timeout, and when the token
    /// fires, the request is withdrawn.
    fn call<'a>(&'a self, call: CallbackCall<'a>) -> BoxFuture<'a, Result<Value, CallbackError>>;
}

/// One `hook_callback`.
#[derive(Debug, Clone, Copy)]
pub struct CallbackCall<'a> {
    /// As the host registered it.
    pub callback_id: &'a str,
    /// What has happened.
    pub event: &'a HookEvent,
    /// A [`HookInput`](lathe_protocol::HookInput), serialised.
    pub input: &'a Value,
    /// The call the event is about, or a fresh id.
    pub tool_use_id: &'a str,
    /// How long the host may take.
    pub timeout: Duration,
    /// Withdraws the question.
    pub cancel: &'a CancellationToken,
}

/// Why a callback has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallbackError {
    /// The host answered with an error.
    #[error("the host answered with an error: {0}")]
    Refused(String),
    /// The host did not answer in time.
    #[error("the host did not answer in time")]
    TimedOut,
    /// Nobody is there to answer.
    #[error("the host is gone")]
    Closed,
    /// The token fired.
    #[error("the question was withdrawn")]
    Cancelled,
}

/// Asks a model.
pub trait Prompter: Send + Sync {
    /// One question without tools; the text of the answer, which should be JSON of the given schema.
    fn ask<'a>(&'a self, question: PromptQuestion<'a>) -> BoxFuture<'a, Result<String, PromptError>>;
}

/// Who a hook wants to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptHookKind {
    /// A model that knows nothing but the question.
    Model,
    /// An agent that may look around. It has no tools here, and says so when it would need them.
    Agent,
}

/// The question of a prompt hook.
#[derive(Debug, Clone, Copy)]
pub struct PromptQuestion<'a> {
    /// What the hook's author wrote, with the event filled in.
    pub prompt: &'a str,
    /// The model the author wants; none means the session's.
    pub model: Option<&'a str>,
    /// Who was to be asked.
    pub asked: PromptHookKind,
    /// JSON Schema of the answer.
    pub schema: &'a Value,
    /// How long it may take.
    pub timeout: Duration,
    /// Breaks it off.
    pub cancel: &'a CancellationToken,
}

/// A model gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// It took too long.
    #[error("the model did not answer in time")]
    TimedOut,
    /// Anything else, in words.
    #[error("{0}")]
    Failed(String),
}

/// Posts JSON.
pub trait HttpPoster: Send + Sync {
    /// Sends one request; dropping the future breaks it off. Redirects are not followed: the address was
    /// allowed, another one was not.
    fn post<'a>(&'a self, post: JsonPost<'a>) -> BoxFuture<'a, Result<WebReply, WebError>>;
}

/// Evaluates one permission rule.
pub trait RuleMatcher: Send + Sync {
    /// Whether the rule, such as `Bash(git *)`, covers this call. `None`: it cannot be told (the rule or the
    /// command cannot be parsed); the hook then runs.
    fn matches(&self, rule: &str, tool_name: &str, tool_input: &Value) -> Option<bool>;
}

/// Gets the frames of command hooks as they come.
pub trait HookEvents: Send + Sync {
    /// Takes one frame. May wait for a slow reader; the hook then waits too.
    fn emit(&self, frame: HookFrame) -> BoxFuture<'_, ()>;
}

/// Nobody looks.
pub struct NoEvents;

impl HookEvents for NoEvents {
    fn emit(&self, _frame: HookFrame) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}
