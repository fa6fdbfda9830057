//! The frames that tell hosts of tasks.

use lathe_protocol::Outbound;
use lathe_protocol::system::{
    BackgroundTask, BackgroundTasksChanged, TaskNotification, TaskPatch, TaskStarted, TaskUpdated,
};
use lathe_tools::{TaskGround, TaskStatus};

use crate::state::background_tasks::SessionTask;
use crate::state::frames::FrameBuilder;

impl FrameBuilder {
    /// Builds the frame that lists all tasks in the background. It replaces the list of the frame before it.
    pub fn background_tasks(&self, tasks: Vec<BackgroundTask>) -> Outbound {
        Outbound::system(BackgroundTasksChanged {
            tasks,
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..BackgroundTasksChanged::default()
        })
    }

    /// Builds the frame about a command that became a task.
    pub fn task_started(&self, task: &SessionTask) -> Outbound {
        Outbound::system(TaskStarted {
            task_id: task.id.clone(),
            run_id: Some(task.run_id.clone()),
            tool_use_id: Some(task.tool_use_id.clone()),
            description: task.description.clone(),
            is_backgrounded: Some(task.ground == TaskGround::Background),
            task_type: Some(SessionTask::TYPE.to_owned()),
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..TaskStarted::default()
        })
    }

    /// Builds the frame about a foreground task that was moved to the background.
    pub fn task_moved(&self, task: &SessionTask) -> Outbound {
        self.task_updated(task, TaskPatch { is_backgrounded: Some(true), ..TaskPatch::default() })
    }

    /// Builds the frame about a task that has ended now, in the foreground or the background.
    pub fn task_ended(&self, task: &SessionTask, now_ms: u64) -> Outbound {
        let patch = TaskPatch {
            status: Some(task.status.wire_name().to_owned()),
            end_time: Some(now_ms as f64),
            ..TaskPatch::default()
        };
        self.task_updated(task, patch)
    }

    /// Builds the frame that changes some properties of a task, those in `patch`.
    fn task_updated(&self, task: &SessionTask, patch: TaskPatch) -> Outbound {
        Outbound::system(TaskUpdated {
            task_id: task.id.clone(),
            run_id: Some(task.run_id.clone()),
            patch,
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..TaskUpdated::default()
        })
    }

    /// Builds the frame that tells a person how a task ended; a task that still runs counts as stopped. The output of a
    /// foreground task is in the result of its call, so no file is named for it.
    pub fn task_notification(&self, task: &SessionTask, summary: &str) -> Outbound {
        let status = match task.status {
            TaskStatus::Completed => "completed",
            TaskStatus::Failed => "failed",
            TaskStatus::Killed | TaskStatus::Running => "stopped",
        };
        let output_file = match task.ground {
            TaskGround::Background => task.output_file.display().to_string(),
            TaskGround::Foreground => String::new(),
        };
        Outbound::system(TaskNotification {
            task_id: task.id.clone(),
            run_id: Some(task.run_id.clone()),
            tool_use_id: Some(task.tool_use_id.clone()),
            status: status.to_owned(),
            output_file,
            summary: summary.to_owned(),
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..TaskNotification::default()
        })
    }
}
