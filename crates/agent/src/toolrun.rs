//! The only way to a tool, for every caller: look-up → schema → input check → hooks → permission → call
//! → hooks → instructions that became due → bounded result. The order of this file is the order in which things happen.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use lathe_protocol::system::Informational;
use lathe_protocol::{PermissionDenial, ToolResultMeta};
use lathe_tools::{
    Content, Effect, InvalidInput, PathFilter, Shown, Tool, ToolContext, ToolFailure, ToolOutput,
};
use lathe_transcript::DeferredCall;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::agent::AgentHandle;
use crate::answer::UNPARSED_INPUT;
use crate::deferred::Siblings;
use crate::hooking;
use crate::permit::{Permitted, permit};
use crate::planning;
use crate::schedule::Access;

/// A call as the model asked for it.
#[derive(Debug, Clone)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub input: Value,
    /// The record of the block that asked, which the result's record points back to.
    pub assistant_uuid: String,
    /// Whether a hook had put it off.
    pub was_deferred: bool,
}

impl ToolCall {
    /// Reads a finished `tool_use` block. A name that the host gave to a tool stands for that tool.
    pub fn from_block(agent: &AgentHandle, block: &Value, assistant_uuid: String) -> Option<Self> {
        if block["type"] != "tool_use" {
            return None;
        }
        let text = |key: &str| block[key].as_str().unwrap_or("");
        let name = agent.session.introduction().tool(text("name")).to_owned();
        Some(Self {
            id: text("id").to_owned(),
            name,
            input: block["input"].clone(),
            assistant_uuid,
            was_deferred: false,
        })
    }
}

impl ToolCall {
    /// A call that an earlier run of the session left to this one.
    pub fn put_off_earlier(call: DeferredCall) -> Self {
        Self {
            id: call.tool_use_id,
            name: call.name,
            input: call.input,
            assistant_uuid: call.assistant_uuid,
            was_deferred: true,
        }
    }
}

/// A finished block as it is shown and kept: the input of a call in the tool's own form, with numbers out
/// of numeric strings and defaults filled in. Anything that does not fit its schema stays as it came.
pub fn in_own_form(agent: &AgentHandle, mut block: Value) -> Value {
    if block["type"] == "tool_use"
        && let Some(tool) = block["name"].as_str().and_then(|name| agent.tool(name))
        && let Ok(input) = tool.fit(block["input"].clone())
    {
        block["input"] = input;
    }
    block
}

/// What became of a call: always exactly one per call.
#[derive(Debug)]
pub struct Answered {
    pub call: ToolCall,
    /// The `tool_result` block for the model and the host.
    pub block: Value,
    /// `tool_use_result`.
    pub result: Value,
    pub meta: Option<ToolResultMeta>,
    pub denial: Option<PermissionDenial>,
    /// Whether it was broken off by an interrupt.
    pub interrupted: bool,
    /// What hooks want the model to know, behind the result.
    pub notes: Vec<String>,
    /// What hooks want people to see, behind the result.
    pub notices: Vec<Informational>,
    /// Whether a hook wants the turn to end here.
    pub stops: bool,
}

/// Whether the call may run beside others. Only a call that will pass look-up and schema can be
/// exclusive: anything else is answered without running.
pub fn access(agent: &AgentHandle, call: &ToolCall) -> Access {
    let Some(tool) = agent.tool(&call.name) else { return Access::Shared };
    let read_only = match tool.effect(&call.input) {
        Effect::ReadOnly => true,
        Effect::Writes => false,
        Effect::Shell(command) => {
            agent.session.permissions().shell_is_read_only(&command, &agent.workspace.cwd())
        }
    };
    if read_only { Access::Shared } else { Access::Exclusive }
}

/// How a call ended.
#[derive(Debug)]
pub enum CallEnd {
    Answered(Box<Answered>),
    /// A hook put it off; it has no answer.
    Deferred(Box<ToolCall>),
}

/// Runs one call through to its answer.
pub async fn run(
    agent: Arc<AgentHandle>,
    call: ToolCall,
    siblings: watch::Receiver<Siblings>,
    cancel: CancellationToken,
) -> CallEnd {
    match permitted(&agent, call, siblings, &cancel).await {
        Ok(permitted) => CallEnd::Answered(Box::new(execute(&agent, *permitted, &cancel).await)),
        Err(end) => end,
    }
}

/// Everything that comes before the call itself; how the call ended, if it got no further.
pub async fn permitted(
    agent: &Arc<AgentHandle>,
    call: ToolCall,
    siblings: watch::Receiver<Siblings>,
    cancel: &CancellationToken,
) -> Result<Box<PermittedCall>, CallEnd> {
    let ready = prepared(agent, call, siblings, cancel).await?;
    let said = ready.before.said.clone();
    match decided(agent, ready, cancel).await {
        Ok(permitted) => Ok(Box::new(permitted)),
        Err(answered) => Err(CallEnd::Answered(Box::new(said.added_to(*answered)))),
    }
}

