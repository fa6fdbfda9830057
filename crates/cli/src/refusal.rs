//! The texts of `launch`'s errors and warnings for the command line, with its flags and hints. Programs match some of
//! these texts.

use std::sync::Arc;

use lathe_launch::host::fresh_uuid;
use lathe_launch::{LaunchError, LaunchWarning, WarningSink};
use lathe_transcript::TranscriptError;

use crate::args::ArgsError;
use crate::print;

/// Why a run cannot start. The text goes to stderr, and the exit code is 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartError {
    pub message: String,
    /// `startup_failure_reason`, for the failures that have one.
    pub reason: Option<&'static str>,
    /// The requested session, if the failure is also reported as a result.
    pub session: Option<String>,
}

impl StartError {
    /// Creates a failure whose message is the whole report: it has no reason for hosts and no result.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), reason: None, session: None }
    }

    /// Creates a failure with a `startup_failure_reason`, for the result line that hosts can ask for.
    fn with_reason(message: impl Into<String>, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..Self::new(message) }
    }

    /// Creates a failure that is also written to stdout as the result of this session, in the JSON formats.
    fn of_session(message: impl Into<String>, session: impl Into<String>) -> Self {
        Self { session: Some(session.into()), ..Self::new(message) }
    }
}

impl From<ArgsError> for StartError {
    fn from(error: ArgsError) -> Self {
        Self::new(error.0)
    }
}

impl From<LaunchError> for StartError {
    fn from(error: LaunchError) -> Self {
        match error {
            LaunchError::NoWorkingDirectory => {
                Self::with_reason(format!("Error: {error}"), "cwd_unavailable")
            }
            LaunchError::UnreadableRules(failure) => {
                Self::with_reason(format!("Error: {failure}"), failure.reason)
            }
            LaunchError::SandboxRequired => {
                let hint = "hint: run lathe in a container, or take `sandbox.enabled` out of the settings";
                Self::with_reason(format!("Error: {error}\n{hint}"), "sandbox_required_unavailable")
            }
            LaunchError::BypassAsRoot => Self::with_reason(
                "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons",
                "bypass_root",
            ),
            LaunchError::UnknownSession { id } => {
                Self::of_session(format!("No conversation found with session ID: {id}"), id)
            }
            LaunchError::UnknownTitle { title } => {
                let message = format!(
                    "Error: --resume requires a valid session ID or session title when used with --print: \
                     {title:?} is neither the UUID of a session nor the title of one (`lathe sessions list --all` \
                     shows them)"
                );
                Self::of_session(message, fresh_uuid())
            }
            LaunchError::SessionIdInUse { id } => Self::new(in_use(&id)),
            LaunchError::SessionFile { session, error } => {
                Self::of_session(session_file(&error, &session), session)
            }
            LaunchError::AnswerSchema(error) => {
                Self::new(format!("Error: --json-schema is not a valid JSON Schema: {error}"))
            }
            LaunchError::NoConfigRoot { .. } => Self::new(format!("Error: --project-config-root: {error}")),
            LaunchError::Settings(_)
            | LaunchError::BypassForbidden
            | LaunchError::ApiClient(_)
            | LaunchError::ModelLookup(_) => Self::new(format!("Error: {error}")),
        }
    }
}

/// Returns the text for a session id that is taken. Programs match it, and two errors lead to it, so it is written
/// once.
fn in_use(id: &str) -> String {
    format!("Error: Session ID {id} is already in use.")
}

/// Returns the text for a session file that cannot be resumed. Programs match some of these texts.
fn session_file(error: &TranscriptError, session: &str) -> String {
    match error {
        TranscriptError::Locked { .. } => {
            format!("Error: {error}; wait until it has ended, or go on in a copy with --fork-session")
        }
        TranscriptError::AlreadyExists { .. } => in_use(session),
        // Programs match these two texts, so they get no prefix.
        TranscriptError::NoSuchMessage(_) | TranscriptError::DropsTurn { .. } => error.to_string(),
        TranscriptError::NotFound { .. }
        | TranscriptError::NoSpace { .. }
        | TranscriptError::ReadOnly { .. }
        | TranscriptError::Deleted { .. }
        | TranscriptError::BacklogFull { .. }
        | TranscriptError::Io { .. }
        | TranscriptError::Json(_)
        | TranscriptError::BadSessionId(_)
        | TranscriptError::EmptyTitle => format!("Error: cannot take up session {session}: {error}"),
    }
}

/// Returns a sink that writes the warnings of a session to stderr, one per line.
pub fn warnings_to_stderr() -> WarningSink {
    Arc::new(|warning| print::note(warning_text(&warning)))
}

/// Returns the line for stderr that shows a warning. The variants are listed in full, so that a new one must choose its
/// form.
fn warning_text(warning: &LaunchWarning) -> String {
    match warning {
        // `launch` already writes these as whole sentences.
        LaunchWarning::Withheld(text) => text.clone(),
        LaunchWarning::Running(line) => format!("lathe: {line}"),
        LaunchWarning::CleanupDisabled => {
            format!("Warning: {warning}. --no-session-persistence runs without saving one.")
        }
        LaunchWarning::File(_)
        | LaunchWarning::NoSandbox
        | LaunchWarning::UnknownStyle { .. }
        | LaunchWarning::PermissionMode(_)
        | LaunchWarning::Rule(_)
        | LaunchWarning::CustomHeader(_)
        | LaunchWarning::NoHome
        | LaunchWarning::NotSaved(_)
        | LaunchWarning::DamagedSession { .. } => format!("Warning: {warning}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_that_programs_match_keep_their_words() {
        let unknown = StartError::from(LaunchError::UnknownSession { id: "x".to_owned() });
        assert_eq!(unknown.message, "No conversation found with session ID: x");
        assert_eq!(unknown.session.as_deref(), Some("x"));
        let root = StartError::from(LaunchError::BypassAsRoot);
        assert_eq!(root.reason, Some("bypass_root"));
        assert!(root.message.starts_with("--dangerously-skip-permissions cannot be used with root"));
        let taken = StartError::from(LaunchError::SessionIdInUse { id: "y".to_owned() });
        assert_eq!((taken.message.as_str(), taken.session), ("Error: Session ID y is already in use.", None));
    }

    #[test]
    fn warnings_say_what_they_are() {
        assert_eq!(
            warning_text(&LaunchWarning::NoHome),
            "Warning: HOME is not set, so this session is not saved"
        );
        assert_eq!(warning_text(&LaunchWarning::Running("x".to_owned())), "lathe: x");
        assert_eq!(
            warning_text(&LaunchWarning::CleanupDisabled),
            "Warning: cleanupPeriodDays is 0, which would delete every session: none is deleted. \
             --no-session-persistence runs without saving one."
        );
    }
}
