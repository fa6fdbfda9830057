//! `lathe sessions list|show|verify|export`: shows session files to people. Nothing here changes a file; `transcript`
//! reads them, and this module only formats the output.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "commands print, and end when the reader is gone"
)]

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use lathe_agent::iso_time;
use lathe_launch::LaunchEnvironment;
use lathe_protocol::text::first_chars;
use lathe_transcript::{
    ExportFormat, Page, Report, SessionInfo, SessionScope, Sessions, TranscriptError, export, recorded_tasks,
    verify,
};

use crate::print;

const USAGE: &str = "\
usage: lathe sessions list [--all] [--json]
       lathe sessions show SESSION
       lathe sessions verify SESSION [--json]
       lathe sessions export SESSION [--markdown]

SESSION is an id, the beginning of one, a title, or the path of a session file.
list    the sessions of this folder, the last used first; --all: of every folder
show    the conversation, to read, and the background tasks
verify  whether the file is whole and what a resume would make of it; exit code 1 if anything is wrong
export  the conversation as JSON lines, or as Markdown";

/// Runs `sessions`: lists, shows, exports or verifies sessions, and changes none of them. Without a word it lists those
/// of the folder.
pub fn run(words: &[String], env: &LaunchEnvironment) -> anyhow::Result<ExitCode> {
    let (flags, names): (Vec<&str>, Vec<&str>) =
        words.iter().map(String::as_str).partition(|word| word.starts_with("--"));
    let has = |flag: &str| flags.contains(&flag);
    if has("--help") || names == ["help"] {
        print::line(USAGE);
        return Ok(ExitCode::SUCCESS);
    }
    let allowed: &[&str] = match names.first() {
        None | Some(&"list") => &["--all", "--json"],
        Some(&"verify") => &["--json"],
        Some(&"export") => &["--markdown"],
        Some(_) => &[],
    };
    if let Some(unknown) = flags.iter().find(|flag| !allowed.contains(flag)) {
        bail!("'sessions {}' does not take {unknown}\n{USAGE}", names.first().unwrap_or(&"list"));
    }
    let place = Place::new(env)?;
    match names.as_slice() {
        ["list"] | [] => place.list(has("--all"), has("--json")),
        ["show", name] => show(&place.find(name)?),
        ["export", name] => {
            let format = if has("--markdown") { ExportFormat::Markdown } else { ExportFormat::JsonLines };
            write_out(&place.find(name)?, format)
        }
        ["verify", name] => check(&place.find(name)?, has("--json")),
        [command @ ("show" | "export" | "verify")] => bail!("'sessions {command}' needs a session\n{USAGE}"),
        other => bail!("unknown command 'sessions {}'\n{USAGE}", other.join(" ")),
    }
}

/// The place where sessions are searched.
struct Place {
    sessions: Sessions,
    config_dir: PathBuf,
    cwd: PathBuf,
}

impl Place {
    /// Finds the folder of sessions and the working directory; fails if either is unknown, because every command needs
    /// both.
    fn new(env: &LaunchEnvironment) -> anyhow::Result<Self> {
        let config_dir = env.config_dir().context("HOME is not set, so there are no sessions")?;
        let cwd = env.cwd.clone().context("the working directory is gone")?;
        Ok(Self { sessions: Sessions::new(&config_dir), config_dir, cwd })
    }

