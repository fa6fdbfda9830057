//! Hooks on the wire: the names of the events, the input of a hook, and its output.
//!
//! The same JSON goes to a command's stdin, to an HTTP endpoint and into a `hook_callback` request. Inputs keep unknown
//! fields like all of the wire. Outputs do not: they are instructions, and an invalid instruction is an error to
//! report, not a line to relay.

mod input;
mod output;

pub use input::*;
pub use output::*;

open_names! {
    /// The events that hooks can be registered for.
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
