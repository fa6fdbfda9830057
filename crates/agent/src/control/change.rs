//! Requests that alter the session: interrupt, mode, thinking, settings, title, files that count as read.

use std::sync::Arc;

use lathe_models::Thinking;
use lathe_permissions::RuleSource;
use lathe_protocol::control::{
    ApplyFlagSettingsRequest, InterruptRequest, InterruptResponse, RenameSessionRequest,
    SeedReadStateRequest, SetMaxThinkingTokensRequest, SetPermissionModeRequest, UpdateSettingsRequest,
};
use lathe_protocol::settings::PermissionSettings;
use lathe_protocol::{ControlResponse, PermissionBehavior, PermissionMode, SettingsSource};
use serde_json::json;

use super::{Reply, model};
use crate::state::agent::AgentHandle;
use crate::state::wire_names::PromptState;
use crate::turn::outcome::TurnHandle;

/// Cancels the running turn, if there is one, and returns without waiting for its end. Queued prompts run afterwards,
/// unless the request cancels them too; then the host is told of each. The reply lists the prompts that still wait and,
/// if the request cancels, those that were cancelled.
pub(super) async fn interrupt(
    agent: &Arc<AgentHandle>,
    body: &InterruptRequest,
    turn: Option<&TurnHandle>,
) -> Reply {
    let cancelled =
        if body.cancel_queued == Some(true) { agent.session.queue().cancel_all() } else { Vec::new() };
    for uuid in &cancelled {
        agent.session.emit_lifecycle(Some(uuid), PromptState::Cancelled).await;
    }
    let reply = InterruptResponse {
        still_queued: agent.session.queue().waiting_ids(),
        cancelled: (body.cancel_queued == Some(true)).then_some(cancelled),
        ..InterruptResponse::default()
    };
    if let Some(turn) = turn {
        turn.cancel.cancel();
    }
    Reply::Success(json!(reply))
}

/// Asks the session to end and returns before it does: prompts that wait are cancelled at once, the running turn still
/// gets its result, and then what runs in the background is stopped.
pub(super) async fn end_session(agent: &Arc<AgentHandle>) -> Reply {
    let cancelled = agent.session.queue().cancel_all();
    for uuid in &cancelled {
        agent.session.emit_lifecycle(Some(uuid), PromptState::Cancelled).await;
    }
    agent.session.end_asked.cancel();
    Reply::Ack
}

/// Changes the permission mode. Sends the reply itself and returns [`Reply::Sent`], because the frame about the new
/// mode has to follow the reply. An unknown mode, and `bypassPermissions` in a session that was not launched for it,
/// are refused and change nothing.
pub(super) async fn permission_mode(
    agent: &Arc<AgentHandle>,
    id: &str,
    body: &SetPermissionModeRequest,
) -> Reply {
    let Some(mode) = body.mode.as_deref().and_then(|mode| PermissionMode::parse(mode).ok()) else {
        return unknown_mode();
    };
    if agent.change_mode(mode).is_err() {
        let text = "Cannot set permission mode to bypassPermissions because the session was not launched \
                    with --dangerously-skip-permissions";
        return Reply::Coded(text.to_owned(), "bypass_not_launched");
    }
    agent.session.emit(ControlResponse::success(id, json!({"mode": mode.as_str()}))).await;
    agent.session.emit(agent.frames.mode_changed(mode.as_str())).await;
    Reply::Sent
}

/// Returns the error for a mode that does not exist; it lists those that do.
pub(super) fn unknown_mode() -> Reply {
    let mut modes = PermissionMode::ALL.map(PermissionMode::as_str);
    modes.sort_unstable();
    let modes = modes.join(", ");
    Reply::Coded(format!("Cannot set permission mode: must be one of {modes}"), "invalid_mode")
}

/// Changes how many tokens the model may think, from the next request on. Null, or no value, returns to the default; 0
/// turns thinking off.
pub(super) fn thinking(agent: &Arc<AgentHandle>, body: &SetMaxThinkingTokensRequest) -> Reply {
    let tokens = body.max_thinking_tokens.flatten();
    let thinking = match tokens {
        None => None,
        Some(0) => Some(Thinking::Disabled),
        Some(tokens) => Some(Thinking::Budget(tokens.min(u64::from(u32::MAX)) as u32)),
    };
    agent.change_choice(|choice| choice.thinking = thinking);
    Reply::Ack
}

/// Merges the settings of the request into those of `--settings`, and applies the result to the running session; where
/// the session follows no settings files, only its permission rules, model and effort. Model and effort change only if
/// the request names them; settings that cannot be merged are an error and change nothing.
pub(super) async fn flag_settings(agent: &Arc<AgentHandle>, body: &ApplyFlagSettingsRequest) -> Reply {
    match agent.session.settings.apply_flag(&body.settings) {
        Ok(effective) => {
            let named = body.named_settings();
            if named.model {
                model::follow_setting(agent, effective.model.as_deref()).await;
            }
            // Without settings files to read again, only the rules are left to apply.
            match agent.session.settings.current() {
                Some(now) => agent.take_settings(now).await,
                None => apply_rules(agent, effective.permissions.unwrap_or_default()).await,
            }
            if named.effort_level {
                agent.change_choice(|choice| choice.effort = effective.effort_level);
            }
            Reply::Ack
        }
        Err(error) => Reply::Error(error),
    }
}

/// Adds the permission rules among the settings to those of the session; other permission settings, such as
/// directories, are ignored, and no rule is removed. Used where no settings files are followed; rules that cannot be
/// used are reported to the host.
async fn apply_rules(agent: &Arc<AgentHandle>, permissions: PermissionSettings) {
    let PermissionSettings { allow, ask, deny, .. } = permissions;
    let rules = [
        (PermissionBehavior::Allow, allow),
        (PermissionBehavior::Ask, ask),
        (PermissionBehavior::Deny, deny),
    ];
    for (behavior, rules) in rules {
        let rules = rules.unwrap_or_default();
        let rules = rules.iter().map(String::as_str);
        let warnings = agent.session.permissions().add_rules(
            behavior,
            RuleSource::Settings(SettingsSource::Flag),
            rules,
        );
        for warning in warnings {
            agent.session.emit(agent.frames.note("permission_rule", &warning.to_string())).await;
        }
    }
}

/// Writes keys to the settings file that the request names. The reply is an empty object, or the error if the file
/// could not be changed: only the user's file and the local one can be, and only keys that a client may write.
pub(super) async fn settings(agent: &Arc<AgentHandle>, body: &UpdateSettingsRequest) -> Reply {
    match agent.session.settings.update(&body.source, &body.settings).await {
        Ok(()) => Reply::Success(json!({})),
        Err(error) => Reply::Error(error),
    }
}

/// Notes that a file was read in the state of the given modification time, so that the model may edit it: the host saw
/// it being read in a part of the conversation that is gone. A file that has changed since then stays unread, and the
/// reply is a success all the same.
pub(super) fn read_state(agent: &Arc<AgentHandle>, body: &SeedReadStateRequest) -> Reply {
    let path = agent.workspace.resolve(&body.path);
    agent.workspace.note_read_at(&path, body.mtime);
    Reply::Ack
}

/// Gives the session a title, without the white space around it. A blank title is refused and changes nothing.
pub(super) async fn rename(agent: &Arc<AgentHandle>, body: &RenameSessionRequest) -> Reply {
    let title = body.title.trim();
    if title.is_empty() {
        return Reply::Error("a session title cannot be empty".to_owned());
    }
    agent.session.set_title(title).await;
    Reply::Ack
}
