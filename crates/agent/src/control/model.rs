//! Changes the model of the session, for the host, a setting or a command. Hooks may refuse a change before it is made,
//! and hear of it afterwards; it takes effect with the next request, also within a turn.

use std::sync::Arc;

use lathe_hooks::ContextText;
use lathe_models::catalog::Phase;
use lathe_models::{CacheTtl, prices};
use lathe_protocol::control::{ControlError, ControlResponse, SetModelRequest};
use lathe_protocol::hooks::{HookEventInput, HookPermissionDecision, ModelSwitchInput};
use lathe_protocol::{HookEvent, Usage};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Reply;
use crate::control::pending_requests::PendingRequests;
use crate::state::agent::AgentHandle;

/// How long the API keeps a cached prefix, in milliseconds.
const FIVE_MINUTES_MS: u64 = 5 * 60 * 1000;
const ONE_HOUR_MS: u64 = 60 * 60 * 1000;

/// A requested change of the model.
struct Switch {
    from: String,
    to: String,
    /// The name that was asked for.
    requested: Value,
}

/// Handles `set_model`; no name, null or an empty one means the model that the session began with. Returns the reply if
/// no hook listens and no change is in progress; otherwise starts the change in the background and returns `None`,
/// because hooks take their time.
pub(super) async fn set(
    agent: &Arc<AgentHandle>,
    pending: &mut PendingRequests,
    id: String,
    body: SetModelRequest,
) -> Option<Reply> {
    let wanted = body.model.flatten().filter(|name| !name.is_empty());
    // A change behind another one waits for it, whether hooks have a say or not.
    if !hooked(agent) && !pending.is_changing() {
        let resolved = apply(agent, &switch_to(agent, wanted.as_deref())).await;
        return Some(Reply::Success(json!({"model": resolved})));
    }
    let (agent, request) = (agent.clone(), id.clone());
    pending.change(id, |withdraw| async move {
        // Only now, because the change before this one has been made by now.
        let switch = switch_to(&agent, wanted.as_deref());
        if let Some(refused) = refusal(&agent, &request, &switch, &withdraw).await {
            return refused;
        }
        let resolved = apply(&agent, &switch).await;
        agent.session.emit(ControlResponse::success(request, json!({"model": resolved}))).await;
        tell_hooks(&agent, &switch, &withdraw).await;
        Reply::Sent
    });
    None
}

/// Changes the model because a setting changed; `None` means the model that the session began with. Hooks are neither
/// asked nor told, because the host or user has decided already.
pub(super) async fn follow_setting(agent: &Arc<AgentHandle>, wanted: Option<&str>) {
    apply(agent, &switch_to(agent, wanted)).await;
}

/// Changes the model for a command, which shows the change itself, so no frame about it is sent. Hooks are asked before
/// and told afterwards. Returns the id of the new model, or a text with the objection of a hook; the model stays then.
pub(crate) async fn switch(
    agent: &Arc<AgentHandle>,
    name: &str,
    withdraw: &CancellationToken,
) -> Result<String, String> {
    let switch = switch_to(agent, Some(name));
    if let Some(reason) = objection(agent, &switch, withdraw).await {
        return Err(blocked(&reason));
    }
    agent.change_model(&switch.to);
    tell_hooks(agent, &switch, withdraw).await;
    Ok(switch.to)
}

/// Returns the message for a switch that a `PreModelSwitch` hook refused.
fn blocked(reason: &str) -> String {
    format!("Model switch blocked by a PreModelSwitch hook: {reason}")
}

/// Returns whether hooks listen to a switch, before or after it. Such a switch has to run in the background.
fn hooked(agent: &AgentHandle) -> bool {
    agent.session.listens(&HookEvent::PreModelSwitch) || agent.session.listens(&HookEvent::PostModelSwitch)
}

/// Describes a switch from the current model. No name, or `default`, means the model that the session began with. Call
/// it only when earlier changes are done, because it reads the current model.
fn switch_to(agent: &AgentHandle, wanted: Option<&str>) -> Switch {
    let to = match wanted {
        None | Some("default") => agent.session.first_model.clone(),
        Some(name) => agent.session.process.catalog.resolve(name, Phase::Working),
    };
    Switch { from: agent.choice().id.clone(), to, requested: json!(wanted) }
}

/// Makes `switch.to` the model from the next request on, tells the host if it is another one, and returns its id.
/// Hooks are neither asked nor told: that is up to the caller.
async fn apply(agent: &Arc<AgentHandle>, switch: &Switch) -> String {
    agent.change_model(&switch.to);
    if switch.from != switch.to {
        let text = format!("Set model to {}", switch.to);
        agent.session.emit(agent.frames.command_output(&text)).await;
    }
    switch.to.clone()
}

