//! What is in force, as lists: the permission rules of every source and the hooks.

use std::path::Path;
use std::sync::Arc;

use lathe_hooks::ListedHook;
use lathe_permissions::RuleSource;
use lathe_protocol::HookEvent;
use serde_json::{Value, json};

use super::Reply;
use crate::state::agent::AgentHandle;

/// Events whose hooks may be limited to a subject, such as the name of a tool.
const WITH_MATCHER: [HookEvent; 20] = [
    HookEvent::PreToolUse,
    HookEvent::PostToolUse,
    HookEvent::PostToolUseFailure,
    HookEvent::PermissionRequest,
    HookEvent::PermissionDenied,
    HookEvent::Notification,
    HookEvent::UserPromptExpansion,
    HookEvent::SessionStart,
    HookEvent::SessionEnd,
    HookEvent::StopFailure,
    HookEvent::SubagentStart,
    HookEvent::SubagentStop,
    HookEvent::PreCompact,
    HookEvent::PostCompact,
    HookEvent::PreModelSwitch,
    HookEvent::PostModelSwitch,
    HookEvent::Setup,
    HookEvent::ConfigChange,
    HookEvent::InstructionsLoaded,
    HookEvent::FileChanged,
];

/// Answers `list_permission_rules`: the rules of files, of the command line and of the session itself.
pub(super) fn permission_rules(agent: &Arc<AgentHandle>) -> Reply {
    let of_files = agent.session.settings.permission_rules();
    let rules: Vec<Value> = agent
        .session
        .permissions()
        .rules()
        .map(|(behavior, source, rule)| {
            let mut listed = json!({
                "behavior": behavior.as_str(),
                "source": source.as_str(),
                "rule": rule.text,
            });
            if source == RuleSource::Session {
                listed["editability"] = json!("session");
            }
            listed
        })
        .collect();
    let mut state = json!({
        "rules": rules,
        "workspaceDirectories": directories(agent, &of_files["workspaceDirectories"]),
        "originalCwd": agent.workspace.root.display().to_string(),
        "managedOnly": of_files["managedOnly"] == true,
    });
    if let Some(errors) = of_files.get("errors") {
        state["errors"] = errors.clone();
    }
    Reply::Success(json!({"state": state}))
}

/// The folders beyond the working folder, and who added each.
fn directories(agent: &AgentHandle, of_files: &Value) -> Vec<Value> {
    let listed: Vec<Value> = of_files.as_array().cloned().unwrap_or_default();
    let same = |a: &Path, b: &str| {
        let b = Path::new(b);
        a == b || b.canonicalize().is_ok_and(|b| a == b)
    };
    let given = agent.session.init.additional_directories.iter().flatten();
    let given: Vec<&str> = given.map(String::as_str).collect();
    let root = agent.workspace.root.clone();
    let view = agent.view();
    let added = view.scope.working_dirs().filter(|dir| {
        let in_files = listed.iter().any(|known| same(dir, known["path"].as_str().unwrap_or("")));
        *dir != root && !in_files
    });
    let added = added.map(|dir| {
        let source = if given.iter().any(|known| same(dir, known)) { "cliArg" } else { "session" };
        json!({"path": dir.display().to_string(), "source": source})
    });
    listed.iter().cloned().chain(added).collect()
}

/// Answers `get_hooks_listing`.
pub(super) fn hooks(agent: &Arc<AgentHandle>) -> Reply {
    let hooks = agent.session.hooks.listing();
    let mut events: Vec<&str> = Vec::new();
    for hook in &hooks {
        if !events.contains(&hook.event.as_str()) {
            events.push(hook.event.as_str());
        }
    }
    let catalog: Vec<Value> = HookEvent::NAMES
        .iter()
        .map(|name| json!({"name": name, "supportsMatcher": WITH_MATCHER.contains(&HookEvent::from(*name))}))
        .collect();
    let managed = hooks.iter().filter(|hook| hook.source == "policySettings").count();
    Reply::Success(json!({
        "events": events,
        "hooks": hooks.iter().map(listed_hook).collect::<Vec<_>>(),
        "eventCatalog": catalog,
        "policy": {
            "disabledByPolicy": false,
            "managedOnly": agent.session.hooks.only_managed(),
            "pluginOnly": false,
            "allDisabled": agent.session.hooks.none_runs(),
            "policyHookCount": managed,
        },
    }))
}

fn listed_hook(hook: &ListedHook) -> Value {
    let mut listed = json!({
        "event": hook.event.as_str(),
        "matcher": hook.matcher,
        "type": hook.kind,
        "source": hook.source,
        "enabled": hook.enabled,
    });
    listed[hook.kind] = json!(hook.what);
    if let Some(condition) = &hook.condition {
        listed["if"] = json!(condition);
    }
    if let Some(timeout) = hook.timeout {
        listed["timeout"] = json!(timeout.as_secs_f64());
    }
    listed
}
