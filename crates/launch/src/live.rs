//! The settings of a run while it runs: what a host may look at and change, and what files say after a person
//! has edited them. What a change means for the session is decided there.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use lathe_agent::{BypassMode, DirectoryChanges, ReloadedSettings, SettingsAccess, WorktreePolicy};
use lathe_agent::{CompactPolicy, CompactSwitch};
use lathe_hooks::{EngineOptions, HookSource};
use lathe_protocol::control::{GetSettingsResponse, PermissionRulesState};
use lathe_protocol::settings::{HooksSettings, Settings};
use lathe_protocol::{PermissionUpdate, SettingsSource};
use lathe_settings::{Changed, SettingsError, SettingsStack, SettingsWrite};
use lathe_tools::worktree_tools::git::RepositoryTrust;
use serde_json::Value;
use tokio::time::Instant;

use crate::children::ChildEnvironments;
use crate::env::LaunchEnvironment;
use crate::options::AutocompactOption;
use crate::project_context::existing_dirs;
use crate::settings::RunSettings;

/// How long the lock of a settings file is waited for. Longer than any number of well-behaved writers takes, on a slow
/// disk too.
const LOCK_WAIT: Duration = Duration::from_secs(30);

/// Between the first two tries; twice as long after each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The settings of a running session.
pub struct LiveSettings {
    pub settings: RunSettings,
    pub children: ChildEnvironments,
    pub cwd: PathBuf,
    /// Directories of flags, which no settings file takes away.
    pub flag_dirs: Vec<PathBuf>,
    /// Directories that settings added.
    pub dirs: Mutex<Vec<PathBuf>>,
    /// `CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS`.
    pub session_end_budget: Option<Duration>,
    /// `--autocompact`.
    pub autocompact: Option<AutocompactOption>,
}

