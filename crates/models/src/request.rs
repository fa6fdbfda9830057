//! A request to a model. Messages are serialised once, when they enter the history, and sent as they
//! are ever after: assembling turn 1,000 costs what turn 1 did.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

/// Everything one attempt needs. Built by the loop, shared by its retries.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// Resolved model id, e.g. `claude-opus-5-5`.
    pub model: String,
    pub max_tokens: u32,
    /// System prompt parts, in order.
    pub system: Vec<SystemPart>,
    /// The `tools` array, serialised.
    pub tools: Arc<str>,
    /// The conversation, oldest first.
    pub messages: Vec<WireMessage>,
    pub thinking: Thinking,
    /// `output_config.effort`, for models that take it.
    pub effort: Option<String>,
    /// `metadata.user_id`.
    pub user_id: Option<String>,
    /// Values of the `anthropic-beta` header.
    pub betas: Vec<String>,
    pub cache: CacheTtl,
    /// Further top-level keys of the body (`CLAUDE_CODE_EXTRA_BODY`).
    pub extra_body: serde_json::Map<String, serde_json::Value>,
    /// Who asks (`main`, or a subagent's type). Never sent; scripts choose turns by it.
    pub agent: Arc<str>,
}

/// One part of the system prompt.
#[derive(Debug, Clone)]
pub struct SystemPart {
    pub text: String,
    /// Put a cache breakpoint behind this part.
    pub cached: bool,
}

/// How the model may think.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Thinking {
    Disabled,
    Adaptive,
    Budget(u32),
}

/// Whether and how long the API may keep the prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheTtl {
    Off,
    FiveMinutes,
    OneHour,
}

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
}

/// One message of the conversation as the bytes that will be sent:
/// `{"role":"user","content":[{…},{…}]}`, never empty, content always a list of objects.
/// That fixed ending lets a cache breakpoint be spliced into the last block without parsing.
#[derive(Debug, Clone)]
pub struct WireMessage {
    role: Role,
    bytes: Bytes,
}

impl WireMessage {
    /// Serialises a message. `blocks` must not be empty and each must be a JSON object.
    pub fn new<B: Serialize>(role: Role, blocks: &[B]) -> Result<Self, serde_json::Error> {
        let name = match role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let mut bytes = format!(r#"{{"role":"{name}","content":"#).into_bytes();
        serde_json::to_writer(&mut bytes, blocks)?;
        bytes.push(b'}');
        debug_assert!(bytes.ends_with(b"}]}"), "a message ends with an object block");
        Ok(Self { role, bytes: bytes.into() })
    }

    pub fn role(&self) -> Role {
        self.role
    }

    /// The message as JSON.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}
