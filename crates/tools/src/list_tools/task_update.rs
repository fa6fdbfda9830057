//! TaskUpdate: changes a task, or deletes it. The change is made under the lock of the list, to the task as it is then,
//! so that of two agents none undoes what the other did. Hooks are asked before that, without the lock, because they
//! may take minutes.

use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use lathe_protocol::{CallSubject, SessionAccess};
use serde_json::{Map, Value, json};

use super::store::{COMPLETED, ListedTask, LockedTasks, TaskListContent, TaskListError, number};
use crate::{TaskFacts, TaskStep, TaskVerdict, Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput};

/// The TaskUpdate tool.
#[derive(Debug, Default)]
pub struct TaskUpdate;

/// The status that takes a task off the list.
const DELETED: &str = "deleted";

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let ids = |what: &str| json!({"type": "array", "items": {"type": "string"}, "description": what});
    json!({
        "type": "object",
        "properties": {
            "taskId": { "type": "string", "description": "The number of the task" },
            "subject": { "type": "string", "description": "A new title" },
            "description": { "type": "string", "description": "A new description" },
            "activeForm": { "type": "string", "description": "A new title for while it is being done" },
            "status": {
                "type": "string", "enum": ["pending", "in_progress", COMPLETED, DELETED],
                "description": "Where it stands; deleted takes it off the list",
            },
            "addBlocks": ids("Numbers of tasks that have to wait for this one"),
            "addBlockedBy": ids("Numbers of tasks that this one has to wait for"),
            "owner": { "type": "string", "description": "Who works on it" },
            "metadata": { "type": "object", "description": "Keys to add or replace; null removes one" },
        },
        "required": ["taskId"],
        "additionalProperties": false,
    })
});

impl Tool for TaskUpdate {
    fn name(&self) -> &str {
        "TaskUpdate"
    }

    fn declaration(&self) -> ToolDeclaration {
        super::task_create::DECLARATION
    }

    fn description(&self) -> &str {
        "Changes a task of the list. Mark it in_progress when you begin with it and completed as soon as it is wholly \
         done, not before; delete what is no longer wanted."
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
        Box::pin(update(input, context))
    }
}

/// Applies the input to a task, after the hooks were asked if it marks the task as done. Their refusal and an unknown
/// task are returned as the output; an update that contradicts itself is a rejection.
async fn update(input: &Value, context: &ToolContext) -> Result<ToolOutput, ToolFailure> {
    let written = input["taskId"].as_str().unwrap_or_default();
    let id = number(written).map_or_else(|| written.to_owned(), |number| number.to_string());
    let verdict = match super::read(context).await?.get(&id) {
        None => return Ok(refused(&id, super::TASK_NOT_FOUND.to_owned())),
        Some(task) => ask_hooks(task, input, context).await?,
    };
    if let Some(why) = verdict.objection {
        return Ok(refused(&id, why).then(verdict.after));
    }
    let wanted = (id.clone(), input.clone());
    let outcome = super::change(context, move |list| carry_out(list, &wanted.0, &wanted.1)).await?;
    let output = match outcome {
        // It was deleted while the hooks were asked.
        Change::NoTask => refused(&id, super::TASK_NOT_FOUND.to_owned()),
        Change::NotPossible(why) => return Err(ToolFailure::Rejected(why)),
        Change::Made { fields, status } => made(&id, &fields, status),
    };
    Ok(output.then(verdict.after))
}

/// Asks the TaskCompleted hooks if the update marks the task as done; otherwise returns a verdict without an objection.
/// Must not be called under the lock of the list, because hooks may take minutes.
async fn ask_hooks(
    task: &ListedTask,
    input: &Value,
    context: &ToolContext,
) -> Result<TaskVerdict, ToolFailure> {
    if input["status"] != COMPLETED || task.status == COMPLETED {
        return Ok(TaskVerdict::default());
    }
    let text = |key: &str, now: &str| input[key].as_str().unwrap_or(now).to_owned();
    let facts = TaskFacts {
        id: task.id.clone(),
        subject: text("subject", &task.subject),
        description: text("description", &task.description),
    };
    context.session.clone().ask_about_task(TaskStep::Completed, facts, context.cancel.clone()).await
}

