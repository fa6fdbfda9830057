//! The one session of the program: launched with what only this program has, which is a name for scripted models
//! (`script:FILE`, or a built-in script), stderr for warnings, and the words of the command line for errors.

use std::sync::Arc;

use lathe_launch::client::{ModelLookup, beta_policy};
use lathe_launch::{LaunchEnvironment, ModelSource, PreparedSession, SessionOptions, SharedServices};
use lathe_scripted::ScriptedModel;

use crate::refusal::{StartError, warnings_to_stderr};

/// Puts the session together.
pub fn prepare(options: &SessionOptions, env: LaunchEnvironment) -> Result<PreparedSession, StartError> {
    let (model, services) = (ModelSource::Lookup(&look_up), SharedServices::default());
    Ok(lathe_launch::prepare(options, env, model, &services, &warnings_to_stderr())?)
}

/// The scripted model that a name stands for, if it stands for one; every other name is one of the API.
fn look_up(name: &str, env: &LaunchEnvironment) -> ModelLookup {
    match name.strip_prefix("script:") {
        Some(script) => {
            let model = ScriptedModel::load(script)?.with_betas(beta_policy(env));
            Ok(Some(Arc::new(model)))
        }
        None => Ok(None),
    }
}
