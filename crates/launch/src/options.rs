//! What a session is asked to be, before anything is looked up: the meaning of flags, without their names.

use std::path::PathBuf;

use lathe_agent::PromptChoice;
use lathe_agent::{PromptSurface, SetupTrigger};
use lathe_models::Thinking;
use lathe_protocol::PermissionMode;
use lathe_settings::TrustChoice;
use lathe_tools::ToolChoice;
use lathe_tools::worktree_tools::actions::WorktreeTarget;
use serde_json::Value;

/// What becomes of background tasks at the end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackgroundEnd {
    /// They are waited for, up to the ceiling, and their ends start further turns.
    Wait,
    /// They are stopped.
    Stop,
}

/// Which session goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResumeOption {
    /// None: a new one begins.
    No,
    /// The newest of the folder, or a new one.
    Newest,
    /// The one with this id or title, up to a record, if that drops no more than one turn.
    Named {
        /// Its id or title.
        name: String,
        /// The id of the last record that counts.
        at: Option<String>,
        /// The id of the prompt whose turn may be dropped by that, and no other.
        drops_turn: Option<String>,
    },
}

/// When the conversation is compacted without being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutocompactOption {
    /// As the model's window has it.
    Auto,
    /// As if the window had so many tokens.
    Window(u64),
}

/// Everything a session was asked to be. Where an option is not given, settings and the environment decide, then the
/// defaults of the program.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// The folder to work in; none is the environment's.
    pub cwd: Option<PathBuf>,
    /// The command line of the client, by which old generations are known; empty for callers without one.
    pub words: Vec<String>,
    /// Whether the host gets the model's answer piece by piece.
    pub partial_messages: bool,
    /// Whether the host gets a copy of each prompt as an acknowledgement.
    pub replay_prompts: bool,
    /// Whether the host gets what becomes of hooks.
    pub hook_events: bool,
    /// Who answers permission questions.
    pub surface: PromptSurface,
    /// The name of the model.
    pub model: Option<String>,
    /// Models to turn to when that one is overloaded, in order.
    pub fallback_models: Vec<String>,
    /// How the model thinks.
    pub thinking: Option<Thinking>,
    /// How hard it tries.
    pub effort: Option<String>,
    /// Further betas of requests.
    pub betas: Vec<String>,
    /// Answers per prompt.
    pub max_turns: Option<u32>,
    /// US dollars for the whole session.
    pub max_budget_usd: Option<f64>,
    /// The shape of answers, as JSON Schema.
    pub json_schema: Option<Value>,
    /// What stands in place of the system prompt, or behind it.
    pub system_prompt: PromptChoice,
    /// Which built-in tools there are.
    pub tools: ToolChoice,
    /// Rules that allow, each a list as people write it.
    pub allowed_tools: Vec<String>,
    /// Rules that deny, each a list as people write it.
    pub disallowed_tools: Vec<String>,
    /// The permission mode to begin in.
    pub permission_mode: Option<PermissionMode>,
    /// Whether a later switch to bypass is allowed.
    pub bypass_available: bool,
    /// Further directories to work in.
    pub add_dirs: Vec<PathBuf>,
    /// Names of credentials that commands of tools and hooks of projects find in their environment all the same.
    pub tool_env: Vec<String>,
    /// Settings above all files but managed ones: a path or JSON.
    pub settings: Option<String>,
    /// Limits of the program that launches the session, as JSON.
    pub managed_settings: Option<String>,
    /// Which settings files count: any of `user`, `project`, `local`; none means all.
    pub setting_sources: Option<Vec<String>>,
    /// Whether the caller vouches for the folder, so that all it brings counts.
    pub trust: TrustChoice,
    /// The id of a new session, a UUID.
    pub session_id: Option<String>,
    /// The session that goes on.
    pub resume: ResumeOption,
    /// Go on in a copy.
    pub fork: bool,
    /// Whether the session is written to a file.
    pub persist: bool,
    /// Hand every record of the session to the host as well.
    pub mirror: bool,
    /// The title of the session.
    pub name: Option<String>,
    /// What becomes of background tasks when the input has ended and the last turn is over.
    pub background: BackgroundEnd,
    /// The worktree that the session begins in, in place of the folder itself.
    pub worktree: Option<WorktreeTarget>,
    /// Tokens that the model is told it may use for its task.
    pub task_budget: Option<u64>,
    /// The checkout that `cwd` is a worktree of, and that settings, hooks and output styles are taken from.
    pub project_config_root: Option<PathBuf>,
    /// Setup hooks that run first.
    pub setup: Option<SetupTrigger>,
    /// Whether `/name` may be a command.
    pub slash_commands: bool,
    /// When the conversation is compacted.
    pub autocompact: Option<AutocompactOption>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            cwd: None,
            words: Vec::new(),
            partial_messages: false,
            replay_prompts: false,
            hook_events: false,
            surface: PromptSurface::None,
            model: None,
            fallback_models: Vec::new(),
            thinking: None,
            effort: None,
            betas: Vec::new(),
            max_turns: None,
            max_budget_usd: None,
            json_schema: None,
            system_prompt: PromptChoice::default(),
            tools: ToolChoice::Default,
            allowed_tools: Vec::new(),
            disallowed_tools: Vec::new(),
            permission_mode: None,
            bypass_available: false,
            add_dirs: Vec::new(),
            tool_env: Vec::new(),
            settings: None,
            managed_settings: None,
            setting_sources: None,
            trust: TrustChoice::LookUp,
            session_id: None,
            resume: ResumeOption::No,
            fork: false,
            persist: true,
            mirror: false,
            name: None,
            background: BackgroundEnd::Wait,
            worktree: None,
            task_budget: None,
            project_config_root: None,
            setup: None,
            slash_commands: true,
            autocompact: None,
        }
    }
}
