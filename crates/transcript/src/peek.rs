//! The entries of a list of sessions, found without reading whole files: only the first and the last 64 KiB are read,
//! and fields are found by searching the text, because a record may be cut. The rules are those of the official SDKs,
//! so that all programs show the same list.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use lathe_protocol::text::first_chars;
use serde::Serialize;
use serde_json::Value;

/// How much of each end is read.
pub(crate) const END_BYTES: u64 = 64 * 1024;

/// The number of characters of a prompt that are shown in a list.
const PROMPT_CHARS: usize = 200;

/// One session in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionInfo {
    /// Its id.
    pub session_id: String,
    /// The text to show: the title, else the last prompt, else a recorded summary, else the first prompt.
    pub summary: String,
    /// When the file last changed, in ms since 1970.
    pub last_modified: u64,
    /// The size of the file in bytes.
    pub file_size: u64,
    /// The title.
    pub custom_title: Option<String>,
    /// The first prompt that a person wrote.
    pub first_prompt: Option<String>,
    /// The git branch at its last record.
    pub git_branch: Option<String>,
    /// The directory it was started in.
    pub cwd: Option<String>,
    /// The directory at its last record.
    #[serde(skip)]
    pub last_cwd: Option<String>,
    /// Its tag.
    pub tag: Option<String>,
    /// The time of its first record, in ms since 1970.
    pub created_at: Option<u64>,
    /// The session file.
    #[serde(skip)]
    pub path: PathBuf,
}

/// Reads the ends of a session file. Returns `None` if there is nothing to show: the file is empty, belongs to a
/// subagent, or has neither a title nor a prompt.
pub(crate) fn peek(path: &Path) -> io::Result<Option<SessionInfo>> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let size = metadata.len();
    let head = read_text(&file, 0, size.min(END_BYTES))?;
    let tail = if size > END_BYTES { read_text(&file, size - END_BYTES, END_BYTES)? } else { head.clone() };
    let first_line = head.lines().next().unwrap_or_default();
    if first_line.contains(r#""isSidechain":true"#) || first_line.contains(r#""isSidechain": true"#) {
        return Ok(None);
    }
    let either = |key| last_text(&tail, key).or_else(|| last_text(&head, key));
    let custom_title = either("customTitle").or_else(|| either("aiTitle"));
    let first_prompt = first_prompt(&head);
    let summary = custom_title
        .clone()
        .or_else(|| last_text(&tail, "lastPrompt"))
        .or_else(|| last_text(&tail, "summary"))
        .or_else(|| first_prompt.clone());
    let Some(summary) = summary else { return Ok(None) };
    let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Some(SessionInfo {
        session_id: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        summary,
        last_modified: modified.as_millis() as u64,
        file_size: size,
        custom_title,
        first_prompt,
        git_branch: last_text(&tail, "gitBranch").or_else(|| first_text(&head, "gitBranch")),
        cwd: first_text(&head, "cwd"),
        last_cwd: last_text(&tail, "cwd"),
        tag: tag(&tail),
        created_at: first_text(&head, "timestamp").and_then(|time| epoch_millis(&time)),
        path: path.to_owned(),
    }))
}

/// Reads a part of the file; less if the file has become shorter. A character that is cut at either end is replaced.
fn read_text(file: &File, offset: u64, length: u64) -> io::Result<String> {
    let mut bytes = vec![0; length as usize];
    let mut read = 0;
    // The file may shrink or grow meanwhile: the bytes that are there are enough.
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(read);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the first string after `"key":` in the text; `None` if there is none.
fn first_text(text: &str, key: &str) -> Option<String> {
    values(text, key).next()
}

/// Returns the last string after `"key":` in the text; `None` if there is none or it is empty.
fn last_text(text: &str, key: &str) -> Option<String> {
    values(text, key).last().filter(|value| !value.is_empty())
}

/// Returns all strings that follow `"key":`, with or without a space, in order, wherever in the text they are. Strings
/// that are cut are left out.
fn values<'a>(text: &'a str, key: &str) -> impl Iterator<Item = String> + 'a {
    let name = format!("\"{key}\":");
    let starts: Vec<usize> = text.match_indices(&name).map(|(at, _)| at + name.len()).collect();
    starts.into_iter().filter_map(|start| {
        let rest = &text[start..];
        string_at(rest.strip_prefix(' ').unwrap_or(rest))
    })
}

