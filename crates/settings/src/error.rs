//! What can go wrong when settings are asked for or changed. Trouble inside a file that was merely found is
//! a [`SettingsProblem`] instead: it is collected, and the stack says what it means.

use std::io;
use std::path::PathBuf;

use crate::problem::SettingsProblem;

/// Why settings could not be loaded or changed.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file named on the command line is not there. Clients match this text.
    #[error("Settings file not found: {}", path.display())]
    NotFound {
        /// As it was given, made absolute.
        path: PathBuf,
    },
    /// Settings that somebody handed over explicitly cannot be used.
    #[error("{0}")]
    Unusable(Box<SettingsProblem>),
    /// A name that is none of the sources. Clients match this text.
    #[error("Invalid setting source: {0}. Valid options are: user, project, local")]
    UnknownSource(String),
    /// A key that cannot be changed by request.
    #[error("change `{0}`: this key cannot be changed while a session runs")]
    KeyNotAllowed(String),
    /// Settings must be a JSON object.
    #[error("read settings: expected a JSON object, found {0}")]
    NotAnObject(&'static str),
    /// There is no file that belongs to the source.
    #[error("change {0}: there is no file for it")]
    NoFile(&'static str),
    /// The file lies behind a link that leads out of the project.
    #[error("write {}: it is reached through a link that leads outside the project", path.display())]
    Outside {
        /// The file that was to be written.
        path: PathBuf,
    },
    /// A file that cannot be read is not changed either: what it says would be lost.
    #[error("change a settings file that is not valid: {0}")]
    Broken(Box<SettingsProblem>),
    /// A grant is in a file of an untrusted folder, and could not be remembered outside of that folder.
    #[error("remember what was granted in {}: {cause}; it counts in this session only", path.display())]
    NotRemembered {
        /// The file that holds it.
        path: PathBuf,
        /// Why not.
        cause: Box<SettingsError>,
    },
    /// Another writer holds the lock. Nothing was changed; the same call can succeed a moment later.
    #[error("write {}: another process or session is changing it", path.display())]
    Busy {
        /// The file that was to be written.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// A verb.
        action: &'static str,
        /// What it was about.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}
