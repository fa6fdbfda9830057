//! Something is wrong in a file that a person wrote: where, what, and what to do about it.
//!
//! Nothing is decided here. A warning leaves the rest of the file in force; an error means that what the file
//! says about permissions is not known, so that nobody may act as if it had said nothing.

use std::fmt;
use std::path::{Path, PathBuf};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Part of the file is ignored; everything else counts.
    Warning,
    /// Limits that the file may set are not known: fail closed.
    Error,
}

/// Where a text came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A file.
    File(PathBuf),
    /// A flag or a request, by name.
    Given(&'static str),
}

impl Origin {
    /// The file, if it is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Given(_) => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Given(name) => f.write_str(name),
        }
    }
}

/// A place in a text, both from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The character in the line.
    pub column: u32,
}

/// One thing that is wrong. `Display` gives `origin:line:column: message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsProblem {
    /// How bad it is.
    pub severity: Severity,
    /// Where the text came from.
    pub origin: Origin,
    /// Where in the text, if it is about one place.
    pub at: Option<Position>,
    /// What is wrong, as a fragment.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl SettingsProblem {
    /// Part of the file is ignored.
    pub fn warning(origin: &Origin, at: Option<Position>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, origin: origin.clone(), at, message: message.into(), hint: None }
    }

    /// What the file says about permissions is not known.
    pub fn error(origin: &Origin, at: Option<Position>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, ..Self::warning(origin, at, message) }
    }

    /// The same with advice.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for SettingsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origin)?;
        if let Some(at) = self.at {
            write!(f, ":{}:{}", at.line, at.column)?;
        }
        write!(f, ": {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " (hint: {hint})"),
            None => Ok(()),
        }
    }
}
