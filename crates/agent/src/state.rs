//! What lives while prompts come and go, one owner for each piece: what the process shares (`process.rs`), what a
//! session owns (`services.rs`), what an agent owns (`agent.rs`), and the values these are made of. What is done with
//! them is in the folders before this one.

pub mod agent;
pub mod async_hook_output;
pub mod client_generation;
pub mod commands;
pub mod compact_policy;
pub mod config;
pub mod deferral;
pub mod dispatch;
pub mod env_files;
pub mod file_watch;
pub mod frames;
pub mod host;
pub mod host_questions;
pub mod instructions;
pub mod introduction;
pub mod process;
pub mod prompt;
pub mod queue;
pub mod refused_prompt;
pub mod services;
pub mod settings_access;
pub mod wire_names;
