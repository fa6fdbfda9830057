//! Errors of a script or of serving one. Every message names the file and, if there is one, the line, because its
//! reader is the person who wrote that line.

use std::io;
use std::path::PathBuf;

/// A script that cannot be loaded, or a server that cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("read the script {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The text is not a script: syntax, an unknown key, a value of the wrong kind.
    #[error("{file}:{line}:{column}: {message}{}", hint_line(.hint))]
    Parse {
        /// Name of the file as the caller gave it.
        file: String,
        /// Line, counted from one.
        line: u64,
        /// Column, counted from one.
        column: u64,
        /// What is wrong.
        message: String,
        /// The nearest valid key, if there is one.
        hint: Option<String>,
    },
    /// The parts are well formed but do not fit together.
    #[error("{file}: {place}: {message}")]
    Invalid {
        /// Name of the file as the caller gave it.
        file: String,
        /// The name of the turn or route.
        place: String,
        /// What is wrong.
        message: String,
    },
    /// `script:NAME` with a name that is neither a file nor built in.
    #[error("find the script `{name}`: no such file, and the built-in scripts are {known}")]
    NotFound {
        /// The requested name.
        name: String,
        /// The built-in names, comma separated.
        known: String,
    },
    /// The listener could not be opened, or a log or recording could not be written.
    #[error("{what}: {source}")]
    Io {
        /// The operation that failed.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The upstream address of a recorder is not usable.
    #[error("use the upstream `{url}`: {message}")]
    Upstream {
        /// The address given.
        url: String,
        /// What is wrong with it.
        message: String,
    },
}

/// Returns the hint as an indented line that begins with a line break, or an empty text without one.
fn hint_line(hint: &Option<String>) -> String {
    hint.as_ref().map(|hint| format!("\n  hint: {hint}")).unwrap_or_default()
}
