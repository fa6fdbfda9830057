//! Plan mode as the session sees it: what the model is told while it lasts, what a host is shown of the plan,
//! and which mode follows it. What may run meanwhile is decided by `permissions`.

use lathe_permissions::ModeRefused;
use lathe_protocol::PermissionMode;
use lathe_tools::ask_user;
use lathe_tools::plan::{HOW_TO_PLAN, read_plan, rules_of_planning};
use serde_json::{Value, json};

use crate::agent::AgentHandle;

/// The input of a call of the model, before anybody else sees it: what only people may fill in is taken out,
/// and the plan that is to be agreed to is put in.
pub(crate) fn own_input(agent: &AgentHandle, tool: &str, mut input: Value) -> Value {
    let Some(fields) = input.as_object_mut() else { return input };
    match tool {
        "AskUserQuestion" => {
            for field in ask_user::HOST_FIELDS {
                fields.remove(field);
            }
        }
        "ExitPlanMode" => {
            fields.remove("plan");
            let file = agent.workspace.plan_file.as_deref();
            if let Some((file, plan)) = file.and_then(|file| Some((file, read_plan(file)?))) {
                fields.insert("plan".to_owned(), json!(plan));
                fields.insert("planFilePath".to_owned(), json!(file.display().to_string()));
            }
        }
        _ => {}
    }
    input
}

/// Whether a hook has answered the questions of a call in the user's place.
pub(crate) fn is_answered(tool: &str, input: &Value) -> bool {
    let answers = input["answers"].as_object();
    tool == "AskUserQuestion" && answers.is_some_and(|answers| !answers.is_empty())
}

/// The mode that a call leads to, once it has run.
pub(crate) async fn follow(agent: &AgentHandle, tool: &str) {
    let now = agent.session.permissions().mode();
    let next = match (tool, now) {
        ("EnterPlanMode", mode) if mode != PermissionMode::Plan => PermissionMode::Plan,
        // A host that agrees may have chosen a mode at the same time; then that one holds.
        ("ExitPlanMode", PermissionMode::Plan) => agent.view().mode_before_plan.unwrap_or_default(),
        _ => return,
    };
    // Both were in force before, or are open to every session.
    if agent.change_mode(next).is_ok() {
        agent.session.emit(agent.frames.mode_changed(next.as_str())).await;
    }
}

/// What the model is told at the start of a turn in plan mode.
pub(crate) fn note(agent: &AgentHandle) -> Option<String> {
    if agent.session.permissions().mode() != PermissionMode::Plan {
        return None;
    }
    let rules = match agent.tool("ExitPlanMode") {
        Some(_) => rules_of_planning(agent.workspace.plan_file.as_deref()),
        None => "Nothing may be changed: read and search only, and answer with the plan.".to_owned(),
    };
    let how = agent.session.introduction().plan_mode_instructions.clone();
    Some(format!("Plan mode is on. {rules}\n{}", how.as_deref().unwrap_or(HOW_TO_PLAN)))
}

impl AgentHandle {
    /// Changes the permission mode, and remembers what planning interrupts.
    pub(crate) fn change_mode(&self, mode: PermissionMode) -> Result<(), ModeRefused> {
        let before = {
            let mut engine = self.session.permissions();
            let before = engine.mode();
            engine.set_mode(mode)?;
            before
        };
        if mode == PermissionMode::Plan && before != PermissionMode::Plan {
            self.change(|view| view.mode_before_plan = Some(before));
        }
        Ok(())
    }
}
