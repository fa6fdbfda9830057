//! An engine with the scope of one agent, and calls described as their tools describe them.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(missing_docs, reason = "for tests only")]

use std::ops::{Deref, DerefMut};
use std::path::Path;

use lathe_permissions::{
    Decision, EngineConfig, Explanation, Judged, PermissionEngine, PermissionQuestion, PermissionScope,
    PermissionScopeConfig, RuleWarning, UpdateError,
};
use lathe_protocol::permission::PermissionUpdate;
use lathe_protocol::{CallSubject, FileAccess, SessionAccess, UserQuestion};
use serde_json::Value;

/// Rules, mode and directories together, as one session with one agent has them.
pub struct Rig {
    pub engine: PermissionEngine,
    pub scope: PermissionScope,
}

impl Deref for Rig {
    type Target = PermissionEngine;

    fn deref(&self) -> &PermissionEngine {
        &self.engine
    }
}

impl DerefMut for Rig {
    fn deref_mut(&mut self) -> &mut PermissionEngine {
        &mut self.engine
    }
}

impl Rig {
    /// The first working directory is the project root.
    pub fn new(config: EngineConfig, scope: PermissionScopeConfig) -> Self {
        let root = scope.working_dirs.first().cloned();
        Self {
            engine: PermissionEngine::new(EngineConfig { root, ..config }),
            scope: PermissionScope::new(scope),
        }
    }

    pub fn decide(&self, tool: &str, input: &Value, cwd: &Path) -> Decision {
        self.judge(tool, input, cwd).decision
    }

    pub fn judge(&self, tool: &str, input: &Value, cwd: &Path) -> Judged {
        self.judge_subject(tool, input, subject(tool, input), cwd)
    }

    pub fn judge_subject(&self, tool: &str, input: &Value, subject: CallSubject, cwd: &Path) -> Judged {
        let call = self.engine.describe(subject);
        self.engine.judge(&PermissionQuestion { tool, input, call: &call, cwd, scope: &self.scope })
    }

    pub fn explain(&self, tool: &str, input: &Value, cwd: &Path) -> Explanation {
        let call = self.engine.describe(subject(tool, input));
        self.engine.explain(&PermissionQuestion { tool, input, call: &call, cwd, scope: &self.scope })
    }

    pub fn apply(&mut self, update: &PermissionUpdate) -> Result<Vec<RuleWarning>, UpdateError> {
        self.engine.apply(update, &mut self.scope)
    }
}

/// What a call is about, for the tools there are and for those that are still to come.
pub fn subject(tool: &str, input: &Value) -> CallSubject {
    let text = |name: &str| input.get(name).and_then(Value::as_str);
    let known = |name: &str, of: fn(String) -> CallSubject| {
        text(name).map_or(CallSubject::Unknown, |text| of(text.to_owned()))
    };
    let search = |name_pattern: Option<&str>| CallSubject::File {
        path: text("path").unwrap_or_default().to_owned(),
        access: FileAccess::Search { name_pattern: name_pattern.map(str::to_owned) },
    };
    match tool {
        "Bash" | "Monitor" => known("command", |command| CallSubject::Shell { command }),
        "Read" => CallSubject::read(text("file_path")),
        "Write" | "Edit" | "MultiEdit" => CallSubject::write(text("file_path")),
        "NotebookEdit" => CallSubject::write(text("notebook_path")),
        "Grep" | "LS" => search(None),
        "Glob" => search(text("pattern")),
        "WebFetch" => known("url", |url| CallSubject::Host { url }),
        "WebSearch" => known("query", |query| CallSubject::WebSearch { query }),
        "Agent" | "Task" => {
            CallSubject::Agent { agent_type: text("subagent_type").unwrap_or("general-purpose").to_owned() }
        }
        "Skill" => known("skill", |name| CallSubject::Skill { name }),
        "AskUserQuestion" => CallSubject::Question(UserQuestion::Open),
        "ExitPlanMode" => CallSubject::Question(UserQuestion::PlanApproval),
        "EnterPlanMode" | "EnterWorktree" | "TodoWrite" | "CronCreate" => {
            CallSubject::Session(SessionAccess::Changes)
        }
        "CronList" => CallSubject::Session(SessionAccess::Reads),
        "StructuredOutput" => CallSubject::StructuredOutput,
        name => CallSubject::of_mcp_name(name).unwrap_or(CallSubject::Unknown),
    }
}
