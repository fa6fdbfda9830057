//! The handshake: the host says what it brings, the session what it has.

use std::sync::Arc;

use lathe_protocol::InitializeRequest;
use lathe_protocol::control::ControlSuccess;
use lathe_protocol::system::BackgroundTasksChanged;
use serde_json::{Value, json};

use super::Reply;
use crate::session::TurnHandle;
use crate::shared::Shared;

/// Takes in what the host brings and answers with what there is. May be repeated: the last one counts.
pub(super) async fn answer(
    shared: &Arc<Shared>,
    id: &str,
    body: &InitializeRequest,
    turn: Option<&TurnHandle>,
) -> Reply {
    take_prompt(shared, body);
    if let Some(Some(matchers)) = &body.hooks {
        let warnings = shared.hooks.register_callbacks(matchers);
        for warning in warnings {
            shared.emit(shared.frames.note("hook_ignored", &warning.to_string())).await;
        }
    }
    let state = if turn.is_some() { "running" } else { "idle" };
    let success = ControlSuccess {
        request_id: id.to_owned(),
        response: Some(response(shared, body, state)),
        pending_permission_requests: Some(Vec::new()),
        pending_user_dialog_requests: Some(Vec::new()),
        ..ControlSuccess::default()
    };
    shared.emit(lathe_protocol::ControlResponse::from(success)).await;
    if let Some(title) = &body.title {
        shared.journal().title(title);
        shared.emit(shared.frames.title_changed(title)).await;
    }
    if shared.note_initialized() {
        let tasks = BackgroundTasksChanged {
            session_id: shared.frames.session_id(),
            uuid: shared.frames.uuid(),
            ..BackgroundTasksChanged::default()
        };
        shared.emit(lathe_protocol::Outbound::system(tasks)).await;
    }
    Reply::Sent
}

/// The system prompt as the host wants it: parts that take the place of ours, or text behind it.
fn take_prompt(shared: &Shared, body: &InitializeRequest) {
    let mut prompt = shared.system_prompt();
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

fn response(shared: &Shared, body: &InitializeRequest, state: &str) -> Value {
    let mut response = json!({
        "commands": [],
        "agents": agents(body),
        "output_style": shared.init.output_style,
        "available_output_styles": shared.output_styles,
        "models": shared.catalog.choices(),
        "account": {
            "tokenSource": "none",
            "apiKeySource": shared.init.api_key_source,
            "apiProvider": "firstParty",
        },
        "hook_on_failure_supported": true,
        "analytics_disabled": true,
        "claude_code_version": shared.init.claude_code_version,
        "pid": std::process::id(),
        "current_permission_mode": shared.permissions().mode().as_str(),
        "session_state": state,
        "fast_mode_state": "off",
        "fast_mode_disabled_reason": "sdk_opt_in_required",
        "capabilities": shared.init.capabilities,
    });
    if let Some(Some(_)) = &body.hooks {
        response["hooks_applied"] = json!(true);
    }
    response
}

/// The agents the host defines, as far as they are known yet.
fn agents(body: &InitializeRequest) -> Vec<Value> {
    let agents = body.agents.iter().flatten();
    agents
        .map(|(name, agent)| json!({"name": name, "description": agent.description, "model": agent.model}))
        .collect()
}
