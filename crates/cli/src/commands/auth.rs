//! `lathe auth status`: which credential a run would use, and why the others are passed over. Secrets
//! are never shown whole.

use std::process::ExitCode;

use anyhow::bail;
use lathe_launch::{LaunchEnvironment, client};
use lathe_models::credentials::{Candidate, Found, Search};

use crate::print;

/// Runs `auth status`: lists the credentials of environment and files, and marks the one that is used. `apiKeyHelper`
/// of settings is not looked at. The exit code is 1 if none is usable.
pub fn run(words: &[String], env: &LaunchEnvironment) -> anyhow::Result<ExitCode> {
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["status"] | [] => {}
        other => bail!("unknown command 'auth {}'\nhint: lathe auth status", other.join(" ")),
    }
    let resolution = client::credentials(env, None, Search::Everything);
    let chosen = resolution.chosen();
    for candidate in &resolution.candidates {
        let mark = if Some(candidate) == chosen { "uses" } else { "    " };
        print::line(format!("{mark}  {:<34} {}", candidate.origin.describe(), describe(candidate, chosen)));
    }
    if chosen.is_none() {
        print::line("no usable credential");
        print::line(format!("hint: {}", client::missing_key_hint(env)));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Describes one candidate for the list, and whether an earlier one (`chosen`) counts in its place. Key and token are
/// formatted by their own types, which never show them whole.
fn describe(candidate: &Candidate, chosen: Option<&Candidate>) -> String {
    let passed_over = if Some(candidate) == chosen { "" } else { " (passed over: an earlier one counts)" };
    match &candidate.found {
        Found::ApiKey(key) => format!("API key {key}{passed_over}"),
        Found::Bearer(token) => format!("bearer token {token}{passed_over}"),
        Found::Helper(_) => format!("a command that prints the key{passed_over}"),
        Found::Unusable(why) => why.clone(),
    }
}
