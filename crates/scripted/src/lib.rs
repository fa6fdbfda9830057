//! A model that follows a script, for everyone who tests an agent program without a network.
//!
//! One script, three faces: [`ScriptedModel`] answers in-process, [`serve`] answers any Messages API
//! client over HTTP, and [`record`](record::record) sits in front of a real API and writes the script
//! that replays it. All three go through the same [`ScriptEngine`] (which turn?) and the same
//! [`render`] (which bytes, and where do they break off?), so a fault that a
//! test provokes in-process is the fault a client would meet on the wire. A request that the API would refuse
//! is refused, by one check for both. `SCRIPT.md` beside this crate
//! describes the format.

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
