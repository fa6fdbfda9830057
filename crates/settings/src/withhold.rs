//! What a folder may not say about itself before somebody trusts it: everything that widens what a session
//! may do, starts a program or sends something somewhere. What limits a session always counts.
//!
//! The same cut is used for files that change while a session runs, and for a parent program's settings below
//! those of an administrator. Surprising: `env` is cut by name. Most variables are harmless, and projects rely
//! on them; those that choose programs, libraries, servers or credentials are not.

use serde_json::{Map, Value};

use lathe_protocol::PermissionMode;

/// Keys that are cut as a whole.
const WIDENING: &[&str] = &[
    "allowedHttpHookUrls",
    "allowedMcpServers",
    "apiKeyHelper",
    "autoMemoryDirectory",
    "autoMode",
    "awsAuthRefresh",
    "awsCredentialExport",
    "claudeMdExcludes",
    "cleanupPeriodDays",
    "crossSessionInbound",
    "enableAllProjectMcpServers",
    "enabledMcpjsonServers",
    "enabledPlugins",
    "extraKnownMarketplaces",
    "fileSuggestion",
    "gcpAuthRefresh",
    "hooks",
    "httpHookAllowedEnvVars",
    "otelHeadersHelper",
    "plansDirectory",
    "pluginConfigs",
    "skipDangerousModePermissionPrompt",
    "statusLine",
    "subagentStatusLine",
    "worktree",
];

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

/// Beginnings of variables that a folder may not set.
#[rustfmt::skip]
const GUARDED_PREFIXES: &[&str] = &[
    "ANTHROPIC_", "API_", "AWS_", "AZURE_", "BASH_", "BUN_", "CARGO_", "CLAUDE", "CLOUDSDK_", "DENO_",
    "DISABLE_", "DOCKER_", "DYLD_", "ENABLE_", "GCLOUD_", "GH_", "GIT_", "GITHUB_", "GOOGLE_", "JAVA_",
    "JDK_", "KUBE", "LATHE_", "LD_", "LESS", "MAX_", "MCP_", "NODE_", "NPM_", "OPENAI_", "OTEL_", "PERL",
    "PIP_", "PYTHON", "RUBY", "RUSTC_", "SSH_", "SSL_", "SUDO_", "UV_", "VERTEX_", "XDG_", "YARN_",
];

/// Whole names that a folder may not set.
#[rustfmt::skip]
const GUARDED_NAMES: &[&str] = &[
    "BROWSER", "CC", "CURL_CA_BUNDLE", "CURL_HOME", "CXX", "EDITOR", "ENV", "GOFLAGS", "GOPROXY", "HOME",
    "IFS", "IS_SANDBOX", "LOGNAME", "MAKEFLAGS", "MANPAGER", "PAGER", "PATH", "PROMPT_COMMAND", "PS4",
    "REQUESTS_CA_BUNDLE", "SHELL", "SHELLOPTS", "TEMP", "TMP", "TMPDIR", "USER", "VISUAL", "WGETRC", "ZDOTDIR",
    "_JAVA_OPTIONS",
];

/// A folder may set `NODE_ENV`; this is what the long prefix list would otherwise catch.
const HARMLESS: &[&str] = &["NODE_ENV", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "CARGO_TERM_COLOR"];

/// Takes out what needs trust. Returns what was taken, and its names for a message.
pub(crate) fn withhold(settings: &mut Map<String, Value>) -> (Map<String, Value>, Vec<String>) {
    let mut cut = Cut::default();
    if let Some(permissions) = settings.get_mut("permissions").and_then(Value::as_object_mut) {
        cut.permissions(permissions);
    }
    for key in WIDENING {
        if let Some(value) = settings.shift_remove(*key) {
            cut.take(&[key], value, (*key).to_owned());
        }
    }
    // `false` is what holds anyway.
    if settings.get("disableAllHooks") == Some(&Value::Bool(true)) {
        settings.shift_remove("disableAllHooks");
        cut.take(&["disableAllHooks"], Value::Bool(true), "disableAllHooks".to_owned());
    }
    if let Some(env) = settings.get_mut("env").and_then(Value::as_object_mut) {
        cut.env(env);
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

    fn env(&mut self, env: &mut Map<String, Value>) {
        let guarded: Vec<String> = env.keys().filter(|name| is_guarded(name)).cloned().collect();
        for name in guarded {
            if let Some(value) = env.shift_remove(&name) {
                self.take(&["env", &name], value, format!("env.{name}"));
            }
        }
    }

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
            let whole = std::mem::replace(sandbox, limits);
            self.take(&["sandbox"], whole, "sandbox".to_owned());
        }
    }
}

/// Whether a variable chooses programs, libraries, servers or credentials.
fn is_guarded(name: &str) -> bool {
    let upper = name.to_uppercase();
    if HARMLESS.contains(&upper.as_str()) {
        return false;
    }
    // What a shell would not accept as a name has no honest use.
    let is_odd = name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let ends =
        ["_PROXY", "_TOKEN", "_KEY", "_SECRET", "_PASSWORD", "_BASE_URL", "_CERT", "_OPTIONS", "_OPTS"];
    is_odd
        || GUARDED_NAMES.contains(&upper.as_str())
        || GUARDED_PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
        || ends.iter().any(|end| upper.ends_with(end))
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
                },
                "env": { "FROM": "project", "NODE_ENV": "test" }
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
                "env.ANTHROPIC_BASE_URL",
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

    #[test]
    fn variables_that_choose_code_servers_or_credentials_are_guarded() {
        for name in [
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_CUSTOM_HEADERS",
            "HTTPS_PROXY",
            "https_proxy",
            "ALL_PROXY",
            "SSL_CERT_FILE",
            "NODE_EXTRA_CA_CERTS",
            "NODE_OPTIONS",
            "LD_PRELOAD",
            "BASH_ENV",
            "ENV",
            "PATH",
            "HOME",
            "CLAUDE_CONFIG_DIR",
            "GIT_SSH_COMMAND",
            "PYTHONSTARTUP",
            "IS_SANDBOX",
            "XDG_CONFIG_HOME",
            "BASH_FUNC_ls%%",
            "",
            "MY_API_KEY",
            "NODE_TLS_REJECT_UNAUTHORIZED",
            "JAVA_TOOL_OPTIONS",
        ] {
            assert!(is_guarded(name), "{name}");
        }
        for name in ["FROM", "NODE_ENV", "RUST_LOG", "DATABASE_NAME", "CI", "DEBUG", "TZ", "FOO"] {
            assert!(!is_guarded(name), "{name}");
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
