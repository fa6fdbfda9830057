//! The agent loop: a session takes prompts, each becomes a turn, a turn samples responses and runs tools until it is
//! done, and ends with exactly one result.
//!
//! The folders stand in the order in which a prompt passes them, and no file uses a folder behind its own (checked by
//! `xtask house`). Nothing here reads the environment, prints, or knows a vendor; what a session needs comes in as a
//! [`SessionConfig`].
#![allow(missing_docs, reason = "fields that say what they are; modules and types are documented")]

// Takes the host's lines, runs one turn after the other.
mod session;

// Prompts that are commands.
mod commands;

// Requests of the host to a running session.
mod control;

// Makes room in a conversation.
mod compact;

// The loop of a turn: ask the model, run its calls, decide what follows.
mod turn;

// One tool call, from its block to its result.
mod call;

// Settings, memory files and variables that change between two rounds.
mod changes;

// The folder that an agent works in, if it is not the project.
mod worktrees;

// The connection to the hook engine.
mod hooks;

// Commands that run beside the turn, and the notices of their ends.
mod background;

// Requests to the model.
mod model;

// What the process, a session and an agent own.
mod state;

// History, files and totals of a conversation.
mod record;

pub use background::files::{folder as task_folder, folder_of_user as task_folder_of_user};
pub use record::checkpoints::{CheckpointsConfig, share_copies};
pub use record::journal::AgentJournal;
pub use session::{SessionEnd, SessionSignals, run};
pub use state::background_tasks::BackgroundConfig;
pub use state::commands::{AddedCommand, CommandAction, CommandNameTaken, CommandRegistry, SlashCommands};
pub use state::compact_policy::{CompactPolicy, CompactSwitch};
pub use state::config::{
    AgentConfig, AgentModel, FrameOptions, HooksConfig, PromptSurface, SessionBeginning, SessionConfig,
    SetupTrigger, StateFrames, TaskListConfig, TaskListName, TurnLimits,
};
pub use state::host::{ProcessHost, iso_time};
pub use state::process::ProcessServices;
pub use state::prompt::{PromptChoice, PromptEnvironment, SystemPrompt, environment_text};
pub use state::schedule::ScheduleConfig;
pub use state::settings_access::{
    BypassMode, DirectoryChanges, NoSettings, ReloadedSettings, SessionEnv, SettingsAccess, WorktreePolicy,
};
