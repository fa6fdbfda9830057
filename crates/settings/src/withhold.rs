//! What a folder may not say about itself before a person trusts it: everything that widens what a session
//! may do, starts a program or sends something somewhere. What limits a session always counts.
//!
//! The same cut is used for files that change while a session runs, and, but for its variables, for a parent program's
//! settings below those of an administrator. Surprising: no variable of `env` is left. A list of dangerous names is
//! never complete, and a name that is missing on it turns a harmless command into another one.

use serde_json::{Map, Value};

use lathe_protocol::PermissionMode;

use crate::trust::ContentKind;

/// Keys that are cut as a whole, and what kind of content each is.
const WIDENING: &[(&str, ContentKind)] = &[
    ("allowedHttpHookUrls", ContentKind::Destinations),
    ("allowedMcpServers", ContentKind::McpServers),
    ("apiKeyHelper", ContentKind::Helpers),
    ("autoMemoryDirectory", ContentKind::Switches),
    ("autoMode", ContentKind::PermissionModes),
    ("awsAuthRefresh", ContentKind::Helpers),
    ("awsCredentialExport", ContentKind::Helpers),
    ("claudeMdExcludes", ContentKind::Switches),
    ("cleanupPeriodDays", ContentKind::Switches),
    ("crossSessionInbound", ContentKind::Switches),
    ("enableAllProjectMcpServers", ContentKind::McpServers),
    ("enabledMcpjsonServers", ContentKind::McpServers),
    ("enabledPlugins", ContentKind::Plugins),
    ("extraKnownMarketplaces", ContentKind::Plugins),
    ("fileSuggestion", ContentKind::FileSuggestions),
    ("gcpAuthRefresh", ContentKind::Helpers),
    ("hooks", ContentKind::Hooks),
    ("httpHookAllowedEnvVars", ContentKind::Destinations),
    ("otelHeadersHelper", ContentKind::Helpers),
    ("plansDirectory", ContentKind::Switches),
    ("pluginConfigs", ContentKind::Plugins),
    ("skipDangerousModePermissionPrompt", ContentKind::Switches),
    ("statusLine", ContentKind::StatusLines),
    ("subagentStatusLine", ContentKind::StatusLines),
    ("toolEnv", ContentKind::Variables),
    ("worktree", ContentKind::Switches),
];

/// Returns the kind of content that a withheld top-level key belongs to; `Switches` for a key that is not on the list.
pub(crate) fn kind_of_key(key: &str) -> ContentKind {
    WIDENING.iter().find(|(known, _)| *known == key).map_or(ContentKind::Switches, |(_, kind)| *kind)
}

/// The parts of `sandbox` that make it tighter: `(path, the value it must have, if only one does)`.
const SANDBOX_LIMITS: &[(&[&str], Option<bool>)] = &[
    (&["enabled"], Some(true)),
    (&["failIfUnavailable"], Some(true)),
    (&["allowUnsandboxedCommands"], Some(false)),
    (&["filesystem", "denyRead"], None),
    (&["filesystem", "denyWrite"], None),
    (&["network", "deniedDomains"], None),
    (&["network", "strictAllowlist"], Some(true)),
];

/// Removes everything that needs trust from the settings; what only limits stays. Returns the removed settings, in the
/// form of a settings file, and their names for a message. `sandbox` is returned whole, with the limits that stay; an
/// empty list and an `env` that is not an object are removed and not returned.
pub(crate) fn withhold(settings: &mut Map<String, Value>) -> (Map<String, Value>, Vec<String>) {
    let mut cut = Cut::default();
    if let Some(permissions) = settings.get_mut("permissions").and_then(Value::as_object_mut) {
        cut.permissions(permissions);
    }
    for (key, _) in WIDENING {
        if let Some(value) = settings.shift_remove(*key) {
            cut.take(&[key], value, (*key).to_owned());
        }
    }
    // `false` is what holds anyway.
    if settings.get("disableAllHooks") == Some(&Value::Bool(true)) {
        settings.shift_remove("disableAllHooks");
        cut.take(&["disableAllHooks"], Value::Bool(true), "disableAllHooks".to_owned());
    }
    if let Some(Value::Object(variables)) = settings.shift_remove("env") {
        for (name, value) in variables {
            cut.take(&["env", &name], value, format!("env.{name}"));
        }
    }
    if let Some(sandbox) = settings.get_mut("sandbox") {
        cut.sandbox(sandbox);
    }
    (cut.taken, cut.names)
}

