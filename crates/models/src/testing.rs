//! Helpers that the unit tests of this crate share.

use lathe_protocol::Role;
use serde_json::json;

use crate::request::{CacheTtl, ModelRequest, Thinking, WireMessage};

/// Returns a minimal valid request.
pub(crate) fn request() -> ModelRequest {
    ModelRequest {
        model: "claude-opus-5-5".into(),
        max_tokens: 1000,
        system: Vec::new(),
        tools: "[]".into(),
        defers_tools: false,
        messages: vec![message(Role::User, "hi")],
        thinking: Thinking::Disabled,
        effort: None,
        task_budget: None,
        user_id: None,
        betas: Vec::new(),
        cache: CacheTtl::Off,
        extra_body: serde_json::Map::new(),
        agent: "main".into(),
    }
}

/// Returns a message of one text block.
pub(crate) fn message(role: Role, text: &str) -> WireMessage {
    WireMessage::new(role, &[json!({"type": "text", "text": text})]).expect("a text block serialises")
}
