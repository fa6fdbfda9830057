//! A model that follows a script, for testing an agent program without a network.
//!
//! One script has three uses: [`ScriptedModel`] responds in-process, [`serve`] responds to any Messages API client over
//! HTTP, and [`record`](record::record) is a proxy in front of a real API that writes the script which replays it. All
//! three use the same [`ScriptEngine`] (which turn?) and the same [`render`] (which bytes, and where do they break
//! off?), so a fault that a test provokes in-process is the fault that a client would see on the wire. One check for
//! both refuses what the API would refuse. `SCRIPT.md` in the folder of this crate describes the format.

pub mod builtin;
mod check;
pub mod engine;
mod error;
pub mod facts;
mod http;
mod load;
pub mod matcher;
pub mod model;
pub mod record;
pub mod render;
mod scenario;
pub mod script;
pub mod server;
mod signature;
mod template;

pub use check::RequestRefusal;
pub use engine::{ScriptEngine, Served};
pub use error::ScriptError;
pub use facts::Facts;
pub use matcher::{Conditions, TextMatch};
pub use model::ScriptedModel;
pub use record::{RecordOptions, RecorderHandle, record};
pub use script::{Script, ToolCall, Turn};
pub use server::{LoggedRequest, RequestStrictness, ServeOptions, ServerHandle, serve};
pub use template::{Template, TemplateError};
