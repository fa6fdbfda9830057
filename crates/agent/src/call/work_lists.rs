//! What the tools for lists of work use of the session: which task list is the session's, the hooks about its tasks,
//! and the to-dos that an agent holds.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use lathe_hooks::HookBlock;
use lathe_protocol::hooks::{HookEventInput, TaskInput};
use lathe_tools::{
    AfterCall, TaskFacts, TaskListStore, TaskStep, TaskVerdict, TodoItem, ToolFailure, WorkListActions,
};
use tokio_util::sync::CancellationToken;

use crate::state::agent::AgentHandle;
use crate::state::config::TaskListName;

impl WorkListActions for AgentHandle {
    fn task_list(&self) -> TaskListStore {
        let config = &self.session.task_lists;
        match &config.name {
            TaskListName::Shared(name) => TaskListStore::new(&config.folder, name),
            // Asked each time: `/clear` begins another session, which has a list of its own.
            TaskListName::OfSession => TaskListStore::new(&config.folder, &self.frames.session_id()),
        }
    }

    fn ask_about_task(
        self: Arc<Self>,
        step: TaskStep,
        task: TaskFacts,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<TaskVerdict, ToolFailure>> {
        Box::pin(async move {
            let told = TaskInput {
                task_id: task.id,
                task_subject: task.subject,
                task_description: Some(task.description),
                ..TaskInput::default()
            };
            let event = match step {
                TaskStep::Created => HookEventInput::TaskCreated(told),
                TaskStep::Completed => HookEventInput::TaskCompleted(told),
            };
            let outcome = self.fire(event, None, &cancel).await;
            if outcome.cancelled || cancel.is_cancelled() {
                return Err(ToolFailure::Interrupted);
            }
            if let Some(stop) = &outcome.stop {
                self.session.tell_stop(stop).await;
            }
            let objections: Vec<String> = outcome.blocks.iter().map(HookBlock::feedback).collect();
            Ok(TaskVerdict {
                objection: (!objections.is_empty()).then(|| objections.join("\n")),
                after: if outcome.stop.is_some() { AfterCall::Ends } else { AfterCall::GoesOn },
            })
        })
    }

    fn replace_todos(&self, todos: Vec<TodoItem>) -> Vec<TodoItem> {
        self.change(|view| std::mem::replace(&mut view.todos, todos.into()).to_vec())
    }
}
