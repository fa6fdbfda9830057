//! The registry: the compiled hooks of every source, in the order in which their results are merged.
//!
//! A registry is never changed, only replaced by a new one, so a run in progress keeps the hooks it started with.
//! Mistakes in the configuration of a hook are reported when it is registered. A hook that cannot run is also reported
//! at every event, because each time a check is missing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lathe_protocol::control::HookCallbackMatcher;
use lathe_protocol::settings::{CommandHook, HookCommon, HookHandler, HooksSettings, HttpHook, PromptHook};
use lathe_protocol::{EnabledHooks, HookEvent, HookInput, SettingsSource};

use crate::event::{facts, is_about_a_call, subject, tool_call};
use crate::matcher::Matcher;
use crate::services::RuleMatcher;
use crate::source::HookSource;

/// The `hooks` of an `initialize` request.
pub type CallbackMatchers = BTreeMap<String, Vec<HookCallbackMatcher>>;

/// A mistake in the configuration of a hook, found when it is registered.
#[derive(Debug, Clone, PartialEq)]
pub struct HookWarning {
    /// Where the hook comes from.
    pub source: HookSource,
    /// The key in `hooks` that it is listed under.
    pub event: String,
    /// What is wrong.
    pub kind: WarningKind,
}

impl fmt::Display for HookWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: hooks.{}: {}", self.source, self.event, self.kind)
    }
}

/// What is wrong with a registered hook.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WarningKind {
    /// No event has this name.
    #[error("there is no such event")]
    UnknownEvent,
    /// The matcher matches nothing.
    #[error("matcher `{matcher}` matches nothing: {why}")]
    BadMatcher {
        /// The matcher as it is written.
        matcher: String,
        /// What is wrong with it.
        why: String,
    },
    /// A handler that cannot be parsed.
    #[error("a handler is ignored: {0}")]
    UnreadableHandler(String),
    /// A handler that cannot run on this event, or not in this runtime.
    #[error("a handler never runs: {0}")]
    NeverRuns(String),
    /// A timeout that is zero, negative, not a number or out of range.
    #[error("timeout {0} makes no sense; the default is used")]
    BadTimeout(f64),
}

/// The kind of a hook, with its configuration.
#[derive(Debug)]
pub(crate) enum Kind {
    Command(CommandHook),
    Http(HttpHook),
    Prompt(PromptHook),
    /// Runs like a prompt hook: agent hooks have no tools yet.
    Agent(PromptHook),
    Callback {
        id: String,
        on_failure: OnFailure,
    },
    /// A known kind that this runtime does not support.
    NotSupported {
        label: String,
        why: &'static str,
    },
}

/// What follows if a callback fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFailure {
    Continue,
    Block,
}

/// One handler, ready to run.
#[derive(Debug)]
pub(crate) struct Registered {
    pub source: HookSource,
    pub event: HookEvent,
    pub kind: Kind,
    /// The configured timeout; `None` means the default of its kind and event.
    pub timeout: Option<Duration>,
    matcher: Matcher,
    pub matcher_text: String,
    pub condition: Option<String>,
    repeat: Repeat,
}

#[derive(Debug)]
enum Repeat {
    Always,
    /// Runs once; the flag is set when it is selected.
    Once(AtomicBool),
}

/// The longest timeout; longer ones are cut to it.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Converts a configured time in seconds, cut to [`MAX_TIMEOUT`]. `None` if it is zero, negative, not a number or too
/// large for a duration.
pub(crate) fn sensible_time(seconds: f64) -> Option<Duration> {
    let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero());
    time.map(|time| time.min(MAX_TIMEOUT))
}

/// The hooks of all sources, strongest source first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry {
    sources: Vec<(HookSource, Vec<Arc<Registered>>)>,
}

impl Registry {
    /// Returns a copy of the registry in which the source has these hooks instead of those in its slot; without hooks
    /// the source is removed. The order of sources stays that of their ranks.
    pub fn with(&self, source: HookSource, hooks: Vec<Arc<Registered>>) -> Self {
        let mut sources = self.sources.clone();
        sources.retain(|(other, _)| other.slot() != source.slot());
        if !hooks.is_empty() {
            sources.push((source, hooks));
            sources.sort_by(|(a, _), (b, _)| a.slot().cmp(&b.slot()));
        }
        Self { sources }
    }

