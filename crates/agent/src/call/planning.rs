//! What tools do to the session: the agents that they start (`turn/child.rs`) and plan mode, that is when it begins,
//! what the model is told while it lasts, and which mode follows it. The tools are declared in `lathe-tools`; what may
//! run in plan mode is decided by `lathe-permissions`.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use lathe_permissions::ModeRefused;
use lathe_protocol::PermissionMode;
use lathe_tools::plan::{ExitPlanMode, HOW_TO_PLAN, rules_of_planning};
use lathe_tools::{AgentReport, AgentRequest, SessionActions, SessionRemarks};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::state::agent::AgentHandle;

impl SessionRemarks for AgentHandle {
    fn remark<'a>(&'a self, tag: &'a str, text: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(self.session.trouble(tag, text))
    }
}

impl SessionActions for AgentHandle {
    fn enter_plan_mode(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.view().scope.mode() != PermissionMode::Plan {
                self.enter_mode(PermissionMode::Plan).await;
            }
        })
    }

    fn leave_plan_mode(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let view = self.view();
            // A host that approves a plan may set another mode at the same time; that mode stays.
            if view.scope.mode() == PermissionMode::Plan {
                self.enter_mode(view.mode_before_plan.unwrap_or_default()).await;
            }
        })
    }

    fn run_agent(
        self: Arc<Self>,
        request: AgentRequest,
        tool_use_id: String,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, AgentReport> {
        Box::pin(async move {
            // A task of its own, because polling a turn inside a turn would need twice the stack. This call owns it:
            // dropping the set ends the task.
            let mut task = JoinSet::new();
            task.spawn(async move { self.run_child(request, &tool_use_id, &cancel).await });
            match task.join_next().await {
                Some(Ok(report)) => report,
                Some(Err(error)) => AgentReport::failed(error.to_string()),
                None => AgentReport::failed("it never began".to_owned()),
            }
        })
    }
}

/// Returns the note about plan mode that the model gets at the start of a turn: what it may change, and how to plan.
/// `None` in every other mode.
pub(crate) fn note(agent: &AgentHandle) -> Option<String> {
    if agent.view().scope.mode() != PermissionMode::Plan {
        return None;
    }
    let rules = match agent.tool(ExitPlanMode::NAME) {
        Some(_) => rules_of_planning(agent.workspace.plan_file.as_deref()),
        None => "Nothing may be changed: read and search only, and answer with the plan.".to_owned(),
    };
    let how = agent.session.introduction().plan_mode_instructions.clone();
    Some(format!("Plan mode is on. {rules}\n{}", how.as_deref().unwrap_or(HOW_TO_PLAN)))
}

impl AgentHandle {
    /// Enters a permission mode because a tool asked for it, and sends the host the frame about the change. Does
    /// nothing if the session does not permit the mode any more.
    async fn enter_mode(&self, mode: PermissionMode) {
        if self.change_mode(mode).is_ok() {
            self.session.emit(self.frames.mode_changed(mode.as_str())).await;
        }
    }

    /// Changes the permission mode; fails and changes nothing if the session does not permit it. When plan mode begins,
    /// the mode before it is kept, so that leaving plan mode can return to it. Sends nothing: the caller tells the
    /// host.
    pub(crate) fn change_mode(&self, mode: PermissionMode) -> Result<(), ModeRefused> {
        self.change(|view| {
            let before = view.scope.mode();
            view.scope.set_mode(mode)?;
            if mode == PermissionMode::Plan && before != PermissionMode::Plan {
                view.mode_before_plan = Some(before);
            }
            Ok(())
        })
    }
}
