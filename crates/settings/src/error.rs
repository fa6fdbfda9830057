//! Errors of loading and changing settings. A mistake inside a file that was found, not named by the caller, is a
//! [`SettingsProblem`] instead: the stack collects it and decides what follows.

use std::io;
use std::path::PathBuf;

use crate::problem::SettingsProblem;

/// Why settings could not be loaded or changed.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file named on the command line is not there. Clients match this text.
    #[error("Settings file not found: {}", path.display())]
    NotFound {
        /// The given path, made absolute.
        path: PathBuf,
    },
    /// Settings that the caller passed explicitly cannot be used.
    #[error("{0}")]
    Unusable(Box<SettingsProblem>),
    /// A name in `--setting-sources` that is not a source. Clients match this text.
    #[error("Invalid setting source: {0}. Valid options are: user, project, local")]
    UnknownSource(String),
    /// A key that a client may not change by request.
    #[error("change `{0}`: this key cannot be changed while a session runs")]
    KeyNotAllowed(String),
    /// Settings must be a JSON object.
    #[error("read settings: expected a JSON object, found {0}")]
    NotAnObject(&'static str),
    /// The source has no file of its own.
    #[error("change {0}: these settings have no file")]
    NoFile(&'static str),
    /// The file lies behind a link that leads out of the project.
    #[error("write {}: it is reached through a link that leads outside the project", path.display())]
    Outside {
        /// The file that was to be written.
        path: PathBuf,
    },
    /// A file that cannot be parsed is not changed either: its content would be lost.
    #[error("change a settings file that is not valid: {0}")]
    Broken(Box<SettingsProblem>),
    /// A grant is in a file of an untrusted folder, and could not be remembered outside of that folder.
    #[error("remember what was granted in {}: {cause}; it counts in this session only", path.display())]
    NotRemembered {
        /// The file that holds the grant.
        path: PathBuf,
        /// Why it could not be remembered.
        cause: Box<SettingsError>,
    },
    /// Another writer holds the lock. Nothing was changed; the same call can succeed a moment later.
    #[error("write {}: another process or session is changing it", path.display())]
    Busy {
        /// The file that was to be written.
        path: PathBuf,
    },
    /// The operating system reported an error.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was attempted, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}
