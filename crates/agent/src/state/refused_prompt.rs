//! A prompt that hooks keep from the model, and what is said about it.

/// Why a prompt does not go to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// For the user.
    pub text: String,
    /// As the hook gave it.
    pub reason: String,
    /// `blocked_by_hook` or `stopped_by_hook`.
    pub kind: &'static str,
    /// Whether the prompt stays in the conversation.
    pub kept: bool,
}
