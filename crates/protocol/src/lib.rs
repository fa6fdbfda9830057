//! Every line that crosses the standard streams of a session, as types that keep unknown data.
//!
//! [`Outbound`] is a line of stdout, [`Inbound`] a line of stdin; control messages, hook inputs and outputs, permission
//! updates and settings files are the parts inside them; [`reminder`] is the tag around text that the runtime adds to a
//! conversation. This crate does no I/O and makes no decisions: reading files, checking settings and replying to
//! requests are done elsewhere.
//!
//! One rule shapes everything: the wire is open. An object with an unknown tag, or with a known tag and fields that do
//! not fit, becomes `Unknown` with the raw value; an unknown field stays in `extra`. Reading a line and writing it
//! again therefore never loses anything, and no line that is a JSON object is ever an error.

// Fields are named as on the wire and documented only where the name is not enough.
#![allow(
    missing_docs,
    reason = "wire fields: the name is the wire's, a doc line only where it adds something"
)]

#[macro_use]
mod wire;

pub mod client_generation;
pub mod content;
pub mod control;
pub mod event;
pub mod hooks;
pub mod inbound;
pub mod mcp;
pub mod message;
pub mod outbound;
pub mod permission;
pub mod reminder;
pub mod result;
pub mod settings;
pub mod subject;
pub mod system;
pub mod text;
pub mod tool_names;
pub mod usage;
pub mod web;

pub use client_generation::{ClientFacts, ClientGeneration};
pub use content::{BlockView, ContentBlock, MessageContent, UserContent};
pub use control::{
    AgentDefinition, CanUseToolRequest, ControlCancelRequest, ControlRequest, ControlRequestBody,
    ControlResponse, ControlResponseBody, HookCallbackRequest, InitializeRequest, InitializeResponse,
    McpMessageRequest, PermissionResult,
};
pub use event::StreamEventMessage;
pub use hooks::{HookEvent, HookInput, HookOutput};
pub use inbound::{Inbound, InboundUser, LineError};
pub use mcp::McpServerConfig;
pub use message::{ApiMessage, AssistantMessage, Role, ToolResultMeta, UserMessage};
pub use outbound::Outbound;
pub use permission::{
    PermissionBehavior, PermissionMode, PermissionRule, PermissionUpdate, PermissionUpdateDestination,
};
pub use result::{ModelUsage, PermissionDenial, ResultMessage};
pub use settings::{EnabledHooks, Settings, SettingsSource};
pub use subject::{CallSubject, FileAccess, McpAccess, SessionAccess, UserQuestion};
pub use system::{Init, SystemMessage};
pub use usage::Usage;
pub use wire::Extra;
