//! Replies to `get_context_usage`.

use std::sync::Arc;

use serde_json::json;

use super::Reply;
use crate::control::context_report::ContextReport;
use crate::state::agent::AgentHandle;

/// Replies to `get_context_usage` with the report on how full the model's window is.
pub(super) fn usage(agent: &Arc<AgentHandle>) -> Reply {
    Reply::Success(json!(ContextReport::of(agent).for_hosts()))
}