/// What came of an update.
enum Change {
    /// No task has this id.
    NoTask,
    /// It makes no sense, for the model to read.
    NotPossible(String),
    /// These fields are different now, and perhaps the status: before and after.
    Made { fields: Vec<&'static str>, status: Option<(String, String)> },
}

/// Changes or deletes the task as it is now under the lock, and writes the other side of each new dependency into the
/// other task. Nothing is written if the task is gone, or if the input names a task that does not exist.
fn carry_out(list: &LockedTasks<'_>, id: &str, input: &Value) -> Result<Change, TaskListError> {
    let mut content = list.read()?;
    let Some(task) = content.get(id).cloned() else { return Ok(Change::NoTask) };
    if input["status"] == DELETED {
        list.delete(id)?;
        return Ok(Change::Made { fields: vec![DELETED], status: Some((task.status, DELETED.to_owned())) });
    }
    let related = others(&content, id, input, "addBlocks")
        .and_then(|blocks| Ok((blocks, others(&content, id, input, "addBlockedBy")?)));
    let (blocks, blocked_by) = match related {
        Ok(related) => related,
        Err(why) => return Ok(Change::NotPossible(why)),
    };
    let mut new = task.clone();
    let mut fields = set_fields(&mut new, input);
    if add_ids(&mut new.blocks, &blocks) {
        fields.push("blocks");
    }
    if add_ids(&mut new.blocked_by, &blocked_by) {
        fields.push("blockedBy");
    }
    let status = (new.status != task.status).then(|| (task.status.clone(), new.status.clone()));
    if new != task {
        list.write(&new)?;
    }
    let this = [id.to_owned()];
    for (number, other) in &mut content.tasks {
        let is_named = |ids: &[String]| ids.iter().any(|id| id == &number.to_string());
        let waits = is_named(&blocks) && add_ids(&mut other.blocked_by, &this);
        let is_waited_for = is_named(&blocked_by) && add_ids(&mut other.blocks, &this);
        if waits || is_waited_for {
            list.write(other)?;
        }
    }
    Ok(Change::Made { fields, status })
}

/// Sets the fields that the input names. Returns the names of those that have changed, in the order in which the model
/// is told. An empty active form or owner removes it.
fn set_fields(task: &mut ListedTask, input: &Value) -> Vec<&'static str> {
    let mut fields = Vec::new();
    let mut set = |now: &mut String, key: &'static str| {
        if let Some(new) = input[key].as_str().filter(|new| new != now) {
            new.clone_into(now);
            fields.push(key);
        }
    };
    set(&mut task.subject, "subject");
    set(&mut task.description, "description");
    for (now, key) in [(&mut task.active_form, "activeForm"), (&mut task.owner, "owner")] {
        let mut text = now.take().unwrap_or_default();
        set(&mut text, key);
        *now = (!text.is_empty()).then_some(text);
    }
    let before = task.metadata.clone();
    if let Some(changes) = input["metadata"].as_object() {
        merge(&mut task.metadata, changes);
    }
    if task.metadata != before {
        fields.push("metadata");
    }
    if let Some(status) = input["status"].as_str().filter(|status| *status != task.status) {
        status.clone_into(&mut task.status);
        fields.push("status");
    }
    fields
}

/// Adds and replaces keys of the metadata; null removes a key. Metadata without a key becomes `None`.
fn merge(metadata: &mut Option<Map<String, Value>>, changes: &Map<String, Value>) {
    let mut merged = metadata.take().unwrap_or_default();
    for (key, value) in changes {
        match value {
            Value::Null => drop(merged.shift_remove(key)),
            value => drop(merged.insert(key.clone(), value.clone())),
        }
    }
    *metadata = (!merged.is_empty()).then_some(merged);
}

/// Returns the ids of the other tasks that a field of the input names; none if it is missing. The error names a task
/// that does not exist, or the task itself.
fn others(content: &TaskListContent, id: &str, input: &Value, key: &str) -> Result<Vec<String>, String> {
    let named = input[key].as_array().into_iter().flatten().filter_map(Value::as_str);
    named
        .map(|name| match content.get(name) {
            Some(task) if task.id == id => Err(format!("Task #{id} cannot wait for itself ({key}).")),
            Some(task) => Ok(task.id.clone()),
            None => Err(format!("Task {name} of {key} is not on the list; nothing was changed.")),
        })
        .collect()
}

/// Adds the ids that are not in the list yet. Returns whether there were any.
fn add_ids(ids: &mut Vec<String>, more: &[String]) -> bool {
    let before = ids.len();
    for id in more {
        if !ids.contains(id) {
            ids.push(id.clone());
        }
    }
    ids.len() > before
}

/// Returns the output of an update that was made.
fn made(id: &str, fields: &[&str], status: Option<(String, String)>) -> ToolOutput {
    let names = if fields.is_empty() { "(no change)".to_owned() } else { fields.join(", ") };
    let mut result = json!({"success": true, "taskId": id, "updatedFields": fields});
    if let Some((from, to)) = status {
        result["statusChange"] = json!({"from": from, "to": to});
    }
    super::told(format!("Updated task #{id} {names}"), result)
}

/// Returns the output of an update that was not made. It is not an error, so that the model continues with another
/// task.
fn refused(id: &str, why: String) -> ToolOutput {
    let result = json!({"success": false, "taskId": id, "updatedFields": [], "error": why});
    super::told(why, result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_stay_the_same_are_not_told() {
        let mut task = ListedTask {
            id: "1".to_owned(),
            subject: "s".to_owned(),
            status: "pending".to_owned(),
            ..ListedTask::default()
        };
        let all = json!({
            "metadata": {"k": 1}, "status": "in_progress", "owner": "me", "activeForm": "doing", "description": "d",
            "subject": "t",
        });
        let order = ["subject", "description", "activeForm", "owner", "metadata", "status"];
        assert_eq!(set_fields(&mut task, &all), order);
        assert!(set_fields(&mut task, &all).is_empty());
        assert_eq!(
            set_fields(&mut task, &json!({"owner": "", "metadata": {"k": null, "l": null}})),
            ["owner", "metadata"]
        );
        assert_eq!((&task.owner, &task.metadata, task.active_form.as_deref()), (&None, &None, Some("doing")));
    }

    #[test]
    fn metadata_is_merged() {
        let object = |value: Value| value.as_object().cloned();
        let mut metadata = object(json!({"a": 1, "b": 2}));
        merge(&mut metadata, &object(json!({"b": null, "c": {"d": 3}})).unwrap());
        assert_eq!(metadata, object(json!({"a": 1, "c": {"d": 3}})));
    }
}
