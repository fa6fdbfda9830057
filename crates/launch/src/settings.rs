//! The settings of a run: finds the files, says what is wrong with them, and reads what they lead to. What
//! becomes of them while the session runs is `live.rs`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lathe_protocol::system::Informational;
use lathe_settings::memory::{self, Memory, MemoryRequest, ReadCheck};
use lathe_settings::styles::{DEFAULT_STYLE, OutputStyle, Styles};
use lathe_settings::{
    ManagedFiles, SettingsProblem, SettingsStack, Severity, Sources, StackRequest, TrustChoice,
    WithheldContent,
};
use serde_json::Value;

use crate::env::LaunchEnvironment;
use crate::error::LaunchError;
use crate::options::SessionOptions;
use crate::warning::LaunchWarning;

/// With the value `1` or `true` in the environment of the process, the caller vouches for the folder. Settings files
/// cannot set it, and children do not inherit it: they may run in another folder.
pub const TRUST_VARIABLE: &str = "LATHE_TRUST_WORKSPACE";

/// The tag of the frame that says what is withheld. The same was said at the start, as [`LaunchWarning::Withheld`].
pub const WITHHELD_TAG: &str = "workspace_untrusted";

/// The settings of a session.
#[derive(Clone)]
pub struct RunSettings {
    stack: Arc<Mutex<SettingsStack>>,
    /// What the folder brought at the start and the session does not use.
    withheld: Option<Arc<WithheldContent>>,
}

/// Reads the settings that count for these options and returns them with the warnings for people. Fails if settings
/// that may forbid something cannot be read, or if they require a sandbox. `env` is the environment of the process,
/// without variables of settings.
pub fn load(
    options: &SessionOptions,
    env: &LaunchEnvironment,
) -> Result<(RunSettings, Vec<LaunchWarning>), LaunchError> {
    let stack = stack(options, env)?;
    if let Some(failure) = stack.permission_failure() {
        return Err(LaunchError::UnreadableRules(failure));
    }
    // Before the problems are listed: this may look up trust, and what is wrong with its files is known only then.
    let withheld = stack.withheld_content().map(Arc::new);
    let problems = stack.problems().filter(|problem| problem.severity == Severity::Warning);
    let mut warnings: Vec<LaunchWarning> = problems.cloned().map(file_warning).collect();
    let sentences = withheld.iter().flat_map(|withheld| &withheld.warnings);
    warnings.extend(sentences.cloned().map(LaunchWarning::Withheld));
    warnings.extend(without_sandbox(&stack.effective_json()["sandbox"])?);
    Ok((RunSettings { stack: Arc::new(Mutex::new(stack)), withheld }, warnings))
}

/// Reads the settings that count for these options, for callers that only want to look at them; [`load`] also refuses
/// settings that a session must not start with. `env` is the environment of the process, without variables of settings;
/// [`TRUST_VARIABLE`] in it wins over the trust of the options, and without a working folder `/` is taken.
pub fn stack(options: &SessionOptions, env: &LaunchEnvironment) -> Result<SettingsStack, LaunchError> {
    let cwd = env.cwd.clone().unwrap_or_else(|| "/".into());
    // What the folder itself brings is then not looked at: another branch may be checked out in it.
    let root = options.project_config_root.as_deref().map(config_root).transpose()?;
    let mut request = StackRequest::new(root.unwrap_or(cwd), ManagedFiles::of_platform(std::env::consts::OS));
    request.home = env.home().map(Into::into);
    request.config_dir = env.config_dir();
    // By default this file lies beside `.claude`, but inside a folder that the variable names.
    request.global_config = match env.get("CLAUDE_CONFIG_DIR") {
        Some(dir) => Some(std::path::Path::new(dir).join(".claude.json")),
        None => env.home().map(|home| home.join(".claude.json")),
    };
    request.flag.clone_from(&options.settings);
    request.managed_json.clone_from(&options.managed_settings);
    if let Some(sources) = &options.setting_sources {
        request.sources = Sources::parse(sources.iter().map(String::as_str))?;
    }
    // Stricter than `is_on`, which takes any unknown word for yes: a slip must not give trust.
    request.trust = match env.get(TRUST_VARIABLE) {
        Some("1" | "true") => TrustChoice::Given,
        Some(_) | None => options.trust,
    };
    Ok(SettingsStack::load(request)?)
}

