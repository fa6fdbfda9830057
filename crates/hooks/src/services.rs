//! The services that the engine is built on: the host for callbacks, a model, HTTP, the rule language, ids, and a
//! receiver of frames. They are small traits, so that this crate depends on none of their implementations.
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

/// The services of an engine.
#[derive(Clone)]
pub struct Services {
    /// Where command hooks run.
    pub ledger: Ledger,
    /// The limit on how many of them run at the same time, shared with every other engine that has the same limit.
    pub limit: PlaceLimit,
    /// Makes ids (UUIDs) for hooks and for callbacks of events that have no tool call.
    pub new_id: Arc<dyn Fn() -> String + Send + Sync>,
    /// Reaches the host; without it callbacks fail as if the host had closed the connection.
    pub callbacks: Option<Arc<dyn Callbacks>>,
    /// Asks models; without it prompt hooks are reported as not supported.
    pub prompter: Option<Arc<dyn Prompter>>,
    /// Sends HTTP requests; without it HTTP hooks are reported as not supported.
    pub http: Option<Arc<dyn HttpPoster>>,
}

/// Sends `hook_callback` requests to the host.
pub trait Callbacks: Send + Sync {
    /// Sends the request and returns the host's reply, the output of the hook. The request is withdrawn at the timeout
    /// and when the token is cancelled.
    fn call<'a>(&'a self, call: CallbackCall<'a>) -> BoxFuture<'a, Result<Value, CallbackError>>;
}

/// One `hook_callback`.
#[derive(Debug, Clone, Copy)]
pub struct CallbackCall<'a> {
    /// The id under which the host registered it.
    pub callback_id: &'a str,
    /// The event.
    pub event: &'a HookEvent,
    /// A [`HookInput`](lathe_protocol::HookInput), serialised.
    pub input: &'a Value,
    /// The call the event is about, or a fresh id.
    pub tool_use_id: &'a str,
    /// How long the host may take.
    pub timeout: Duration,
    /// Withdraws the request.
    pub cancel: &'a CancellationToken,
}

/// Why a callback has no output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallbackError {
    /// The host replied with an error.
    #[error("the host answered with an error: {0}")]
    Refused(String),
    /// The host did not reply in time.
    #[error("the host did not answer in time")]
    TimedOut,
    /// The host has closed the connection.
    #[error("the host is gone")]
    Closed,
    /// The token was cancelled.
    #[error("the question was withdrawn")]
    Cancelled,
}

/// Asks a model.
pub trait Prompter: Send + Sync {
    /// Asks one question without tools. Returns the text of the response, which should be JSON of the given schema.
    fn ask<'a>(&'a self, question: PromptQuestion<'a>) -> BoxFuture<'a, Result<String, PromptError>>;
}

/// The kind of a hook that asks a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptHookKind {
    /// A prompt hook: a model that gets only the question.
    Model,
    /// An agent hook: a model that would have tools. It has none here, and its response says if it needs them.
    Agent,
}

/// The question of a prompt hook.
#[derive(Debug, Clone, Copy)]
pub struct PromptQuestion<'a> {
    /// The prompt of the hook, with the event filled in.
    pub prompt: &'a str,
    /// The model that the hook names; `None` means the session's.
    pub model: Option<&'a str>,
    /// The kind of hook.
    pub asked: PromptHookKind,
    /// The JSON Schema of the response.
    pub schema: &'a Value,
    /// How long it may take.
    pub timeout: Duration,
    /// Cancels the question.
    pub cancel: &'a CancellationToken,
}

/// Why the model gave no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// It took too long.
    #[error("the model did not answer in time")]
    TimedOut,
    /// Any other error, as a message.
    #[error("{0}")]
    Failed(String),
}

/// Sends HTTP POST requests with JSON.
pub trait HttpPoster: Send + Sync {
    /// Sends one request; dropping the future cancels it. Redirects are not followed, because only the original address
    /// was checked.
    fn post<'a>(&'a self, post: JsonPost<'a>) -> BoxFuture<'a, Result<WebReply, WebError>>;
}

/// Evaluates one permission rule.
pub trait RuleMatcher: Send + Sync {
    /// Returns whether the rule, such as `Bash(git *)`, covers this call. `None` means that the rule or the command
    /// cannot be parsed; the hook then runs.
    fn matches(&self, rule: &str, tool_name: &str, tool_input: &Value) -> Option<bool>;
}

/// Receives the frames of command hooks.
pub trait HookEvents: Send + Sync {
    /// Takes one frame. May wait for a slow reader, and then holds up the hook.
    fn emit(&self, frame: HookFrame) -> BoxFuture<'_, ()>;
}

/// A receiver that drops all frames.
pub struct NoEvents;

impl HookEvents for NoEvents {
    fn emit(&self, _frame: HookFrame) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}
