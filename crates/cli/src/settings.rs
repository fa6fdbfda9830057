//! The settings of a run: finds the files, says what is wrong with them, and lets a host look at and
//! change them while the session runs.

use std::sync::{Arc, Mutex, MutexGuard};

use lathe_agent::access::SettingsAccess;
use lathe_protocol::{PermissionUpdate, Settings};
use lathe_settings::memory::{self, Memory, MemoryRequest, ReadCheck};
use lathe_settings::styles::{DEFAULT_STYLE, OutputStyle, StyleRequest, Styles};
use lathe_settings::{ManagedFiles, SettingsError, SettingsStack, Severity, Source, Sources, StackRequest};
use serde_json::{Value, json};

use crate::env::Env;
use crate::plan::{RunPlan, StartError};

/// The settings of a session.
#[derive(Clone)]
pub struct RunSettings {
    stack: Arc<Mutex<SettingsStack>>,
}

/// Reads the settings of a plan. Returns them with what a person should hear about them; settings that
/// may forbid something and cannot be read stop the run.
pub fn load(plan: &RunPlan, env: &Env) -> Result<(RunSettings, Vec<String>), StartError> {
    let cwd = env.cwd.clone().unwrap_or_else(|| "/".into());
    let mut request = StackRequest::new(cwd, ManagedFiles::of_platform(std::env::consts::OS));
    request.home = env.home().map(Into::into);
    request.config_dir = env.config_dir();
    request.global_config = match env.get("CLAUDE_CONFIG_DIR") {
        Some(dir) => Some(std::path::Path::new(dir).join(".claude.json")),
        None => env.home().map(|home| home.join(".claude.json")),
    };
    request.flag.clone_from(&plan.settings);
    if let Some(sources) = &plan.setting_sources {
        request.sources =
            Sources::parse(sources.iter().map(String::as_str)).map_err(|error| refusal(&error))?;
    }
    let stack = SettingsStack::load(request).map_err(|error| refusal(&error))?;
    if let Some(failure) = stack.permission_failure() {
        return Err(StartError {
            message: format!("Error: {failure}"),
            reason: Some(failure.reason),
            session: None,
        });
    }
    let problems = stack.problems().filter(|problem| problem.severity == Severity::Warning);
    let mut warnings: Vec<String> = problems.map(|problem| format!("Warning: {problem}")).collect();
    warnings.extend(stack.trust_warnings().map(str::to_owned));
    Ok((RunSettings { stack: Arc::new(Mutex::new(stack)) }, warnings))
}

fn refusal(error: &SettingsError) -> StartError {
    StartError::new(format!("Error: {error}"))
}

/// What the model is told before the first prompt, and in which style it answers.
pub struct Instructions {
    /// Memory files, as one text.
    pub memory: Option<String>,
    pub style: Option<OutputStyle>,
    pub style_names: Vec<String>,
    pub warnings: Vec<String>,
}

/// Reads memory files and output styles. `may_read` keeps out what a rule denies.
pub fn instructions(plan: &RunPlan, env: &Env, wanted: &Settings, may_read: ReadCheck) -> Instructions {
    let memory = memory_of(plan, env, wanted, may_read);
    let styles = styles(plan, env);
    let name = wanted.output_style.as_deref().unwrap_or(DEFAULT_STYLE);
    let mut warnings: Vec<String> = memory
        .problems()
        .iter()
        .chain(&styles.problems)
        .map(|problem| format!("Warning: {problem}"))
        .collect();
    let style = styles.find(name).cloned();
    if style.is_none() {
        warnings.push(format!("Warning: there is no output style {name:?}; the default one is used"));
    }
    Instructions {
        memory: memory.text(),
        style,
        style_names: styles.names().into_iter().map(str::to_owned).collect(),
        warnings,
    }
}

/// The memory files of a plan.
pub fn memory_of(plan: &RunPlan, env: &Env, wanted: &Settings, may_read: ReadCheck) -> Memory {
    if env.is_on("CLAUDE_CODE_DISABLE_CLAUDE_MDS") {
        return memory::load(MemoryRequest { sources: Sources::NONE, ..MemoryRequest::default() });
    }
    memory::load(MemoryRequest {
        cwd: env.cwd.clone().unwrap_or_else(|| "/".into()),
        home: env.home().map(Into::into),
        config_dir: env.config_dir(),
        managed_dir: Some(ManagedFiles::of_platform(std::env::consts::OS).dir),
        sources: sources(plan),
        excludes: wanted.claude_md_excludes.clone().unwrap_or_default(),
        may_read,
        ..MemoryRequest::default()
    })
}

/// The output styles of a plan.
pub fn styles(plan: &RunPlan, env: &Env) -> Styles {
    Styles::load(&StyleRequest {
        cwd: env.cwd.clone().unwrap_or_else(|| "/".into()),
        config_dir: env.config_dir(),
        managed_dir: Some(ManagedFiles::of_platform(std::env::consts::OS).dir),
        sources: sources(plan),
    })
}

/// Which files count; the names were checked when the plan was made.
fn sources(plan: &RunPlan) -> Sources {
    let named = plan.setting_sources.as_ref();
    named.and_then(|names| Sources::parse(names.iter().map(String::as_str)).ok()).unwrap_or_default()
}

impl RunSettings {
    /// The stack, for a moment.
    pub fn stack(&self) -> MutexGuard<'_, SettingsStack> {
        self.stack.lock().expect("nothing panics while settings are held")
    }
}

impl SettingsAccess for RunSettings {
    fn listing(&self) -> Value {
        let stack = self.stack();
        json!({"effective": stack.effective_json(), "sources": stack.sources_json()})
    }

    fn apply_flag(&self, settings: &Value) -> Result<Value, String> {
        let mut stack = self.stack();
        stack.apply_flag(settings.clone()).map_err(|error| error.to_string())?;
        Ok(stack.effective_json())
    }

    fn update(&self, source: &str, settings: &Value) -> Result<(), String> {
        let source = match source {
            "localSettings" => Source::Local,
            "userSettings" => Source::User,
            other => return Err(format!("settings of {other} cannot be changed")),
        };
        self.stack().update(source, settings.clone()).map(drop).map_err(|error| error.to_string())
    }

    fn save_permission(&self, update: &PermissionUpdate) -> Result<(), String> {
        self.stack().apply_permission_update(update).map(drop).map_err(|error| error.to_string())
    }

    fn permission_rules(&self) -> Value {
        json!(self.stack().rules_state())
    }
}