/// Asks the hooks about a switch and returns `None` if it may happen. If the host has withdrawn the request, the result
/// is an error for the caller to send; if a hook objects, its error is sent here, and the result is [`Reply::Sent`].
async fn refusal(
    agent: &Arc<AgentHandle>,
    id: &str,
    switch: &Switch,
    withdraw: &CancellationToken,
) -> Option<Reply> {
    let reason = objection(agent, switch, withdraw).await;
    // Checked first: a cancelled hook has no objection, but the host does not want the change any more.
    if withdraw.is_cancelled() {
        return Some(Reply::Error("set_model: it was taken back".to_owned()));
    }
    let mut error = ControlError {
        request_id: id.to_owned(),
        error: blocked(&reason?),
        error_code: Some("blocked_by_hook".to_owned()),
        ..ControlError::default()
    };
    error.extra.insert("model".to_owned(), json!(switch.from));
    agent.session.emit(ControlResponse::from(error)).await;
    Some(Reply::Sent)
}

/// Fires `PreModelSwitch` and returns the reason of a hook that denies or blocks the switch; `None` if no hook does.
/// Hooks that `withdraw` cancels have no objection, so the caller has to check the token before the switch. A switch to
/// the same model is not asked about.
async fn objection(
    agent: &Arc<AgentHandle>,
    switch: &Switch,
    withdraw: &CancellationToken,
) -> Option<String> {
    if switch.from == switch.to {
        return None;
    }
    let event = HookEventInput::PreModelSwitch(facts(agent, switch));
    let outcome = agent.fire(event, None, withdraw).await;
    let denied = outcome.permission.as_ref().filter(|said| said.behavior == HookPermissionDecision::Deny);
    match (denied, outcome.block()) {
        (Some(verdict), _) => {
            Some(verdict.reason.clone().unwrap_or_else(|| "no reason was given".to_owned()))
        }
        (None, Some(block)) => Some(block.reason.clone()),
        (None, None) => None,
    }
}

/// Fires `PostModelSwitch` if the model has changed, and keeps the notes of the hooks for the next request.
async fn tell_hooks(agent: &Arc<AgentHandle>, switch: &Switch, withdraw: &CancellationToken) {
    if switch.from != switch.to {
        let event = HookEventInput::PostModelSwitch(facts(agent, switch));
        let outcome = agent.fire(event, None, withdraw).await;
        agent.session.say_later(outcome.contexts.iter().map(ContextText::line));
    }
}

/// Returns what hooks are told about a switch. Its cost is an estimate: a cache belongs to one model, so the new model
/// writes the whole conversation to the cache once.
fn facts(agent: &AgentHandle, switch: &Switch) -> ModelSwitchInput {
    let tokens = agent.session.totals().context_tokens();
    let ttl = agent.choice().cache;
    let (name, keeps_ms) = match ttl {
        CacheTtl::Off => (None, 0),
        CacheTtl::FiveMinutes => (Some("5m"), FIVE_MINUTES_MS),
        CacheTtl::OneHour => (Some("1h"), ONE_HOUR_MS),
    };
    let age = agent.last_request_ms().map(|at| agent.session.process.host.now_ms().saturating_sub(at));
    // The cache belongs to a model, so the new one writes all of it anew.
    let mut usage = Usage { cache_creation_input_tokens: tokens, ..Usage::default() };
    if ttl == CacheTtl::OneHour {
        usage.extra.insert("cache_creation".to_owned(), json!({"ephemeral_1h_input_tokens": tokens}));
    }
    let priced = prices::price(&usage, &switch.to);
    // To a hundredth of a cent, because it is an estimate.
    let usd = (priced.cost.usd() * 10_000.0).round() / 10_000.0;
    ModelSwitchInput {
        from_model: switch.from.clone(),
        to_model: switch.to.clone(),
        requested_model: Some(switch.requested.clone()),
        source: Some("sdk".to_owned()),
        context_tokens: Some(tokens),
        prompt_cache_warm: Some(age.is_some_and(|age| age < keeps_ms)),
        cache_ttl: Some(json!(name)),
        estimated_cache_write_usd: Some(json!(usd)),
        pricing: Some(json!(match priced.basis {
            prices::CostBasis::List => "catalog",
            prices::CostBasis::Unknown => "default",
        })),
        ..ModelSwitchInput::default()
    }
}
