//! TaskStop, and KillShell for clients of an earlier generation: ends a command in the background with everything it
//! started.

use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use lathe_protocol::{CallSubject, SessionAccess};
use serde_json::{Value, json};

use super::task_output::no_task;
use crate::{
    Content, Loading, NotStopped, Offered, Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput,
};

/// The TaskStop tool.
#[derive(Debug, Default)]
pub struct TaskStop;

/// The KillShell tool.
#[derive(Debug, Default)]
pub struct KillShell;

static TASK_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "task_id": { "type": "string", "description": "The ID of the task" },
            "shell_id": { "type": "string", "description": "A former name of task_id" },
        },
        "additionalProperties": false,
    })
});

static SHELL_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": { "shell_id": { "type": "string", "description": "The ID of the command" } },
        "required": ["shell_id"],
        "additionalProperties": false,
    })
});

/// Stops the task that the input names by `task_id` or, only without that, by the older `shell_id`, and waits for its
/// end, within a bound. An empty id, an unknown or an ended task is an error that says so.
async fn stop(input: &Value, context: &ToolContext) -> Result<ToolOutput, ToolFailure> {
    let named = [&input["task_id"], &input["shell_id"]];
    let Some(id) = named.iter().find_map(|id| id.as_str()).filter(|id| !id.is_empty()) else {
        return Err(ToolFailure::Rejected("Missing required parameter: task_id".to_owned()));
    };
    let task = context.session.stop_task(id).await.map_err(|why| match why {
        NotStopped::Unknown => no_task(id),
        NotStopped::Ended(status) => {
            ToolFailure::Rejected(format!("Task {id} is not running (status: {})", status.wire_name()))
        }
    })?;
    let result = json!({
        "message": format!("Successfully stopped task: {id} ({})", task.command),
        "task_id": id,
        "task_type": "local_bash",
        "command": task.command,
    });
    Ok(ToolOutput::new(Content::Text(result.to_string()), result))
}

impl Tool for TaskStop {
    fn name(&self) -> &str {
        "TaskStop"
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration { cli_1_0: Offered::Never, loading: Loading::Deferred, ..ToolDeclaration::EVERYWHERE }
    }

    fn description(&self) -> &str {
        "Stops a background task with everything it started."
    }

    fn input_schema(&self) -> &Value {
        &TASK_SCHEMA
    }

    fn main_input(&self) -> Option<&str> {
        Some("task_id")
    }

    fn subject(&self, _: &Value) -> CallSubject {
        CallSubject::Session(SessionAccess::Changes)
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(stop(input, context))
    }
}

impl Tool for KillShell {
    fn name(&self) -> &str {
        "KillShell"
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration { current: Offered::Never, sdk_0_2: Offered::Never, ..ToolDeclaration::EVERYWHERE }
    }

    fn description(&self) -> &str {
        "Stops a command in the background with everything it started."
    }

    fn input_schema(&self) -> &Value {
        &SHELL_SCHEMA
    }

    fn subject(&self, _: &Value) -> CallSubject {
        CallSubject::Session(SessionAccess::Changes)
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(stop(input, context))
    }
}
