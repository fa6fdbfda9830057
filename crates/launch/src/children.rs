//! What the children of a session see of the world: the environment of the process, what settings add to it,
//! and who started them.
//!
//! Credentials of the model are in the environment of the process and of nothing that works for the model or a project:
//! commands of tools and hooks of projects do not find them, unless the user passes them on by name. The surprising
//! thing: a child is told the names that were kept from it ([`WITHHELD_VARIABLE`]), so that a `lathe` among the
//! children can say why it has no key.

use std::collections::BTreeMap;

use lathe_agent::SessionEnv;
use lathe_hooks::HookVariables;
use lathe_models::credentials::CREDENTIAL_VARIABLES;
use lathe_settings::{SettingsStack, Writer};
use lathe_tools::ChildVariables;

use crate::LATHE_VERSION;
use crate::env::LaunchEnvironment;
use crate::settings::TRUST_VARIABLE;

/// The names that were kept from a child, separated by commas.
pub(crate) const WITHHELD_VARIABLE: &str = "LATHE_WITHHELD";

/// Makes the environments of one session's children.
pub struct ChildEnvironments {
    /// As the process was started, without what settings set.
    process: LaunchEnvironment,
    session_id: String,
    /// Names of credentials that the options pass on.
    tool_env: Vec<String>,
}

impl ChildEnvironments {
    /// Keeps the environment of the process before settings are applied: they are added anew whenever they change.
    /// `tool_env` names the credentials that children may find.
    pub fn new(process: LaunchEnvironment, session_id: &str, tool_env: &[String]) -> Self {
        Self { process, session_id: session_id.to_owned(), tool_env: tool_env.to_vec() }
    }

    /// Returns the environment that the process was started with, plus these variables of settings, which win.
    /// Variables of earlier settings are not in it.
    pub fn process_with(&self, settings: &BTreeMap<String, String>) -> LaunchEnvironment {
        let mut env = self.process.clone();
        for (name, value) in settings {
            env.set(name, value);
        }
        env
    }

    /// Returns the variables for tools and for hooks under these settings. Variables that name the session are set
    /// last, so that settings cannot give a child a false one; `AI_AGENT` differs between tools and hooks.
    pub fn env(&self, settings: &SettingsStack) -> SessionEnv {
        let mut child = self.process_with(&settings.env());
        let mut passed = [self.tool_env.as_slice(), &settings.tool_env()].concat();
        let withheld = withheld_names(&passed);
        let own = self.own_variables(&child, &withheld);
        // After the variables of settings, so that these cannot give a child a false session.
        for (name, value) in &own {
            child.set(name, value);
        }
        passed.extend(own.into_iter().map(|(name, _)| name.to_owned()));
        let tools = ChildVariables {
            all: listed(&child),
            withheld: withheld.clone(),
            passed,
            by_user: settings.env_of_user(),
        };
        // Hooks alone get this value: the variables of tools have been copied before.
        child.set("AI_AGENT", &format!("lathe_{LATHE_VERSION}_harness"));
        SessionEnv { tools, hooks: HookVariables { all: listed(&child), withheld } }
    }

    /// Returns the variables that tell a command which session started it, and in [`WITHHELD_VARIABLE`] the names of
    /// the credentials that were kept from it, by this process or by a `lathe` above it.
    fn own_variables(&self, env: &LaunchEnvironment, withheld: &[String]) -> Vec<(&'static str, String)> {
        let entrypoint = env.get("CLAUDE_CODE_ENTRYPOINT").unwrap_or("sdk-cli");
        let mut own = vec![
            ("CLAUDECODE", "1".to_owned()),
            ("CLAUDE_CODE_CHILD_SESSION", "1".to_owned()),
            ("CLAUDE_CODE_ENTRYPOINT", entrypoint.to_owned()),
            ("CLAUDE_CODE_SESSION_ID", self.session_id.clone()),
            ("CLAUDE_CODE_SESSION_ATTENDED", "0".to_owned()),
            ("AI_AGENT", format!("lathe_{LATHE_VERSION}_agent")),
            // An editor would wait for a person; `true` accepts the text as it is.
            ("GIT_EDITOR", "true".to_owned()),
        ];
        own.extend(env.pid.map(|pid| ("CLAUDE_PID", pid.to_string())));
        let mut kept = kept_by_parent(env);
        let kept_here = withheld.iter().filter(|name| env.get(name).is_some());
        kept.extend(kept_here.cloned());
        if !kept.is_empty() {
            kept.sort();
            kept.dedup();
            own.push((WITHHELD_VARIABLE, kept.join(",")));
        }
        own
    }
}

/// Returns the names of all credential variables except those in `passed`.
fn withheld_names(passed: &[String]) -> Vec<String> {
    let names = CREDENTIAL_VARIABLES.into_iter().filter(|name| !passed.iter().any(|passed| passed == name));
    names.map(str::to_owned).collect()
}

/// Returns the names of the credentials that a `lathe` above this process kept from it. Names that are no credential
/// variables are dropped, because any parent can set the variable and the names end up in messages.
pub(crate) fn kept_by_parent(env: &LaunchEnvironment) -> Vec<String> {
    let names = env.get(WITHHELD_VARIABLE).into_iter().flat_map(|names| names.split(','));
    // Any parent can set the variable, and the names end up in messages, so only known ones are believed.
    names.filter(|name| CREDENTIAL_VARIABLES.contains(name)).map(str::to_owned).collect()
}

/// Returns the environment for `apiKeyHelper`: without the withheld credentials if settings of the project name the
/// helper, otherwise all of `env`. `tool_env` names the credentials that the options pass on.
pub(crate) fn helper_environment(
    env: &LaunchEnvironment,
    settings: &SettingsStack,
    tool_env: &[String],
) -> LaunchEnvironment {
    match settings.key_helper_writer() {
        Some(Writer::User) | None => env.clone(),
        Some(Writer::Project) => env.without(&withheld_names(&[tool_env, &settings.tool_env()].concat())),
    }
}

/// Returns the variables as a list, without [`TRUST_VARIABLE`]: it vouches for this folder, and a child may start a
/// session in another one.
fn listed(env: &LaunchEnvironment) -> Vec<(String, String)> {
    let variables = env.variables().filter(|(name, _)| *name != TRUST_VARIABLE);
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