#[derive(Default)]
struct Cut {
    taken: Map<String, Value>,
    names: Vec<String>,
}

impl Cut {
    /// Keeps a withheld value at its path, and its name for the message. The caller must have removed it from the
    /// settings; `path` must name at least one key.
    fn take(&mut self, path: &[&str], value: Value, name: String) {
        self.names.push(name);
        let (last, above) = path.split_last().expect("a path names at least one key");
        let mut place = &mut self.taken;
        for key in above {
            let below = place.entry(*key).or_insert_with(|| Value::Object(Map::new()));
            place = below.as_object_mut().expect("only objects are made on the way");
        }
        place.insert((*last).to_owned(), value);
    }

    /// Takes the rules that allow, the directories, and a default mode that widens what is allowed out of
    /// `permissions`. `deny` and `ask` stay. A mode that is not known counts as widening; a `defaultMode` that is not a
    /// text stays.
    fn permissions(&mut self, permissions: &mut Map<String, Value>) {
        for key in ["allow", "additionalDirectories"] {
            let Some(list) = permissions.shift_remove(key) else { continue };
            let count = list.as_array().map_or(1, Vec::len);
            if count > 0 {
                let noun = if count == 1 { "entry" } else { "entries" };
                self.take(&["permissions", key], list, format!("{count} permissions.{key} {noun}"));
            }
        }
        let widens = permissions.get("defaultMode").and_then(Value::as_str).is_some_and(|mode| {
            // A mode that is not known may widen rights, so it needs trust too.
            match PermissionMode::parse(mode) {
                Ok(PermissionMode::Default | PermissionMode::Plan | PermissionMode::DontAsk) => false,
                Ok(
                    PermissionMode::AcceptEdits | PermissionMode::BypassPermissions | PermissionMode::Auto,
                )
                | Err(_) => true,
            }
        });
        if widens && let Some(mode) = permissions.shift_remove("defaultMode") {
            self.take(&["permissions", "defaultMode"], mode, "permissions.defaultMode".to_owned());
        }
    }

