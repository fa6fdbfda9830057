//! The engine: holds the hooks of a session and runs those that an event concerns.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use lathe_protocol::settings::HooksSettings;
use lathe_protocol::{EnabledHooks, HookEvent, HookInput};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::background::Background;
use crate::event::{facts_for, hook_name, tool_call};
use crate::handler::{Firing, Said};
use crate::merge;
use crate::registry::{CallbackMatchers, HookWarning, Registry, compile, compile_callbacks};
use crate::text::Cutter;
use crate::{AsyncResult, HookEvents, HookSource, HookVariables, Outcome, RuleMatcher, Services};

/// How many hooks of one event run at the same time; the others wait for their turn.
pub const MAX_PARALLEL: usize = 32;

/// How many hooks may run in the background, counting those whose results have not been taken yet.
pub const MAX_ASYNC: usize = 64;

/// What all SessionEnd hooks together may take, unless settings allow more.
const SESSION_END_BUDGET: Duration = Duration::from_millis(1500);

/// The most that the timeouts of SessionEnd hooks can make of it. `EngineOptions::session_end_budget` is not limited.
const MAX_SESSION_END_BUDGET: Duration = Duration::from_secs(60);

/// What settings say about hooks as a whole.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Which hooks run at all.
    pub enabled: EnabledHooks,
    /// `allowedHttpHookUrls`; none means every address.
    pub allowed_http_urls: Option<Vec<String>>,
    /// `httpHookAllowedEnvVars`; none leaves it to each hook.
    pub http_env_vars: Option<Vec<String>>,
    /// `CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS`: what all SessionEnd hooks together may take.
    pub session_end_budget: Option<Duration>,
    /// How often a command that prints is reported.
    pub progress_every: Duration,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            enabled: EnabledHooks::All,
            allowed_http_urls: None,
            http_env_vars: None,
            session_end_budget: None,
            progress_every: Duration::from_secs(1),
        }
    }
}

/// The world an event happens in.
#[derive(Clone)]
pub struct RunContext<'a> {
    /// Where command hooks run: the session's current directory.
    pub cwd: &'a Path,
    /// `CLAUDE_PROJECT_DIR`.
    pub project_dir: &'a Path,
    /// The environment of the session. The caller puts in what only it knows: `AI_AGENT`, `CLAUDE_PID`,
    /// `CLAUDE_CODE_ENTRYPOINT`, `CLAUDE_CODE_SESSION_ATTENDED`.
    pub env: &'a HookVariables,
    /// `CLAUDE_ENV_FILE`, for the events that may write to it.
    pub env_file: Option<&'a Path>,
    /// Where texts go that are too long.
    pub spill_dir: Option<&'a Path>,
    /// The call, for events whose input does not name it (PermissionRequest).
    pub tool_use_id: Option<&'a str>,
    /// Cancels everything: commands are killed, callbacks withdrawn.
    pub cancel: &'a CancellationToken,
    /// Who gets the frames of command hooks.
    pub events: Arc<dyn HookEvents>,
    /// Evaluates the `if` of handlers for the call that the event is about, which its maker has described.
    pub rules: &'a dyn RuleMatcher,
}

/// The hooks of one session.
pub struct HookEngine {
    services: Services,
    state: RwLock<State>,
    background: Arc<Background>,
}

#[derive(Clone, Default)]
struct State {
    registry: Arc<Registry>,
    options: Arc<EngineOptions>,
}

impl HookEngine {
    /// Creates an engine without hooks.
    pub fn new(services: Services, options: EngineOptions) -> Self {
        let state = State { registry: Arc::default(), options: Arc::new(options) };
        Self { services, state: RwLock::new(state), background: Arc::default() }
    }

