//! The configuration of a session. The program that starts sessions (the CLI, the SDK, a test) fills it in; the loop
//! itself reads no flags, files or environment.

use std::path::PathBuf;
use std::sync::Arc;

use lathe_hooks::{EngineOptions, HookSource, HookVariables};
use lathe_models::web::WebClient;
use lathe_models::{CacheTtl, Model, Thinking};
use lathe_permissions::{PermissionEngine, PermissionScope};
use lathe_protocol::settings::HooksSettings;
use lathe_protocol::system::Informational;
use lathe_protocol::{ClientGeneration, Init};
use lathe_settings::memory::Memory;
use lathe_tools::worktree_tools::actions::WorktreeTarget;
use lathe_tools::{ToolSet, Workspace};
use lathe_transcript::Resumed;
use serde_json::{Map, Value};

use crate::record::checkpoints::CheckpointsConfig;
use crate::record::journal::AgentJournal;
use crate::state::background_tasks::BackgroundConfig;
use crate::state::commands::SlashCommands;
use crate::state::compact_policy::CompactPolicy;
use crate::state::process::ProcessServices;
use crate::state::prompt::SystemPrompt;
use crate::state::schedule::ScheduleConfig;
use crate::state::settings_access::SettingsAccess;

/// Everything a session needs to start.
pub struct SessionConfig {
    /// The session's id, a UUID.
    pub session_id: String,
    /// What the session shares with others of the same process.
    pub process: Arc<ProcessServices>,
    /// The client for the requests of all agents of the session.
    pub model: Arc<dyn Model>,
    /// The configuration of its main agent.
    pub main: AgentConfig,
    /// Names of tools that exist, so that a call to one this session does not have says so.
    pub known_tools: Vec<String>,
    /// Tools that only models have that need a list of their work: they come and go with the model of the main agent.
    pub list_tools: ToolSet,
    /// The rules, for all agents of the session.
    pub permissions: PermissionEngine,
    /// US dollars for the whole run, of all agents together; none means no limit.
    pub max_budget_usd: Option<f64>,
    pub frames: FrameOptions,
    pub surface: PromptSurface,
    pub settings: Arc<dyn SettingsAccess>,
    pub hooks: HooksConfig,
    /// The facts of `system/init` that do not change from turn to turn.
    pub init: Init,
    /// Names of the output styles there are.
    pub output_styles: Vec<String>,
    /// Copies of files as they were before each prompt, if a host may rewind them.
    pub checkpoints: Option<CheckpointsConfig>,
    /// How commands run in the background.
    pub background: BackgroundConfig,
    /// Where the task list of the session is.
    pub task_lists: TaskListConfig,
    /// What the clock may start.
    pub schedule: ScheduleConfig,
    /// Whether prompts may be commands, and which.
    pub slash_commands: SlashCommands,
    /// Whether it is new or resumed.
    pub beginning: SessionBeginning,
    /// The worktree that the main agent begins in, if it is not to work in the project itself.
    pub worktree: Option<WorktreeTarget>,
    /// What Setup hooks are to do first, if anything.
    pub setup: Option<SetupTrigger>,
    /// What the host is told once, after the first `system/init`; ids are filled in then.
    pub notices: Vec<Informational>,
}

/// The configuration of one agent.
pub struct AgentConfig {
    pub tools: ToolSet,
    /// The model, and how it is asked.
    pub choice: AgentModel,
    pub system: SystemPrompt,
    pub workspace: Workspace,
    /// The mode it begins in, and the directories it may work in.
    pub scope: PermissionScope,
    pub limits: TurnLimits,
    /// How the conversation is kept within the model's window.
    pub compaction: CompactPolicy,
    /// Where the conversation is recorded.
    pub journal: AgentJournal,
    /// Memory files: those that stand in front of the first prompt, and what may still become due.
    pub memory: Option<Memory>,
}

/// Where the task list of a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskListConfig {
    /// The folder of all lists.
    pub folder: PathBuf,
    /// Which of them it is.
    pub name: TaskListName,
}

/// Which task list a session uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskListName {
    /// Its own, with its id as the name.
    OfSession,
    /// One with this name, which other sessions may use at the same time.
    Shared(String),
}

/// What a session begins with.
#[derive(Default)]
pub enum SessionBeginning {
    /// Nothing.
    #[default]
    New,
    /// Everything that was said before, in the same session.
    Resumed(Box<Resumed>),
    /// Everything that was said before, in a copy of the session.
    Forked(Box<Resumed>),
}