    /// Reduces `sandbox` to the settings that only limit ([`SANDBOX_LIMITS`]), or to an empty object. If anything else
    /// was there, the whole value as it was written counts as withheld, the limits that stay included.
    fn sandbox(&mut self, sandbox: &mut Value) {
        let mut limits = Value::Object(Map::new());
        for (path, required) in SANDBOX_LIMITS {
            let found = path.iter().try_fold(&*sandbox, |value, key| value.get(*key));
            let Some(found) = found else { continue };
            if required.is_none_or(|required| *found == Value::Bool(required)) {
                let mut place = &mut limits;
                for key in *path {
                    place = &mut place[*key];
                }
                *place = found.clone();
            }
        }
        if limits != *sandbox {
            // The limits are also part of what is cut: laid over the rest again, it is the sandbox as it was written.
            let whole = std::mem::replace(sandbox, limits);
            self.take(&["sandbox"], whole, "sandbox".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cut(settings: Value) -> (Value, Vec<String>) {
        let mut settings = settings.as_object().unwrap().clone();
        let (_, names) = withhold(&mut settings);
        (Value::Object(settings), names)
    }

    #[test]
    fn limits_stay_and_grants_go() {
        let (left, names) = cut(json!({
            "model": "m",
            "permissions": {
                "allow": ["Bash(npm b)"], "ask": ["Read"], "deny": ["WebFetch"],
                "additionalDirectories": ["/a", "/b"], "defaultMode": "bypassPermissions",
                "disableBypassPermissionsMode": "disable"
            },
            "hooks": { "SessionStart": [] },
            "apiKeyHelper": "x",
            "disableAllHooks": true,
            "env": { "FROM": "project", "ANTHROPIC_BASE_URL": "http://x", "NODE_ENV": "test" }
        }));
        assert_eq!(
            left,
            json!({
                "model": "m",
                "permissions": {
                    "ask": ["Read"], "deny": ["WebFetch"], "disableBypassPermissionsMode": "disable"
                }
            })
        );
        assert_eq!(
            names,
            [
                "1 permissions.allow entry",
                "2 permissions.additionalDirectories entries",
                "permissions.defaultMode",
                "apiKeyHelper",
                "hooks",
                "disableAllHooks",
                "env.FROM",
                "env.ANTHROPIC_BASE_URL",
                "env.NODE_ENV",
            ]
        );
    }

    #[test]
    fn stricter_modes_need_no_trust() {
        for mode in ["plan", "dontAsk", "default", "manual"] {
            let settings = json!({ "permissions": { "defaultMode": mode } });
            assert_eq!(cut(settings.clone()), (settings, vec![]), "{mode}");
        }
        assert_eq!(cut(json!({ "permissions": { "allow": [] } })).1, Vec::<String>::new());
    }

    /// Settings that an untrusted folder may choose: they limit a session, or say how the model works and writes.
    const HARMLESS: &[&str] = &[
        "agent",
        "alwaysThinkingEnabled",
        "askUserQuestionTimeout",
        "attribution",
        "autoCompactEnabled",
        "autoCompactWindow",
        "autoMemoryEnabled",
        "availableModels",
        "deniedMcpServers",
        "dialogExpiry",
        "disableAutoMode",
        "disableBundledSkills",
        "disableSkillShellExecution",
        "disableWorkflows",
        "disabledMcpjsonServers",
        "effortLevel",
        "fallbackModel",
        "fileCheckpointingEnabled",
        "forceLoginMethod",
        "forceLoginOrgUUID",
        "includeCoAuthoredBy",
        "includeGitInstructions",
        "language",
        "model",
        "modelOverrides",
        "outputStyle",
        "skillOverrides",
    ];

    #[test]
    fn every_key_is_known_to_need_trust_or_not_to() {
        let cut_in_part = ["disableAllHooks", "env", "permissions", "sandbox"];
        for key in lathe_protocol::Settings::KEYS {
            let is_cut = WIDENING.iter().any(|(known, _)| known == key) || cut_in_part.contains(key);
            let is_policy = crate::known::POLICY_ONLY.contains(key);
            let places = [is_cut, is_policy, HARMLESS.contains(key)];
            assert_eq!(
                places.iter().filter(|place| **place).count(),
                1,
                "{key} belongs to one list: {places:?}"
            );
        }
    }

    #[test]
    fn a_sandbox_may_only_become_tighter() {
        let tight = json!({ "sandbox": {
            "enabled": true, "filesystem": { "denyRead": ["~/.ssh"] }, "network": { "deniedDomains": ["x"] }
        }});
        assert_eq!(cut(tight.clone()), (tight, vec![]));
        let (left, names) = cut(json!({ "sandbox": {
            "enabled": false, "bwrapPath": "./x", "filesystem": { "denyRead": ["a"], "allowWrite": ["/"] }
        }}));
        assert_eq!(left, json!({ "sandbox": { "filesystem": { "denyRead": ["a"] } } }));
        assert_eq!(names, ["sandbox"]);
    }

    #[test]
    fn what_is_taken_and_what_is_left_are_the_whole() {
        let whole = json!({
            "permissions": { "allow": ["a"], "deny": ["b"] }, "env": { "PATH": "x", "A": "b" }, "hooks": { "Stop": [] }
        });
        let mut left = whole.as_object().unwrap().clone();
        let (taken, _) = withhold(&mut left);
        crate::merge::lay_over(&mut left, &taken);
        assert_eq!(Value::Object(left), whole);
    }
}
