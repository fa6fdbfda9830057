//! What a command printed, in a form that fits: whole, as a file with a preview, or as an excerpt. The forms
//! themselves are made in `persisted.rs`; here is what the stream of a command needs, whose file was written while it ran.
//!
//! A disk that refuses costs the file, never the result: then both ends of the output are shown instead.

use std::path::{Path, PathBuf};

use lathe_exec::{Captured, CommandJob, OutputStream, Spilled};
use lathe_protocol::text::first_chars;

use crate::persisted::{self, SavedResult, both_ends};

/// Characters of a failed command's output that are shown.
const EXCERPT_CHARS: usize = 10_000;

/// A successful command's output.
pub(super) struct Printed {
    /// For programs: the start of it at least.
    pub stdout: String,
    /// For the model.
    pub content: String,
    /// The file, if `content` does not have everything.
    pub persisted: Option<Spilled>,
}

/// A path in `directory` that is named after the call and not taken yet.
pub(super) fn unused_file(directory: &Path, tool_use_id: &str) -> PathBuf {
    let free = persisted::names(directory, "bash-", tool_use_id, ".txt").find(|path| !path.exists());
    // With none free the file cannot be made, and the result says so.
    free.unwrap_or_else(|| directory.to_owned())
}

/// The output without the blank end. What is in memory, that is: ask `is_complete` first.
fn trimmed(captured: &Captured) -> String {
    let mut text = captured.to_text();
    text.truncate(text.trim_end().len());
    text
}

pub(super) fn shown(captured: &Captured, limit_chars: usize, job: &CommandJob) -> Printed {
    let text = trimmed(captured);
    let stdout = first_chars(&text, limit_chars);
    if stdout.len() == text.len() && captured.is_complete() {
        return Printed { content: text.clone(), stdout: text, persisted: None };
    }
    let stdout = stdout.to_owned();
    match kept(job) {
        Ok(file) => Printed {
            stdout,
            content: persisted::shown_in_place(&text, &saved(captured, &file)),
            persisted: Some(file),
        },
        Err(why) => Printed {
            stdout,
            content: both_ends(&text, captured.missing_bytes(), limit_chars, &why),
            persisted: None,
        },
    }
}

/// What is shown of a failed command's output.
pub(super) fn excerpt(captured: &Captured, job: &CommandJob) -> String {
    let text = trimmed(captured);
    if captured.is_complete() && first_chars(&text, EXCERPT_CHARS).len() == text.len() {
        return text;
    }
    let note = match kept(job) {
        Ok(file) => saved(captured, &file).whereabouts(),
        Err(why) => why,
    };
    both_ends(&text, captured.missing_bytes(), EXCERPT_CHARS, &note)
}

/// The file with the output: the one that was written while the command ran, or one that is written now. An
/// error says what to tell about it.
fn kept(job: &CommandJob) -> Result<Spilled, String> {
    job.keep_in_file(OutputStream::Stdout, None).map_err(|why| persisted::not_kept(&why))
}

fn saved(captured: &Captured, file: &Spilled) -> SavedResult {
    SavedResult { path: file.path.clone(), bytes: file.bytes, total_bytes: captured.total_bytes }
}
