//! The lists that the model keeps of its own work, as their tools use them: tasks in files, and to-dos that the agent
//! holds. The session says which task list it uses, and asks hooks about changes; see [`WorkListActions`].

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::ToolFailure;
use crate::list_tools::store::TaskListStore;

/// One thing to do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TodoItem {
    /// What is to be done.
    pub content: String,
    /// `pending`, `in_progress` or `completed`.
    #[serde(default = "pending")]
    pub status: String,
    /// The same while it is being done.
    #[serde(default)]
    pub active_form: String,
}

/// Returns the status of an entry that names none.
fn pending() -> String {
    "pending".to_owned()
}

impl TodoItem {
    /// Reads the list of to-dos in an input. Entries that are not to-dos are left out; a value that is not a list gives
    /// none.
    pub fn list(todos: &Value) -> Vec<Self> {
        let items = todos.as_array().into_iter().flatten();
        items.filter_map(|item| Self::deserialize(item).ok()).collect()
    }
}

/// What is about to happen to a task, which hooks may refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStep {
    /// It is put on the list.
    Created,
    /// It is marked as done.
    Completed,
}

/// A task, as hooks are told of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFacts {
    /// Its number.
    pub id: String,
    /// Its title.
    pub subject: String,
    /// What is to be done.
    pub description: String,
}

/// What hooks say about a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskVerdict {
    /// Why the step is refused, for the model; none if it is not.
    pub objection: Option<String>,
    /// Whether the turn goes on after the call.
    pub after: AfterCall,
}

/// Whether the turn goes on after a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AfterCall {
    /// The model gets the result.
    #[default]
    GoesOn,
    /// A hook of the call ends the turn.
    Ends,
}

/// The lists of work, as tools use them.
pub trait WorkListActions: Send + Sync {
    /// Returns the task list of the session.
    fn task_list(&self) -> TaskListStore;

    /// Asks the hooks whether a step may be taken. Interrupted if `cancel` fired meanwhile: then no hook has agreed to
    /// it.
    fn ask_about_task(
        self: Arc<Self>,
        step: TaskStep,
        task: TaskFacts,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<TaskVerdict, ToolFailure>>;

    /// Replaces the to-dos of the agent, and returns those it had.
    fn replace_todos(&self, todos: Vec<TodoItem>) -> Vec<TodoItem>;
}

/// The lists of a tool that is called alone, as in tests: tasks are in a folder that cannot be made, and to-dos are
/// forgotten.
impl WorkListActions for crate::DetachedSession {
    fn task_list(&self) -> TaskListStore {
        TaskListStore::new(std::path::Path::new("/dev/null"), "tasks")
    }

    fn ask_about_task(
        self: Arc<Self>,
        _: TaskStep,
        _: TaskFacts,
        _: CancellationToken,
    ) -> BoxFuture<'static, Result<TaskVerdict, ToolFailure>> {
        Box::pin(std::future::ready(Ok(TaskVerdict::default())))
    }

    fn replace_todos(&self, _: Vec<TodoItem>) -> Vec<TodoItem> {
        Vec::new()
    }
}
