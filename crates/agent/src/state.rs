//! State that outlives a prompt, with one owner for each piece: what the process shares (`process.rs`), what a session
//! owns (`services.rs`), what an agent owns (`agent.rs`), and the values these are made of. The folders before this one
//! work with it.

pub mod agent;
pub mod async_hook_output;
pub mod background_tasks;
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
pub mod schedule;
pub mod services;
pub mod settings_access;
pub mod task_frames;
pub mod wire_names;
