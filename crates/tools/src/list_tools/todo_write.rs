//! TodoWrite: replaces the list of things to do that one agent keeps. The agent holds it, and gives it back to the
//! model when the conversation has been compacted.

use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use lathe_protocol::{CallSubject, SessionAccess};
use serde_json::{Value, json};

use super::store::COMPLETED;
use crate::{Offered, TodoItem, Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput};

/// The TodoWrite tool.
#[derive(Debug, Default)]
pub struct TodoWrite;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "todos": {
                "type": "array",
                "description": "The whole list, in the order in which it is worked off",
                "items": {
                    "type": "object",
                    "properties": {
                        "content": { "type": "string", "minLength": 1, "description": "What is to be done" },
                        "status": { "type": "string", "enum": ["pending", "in_progress", COMPLETED] },
                        "activeForm": { "type": "string", "minLength": 1, "description": "The same while it is being done, for example: Running the tests" },
                    },
                    "required": ["content", "status", "activeForm"],
                    "additionalProperties": false,
                },
            },
        },
        "required": ["todos"],
        "additionalProperties": false,
    })
});

impl Tool for TodoWrite {
    fn name(&self) -> &str {
        "TodoWrite"
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            current: Offered::WithTodoList,
            sdk_0_2: Offered::WithTodoList,
            cli_1_0: Offered::WithTodoList,
            ..ToolDeclaration::EVERYWHERE
        }
    }

    fn description(&self) -> &str {
        "Replaces your list of things to do. For work of several steps: write the list before you begin, keep one entry \
         in_progress, and mark each as completed as soon as it is wholly done."
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
        Box::pin(async move {
            let new = TodoItem::list(&input["todos"]);
            let done = new.iter().filter(|todo| todo.status == COMPLETED).count();
            let text =
                format!("The list is written: {done} of {} done. Go on with the next entry.", new.len());
            let result = json!({"oldTodos": context.session.replace_todos(new.clone()), "newTodos": new});
            Ok(super::told(text, result))
        })
    }
}
