//! The working folder of a run with its effective settings, environment and rules. Loaded first by every start, and all
//! that `permissions explain` needs of one.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use lathe_permissions::{
    EngineConfig, PermissionEngine, PermissionScope, PermissionScopeConfig, RuleSource, mode_warning,
    parse_rule_list,
};
use lathe_protocol::{PermissionBehavior, PermissionMode, Settings};

use crate::children::ChildEnvironments;
use crate::client::DEFAULT_MODEL;
use crate::env::LaunchEnvironment;
use crate::error::LaunchError;
use crate::live::{self, LiveSettings};
use crate::options::SessionOptions;
use crate::settings::{self, RunSettings};
use crate::warning::{LaunchWarning, WarningSink};

/// Where a session will stand: what the settings of the place say, and the environment with their variables.
pub struct ProjectContext {
    /// As the process was started.
    pub process: LaunchEnvironment,
    /// With the variables of settings.
    pub env: LaunchEnvironment,
    pub settings: RunSettings,
    /// What all settings say together.
    pub wanted: Settings,
    pub cwd: PathBuf,
    /// The folder that settings come from, if it is another one.
    pub config_root: Option<PathBuf>,
    /// Directories of flags, as they exist.
    pub flag_dirs: Vec<PathBuf>,
    /// Directories of settings, as they exist.
    pub settings_dirs: Vec<PathBuf>,
}

impl ProjectContext {
    /// Finds the folder and reads its settings. The working directory is settled first, because it decides which
    /// settings are read; only then are their variables applied. A folder that does not exist is an error, but only
    /// after the settings have been read and their warnings given.
    pub fn load(
        options: &SessionOptions,
        mut process: LaunchEnvironment,
        warnings: &WarningSink,
    ) -> Result<Self, LaunchError> {
        if let Some(named) = &options.cwd {
            let named = process.cwd.unwrap_or_default().join(named);
            // A relative path without a folder to start from would be looked up from where the process stands.
            let named = Some(named).filter(|dir| dir.is_absolute());
            process.cwd = named.and_then(|dir| dir.canonicalize().ok()).filter(|dir| dir.is_dir());
        }
        let (settings, found) = settings::load(options, &process)?;
        found.into_iter().for_each(|warning| warnings(warning));
        let (wanted, variables) = {
            let stack = settings.stack();
            (stack.effective(), stack.env())
        };
        let mut env = process.clone();
        for (name, value) in &variables {
            env.set(name, value);
        }
        let cwd = env.cwd.clone().ok_or(LaunchError::NoWorkingDirectory)?;
        let flag_dirs = existing_dirs(&options.add_dirs, &cwd);
        let settings_dirs = existing_dirs(&settings_dirs(&settings), &cwd);
        let config_root = options.project_config_root.as_deref().map(settings::config_root).transpose()?;
        Ok(Self { process, env, settings, wanted, cwd, config_root, flag_dirs, settings_dirs })
    }

    /// Returns every working directory besides `cwd`: those of flags, then those of settings.
    pub fn extra_dirs(&self) -> Vec<PathBuf> {
        [self.flag_dirs.as_slice(), &self.settings_dirs].concat()
    }

    /// Returns the name of the model as it was given, not resolved: by the options, `ANTHROPIC_MODEL`, the settings, or
    /// the default name.
    pub fn model_name(&self, options: &SessionOptions) -> String {
        let named = options.model.as_deref().or_else(|| self.env.get("ANTHROPIC_MODEL"));
        named.or(self.wanted.model.as_deref()).unwrap_or(DEFAULT_MODEL).to_owned()
    }

    /// Hands the settings over to the running session. It consumes the context, so everything else must have been read
    /// from it before.
    pub fn into_live(self, options: &SessionOptions, children: ChildEnvironments) -> LiveSettings {
        LiveSettings {
            children,
            cwd: self.cwd,
            flag_dirs: self.flag_dirs,
            dirs: Mutex::new(self.settings_dirs),
            session_end_budget: live::session_end_budget(&self.env),
            autocompact: options.autocompact,
            settings: self.settings,
        }
    }
}

