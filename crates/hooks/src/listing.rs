//! The hooks of a session as a list, for those who want to see what is set up. Says what is registered,
//! also where settings keep it from running.

use std::time::Duration;

use lathe_protocol::{EnabledHooks, HookEvent};

use crate::engine::HookEngine;
use crate::registry::Kind;
use crate::source::HookSource;

/// One handler.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedHook {
    /// What it waits for.
    pub event: HookEvent,
    /// As it was written; empty means every subject.
    pub matcher: String,
    /// `command`, `http`, `prompt`, `callback` or `unsupported`.
    pub kind: &'static str,
    /// The command, address, prompt or callback id.
    pub what: String,
    /// `userSettings`, `projectSettings`, …, `plugin`, `skill`, `agent` or `sdk`.
    pub source: &'static str,
    /// Its `if`.
    pub condition: Option<String>,
    /// As configured.
    pub timeout: Option<Duration>,
    /// Whether it runs; settings may say that only some do.
    pub enabled: bool,
}

impl HookEngine {
    /// Every handler, those that speak first in front.
    pub fn listing(&self) -> Vec<ListedHook> {
        let (registry, enabled) = self.registered();
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

    /// Whether only hooks of managed settings and of the host run.
    pub fn only_managed(&self) -> bool {
        self.registered().1 == EnabledHooks::ManagedAndHost
    }

    /// Whether no hook runs at all.
    pub fn none_runs(&self) -> bool {
        self.registered().1 == EnabledHooks::Nothing
    }
}

fn source_name(source: &HookSource) -> &'static str {
    match source {
        HookSource::Settings(source) => source.as_str(),
        HookSource::Plugin(_) => "plugin",
        HookSource::Skill(_) => "skill",
        HookSource::Agent(_) => "agent",
        HookSource::Callbacks => "sdk",
    }
}
