//! The settings of a run: finds the files, says what is wrong with them, and lets a host look at and
//! change them while the session runs.

use std::sync::{Arc, Mutex, MutexGuard};

use lathe_agent::access::SettingsAccess;
use lathe_protocol::PermissionUpdate;
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
        return Err(StartError { message: format!("Error: {failure}"), reason: Some(failure.reason) });
    }
    let problems = stack.problems().filter(|problem| problem.severity == Severity::Warning);
    let mut warnings: Vec<String> = problems.map(|problem| format!("Warning: {problem}")).collect();
    warnings.extend(stack.trust_warnings().map(str::to_owned));
    Ok((RunSettings { stack: Arc::new(Mutex::new(stack)) }, warnings))
}

fn refusal(error: &SettingsError) -> StartError {
    StartError::new(format!("Error: {error}"))
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
