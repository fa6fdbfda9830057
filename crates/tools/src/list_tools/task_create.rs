//! TaskCreate: puts a task on the list. The hooks are asked under the number that the task will have; a number whose
//! task was refused is not used again.

use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use lathe_protocol::{CallSubject, SessionAccess};
use serde_json::{Value, json};

use super::store::ListedTask;
use crate::{
    Loading, Offered, TaskFacts, TaskStep, Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput,
};

/// The TaskCreate tool.
#[derive(Debug, Default)]
pub struct TaskCreate;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "subject": { "type": "string", "description": "A short title, as an order" },
            "description": { "type": "string", "description": "What is to be done, and when it counts as done" },
            "activeForm": { "type": "string", "description": "The title while it is being done, for example: Running the tests" },
            "metadata": { "type": "object", "description": "Anything else to keep with it" },
        },
        "required": ["subject", "description"],
        "additionalProperties": false,
    })
});

/// Which sessions and agents have the tools of the task list.
pub(super) const DECLARATION: ToolDeclaration = ToolDeclaration {
    current: Offered::WithTaskList,
    sdk_0_2: Offered::WithTaskList,
    cli_1_0: Offered::WithTaskList,
    loading: Loading::Deferred,
    for_background_agents: false,
    ..ToolDeclaration::EVERYWHERE
};

impl Tool for TaskCreate {
    fn name(&self) -> &str {
        "TaskCreate"
    }

    fn declaration(&self) -> ToolDeclaration {
        DECLARATION
    }

    fn description(&self) -> &str {
        "Puts a task on the list of your work. For work of several steps, or when the user names several things; one \
         task for each, before you begin. It starts as pending."
    }

    fn input_schema(&self) -> &Value {
        &SCHEMA
    }

    fn subject(&self, _: &Value) -> CallSubject {
        CallSubject::Session(SessionAccess::Changes)
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(create(input, context))
    }
}

/// Reserves a number, asks the hooks, and writes the task if none refuses; a refusal is returned as the output, and its
/// number is not given out again. The lock is not held while hooks run.
async fn create(input: &Value, context: &ToolContext) -> Result<ToolOutput, ToolFailure> {
    let text = |key: &str| input[key].as_str().unwrap_or_default().to_owned();
    let task = ListedTask {
        id: super::change(context, |list| list.new_id()).await?,
        subject: text("subject"),
        description: text("description"),
        active_form: input["activeForm"].as_str().map(str::to_owned),
        status: "pending".to_owned(),
        metadata: input["metadata"].as_object().cloned(),
        ..ListedTask::default()
    };
    let facts = TaskFacts {
        id: task.id.clone(),
        subject: task.subject.clone(),
        description: task.description.clone(),
    };
    let asked = context.session.clone().ask_about_task(TaskStep::Created, facts, context.cancel.clone());
    let verdict = asked.await?;
    if let Some(why) = verdict.objection {
        let result = json!(format!("Error: {why}"));
        return Ok(ToolOutput { is_error: Some(true), ..super::told(why, result) }.then(verdict.after));
    }
    let told = super::told(
        format!("Task #{} created successfully: {}", task.id, task.subject),
        json!({"task": {"id": task.id, "subject": task.subject, "description": task.description}}),
    );
    super::change(context, move |list| list.write(&task)).await?;
    Ok(told.then(verdict.after))
}
