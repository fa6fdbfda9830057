//! What a session is asked to be, before anything is looked up: the meaning of flags, without their names.

use std::path::PathBuf;

use lathe_agent::prompt::PromptChoice;
use lathe_agent::{PromptSurface, Setup};
use lathe_models::Thinking;
use lathe_protocol::PermissionMode;
use serde_json::Value;

/// Which built-in tools there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    Default,
    Only(Vec<String>),
}

/// Which session goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resume {
    /// None: a new one begins.
    No,
    /// The newest of the folder, or a new one.
    Newest,
    /// The one with this id or title, up to a record, if that drops no more than one turn.
    Named { name: String, at: Option<String>, drops_turn: Option<String> },
}

/// When the conversation is compacted by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Autocompact {
    /// As the model's window has it.
    Auto,
    /// As if the window had so many tokens.
    Window(u64),
}

/// Everything a session was asked to be.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// The command line as it was given: it tells which client this is.
    pub words: Vec<String>,
    pub partial_messages: bool,
    pub replay_prompts: bool,
    pub hook_events: bool,
    /// Who answers permission questions.
    pub surface: PromptSurface,
    pub model: Option<String>,
    pub fallback_models: Vec<String>,
    pub thinking: Option<Thinking>,
    pub effort: Option<String>,
    pub betas: Vec<String>,
    pub max_turns: Option<u32>,
    pub max_budget_usd: Option<f64>,
    /// The shape of answers, as JSON Schema.
    pub json_schema: Option<Value>,
    pub system_prompt: PromptChoice,
    pub tools: ToolChoice,
    pub allowed_tools: Vec<String>,
    pub disallowed_tools: Vec<String>,
    pub permission_mode: Option<PermissionMode>,
    /// Whether a later switch to bypass is allowed.
    pub bypass_available: bool,
    /// Whether it is refused whoever asks for it: to root, outside of a sandbox.
    pub bypass_is_refused: bool,
    pub add_dirs: Vec<PathBuf>,
    pub settings: Option<String>,
    /// `--managed-settings`: limits of the program that started us.
    pub managed_settings: Option<String>,
    pub setting_sources: Option<Vec<String>>,
    pub session_id: Option<String>,
    /// The session that goes on.
    pub resume: Resume,
    /// Go on in a copy.
    pub fork: bool,
    pub persist: bool,
    /// Hand every record of the session to the host as well.
    pub mirror: bool,
    pub name: Option<String>,
    /// Setup hooks that run first.
    pub setup: Option<Setup>,
    /// Whether `/name` may be a command.
    pub slash_commands: bool,
    pub autocompact: Option<Autocompact>,
}
