//! Warnings for people, from the launch of a session and from the running session.
//!
//! Each warning goes to the caller's [`WarningSink`] as soon as it is found. A list in the prepared session would lose
//! the warnings of a launch that fails, which often explain the failure.

use std::path::PathBuf;
use std::sync::Arc;

use lathe_permissions::RuleWarning;
use lathe_settings::SettingsProblem;
use lathe_transcript::TranscriptError;

/// A function that takes warnings. It is called on the threads of the session, so it must not block for long.
pub type WarningSink = Arc<dyn Fn(LaunchWarning) + Send + Sync>;

/// One warning. The texts have no prefix and name no flags.
#[derive(Debug, thiserror::Error)]
pub enum LaunchWarning {
    /// A mistake in a settings file, a memory file or an output style.
    #[error("{0}")]
    File(Box<SettingsProblem>),
    /// Settings of the folder that have no effect because the folder is not trusted.
    #[error("{0}")]
    Withheld(String),
    /// The settings ask for a sandbox and do not require it.
    #[error(
        "settings ask for a sandbox, and lathe has none yet: commands run without one, under the permission rules alone"
    )]
    NoSandbox,
    /// The settings name an output style that does not exist.
    #[error("there is no output style {name:?}; the default one is used")]
    UnknownStyle {
        /// The name in the settings.
        name: String,
    },
    /// The permission mode does not do everything that its name promises.
    #[error("{0}")]
    PermissionMode(&'static str),
    /// A permission rule that cannot be parsed, or has little effect.
    #[error("{0}")]
    Rule(Box<RuleWarning>),
    /// A line of `ANTHROPIC_CUSTOM_HEADERS` that was left out.
    #[error("{0}")]
    CustomHeader(String),
    /// `HOME` is not set, so the folder for sessions is not known.
    #[error("HOME is not set, so this session is not saved")]
    NoHome,
    /// The session runs without being saved.
    #[error("this session is not saved: {0}")]
    NotSaved(TranscriptError),
    /// No record of the session to resume can be read.
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
