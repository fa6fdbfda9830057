//! The settings of a run while it runs: what a host may look at and change, and what files say after somebody
//! has edited them. What a change means for the session is decided there.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lathe_agent::{BypassMode, DirectoryChanges, Reloaded, SettingsAccess};
use lathe_agent::{CompactPolicy, Switch};
use lathe_hooks::{EngineOptions, HookSource};
use lathe_protocol::settings::{HooksSettings, Settings};
use lathe_protocol::{PermissionUpdate, SettingsSource};
use lathe_settings::{Changed, SettingsStack};
use serde_json::{Value, json};

use crate::children::Children;
use crate::env::LaunchEnvironment;
use crate::ground::existing_dirs;
use crate::options::Autocompact;
use crate::settings::RunSettings;

/// The settings of a running session.
pub struct LiveSettings {
    pub settings: RunSettings,
    pub children: Children,
    pub cwd: PathBuf,
    /// Directories of flags, which no settings file takes away.
    pub flag_dirs: Vec<PathBuf>,
    /// Directories that settings added.
    pub dirs: Mutex<Vec<PathBuf>>,
    /// `CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS`.
    pub session_end_budget: Option<Duration>,
    /// `--autocompact`.
    pub autocompact: Option<Autocompact>,
}

impl LiveSettings {
    /// What the stack says now.
    fn state(&self, stack: &SettingsStack, problems: Vec<String>) -> Reloaded {
        let dirs: Vec<PathBuf> = stack.permission_dirs().into_iter().map(|dir| dir.path).collect();
        let now = existing_dirs(&dirs, &self.cwd);
        let before =
            std::mem::replace(&mut *self.dirs.lock().unwrap_or_else(PoisonError::into_inner), now.clone());
        let stays = |dir: &PathBuf| now.contains(dir) || self.flag_dirs.contains(dir);
        Reloaded {
            problems,
            rules: stack.permission_rules().collect(),
            directories: DirectoryChanges {
                removed: before.iter().filter(|dir| !stays(dir)).cloned().collect(),
                added: now.iter().filter(|dir| !before.contains(dir)).cloned().collect(),
            },
            hooks: hooks_of(stack),
            hook_options: hook_options(stack, self.session_end_budget),
            env: self.children.env(&stack.env()),
            compaction: compaction(
                self.autocompact,
                &self.children.process_with(&stack.env()),
                &stack.effective(),
            ),
            bypass: if stack.bypass_is_disabled() { BypassMode::Forbidden } else { BypassMode::AsStarted },
        }
    }
}

/// The hooks of settings files, as the engine takes them.
pub fn hooks_of(stack: &SettingsStack) -> Vec<(HookSource, HooksSettings)> {
    stack.hooks().into_iter().map(|sourced| (HookSource::Settings(sourced.source), sourced.hooks)).collect()
}

/// What settings say about hooks as a whole.
pub fn hook_options(stack: &SettingsStack, session_end_budget: Option<Duration>) -> EngineOptions {
    let wanted = stack.effective();
    EngineOptions {
        enabled: stack.enabled_hooks(),
        allowed_http_urls: wanted.allowed_http_hook_urls,
        http_env_vars: wanted.http_hook_allowed_env_vars,
        session_end_budget,
        ..EngineOptions::default()
    }
}

/// When the conversation is compacted: by the command line, the environment, then the settings.
pub fn compaction(flag: Option<Autocompact>, env: &LaunchEnvironment, wanted: &Settings) -> CompactPolicy {
    let window = env.number("CLAUDE_CODE_AUTO_COMPACT_WINDOW").or(wanted.auto_compact_window);
    let percent = env.number("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE").filter(|percent| (1..=100).contains(percent));
    let off = env.is_on("DISABLE_AUTO_COMPACT") || wanted.auto_compact_enabled == Some(false);
    CompactPolicy {
        automatic: Switch::off_if(off && flag.is_none()),
        manual: Switch::off_if(env.is_on("DISABLE_COMPACT")),
        window: match flag {
            Some(Autocompact::Auto) => None,
            Some(Autocompact::Window(tokens)) => Some(tokens),
            None => window,
        },
        percent: percent.map(|percent| percent as u8),
    }
}

/// What all SessionEnd hooks together may take, if somebody says so.
pub fn session_end_budget(env: &LaunchEnvironment) -> Option<Duration> {
    env.number("CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS").map(Duration::from_millis)
}

impl SettingsAccess for LiveSettings {
    fn listing(&self) -> Value {
        let stack = self.settings.stack();
        json!({"effective": stack.effective_json(), "sources": stack.sources_json()})
    }

    fn apply_flag(&self, settings: &Value) -> Result<Value, String> {
        let mut stack = self.settings.stack();
        stack.apply_flag(settings.clone()).map_err(|error| error.to_string())?;
        Ok(stack.effective_json())
    }

    fn update(&self, source: &str, settings: &Value) -> Result<(), String> {
        let changeable = [SettingsSource::Local, SettingsSource::User];
        let source = changeable
            .into_iter()
            .find(|known| known.as_str() == source)
            .ok_or_else(|| format!("settings of {source} cannot be changed"))?;
        self.settings.stack().update(source, settings.clone()).map(drop).map_err(|error| error.to_string())
    }

    fn save_permission(&self, update: &PermissionUpdate) -> Result<(), String> {
        self.settings.stack().apply_permission_update(update).map(drop).map_err(|error| error.to_string())
    }

    fn changed(&self) -> Vec<Changed> {
        self.settings.stack().changed()
    }

    fn leave(&self, files: &[Changed]) {
        self.settings.stack().leave(files);
    }

    fn reload(&self, files: &[Changed]) -> Reloaded {
        let mut stack = self.settings.stack();
        let problems = stack.reload(files).iter().map(ToString::to_string).collect();
        self.state(&stack, problems)
    }

    fn current(&self) -> Option<Reloaded> {
        let stack = self.settings.stack();
        Some(self.state(&stack, Vec::new()))
    }

    fn permission_rules(&self) -> Value {
        json!(self.settings.stack().rules_state())
    }
}