/// A call that may be decided about.
struct Ready {
    tool: Arc<dyn Tool>,
    call: ToolCall,
    before: hooking::tools::Before,
}

/// Look-up, schema and the hooks that come first; how the call ended, if it got no further.
async fn prepared(
    agent: &Arc<AgentHandle>,
    call: ToolCall,
    siblings: watch::Receiver<Siblings>,
    cancel: &CancellationToken,
) -> Result<Ready, CallEnd> {
    let ended = |answered: Answered| Err(CallEnd::Answered(Box::new(answered)));
    if cancel.is_cancelled() {
        return ended(interrupted(call, None));
    }
    let Some(tool) = agent.tool(&call.name) else {
        let text = unknown_tool(agent, &call.name);
        return ended(failed(call, ToolFailure::Rejected(text), None));
    };
    let input = match checked_input(tool.as_ref(), &call) {
        Ok(input) => input,
        Err(Refused::Schema(invalid)) => return ended(invalid_input(call, &invalid)),
        Err(Refused::Tool(failure)) => return ended(failed(call, failure, None)),
    };
    let input = planning::own_input(agent, tool.name(), input);
    let mut before = hooking::tools::before(agent, &call, input, cancel).await;
    if before.puts_off() {
        match Siblings::known(siblings, cancel).await {
            Siblings::None => return Err(CallEnd::Deferred(Box::new(call))),
            Siblings::Some => {
                let text = format!(
                    "a hook put {} off, which works only for a call that is alone in its answer: it goes on",
                    call.name
                );
                agent.session.trouble("defer_ignored", &text).await;
                before.verdict = None;
            }
            Siblings::Unknown => {}
        }
    }
    if cancel.is_cancelled() {
        // Hooks that were broken off have said nothing: the call must not run as if they had agreed.
        return ended(interrupted(call, None));
    }
    Ok(Ready { tool, call, before })
}

/// A call that may run.
pub struct PermittedCall {
    tool: Arc<dyn Tool>,
    pub call: ToolCall,
    context: ToolContext,
    meta: ToolResultMeta,
    /// What hooks said before it.
    said: hooking::tools::Said,
}

/// Asks whether the call may run; its answer, if it may not.
async fn decided(
    agent: &Arc<AgentHandle>,
    ready: Ready,
    cancel: &CancellationToken,
) -> Result<PermittedCall, Box<Answered>> {
    let Ready { tool, call, before } = ready;
    let said = before.said.clone();
    let (input, place, meta) = match permit(agent, &call, before, cancel).await {
        Permitted::Yes { input, place, meta } => (input, place, meta),
        Permitted::No { text, meta } => return Err(Box::new(denied(call, &text, meta))),
        Permitted::Stop { meta } => return Err(Box::new(stopped(call, meta))),
        Permitted::Senseless { text, meta } => {
            return Err(Box::new(failed(call, ToolFailure::Rejected(text), Some(meta))));
        }
    };
    // Hooks and hosts may have written another input.
    let input = match valid_input(tool.as_ref(), input) {
        Ok(input) => input,
        Err(Refused::Schema(invalid)) => return Err(Box::new(invalid_input(call, &invalid))),
        Err(Refused::Tool(failure)) => return Err(Box::new(failed(call, failure, None))),
    };
    // From here on the call is what was permitted, which hooks and the host may have changed.
    let call = ToolCall { input, ..call };
    let context = ToolContext {
        tool_use_id: call.id.clone(),
        cancel: cancel.clone(),
        workspace: agent.workspace.clone(),
        place,
        closed_paths: agent.session.permissions().read_filter().map(|filter| Arc::new(filter) as PathFilter),
    };
    if let Some(path) = tool.changed_file(&call.input).and_then(|path| context.real_path(path).ok()) {
        agent.session.checkpoint_file(&path, &call.assistant_uuid);
    }
    Ok(PermittedCall { tool, call, context, meta, said })
}

/// The call itself, and the hooks behind it.
pub async fn execute(
    agent: &Arc<AgentHandle>,
    permitted: PermittedCall,
    cancel: &CancellationToken,
) -> Answered {
    let PermittedCall { tool, call, context, meta, said } = permitted;
    let began = Instant::now();
    let cwd = agent.workspace.cwd();
    let outcome = tool.call(&call.input, &context).await;
    let duration_ms = began.elapsed().as_millis() as u64;
    if let (Ok(output), Effect::Shell(command)) = (&outcome, tool.effect(&call.input)) {
        note_shown_file(agent, &command, &cwd, output);
    }
    agent.session.totals().add_tool_time(duration_ms);
    if outcome.is_ok() {
        planning::follow(agent, tool.name()).await;
    }
    let answered = match outcome {
        Ok(output) => succeeded(call, output, meta),
        Err(ToolFailure::Interrupted) => broken_off(call),
        Err(failure) => failed(call, failure, Some(meta)),
    };
    said.added_to(hooking::tools::after(agent, answered, duration_ms, cancel).await)
}

