//! How full the model's window is, estimated from what the last request held.

use std::sync::Arc;

use lathe_models::catalog;
use serde_json::{Value, json};

use super::Reply;
use crate::shared::Shared;

/// Bytes per token, roughly: there is no tokenizer here, and the counts are shown as estimates.
const BYTES_PER_TOKEN: usize = 4;

/// Answers `get_context_usage`.
pub(super) fn usage(shared: &Arc<Shared>) -> Reply {
    let model = shared.choice().id.clone();
    let window = catalog::capabilities(&model).context_window;
    let tokens = |bytes: usize| (bytes / BYTES_PER_TOKEN) as u64;
    let system: usize = shared.system_prompt().parts().iter().map(|part| part.text.len()).sum();
    let tools = shared.tools().api_json().len();
    let messages: usize = shared
        .last_request()
        .map_or(0, |request| request.messages.iter().map(|message| message.bytes().len()).sum());
    let used = tokens(system) + tokens(tools) + tokens(messages);
    let free = window.saturating_sub(used);
    let category = |id: &str, name: &str, tokens: u64, color: &str, kind: &str| json!({"id": id, "name": name, "tokens": tokens, "color": color, "kind": kind});
    let percentage = (used * 100).checked_div(window).unwrap_or(0);
    Reply::Success(json!({
        "categories": [
            category("system_prompt", "System prompt", tokens(system), "promptBorder", "used"),
            category("system_tools", "System tools", tokens(tools), "inactive", "used"),
            category("messages", "Messages", tokens(messages), "purple", "used"),
            category("free_space", "Free space", free, "subtle", "free"),
        ],
        "totalTokens": used,
        "maxTokens": window,
        "rawMaxTokens": window,
        "percentage": percentage,
        "gridRows": [],
        "model": model,
        "memoryFiles": [],
        "mcpTools": [],
        "agents": [],
        "isAutoCompactEnabled": false,
        "apiUsage": api_usage(shared),
    }))
}

/// What the last answer used, by the API's own count.
fn api_usage(shared: &Shared) -> Value {
    shared.totals().last_usage().map_or(Value::Null, |usage| {
        json!({
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_creation_input_tokens": usage.cache_creation_input_tokens,
            "cache_read_input_tokens": usage.cache_read_input_tokens,
        })
    })
}
