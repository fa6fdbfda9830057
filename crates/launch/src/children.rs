//! What the children of a session see of the world: the environment of the process, what settings add to it,
//! and who started them.

use std::collections::BTreeMap;

use lathe_agent::SessionEnv;

use crate::LATHE_VERSION;
use crate::env::LaunchEnvironment;
use crate::settings::TRUST_VARIABLE;

/// Makes the environments of one session's children.
pub struct ChildEnvironments {
    /// As the process was started, without what settings set.
    process: LaunchEnvironment,
    session_id: String,
}

impl ChildEnvironments {
    pub fn new(process: LaunchEnvironment, session_id: &str) -> Self {
        Self { process, session_id: session_id.to_owned() }
    }

    /// The environment of the process with these variables of settings.
    pub fn process_with(&self, settings: &BTreeMap<String, String>) -> LaunchEnvironment {
        let mut env = self.process.clone();
        for (name, value) in settings {
            env.set(name, value);
        }
        env
    }

    /// The environments with these variables of settings.
    pub fn env(&self, settings: &BTreeMap<String, String>) -> SessionEnv {
        let mut child = self.process_with(settings);
        let entrypoint = child.get("CLAUDE_CODE_ENTRYPOINT").unwrap_or("sdk-cli").to_owned();
        if let Some(pid) = child.pid {
            child.set("CLAUDE_PID", &pid.to_string());
        }
        for (name, value) in [
            ("CLAUDECODE", "1"),
            ("CLAUDE_CODE_CHILD_SESSION", "1"),
            ("CLAUDE_CODE_ENTRYPOINT", &entrypoint),
            ("CLAUDE_CODE_SESSION_ID", &self.session_id),
            ("CLAUDE_CODE_SESSION_ATTENDED", "0"),
            ("AI_AGENT", &format!("lathe_{LATHE_VERSION}_agent")),
            ("GIT_EDITOR", "true"),
        ] {
            child.set(name, value);
        }
        let tools = listed(&child);
        child.set("AI_AGENT", &format!("lathe_{LATHE_VERSION}_harness"));
        SessionEnv { tools, hooks: listed(&child) }
    }
}

/// Without the variable that vouches for this folder: a child may start a session in another one.
fn listed(env: &LaunchEnvironment) -> Vec<(String, String)> {
    let variables = env.variables().filter(|(name, _)| *name != TRUST_VARIABLE);
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