    /// Returns a snapshot of hooks and options. A run of an event uses one snapshot throughout, and no lock is held
    /// while hooks run.
    fn state(&self) -> State {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the registered hooks, and which kinds of them may run.
    pub(crate) fn registered(&self) -> (Arc<Registry>, EnabledHooks) {
        let state = self.state();
        (state.registry, state.options.enabled)
    }

    /// Changes hooks or options under the write lock. Runs that have begun keep their snapshot.
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Replaces the options. Runs that have begun keep the old ones.
    pub fn set_options(&self, options: EngineOptions) {
        self.change(|state| state.options = Arc::new(options));
    }

    /// Replaces the hooks of one source; empty settings remove them. A `once` hook of a skill that has run already can
    /// run again after this. Returns warnings about hooks that cannot run as written.
    #[must_use = "what is wrong with the hooks must be shown"]
    pub fn register(&self, source: HookSource, hooks: &HooksSettings) -> Vec<HookWarning> {
        // Compiled before the lock is taken, so that events do not wait for it.
        let (hooks, warnings) = compile(&source, hooks);
        self.change(|state| state.registry = Arc::new(state.registry.with(source, hooks)));
        warnings
    }

    /// Replaces the hooks of the host; an empty map removes them. Returns warnings about those that cannot run as
    /// written.
    #[must_use = "what is wrong with the hooks must be shown"]
    pub fn register_callbacks(&self, matchers: &CallbackMatchers) -> Vec<HookWarning> {
        let (hooks, warnings) = compile_callbacks(matchers);
        let source = HookSource::Callbacks;
        self.change(|state| state.registry = Arc::new(state.registry.with(source, hooks)));
        warnings
    }

    /// Returns whether any hook that may run is registered for an event. If not, its input need not be built.
    pub fn listens(&self, event: &HookEvent) -> bool {
        let state = self.state();
        state.registry.listens(event, state.options.enabled)
    }

    /// Returns the names of the files that FileChanged hooks watch, sorted, each once.
    pub fn watched_names(&self) -> Vec<String> {
        let state = self.state();
        state.registry.watched_names(state.options.enabled)
    }

    /// Runs every hook that matches the event and returns their merged outcome, which is empty if none matches. Hooks
    /// run in parallel, but are merged in the order of their sources. Dropping the future kills the processes it
    /// started, except for hooks that moved to the background.
    pub async fn run(&self, input: &HookInput, context: RunContext<'_>) -> Outcome {
        // A snapshot: hooks that are registered while these run count from the next event on, and no lock is held
        // meanwhile.
        let State { registry, options } = self.state();
        let selected = registry.select(input, options.enabled, context.rules);
        if selected.is_empty() {
            return Outcome::default();
        }
        let value = serde_json::to_value(input).expect("a hook input is plain data");
        let by_input = tool_call(input).and_then(|call| call.id);
        let firing = Firing {
            input,
            json: value.to_string(),
            value,
            facts: facts_for(input),
            hook_name: hook_name(input),
            tool_use_id: by_input.or(context.tool_use_id).map(str::to_owned),
            deadline: deadline(input, &registry, &options),
            context: &context,
            services: &self.services,
            options: &options,
            background: &self.background,
        };
        // Not `buffer_unordered`: results are merged in the order of registration, whichever hook ends first.
        let asked = stream::iter(selected).map(|hook| firing.ask(hook)).buffered(MAX_PARALLEL);
        let said: Vec<Said> = asked.collect().await;
        let mut outcome = Outcome::default();
        for Said { speaker, answer, hook_id } in said {
            let mut texts = Cutter::new(context.spill_dir, &hook_id);
            merge::add(&mut outcome, &speaker, &firing.facts, answer, &mut texts);
        }
        outcome
    }

    /// Takes the results of background hooks since the last call, without waiting; none if no hook has ended. Frees the
    /// slots of these hooks.
    pub fn take_async_results(&self) -> Vec<AsyncResult> {
        self.background.take()
    }

    /// Waits until a background hook has ended, then takes all results and frees their slots. Nothing is lost when the
    /// future is dropped.
    pub async fn next_async_results(&self) -> Vec<AsyncResult> {
        self.background.next().await
    }

    /// Returns the number of hooks that still run in the background.
    pub fn async_running(&self) -> usize {
        self.background.running()
    }

    /// Ends the background hooks and waits until their processes are killed. Dropping the engine ends them too, but
    /// does not wait.
    pub async fn shut_down(&self) {
        self.background.shut_down().await;
    }
}

impl Drop for HookEngine {
    fn drop(&mut self) {
        // For a session whose future was dropped: `shut_down` has not run, and nothing can be awaited here.
        self.background.cancel();
    }
}

/// Returns when all hooks of a SessionEnd must be done; `None` for every other event, whose hooks have only their own
/// timeouts. The host waits for the exit, so the time is bounded: by the option if it is set, else by the longest
/// timeout that a hook configures, within [`SESSION_END_BUDGET`] and [`MAX_SESSION_END_BUDGET`].
fn deadline(input: &HookInput, registry: &Registry, options: &EngineOptions) -> Option<Instant> {
    let event = input.event_name();
    if event != HookEvent::SessionEnd {
        return None;
    }
    let budget = options.session_end_budget.unwrap_or_else(|| {
        let longest = registry.longest_timeout(&event, options.enabled).unwrap_or_default();
        // The host waits for the end of the session, so even a hook with a long timeout gets no more.
        longest.min(MAX_SESSION_END_BUDGET).max(SESSION_END_BUDGET)
    });
    Some(Instant::now() + budget)
}
