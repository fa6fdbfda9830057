//! Exports a conversation for people and for other programs.

use std::io::Write;
use std::path::Path;

use lathe_protocol::text::first_chars;
use serde_json::Value;

use crate::error::{Result, TranscriptError};
use crate::reader::{MessageRow, each_message};

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// One message per line, as [`MessageRow`].
    JsonLines,
    /// Headings and text, with calls and results as code blocks.
    Markdown,
}

/// The number of characters of a result that are shown in Markdown; the session file has the rest.
const RESULT_CHARS: usize = 2000;

/// Writes the conversation of the session at `path` to `out` in this format, message by message, and flushes it; after
/// an error the messages before it are already written. In Markdown control characters are replaced, so that the text
/// is safe on a terminal; JSON lines hold the messages as they were recorded.
pub fn export(path: &Path, format: ExportFormat, out: &mut dyn Write) -> Result<()> {
    let failed = |error| TranscriptError::io("export", path, error);
    each_message(path, |row| {
        let text = match format {
            ExportFormat::JsonLines => serde_json::to_string(&row)? + "\n",
            ExportFormat::Markdown => markdown(&row),
        };
        out.write_all(text.as_bytes()).map_err(failed)
    })?;
    out.flush().map_err(failed)
}

/// Returns one message as a section with a heading. A user message that begins with a tool result is headed `Result`,
/// because no person wrote it.
fn markdown(row: &MessageRow) -> String {
    let message: Value = serde_json::from_str(row.message.get()).unwrap_or_default();
    let blocks = match &message["content"] {
        Value::String(text) => vec![text.clone()],
        Value::Array(blocks) => blocks.iter().map(block_markdown).collect(),
        _ => Vec::new(),
    };
    let is_result = message["content"][0]["type"] == "tool_result";
    let heading = match row.kind.as_str() {
        "user" if is_result => "## Result",
        "user" => "## User",
        _ => "## Assistant",
    };
    format!("{heading}\n\n{}\n\n", harmless(&blocks.join("\n\n")))
}

/// Returns the text with control characters, except line breaks and tabs, replaced by visible symbols. They could come
/// from the output of a command and would steer a terminal.
fn harmless(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\t' => c,
        '\0'..='\x1f' => char::from_u32('\u{2400}' as u32 + c as u32).unwrap_or(char::REPLACEMENT_CHARACTER),
        '\x7f' => '\u{2421}',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(shown).collect()
}

/// Returns one content block as Markdown: thinking is quoted, calls and results are fenced, and of any other type only
/// the name is shown.
fn block_markdown(block: &Value) -> String {
    let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
    match block["type"].as_str().unwrap_or_default() {
        "text" => text("text"),
        "thinking" => format!("> {}", text("thinking").replace('\n', "\n> ")),
        "tool_use" => fenced(&format!("{} {}", text("name"), block["input"])),
        "tool_result" => fenced(&result_text(&block["content"])),
        other => format!("[{other}]"),
    }
}

/// Returns the text of a result, cut to [`RESULT_CHARS`] with a note about the rest. Images and other blocks without
/// text are left out.
fn result_text(content: &Value) -> String {
    let whole = match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    };
    let head = first_chars(&whole, RESULT_CHARS);
    match whole.len() - head.len() {
        0 => whole,
        more => format!("{head}\n… {more} more bytes"),
    }
}

/// Returns the text as a code block whose fence is longer than any run of backticks in it, so that the text cannot end
/// it.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}
