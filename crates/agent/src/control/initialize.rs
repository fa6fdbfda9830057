//! The handshake: the host says what it brings, the session says what it has.

use std::sync::Arc;

use lathe_protocol::InitializeRequest;
use lathe_protocol::control::{AgentDefinition, AgentInfo, ControlSuccess};
use lathe_tools::{BadSchema, STRUCTURED_OUTPUT, StructuredOutput};
use serde::Serialize;
use serde_json::{Value, json};

use super::Reply;
use crate::state::agent::AgentHandle;
use crate::state::dispatch::listing;
use crate::state::introduction::{HostIntroduction, without_effect};
use crate::state::prompt::SystemPrompt;
use crate::state::wire_names::SessionState;
use crate::turn::outcome::TurnHandle;

/// Applies what the host says in its handshake and sends the reply with what the session offers. Hosts may repeat the
/// request; each one replaces what the one before said, but a system prompt, hooks or a schema that it does not name
/// stay, and the list of background tasks is sent behind the reply to a repeated one. A schema that is not valid is an
/// error, and nothing is changed then.
pub(super) async fn handle(
    agent: &Arc<AgentHandle>,
    id: &str,
    body: &InitializeRequest,
    turn: Option<&TurnHandle>,
) -> Reply {
    // First, so that a handshake that is refused changes nothing.
    if let Some(schema) = &body.json_schema
        && let Err(error) = take_schema(agent, schema)
    {
        return Reply::Error(format!("jsonSchema is not a valid JSON Schema: {error}"));
    }
    take_prompt(agent, body);
    let before = std::mem::replace(&mut *agent.session.introduction(), HostIntroduction::of(body));
    if let Some(Some(matchers)) = &body.hooks {
        let warnings = agent.session.hooks.register_callbacks(matchers);
        for warning in warnings {
            agent.session.emit(agent.frames.note("hook_ignored", &warning.to_string())).await;
        }
    }
    let pending = agent.session.questions.pending_permissions();
    let state = match turn {
        Some(_) if !pending.is_empty() => SessionState::RequiresAction,
        Some(_) => SessionState::Running,
        None => SessionState::Idle,
    };
    let success = ControlSuccess {
        request_id: id.to_owned(),
        response: Some(json!(response(agent, body, state))),
        pending_permission_requests: Some(pending),
        pending_user_dialog_requests: Some(Vec::new()),
        ..ControlSuccess::default()
    };
    agent.session.emit(lathe_protocol::ControlResponse::from(success)).await;
    if let Some(text) = without_effect(body) {
        agent.session.emit(agent.frames.note("initialize_ignored", &text)).await;
    }
    if let Some(title) = &body.title {
        agent.session.set_title(title).await;
    }
    // A handshake is repeated by a host that has reconnected, and such a host knows of no tasks.
    if before.is_done {
        agent.session.tell_background_set().await;
    }
    Reply::Sent
}

/// Adds the tool for structured output with the schema of the handshake. Does nothing if the schema is null or that of
/// the tool which the session already has. The error is a schema that cannot be used.
fn take_schema(agent: &AgentHandle, schema: &Value) -> Result<(), BadSchema> {
    let known = agent.tool(STRUCTURED_OUTPUT);
    if schema.is_null() || known.is_some_and(|tool| tool.input_schema() == schema) {
        return Ok(());
    }
    agent.add_tool(Arc::new(StructuredOutput::new(schema.clone())?));
    Ok(())
}

/// Changes the system prompt of the main agent as the handshake says.
fn take_prompt(agent: &AgentHandle, body: &InitializeRequest) {
    agent.change(|view| change_prompt(Arc::make_mut(&mut view.system), body));
}

/// Applies what the handshake says about the system prompt. Fields that are absent change nothing, nor does a prompt
/// that is neither a text nor a list; an exclusion of the dynamic sections is not taken back by `false`. Parts of a
/// list are joined by blank lines, and parts that are not strings are left out, so an empty list gives an empty prompt.
fn change_prompt(prompt: &mut SystemPrompt, body: &InitializeRequest) {
    match &body.system_prompt {
        Some(Value::String(text)) => prompt.choice.replace = Some(text.clone()),
        Some(Value::Array(parts)) => {
            let parts: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
            prompt.choice.replace = Some(parts.join("\n\n"));
        }
        Some(_) | None => {}
    }
    if let Some(append) = &body.append_system_prompt {
        prompt.choice.append = Some(append.clone());
    }
    if body.exclude_dynamic_sections == Some(true) {
        prompt.choice.without_environment = true;
    }
}

/// The reply to the handshake.
#[derive(Serialize)]
struct Handshake {
    #[serde(flatten)]
    always: Value,
    /// Set only if the host has brought hooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    hooks_applied: Option<bool>,
}

/// Builds the reply to the handshake. `hooks_applied` is present only if the host sent hooks.
fn response(agent: &AgentHandle, body: &InitializeRequest, state: SessionState) -> Handshake {
    let always = json!({
        "commands": listing(agent),
        "agents": agents(body),
        "output_style": agent.session.init.output_style,
        "available_output_styles": agent.session.output_styles,
        "models": agent.session.process.catalog.choices(),
        "account": {
            "tokenSource": "none",
            "apiKeySource": agent.session.init.api_key_source,
            "apiProvider": "firstParty",
        },
        "hook_on_failure_supported": true,
        "analytics_disabled": true,
        "claude_code_version": agent.session.init.claude_code_version,
        "pid": agent.session.process.host.process_id(),
        "current_permission_mode": agent.view().scope.mode().as_str(),
        "session_state": state.wire_name(),
        "fast_mode_state": "off",
        "fast_mode_disabled_reason": "sdk_opt_in_required",
        "capabilities": agent.session.init.capabilities,
    });
    Handshake { always, hooks_applied: matches!(body.hooks, Some(Some(_))).then_some(true) }
}

/// Returns the agents that the host defines, as the reply lists them; none if it defines none.
fn agents(body: &InitializeRequest) -> Vec<AgentInfo> {
    let agents = body.agents.iter().flatten();
    let info = |(name, agent): (&String, &AgentDefinition)| AgentInfo {
        name: name.clone(),
        description: agent.description.clone(),
        model: agent.model.clone(),
        ..AgentInfo::default()
    };
    agents.map(info).collect()
}
