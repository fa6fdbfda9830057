//! Lists of what is in force: the permission rules of every source, and the hooks.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use lathe_hooks::ListedHook;
use lathe_permissions::RuleSource;
use lathe_protocol::HookEvent;
use lathe_protocol::control::{ListedRule, PermissionRulesState, WorkspaceDirectory};
use serde::Serialize;
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

/// Replies to `list_permission_rules` with the rules of files, of the command line and of the session itself, and the
/// folders that the session may work in. Only rules of the session are marked as editable.
pub(super) fn permission_rules(agent: &Arc<AgentHandle>) -> Reply {
    let of_files = agent.session.settings.permission_rules();
    let rules = agent
        .session
        .permissions()
        .rules()
        .map(|(behavior, source, rule)| ListedRule {
            behavior: behavior.as_str().to_owned(),
            source: source.as_str().to_owned(),
            rule: rule.text.clone(),
            editability: (source == RuleSource::Session).then(|| "session".to_owned()),
            ..ListedRule::default()
        })
        .collect();
    let state = PermissionRulesState {
        rules,
        workspace_directories: directories(agent, of_files.workspace_directories),
        original_cwd: agent.workspace.root.display().to_string(),
        ..of_files
    };
    Reply::Success(json!({"state": state}))
}

/// Returns `listed`, which are the folders that settings files add, and behind them all other working folders except
/// the root of the workspace, each with its source: the command line or the session. A folder that settings name
/// through a link is not listed twice.
fn directories(agent: &AgentHandle, listed: Vec<WorkspaceDirectory>) -> Vec<WorkspaceDirectory> {
    // A settings file or a flag may name a folder through a link.
    let same = |a: &Path, b: &str| {
        let b = Path::new(b);
        a == b || b.canonicalize().is_ok_and(|b| a == b)
    };
    let given = agent.session.init.additional_directories.iter().flatten();
    let given: Vec<&str> = given.map(String::as_str).collect();
    let root = agent.workspace.root.clone();
    let view = agent.view();
    let added = view.scope.working_dirs().filter(|dir| {
        let in_files = listed.iter().any(|known| same(dir, &known.path));
        *dir != root && !in_files
    });
    let added = added.map(|dir| {
        let source = if given.iter().any(|known| same(dir, known)) { "cliArg" } else { "session" };
        WorkspaceDirectory {
            path: dir.display().to_string(),
            source: source.to_owned(),
            ..WorkspaceDirectory::default()
        }
    });
    listed.iter().cloned().chain(added).collect()
}

/// Replies to `get_hooks_listing` with every registered hook, its source, the events that hooks can name, and whether
/// hooks are switched off.
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
        "hooks": hooks.iter().map(HookEntry::of).collect::<Vec<_>>(),
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

/// A hook as hosts see it.
#[derive(Serialize)]
struct HookEntry<'a> {
    event: &'a str,
    matcher: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    source: &'static str,
    enabled: bool,
    /// One field, named after the kind of the hook: what is run.
    #[serde(flatten)]
    what: BTreeMap<&'static str, &'a str>,
    #[serde(rename = "if", skip_serializing_if = "Option::is_none")]
    condition: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<f64>,
}

impl<'a> HookEntry<'a> {
    /// Borrows a registered hook as an entry of the listing.
    fn of(hook: &'a ListedHook) -> Self {
        Self {
            event: hook.event.as_str(),
            matcher: &hook.matcher,
            kind: hook.kind,
            source: hook.source,
            enabled: hook.enabled,
            what: BTreeMap::from([(hook.kind, hook.what.as_str())]),
            condition: hook.condition.as_deref(),
            timeout: hook.timeout.map(|timeout| timeout.as_secs_f64()),
        }
    }
}