    /// Returns the hooks that may run, the strongest source first. Every selection must go through it, because it
    /// enforces `enabled`.
    pub fn hooks(&self, enabled: EnabledHooks) -> impl Iterator<Item = &Arc<Registered>> {
        let sources = self.sources.iter().filter(move |(source, _)| match enabled {
            EnabledHooks::All => true,
            EnabledHooks::ManagedAndHost => {
                matches!(source, HookSource::Settings(SettingsSource::Policy) | HookSource::Callbacks)
            }
            EnabledHooks::Nothing => false,
        });
        sources.flat_map(|(_, hooks)| hooks)
    }

    /// Returns whether any hook that may run is registered for the event, without looking at matchers: a cheap test
    /// before the input is built.
    pub fn listens(&self, event: &HookEvent, enabled: EnabledHooks) -> bool {
        self.hooks(enabled).any(|hook| hook.event == *event)
    }

    /// Returns the hooks that run for this input: right event, matcher and `if`, without duplicates. A `once` hook
    /// is used up by this, so the returned hooks must be run.
    pub fn select(
        &self,
        input: &HookInput,
        enabled: EnabledHooks,
        rules: &dyn RuleMatcher,
    ) -> Vec<Arc<Registered>> {
        let event = input.event_name();
        let mut selected: Vec<Arc<Registered>> = Vec::new();
        for hook in self.hooks(enabled).filter(|hook| hook.event == event) {
            // `may_run_again` comes last, because it marks a `once` hook as having run.
            let wanted = hook.matches(input)
                && hook.condition_holds(input, rules)
                && !selected.iter().any(|other| other.is_same_work(hook))
                && hook.may_run_again();
            if wanted {
                selected.push(Arc::clone(hook));
            }
        }
        selected
    }

    /// Returns the largest timeout that is configured for an event; `None` if no hook of it configures one.
    pub fn longest_timeout(&self, event: &HookEvent, enabled: EnabledHooks) -> Option<Duration> {
        self.hooks(enabled).filter(|hook| hook.event == *event).filter_map(|hook| hook.timeout).max()
    }

