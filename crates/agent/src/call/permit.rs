//! Decides whether a call may run: rules and mode first, then the hooks and the host, where they can be asked. A
//! question to the host is answered, refused, withdrawn or impossible; anything but a clear yes means the call does not
//! run.
//!
//! No judgement is kept: rules, mode, directories, the folder of the shell and the disk are looked at when a call is
//! about to run, and again when a hook or the host has agreed to it or changed its input.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lathe_hooks::PermissionVerdict;
use lathe_permissions::{
    AllowBasis, AskedDecision, Decision, Denied, HookVerdict, Judged, PermissionQuestion, Reason, RuleSource,
    ShownAs, resolve_without_host, resolve_without_surface,
};
use lathe_protocol::control::{PermissionAllow, PermissionDeny};
use lathe_protocol::hooks::{
    HookEventInput, HookPermissionDecision, NotificationInput, PermissionRequestDecision,
    PermissionRequestInput,
};
use lathe_protocol::{
    CallSubject, CanUseToolRequest, PermissionMode, PermissionResult, PermissionUpdate, SettingsSource,
    ToolResultMeta, UserQuestion,
};
use lathe_tools::{Tool, telling_text};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::call::decision::{CallDecision, HostGrant};
use crate::call::toolrun::RefusedCall;
use crate::hooks::AboutCall;
use crate::hooks::tools::PreToolUseOutcome;
use crate::record::tool_call::{DescribedInput, ToolCall};
use crate::state::agent::AgentHandle;
use crate::state::config::PromptSurface;
use crate::state::host_questions::AskError;
use crate::state::wire_names::SessionState;

/// The outcome of asking whether a call may run.
pub enum PermitOutcome {
    /// It may, with this input, at this place on disk if it works on one.
    Yes { input: DescribedInput, place: Option<PathBuf>, basis: AllowBasis, meta: ToolResultMeta },
    /// It may not; the model reads `text`, and the call counts as denied.
    No { text: String, meta: ToolResultMeta },
    /// It may not, and the turn is over.
    Stop { meta: ToolResultMeta },
    /// Refused like invalid input, without counting as a denial.
    Unusable { text: String, meta: ToolResultMeta },
    /// A hook or the host wrote an input that the tool does not accept.
    InvalidInput(RefusedCall),
}

/// Decides whether a call may run. A denial by a PreToolUse hook comes first, then the rules judge the input (that of
/// the hook, if it wrote another one), and what they leave open is a question to the PermissionRequest hooks and the
/// host; if no hook decides and the host cannot be asked, or the mode is `dontAsk`, the call is refused. Waits without
/// a time limit for the host, and permits nothing once `cancel` has fired.
pub async fn permit(
    agent: &Arc<AgentHandle>,
    tool: &dyn Tool,
    call: &ToolCall,
    told: DescribedInput,
    before: PreToolUseOutcome,
    cancel: &CancellationToken,
) -> PermitOutcome {
    let PreToolUseOutcome { updated_input, verdict, .. } = before;
    if let Some(refused) = verdict.as_ref().and_then(|verdict| refused_by_hook(call, verdict)) {
        return refused;
    }
    let input = match updated_input {
        Some(updated) if updated != told.value => match agent.validated_input(tool, updated) {
            Ok(input) => input,
            Err(refused) => return PermitOutcome::InvalidInput(refused),
        },
        Some(_) | None => told,
    };
    let (Judged { decision, place }, mode) = judge(agent, call, &input);
    let (decision, by_hook) = match &verdict {
        Some(verdict) => after_verdict(decision, verdict, call),
        None => (decision, false),
    };
    // A hook cannot simply allow a question to a person, but it may fill in the answers.
    let allows = verdict.as_ref().is_some_and(|said| said.behavior == HookPermissionDecision::Allow);
    let answered = allows && *input.description.subject() == CallSubject::Question(UserQuestion::Answered);
    match decision {
        // An interrupt wins over every decision: a cancelled hook has not agreed to anything.
        _ if cancel.is_cancelled() => PermitOutcome::Stop { meta: CallDecision::Interrupted.meta(call) },
        Decision::Allow(allowed) => {
            let reason = allowed.reason.wire_type();
            let decision =
                if by_hook { CallDecision::AllowedByHook(reason) } else { decision_source(&allowed.reason) };
            PermitOutcome::Yes { input, place, basis: allowed.basis, meta: decision.meta(call) }
        }
        Decision::Deny(denied) => refuse(agent, call, denied).await,
        Decision::Ask(asked) if answered && asked.reason.rule().is_none() => {
            let meta = CallDecision::HOOK_ALLOWS.meta(call);
            PermitOutcome::Yes { input, place, basis: AllowBasis::Granted, meta }
        }
        Decision::Ask(asked) => {
            // In `dontAsk` mode PermissionRequest hooks are asked all the same; only the host is not.
            let host = agent.session.surface == PromptSurface::Host && mode != PermissionMode::DontAsk;
            let root = agent.workspace.root.clone();
            let agent_id = agent.identity.child().map(|child| child.agent_id.clone());
            let question = Question { tool, call, input: &input, asked: &asked, place, root, agent_id };
            match settle(agent, &question, host, cancel).await {
                Some(permitted) => permitted,
                None if agent.session.surface == PromptSurface::Closed && mode != PermissionMode::DontAsk => {
                    refuse(agent, call, resolve_without_surface(&asked)).await
                }
                None => refuse(agent, call, resolve_without_host(&asked, mode)).await,
            }
        }
    }
}

