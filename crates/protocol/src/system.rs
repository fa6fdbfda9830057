//! `system` lines: everything a session reports about itself, distinguished by `subtype`.
//!
//! Inside [`Outbound`](crate::Outbound) the `type` belongs to the outer enum, so the raw value of an unknown subtype
//! holds everything but `type`.

mod hook;
mod init;
mod model;
mod session;
mod task;

pub use hook::*;
pub use init::*;
pub use model::*;
pub use session::*;
pub use task::*;

open_enum! {
    /// One `system` line.
    pub enum SystemMessage by "subtype" {
        Init(Box<Init>) = "init",
        Status(Status) = "status",
        CompactBoundary(CompactBoundary) = "compact_boundary",
        HookStarted(HookStarted) = "hook_started",
        HookProgress(HookProgress) = "hook_progress",
        HookResponse(HookResponse) = "hook_response",
        TaskStarted(TaskStarted) = "task_started",
        TaskProgress(TaskProgress) = "task_progress",
        TaskUpdated(TaskUpdated) = "task_updated",
        TaskNotification(TaskNotification) = "task_notification",
        BackgroundTasksChanged(BackgroundTasksChanged) = "background_tasks_changed",
        ApiRetry(ApiRetry) = "api_retry",
        ModelFallback(ModelFallback) = "model_fallback",
        ModelRefusalFallback(ModelRefusalFallback) = "model_refusal_fallback",
        ModelRefusalNoFallback(ModelRefusalNoFallback) = "model_refusal_no_fallback",
        PermissionDenied(PermissionDenied) = "permission_denied",
        SessionStateChanged(SessionStateChanged) = "session_state_changed",
        Informational(Informational) = "informational",
        Notification(Notification) = "notification",
        SessionTitleChanged(SessionTitleChanged) = "session_title_changed",
        CommandsChanged(CommandsChanged) = "commands_changed",
        LocalCommandOutput(LocalCommandOutput) = "local_command_output",
        ThinkingTokens(ThinkingTokens) = "thinking_tokens",
        MemoryRecall(MemoryRecall) = "memory_recall",
        PluginInstall(PluginInstall) = "plugin_install",
        FilesPersisted(FilesPersisted) = "files_persisted",
        ElicitationComplete(ElicitationComplete) = "elicitation_complete",
        ControlRequestProgress(ControlRequestProgress) = "control_request_progress",
        WorkerShuttingDown(WorkerShuttingDown) = "worker_shutting_down",
        SessionWritesLost(SessionWritesLost) = "session_writes_lost",
    }
}

from_payloads! {
    SystemMessage {
        Init(Init) boxed,
        Status(Status),
        CompactBoundary(CompactBoundary),
        HookStarted(HookStarted),
        HookProgress(HookProgress),
        HookResponse(HookResponse),
        TaskStarted(TaskStarted),
        TaskProgress(TaskProgress),
        TaskUpdated(TaskUpdated),
        TaskNotification(TaskNotification),
        BackgroundTasksChanged(BackgroundTasksChanged),
        ApiRetry(ApiRetry),
        ModelFallback(ModelFallback),
        ModelRefusalFallback(ModelRefusalFallback),
        ModelRefusalNoFallback(ModelRefusalNoFallback),
        PermissionDenied(PermissionDenied),
        SessionStateChanged(SessionStateChanged),
        Informational(Informational),
        Notification(Notification),
        SessionTitleChanged(SessionTitleChanged),
        CommandsChanged(CommandsChanged),
        LocalCommandOutput(LocalCommandOutput),
        ThinkingTokens(ThinkingTokens),
        MemoryRecall(MemoryRecall),
        PluginInstall(PluginInstall),
        FilesPersisted(FilesPersisted),
        ElicitationComplete(ElicitationComplete),
        ControlRequestProgress(ControlRequestProgress),
        WorkerShuttingDown(WorkerShuttingDown),
        SessionWritesLost(SessionWritesLost),
    }
}
