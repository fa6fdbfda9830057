//! `lathe models`: the models that the key at hand may use, or the built-in list where the API cannot be asked.

use std::process::ExitCode;

use anyhow::bail;
use lathe_exec::Ledger;
use lathe_launch::{LaunchEnvironment, client};
use lathe_models::catalog::{ModelInfo, known_models};
use lathe_models::credentials::{Found, Search};

use crate::print;
use crate::refusal::StartError;

/// Runs `models`: prints the models that the credential may use, or the built-in list if the API cannot be asked, which
/// is a success too. Without `--json` a line on stderr says which of the two it is.
pub async fn run(words: &[String], env: &LaunchEnvironment) -> anyhow::Result<ExitCode> {
    let json = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => false,
        ["--json"] => true,
        other => bail!("unknown arguments: {}\nhint: lathe models [--json]", other.join(" ")),
    };
    let (models, source) = list(env).await;
    if json {
        print::line(serde_json::to_string_pretty(&models)?);
        return Ok(ExitCode::SUCCESS);
    }
    for model in &models {
        let window = model.context_window.map_or("?".to_owned(), |tokens| format!("{}k", tokens / 1000));
        print::line(format!("{:<28} {:<24} {window:>6} tokens", model.id, model.display_name));
    }
    print::note(format!("({source})"));
    Ok(ExitCode::SUCCESS)
}

/// Returns the models and a text that says where the list comes from. Without a credential, or if the API cannot be
/// asked, that is the built-in list; a command that prints a key is not run for it.
async fn list(env: &LaunchEnvironment) -> (Vec<ModelInfo>, String) {
    let found = client::credentials(env, None, Search::FirstUsable);
    let credential = match found.chosen().map(|candidate| &candidate.found) {
        Some(Found::Helper(_) | Found::Unusable(_)) | None => {
            return (known_models(), "built-in list: no key to ask with".to_owned());
        }
        Some(found) => {
            client::credential(found, &client::KeyHelper::default(), &Ledger::with_limits(env.child_limits))
        }
    };
    match client::api_client(env, credential) {
        Ok(api) => match api.list_models().await {
            Ok(models) => (models, "as the API lists them".to_owned()),
            Err(error) => (known_models(), format!("built-in list: the API could not be asked: {error}")),
        },
        Err(error) => (known_models(), format!("built-in list: {}", StartError::from(error).message)),
    }
}
