//! What a tool may do to the session that calls it. The tools that need this are declared like all others, with name,
//! schema and subject; the implementation of the trait decides what happens in the session.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::worktree_tools::actions::WorktreeActions;
use crate::{
    ScheduleActions, SessionRemarks, TaskActions, ToolLoading, ToolSet, WebActions, WorkListActions,
};

/// The session, as its tools can change it.
pub trait SessionActions:
    TaskActions + WorkListActions + ToolLoading + ScheduleActions + SessionRemarks + WebActions + WorktreeActions
{
    /// Enters plan mode: nothing may be changed until a plan is approved. No effect in plan mode.
    fn enter_plan_mode(&self) -> BoxFuture<'_, ()>;

    /// Leaves plan mode: the mode from before is restored. No effect if another mode is in force, for example because
    /// the host chose one when it approved the plan.
    fn leave_plan_mode(&self) -> BoxFuture<'_, ()>;

    /// Runs a subagent until it has responded to its prompt. `tool_use_id` is the call that asks for it; `cancel`
    /// ends the agent and everything it started.
    fn run_agent(
        self: Arc<Self>,
        request: AgentRequest,
        tool_use_id: String,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, AgentReport>;
}

/// The task of a subagent, and what it works with.
pub struct AgentRequest {
    /// The type of agent, as definitions name it.
    pub agent_type: String,
    /// The task in a few words, for lists.
    pub description: String,
    /// Its first and only prompt.
    pub prompt: String,
    /// Its whole system prompt.
    pub system_prompt: String,
    /// The tools it has.
    pub tools: ToolSet,
    /// A name of the catalogue; `None` uses the model of the agent that starts it.
    pub model: Option<String>,
    /// The folder it works in; `None` uses the current folder of the agent that starts it.
    pub folder: Option<PathBuf>,
    /// The most responses of the model; `None` means no limit.
    pub max_rounds: Option<u32>,
}

/// The result of a subagent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentReport {
    /// Its id in frames and files.
    pub agent_id: String,
    /// The last text of the model.
    pub text: String,
    /// How it ended.
    pub end: AgentEnd,
}

impl AgentReport {
    /// Returns the report of an agent that could not start.
    pub fn failed(why: String) -> Self {
        Self { agent_id: String::new(), text: String::new(), end: AgentEnd::Failed(why) }
    }
}

/// How a subagent ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentEnd {
    /// The model had nothing more to do.
    Completed,
    /// A limit of the session or of the agent was reached.
    LimitReached,
    /// The turn of the agent that started it was interrupted.
    Interrupted,
    /// The model could not be called.
    Failed(String),
}

/// Stands in for a session where a tool is called alone, as in tests.
pub struct DetachedSession;

impl SessionActions for DetachedSession {
    fn enter_plan_mode(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn leave_plan_mode(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn run_agent(
        self: Arc<Self>,
        _request: AgentRequest,
        _tool_use_id: String,
        _cancel: CancellationToken,
    ) -> BoxFuture<'static, AgentReport> {
        Box::pin(std::future::ready(AgentReport::failed("there is no session".to_owned())))
    }
}