/// Returns the decision for a call that was allowed without a question: for good if a rule that the user has in a
/// settings file allows it, otherwise by the configuration of the session.
fn decision_source(reason: &Reason) -> CallDecision {
    use SettingsSource::{Local, Project, User};
    match reason {
        Reason::Rule(rule) if matches!(rule.source, RuleSource::Settings(User | Project | Local)) => {
            CallDecision::AllowedForGood(reason.wire_type())
        }
        _by_the_setup => CallDecision::AllowedByConfig(reason.wire_type()),
    }
}

/// A call that a hook or the host has to agree to.
struct Question<'a> {
    tool: &'a dyn Tool,
    call: &'a ToolCall,
    input: &'a DescribedInput,
    asked: &'a AskedDecision,
    /// The place on disk that the question is about.
    place: Option<PathBuf>,
    /// The project, for short names.
    root: PathBuf,
    /// The child agent that asks; none for the main agent.
    agent_id: Option<String>,
}

impl Question<'_> {
    /// Returns a path inside the project relative to its root. The root itself and any other text are returned
    /// unchanged.
    fn short(&self, text: &str) -> String {
        Path::new(text)
            .strip_prefix(&self.root)
            .ok()
            .and_then(Path::to_str)
            .filter(|short| !short.is_empty())
            .unwrap_or(text)
            .to_owned()
    }
}

/// Returns what the rules say about a call with this input now, and the mode in which they say it. Must be called again
/// after every wait, because rules, mode and folders may change meanwhile.
fn judge(agent: &AgentHandle, call: &ToolCall, input: &DescribedInput) -> (Judged, PermissionMode) {
    let view = agent.view();
    let judged = agent.session.permissions().judge(&PermissionQuestion {
        tool: &call.name,
        input: &input.value,
        call: &input.description,
        cwd: &view.place.cwd,
        scope: &view.scope,
    });
    (judged, view.scope.mode())
}

/// Returns the refusal of a call that a PreToolUse hook denies, or defers where it cannot be deferred. `None` if the
/// hook allows the call or wants a question; then the rules decide.
fn refused_by_hook(call: &ToolCall, verdict: &PermissionVerdict) -> Option<PermitOutcome> {
    let text = match verdict.behavior {
        HookPermissionDecision::Deny => verdict.tool_error(),
        HookPermissionDecision::Defer => {
            format!("{} hook error: the call cannot be deferred here", verdict.hook_name)
        }
        HookPermissionDecision::Allow | HookPermissionDecision::Ask => return None,
    };
    let meta = CallDecision::DeniedByHook.meta(call);
    Some(PermitOutcome::No { text, meta })
}

