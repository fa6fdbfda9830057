//! Settings files that change while a session runs. They are checked between rounds, with one `stat` each; hooks hear
//! of a change first and may refuse it; then rules, hooks and variables follow what was written.
//!
//! A file that cannot be read leaves everything as it was, and is reported once: what was forbidden stays
//! forbidden, and nothing is allowed that was not.

use std::sync::Arc;

use lathe_hooks::HookSource;
use lathe_protocol::SettingsSource;
use lathe_protocol::hooks::{ConfigChangeInput, HookEventInput};
use lathe_protocol::settings::HooksSettings;
use lathe_settings::Changed;
use tokio_util::sync::CancellationToken;

use crate::state::agent::{AgentHandle, AgentIdentity, AgentView};
use crate::state::settings_access::ReloadedSettings;
use crate::state::settings_access::{BypassMode, SettingsRule};

impl AgentHandle {
    /// Reads settings files that have changed on disk and applies them to the running session. A file whose change a
    /// ConfigChange hook blocks is marked as seen and has no effect. Called before a turn, between two rounds and
    /// before a command, never while calls run.
    pub(crate) async fn follow_settings(self: &Arc<Self>, cancel: &CancellationToken) {
        let changed = self.session.settings.changed();
        if changed.is_empty() {
            return;
        }
        let (mut taken, mut refused) = (Vec::new(), Vec::new());
        for file in changed {
            if self.is_refused(&file, cancel).await { refused.push(file) } else { taken.push(file) }
        }
        // Remembered as seen, or the hooks would be asked about the same change again before the next round.
        self.session.settings.leave(&refused);
        if !taken.is_empty() {
            let reloaded = self.session.settings.reload(&taken);
            self.take_settings(reloaded).await;
        }
    }

    /// Asks the ConfigChange hooks about a changed file. Returns whether one of them blocks the change, and tells the
    /// host if so. False without asking for a file that hooks have no name for, and false if `cancel` ends the hooks.
    async fn is_refused(self: &Arc<Self>, file: &Changed, cancel: &CancellationToken) -> bool {
        let Some(source) = file.source.config_change_name() else { return false };
        let input = ConfigChangeInput {
            source: source.to_owned(),
            file_path: Some(file.path.display().to_string()),
            ..ConfigChangeInput::default()
        };
        let outcome = self.fire(HookEventInput::ConfigChange(input), None, cancel).await;
        let Some(block) = outcome.block() else { return false };
        let text = format!("a hook keeps {} from taking effect: {}", file.path.display(), block.reason);
        self.session.emit(self.frames.note("config_change_blocked", &text)).await;
        true
    }

    /// Applies settings that were read again: rules, hooks, environment, directories, compaction. Each replaces what
    /// the files said before; what the host set for this session stays. Warnings and a changed mode are sent to the
    /// host.
    pub(crate) async fn take_settings(self: &Arc<Self>, reloaded: ReloadedSettings) {
        let ReloadedSettings { problems, rules, directories, hooks, hook_options, env, bypass, compaction } =
            reloaded;
        let mut troubles: Vec<String> = problems;
        troubles.extend(self.take_hooks(&hooks));
        self.session.hooks.set_options(hook_options);
        self.session.set_hook_env(env.hooks);
        self.workspace.env.set_base(env.tools);
        self.change(|view| view.compact.follow(compaction));
        troubles.extend(self.take_rules(rules, bypass));
        let follow = |view: &mut AgentView| {
            let before = view.scope.mode();
            view.scope.replace_directories(&directories.removed, &directories.added);
            if bypass == BypassMode::Forbidden {
                view.scope.forbid_bypass();
            }
            Arc::make_mut(&mut view.place).change_directories(&directories.removed, &directories.added);
            (view.scope.mode() != before).then(|| view.scope.mode())
        };
        // The files belong to the session, whichever of its agents notices the change.
        let mode = self.session.main.change(follow);
        if self.identity != AgentIdentity::Main {
            self.change(follow);
        }
        for trouble in troubles {
            self.session.emit(self.frames.note("settings_changed", &trouble)).await;
        }
        if let Some(mode) = mode {
            self.session.emit(self.frames.mode_changed(mode.as_str())).await;
        }
    }

    /// Replaces the permission rules that come from settings files, for all agents of the session, and forbids the
    /// bypass mode if settings do. Returns the warnings about rules that cannot be used.
    fn take_rules(&self, rules: Vec<SettingsRule>, bypass: BypassMode) -> Vec<String> {
        let mut engine = self.session.permissions();
        if bypass == BypassMode::Forbidden {
            engine.forbid_bypass();
        }
        engine.replace_settings_rules(rules).iter().map(ToString::to_string).collect()
    }

    /// Registers the hooks of every settings source in place of those it had before, and returns the warnings. A source
    /// that is missing in `hooks` loses its hooks.
    fn take_hooks(&self, hooks: &[(HookSource, HooksSettings)]) -> Vec<String> {
        let none = HooksSettings::default();
        let mut warnings = Vec::new();
        // Every source, also one that has no hooks now: what it registered before must go.
        for source in SettingsSource::ALL.map(HookSource::Settings) {
            let written = hooks.iter().find(|(owner, _)| *owner == source).map_or(&none, |(_, hooks)| hooks);
            warnings.extend(self.session.hooks.register(source, written).iter().map(ToString::to_string));
        }
        warnings
    }
}
