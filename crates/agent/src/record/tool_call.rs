//! A tool call and its result, as the values that the loop, the hooks and `call/toolrun.rs` pass to each other.

use lathe_permissions::DescribedCall;
use lathe_protocol::system::Informational;
use lathe_protocol::{PermissionDenial, ToolResultMeta};
use lathe_transcript::DeferredCall;
use serde_json::Value;

use crate::record::tool_result::ToolResult;

/// A call as the model asked for it.
#[derive(Debug, Clone)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    /// The input: in the tool's own form if it fits, else as it came.
    pub input: Value,
    /// What a call with this input is about; unknown if no tool has described it.
    pub description: DescribedCall,
    /// The record of the block with the call, which the result's record points back to.
    pub assistant_uuid: String,
}

impl ToolCall {
    /// Restores a call that an earlier run of the session deferred. It has no description yet; one is made before
    /// it runs.
    pub fn from_earlier_run(call: DeferredCall) -> Self {
        Self {
            id: call.tool_use_id,
            name: call.name,
            input: call.input,
            description: DescribedCall::unknown(),
            assistant_uuid: call.assistant_uuid,
        }
    }
}

/// An input, and what a call with it is about.
#[derive(Debug, Clone)]
pub struct DescribedInput {
    pub value: Value,
    pub description: DescribedCall,
}

/// The result of a call: always exactly one per call.
#[derive(Debug)]
pub struct ToolCallResult {
    pub call: ToolCall,
    /// The `tool_result` block for the model and the host.
    pub block: ToolResult,
    /// `tool_use_result`.
    pub result: Value,
    pub meta: Option<ToolResultMeta>,
    pub denial: Option<PermissionDenial>,
    /// Whether an interrupt cut it off.
    pub interrupted: bool,
    /// Notes of hooks for the model, which follow the result.
    pub notes: Vec<String>,
    /// Notices of hooks for people, which follow the result.
    pub notices: Vec<Informational>,
    /// Whether a hook wants the turn to end here.
    pub stops: bool,
}

/// How a call ended.
#[derive(Debug)]
pub enum CallEnd {
    Answered(Box<ToolCallResult>),
    /// A hook deferred it, so it has no result yet.
    Deferred(Box<ToolCall>),
}
