//! Why there is no session. The texts name no flag and no format: a program that has flags says in its own words
//! what to do, by the variant.

use lathe_models::anthropic::ClientError;
use lathe_settings::{PermissionFailure, SettingsError};
use lathe_tools::BadSchema;
use lathe_transcript::TranscriptError;

/// A session that cannot be launched.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// Neither the options nor the environment name a folder that exists.
    #[error("the working directory does not exist any more")]
    NoWorkingDirectory,
    /// Settings that were given cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A settings file that may forbid something cannot be read, so it is not known what is forbidden.
    #[error("{0}")]
    UnreadableRules(PermissionFailure),
    /// The settings insist on a sandbox.
    #[error("settings ask for a sandbox, and lathe has none yet")]
    SandboxRequired,
    /// Managed settings rule out the mode that skips permissions.
    #[error("the settings of this machine forbid to skip permissions")]
    BypassForbidden,
    /// The mode that skips permissions was asked for with all the rights of the machine.
    #[error("permissions cannot be skipped with root privileges outside of a sandbox")]
    BypassAsRoot,
    /// The session to resume was named by an id that no file has.
    #[error("no conversation found with session ID {id}")]
    UnknownSession {
        /// As it was given.
        id: String,
    },
    /// The session to resume was named by something that is no id, and no session has it for a title.
    #[error("{title:?} is neither the ID nor the title of a session")]
    UnknownTitle {
        /// As it was given.
        title: String,
    },
    /// The id for a new session belongs to another one.
    #[error("session ID {id} is already in use")]
    SessionIdInUse {
        /// As it was given.
        id: String,
    },
    /// The session to resume or copy is there and cannot be used.
    #[error("take up session {session}: {error}")]
    SessionFile {
        /// Its id.
        session: String,
        /// What happened.
        #[source]
        error: TranscriptError,
    },
    /// The shape of answers is no JSON Schema.
    #[error("use the JSON Schema of answers: {0}")]
    AnswerSchema(#[from] BadSchema),
    /// The environment describes no usable way to the API.
    #[error(transparent)]
    ApiClient(#[from] ClientError),
    /// The caller's own look-up of a model failed.
    #[error("{0}")]
    ModelLookup(Box<dyn std::error::Error + Send + Sync>),
}
