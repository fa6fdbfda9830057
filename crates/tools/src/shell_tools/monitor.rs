//! Monitor: watches something by a command whose lines are events. It runs as a background task of its own kind; the
//! session collects its lines and tells the model of them as they come.
//!
//! Only stdout counts as events. What the command prints to stderr goes to the output file with everything else. A
//! WebSocket as the source is not offered: it would take a further client in the program, which few sessions need.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use lathe_exec::{Capture, Leftovers, OutputLimit, OutputMode, OutputStream, RunLimits, SpillFile, WhenFull};
use lathe_protocol::CallSubject;
use serde_json::{Value, json};

use super::bash;
use crate::{
    BackgroundPolicy, CommandTask, Content, Loading, Offered, TASK_FILE_BYTES, TaskGround, TaskKind, Tool,
    ToolContext, ToolDeclaration, ToolFailure, ToolOutput, exit_line,
};

/// Bytes of stdout that wait in memory until they are told of.
const WAITING_BYTES: usize = 64 << 10;

/// The Monitor tool.
#[derive(Debug, Default)]
pub struct Monitor;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "description": { "type": "string", "description": "What is watched, in a few words; stands in each notice" },
            "timeout_ms": { "type": "number", "default": 300_000, "minimum": 1000, "maximum": 3_600_000,
                "description": "Milliseconds after which the watch ends" },
            "command": { "type": "string", "description": "Prints one line for each event" },
        },
        "required": ["description", "timeout_ms", "command"],
        "additionalProperties": false,
    })
});

impl Tool for Monitor {
    fn name(&self) -> &str {
        "Monitor"
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            current: Offered::WithBash,
            sdk_0_2: Offered::Never,
            cli_1_0: Offered::Never,
            loading: Loading::Deferred,
            ..ToolDeclaration::EVERYWHERE
        }
    }

    fn description(&self) -> &str {
        "Runs a command in the background and reports each line that it prints to stdout as an event, for things to wait \
         for: a log, a build, a file. Lines that come together are one event. Print only what matters (grep \
         --line-buffered, an until loop that echoes once): a command that floods is stopped. It ends with its command, \
         with its timeout, or with TaskStop."
    }

    fn input_schema(&self) -> &Value {
        &SCHEMA
    }

    fn main_input(&self) -> Option<&str> {
        Some("command")
    }

    fn subject(&self, input: &Value) -> CallSubject {
        match input["command"].as_str() {
            Some(command) => CallSubject::Shell { command: command.to_owned() },
            None => CallSubject::Unknown,
        }
    }

    fn check(&self, input: &Value) -> Result<(), ToolFailure> {
        bash::check_command(input["command"].as_str().unwrap_or_default())
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(start(input, context))
    }
}

/// Starts the command as a background task and returns; the session tells the model of its lines as they come. Fails,
/// and leaves nothing running, if the session allows no further task or the output cannot be kept.
async fn start(input: &Value, context: &ToolContext) -> Result<ToolOutput, ToolFailure> {
    let (workspace, session) = (&*context.workspace, &context.session);
    let not_started = |why: String| ToolFailure::Failed(format!("Not started: {why}"));
    if session.background_policy() == BackgroundPolicy::Off {
        return Err(not_started("nothing may run in the background in this session".to_owned()));
    }
    let command = input["command"].as_str().unwrap_or_default();
    let timeout = Duration::from_millis(input["timeout_ms"].as_f64().unwrap_or_default() as u64);
    let place = session.new_task().map_err(not_started)?;
    let file = SpillFile {
        path: place.output_file.clone(),
        cap_bytes: TASK_FILE_BYTES,
        exit_line: Some(exit_line),
        when_full: WhenFull::KeepTail,
    };
    let in_memory =
        |tail_bytes: usize| Capture { head_bytes: 0, tail_bytes, spill: None, limit: OutputLimit::None };
    let limits = RunLimits {
        stdout: in_memory(WAITING_BYTES),
        stderr: in_memory(0),
        both: Some(Capture { spill: Some(file), ..in_memory(0) }),
        ..RunLimits::default()
    };
    // Before the shell starts, because a monitor may be the first command of the session.
    workspace.shell_startup.prepare(context).await;
    let mut spec = bash::spec(command, &workspace.cwd(), context);
    spec.output = OutputMode::Separate;
    // The watch is over when its command has ended.
    spec.leftovers = Leftovers::KillNow;
    let running =
        workspace.ledger.start(spec, limits).map_err(|error| bash::not_started(&error, workspace))?;
    // Dropped on an error, which kills the command.
    running
        .keep_in_file(OutputStream::Both, None)
        .map_err(|why| not_started(format!("its output cannot be kept: {why}")))?;
    running.detach(timeout);
    let task = CommandTask {
        place: place.clone(),
        kind: TaskKind::Monitor,
        job: (*running).clone(),
        command: command.to_owned(),
        description: input["description"].as_str().unwrap_or(command).to_owned(),
        tool_use_id: context.tool_use_id.clone(),
        ground: TaskGround::Background,
    };
    Arc::clone(session).add_task(task).await;
    let text = format!(
        "Monitor started (task {}, for at most {}s; a notice tells of its end). Each event comes as a notice, also between \
         turns: go on with other work and do not wait for it. A notice is not an answer of the user. Everything it prints \
         is in {}.",
        place.id,
        timeout.as_millis() as f64 / 1000.0,
        place.output_file.display(),
    );
    let result = json!({ "taskId": place.id, "timeoutMs": timeout.as_millis() as u64, "persistent": false });
    Ok(ToolOutput::new(Content::Text(text), result))
}