    /// Returns the file names in the matchers of FileChanged hooks, sorted, each once. `*` is left out, because it
    /// names no file; the text of a regular expression is split at `|` like a list of names.
    pub fn watched_names(&self, enabled: EnabledHooks) -> Vec<String> {
        let hooks = self.hooks(enabled).filter(|hook| hook.event == HookEvent::FileChanged);
        let names = hooks.flat_map(|hook| hook.matcher_text.split('|')).map(str::trim);
        let mut names: Vec<String> =
            names.filter(|name| !name.is_empty() && *name != "*").map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Registered {
    /// Returns whether the hook is meant for this input, by its source and its matcher. If the event has no subject,
    /// every matcher accepts it. Hooks of an agent accept only events inside it, and callbacks of the host no
    /// SessionStart at the start of the process.
    fn matches(&self, input: &HookInput) -> bool {
        if let HookSource::Agent(id) = &self.source
            && input.base.agent_id.as_deref() != Some(id)
        {
            return false;
        }
        // A session starts before its host can register callbacks, and clients expect no callback for that start.
        if self.source == HookSource::Callbacks
            && self.event == HookEvent::SessionStart
            && matches!(subject(input), Some("startup" | "resume" | "fork"))
        {
            return false;
        }
        subject(input).is_none_or(|subject| self.matcher.matches(subject))
    }

    /// Returns whether the `if` of the hook holds; a hook without one always runs. A rule that cannot be evaluated
    /// counts as true, because it must not turn off a guard, and a rule on an event without a call as false.
    fn condition_holds(&self, input: &HookInput, rules: &dyn RuleMatcher) -> bool {
        match (&self.condition, tool_call(input)) {
            (None, _) => true,
            // A condition that cannot be evaluated must not turn off a guard.
            (Some(rule), Some(call)) => rules.matches(rule, call.name, call.input).unwrap_or(true),
            (Some(_), None) => false,
        }
    }

    /// Returns whether the hook may run, and marks a `once` hook as used. Must be called only if the hook then runs.
    fn may_run_again(&self) -> bool {
        match &self.repeat {
            Repeat::Always => true,
            // Relaxed is enough: no other data depends on the flag.
            Repeat::Once(done) => !done.swap(true, Ordering::Relaxed),
        }
    }

    /// Returns whether running both hooks would do the same work twice: same kind, condition, plugin folder and
    /// content. Callbacks never count as the same.
    fn is_same_work(&self, other: &Self) -> bool {
        // The same command in two plugins refers to the files of each plugin.
        let root = |hook: &Self| hook.source.plugin().map(|plugin| plugin.root.clone());
        if self.condition != other.condition || root(self) != root(other) {
            return false;
        }
        match (&self.kind, &other.kind) {
            (Kind::Command(a), Kind::Command(b)) => {
                a.command == b.command && a.args == b.args && a.shell == b.shell
            }
            (Kind::Http(a), Kind::Http(b)) => a.url == b.url && a.headers == b.headers,
            (Kind::Prompt(a), Kind::Prompt(b)) | (Kind::Agent(a), Kind::Agent(b)) => {
                a.prompt == b.prompt && a.model == b.model
            }
            (Kind::NotSupported { label: a, .. }, Kind::NotSupported { label: b, .. }) => a == b,
            // Callbacks are never duplicates: the host expects each one that it registered to be called.
            (
                Kind::Command(_)
                | Kind::Http(_)
                | Kind::Prompt(_)
                | Kind::Agent(_)
                | Kind::Callback { .. }
                | Kind::NotSupported { .. },
                _,
            ) => false,
        }
    }
}

/// Returns the mistakes in the hooks of a settings file, without registering them.
pub fn check(source: &HookSource, settings: &HooksSettings) -> Vec<HookWarning> {
    compile(source, settings).1
}

/// Compiles the hooks of a source into entries of the registry. Returns them with warnings; a hook that cannot run is
/// left out or reports a problem when it is due. The hooks of an unknown event are skipped.
pub(crate) fn compile(
    source: &HookSource,
    settings: &HooksSettings,
) -> (Vec<Arc<Registered>>, Vec<HookWarning>) {
    let mut compiler = Compiler::new(source);
    for (name, groups) in settings {
        let Some(event) = compiler.event(name) else { continue };
        for group in groups {
            let text = group.matcher.clone().flatten();
            for handler in &group.hooks {
                compiler.handler(&event, text.as_deref(), handler);
            }
        }
    }
    compiler.finish()
}

/// Compiles the host's callbacks into entries of the registry, and returns them with warnings. Callbacks of an unknown
/// event are skipped with a warning; an `onFailure` other than `block` means that the event goes on.
pub(crate) fn compile_callbacks(matchers: &CallbackMatchers) -> (Vec<Arc<Registered>>, Vec<HookWarning>) {
    let mut compiler = Compiler::new(&HookSource::Callbacks);
    for (name, groups) in matchers {
        let Some(event) = compiler.event(name) else { continue };
        for group in groups {
            let text = group.matcher.clone().flatten();
            let on_failure = match group.on_failure.as_deref() {
                Some("block") => OnFailure::Block,
                Some(_) | None => OnFailure::Continue,
            };
            let common = HookCommon { timeout: group.timeout, ..HookCommon::default() };
            for id in &group.hook_callback_ids {
                let kind = Kind::Callback { id: id.clone(), on_failure };
                compiler.add(&event, text.as_deref(), kind, &common);
            }
        }
    }
    compiler.finish()
}

struct Compiler<'a> {
    source: &'a HookSource,
    hooks: Vec<Arc<Registered>>,
    warnings: Vec<HookWarning>,
}

impl<'a> Compiler<'a> {
    /// Begins with the hooks of one source; nothing is compiled yet.
    fn new(source: &'a HookSource) -> Self {
        Self { source, hooks: Vec::new(), warnings: Vec::new() }
    }

    /// Returns the compiled hooks and the warnings about them.
    fn finish(self) -> (Vec<Arc<Registered>>, Vec<HookWarning>) {
        (self.hooks, self.warnings)
    }

