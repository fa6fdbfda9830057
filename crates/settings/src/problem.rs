//! A mistake in a file that a person wrote: where it is, what is wrong, and what to do about it.
//!
//! Nothing is decided here. A warning leaves the rest of the file in force. An error means that the limits in the file
//! are not known, so the file must not be treated as if it set none.

use std::fmt;
use std::path::{Path, PathBuf};

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Part of the file is ignored; the rest is in force.
    Warning,
    /// The limits that the file may set are not known: fail closed.
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
    /// Returns the path; `None` if the origin is a flag or a request.
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

/// A position in a text. Lines and columns count from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The character in the line.
    pub column: u32,
}

/// One problem. `Display` gives `origin:line:column: message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsProblem {
    /// The severity.
    pub severity: Severity,
    /// Where the text came from.
    pub origin: Origin,
    /// The position in the text, if the problem has one.
    pub at: Option<Position>,
    /// What is wrong, as a phrase without a full stop.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl SettingsProblem {
    /// Creates a warning without a hint: part of the file is ignored.
    pub fn warning(origin: &Origin, at: Option<Position>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, origin: origin.clone(), at, message: message.into(), hint: None }
    }

    /// Creates an error without a hint: the limits that the file may set are not known.
    pub fn error(origin: &Origin, at: Option<Position>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, ..Self::warning(origin, at, message) }
    }

    /// Returns the problem with advice for the author of the file, in place of earlier advice.
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