impl SessionBeginning {
    /// Returns the value of `SessionStart.source`, by which hooks tell a new session from a resumed or a forked one.
    pub fn source(&self) -> &'static str {
        match self {
            Self::New => "startup",
            Self::Resumed(_) => "resume",
            Self::Forked(_) => "fork",
        }
    }

    /// Returns whether the session begins with a call that an earlier run deferred; false for a new session.
    pub fn has_deferred_call(&self) -> bool {
        match self {
            Self::New => false,
            Self::Resumed(resumed) | Self::Forked(resumed) => resumed.deferred.is_some(),
        }
    }

    /// Returns the earlier conversation; `None` for a new session.
    pub fn resumed(self) -> Option<Box<Resumed>> {
        match self {
            Self::New => None,
            Self::Resumed(resumed) | Self::Forked(resumed) => Some(resumed),
        }
    }
}

/// Why Setup hooks run before a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetupTrigger {
    /// `--init`.
    Init,
    /// `--init-only`: the session ends before its first prompt.
    InitOnly,
    /// `--maintenance`.
    Maintenance,
}

impl SetupTrigger {
    /// Returns the value of `trigger` in the Setup event; `--init-only` is told as `init`.
    pub fn trigger(self) -> &'static str {
        match self {
            Self::Init | Self::InitOnly => "init",
            Self::Maintenance => "maintenance",
        }
    }
}

/// The hooks a session starts with; the host may add its own.
#[derive(Default)]
pub struct HooksConfig {
    pub registered: Vec<(HookSource, HooksSettings)>,
    pub options: EngineOptions,
    /// The variables that hooks find.
    pub env: HookVariables,
    /// The project as hooks are told of it (`CLAUDE_PROJECT_DIR`); none is the folder of the agent.
    pub project_dir: Option<PathBuf>,
    /// Where hooks may leave variables for commands; a folder of this session alone.
    pub env_dir: Option<PathBuf>,
    /// The client for HTTP hooks, and for pages that tools fetch.
    pub web: Arc<WebClient>,
}

/// The model of an agent, and how it is asked.
#[derive(Debug, Clone)]
pub struct AgentModel {
    /// Resolved model id.
    pub id: String,
    /// Models to turn to when this one is overloaded, in order.
    pub fallbacks: Vec<String>,
    /// What the user wants of thinking; none leaves it to the model's own default.
    pub thinking: Option<Thinking>,
    pub effort: Option<String>,
    /// Overrides the model's own output limit.
    pub max_output_tokens: Option<u32>,
    /// Tokens that the model is told it may use for its task.
    pub task_budget: Option<u64>,
    /// Further betas the user asked for.
    pub betas: Vec<String>,
    pub cache: CacheTtl,
    pub extra_body: Map<String, Value>,
    /// `metadata.user_id` of requests.
    pub user_id: Option<String>,
}

/// When a turn has to stop.
#[derive(Debug, Clone, Copy)]
pub struct TurnLimits {
    /// Responses per turn; none means no limit.
    pub max_rounds: Option<u32>,
    /// How often stop hooks may make a turn go on.
    pub max_stop_blocks: u32,
    /// How often a structured output may be wrong.
    pub max_structured_attempts: u32,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self { max_rounds: None, max_stop_blocks: 8, max_structured_attempts: 5 }
    }
}

/// Which optional frames the host wants, and how it reads the others.
#[derive(Debug, Clone, Copy, Default)]
pub struct FrameOptions {
    /// `stream_event`, `status: requesting`, `thinking_tokens`.
    pub partial_messages: bool,
    /// `hook_started`, `hook_progress` and `hook_response` of all events.
    pub hook_events: bool,
    /// Acknowledge every prompt with a copy of it.
    pub replay_prompts: bool,
    /// `session_state_changed`.
    pub states: StateFrames,
    /// The generation it belongs to.
    pub client_generation: ClientGeneration,
}

/// Whether the host is told when the session is running.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StateFrames {
    #[default]
    None,
    /// For the SDK alone, which does not pass them on to its user.
    SdkOnly,
    /// For everyone.
    Public,
}

/// Who is asked when a call needs permission.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PromptSurface {
    /// No one: such a call is denied.
    #[default]
    None,
    /// No one, and the session was told so: the refusal says it.
    Closed,
    /// The host, by `can_use_tool`.
    Host,
}

/// How many calls of one response may run at once.
pub const MAX_PARALLEL_CALLS: usize = 10;