    /// Adds a warning, unless the same one is there already: several handlers may share one matcher.
    fn warn(&mut self, event: &str, kind: WarningKind) {
        // Several handlers share one matcher, which would be reported for each of them.
        let warning = HookWarning { source: self.source.clone(), event: event.to_owned(), kind };
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Returns the event with this name; `None`, with a warning, if there is none, and then its hooks are skipped. In
    /// the hooks of an agent, `Stop` becomes `SubagentStop`.
    fn event(&mut self, name: &str) -> Option<HookEvent> {
        match (HookEvent::from(name), self.source) {
            (HookEvent::Unknown(_), _) => {
                self.warn(name, WarningKind::UnknownEvent);
                None
            }
            // In the definition of an agent, `Stop` means the end of that agent.
            (HookEvent::Stop, HookSource::Agent(_)) => Some(HookEvent::SubagentStop),
            (event, _) => Some(event),
        }
    }

    /// Registers one handler of a settings file. One that the event does not allow, or that cannot be parsed, is left
    /// out with a warning; one that is not supported is registered, and reports a problem whenever it is due.
    fn handler(&mut self, event: &HookEvent, matcher: Option<&str>, handler: &HookHandler) {
        let facts = facts(event);
        let never = |compiler: &mut Self, what: &str| {
            let why = format!("{what} hooks are not possible on this event");
            compiler.warn(event.as_str(), WarningKind::NeverRuns(why));
        };
        match handler {
            HookHandler::Command(hook) => {
                let kind = match hook.shell.as_deref() {
                    None | Some("bash" | "powershell") => Kind::Command(hook.clone()),
                    Some(_) => Kind::NotSupported {
                        label: hook.command.clone(),
                        why: "its shell is neither bash nor powershell",
                    },
                };
                self.add(event, matcher, kind, &hook.common);
            }
            HookHandler::Http(_) if facts.commands_only => never(self, "http"),
            HookHandler::Http(hook) => self.add(event, matcher, Kind::Http(hook.clone()), &hook.common),
            HookHandler::Prompt(_) if !facts.judged_by_models => never(self, "prompt"),
            HookHandler::Prompt(hook) => self.add(event, matcher, Kind::Prompt(hook.clone()), &hook.common),
            HookHandler::Agent(_) if !facts.judged_by_models => never(self, "agent"),
            HookHandler::Agent(hook) => {
                let (prompt, model) = (hook.prompt.clone(), hook.model.clone());
                let question = PromptHook { prompt, model, ..PromptHook::default() };
                self.add(event, matcher, Kind::Agent(question), &hook.common);
            }
            HookHandler::McpTool(hook) => {
                let why = "mcp_tool hooks are not supported yet";
                let label = format!("{} {}", hook.server, hook.tool);
                self.add(event, matcher, Kind::NotSupported { label, why }, &hook.common);
            }
            HookHandler::Unknown(value) => {
                let what = if HookHandler::TAGS.contains(&handler.tag()) {
                    format!("a field of `{value}` is missing or has the wrong type")
                } else {
                    format!("the type of `{value}` is none of {}", HookHandler::TAGS.join(", "))
                };
                self.warn(event.as_str(), WarningKind::UnreadableHandler(what));
            }
        }
    }

    /// Registers a hook and records what is wrong with it. A hook with a wrong matcher is registered too, so that the
    /// listing shows it; a timeout that makes no sense is replaced by the default, and `once` counts in skills only.
    fn add(&mut self, event: &HookEvent, matcher_text: Option<&str>, kind: Kind, common: &HookCommon) {
        let (matcher, wrong) = Matcher::parse(matcher_text, event);
        // A hook whose matcher is wrong is registered too, so that the listing shows it.
        if let Some(why) = wrong {
            let matcher = matcher_text.unwrap_or("").to_owned();
            self.warn(event.as_str(), WarningKind::BadMatcher { matcher, why });
        }
        if let Kind::NotSupported { why, .. } = &kind {
            self.warn(event.as_str(), WarningKind::NeverRuns((*why).to_owned()));
        }
        if let Some(rule) = &common.if_
            && !is_about_a_call(event)
        {
            let why = format!("`if: {rule}` is about a tool call, and this event is not");
            self.warn(event.as_str(), WarningKind::NeverRuns(why));
        }
        let timeout = common.timeout.and_then(|seconds| {
            let duration = sensible_time(seconds);
            if duration.is_none() {
                self.warn(event.as_str(), WarningKind::BadTimeout(seconds));
            }
            duration
        });
        // `once` has an effect in skills only.
        let repeat = match (self.source, common.once) {
            (HookSource::Skill(_), Some(true)) => Repeat::Once(AtomicBool::new(false)),
            (_, Some(_) | None) => Repeat::Always,
        };
        self.hooks.push(Arc::new(Registered {
            source: self.source.clone(),
            event: event.clone(),
            kind,
            timeout,
            matcher,
            matcher_text: matcher_text.unwrap_or("").to_owned(),
            condition: common.if_.clone(),
            repeat,
        }));
    }
}
