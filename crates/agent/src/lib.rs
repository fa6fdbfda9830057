//! The loop: a session takes prompts, each becomes a turn, a turn samples answers and runs tools until
//! it is done, and ends with exactly one result.
//!
//! Follow `session.rs` → `turn.rs` → `sampling.rs` → `toolrun.rs` → `finish.rs`. Nothing here reads the
//! environment, prints, or knows a vendor; what a session needs comes in as a [`SessionConfig`].
#![allow(missing_docs, reason = "fields that say what they are; modules and types are documented")]

pub mod access;
pub mod agent;
mod announce;
pub mod answer;
pub mod ask;
mod beside;
mod calls;
pub mod checkpoints;
pub mod child;
pub mod commands;
pub mod compact;
pub mod config;
mod context;
mod control;
pub mod decide;
mod deferred;
pub mod era;
pub mod estimate;
pub mod finish;
pub mod frames;
pub mod history;
mod hooking;
pub mod host;
mod instructions;
mod introduction;
pub mod journal;
mod lines;
mod onequestion;
mod permit;
mod planning;
pub mod process;
pub mod prompt;
pub mod queue;
mod reload;
mod request;
mod sampling;
pub mod schedule;
pub mod services;
pub mod session;
mod structured;
pub mod toolrun;
pub mod totals;
pub mod turn;
mod work;

pub use commands::SlashCommands;
pub use compact::policy::{CompactPolicy, Switch};
pub use config::{
    AgentConfig, Beginning, FrameOptions, HooksConfig, ModelChoice, PromptSurface, SessionConfig, Setup,
    StateFrames, TurnLimits,
};
pub use session::{SessionEnd, Signals, run};
