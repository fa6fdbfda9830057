//! One event while its hooks run: the data they share, and how each kind of hook is run.

use std::sync::Arc;
use std::time::Duration;

use lathe_exec::{NoPlace, Place};
use lathe_protocol::HookInput;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::answer::Answer;
use crate::background::Background;
use crate::event::{Facts, callback_name};
use crate::merge::Speaker;
use crate::registry::{Kind, Registered};
use crate::{
    EngineOptions, ProblemKind, PromptHookKind, RunContext, Services, callback, command, http, prompt,
};

/// An event whose hooks are running.
pub(crate) struct Firing<'a> {
    pub input: &'a HookInput,
    /// The input as JSON, for callbacks.
    pub value: Value,
    /// The same as text, for the other kinds.
    pub json: String,
    pub facts: Facts,
    pub hook_name: String,
    /// The call the event is about.
    pub tool_use_id: Option<String>,
    /// The common deadline of all hooks, for events whose hooks share one budget of time.
    pub deadline: Option<Instant>,
    pub context: &'a RunContext<'a>,
    pub services: &'a Services,
    pub options: &'a EngineOptions,
    pub background: &'a Arc<Background>,
}

/// The result of a hook, which hook it was, and the id it ran under.
pub(crate) struct Said {
    pub speaker: Speaker,
    pub answer: Answer,
    pub hook_id: String,
}

/// The default timeout of a prompt hook.
const PROMPT_TIMEOUT: Duration = Duration::from_secs(30);

/// The default timeout of an agent hook.
const AGENT_TIMEOUT: Duration = Duration::from_secs(60);

/// The default timeout of a callback, for every event.
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(600);

impl Firing<'_> {
    /// Runs one hook to its end and returns its result. Never fails: a hook that could not run has a result that
    /// says so.
    pub async fn ask(&self, hook: Arc<Registered>) -> Said {
        let hook_id = (self.services.new_id)();
        let speaker = self.speaker(&hook);
        // If the event has more hooks than run in parallel, it may be cancelled before the turn of this one comes.
        if self.context.cancel.is_cancelled() {
            return Said { speaker, answer: Answer::cancelled(), hook_id };
        }
        let answer = match &hook.kind {
            Kind::Command(command) => {
                let timeout = self.time_for(&hook, self.facts.default_timeout);
                command::run(command, &speaker, &hook_id, timeout, self).await
            }
            Kind::Http(http) => {
                let timeout = self.time_for(&hook, self.facts.default_timeout);
                http::run(http, &speaker, timeout, self).await
            }
            Kind::Prompt(prompt) => {
                let timeout = self.time_for(&hook, PROMPT_TIMEOUT);
                prompt::run(prompt, PromptHookKind::Model, &speaker.event, timeout, self).await
            }
            Kind::Agent(question) => {
                let timeout = self.time_for(&hook, AGENT_TIMEOUT);
                prompt::run(question, PromptHookKind::Agent, &speaker.event, timeout, self).await
            }
            Kind::Callback { id, on_failure } => {
                let timeout = self.time_for(&hook, CALLBACK_TIMEOUT);
                callback::run(id, *on_failure, &speaker.event, timeout, self).await
            }
            Kind::NotSupported { why, .. } => {
                Answer::failed(ProblemKind::NotSupported((*why).to_owned()), &self.facts)
            }
        };
        Said { speaker, answer, hook_id }
    }

    /// Waits for a place for a process, at most for the longer of `timeout` and the default of the event, and not
    /// beyond the deadline of the event. A short timeout of the waiting hook does not shorten the wait, because it is
    /// meant for the hook's own work.
    pub async fn place(&self, timeout: Duration) -> Result<Place, NoPlace> {
        let wait = timeout.max(self.facts.default_timeout);
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let wait = left.map_or(wait, |left| wait.min(left));
        self.services.limit.place(wait, self.context.cancel).await
    }

    /// Returns how the hook is named in results and problems. Callbacks of the host are named by [`callback_name`].
    fn speaker(&self, hook: &Registered) -> Speaker {
        let (label, hook_name) = match &hook.kind {
            Kind::Command(command) => (command::label(command), self.hook_name.clone()),
            Kind::Http(http) => (http.url.clone(), self.hook_name.clone()),
            Kind::Prompt(prompt) | Kind::Agent(prompt) => (prompt.prompt.clone(), self.hook_name.clone()),
            Kind::Callback { .. } => ("callback".to_owned(), callback_name(self.input)),
            Kind::NotSupported { label, .. } => (label.clone(), self.hook_name.clone()),
        };
        Speaker {
            event: hook.event.clone(),
            hook_name,
            label,
            source: hook.source.clone(),
            tool_use_id: self.tool_use_id.clone(),
        }
    }

    /// Returns the timeout of the hook, cut to what is left until the deadline of the event. Zero if the deadline has
    /// passed.
    fn time_for(&self, hook: &Registered, default: Duration) -> Duration {
        let wanted = hook.timeout.unwrap_or(default);
        match self.deadline {
            Some(deadline) => wanted.min(deadline.saturating_duration_since(Instant::now())),
            None => wanted,
        }
    }
}

/// How long a service may exceed its deadline, or run on after a cancellation, before its future is dropped.
const PATIENCE: Duration = Duration::from_secs(1);

/// Waits for a service that keeps its own deadline and token. A service that ignores them is dropped [`PATIENCE`]
/// later, and the result is `None`.
pub(crate) async fn with_deadline<T>(
    timeout: Duration,
    cancel: &CancellationToken,
    future: impl Future<Output = T>,
) -> Option<T> {
    let withdrawn = async {
        cancel.cancelled().await;
        tokio::time::sleep(PATIENCE).await;
    };
    // In this order, so that a value which is ready counts even if the time is over.
    tokio::select! {
        biased;
        value = future => Some(value),
        () = withdrawn => None,
        () = tokio::time::sleep(timeout + PATIENCE) => None,
    }
}
