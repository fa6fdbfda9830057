//! Hooks on the wire: the names of the events, what a hook is told, and what it may answer.
//!
//! The same JSON goes to a command's stdin, to an HTTP endpoint and into a `hook_callback` request. Inputs
//! are open like all of the wire. Outputs are closed: they are orders, and an order that does not make
//! sense is an error to report rather than a line to relay.

mod input;
mod output;

pub use input::*;
pub use output::*;

open_names! {
    /// The events that hooks can wait for.
    pub enum HookEvent {
        PreToolUse = "PreToolUse",
        PostToolUse = "PostToolUse",
        PostToolUseFailure = "PostToolUseFailure",
        Notification = "Notification",
        UserPromptSubmit = "UserPromptSubmit",
        SessionStart = "SessionStart",
        SessionEnd = "SessionEnd",
        Stop = "Stop",
        SubagentStart = "SubagentStart",
        SubagentStop = "SubagentStop",
        PreCompact = "PreCompact",
        PermissionRequest = "PermissionRequest",
        PostToolBatch = "PostToolBatch",
        UserPromptExpansion = "UserPromptExpansion",
        StopFailure = "StopFailure",
        PostCompact = "PostCompact",
        PreModelSwitch = "PreModelSwitch",
        PostModelSwitch = "PostModelSwitch",
        PermissionDenied = "PermissionDenied",
        Setup = "Setup",
        TeammateIdle = "TeammateIdle",
        TaskCreated = "TaskCreated",
        TaskCompleted = "TaskCompleted",
        Elicitation = "Elicitation",
        ElicitationResult = "ElicitationResult",
        ConfigChange = "ConfigChange",
        WorktreeCreate = "WorktreeCreate",
        WorktreeRemove = "WorktreeRemove",
        InstructionsLoaded = "InstructionsLoaded",
        CwdChanged = "CwdChanged",
        FileChanged = "FileChanged",
        DirectoryAdded = "DirectoryAdded",
        MessageDisplay = "MessageDisplay",
    }
}
