//! Commands as tasks of the session: what the tools that run them tell the session, and what they can ask of it. The
//! session holds the list of tasks and tells hosts and the model of their ends; see [`TaskActions`].

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use lathe_exec::{CommandJob, Exit, Place};

/// How long a foreground command runs before it becomes a task that the host can move to the background.
pub const FOREGROUND_TASK_AFTER: Duration = Duration::from_secs(3);

/// Bytes of output that the file of a background command takes.
pub const TASK_FILE_BYTES: u64 = 100 * 1024 * 1024;

/// The id of a new task, and the file for its output.
#[derive(Debug, Clone)]
pub struct TaskPlace {
    /// Unique in the session.
    pub id: String,
    /// Does not exist yet; its folder does.
    pub output_file: PathBuf,
    /// Its place among the tasks that may run at the same time. Free again when the last copy is dropped, so that a
    /// task which could not be started takes none.
    pub reserved: Arc<Place>,
}

/// A running command that becomes a task.
pub struct CommandTask {
    /// Its id and file.
    pub place: TaskPlace,
    /// What its output is.
    pub kind: TaskKind,
    /// The command itself.
    pub job: CommandJob,
    /// The command line.
    pub command: String,
    /// What it is for, or the command line.
    pub description: String,
    /// The call that started it.
    pub tool_use_id: String,
    /// Whether the call still waits for it.
    pub ground: TaskGround,
}

/// What the output of a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    /// A text to be read; the model is told of the end.
    Shell,
    /// Events: the model is told of each line.
    Monitor,
}

impl TaskKind {
    /// Returns the word for the kind of task in what hooks and results are told.
    pub fn wire_name(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Monitor => "monitor",
        }
    }
}

/// Whether the call that started a command waits for its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskGround {
    /// The call waits.
    Foreground,
    /// The command was detached, and its end is told by a notice.
    Background,
}

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStatus {
    /// It has not ended.
    Running,
    /// It ended with code 0.
    Completed,
    /// It ended otherwise.
    Failed,
    /// It was stopped.
    Killed,
}

impl TaskStatus {
    /// Returns the name of the status in frames and results; hosts compare it.
    pub fn wire_name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Killed => "killed",
        }
    }
}

/// What is known of a task.
#[derive(Clone)]
pub struct TaskReport {
    /// Its id.
    pub id: String,
    /// What it is for.
    pub description: String,
    /// The command line.
    pub command: String,
    /// How it stands.
    pub status: TaskStatus,
    /// The exit code, once it has ended on its own.
    pub exit_code: Option<i32>,
    /// The command, for its output.
    pub job: CommandJob,
}

/// Why a task was not stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotStopped {
    /// No task has this id.
    Unknown,
    /// It has ended, in this way.
    Ended(TaskStatus),
}

/// Whether and how long commands run in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackgroundPolicy {
    /// Not at all (`CLAUDE_CODE_DISABLE_BACKGROUND_TASKS`).
    Off,
    /// At most this long; then they are stopped.
    For(Duration),
}

/// The tasks of the session, as tools use them.
pub trait TaskActions: Send + Sync {
    /// Returns whether commands may run in the background, and for how long.
    fn background_policy(&self) -> BackgroundPolicy;

    /// Reserves an id and an output file for a task that [`TaskActions::add_task`] adds later. An error says why there
    /// can be no further task.
    fn new_task(&self) -> Result<TaskPlace, String>;

    /// Makes a running command a task and tells the host. One in the background is watched from here on: its end is
    /// told to the host and, unless it was stopped, to the model. Must not be dropped before it returns, or the end of
    /// such a task is not told.
    fn add_task(self: Arc<Self>, task: CommandTask) -> BoxFuture<'static, ()>;

    /// Removes a task whose call has waited for its end, and tells the host. The model learns of the end from the
    /// result of that call, so it gets no notice. No effect if the session has no such task.
    fn close_foreground_task<'a>(&'a self, id: &'a str, status: TaskStatus) -> BoxFuture<'a, ()>;

    /// Detaches the command of a foreground task from its call, which then returns. False if the session allows nothing
    /// in the background, the command has ended, or the id names no running foreground task; the task then stays as it
    /// is, except that its output may be in a file already.
    fn move_to_background<'a>(self: Arc<Self>, id: &'a str) -> BoxFuture<'a, bool>;

    /// Ends a task with everything it started, tells the host and returns what is known of the task; the model gets no
    /// notice. It waits for the end within a bound, and must not be dropped before, or the session would wait for that
    /// end. The error says that no task has this id, or that it has ended already.
    fn stop_task<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<TaskReport, NotStopped>>;

    /// Returns the file that the output of a task goes to; `None` if the session has no task with this id.
    fn task_output_file(&self, id: &str) -> Option<PathBuf>;

    /// Returns what is known of a task; ended ones are kept until the session ends. `None` if the session has no task
    /// with this id.
    fn task_report(&self, id: &str) -> Option<TaskReport>;

    /// Returns up to where the output of a task was read by the last call, and records that this one reads up to `end`.
    /// 0 for the first call and for an unknown id.
    fn take_read_offset(&self, id: &str, end: u64) -> u64;

    /// Tells the session that the model has seen the end of a task, so that no notice follows.
    fn note_end_seen(&self, id: &str);
}

/// Returns the exit code that hosts and the model are told. A command that was killed by a signal, or whose end is
/// unknown, counts as a plain failure (1).
pub fn exit_code(exit: Exit) -> i32 {
    match exit {
        Exit::Code(code) => code,
        Exit::Signal(_) | Exit::Lost => 1,
    }
}

/// Returns the line that is appended to the output file of a command when it has ended. It is not output of the
/// command.
pub fn exit_line(exit: Exit) -> String {
    format!("\n[exited with code {}]\n", exit_code(exit))
}

/// The tasks of a tool that is called alone, as in tests: there are none.
impl TaskActions for crate::DetachedSession {
    fn background_policy(&self) -> BackgroundPolicy {
        BackgroundPolicy::Off
    }

    fn new_task(&self) -> Result<TaskPlace, String> {
        Err("there is no session".to_owned())
    }

    fn add_task(self: Arc<Self>, _: CommandTask) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn close_foreground_task<'a>(&'a self, _: &'a str, _: TaskStatus) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn move_to_background<'a>(self: Arc<Self>, _: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }

    fn stop_task<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<TaskReport, NotStopped>> {
        Box::pin(std::future::ready(Err(NotStopped::Unknown)))
    }

    fn task_output_file(&self, _: &str) -> Option<PathBuf> {
        None
    }

    fn task_report(&self, _: &str) -> Option<TaskReport> {
        None
    }

    fn take_read_offset(&self, _: &str, _: u64) -> u64 {
        0
    }

    fn note_end_seen(&self, _: &str) {}
}
