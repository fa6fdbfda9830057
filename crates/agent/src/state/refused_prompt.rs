//! A prompt that hooks keep from the model, and what the user and the host are told about it.

/// Why a prompt does not go to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefusedPrompt {
    /// For the user.
    pub text: String,
    /// As the hook gave it.
    pub reason: String,
    pub kind: RefusalKind,
}

/// What a hook did to a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// It was kept out of the conversation.
    Blocked,
    /// It is part of the conversation, and the turn ends with it.
    Stopped,
}

impl RefusalKind {
    /// Returns the name of the refusal on the wire; it must not change.
    pub fn wire_name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked_by_hook",
            Self::Stopped => "stopped_by_hook",
        }
    }

    /// Returns whether the refused prompt stays in the conversation.
    pub fn keeps_prompt(self) -> bool {
        match self {
            Self::Blocked => false,
            Self::Stopped => true,
        }
    }
}
