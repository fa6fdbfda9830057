//! Errors of launching a session. The texts name no flags and no output format: a program that has flags chooses its
//! own words by the variant.

use lathe_models::anthropic::ClientError;
use lathe_settings::{PermissionFailure, SettingsError};
use lathe_tools::BadSchema;
use lathe_transcript::TranscriptError;

/// Why a session cannot be launched.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// Neither the options nor the environment name a folder that exists.
    #[error("the working directory does not exist any more")]
    NoWorkingDirectory,
    /// The folder that settings are to be taken from is not given as the absolute path of a folder.
    #[error("{} is not the absolute path of a folder that settings can be taken from", path.display())]
    NoConfigRoot {
        /// The given path.
        path: std::path::PathBuf,
    },
    /// The settings cannot be loaded.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A settings file that may set limits cannot be read, so the limits are not known.
    #[error("{0}")]
    UnreadableRules(PermissionFailure),
    /// The settings require a sandbox.
    #[error("settings ask for a sandbox, and lathe has none yet")]
    SandboxRequired,
    /// Settings forbid `bypassPermissions`.
    #[error("the settings of this machine forbid to skip permissions")]
    BypassForbidden,
    /// `bypassPermissions` was requested by a process that runs as root.
    #[error("permissions cannot be skipped with root privileges outside of a sandbox")]
    BypassAsRoot,
    /// No session file has the id that was given to resume.
    #[error("no conversation found with session ID {id}")]
    UnknownSession {
        /// The given id.
        id: String,
    },
    /// The session to resume was named by a text that is not an id, and no session has that title.
    #[error("{title:?} is neither the ID nor the title of a session")]
    UnknownTitle {
        /// The given text.
        title: String,
    },
    /// Another session already has the id that was given for a new one.
    #[error("session ID {id} is already in use")]
    SessionIdInUse {
        /// The given id.
        id: String,
    },
    /// The session to resume or copy exists and cannot be used.
    #[error("take up session {session}: {error}")]
    SessionFile {
        /// Its id.
        session: String,
        /// The cause.
        #[source]
        error: TranscriptError,
    },
    /// The schema for structured output is not a valid JSON Schema.
    #[error("use the JSON Schema of answers: {0}")]
    AnswerSchema(#[from] BadSchema),
    /// The environment does not describe a usable API client.
    #[error(transparent)]
    ApiClient(#[from] ClientError),
    /// The caller's own function for finding a model failed.
    #[error("{0}")]
    ModelLookup(Box<dyn std::error::Error + Send + Sync>),
}
