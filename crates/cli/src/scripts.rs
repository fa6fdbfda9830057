//! Models by a name that is ours: `script:FILE` and the built-in scripts. Every other name is one of the API.

use std::sync::Arc;

use lathe_launch::LaunchEnvironment;
use lathe_launch::client::{ModelLookup, beta_policy};
use lathe_scripted::ScriptedModel;

/// The scripted model that a name stands for, if it stands for one.
pub fn look_up(name: &str, env: &LaunchEnvironment) -> ModelLookup {
    match name.strip_prefix("script:") {
        Some(script) => {
            let model = ScriptedModel::load(script)?.with_betas(beta_policy(env));
            Ok(Some(Arc::new(model)))
        }
        None => Ok(None),
    }
}
