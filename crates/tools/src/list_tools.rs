//! The tools with which the model keeps a list of its own work, one file each: tasks in files, which agents and
//! sessions share, or to-dos, which one agent keeps for itself.

pub(crate) mod store;
pub(crate) mod task_create;
pub(crate) mod task_get;
pub(crate) mod task_list;
pub(crate) mod task_update;
pub(crate) mod todo_write;

use std::time::Duration;

use tokio::time::Instant;

use crate::list_tools::store::{LockedTasks, TaskListError, TaskListStore};
use crate::{Content, ToolContext, ToolFailure, ToolOutput, stoppable};

/// How long the lock of a list is waited for. Longer than any number of well-behaved agents takes, on a slow disk too.
const LOCK_WAIT: Duration = Duration::from_secs(20);

/// Between the first two tries; twice as long after each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The text for a task that is not on the list. Programs read it.
const TASK_NOT_FOUND: &str = "Task not found";

/// Reads the list on the blocking pool, without its lock.
async fn read(context: &ToolContext) -> Result<store::TaskListContent, ToolFailure> {
    let list = context.session.task_list();
    let outcome = stoppable::change(&context.cancel, move |_| Ok(list.read())).await?;
    outcome.map_err(|error| ToolFailure::Failed(error.to_string()))
}

/// Runs `work` on the blocking pool under the lock of the list. While another process or agent holds the lock, it is
/// tried again for up to [`LOCK_WAIT`], with pauses that block no thread; after that the call fails. A call that is
/// cancelled before `work` begins changes nothing.
async fn change<T: Send + 'static>(
    context: &ToolContext,
    work: impl Fn(&LockedTasks<'_>) -> Result<T, TaskListError> + Clone + Send + 'static,
) -> Result<T, ToolFailure> {
    let list: TaskListStore = context.session.task_list();
    let (deadline, mut pause) = (Instant::now() + LOCK_WAIT, FIRST_PAUSE);
    loop {
        let (list, work) = (list.clone(), work.clone());
        let outcome = stoppable::change(&context.cancel, move |stop| {
            Ok(list.lock().and_then(|locked| match stop.is_set() {
                true => Err(TaskListError::Cancelled),
                false => work(&locked),
            }))
        });
        match outcome.await? {
            Ok(value) => return Ok(value),
            Err(TaskListError::Cancelled) => return Err(ToolFailure::Interrupted),
            Err(TaskListError::Busy { .. }) if Instant::now() < deadline => {}
            Err(error) => return Err(ToolFailure::Failed(error.to_string())),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = context.cancel.cancelled() => return Err(ToolFailure::Interrupted),
        }
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

/// Returns an output with `text` for the model and `result` for programs, both about the same outcome.
fn told(text: impl Into<String>, result: serde_json::Value) -> ToolOutput {
    ToolOutput::new(Content::Text(text.into()), result)
}