/// Returns the decision of the rules as an allow or ask of a PreToolUse hook changes it, and whether the call is
/// allowed only because of the hook. A hook lifts neither a deny rule nor an ask rule; if it wants a question, its
/// reason becomes that of the question. Deny and defer change nothing here, because [`refused_by_hook`] has to come
/// before.
fn after_verdict(decision: Decision, verdict: &PermissionVerdict, call: &ToolCall) -> (Decision, bool) {
    let said = match verdict.behavior {
        HookPermissionDecision::Allow => HookVerdict::Allow,
        HookPermissionDecision::Ask => HookVerdict::Ask,
        HookPermissionDecision::Deny | HookPermissionDecision::Defer => return (decision, false),
    };
    let was_allowed = matches!(decision, Decision::Allow(_));
    let mut decision = decision.after_hook(said, &call.name);
    if let (Decision::Ask(asked), Some(reason)) = (&mut decision, &verdict.reason)
        && (matches!(asked.reason, Reason::Hook(_)) || verdict.behavior == HookPermissionDecision::Ask)
    {
        asked.reason = Reason::Hook(reason.clone());
        asked.message.clone_from(reason);
    }
    let by_hook = !was_allowed && matches!(decision, Decision::Allow(_));
    (decision, by_hook)
}

/// Asks the PermissionRequest hooks and, if `host` is true, the host at the same time; the first decision counts. If a
/// hook decides first, the question to the host is withdrawn. `None` if no hook decides and the host is not asked.
async fn settle(
    agent: &Arc<AgentHandle>,
    question: &Question<'_>,
    host: bool,
    cancel: &CancellationToken,
) -> Option<PermitOutcome> {
    let Question { call, input, asked, .. } = *question;
    let hooks = async {
        let event = PermissionRequestInput {
            tool_name: call.name.clone(),
            tool_input: input.value.clone(),
            permission_suggestions: (!asked.suggestions.is_empty()).then(|| asked.suggestions.clone()),
            ..PermissionRequestInput::default()
        };
        let about = AboutCall { id: &call.id, description: &input.description };
        let outcome = agent.fire(HookEventInput::PermissionRequest(event), Some(about), cancel).await;
        outcome.permission_request.map(|verdict| verdict.decision)
    };
    if !host {
        let decision = hooks.await?;
        return Some(decided_by_hook(agent, question, decision).await);
    }
    let withdraw = cancel.child_token();
    let answer = ask_host(agent, question, &withdraw);
    tokio::pin!(hooks, answer);
    tokio::select! {
        permitted = &mut answer => Some(permitted),
        decision = &mut hooks => match decision {
            Some(decision) => {
                withdraw.cancel();
                // Polled to its end, because withdrawing the question means telling the host so.
                answer.await;
                Some(decided_by_hook(agent, question, decision).await)
            }
            None => Some(answer.await),
        },
    }
}

/// Returns the outcome of a decision by a PermissionRequest hook. The hook's permission updates are applied before the
/// call is granted; a denial with `interrupt` ends the turn instead of only this call.
async fn decided_by_hook(
    agent: &Arc<AgentHandle>,
    question: &Question<'_>,
    decision: PermissionRequestDecision,
) -> PermitOutcome {
    let call = question.call;
    match decision {
        PermissionRequestDecision::Allow { updated_input, updated_permissions } => {
            for update in updated_permissions.iter().flatten() {
                apply(agent, update).await;
            }
            let meta = CallDecision::HOOK_ALLOWS.meta(call);
            granted(agent, question, updated_input, meta).await
        }
        PermissionRequestDecision::Deny { interrupt: Some(true), .. } => {
            PermitOutcome::Stop { meta: CallDecision::Interrupted.meta(call) }
        }
        PermissionRequestDecision::Deny { message, interrupt: _ } => {
            let text = message.unwrap_or_else(|| format!("A hook denied {}", call.name));
            let meta = CallDecision::DeniedByHook.meta(call);
            PermitOutcome::No { text, meta }
        }
    }
}

/// Returns the refusal of a call without a question, with the text that the model reads. The host is sent a frame about
/// it, unless the call is refused like invalid input.
async fn refuse(agent: &AgentHandle, call: &ToolCall, denied: Denied) -> PermitOutcome {
    if denied.shown_as == ShownAs::ToolUseError {
        let meta = CallDecision::Unusable(denied.reason.wire_type()).meta(call);
        return PermitOutcome::Unusable { text: denied.message, meta };
    }
    agent.session.emit(agent.frames.permission_denied(&call.name, &call.id, &denied)).await;
    // A question that could not be asked is reported as a refusal by the user, without a reason.
    let decision =
        if denied.was_question { CallDecision::NobodyToAsk } else { CallDecision::denied(&denied.reason) };
    PermitOutcome::No { text: denied.message, meta: decision.meta(call) }
}