/// Returns the directories that exist, resolved against `cwd` and canonicalized; the others are dropped without a
/// warning, as clients expect.
pub fn existing_dirs(dirs: &[PathBuf], cwd: &Path) -> Vec<PathBuf> {
    dirs.iter().filter_map(|dir| cwd.join(dir).canonicalize().ok()).filter(|dir| dir.is_dir()).collect()
}

/// Returns the further directories that settings name, as they are written; they may not exist.
fn settings_dirs(settings: &RunSettings) -> Vec<PathBuf> {
    settings.stack().permission_dirs().into_iter().map(|dir| dir.path).collect()
}

/// Loads the folder's settings and returns the rules and the permission scope of a session with these options, without
/// starting one (`permissions explain`). Fails where the launch of such a session would fail because of them.
pub fn permissions_of(
    options: &SessionOptions,
    env: &LaunchEnvironment,
    warnings: &WarningSink,
) -> Result<(PermissionEngine, PermissionScope), LaunchError> {
    permissions(options, &ProjectContext::load(options, env.clone(), warnings)?, None, warnings)
}

/// Builds the rules from settings files and flags, and the scope with mode and directories. The mode of the flags wins
/// over the saved one of a resumed session, and that over the settings' default. Rules that cannot be parsed become
/// warnings; an error means that bypassing permissions is forbidden by settings or was requested as root.
pub fn permissions(
    options: &SessionOptions,
    project: &ProjectContext,
    saved_mode: Option<PermissionMode>,
    warnings: &WarningSink,
) -> Result<(PermissionEngine, PermissionScope), LaunchError> {
    let (env, stack) = (&project.env, project.settings.stack());
    let mode = options.permission_mode.or(saved_mode).or(stack.default_mode()).unwrap_or_default();
    if let Some(warning) = mode_warning(mode) {
        warnings(LaunchWarning::PermissionMode(warning));
    }
    let bypass = mode == PermissionMode::BypassPermissions;
    if bypass && stack.bypass_is_disabled() {
        return Err(LaunchError::BypassForbidden);
    }
    // The environment of the process decides, because settings could set `IS_SANDBOX` in the other one.
    if (bypass || options.bypass_available) && project.process.refuses_bypass() {
        return Err(LaunchError::BypassAsRoot);
    }
    let mut working_dirs = vec![project.cwd.clone()];
    working_dirs.extend(project.extra_dirs());
    let scope = PermissionScope::new(PermissionScopeConfig {
        mode,
        working_dirs,
        bypass_available: (options.bypass_available || bypass) && !stack.bypass_is_disabled(),
    });
    let mut engine = PermissionEngine::new(EngineConfig {
        root: Some(project.cwd.clone()),
        home: env.home().map(Path::to_owned),
        config_dir: env.config_dir(),
        managed_allow_only: stack.managed_rules_only(),
        plan_dir: plan_dir(project),
        ..EngineConfig::default()
    });
    let mut misread = Vec::new();
    for (behavior, source, rule) in stack.permission_rules() {
        misread.extend(engine.add_rules(behavior, source, [rule]));
    }
    let lists = [
        (PermissionBehavior::Allow, &options.allowed_tools),
        (PermissionBehavior::Deny, &options.disallowed_tools),
    ];
    for (behavior, lists) in lists {
        let rules = lists.iter().flat_map(|list| parse_rule_list(list));
        misread.extend(engine.add_rules(behavior, RuleSource::CliArg, rules));
    }
    misread.into_iter().for_each(|warning| warnings(LaunchWarning::Rule(Box::new(warning))));
    Ok((engine, scope))
}

/// Returns the folder of plan files, which plan mode permits to write: `plansDirectory` of the settings, or `plans` in
/// the config folder; `None` if no config folder is known.
pub fn plan_dir(project: &ProjectContext) -> Option<PathBuf> {
    match &project.wanted.plans_directory {
        Some(named) => Some(project.cwd.join(named)),
        None => project.env.config_dir().map(|dir| dir.join("plans")),
    }
}
