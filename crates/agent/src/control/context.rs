//! Answers `get_context_usage`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Reply;
use crate::control::context_report::ContextReport;
use crate::state::agent::AgentHandle;

/// How full the window is.
pub(super) fn usage(agent: &Arc<AgentHandle>) -> Reply {
    let mut report = ContextReport::of(agent).for_hosts();
    report["apiUsage"] = api_usage(agent);
    Reply::Success(report)
}

/// What the last answer used, by the API's own count.
fn api_usage(agent: &AgentHandle) -> Value {
    agent.session.totals().last_usage().map_or(Value::Null, |usage| {
        json!({
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_creation_input_tokens": usage.cache_creation_input_tokens,
            "cache_read_input_tokens": usage.cache_read_input_tokens,
        })
    })
}
