//! The handshake: the host says what it brings, the session what it has.

use std::sync::Arc;

use lathe_protocol::InitializeRequest;
use lathe_protocol::control::{AgentDefinition, ControlSuccess};
use lathe_protocol::system::BackgroundTasksChanged;
use lathe_tools::{BadSchema, STRUCTURED_OUTPUT, StructuredOutput};
use serde_json::{Value, json};

use super::Reply;
use crate::commands;
use crate::introduction::{Introduction, without_effect};
use crate::session::TurnHandle;
use crate::shared::Shared;

/// Takes in what the host brings and answers with what there is. May be repeated: the last one counts.
pub(super) async fn answer(
    shared: &Arc<Shared>,
    id: &str,
    body: &InitializeRequest,
    turn: Option<&TurnHandle>,
) -> Reply {
    if let Some(schema) = &body.json_schema
        && let Err(error) = take_schema(shared, schema)
    {
        return Reply::Error(format!("jsonSchema is not a valid JSON Schema: {error}"));
    }
    take_prompt(shared, body);
    *shared.introduction() = Introduction::of(body);
    if let Some(Some(matchers)) = &body.hooks {
        let warnings = shared.hooks.register_callbacks(matchers);
        for warning in warnings {
            shared.emit(shared.frames.note("hook_ignored", &warning.to_string())).await;
        }
    }
    let pending = shared.questions.pending_permissions();
    let state = match turn {
        Some(_) if !pending.is_empty() => "requires_action",
        Some(_) => "running",
        None => "idle",
    };
    let success = ControlSuccess {
        request_id: id.to_owned(),
        response: Some(response(shared, body, state)),
        pending_permission_requests: Some(pending),
        pending_user_dialog_requests: Some(Vec::new()),
        ..ControlSuccess::default()
    };
    shared.emit(lathe_protocol::ControlResponse::from(success)).await;
    if let Some(text) = without_effect(body) {
        shared.emit(shared.frames.note("initialize_ignored", &text)).await;
    }
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

/// The shape of answers that the host wants. Most hosts also give it on the command line, where it was read.
fn take_schema(shared: &Shared, schema: &Value) -> Result<(), BadSchema> {
    let known = shared.tool(STRUCTURED_OUTPUT);
    if schema.is_null() || known.is_some_and(|tool| tool.input_schema() == schema) {
        return Ok(());
    }
    shared.add_tool(Arc::new(StructuredOutput::new(schema.clone())?));
    Ok(())
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
        "commands": commands::listing(shared),
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
    let info = |(name, agent): (&String, &AgentDefinition)| {
        let mut info = json!({"name": name, "description": agent.description});
        if let Some(model) = &agent.model {
            info["model"] = json!(model);
        }
        info
    };
    agents.map(info).collect()
}
