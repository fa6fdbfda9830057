//! The value of a word after bash has expanded it, as far as it can be known in advance.
//!
//! A value is fixed only when every part is: literal text, the home directory, a variable whose value the caller
//! guarantees. A value that depends on the state of the machine is a pattern (file names) or unknown.

use std::collections::BTreeMap;

use super::ast::{Part, Word};

/// The known part of the environment that a command will see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    pub home: Option<&'a str>,
    pub variables: &'a BTreeMap<String, String>,
}

/// The value of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// Exactly this one word.
    Fixed(String),
    /// The files that match; quoted characters are escaped with a backslash.
    Pattern(String),
    /// Anything, including several words or none.
    Unknown,
}

/// A word of a command: its value, and how it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arg {
    pub value: Value,
    pub source: String,
}

impl Arg {
    /// Evaluates a word as far as its value is known before the script runs. An unknown value is never guessed. The
    /// word keeps its source.
    pub(crate) fn new(word: &Word, known: &Known<'_>) -> Self {
        Self { value: value(word, known), source: word.source.clone() }
    }

    /// Creates a fixed word that is not in the script, such as the `.` a program assumes.
    pub(crate) fn literal(text: &str) -> Self {
        Self { value: Value::Fixed(text.to_owned()), source: text.to_owned() }
    }

    /// Returns the value if it is exactly one known word, otherwise `None`. Code that permits must use this and not
    /// [`Self::text`], which falls back to the source.
    pub(crate) fn fixed(&self) -> Option<&str> {
        match &self.value {
            Value::Fixed(text) => Some(text),
            Value::Pattern(_) | Value::Unknown => None,
        }
    }

    /// Returns the value if it is fixed, otherwise the source of the word. For rules that forbid and for messages,
    /// not for code that permits.
    pub(crate) fn text(&self) -> &str {
        self.fixed().unwrap_or(&self.source)
    }
}

/// Returns the value of a variable. `None` if it is not known, or if bash would split it or match it against files
/// because it is not quoted.
fn variable(name: &str, quoted: bool, known: &Known<'_>) -> Option<String> {
    let value = match name {
        "HOME" => known.home?,
        _ => known.variables.get(name)?.as_str(),
    };
    // Unquoted, a value is split and matched against files: only plain characters stay as they are.
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,".contains(c);
    let kept = quoted || (!value.is_empty() && value.chars().all(plain));
    kept.then(|| value.to_owned())
}

/// Expands a word as far as its parts are known. One unknown part, a brace expansion, and a text that bash and zsh read
/// differently make the whole value unknown; wildcards make it a pattern.
fn value(word: &Word, known: &Known<'_>) -> Value {
    let mut fixed = String::new();
    let mut pattern = String::new();
    let mut matches_files = false;
    for (index, part) in word.parts.iter().enumerate() {
        let (text, quoted) = match part {
            Part::Text { text, quoted } => (text.clone(), *quoted),
            Part::Home => match known.home {
                Some(home) => (home.to_owned(), true),
                None => return Value::Unknown,
            },
            Part::Variable { name, quoted } => match variable(name, *quoted, known) {
                Some(value) => (value, true),
                None => return Value::Unknown,
            },
            Part::Substitution(_) | Part::Process(_) | Part::Opaque { .. } => return Value::Unknown,
        };
        // zsh takes `$x[…]` as a subscript and evaluates it.
        let after_variable = index > 0 && matches!(word.parts[index - 1], Part::Variable { .. });
        if after_variable && text.starts_with('[') {
            return Value::Unknown;
        }
        // zsh replaces `=name` by the path of that command.
        if index == 0 && !quoted && text.starts_with('=') && !matches!(word.source.as_str(), "=" | "==") {
            return Value::Unknown;
        }
        for c in text.chars() {
            let special = "*?[]\\".contains(c);
            if special && quoted {
                pattern.push('\\');
            }
            matches_files |= !quoted && ("*?".contains(c) || (c == '[' && word.source.contains(']')));
            pattern.push(c);
        }
        fixed.push_str(&text);
    }
    if has_brace_expansion(word) {
        Value::Unknown
    } else if matches_files {
        Value::Pattern(pattern)
    } else {
        Value::Fixed(fixed)
    }
}

/// Returns whether a word holds `{a,b}` or `{1..3}`. In doubt it returns `true`.
fn has_brace_expansion(word: &Word) -> bool {
    let mut open = false;
    let mut separated = false;
    let mut dot_before = false;
    for part in &word.parts {
        let Part::Text { text, quoted: false } = part else {
            dot_before = false;
            continue;
        };
        for c in text.chars() {
            match c {
                '{' => open = true,
                ',' if open => separated = true,
                '.' if open && dot_before => separated = true,
                '}' if open && separated => return true,
                _ => {}
            }
            dot_before = c == '.';
        }
    }
    false
}
