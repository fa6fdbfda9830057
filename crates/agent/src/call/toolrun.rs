//! The only way to a tool, for every caller: look-up → schema → input check → hooks → permission → call
//! → bound → hooks → result. The order of this file is the order in which things happen.
//!
//! A call is validated and described once, when its block is finished ([`FinishedBlock`]), and again only when a hook
//! or the host has written another input. What is *decided* from the description is never kept: `permit.rs` looks at
//! rules, mode, folder and disk when the call is about to run.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use lathe_permissions::{AllowBasis, DescribedCall};
use lathe_protocol::{ContentBlock, PermissionDenial, ToolResultMeta};
use lathe_tools::{
    AfterCall, CommandEnvironment, InvalidInput, PathFilter, Shown, Tool, ToolContext, ToolFailure,
    ToolOutput,
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::call::decision::CallDecision;
use crate::call::permit::{PermitOutcome, permit};
use crate::call::siblings::{self, SiblingCalls};
use crate::hooks;
use crate::record::bound::ResultBounds;
use crate::record::response::UnparsedInput;
use crate::record::tool_call::{CallEnd, DescribedInput, ToolCall, ToolCallResult};
use crate::record::tool_result::ToolResult;
use crate::state::agent::AgentHandle;

/// A call that has been validated and described, and the tool that will run it.
#[derive(Debug)]
pub struct PreparedCall {
    pub call: ToolCall,
    /// The tool, or why the call gets a result without being run.
    pub tool: Result<Arc<dyn Tool>, RefusedCall>,
}

/// Why a call cannot run, even with permission.
#[derive(Debug)]
pub enum RefusedCall {
    /// No tool has this name.
    NoTool,
    /// The input does not fit the schema.
    Schema(InvalidInput),
    /// The tool itself rejects the input.
    Tool(ToolFailure),
}

impl PreparedCall {
    /// Looks up the tool of a call, brings the input into the tool's form, and describes and checks it. What is wrong
    /// is kept as the error of `tool` and becomes the result of the call when it is its turn to run; an input that does
    /// not fit the schema stays as the model wrote it.
    pub fn new(agent: &AgentHandle, mut call: ToolCall) -> Self {
        let Some(tool) = agent.tool(&call.name) else { return Self { call, tool: Err(RefusedCall::NoTool) } };
        let fitted = fitting_input(agent, tool.as_ref(), &call.input).map(|input| call.input = input);
        call.description = agent.describe(tool.as_ref(), &call.input);
        let checked = fitted.and_then(|()| tool.check(&call.input).map_err(RefusedCall::Tool));
        Self { tool: checked.map(|()| tool), call }
    }
}

/// Returns the input in the tool's own form, with numbers parsed from strings and defaults filled in. An input that is
/// not JSON, or does not fit the schema, is an error.
fn fitting_input(agent: &AgentHandle, tool: &dyn Tool, input: &Value) -> Result<Value, RefusedCall> {
    if let Some(raw) = UnparsedInput::raw(input) {
        return Err(RefusedCall::Schema(InvalidInput::unparsable(tool.name(), &raw)));
    }
    tool.fit(input.clone()).map_err(|invalid| RefusedCall::Schema(agent.explained(tool, invalid)))
}

/// A finished block of a response. If it is a call, the call has been validated and described.
pub struct FinishedBlock {
    /// The block as it is shown and kept. The input of a call is in the tool's own form, unless it does not fit the
    /// schema: then it stays as the model wrote it.
    pub block: ContentBlock,
    call: Option<PreparedCall>,
}

impl FinishedBlock {
    /// Reads a finished block and prepares the call in it, if it is one. A name that the host has given to a tool is
    /// resolved first. The fitted input replaces the one in the block, unless the model used such a name or the input
    /// is null.
    pub fn new(agent: &AgentHandle, mut block: ContentBlock) -> Self {
        let Some(written) = block.as_tool_use() else { return Self { block, call: None } };
        let name = agent.session.introduction().tool(written.name).to_owned();
        let is_own_name = name == written.name;
        let call = ToolCall {
            id: written.id.to_owned(),
            name,
            input: written.input.clone(),
            description: DescribedCall::unknown(),
            // Set by `into_call`, when the block has been recorded.
            assistant_uuid: String::new(),
        };
        let prepared = PreparedCall::new(agent, call);
        // A call under a name that the host chose is shown as the model wrote it.
        if is_own_name && !prepared.call.input.is_null() {
            block.set_input(prepared.call.input.clone());
        }
        Self { block, call: Some(prepared) }
    }

    /// Returns the call in the block, with `assistant_uuid` as the id of the record that holds it; `None` if the block
    /// is not a call. The block has to be recorded before, because results refer to that record.
    pub fn into_call(self, assistant_uuid: String) -> Option<PreparedCall> {
        let mut prepared = self.call?;
        prepared.call.assistant_uuid = assistant_uuid;
        Some(prepared)
    }
}

impl AgentHandle {
    /// Returns a description of what a call of a tool with this input is about. Rules, hooks and the schedule judge the
    /// description, so it has to be made anew whenever the input changes.
    fn describe(&self, tool: &dyn Tool, input: &Value) -> DescribedCall {
        self.session.permissions().describe(tool.subject(input))
    }

    /// Returns an input that a hook or the host has written in the tool's form, with its description; fails if the tool
    /// does not accept it. Such an input must pass here before it is used, because only the model's was checked before.
    pub(crate) fn validated_input(
        &self,
        tool: &dyn Tool,
        input: Value,
    ) -> Result<DescribedInput, RefusedCall> {
        let value = tool.fit(input).map_err(RefusedCall::Schema)?;
        tool.check(&value).map_err(RefusedCall::Tool)?;
        let description = self.describe(tool, &value);
        Ok(DescribedInput { value, description })
    }
}

/// Runs one call to its end: hooks, permission, the tool, hooks again. Never fails: a refusal or an error is a result
/// too, and a call that a hook defers has its own kind of end. Tools are called only through this, or through
/// [`permitted`] and [`execute`] in this order.
pub async fn run(
    agent: Arc<AgentHandle>,
    prepared: PreparedCall,
    siblings: watch::Receiver<SiblingCalls>,
    cancel: CancellationToken,
) -> CallEnd {
    match permitted(&agent, prepared, siblings, &cancel).await {
        Ok(permitted) => CallEnd::Answered(Box::new(execute(&agent, *permitted, &cancel).await)),
        Err(end) => end,
    }
}

/// Runs everything that precedes the call itself: PreToolUse hooks, permission, and the checkpoint of the file that
/// will change. The error is the end of a call that must not run now: its result, with the notes of the hooks, or its
/// deferral.
pub async fn permitted(
    agent: &Arc<AgentHandle>,
    prepared: PreparedCall,
    siblings: watch::Receiver<SiblingCalls>,
    cancel: &CancellationToken,
) -> Result<Box<PermittedCall>, CallEnd> {
    let ready = run_pre_tool_hooks(agent, prepared, siblings, cancel).await?;
    // Kept, because the result of a refused call carries the notes of the hooks too.
    let said = ready.before.said.clone();
    match ask_permission(agent, ready, cancel).await {
        Ok(permitted) => Ok(Box::new(permitted)),
        Err(answered) => Err(CallEnd::Answered(Box::new(said.added_to(*answered)))),
    }
}

/// A call that the hooks have seen, ready for the decision.
struct Ready {
    tool: Arc<dyn Tool>,
    call: ToolCall,
    /// The input as the hooks saw it.
    told: DescribedInput,
    before: hooks::tools::PreToolUseOutcome,
}

/// Runs the PreToolUse hooks for a call whose input is valid. The error is the end of a call that goes no further: its
/// tool or input is invalid, it was interrupted, or a hook defers it. A deferral counts only for a call without
/// siblings, so it waits until the response shows whether there are any; with siblings it is dropped and the host is
/// told.
async fn run_pre_tool_hooks(
    agent: &Arc<AgentHandle>,
    prepared: PreparedCall,
    siblings: watch::Receiver<SiblingCalls>,
    cancel: &CancellationToken,
) -> Result<Ready, CallEnd> {
    let ended = |answered: ToolCallResult| Err(CallEnd::Answered(Box::new(answered)));
    let PreparedCall { call, tool } = prepared;
    // An interrupt may have come while the call waited for others.
    if cancel.is_cancelled() {
        return ended(interrupted(call, None));
    }
    let tool = match tool {
        Ok(tool) => tool,
        Err(refused) => return ended(refuse_input(agent, call, refused, cancel).await),
    };
    let told = completed_input(agent, tool.as_ref(), &call);
    let mut before = hooks::tools::before(agent, &call, &told, cancel).await;
    if before.defers() {
        match SiblingCalls::known(siblings, cancel).await {
            SiblingCalls::None => return Err(CallEnd::Deferred(Box::new(call))),
            SiblingCalls::Some => siblings::ignore_deferral(agent, &call, &mut before).await,
            // The response was interrupted or cut off. `permit` refuses a call whose verdict is still `defer`.
            SiblingCalls::Unknown => {}
        }
    }
    if cancel.is_cancelled() {
        // Cancelled hooks have decided nothing: the call must not run as if they had agreed.
        return ended(interrupted(call, None));
    }
    Ok(Ready { tool, call, told, before })
}

/// Returns the input that hooks and rules see: the model's, with what the tool itself adds or removes, and a
/// description that fits it.
fn completed_input(agent: &AgentHandle, tool: &dyn Tool, call: &ToolCall) -> DescribedInput {
    let value = tool.complete_input(call.input.clone(), &agent.workspace);
    let description =
        if value == call.input { call.description.clone() } else { agent.describe(tool, &value) };
    DescribedInput { value, description }
}

/// A call that may run.
pub struct PermittedCall {
    tool: Arc<dyn Tool>,
    pub call: ToolCall,
    context: ToolContext,
    meta: ToolResultMeta,
    /// What the hooks said before the call.
    said: hooks::tools::HookNotes,
}

/// Asks whether the call may run. If so, keeps a checkpoint of the file it is about to change and returns the call with
/// the input that was permitted. The error is the result of a call that may not run, with its text bounded.
async fn ask_permission(
    agent: &Arc<AgentHandle>,
    ready: Ready,
    cancel: &CancellationToken,
) -> Result<PermittedCall, Box<ToolCallResult>> {
    let Ready { tool, call, told, before } = ready;
    let said = before.said.clone();
    // A refusal quotes hooks and the host, so its text is bounded like a result.
    let bounds = ResultBounds::of_refusal(&agent.workspace, &call.id, cancel);
    let (input, place, basis, meta) = match permit(agent, tool.as_ref(), &call, told, before, cancel).await {
        PermitOutcome::Yes { input, place, basis, meta } => (input, place, basis, meta),
        PermitOutcome::No { text, meta } => {
            return Err(Box::new(denied(call, &bounds.error_text(text).await, meta)));
        }
        PermitOutcome::Stop { meta } => return Err(Box::new(stopped(call, meta))),
        PermitOutcome::Unusable { text, meta } => {
            let text = bounds.error_text(text).await;
            return Err(Box::new(failed(call, ToolFailure::Rejected(text), Some(meta))));
        }
        PermitOutcome::InvalidInput(refused) => {
            return Err(Box::new(refuse_input(agent, call, refused, cancel).await));
        }
    };
    // From here on the call is what was permitted, which hooks and the host may have changed.
    let call = ToolCall { input: input.value, description: input.description, ..call };
    let context = ToolContext {
        tool_use_id: call.id.clone(),
        cancel: cancel.clone(),
        workspace: agent.workspace.clone(),
        session: agent.clone(),
        place,
        closed_paths: agent.session.permissions().read_filter().map(|filter| Arc::new(filter) as PathFilter),
        // This also decides whether the shell begins with the user's aliases and functions and the files of hooks. A
        // rule, a person or a hook speaks of a command as the user's shell reads it: `git status` with a function `git`
        // of the user is the user's word. A judgement of the text alone holds only if the words mean what they usually
        // do.
        environment: match basis {
            AllowBasis::Granted => CommandEnvironment::Whole,
            AllowBasis::OnlyItsText => CommandEnvironment::OnlyPlain,
        },
    };
    // The checkpoint must hold the file as it was before the call.
    let changed = call.description.subject().changed_file();
    if let Some(path) = changed.and_then(|path| context.real_path(path).ok()) {
        agent.session.checkpoint_file(&path, &call.assistant_uuid, cancel).await;
    }
    Ok(PermittedCall { tool, call, context, meta, said })
}

/// Runs the tool, bounds its result, counts time and changed lines, and fires the hooks that follow a call. The call
/// must come from [`permitted`], because nothing here asks again. Returns a result in any case, with the notes of all
/// hooks.
pub async fn execute(
    agent: &Arc<AgentHandle>,
    permitted: PermittedCall,
    cancel: &CancellationToken,
) -> ToolCallResult {
    let PermittedCall { tool, call, context, meta, said } = permitted;
    let began = Instant::now();
    // Taken before the call: a command may change the folder, but its paths are relative to the old one.
    let cwd = agent.workspace.cwd();
    let outcome = with_heartbeat(agent, &call, tool.call(&call.input, &context)).await;
    let duration_ms = began.elapsed().as_millis() as u64;
    if let Ok(output) = &outcome {
        note_shown_file(agent, &call.description, &cwd, output);
        // Counted here because a bounded result may lack lines.
        agent.session.totals().add_changes(output.effects.changed_lines);
    }
    let ends = matches!(&outcome, Ok(output) if output.effects.after == AfterCall::Ends);
    agent.session.totals().add_tool_time(duration_ms);
    let bounds = ResultBounds::of_call(tool.as_ref(), &context);
    let answered = match bounds.outcome(outcome).await {
        Ok(output) => succeeded(call, output, meta),
        Err(ToolFailure::Interrupted) => interrupted_while_running(call),
        Err(failure) => failed(call, failure, Some(meta)),
    };
    let mut answered = hooks::tools::after(agent, answered, &bounds, duration_ms, cancel).await;
    answered.stops |= ends;
    said.added_to(answered)
}

/// Waits for `work` and returns what it returns. Meanwhile sends the host heartbeats that the tool still runs, if the
/// host takes them.
async fn with_heartbeat<T>(agent: &AgentHandle, call: &ToolCall, work: BoxFuture<'_, T>) -> T {
    if !agent.session.options.client_generation.gets_tool_heartbeats() {
        return work.await;
    }
    tokio::select! {
        biased;
        done = work => done,
        never = agent.session.beat(&call.name, &call.id) => match never {},
    }
}

/// Marks a file as read if the command did nothing but print it, so that the model need not read it again before it
/// edits it. Relative paths start at `cwd`, the folder before the command. A file that was printed in part counts as
/// read in part.
fn note_shown_file(agent: &AgentHandle, call: &DescribedCall, cwd: &Path, output: &ToolOutput) {
    let Some(file) = call.shown_file(cwd) else { return };
    let all_of_it = file.whole && output.effects.shown == Shown::Whole;
    agent.workspace.note_read(&file.path, if all_of_it { Shown::Whole } else { Shown::Part });
}

/// Returns the error result of a call that cannot run because its tool does not exist or its input is invalid. The
/// texts are bounded, because they may quote the input.
async fn refuse_input(
    agent: &AgentHandle,
    call: ToolCall,
    refused: RefusedCall,
    cancel: &CancellationToken,
) -> ToolCallResult {
    let bounds = ResultBounds::of_refusal(&agent.workspace, &call.id, cancel);
    let failure = match refused {
        RefusedCall::NoTool => ToolFailure::Rejected(unknown_tool(agent, &call.name)),
        RefusedCall::Schema(invalid) => {
            let content = bounds.error_text(invalid.content()).await;
            let result = bounds.error_text(invalid.result()).await;
            return error(call, content, json!(result), None);
        }
        RefusedCall::Tool(failure) => failure,
    };
    failed(call, bounds.failure(failure).await, None)
}

/// Returns the result of a call whose tool returned output. The tool may have marked the output as an error; that mark
/// is kept.
fn succeeded(call: ToolCall, output: ToolOutput, meta: ToolResultMeta) -> ToolCallResult {
    let block = ToolResult::of_tool(&call.id, output.content, output.is_error);
    ToolCallResult {
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

/// Returns the error result of a call whose tool failed. A failure without a text is an interruption; then `meta` is
/// replaced by that of an interrupted call.
fn failed(call: ToolCall, failure: ToolFailure, meta: Option<ToolResultMeta>) -> ToolCallResult {
    match (failure.content(), failure.result()) {
        (Some(content), Some(result)) => error(call, content, json!(result), meta),
        _ => interrupted_while_running(call),
    }
}

/// Returns the error result of a call that is not run for the reason `why`, which lies outside of the call, such as a
/// response that the provider stopped. It counts neither as a denial nor as an interruption.
pub fn left_out(call: ToolCall, why: &str) -> ToolCallResult {
    error(call, why.to_owned(), json!(format!("Error: {why}")), None)
}

/// Returns the result of a call that was refused in a way that also ends the turn. It counts as interrupted and as a
/// denial.
fn stopped(call: ToolCall, meta: ToolResultMeta) -> ToolCallResult {
    let denial = denial(&call);
    ToolCallResult { denial: Some(denial), ..interrupted(call, Some(meta)) }
}

/// Returns the entry about this call in the `permission_denials` of the turn's result.
fn denial(call: &ToolCall) -> PermissionDenial {
    PermissionDenial {
        tool_name: call.name.clone(),
        tool_use_id: call.id.clone(),
        tool_input: call.input.clone(),
        ..PermissionDenial::default()
    }
}

/// Returns the error result of a call that was not permitted, with the denial that the result of the turn lists. The
/// turn goes on.
fn denied(call: ToolCall, text: &str, meta: ToolResultMeta) -> ToolCallResult {
    let denial = denial(&call);
    let answered = error(call, text.to_owned(), json!(format!("Error: {text}")), Some(meta));
    ToolCallResult { denial: Some(denial), ..answered }
}

/// Returns the result of a call that was interrupted while its tool was running, with metadata that says so.
fn interrupted_while_running(call: ToolCall) -> ToolCallResult {
    let meta = CallDecision::Interrupted.meta(&call);
    interrupted(call, Some(meta))
}

/// Returns the error result of a call that an interrupt ended, before or while it ran. It is marked as interrupted,
/// which ends the turn once all its siblings have their results.
pub fn interrupted(call: ToolCall, meta: Option<ToolResultMeta>) -> ToolCallResult {
    let text = "The user interrupted this tool call before it finished. Its effects may be partial; \
                wait for the user to say how to go on.";
    let answered = error(call, text.to_owned(), json!("User rejected tool use"), meta);
    ToolCallResult { interrupted: true, ..answered }
}

/// Returns an error result: `content` is what the model reads, `result` is what programs get in `tool_use_result`. It
/// is neither a denial nor interrupted; the caller sets that.
fn error(call: ToolCall, content: String, result: Value, meta: Option<ToolResultMeta>) -> ToolCallResult {
    let block = ToolResult::error(&call.id, content);
    ToolCallResult {
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

/// Returns the error text for a call of a tool that the agent does not have. For a tool that the runtime has and this
/// session does not, the text says that it is disabled.
fn unknown_tool(agent: &AgentHandle, name: &str) -> String {
    if agent.session.known_tools.iter().any(|known| known == name) {
        return format!(
            "Error: No such tool available: {name}. {name} exists but is disabled in this session."
        );
    }
    format!("Error: No such tool available: {name}")
}
