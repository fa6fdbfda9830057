//! Launches the session of the program. It adds what only the command line has: names for scripted models
//! (`script:FILE`, or a built-in script), warnings on stderr, and error texts that name flags.

use std::sync::Arc;

use lathe_launch::client::{ModelLookup, beta_policy};
use lathe_launch::{LaunchEnvironment, ModelSource, PreparedSession, SessionOptions, SharedServices};
use lathe_scripted::ScriptedModel;

use crate::refusal::{StartError, warnings_to_stderr};

/// Prepares a session for a run of the program: warnings go to stderr, and `script:` names are looked up here. Blocks
/// on files and locks.
pub fn prepare(options: &SessionOptions, env: LaunchEnvironment) -> Result<PreparedSession, StartError> {
    let (model, services) = (ModelSource::Lookup(&look_up), SharedServices::default());
    Ok(lathe_launch::prepare(options, env, model, &services, &warnings_to_stderr())?)
}

/// Returns the scripted model that a `script:` name stands for, or an error if its script cannot be loaded; `None` for
/// every other name, which is then a model of the API.
fn look_up(name: &str, env: &LaunchEnvironment) -> ModelLookup {
    match name.strip_prefix("script:") {
        Some(script) => {
            let model = ScriptedModel::load(script)?.with_betas(beta_policy(env));
            Ok(Some(Arc::new(model)))
        }
        None => Ok(None),
    }
}
