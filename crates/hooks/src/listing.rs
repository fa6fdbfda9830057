//! The hooks of a session as a list for people. It contains every registered hook, also those that settings keep from
//! running.

use std::time::Duration;

use lathe_protocol::{EnabledHooks, HookEvent};

use crate::engine::HookEngine;
use crate::registry::Kind;
use crate::source::HookSource;

/// One handler.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedHook {
    /// The event it runs for.
    pub event: HookEvent,
    /// The matcher as it was written; empty means every subject.
    pub matcher: String,
    /// `command`, `http`, `prompt`, `agent`, `callback` or `unsupported`.
    pub kind: &'static str,
    /// The command, address, prompt or callback id.
    pub what: String,
    /// `userSettings`, `projectSettings`, …, `plugin`, `skill`, `agent` or `sdk`.
    pub source: &'static str,
    /// Its `if`.
    pub condition: Option<String>,
    /// The configured timeout.
    pub timeout: Option<Duration>,
    /// Whether settings let it run.
    pub enabled: bool,
}

impl HookEngine {
    /// Returns every handler, in the order in which their results are merged, also those that settings keep from
    /// running.
    pub fn listing(&self) -> Vec<ListedHook> {
        let (registry, enabled) = self.registered();
        // Handlers have no id and may be equal, so they are compared by address.
        let runs: Vec<_> = registry.hooks(enabled).map(std::sync::Arc::as_ptr).collect();
        registry
            .hooks(EnabledHooks::All)
            .map(|hook| {
                let (kind, what) = match &hook.kind {
                    Kind::Command(command) => ("command", command.command.clone()),
                    Kind::Http(http) => ("http", http.url.clone()),
                    Kind::Prompt(prompt) => ("prompt", prompt.prompt.clone()),
                    Kind::Agent(question) => ("agent", question.prompt.clone()),
                    Kind::Callback { id, .. } => ("callback", id.clone()),
                    Kind::NotSupported { label, .. } => ("unsupported", label.clone()),
                };
                ListedHook {
                    event: hook.event.clone(),
                    matcher: hook.matcher_text.clone(),
                    kind,
                    what,
                    source: source_name(&hook.source),
                    condition: hook.condition.clone(),
                    timeout: hook.timeout,
                    enabled: runs.contains(&std::sync::Arc::as_ptr(hook)),
                }
            })
            .collect()
    }

    /// Returns whether only hooks of managed settings and of the host run.
    pub fn only_managed(&self) -> bool {
        self.registered().1 == EnabledHooks::ManagedAndHost
    }

    /// Returns whether hooks are turned off altogether.
    pub fn none_runs(&self) -> bool {
        self.registered().1 == EnabledHooks::Nothing
    }
}

/// Returns the name of the source in the list: settings by the name of their source, the others by kind.
fn source_name(source: &HookSource) -> &'static str {
    match source {
        HookSource::Settings(source) => source.as_str(),
        HookSource::Plugin(_) => "plugin",
        HookSource::Skill(_) => "skill",
        HookSource::Agent(_) => "agent",
        HookSource::Callbacks => "sdk",
    }
}
