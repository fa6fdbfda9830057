//! The output of a command in a form that fits: whole, as a file with a preview, or as an excerpt. `persisted.rs` makes
//! these forms; this module handles what is special about a command, whose file is written while it runs.
//!
//! If the disk fails, the file is lost but never the result: then the beginning and the end of the output are shown
//! instead.

use std::path::{Path, PathBuf};

use lathe_exec::{Captured, CommandJob, OutputStream, Spilled};
use lathe_protocol::text::first_chars;

use crate::persisted::{self, SavedResult, both_ends};

/// The most characters of a failed command's output that are shown.
const EXCERPT_CHARS: usize = 10_000;

/// The output of a successful command.
pub(super) struct Printed {
    /// For programs: at least the beginning.
    pub stdout: String,
    /// For the model.
    pub content: String,
    /// The file, if `content` does not hold everything.
    pub persisted: Option<Spilled>,
}

/// Returns a path in `directory` that is named after the call and does not exist yet. If no name is free it is the
/// directory itself, where the file cannot be created, and the result of the call says so.
pub(super) fn unused_file(directory: &Path, tool_use_id: &str) -> PathBuf {
    let free = persisted::names(directory, "bash-", tool_use_id, ".txt").find(|path| !path.exists());
    // If no name is free the file cannot be created, and the result says so.
    free.unwrap_or_else(|| directory.to_owned())
}

/// Returns the output without trailing blanks, as far as it is in memory: check `is_complete` first.
fn trimmed(captured: &Captured) -> String {
    let mut text = captured.to_text();
    text.truncate(text.trim_end().len());
    text
}

/// Returns the output of a successful command: whole if it fits `limit_chars`, otherwise with a file, or with both ends
/// of the text if the file could not be kept.
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

/// Returns the part of a failed command's output that is shown: all of it if it has at most [`EXCERPT_CHARS`]
/// characters, otherwise both ends, with a note about the file that has the rest.
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

/// Returns the file with the output: the one that was written while the command ran, or one that is written now. An
/// error is the text to show instead.
fn kept(job: &CommandJob) -> Result<Spilled, String> {
    job.keep_in_file(OutputStream::Stdout, None).map_err(|why| persisted::not_kept(&why))
}

/// Describes the file of a command's output. The total counts every byte that was printed, also those that the file
/// lacks.
fn saved(captured: &Captured, file: &Spilled) -> SavedResult {
    SavedResult { path: file.path.clone(), bytes: file.bytes, total_bytes: captured.total_bytes }
}
