//! The [`Tool`] trait and the built-in tools, one file each.
//!
//! A tool does its work and describes the outcome; whether it may is decided elsewhere (`permissions`),
//! and nothing here is ever called but by the agent's `toolrun.rs`. Tools read no environment: the
//! [`Workspace`] carries directories, limits and the variables that children get.

mod tool;
mod workspace;

pub use tool::{Content, Effect, Tool, ToolContext, ToolFailure, ToolOutput};
pub use workspace::{Limits, Workspace};
