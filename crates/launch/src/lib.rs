//! Assembly: turns options, an environment and a folder with its settings into a session that can run.
//!
//! [`prepare`] does all of it: `project_context.rs` finds the folder, its settings and its rules, `sessions.rs` opens
//! the session's file, `client.rs` finds the model, and `start.rs` fills in the configuration of the agent. This crate
//! prints nothing and does not read the environment of the process: errors and warnings are values, and parsing flags
//! is left to the calling program.

mod children;
pub mod client;
mod deferral;
mod env;
mod error;
pub mod host;
mod live;
pub mod options;
mod project_context;
mod retention;
mod services;
mod session_tools;
mod sessions;
pub mod settings;
mod start;
mod warning;

pub use client::ModelSource;
pub use env::LaunchEnvironment;
pub use error::LaunchError;
pub use host::RealHost;
pub use live::hooks_of;
pub use options::SessionOptions;
pub use project_context::permissions_of;
pub use retention::RetentionSweep;
pub use services::SharedServices;
pub use start::{PreparedSession, prepare};
pub use warning::{LaunchWarning, WarningSink};

// Parts of the options and of a running session, so that callers need not depend on the crates that define them.
pub use lathe_agent::PromptChoice;
pub use lathe_agent::{PromptSurface, SessionEnd, SessionSignals, SetupTrigger};
pub use lathe_exec::{PlaceKind, PlaceLimit, ProcessLimits};

/// The protocol level that clients gate features on.
pub const PROTOCOL_VERSION: &str = "2.1.325";

/// The version of Lathe.
pub const LATHE_VERSION: &str = env!("CARGO_PKG_VERSION");
