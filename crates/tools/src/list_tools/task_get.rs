//! TaskGet: one task of the list, with its description.

use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use lathe_protocol::{CallSubject, SessionAccess};
use serde_json::{Value, json};

use super::store::{ListedTask, TaskListContent};
use crate::{Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput};

/// The TaskGet tool.
#[derive(Debug, Default)]
pub struct TaskGet;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": { "taskId": { "type": "string", "description": "The number of the task" } },
        "required": ["taskId"],
        "additionalProperties": false,
    })
});

impl Tool for TaskGet {
    fn name(&self) -> &str {
        "TaskGet"
    }

    fn declaration(&self) -> ToolDeclaration {
        super::task_create::DECLARATION
    }

    fn description(&self) -> &str {
        "Returns one task of the list with its description, what it waits for and what waits for it."
    }

    fn input_schema(&self) -> &Value {
        &SCHEMA
    }

    fn subject(&self, _: &Value) -> CallSubject {
        CallSubject::Session(SessionAccess::Reads)
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            let list = super::read(context).await?;
            Ok(match list.get(input["taskId"].as_str().unwrap_or_default()) {
                Some(task) => card(&list, task),
                None => super::told(super::TASK_NOT_FOUND, json!({"task": null})),
            })
        })
    }
}

/// Returns a task in full as an output, one line per field. Blockers that are done or gone are left out.
fn card(list: &TaskListContent, task: &ListedTask) -> ToolOutput {
    let blockers = list.open_blockers(task);
    let mut text = format!(
        "Task #{}: {}\nStatus: {}\nDescription: {}",
        task.id, task.subject, task.status, task.description
    );
    for (what, ids) in [("Blocked by", &blockers), ("Blocks", &task.blocks)] {
        if !ids.is_empty() {
            text.push_str(&format!("\n{what}: {}", in_words(ids)));
        }
    }
    let result = json!({
        "id": task.id, "subject": task.subject, "description": task.description, "status": task.status,
        "blocks": task.blocks, "blockedBy": blockers,
    });
    super::told(text, json!({ "task": result }))
}

/// Returns ids as the model reads them.
pub(super) fn in_words(ids: &[String]) -> String {
    ids.iter().map(|id| format!("#{id}")).collect::<Vec<_>>().join(", ")
}
