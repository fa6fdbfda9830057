//! The list of exceptions, each with its reason: files and functions that may exceed the size limits, and names of
//! types that several crates may export.
//!
//! It may only shrink: an entry about a size states what it allows, growing beyond it fails, and so does any entry that
//! has lost its use (checked in `sizes.rs` and `exports.rs`).

use anyhow::{Context, Result, bail};

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Function,
}

/// One line of `xtask/exceptions.txt`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    /// File or function.
    pub kind: Kind,
    /// The path, for a function followed by `::name`.
    pub subject: String,
    /// How many lines it may have.
    pub lines: usize,
}

/// The whole list.
#[derive(Debug, Default)]
pub struct Exceptions {
    /// Files and functions that may be large.
    pub sizes: Vec<Exception>,
    shared_names: Vec<String>,
}

impl Exceptions {
    /// Returns the names of types that several crates may export.
    pub fn shared_names(&self) -> impl Iterator<Item = &str> {
        self.shared_names.iter().map(String::as_str)
    }

    /// Returns whether several crates may export a type of this name.
    pub fn allows_shared_name(&self, name: &str) -> bool {
        self.shared_names().any(|allowed| allowed == name)
    }
}

/// Reads the list; empty lines and lines with `#` are skipped. An entry without a reason, or of an unknown kind, is an
/// error that names its line.
pub fn parse(text: &str) -> Result<Exceptions> {
    let mut entries = Exceptions::default();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let added = match line.strip_prefix("type ") {
            Some(rest) => shared_name(rest).map(|name| entries.shared_names.push(name)),
            None => entry(line).map(|entry| entries.sizes.push(entry)),
        };
        added.with_context(|| format!("xtask/exceptions.txt:{}", number + 1))?;
    }
    Ok(entries)
}

/// Returns the name of an entry about the name of a type, `NAME REASON`. The reason is required.
fn shared_name(line: &str) -> Result<String> {
    let (name, reason) = line.trim().split_once(' ').context("the reason is missing")?;
    if reason.trim().is_empty() {
        bail!("the reason is missing");
    }
    Ok(name.to_owned())
}

/// Reads an entry about a file or function, `KIND PATH LINES REASON`. The reason is required.
fn entry(line: &str) -> Result<Exception> {
    let mut words = line.split_whitespace();
    let kind = match words.next() {
        Some("file") => Kind::File,
        Some("function") => Kind::Function,
        other => bail!("an entry starts with `file`, `function` or `type`, not {other:?}"),
    };
    let subject = words.next().context("the path is missing")?.to_owned();
    let lines = words.next().context("the number of lines is missing")?;
    let lines = lines.parse().with_context(|| format!("not a number of lines: {lines}"))?;
    if words.next().is_none() {
        bail!("the reason is missing");
    }
    Ok(Exception { kind, subject, lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_and_comments_left_out() {
        let text = "# a comment\n\nfile  a/b.rs  720  one table, one file\nfunction a/b.rs::go 130 a match\n";
        let entries = parse(text).unwrap().sizes;
        assert_eq!(entries[0], Exception { kind: Kind::File, subject: "a/b.rs".to_owned(), lines: 720 });
        assert_eq!(entries[1].kind, Kind::Function);
        assert_eq!(entries[1].subject, "a/b.rs::go");
    }

    #[test]
    fn an_entry_must_be_whole() {
        for line in ["file a.rs 720", "file a.rs many because", "folder a 1 because", "function", "type A"] {
            let error = format!("{:#}", parse(line).unwrap_err());
            assert!(error.starts_with("xtask/exceptions.txt:1: "), "{error}");
        }
    }
}
