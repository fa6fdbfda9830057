//! What a person should hear although it stops nothing: found while a session is put together, or said by the session
//! while it runs.
//!
//! Each warning goes to the caller's [`WarningSink`] the moment it is known. A list in the prepared session would lose
//! the warnings of a launch that fails, which often explain the failure.

use std::path::PathBuf;
use std::sync::Arc;

use lathe_permissions::RuleWarning;
use lathe_settings::SettingsProblem;
use lathe_transcript::TranscriptError;

/// Takes warnings. Called from wherever the session runs, so it must not block for long.
pub type WarningSink = Arc<dyn Fn(LaunchWarning) + Send + Sync>;

/// Something worth saying. The texts have no prefix and name no flag.
#[derive(Debug, thiserror::Error)]
pub enum LaunchWarning {
    /// A slip in a settings file, a memory file or an output style.
    #[error("{0}")]
    File(Box<SettingsProblem>),
    /// What the folder asks for and is not given, because it is not trusted.
    #[error("{0}")]
    Withheld(String),
    /// The settings ask for a sandbox and can do without.
    #[error(
        "settings ask for a sandbox, and lathe has none yet: commands run without one, under the permission rules alone"
    )]
    NoSandbox,
    /// The settings name an output style that does not exist.
    #[error("there is no output style {name:?}; the default one is used")]
    UnknownStyle {
        /// As it was written.
        name: String,
    },
    /// The permission mode is not quite what it is called.
    #[error("{0}")]
    PermissionMode(&'static str),
    /// A permission rule that is not understood, or means little.
    #[error("{0}")]
    Rule(Box<RuleWarning>),
    /// A line of `ANTHROPIC_CUSTOM_HEADERS` that was left out.
    #[error("{0}")]
    CustomHeader(String),
    /// There is no folder to keep sessions in.
    #[error("HOME is not set, so this session is not saved")]
    NoHome,
    /// The session runs without being written down.
    #[error("this session is not saved: {0}")]
    NotSaved(TranscriptError),
    /// Nothing of the session to resume can be read.
    #[error("{}: {}", path.display(), damage.join("; "))]
    DamagedSession {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        damage: Vec<String>,
    },
    /// `cleanupPeriodDays` is 0, which would delete the session just written.
    #[error("cleanupPeriodDays is 0, which would delete every session: none is deleted")]
    CleanupDisabled,
    /// A line of the running session's log.
    #[error("{0}")]
    Running(String),
}