/// A command that did nothing but show a file has read it for the model.
fn note_shown_file(agent: &AgentHandle, command: &str, cwd: &Path, output: &ToolOutput) {
    let shows = agent.session.permissions().shell_shows(command, cwd);
    let Some(file) = shows else { return };
    let all_of_it = file.whole && output.result["persistedOutputPath"].is_null();
    agent.workspace.note_read(&file.path, if all_of_it { Shown::Whole } else { Shown::Part });
}

enum Refused {
    Schema(InvalidInput),
    Tool(ToolFailure),
}

/// Schema, then the tool's own look at the input.
fn checked_input(tool: &dyn Tool, call: &ToolCall) -> Result<Value, Refused> {
    if let Some(unparsed) = call.input.get(UNPARSED_INPUT) {
        let raw = unparsed["raw"].as_str().unwrap_or("");
        return Err(Refused::Schema(InvalidInput::unparsable(tool.name(), raw)));
    }
    valid_input(tool, call.input.clone())
}

fn valid_input(tool: &dyn Tool, input: Value) -> Result<Value, Refused> {
    let input = tool.fit(input).map_err(Refused::Schema)?;
    tool.check(&input).map_err(Refused::Tool)?;
    Ok(input)
}

fn succeeded(call: ToolCall, output: ToolOutput, meta: ToolResultMeta) -> Answered {
    let content = match output.content {
        Content::Text(text) => json!(text),
        Content::Blocks(blocks) => json!(blocks),
    };
    let mut block = json!({"tool_use_id": call.id, "type": "tool_result", "content": content});
    if let Some(is_error) = output.is_error {
        block["is_error"] = json!(is_error);
    }
    Answered {
        call,
        block,
        result: output.result,
        meta: Some(meta),
        denial: None,
        interrupted: false,
        notes: Vec::new(),
        notices: Vec::new(),
        stops: false,
    }
}

fn failed(call: ToolCall, failure: ToolFailure, meta: Option<ToolResultMeta>) -> Answered {
    match (failure.content(), failure.result()) {
        (Some(content), Some(result)) => error(call, content, json!(result), meta),
        _ => broken_off(call),
    }
}

/// The answer to a call that is not run, for a reason that has nothing to do with the call.
pub fn left_out(call: ToolCall, why: &str) -> Answered {
    error(call, why.to_owned(), json!(format!("Error: {why}")), None)
}

fn invalid_input(call: ToolCall, invalid: &InvalidInput) -> Answered {
    error(call, invalid.content(), json!(invalid.result()), None)
}

/// The call was not permitted, and the turn ends with it.
fn stopped(call: ToolCall, meta: ToolResultMeta) -> Answered {
    let denial = denial(&call);
    Answered { denial: Some(denial), ..interrupted(call, Some(meta)) }
}

/// What the result lists about a call that was not permitted.
fn denial(call: &ToolCall) -> PermissionDenial {
    PermissionDenial {
        tool_name: call.name.clone(),
        tool_use_id: call.id.clone(),
        tool_input: call.input.clone(),
        ..PermissionDenial::default()
    }
}

fn denied(call: ToolCall, text: &str, meta: ToolResultMeta) -> Answered {
    let denial = denial(&call);
    let answered = error(call, text.to_owned(), json!(format!("Error: {text}")), Some(meta));
    Answered { denial: Some(denial), ..answered }
}

/// The answer to a call that was running when it was interrupted.
fn broken_off(call: ToolCall) -> Answered {
    let meta = ToolResultMeta {
        id: call.id.clone(),
        non_execution_kind: Some("user-rejected".to_owned()),
        ..ToolResultMeta::default()
    };
    interrupted(call, Some(meta))
}

/// The answer to a call that an interrupt broke off, or that never started because of one.
pub fn interrupted(call: ToolCall, meta: Option<ToolResultMeta>) -> Answered {
    let text = "The user interrupted this tool call before it finished. Its effects may be partial; \
                wait for the user to say how to go on.";
    let answered = error(call, text.to_owned(), json!("User rejected tool use"), meta);
    Answered { interrupted: true, ..answered }
}

fn error(call: ToolCall, content: String, result: Value, meta: Option<ToolResultMeta>) -> Answered {
    let block = json!({"type": "tool_result", "content": content, "is_error": true, "tool_use_id": call.id});
    Answered {
        call,
        block,
        result,
        meta,
        denial: None,
        interrupted: false,
        notes: Vec::new(),
        notices: Vec::new(),
        stops: false,
    }
}

fn unknown_tool(agent: &AgentHandle, name: &str) -> String {
    if agent.session.known_tools.iter().any(|known| known == name) {
        return format!(
            "Error: No such tool available: {name}. {name} exists but is disabled in this session."
        );
    }
    format!("Error: No such tool available: {name}")
}