/// Sends the host a `can_use_tool` request, waits for the reply without a time limit, and returns the outcome. A
/// question that fails is a refusal; one that `cancel` withdraws ends the turn, and the future has to be polled to its
/// end so that the host is told. Notification hooks are started in the background, and the session shows as requiring
/// action meanwhile.
async fn ask_host(
    agent: &Arc<AgentHandle>,
    question: &Question<'_>,
    cancel: &CancellationToken,
) -> PermitOutcome {
    let call = question.call;
    agent.session.emit_state(SessionState::RequiresAction).await;
    agent.fire_in_background(HookEventInput::Notification(NotificationInput {
        message: format!("Permission is needed to use {}", call.name),
        notification_type: "permission_prompt".to_owned(),
        ..NotificationInput::default()
    }));
    // No time limit: a person decides, and may take hours.
    let answer = agent.session.ask(request(question), cancel, None).await;
    agent.session.emit_state(SessionState::Running).await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(AskError::Withdrawn) => {
            return PermitOutcome::Stop { meta: CallDecision::Interrupted.meta(call) };
        }
        Err(AskError::Closed) => return unsettled(call, "AbortError: Stream closed"),
        Err(error @ (AskError::Refused(_) | AskError::TimedOut(_))) => {
            return unsettled(call, &format!("Error: {error}"));
        }
    };
    match PermissionResult::parse(&answer) {
        Ok(PermissionResult::Allow(allow)) => allowed_by_host(agent, question, allow).await,
        Ok(PermissionResult::Deny(deny)) => denied_by_host(call, deny),
        Ok(PermissionResult::Unknown(_)) => invalid_reply(agent, call, "it is neither allow nor deny").await,
        Err(error) => invalid_reply(agent, call, &error.to_string()).await,
    }
}

/// Returns the `can_use_tool` request that asks the host about the call. The input is sent whole; only a path in the
/// description is made relative to the project.
fn request(question: &Question<'_>) -> CanUseToolRequest {
    let Question { call, input, asked, .. } = *question;
    let description = telling_text(&input.value).map(|text| question.short(text));
    CanUseToolRequest {
        tool_name: call.name.clone(),
        display_name: Some(call.name.clone()),
        input: input.value.clone(),
        tool_use_id: Some(call.id.clone()),
        permission_suggestions: (!asked.suggestions.is_empty()).then(|| asked.suggestions.clone()),
        blocked_path: asked.blocked_path.as_ref().map(|path| path.display().to_string()),
        decision_reason: asked.reason.text(),
        decision_reason_type: asked.reason.wire_type().map(str::to_owned),
        agent_id: question.agent_id.clone(),
        requires_user_interaction: asked.requires_user_interaction.then_some(true),
        description,
        ..CanUseToolRequest::default()
    }
}

/// Returns the outcome for a call that the host allowed. The host's permission updates are applied before the call is
/// judged again, and one that fails does not keep the call from running; only the classification `user_permanent` is
/// reported as a grant for good.
async fn allowed_by_host(
    agent: &Arc<AgentHandle>,
    question: &Question<'_>,
    allow: PermissionAllow,
) -> PermitOutcome {
    let updates = allow.updated_permissions.unwrap_or_default();
    let grant = match allow.decision_classification.as_deref() {
        Some("user_permanent") => HostGrant::ForGood,
        Some(_) | None => HostGrant::Once,
    };
    for update in &updates {
        apply(agent, update).await;
    }
    let meta = CallDecision::AllowedByHost(grant).meta(question.call);
    granted(agent, question, allow.updated_input, meta).await
}

