//! TaskOutput and BashOutput: what a command in the background has printed. TaskOutput can wait for its end;
//! BashOutput, for clients of an earlier generation, returns what is new since its last call.

use std::sync::LazyLock;
use std::time::Duration;

use futures_util::future::BoxFuture;
use lathe_exec::OutputStream;
use lathe_protocol::text::first_chars;
use lathe_protocol::{CallSubject, SessionAccess};
use regex::Regex;
use serde_json::{Value, json};

use crate::{
    Content, InvalidInput, Offered, TaskReport, TaskStatus, Tool, ToolContext, ToolDeclaration, ToolFailure,
    ToolOutput,
};

/// The TaskOutput tool.
#[derive(Debug, Default)]
pub struct TaskOutput;

/// The BashOutput tool.
#[derive(Debug, Default)]
pub struct BashOutput;

/// Bytes of output that are read for one call: the end of what was printed.
const READ_BYTES: usize = 120 << 10;

static TASK_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "task_id": { "type": "string", "description": "The ID of the task" },
            "block": { "type": "boolean", "default": true, "description": "Waits for the end of the task" },
            "timeout": { "type": "number", "default": 30000, "minimum": 0, "maximum": 600_000,
                "description": "The longest wait in milliseconds" },
        },
        "required": ["task_id", "block", "timeout"],
        "additionalProperties": false,
    })
});

static BASH_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "bash_id": { "type": "string", "description": "The ID of the command" },
            "filter": { "type": "string", "description": "A regular expression: only lines with a match are shown" },
        },
        "required": ["bash_id"],
        "additionalProperties": false,
    })
});

/// Returns the error for an id without a task.
pub(super) fn no_task(id: &str) -> ToolFailure {
    ToolFailure::Rejected(format!("No task found with ID: {id}"))
}

impl Tool for TaskOutput {
    fn name(&self) -> &str {
        "TaskOutput"
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            current: Offered::Never,
            cli_1_0: Offered::Never,
            for_subagents: false,
            for_background_agents: false,
            ..ToolDeclaration::EVERYWHERE
        }
    }

    fn description(&self) -> &str {
        "Returns what a background task has printed and whether it has ended; with block it waits for the end."
    }

    fn input_schema(&self) -> &Value {
        &TASK_SCHEMA
    }

    /// The model may leave out what has a default.
    fn fit(&self, mut input: Value) -> Result<Value, InvalidInput> {
        if let Some(fields) = input.as_object_mut() {
            fields.entry("block").or_insert(true.into());
            fields.entry("timeout").or_insert(30_000.into());
        }
        crate::validate(self.name(), &TASK_SCHEMA, input)
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
            let id = input["task_id"].as_str().unwrap_or_default();
            let find = || context.session.task_report(id).ok_or_else(|| no_task(id));
            let first = find()?;
            let blocks = input["block"].as_bool() != Some(false);
            let mut is_over = first.status != TaskStatus::Running || !first.job.is_running();
            if blocks && !is_over {
                let time = Duration::from_millis(input["timeout"].as_f64().unwrap_or(30_000.0) as u64);
                tokio::select! {
                    _ = first.job.wait() => is_over = true,
                    () = tokio::time::sleep(time) => {}
                    () = context.cancel.cancelled() => return Err(ToolFailure::Interrupted),
                }
            }
            let retrieval = match (is_over, blocks) {
                (true, _) => "success",
                (false, true) => "timeout",
                (false, false) => "not_ready",
            };
            if is_over {
                context.session.note_end_seen(id);
            }
            Ok(told(&find()?, is_over, retrieval))
        })
    }
}

/// Returns the output of the call. `is_over` says that the command has ended, which the session may learn a moment
/// later; then its exit code is asked of the command.
fn told(task: &TaskReport, is_over: bool, retrieval: &str) -> ToolOutput {
    let (status, exit_code) = match (task.status, is_over) {
        (TaskStatus::Running, true) => match task.job.exit_now().map(crate::exit_code) {
            Some(0) => (TaskStatus::Completed, Some(0)),
            other => (TaskStatus::Failed, other),
        },
        (status, _) => (status, task.exit_code),
    };
    let output = end_of_output(task);
    let mut parts = vec![
        format!("<retrieval_status>{retrieval}</retrieval_status>"),
        format!("<task_id>{}</task_id>", task.id),
        "<task_type>local_bash</task_type>".to_owned(),
        format!("<status>{}</status>", status.wire_name()),
    ];
    parts.extend(exit_code.map(|code| format!("<exit_code>{code}</exit_code>")));
    if !output.is_empty() {
        parts.push(format!("<output>\n{}\n</output>", output.trim_end_matches('\n')));
    }
    let result = json!({
        "retrieval_status": retrieval,
        "task": {
            "task_id": task.id,
            "task_type": "local_bash",
            "status": status.wire_name(),
            "description": task.description,
            "output": output,
            "exitCode": exit_code,
        },
    });
    ToolOutput::new(Content::Text(parts.join("\n\n")), result)
}

/// Returns the last [`READ_BYTES`] bytes of what the task has printed to stdout, as text. It may begin in the middle of
/// a line; bytes that are not UTF-8 are replaced.
fn end_of_output(task: &TaskReport) -> String {
    let total = task.job.total_bytes(OutputStream::Stdout);
    let part = task.job.read_from(OutputStream::Stdout, total.saturating_sub(READ_BYTES as u64), READ_BYTES);
    String::from_utf8_lossy(&part.bytes).into_owned()
}

impl Tool for BashOutput {
    fn name(&self) -> &str {
        "BashOutput"
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration { current: Offered::Never, sdk_0_2: Offered::Never, ..ToolDeclaration::EVERYWHERE }
    }

    fn description(&self) -> &str {
        "Returns what a command in the background has printed since the last call, and whether it has ended."
    }

    fn input_schema(&self) -> &Value {
        &BASH_SCHEMA
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
            let id = input["bash_id"].as_str().unwrap_or_default();
            let filter = input["filter"].as_str().map(Regex::new).transpose();
            let filter = filter.map_err(|error| ToolFailure::Rejected(format!("filter: {error}")))?;
            let task = context.session.task_report(id).ok_or_else(|| no_task(id))?;
            let from = context.session.take_read_offset(id, task.job.total_bytes(OutputStream::Stdout));
            let part = task.job.read_from(OutputStream::Stdout, from, READ_BYTES);
            let text = String::from_utf8_lossy(&part.bytes).into_owned();
            let shown = match filter {
                Some(filter) => {
                    text.lines().filter(|line| filter.is_match(line)).collect::<Vec<_>>().join("\n")
                }
                None => first_chars(text.trim_end(), READ_BYTES).to_owned(),
            };
            let mut parts = vec![format!("<status>{}</status>", task.status.wire_name())];
            parts.extend(task.exit_code.map(|code| format!("<exit_code>{code}</exit_code>")));
            if !shown.is_empty() {
                parts.push(format!("<stdout>\n{shown}\n</stdout>"));
            }
            let result = json!({
                "shellId": id,
                "command": task.command,
                "status": task.status.wire_name(),
                "exitCode": task.exit_code,
                "stdout": shown,
                "stderr": "",
            });
            if task.status != TaskStatus::Running {
                context.session.note_end_seen(id);
            }
            Ok(ToolOutput::new(Content::Text(parts.join("\n\n")), result))
        })
    }
}
