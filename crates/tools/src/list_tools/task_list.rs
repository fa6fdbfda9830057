//! TaskList: all tasks of the list, one line each.

use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use lathe_protocol::{CallSubject, SessionAccess};
use serde_json::{Value, json};

use super::store::{ListedTask, TaskListContent};
use super::task_get::in_words;
use crate::{Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput};

/// The TaskList tool.
#[derive(Debug, Default)]
pub struct TaskList;

static SCHEMA: LazyLock<Value> =
    LazyLock::new(|| json!({"type": "object", "properties": {}, "additionalProperties": false}));

impl Tool for TaskList {
    fn name(&self) -> &str {
        "TaskList"
    }

    fn declaration(&self) -> ToolDeclaration {
        super::task_create::DECLARATION
    }

    fn description(&self) -> &str {
        "Returns the tasks of the list: number, status, title, who works on it and what it waits for."
    }

    fn input_schema(&self) -> &Value {
        &SCHEMA
    }

    fn subject(&self, _: &Value) -> CallSubject {
        CallSubject::Session(SessionAccess::Reads)
    }

    fn call<'a>(
        &'a self,
        _input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move { Ok(listed(&super::read(context).await?)) })
    }
}

/// Returns the list as an output: a line for each task that is not internal, and the names of files that cannot be
/// read.
fn listed(list: &TaskListContent) -> ToolOutput {
    let shown: Vec<(&ListedTask, Vec<String>)> = list
        .tasks
        .values()
        .filter(|task| !task.is_internal())
        .map(|task| (task, list.open_blockers(task)))
        .collect();
    let mut lines: Vec<String> = shown.iter().map(|(task, blockers)| line(task, blockers)).collect();
    if lines.is_empty() {
        lines.push("There are no tasks.".to_owned());
    }
    if !list.damaged.is_empty() {
        lines.push(format!("Files that hold no task and were left out: {}", list.damaged.join(", ")));
    }
    let tasks: Vec<Value> = shown.into_iter().map(|(task, blockers)| row(task, blockers)).collect();
    super::told(lines.join("\n"), json!({ "tasks": tasks }))
}

/// Returns the line about a task for the model; `blockers` are the tasks that it still waits for.
fn line(task: &ListedTask, blockers: &[String]) -> String {
    let mut line = format!("#{} [{}] {}", task.id, task.status, task.subject);
    if let Some(owner) = &task.owner {
        line.push_str(&format!(" ({owner})"));
    }
    if !blockers.is_empty() {
        line.push_str(&format!(" [blocked by {}]", in_words(blockers)));
    }
    line
}

/// Returns the entry about a task for programs.
fn row(task: &ListedTask, blockers: Vec<String>) -> Value {
    let mut row = json!({"id": task.id, "subject": task.subject, "status": task.status});
    if let Some(owner) = &task.owner {
        row["owner"] = json!(owner);
    }
    row["blockedBy"] = json!(blockers);
    row
}
