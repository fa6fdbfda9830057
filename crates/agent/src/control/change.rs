//! Requests that alter the session: break off, mode, thinking, settings, name, what counts as read.

use std::sync::Arc;

use lathe_models::Thinking;
use lathe_permissions::RuleSource;
use lathe_protocol::control::{
    ApplyFlagSettingsRequest, InterruptRequest, RenameSessionRequest, SeedReadStateRequest,
    SetMaxThinkingTokensRequest, SetPermissionModeRequest, UpdateSettingsRequest,
};
use lathe_protocol::{ControlResponse, PermissionBehavior, PermissionMode};
use serde_json::{Value, json};

use super::{Reply, model};
use crate::session::TurnHandle;
use crate::shared::Shared;

/// Breaks off the turn under way. Prompts that wait still run, unless they are to be taken back too.
pub(super) async fn interrupt(
    shared: &Arc<Shared>,
    body: &InterruptRequest,
    turn: Option<&TurnHandle>,
) -> Reply {
    let cancelled = if body.cancel_queued == Some(true) { shared.queue().cancel_all() } else { Vec::new() };
    for uuid in &cancelled {
        shared.emit_lifecycle(Some(uuid), "cancelled").await;
    }
    let mut reply = json!({"still_queued": shared.queue().waiting_ids()});
    if body.cancel_queued == Some(true) {
        reply["cancelled"] = json!(cancelled);
    }
    if let Some(turn) = turn {
        turn.cancel.cancel();
    }
    Reply::Success(reply)
}

/// Changes the permission mode; the frame about it follows the answer.
pub(super) async fn permission_mode(
    shared: &Arc<Shared>,
    id: &str,
    body: &SetPermissionModeRequest,
) -> Reply {
    let Some(mode) = body.mode.as_deref().and_then(|mode| PermissionMode::parse(mode).ok()) else {
        return bad_mode();
    };
    if shared.change_mode(mode).is_err() {
        let text = "Cannot set permission mode to bypassPermissions because the session was not launched \
                    with --dangerously-skip-permissions";
        return Reply::Coded(text.to_owned(), "bypass_not_launched");
    }
    shared.emit(ControlResponse::success(id, json!({"mode": mode.as_str()}))).await;
    shared.emit(shared.frames.mode_changed(mode.as_str())).await;
    Reply::Sent
}

/// The complaint about a mode nobody knows.
pub(super) fn bad_mode() -> Reply {
    let mut modes = PermissionMode::ALL.map(PermissionMode::as_str);
    modes.sort_unstable();
    let modes = modes.join(", ");
    Reply::Coded(format!("Cannot set permission mode: must be one of {modes}"), "invalid_mode")
}

/// Changes how much the model may think.
pub(super) fn thinking(shared: &Arc<Shared>, body: &SetMaxThinkingTokensRequest) -> Reply {
    let tokens = body.max_thinking_tokens.flatten();
    shared.choice().thinking = match tokens {
        None => None,
        Some(0) => Some(Thinking::Disabled),
        Some(tokens) => Some(Thinking::Budget(tokens.min(u64::from(u32::MAX)) as u32)),
    };
    Reply::Ack
}

/// Merges into the settings of the command line.
pub(super) async fn flag_settings(shared: &Arc<Shared>, body: &ApplyFlagSettingsRequest) -> Reply {
    match shared.settings.apply_flag(&body.settings) {
        Ok(effective) => {
            if body.settings.get("model").is_some() {
                model::follow_setting(shared, effective["model"].as_str()).await;
            }
            match shared.settings.current() {
                Some(now) => shared.take_settings(now).await,
                None => apply_rules(shared, &body.settings["permissions"]).await,
            }
            if body.settings.get("effortLevel").is_some() {
                shared.choice().effort = effective["effortLevel"].as_str().map(str::to_owned);
            }
            Reply::Ack
        }
        Err(error) => Reply::Error(error),
    }
}

/// Rules among the settings count for the running session as well.
async fn apply_rules(shared: &Arc<Shared>, permissions: &Value) {
    let behaviors = [PermissionBehavior::Allow, PermissionBehavior::Ask, PermissionBehavior::Deny];
    for behavior in behaviors {
        let rules = permissions[behavior.as_str()].as_array().into_iter().flatten();
        let rules: Vec<&str> = rules.filter_map(Value::as_str).collect();
        let warnings = shared.permissions().add_rules(behavior, RuleSource::FlagSettings, rules);
        for warning in warnings {
            shared.emit(shared.frames.note("permission_rule", &warning.to_string())).await;
        }
    }
}

/// Writes keys to a settings file.
pub(super) fn settings(shared: &Arc<Shared>, body: &UpdateSettingsRequest) -> Reply {
    match shared.settings.update(&body.source, &body.settings) {
        Ok(()) => Reply::Success(json!({})),
        Err(error) => Reply::Error(error),
    }
}

/// The host has seen the model read a file, in a part of the conversation that is gone now.
pub(super) fn read_state(shared: &Arc<Shared>, body: &SeedReadStateRequest) -> Reply {
    let path = shared.workspace.resolve(&body.path);
    shared.workspace.seen.note_read_at(&path, body.mtime);
    Reply::Ack
}

/// Names the session.
pub(super) async fn rename(shared: &Arc<Shared>, body: &RenameSessionRequest) -> Reply {
    let title = body.title.trim();
    if title.is_empty() {
        return Reply::Error("a session title cannot be empty".to_owned());
    }
    shared.journal().title(title);
    shared.emit(shared.frames.title_changed(title)).await;
    Reply::Ack
}
