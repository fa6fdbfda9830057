//! Replies to `get_context_usage`.

use std::sync::Arc;

use serde_json::json;

use super::Reply;
use crate::control::context_report::ContextReport;
use crate::state::agent::AgentHandle;

/// Returns how full the window is.
pub(super) fn usage(agent: &Arc<AgentHandle>) -> Reply {
    Reply::Success(json!(ContextReport::of(agent).for_hosts()))
}
