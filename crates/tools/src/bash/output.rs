//! What a command printed, in a form that fits: whole, as a file with a preview, or as an excerpt.
//!
//! A disk that refuses costs the file, never the result: then both ends of the output are shown instead.

use std::path::{Path, PathBuf};

use lathe_exec::{Captured, CommandJob, OutputStream, Spilled};

use crate::files::error::human_size;

/// Characters of a large output that are shown beside the name of its file.
const PREVIEW_CHARS: usize = 2000;

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
    let safe = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    let id: String = tool_use_id.chars().filter(safe).take(100).collect();
    let name = |number: u32| match number {
        1 => directory.join(format!("bash-{id}.txt")),
        _ => directory.join(format!("bash-{id}-{number}.txt")),
    };
    (1..).map(name).find(|path| !path.exists()).expect("there is always a next number")
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
        Ok(file) => Printed { stdout, content: preview(&text, captured, &file), persisted: Some(file) },
        Err(why) => {
            Printed { stdout, content: both_ends(&text, captured, limit_chars, &why), persisted: None }
        }
    }
}

/// What is shown of a failed command's output.
pub(super) fn excerpt(captured: &Captured, job: &CommandJob) -> String {
    let text = trimmed(captured);
    if captured.is_complete() && first_chars(&text, EXCERPT_CHARS).len() == text.len() {
        return text;
    }
    let note = match kept(job) {
        Ok(file) => format!("all of it is in {}", file.path.display()),
        Err(why) => why,
    };
    both_ends(&text, captured, EXCERPT_CHARS, &note)
}

/// The file with the output: the one that was written while the command ran, or one that is written now. An
/// error says what to tell about it.
fn kept(job: &CommandJob) -> Result<Spilled, String> {
    job.keep_in_file(OutputStream::Stdout, None)
        .map_err(|why| format!("it could not be kept in a file: {why}"))
}

fn preview(text: &str, captured: &Captured, file: &Spilled) -> String {
    let start = first_chars(text, PREVIEW_CHARS);
    // Whole lines, unless the first one is longer than that.
    let start = start.rfind('\n').map_or(start, |end| &start[..end]);
    let size = human_size(captured.total_bytes);
    let path = file.path.display();
    let extent = if file.bytes < captured.total_bytes {
        format!("Its first {} are in {path}", human_size(file.bytes))
    } else {
        format!("All of it is in {path}")
    };
    format!(
        "<persisted-output>\nThe output is too large to be shown ({size}). {extent}\n\n\
         It begins (2KB):\n{start}\n...\n</persisted-output>"
    )
}

/// The beginning and the end of a text, `limit` characters together, with a note between them.
fn both_ends(text: &str, captured: &Captured, limit: usize, note: &str) -> String {
    let head = first_chars(text, limit / 2);
    let tail = last_chars(&text[head.len()..], limit / 2);
    let left_out = captured.missing_bytes() + (text.len() - head.len() - tail.len()) as u64;
    format!("{head}\n\n[{} left out here; {note}]\n\n{tail}", human_size(left_out))
}

fn first_chars(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).map_or(text, |(end, _)| &text[..end])
}

fn last_chars(text: &str, count: usize) -> &str {
    match text.char_indices().rev().nth(count.saturating_sub(1)) {
        Some((start, _)) if count > 0 => &text[start..],
        Some(_) => "",
        None => text,
    }
}