    /// Prints one line per session, of the folder or of `all`. An empty list prints only a note on stderr and is a
    /// success, so that stdout stays parsable.
    fn list(&self, all: bool, json: bool) -> anyhow::Result<ExitCode> {
        let here: &[&Path] = &[&self.cwd];
        let scope = if all { SessionScope::Everywhere } else { SessionScope::Projects(here) };
        let found = self.sessions.list(scope, Page::default());
        for session in &found {
            print::line(if json { serde_json::to_string(session)? } else { row(session, all) });
        }
        if found.is_empty() {
            match all {
                true => eprintln!("no sessions in {}", self.config_dir.join("projects").display()),
                false => {
                    eprintln!("no sessions of {}; --all shows those of other folders", self.cwd.display())
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Finds the file of a session by path (of a `.jsonl` file), id, title, or the beginning of an id, in this order. A
    /// whole id that no session has is an error without a further search. The beginning needs four characters and must
    /// fit one session only; a name that finds nothing is an error.
    fn find(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = Path::new(name);
        if path.extension().is_some_and(|extension| extension == "jsonl") && path.is_file() {
            return Ok(path.to_owned());
        }
        match self.sessions.find_by_id_anywhere(&self.cwd, name) {
            Ok(paths) => return Ok(paths.transcript()),
            Err(TranscriptError::NotFound { .. }) => {
                bail!("no session with the id {name} in {}", self.config_dir.join("projects").display())
            }
            Err(_) => {}
        }
        if let Some(info) = self.sessions.find_by_title(&self.cwd, name) {
            return Ok(info.path);
        }
        let all = self.sessions.list(SessionScope::Everywhere, Page::default());
        let mut begun = all.iter().filter(|session| session.session_id.starts_with(name));
        match (begun.next(), begun.next()) {
            (Some(only), None) if name.len() >= 4 => Ok(only.path.clone()),
            (Some(_), Some(_)) if name.len() >= 4 => bail!("more than one session begins with {name}"),
            _ => bail!("no session has the id or the title {name:?}; 'lathe sessions list --all' shows all"),
        }
    }
}

/// Formats one session for the list; its folder is shown with `all`. Control characters of the file are replaced,
/// because they must not steer the terminal.
fn row(session: &SessionInfo, all: bool) -> String {
    let when = iso_time(session.last_modified);
    let when = when.get(..16).unwrap_or(&when).replace('T', " ");
    let summary = one_line(&session.summary);
    let summary = first_chars(&summary, 80);
    let folder = match (&session.cwd, all) {
        (Some(cwd), true) => format!("  {}", one_line(cwd)),
        (Some(_) | None, _) => String::new(),
    };
    let tag = session.tag.as_ref().map(|tag| format!("  [{}]", one_line(tag))).unwrap_or_default();
    format!("{}  {when}  {:>8}{folder}{tag}  {summary}", session.session_id, size(session.file_size))
}

/// Replaces the control characters of a text by spaces, because text from a file must not steer the terminal.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Formats a file size for the list. A KB is 1024 bytes; KB are rounded down, MB have one decimal.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KB", bytes / 1024),
        _ => format!("{:.1} MB", bytes as f64 / 1_048_576.0),
    }
}

/// Prints the conversation as Markdown, and behind it the commands that ran in the background with their recorded ends.
/// It is an error if the file cannot be read.
fn show(path: &Path) -> anyhow::Result<ExitCode> {
    let code = write_out(path, ExportFormat::Markdown)?;
    let tasks = recorded_tasks(path)?;
    if !tasks.tasks.is_empty() {
        print::line("\n## Background tasks\n");
    }
    for task in &tasks.tasks {
        // Without an end it still runs, or was lost with its process; the file does not know which.
        let end = task.end.as_deref().unwrap_or("no end is recorded");
        let is_untold = tasks.untold.iter().any(|untold| untold.task_id == task.id);
        let untold = if is_untold { "; the model was not told of it yet" } else { "" };
        print::line(format!(
            "- {} {}: {}{untold}",
            one_line(&task.id),
            one_line(first_chars(&task.description, 80)),
            one_line(end)
        ));
    }
    Ok(code)
}

/// Prints the report about one file, as JSON or in sentences. The exit code is 1 if the file is not sound; it is an
/// error if it cannot be read at all.
fn check(path: &Path, json: bool) -> anyhow::Result<ExitCode> {
    let report = verify(path)?;
    if json {
        print::line(serde_json::to_string(&report)?);
    } else {
        print::line(path.display());
        findings(&report).iter().for_each(print::line);
    }
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Describes the result of a check in sentences: the numbers, each fault that was found with its meaning, and the
/// verdict.
fn findings(report: &Report) -> Vec<String> {
    let mut lines = vec![format!(
        "{} records, {} of them links of the conversation; a resume gives the model {} messages",
        report.records, report.chain_records, report.messages
    )];
    let mut fault = |count: u64, text: String| {
        if count > 0 {
            lines.push(text);
        }
    };
    let first = report.first_bad_line.map(|line| format!(" (the first is line {line})")).unwrap_or_default();
    fault(
        report.bad_lines,
        format!("{} unreadable line(s){first}: skipped by every reader", report.bad_lines),
    );
    fault(report.oversized_lines, format!("{} of them are too long to read", report.oversized_lines));
    fault(
        u64::from(report.torn_tail),
        "the file ends inside a record: its writer was killed, or is at work".into(),
    );
    fault(
        report.joined_lines,
        format!("{} line(s) hold more than one record: all are read", report.joined_lines),
    );
    fault(
        report.duplicate_uuids,
        format!("{} id(s) occur twice: the last one counts", report.duplicate_uuids),
    );
    fault(
        report.missing_parents,
        format!(
            "{} record(s) follow one that is not in the file: the record before them is taken for it",
            report.missing_parents
        ),
    );
    fault(
        report.dangling_calls,
        format!(
            "{} tool call(s) have no result: after a resume the model is told so (the file is not damaged)",
            report.dangling_calls
        ),
    );
    lines.push(
        match (report.is_sound(), report.is_resumable) {
            (true, _) => "sound",
            (false, true) => "damaged; it can be resumed with what is left",
            (false, false) => "nothing in it can be resumed",
        }
        .to_owned(),
    );
    lines
}

/// Writes a conversation to stdout message by message; it is an error if the file cannot be read. If the reader closes
/// the pipe, the program ends at once, with success.
fn write_out(path: &Path, format: ExportFormat) -> anyhow::Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    match export(path, format, &mut out) {
        Err(TranscriptError::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {
            // Exits at once, because dropping the buffer would try to write the rest.
            std::process::exit(0);
        }
        outcome => outcome?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_name_what_is_wrong_and_end_with_the_verdict() {
        let sound = Report { records: 3, is_resumable: true, dangling_calls: 1, ..Report::default() };
        let lines = findings(&sound);
        assert_eq!((lines.len(), lines.last().map(String::as_str)), (3, Some("sound")));
        let damaged = Report { bad_lines: 2, first_bad_line: Some(7), ..sound };
        assert!(findings(&damaged)[1].contains("2 unreadable line(s) (the first is line 7)"));
        assert!(findings(&damaged).last().unwrap().starts_with("damaged"));
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!([size(5), size(2048), size(3 << 20)], ["5 B", "2 KB", "3.0 MB"]);
    }
}