impl LiveSettings {
    /// Makes a planned write on the blocking pool, because it waits for the disk, and then updates the settings in
    /// memory; a plan without a write does nothing. While another process or session holds the lock of the file, it
    /// retries for up to [`LOCK_WAIT`] without taking a thread or locking the settings. The caller must not hold the
    /// lock of the settings.
    async fn carry_out(&self, plan: Result<Option<SettingsWrite>, SettingsError>) -> Result<(), String> {
        let Some(mut write) = plan.map_err(|error| error.to_string())? else { return Ok(()) };
        let (deadline, mut pause) = (Instant::now() + LOCK_WAIT, FIRST_PAUSE);
        loop {
            let work = lathe_exec::spawn_blocking(move || {
                let made = write.carry_out();
                (write, made)
            });
            let (back, made) = work.await.map_err(|error| format!("the write broke off: {error}"))?;
            // `finish` also runs after the deadline: the settings file may be written, and only the file of grants
            // still locked.
            if !matches!(made, Err(SettingsError::Busy { .. })) || Instant::now() >= deadline {
                return self.settings.stack().finish(back, made).map(drop).map_err(|error| match error {
                    busy @ SettingsError::Busy { .. } => format!("{busy}; waited {} s", LOCK_WAIT.as_secs()),
                    error => error.to_string(),
                });
            }
            write = back;
            tokio::time::sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// Returns everything that the session takes over from these settings: rules, hooks, environment, compaction, and
    /// the directories that were added or removed since the last call. Each call replaces the remembered directories,
    /// so a result that is not applied loses those changes.
    fn state(&self, stack: &SettingsStack, problems: Vec<String>) -> ReloadedSettings {
        let dirs: Vec<PathBuf> = stack.permission_dirs().into_iter().map(|dir| dir.path).collect();
        let now = existing_dirs(&dirs, &self.cwd);
        let before =
            std::mem::replace(&mut *self.dirs.lock().unwrap_or_else(PoisonError::into_inner), now.clone());
        let stays = |dir: &PathBuf| now.contains(dir) || self.flag_dirs.contains(dir);
        ReloadedSettings {
            problems,
            rules: stack.permission_rules().collect(),
            directories: DirectoryChanges {
                removed: before.iter().filter(|dir| !stays(dir)).cloned().collect(),
                added: now.iter().filter(|dir| !before.contains(dir)).cloned().collect(),
            },
            hooks: hooks_of(stack),
            hook_options: hook_options(stack, self.session_end_budget),
            env: self.children.env(stack),
            compaction: compaction(
                self.autocompact,
                &self.children.process_with(&stack.env()),
                &stack.effective(),
            ),
            bypass: if stack.bypass_is_disabled() { BypassMode::Forbidden } else { BypassMode::AsStarted },
        }
    }
}

/// Returns the hooks of the settings files with their sources, in the form that the hook engine takes.
pub fn hooks_of(stack: &SettingsStack) -> Vec<(HookSource, HooksSettings)> {
    stack.hooks().into_iter().map(|sourced| (HookSource::Settings(sourced.source), sourced.hooks)).collect()
}

/// Returns the options of the hook engine: which hooks are enabled, the URLs and variables that HTTP hooks may use, and
/// the time for all SessionEnd hooks (`None` leaves the default).
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

/// Returns when the conversation is compacted. The flag wins over the environment, and that over settings; with a flag,
/// the others can switch off only compaction as a whole (`DISABLE_COMPACT`). A percentage outside 1 to 100 is ignored.
pub fn compaction(
    flag: Option<AutocompactOption>,
    env: &LaunchEnvironment,
    wanted: &Settings,
) -> CompactPolicy {
    let window = env.number("CLAUDE_CODE_AUTO_COMPACT_WINDOW").or(wanted.auto_compact_window);
    let percent = env.number("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE").filter(|percent| (1..=100).contains(percent));
    let off = env.is_on("DISABLE_AUTO_COMPACT") || wanted.auto_compact_enabled == Some(false);
    CompactPolicy {
        // `--autocompact` is given for this run, so it overrules a general switch.
        automatic: CompactSwitch::off_if(off && flag.is_none()),
        manual: CompactSwitch::off_if(env.is_on("DISABLE_COMPACT")),
        window: match flag {
            Some(AutocompactOption::Auto) => None,
            Some(AutocompactOption::Window(tokens)) => Some(tokens),
            None => window,
        },
        percent: percent.map(|percent| percent as u8),
    }
}

/// Returns the time that all SessionEnd hooks together may take, from `CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS`; `None`
/// leaves the default.
pub fn session_end_budget(env: &LaunchEnvironment) -> Option<Duration> {
    env.number("CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS").map(Duration::from_millis)
}

impl SettingsAccess for LiveSettings {
    fn listing(&self) -> GetSettingsResponse {
        let stack = self.settings.stack();
        GetSettingsResponse {
            effective: stack.effective_json(),
            sources: stack.sources_json(),
            ..GetSettingsResponse::default()
        }
    }

    fn apply_flag(&self, settings: &Value) -> Result<Settings, String> {
        let mut stack = self.settings.stack();
        stack.apply_flag(settings.clone()).map_err(|error| error.to_string())?;
        Ok(stack.effective())
    }

    fn update<'a>(&'a self, source: &'a str, settings: &'a Value) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let changeable = [SettingsSource::Local, SettingsSource::User];
            let known = changeable.into_iter().find(|known| known.as_str() == source);
            let source = known.ok_or_else(|| format!("settings of {source} cannot be changed"))?;
            // A statement of its own: its guard must be gone before `carry_out`, which locks the settings again.
            let plan = self.settings.stack().plan_update(source, settings.clone());
            self.carry_out(plan.map(Some)).await
        })
    }

    fn save_permission<'a>(&'a self, update: &'a PermissionUpdate) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let plan = self.settings.stack().plan_permission_update(update);
            self.carry_out(plan).await
        })
    }

    fn changed(&self) -> Vec<Changed> {
        self.settings.stack().changed()
    }

    fn leave(&self, files: &[Changed]) {
        self.settings.stack().leave(files);
    }

    fn reload(&self, files: &[Changed]) -> ReloadedSettings {
        let mut stack = self.settings.stack();
        let problems = stack.reload(files).iter().map(ToString::to_string).collect();
        self.state(&stack, problems)
    }

    fn current(&self) -> Option<ReloadedSettings> {
        let stack = self.settings.stack();
        Some(self.state(&stack, Vec::new()))
    }

    fn worktrees(&self) -> WorktreePolicy {
        let stack = self.settings.stack();
        // Trust in single items says nothing of hooks and filters of the repository, which no one was shown.
        let trust = match stack.trust().is_whole() {
            true => RepositoryTrust::Trusted,
            false => RepositoryTrust::Untrusted,
        };
        WorktreePolicy { settings: stack.effective().worktree.unwrap_or_default(), trust }
    }

    fn permission_rules(&self) -> PermissionRulesState {
        self.settings.stack().rules_state()
    }
}
