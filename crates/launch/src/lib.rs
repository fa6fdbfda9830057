//! Assembly: turns a folder, its settings, an environment and options into a session that can run.
//!
//! `ground.rs` finds the folder, its settings and its rules; `start.rs` fills in the configuration that the
//! loop takes. Flags stay with the program that has them.
#![allow(missing_docs, reason = "fields that say what they are; modules and types are documented")]

pub mod children;
pub mod client;
pub mod env;
pub mod ground;
pub mod host;
pub mod live;
pub mod options;
pub mod retention;
pub mod sessions;
pub mod settings;
pub mod start;

/// The protocol level that clients gate features on.
pub const PROTOCOL_VERSION: &str = "2.1.325";

/// Our own version.
pub const LATHE_VERSION: &str = env!("CARGO_PKG_VERSION");