/// Parses the JSON string that `text` begins with; `None` if it begins with something else or the string is cut.
fn string_at(text: &str) -> Option<String> {
    let body = text.strip_prefix('"')?;
    let mut is_escaped = false;
    let end = body.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })?;
    serde_json::from_str(&text[..end + 2]).ok()
}

/// Returns the tag from the last tag record in `tail`, the end of the file; `None` if there is none or it was cleared.
/// Other lines do not count, because `"tag":` may occur in any of them.
fn tag(tail: &str) -> Option<String> {
    let line = tail.lines().rfind(|line| line.starts_with(r#"{"type":"tag""#))?;
    last_text(line, "tag")
}

/// Converts an ISO time into milliseconds since 1970; `None` if it cannot be parsed or is earlier.
fn epoch_millis(time: &str) -> Option<u64> {
    let parsed: jiff::Timestamp = time.parse().ok()?;
    u64::try_from(parsed.as_millisecond()).ok()
}

/// Returns the first prompt of a person in the beginning of a file, on one line and cut. The name of a slash command
/// counts only if no other prompt exists; `None` if there is neither. A record that is cut at the end of `head` does
/// not count.
fn first_prompt(head: &str) -> Option<String> {
    let mut command = None;
    for line in
        head.lines().filter(|line| line.contains(r#""type":"user""#) || line.contains(r#""type": "user""#))
    {
        let Ok(record) = serde_json::from_str::<Value>(line) else { continue };
        let is_prompt =
            record["type"] == "user" && record["isMeta"] != true && record["isCompactSummary"] != true;
        if !is_prompt {
            continue;
        }
        for text in texts(&record["message"]["content"]) {
            let text = text.replace('\n', " ").trim().to_owned();
            if let Some(name) = between(&text, "<command-name>", "</command-name>") {
                command.get_or_insert(name);
            } else if !text.is_empty() && !is_machine_text(&text) {
                return Some(shorten(&text));
            }
        }
    }
    command
}

/// Returns the texts of a prompt; none if it holds tool results.
fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text],
        Value::Array(blocks) if blocks.iter().all(|block| block["type"] != "tool_result") => blocks
            .iter()
            .filter(|block| block["type"] == "text")
            .filter_map(|block| block["text"].as_str())
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns whether a program wrote the text in the role of the user, by the tags that it begins with.
fn is_machine_text(text: &str) -> bool {
    let starts = [
        "<local-command-stdout>",
        "<session-start-hook>",
        "<tick>",
        "<goal>",
        "[Request interrupted by user",
    ];
    let is_only = |tag: &str| text.starts_with(&format!("<{tag}>")) && text.ends_with(&format!("</{tag}>"));
    starts.iter().any(|start| text.starts_with(start))
        || is_only("ide_opened_file")
        || is_only("ide_selection")
}

/// Returns the text between the first `start` and the next `end`; `None` if either is missing.
fn between(text: &str, start: &str, end: &str) -> Option<String> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(inner, _)| inner.to_owned())
}

/// Returns a prompt cut to [`PROMPT_CHARS`] characters, with an ellipsis if something was cut.
fn shorten(text: &str) -> String {
    let head = first_chars(text, PROMPT_CHARS);
    if head.len() < text.len() { format!("{}…", head.trim_end()) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_are_found_in_cut_text_and_not_in_quoted_json() {
        let text =
            r#"ut":"x"},"cwd":"/a\\b"} {"text":"{\"cwd\":\"/no\"}","cwd": "/c","cwd":7,"cwd":"unfinished"#;
        assert_eq!(first_text(text, "cwd").as_deref(), Some("/a\\b"));
        assert_eq!(last_text(text, "cwd").as_deref(), Some("/c"));
        assert_eq!(last_text(text, "none"), None);
    }

    #[test]
    fn long_prompts_are_shortened_by_characters() {
        let long = "é".repeat(201);
        assert_eq!(shorten(&long), format!("{}…", "é".repeat(200)));
        assert_eq!(shorten(&"é".repeat(200)), "é".repeat(200));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in r#"("cwd":"|"cwd": |[\\"a-zé{}:,]|\{"type":"tag"|\n|"type":"user"){0,60}"#) {
            let _ = (first_text(&text, "cwd"), last_text(&text, "cwd"), tag(&text), first_prompt(&text));
        }
    }
}
