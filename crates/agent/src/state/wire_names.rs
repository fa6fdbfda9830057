//! States that hosts are told of, as enums with the names they have on the wire. What each state means to the session
//! is decided where it is entered.

/// Whether a session is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    Idle,
    Running,
    /// It waits for the host's reply to a question.
    RequiresAction,
}

impl SessionState {
    /// Returns the value of `state` on the wire; hosts compare it.
    pub fn wire_name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::RequiresAction => "requires_action",
        }
    }
}

/// How far a prompt has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptState {
    Queued,
    Started,
    Completed,
    /// Cancelled in the queue, or interrupted.
    Cancelled,
}

impl PromptState {
    /// Returns the value of a prompt's `state` on the wire; hosts compare it.
    pub fn wire_name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Started => "started",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// How urgently a person is to be shown something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotificationPriority {
    High,
    Immediate,
}

impl NotificationPriority {
    /// Returns the value of `priority` on the wire; hosts compare it.
    pub fn wire_name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Immediate => "immediate",
        }
    }

    /// Returns the colour in which hosts show the notification; `None` leaves it to them.
    pub fn color(self) -> Option<&'static str> {
        match self {
            Self::High => Some("warning"),
            Self::Immediate => None,
        }
    }
}

/// How important a notice is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InfoLevel {
    Notice,
    Warning,
}

impl InfoLevel {
    /// Returns the value of `level` on the wire; hosts compare it.
    pub fn wire_name(self) -> &'static str {
        match self {
            Self::Notice => "notice",
            Self::Warning => "warning",
        }
    }
}