/// Returns the real path of the folder that project settings are taken from in place of the working folder. It is an
/// error if `path` is not absolute or is not a folder.
pub(crate) fn config_root(path: &Path) -> Result<PathBuf, LaunchError> {
    let real = path.canonicalize().ok().filter(|real| path.is_absolute() && real.is_dir());
    real.ok_or_else(|| LaunchError::NoConfigRoot { path: path.to_owned() })
}

/// Returns the warning for settings (`sandbox`) that ask for a sandbox, which Lathe does not have; an error if they
/// also set `failIfUnavailable`, and `None` if they do not ask.
fn without_sandbox(wanted: &Value) -> Result<Option<LaunchWarning>, LaunchError> {
    if wanted["enabled"] != true {
        return Ok(None);
    }
    if wanted["failIfUnavailable"] == true {
        return Err(LaunchError::SandboxRequired);
    }
    Ok(Some(LaunchWarning::NoSandbox))
}

/// Wraps a problem of a settings file, memory file or output style as a launch warning.
fn file_warning(problem: SettingsProblem) -> LaunchWarning {
    LaunchWarning::File(Box::new(problem))
}

/// What the model is told before the first prompt, and in which style it answers.
pub(crate) struct ModelInstructions {
    /// Memory files.
    pub memory: Memory,
    pub style: Option<OutputStyle>,
    pub style_names: Vec<String>,
    pub warnings: Vec<LaunchWarning>,
}

/// Reads memory files and the chosen output style. Files that `may_read` refuses are left out; problems and an unknown
/// style become warnings in the returned value.
pub(crate) fn instructions(
    env: &LaunchEnvironment,
    stack: &SettingsStack,
    may_read: ReadCheck,
) -> ModelInstructions {
    let memory = memory_of(env, stack, may_read);
    let styles = Styles::load(&stack.style_request());
    let wanted = stack.effective();
    let name = wanted.output_style.as_deref().unwrap_or(DEFAULT_STYLE);
    let mut warnings: Vec<LaunchWarning> =
        memory.problems().iter().chain(&styles.problems).cloned().map(file_warning).collect();
    let style = styles.find(name).cloned();
    if style.is_none() {
        warnings.push(LaunchWarning::UnknownStyle { name: name.to_owned() });
    }
    ModelInstructions {
        memory,
        style,
        style_names: styles.names().into_iter().map(str::to_owned).collect(),
        warnings,
    }
}

/// Loads the memory files that the settings lead to and `may_read` permits; an empty memory if
/// `CLAUDE_CODE_DISABLE_CLAUDE_MDS` is on. The files are those of the working folder, wherever the settings come from.
pub fn memory_of(env: &LaunchEnvironment, stack: &SettingsStack, may_read: ReadCheck) -> Memory {
    if env.is_on("CLAUDE_CODE_DISABLE_CLAUDE_MDS") {
        return memory::load(MemoryRequest { sources: Sources::NONE, ..MemoryRequest::default() });
    }
    // Instructions are those of the files that are worked on, wherever the settings come from.
    let request = stack.memory_request();
    let cwd = env.cwd.clone().unwrap_or_else(|| request.cwd.clone());
    memory::load(MemoryRequest { may_read, cwd, ..request })
}

impl RunSettings {
    /// Locks the settings and returns them. Hold the guard only briefly and never across an `await` or a second call:
    /// the lock is not reentrant.
    pub fn stack(&self) -> MutexGuard<'_, SettingsStack> {
        self.stack.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the frame that tells the host what the untrusted folder brought and the session does not use; `None` if
    /// nothing was withheld. Ids are left for the session to fill in.
    pub(crate) fn withheld_notice(&self) -> Option<Informational> {
        let withheld = self.withheld.as_ref()?;
        let mut notice = Informational {
            content: withheld.to_string(),
            level: "warning".to_owned(),
            tag: Some(WITHHELD_TAG.to_owned()),
            ..Informational::default()
        };
        notice.extra.insert("workspace_trust".to_owned(), withheld.facts());
        Some(notice)
    }
}
