//! What a tool may do to the session that calls it. The tools that need it are declared here like all others, with
//! name, schema and subject; what happens in the session is the business of whoever implements the trait.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::ToolSet;

/// The session as its tools can change it.
pub trait SessionActions: Send + Sync {
    /// Planning begins: nothing may be changed until a plan is approved. Nothing happens where it has begun.
    fn enter_plan_mode(&self) -> BoxFuture<'_, ()>;

    /// Planning is over: the mode from before it holds again. Nothing happens where another mode is in force, as
    /// after a host that chose one while it agreed to the plan.
    fn leave_plan_mode(&self) -> BoxFuture<'_, ()>;

    /// Runs an agent below the one that calls, to the end of its prompt. `tool_use_id` is the call that asks for it;
    /// `cancel` ends the agent.
    fn run_agent(
        self: Arc<Self>,
        request: AgentRequest,
        tool_use_id: String,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, AgentReport>;
}

/// What an agent below another is asked to do, and with what.
pub struct AgentRequest {
    /// The kind of agent, as definitions name it.
    pub agent_type: String,
    /// What it is to do, in a few words, for lists.
    pub description: String,
    /// Its first and only prompt.
    pub prompt: String,
    /// Its whole system prompt.
    pub system_prompt: String,
    /// The tools it has.
    pub tools: ToolSet,
    /// A name of the catalogue; without one it has the model of the agent that starts it.
    pub model: Option<String>,
    /// Where it works; without one where the agent that starts it stands.
    pub folder: Option<PathBuf>,
    /// Answers of the model; none means no limit.
    pub max_rounds: Option<u32>,
}

/// What became of an agent below another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentReport {
    /// What frames and files know it by.
    pub agent_id: String,
    /// The last text of the model.
    pub text: String,
    /// How it ended.
    pub end: AgentEnd,
}

impl AgentReport {
    /// An agent that could not do anything.
    pub fn failed(why: String) -> Self {
        Self { agent_id: String::new(), text: String::new(), end: AgentEnd::Failed(why) }
    }
}

/// How an agent below another ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentEnd {
    /// The model had nothing more to do.
    Completed,
    /// A limit of the session or of the agent was reached.
    LimitReached,
    /// The turn above it was broken off.
    Interrupted,
    /// The model could not be asked.
    Failed(String),
}

/// No session: calls of a tool alone, as tests make them.
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
