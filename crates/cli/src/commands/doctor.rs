//! `lathe doctor`: looks at everything a run depends on and says what to do about what is wrong.
#![allow(clippy::disallowed_macros, reason = "commands print")]

use std::process::ExitCode;

use anyhow::bail;
use lathe_exec::Ledger;
use lathe_models::credentials::Search;
use lathe_settings::memory::ReadCheck;
use lathe_settings::styles::Styles;
use lathe_settings::{CheckStatus, checks};

use crate::args::Args;
use crate::env::Env;
use crate::{client, plan, print, settings};

/// Runs the command.
pub async fn run(words: &[String], env: &Env) -> anyhow::Result<ExitCode> {
    if !words.is_empty() {
        bail!("doctor takes no arguments\nhint: lathe doctor");
    }
    let plan = plan::make(&Args::default(), env, false).map_err(|error| anyhow::anyhow!(error.message))?;
    let mut worst = CheckStatus::Ok;
    let mut say = |name: &str, status: CheckStatus, detail: &str, hint: Option<&str>| {
        let mark = match status {
            CheckStatus::Ok => "ok  ",
            CheckStatus::Warn => "warn",
            CheckStatus::Fail => "FAIL",
        };
        print::line(format!("{mark}  {name:<12} {detail}"));
        if let Some(hint) = hint {
            print::line(format!("      hint: {hint}"));
        }
        worst = worst.max(status);
    };
    match settings::load(&plan, env) {
        Ok((loaded, _)) => {
            let stack = loaded.stack();
            let memory = settings::memory_of(env, &stack, ReadCheck::default());
            for check in checks(&stack, &memory, &Styles::load(&stack.style_request())) {
                say(check.name, check.status, &check.detail, check.hint.as_deref());
            }
        }
        Err(error) => say("settings", CheckStatus::Fail, &error.message, None),
    }
    let found = client::credentials(env, None, Search::FirstUsable);
    match found.chosen() {
        Some(candidate) => say("credential", CheckStatus::Ok, &candidate.origin.describe(), None),
        None => say(
            "credential",
            CheckStatus::Fail,
            "no usable credential",
            Some("set ANTHROPIC_API_KEY; lathe auth status lists what was looked at"),
        ),
    }
    let (status, detail, hint) = reach_model(env).await;
    say("model", status, &detail, hint);
    Ok(if worst == CheckStatus::Fail { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Whether the API answers.
async fn reach_model(env: &Env) -> (CheckStatus, String, Option<&'static str>) {
    let found = client::credentials(env, None, Search::FirstUsable);
    let Some(candidate) = found.chosen() else {
        return (CheckStatus::Warn, "not asked: there is no credential".to_owned(), None);
    };
    let credential = client::credential(&candidate.found, env, &Ledger::default());
    let client = match client::api_client(env, credential) {
        Ok((client, _)) => client,
        Err(error) => return (CheckStatus::Fail, error.message, Some("look at ANTHROPIC_BASE_URL")),
    };
    match client.list_models().await {
        Ok(models) => (CheckStatus::Ok, format!("the API lists {} models", models.len()), None),
        Err(error) => {
            let hint = "look at ANTHROPIC_BASE_URL, the proxy variables and the key";
            (CheckStatus::Fail, error.to_string(), Some(hint))
        }
    }
}