/// Returns the outcome for a call that a hook or the host agreed to. No input in `updated`, an empty one, or one that
/// is not an object means unchanged; another input is another call, which is validated and described like a new one. A
/// rule that denies the call now still does, but nothing is asked again; an unchanged input runs at the place that was
/// asked about, wherever its path leads by now.
async fn granted(
    agent: &Arc<AgentHandle>,
    question: &Question<'_>,
    updated: Option<Value>,
    meta: ToolResultMeta,
) -> PermitOutcome {
    // No input, or an empty one, means unchanged.
    let changed = match updated {
        Some(Value::Object(fields)) if !fields.is_empty() => Some(Value::Object(fields)),
        Some(_) | None => None,
    };
    let changed = changed.filter(|changed| *changed != question.input.value);
    let changed = match changed.map(|changed| agent.validated_input(question.tool, changed)).transpose() {
        Ok(changed) => changed,
        Err(refused) => return PermitOutcome::InvalidInput(refused),
    };
    // Judged again also when the input is unchanged: the rules may have changed while the question was open.
    let (judged, _) = judge(agent, question.call, changed.as_ref().unwrap_or(question.input));
    if let Decision::Deny(denied) = judged.decision {
        return refuse(agent, question.call, denied).await;
    }
    let (input, place) = match changed {
        Some(input) => (input, judged.place),
        None => (question.input.clone(), question.place.clone()),
    };
    PermitOutcome::Yes { input, place, basis: AllowBasis::Granted, meta }
}

/// Applies an update to the rules of the session, to the agent that asked, and to the settings file that it names, and
/// tells the host a changed mode. An update that the session refuses is not saved; a failure is reported to the host
/// and not to the caller.
pub async fn apply(agent: &Arc<AgentHandle>, update: &PermissionUpdate) {
    let (applied, before, mode) = agent.change(|view| {
        let before = view.scope.mode();
        let applied = agent.session.permissions().apply(update, &mut view.scope);
        (applied, before, view.scope.mode())
    });
    if mode != before {
        agent.session.emit(agent.frames.mode_changed(mode.as_str())).await;
    }
    // Only an update that this session accepted is saved: later sessions must not start with a rule that it refused.
    let saved = if applied.is_ok() && names_a_file(update) {
        agent.session.settings.save_permission(update).await
    } else {
        Ok(())
    };
    let trouble = applied.err().map(|error| error.to_string()).or(saved.err());
    if let Some(trouble) = trouble {
        let text = format!("a permission update was not applied: {trouble}");
        agent.session.trouble("permission_update_failed", &text).await;
    }
}

/// Returns whether the update is meant for a settings file and therefore outlives the session. False for an update of
/// an unknown kind.
fn names_a_file(update: &PermissionUpdate) -> bool {
    let destination = match update {
        PermissionUpdate::AddRules(update)
        | PermissionUpdate::ReplaceRules(update)
        | PermissionUpdate::RemoveRules(update) => update.destination,
        PermissionUpdate::SetMode(update) => update.destination,
        PermissionUpdate::AddDirectories(update) | PermissionUpdate::RemoveDirectories(update) => {
            update.destination
        }
        PermissionUpdate::Unknown(_) => return false,
    };
    destination.settings_source().is_some()
}

/// Returns the outcome of a denial by the host: with `interrupt` the turn ends, otherwise the model gets the host's
/// message as the result of the call.
fn denied_by_host(call: &ToolCall, deny: PermissionDeny) -> PermitOutcome {
    if deny.interrupt == Some(true) {
        return PermitOutcome::Stop { meta: CallDecision::Interrupted.meta(call) };
    }
    let meta = CallDecision::DeniedByHost.meta(call);
    PermitOutcome::No { text: deny.message, meta }
}

/// Returns the refusal of a call because the question about it got no reply; `why` is what the model reads. Without a
/// decision, the call must not run.
fn unsettled(call: &ToolCall, why: &str) -> PermitOutcome {
    let meta = CallDecision::Unsettled.meta(call);
    PermitOutcome::No { text: format!("Tool permission request failed: {why}"), meta }
}

/// Returns the refusal of a call because the reply of the host cannot be understood. The error is reported to the host
/// as well as to the model, because the host has to fix it.
async fn invalid_reply(agent: &AgentHandle, call: &ToolCall, why: &str) -> PermitOutcome {
    let text = format!("the answer to can_use_tool for {} ({}) is invalid: {why}", call.name, call.id);
    agent.session.trouble("invalid_permission_result", &text).await;
    let meta = CallDecision::Unsettled.meta(call);
    let text = format!("The permission callback returned an invalid result, so the call was not run: {why}");
    PermitOutcome::No { text, meta }
}
