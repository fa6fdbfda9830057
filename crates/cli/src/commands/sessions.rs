//! `lathe sessions list|show|verify|export`: session files, for people.
#![allow(clippy::disallowed_macros, reason = "commands print")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use lathe_transcript::{ExportFormat, Page, Scope, Sessions, export, verify};

use crate::env::Env;
use crate::print;

const USAGE: &str = "\
usage: lathe sessions list [--all]
       lathe sessions show|verify|export ID-OR-TITLE
list shows the sessions of this folder, or all; show prints the conversation; verify checks the file;
export writes it as JSON lines.";

/// Runs the command.
pub fn run(words: &[String], env: &Env) -> anyhow::Result<ExitCode> {
    let config_dir = env.config_dir().context("HOME is not set, so there are no sessions")?;
    let sessions = Sessions::new(&config_dir);
    let cwd = env.cwd.clone().context("the working directory is gone")?;
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["list"] | [] => list(&sessions, Scope::Projects(&[&cwd])),
        ["list", "--all"] => list(&sessions, Scope::Everywhere),
        ["show", name] => write_out(&find(&sessions, &cwd, name)?, ExportFormat::Markdown)?,
        ["export", name] => write_out(&find(&sessions, &cwd, name)?, ExportFormat::JsonLines)?,
        ["verify", name] => {
            let report = verify(&find(&sessions, &cwd, name)?)?;
            print::line(serde_json::to_string_pretty(&report)?);
            return Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        other => bail!("unknown command 'sessions {}'\n{USAGE}", other.join(" ")),
    }
    Ok(ExitCode::SUCCESS)
}

fn list(sessions: &Sessions, scope: Scope<'_>) {
    let found = sessions.list(scope, Page { offset: 0, limit: None });
    for session in &found {
        let summary: String = session.summary.chars().take(80).collect();
        print::line(format!("{}  {}", session.session_id, summary));
    }
    if found.is_empty() {
        eprintln!("no sessions");
    }
}

/// The file of a session, by id or title.
fn find(sessions: &Sessions, cwd: &std::path::Path, name: &str) -> anyhow::Result<PathBuf> {
    if let Ok(paths) = sessions.find_by_id_anywhere(cwd, name) {
        return Ok(paths.transcript());
    }
    let info = sessions.find_by_title(cwd, name).with_context(|| format!("no session {name:?}"))?;
    Ok(sessions.find_by_id_anywhere(cwd, &info.session_id)?.transcript())
}

fn write_out(path: &std::path::Path, format: ExportFormat) -> anyhow::Result<()> {
    let mut text = Vec::new();
    export(path, format, &mut text)?;
    print::line(String::from_utf8_lossy(&text).trim_end());
    Ok(())
}
