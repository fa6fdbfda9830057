//! What one agent owns: a conversation, and what it needs to continue it. The main agent of a session is one, an agent
//! that a call starts is another, and both work in the same way.
//!
//! Two halves. [`Agent`] is what only the running turn touches; it is borrowed `&mut`. [`AgentHandle`] is what calls,
//! hooks and host requests see of the agent while its turn runs. The part of it that changes is one value,
//! [`AgentView`], which is replaced as a whole, so that a reader sees values that belong together. A change takes
//! effect with the next request or decision.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use lathe_models::catalog::{capabilities, needs_work_list};
use lathe_models::{ModelRequest, WireMessage};
use lathe_permissions::PermissionScope;
use lathe_protocol::PermissionMode;
use lathe_settings::memory::{Memory, MemoryFile};
use lathe_tools::worktree_tools::create::Worktree;
use lathe_tools::{AgentPlace, PlaceHolder, TodoItem, Tool, ToolListing, ToolSet, Workspace};

use crate::record::history::{ConversationHistory, ConversationSize};
use crate::record::journal::AgentJournal;
use crate::state::compact_policy::{CompactChoice, CompactionState};
use crate::state::config::{AgentConfig, AgentModel, TurnLimits};
use crate::state::deferral::DeferredCallState;
use crate::state::frames::FrameBuilder;
use crate::state::instructions::MemoryInstructions;
use crate::state::prompt::SystemPrompt;
use crate::state::services::{SessionServices, lock};

/// An agent, as its own turn sees it.
pub struct Agent {
    pub handle: Arc<AgentHandle>,
    /// The conversation as the model gets it.
    pub history: ConversationHistory,
    /// Its place in the files of the session.
    pub journal: AgentJournal,
    /// The state of its compaction.
    pub compaction: CompactionState,
    /// Memory files, and what of them may still become due.
    pub(crate) instructions: MemoryInstructions,
    /// The call that a hook deferred.
    pub(crate) deferral: DeferredCallState,
    /// The limits of its turns.
    pub limits: TurnLimits,
    /// The folder of the shell when hooks last heard of it.
    pub(crate) cwd_told: PathBuf,
}

/// Identifies an agent of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentIdentity {
    /// The one the user talks to.
    Main,
    /// One that a call of another agent started.
    Child(ChildIdentity),
}

impl AgentIdentity {
    /// Returns the name of the agent in requests to the model: `main` for the main agent, its type for a child.
    pub fn label(&self) -> &str {
        match self {
            Self::Main => "main",
            Self::Child(child) => &child.agent_type,
        }
    }

    /// Returns the identity of a child agent, or `None` for the main one.
    pub fn child(&self) -> Option<&ChildIdentity> {
        match self {
            Self::Main => None,
            Self::Child(child) => Some(child),
        }
    }
}

/// Identifies a child agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildIdentity {
    pub agent_id: String,
    /// The kind of agent, as definitions name it.
    pub agent_type: String,
    /// The call that started it.
    pub parent_tool_use_id: String,
}

/// An agent, as others see it while its turn runs.
pub struct AgentHandle {
    pub session: Arc<SessionServices>,
    pub identity: AgentIdentity,
    /// Builds the frames that come from this agent.
    pub frames: FrameBuilder,
    pub workspace: Arc<Workspace>,
    cell: Arc<AgentCell>,
}

/// Holds the view of an agent.
pub struct AgentCell {
    /// Written by the agent's own turn and by host requests; read for every request, call and decision.
    view: Mutex<Arc<AgentView>>,
}

/// What others see of an agent. Cheap to clone: whatever is large is shared.
#[derive(Clone)]
pub struct AgentView {
    pub tools: Arc<ToolSet>,
    /// What the model knows of deferred tools; none before the first request of a conversation.
    pub told_tools: Option<ToldTools>,
    /// The model, and how it is asked.
    pub choice: Arc<AgentModel>,
    pub system: Arc<SystemPrompt>,
    /// Its folder and directories, and the files it has seen.
    pub place: Arc<AgentPlace>,
    /// The mode it works in and the directories it may work in, which are part of each question to the rules.
    pub scope: PermissionScope,
    /// The worktree that it works in, if it has entered one.
    pub worktree: Option<Arc<OccupiedWorktree>>,
    /// The mode that plan mode interrupted.
    pub mode_before_plan: Option<PermissionMode>,
    /// When the conversation is compacted.
    pub compact: CompactChoice,
    /// The prompt of the current turn, which hooks are told; none before the first.
    pub prompt_id: Option<String>,
    /// The conversation as far as it was published.
    pub progress: ConversationProgress,
    /// Memory files that the model was given.
    pub memory_files: Arc<[MemoryFile]>,
    /// Its list of things to do, as the model wrote it last.
    pub todos: Arc<[TodoItem]>,
}

/// What the model was told of deferred tools.
#[derive(Debug, Clone)]
pub struct ToldTools {
    /// At the beginning of the conversation, in the system prompt; it stays the same, so that caches stay valid.
    pub beginning: Option<Arc<str>>,
    /// The names that it knows by now.
    pub listing: Arc<ToolListing>,
}

impl ToldTools {
    /// Returns what a conversation begins with: the model knows the names of `listing`, and its text, if it has one, is
    /// part of the system prompt.
    pub fn at_beginning(listing: Arc<ToolListing>) -> Self {
        Self { beginning: listing.text().map(Arc::from), listing }
    }
}

/// A worktree that an agent has entered, and what it goes back to.
#[derive(Debug)]
pub struct OccupiedWorktree {
    /// The worktree.
    pub tree: Worktree,
    /// Where the shell stood before.
    pub original_cwd: PathBuf,
    /// The folder of the agent before, if it was not the one it was started in.
    pub original_home: Option<PathBuf>,
    /// Its own working directory before.
    pub original_root: PathBuf,
}

/// How far a conversation has come, for readers outside of its turn.
#[derive(Clone, Default)]
pub struct ConversationProgress {
    /// The last request that was sent, and when, in milliseconds since the epoch.
    pub last_request: Option<(Arc<ModelRequest>, u64)>,
    /// The messages after the last turn; none while a turn continues from there.
    pub settled: Option<Arc<[WireMessage]>>,
    /// How large the conversation was when it last changed.
    pub size: ConversationSize,
}

impl AgentView {
    /// Returns the view of an agent that has done nothing yet.
    pub(crate) fn of(config: &AgentConfig) -> Self {
        Self {
            tools: Arc::new(config.tools.clone()),
            told_tools: None,
            choice: Arc::new(config.choice.clone()),
            system: Arc::new(config.system.clone()),
            place: config.workspace.place(),
            scope: config.scope.clone(),
            worktree: None,
            mode_before_plan: None,
            compact: CompactChoice::new(config.compaction),
            prompt_id: None,
            progress: ConversationProgress::default(),
            memory_files: config.memory.as_ref().map(Memory::files).unwrap_or_default().into(),
            todos: Arc::default(),
        }
    }
}

impl AgentView {
    /// Forgets what the model was told of deferred tools and unloads the loaded ones that `referenced` does not name,
    /// because another conversation begins. Returns the names of those that were unloaded.
    pub(crate) fn forget_loaded_tools(&mut self, referenced: &[String]) -> Vec<String> {
        self.told_tools = None;
        let (tools, forgotten) = self.tools.unloading_all_but(referenced);
        self.tools = Arc::new(tools);
        forgotten
    }
}

impl AgentCell {
    /// Creates the cell with its first view.
    pub fn new(view: AgentView) -> Self {
        Self { view: Mutex::new(Arc::new(view)) }
    }

    /// Returns the current view. It is a snapshot: later changes do not show in it.
    pub fn view(&self) -> Arc<AgentView> {
        lock(&self.view).clone()
    }

    /// Changes the view in place under its lock and returns what `change` returns. Snapshots that readers hold stay as
    /// they were. `change` must not read the cell, which is locked.
    pub fn change<T>(&self, change: impl FnOnce(&mut AgentView) -> T) -> T {
        // Copied only if a reader holds the old view, which stays as it was.
        change(Arc::make_mut(&mut lock(&self.view)))
    }
}

impl PlaceHolder for AgentCell {
    fn place(&self) -> Arc<AgentPlace> {
        self.view().place.clone()
    }

    fn change_place(&self, change: &mut dyn FnMut(&mut AgentPlace)) {
        self.change(|view| change(Arc::make_mut(&mut view.place)));
    }
}

impl AgentHandle {
    /// Connects an agent to its session: its frames carry its identity, and its workspace reads the agent's place from
    /// `cell` and shares the limits of the process.
    fn new(
        session: Arc<SessionServices>,
        identity: AgentIdentity,
        workspace: Workspace,
        cell: Arc<AgentCell>,
    ) -> Self {
        let frames = session.frames.for_agent(identity.clone());
        let mut workspace = workspace.with_place(cell.clone());
        workspace.process_limits = session.process.limits.clone();
        let workspace = Arc::new(workspace);
        Self { session, identity, frames, workspace, cell }
    }

    /// Returns the current view of the agent, as a snapshot.
    pub fn view(&self) -> Arc<AgentView> {
        self.cell.view()
    }

    /// Changes the view of the agent and returns what `change` returns, which must not read the view; see
    /// [`AgentCell::change`].
    pub fn change<T>(&self, change: impl FnOnce(&mut AgentView) -> T) -> T {
        self.cell.change(change)
    }

    /// Returns the current tools as a snapshot; a host may add one at any time.
    pub fn tools(&self) -> Arc<ToolSet> {
        self.view().tools.clone()
    }

    /// Returns the tool with this name or alias, or `None` if the agent has none.
    pub fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.view().tools.get(name).cloned()
    }

    /// Adds a tool, in place of one with the same name, from the next request on.
    pub fn add_tool(&self, tool: Arc<dyn Tool>) {
        self.change(|view| view.tools = Arc::new(view.tools.with(tool)));
    }

    /// Returns the current choice of model, effort and thinking, which a host may change between two requests.
    pub fn choice(&self) -> Arc<AgentModel> {
        self.view().choice.clone()
    }

    /// Changes the model choice; it takes effect with the next request. `change` must not read the view of the agent.
    pub fn change_choice(&self, change: impl FnOnce(&mut AgentModel)) {
        self.change(|view| change(Arc::make_mut(&mut view.choice)));
    }

    /// Changes the model from the next request on. The tools that only models with a list of work have are added or
    /// removed accordingly. `id` must be a resolved model id.
    pub fn change_model(&self, id: &str) {
        let list = &self.session.list_tools;
        let names: HashSet<String> = list.names().map(str::to_owned).collect();
        self.change(|view| {
            id.clone_into(&mut Arc::make_mut(&mut view.choice).id);
            if names.is_empty() {
                return;
            }
            let others = view.tools.without(&names);
            view.tools = Arc::new(match needs_work_list(id) {
                true => list.iter().fold(others, |set, tool| set.with(tool.clone())),
                false => others,
            });
        });
    }

    /// Returns the effort that the model is asked for: the chosen one, or else the model's default. `None` if it has no
    /// default.
    pub fn effort(&self) -> Option<String> {
        let choice = self.choice();
        let default = capabilities(&choice.id).default_effort;
        choice.effort.clone().or_else(|| default.map(str::to_owned))
    }

    /// Returns the conversation as it was published last: after the last turn, or as the running turn last sent it.
    /// Empty before the first request.
    pub fn conversation(&self) -> Vec<WireMessage> {
        let view = self.view();
        // During a turn the history may hold calls without results; what was last sent is always a valid request.
        match (&view.progress.settled, &view.progress.last_request) {
            (Some(messages), _) => messages.to_vec(),
            (None, Some((request, _))) => request.messages.clone(),
            (None, None) => Vec::new(),
        }
    }

    /// Returns when the last request of this conversation was sent, in milliseconds since the epoch; `None` before the
    /// first.
    pub fn last_request_ms(&self) -> Option<u64> {
        self.view().progress.last_request.as_ref().map(|(_, at)| *at)
    }

    /// Puts the conversation into the view, for side questions. To be called after a turn, when every call has its
    /// result.
    pub(crate) fn publish_conversation(&self, messages: Vec<WireMessage>) {
        self.change(|view| view.progress.settled = Some(messages.into()));
    }

    /// Puts the request that is being sent into the view, with the time, for side questions during the turn. What was
    /// published after the last turn no longer counts.
    pub(crate) fn publish_request(&self, request: &Arc<ModelRequest>) {
        let now = self.session.process.host.now_ms();
        self.change(|view| {
            view.progress.settled = None;
            view.progress.last_request = Some((request.clone(), now));
        });
    }

    /// Puts the size of the conversation into the view, for the context report.
    pub(crate) fn publish_size(&self, size: ConversationSize) {
        self.change(|view| view.progress.size = size);
    }
}

impl Agent {
    /// Builds the main agent of a session. It shares the view that the session was created with, and `config` must be
    /// the one that [`SessionServices::start`] returned.
    pub(crate) fn main(session: Arc<SessionServices>, config: AgentConfig) -> Self {
        let cell = session.main.clone();
        Self::with_identity(session, AgentIdentity::Main, cell, config)
    }

    /// Builds a child agent, which a call of another agent starts, with a view of its own.
    pub(crate) fn child(session: Arc<SessionServices>, identity: ChildIdentity, config: AgentConfig) -> Self {
        let cell = Arc::new(AgentCell::new(AgentView::of(&config)));
        Self::with_identity(session, AgentIdentity::Child(identity), cell, config)
    }

    /// Builds an agent, main or child, with an empty history and nothing deferred. `cell` is shared with the handle.
    fn with_identity(
        session: Arc<SessionServices>,
        identity: AgentIdentity,
        cell: Arc<AgentCell>,
        config: AgentConfig,
    ) -> Self {
        let handle = AgentHandle::new(session, identity, config.workspace, cell);
        Self {
            cwd_told: handle.workspace.cwd(),
            handle: Arc::new(handle),
            history: ConversationHistory::default(),
            journal: config.journal,
            compaction: CompactionState::default(),
            deferral: DeferredCallState::default(),
            instructions: MemoryInstructions::new(config.memory),
            limits: config.limits,
        }
    }

    /// Begins another session with this id: history, totals, files the agent has seen, loaded tools and a deferred call
    /// are forgotten, and frames, records and variables get the id. What the host has chosen (model, permissions,
    /// hooks) stays, and so do queued prompts and the worktree. The tasks and the mirrored records of the old session
    /// must have been dealt with before.
    pub(crate) fn begin_anew(&mut self, session_id: &str) {
        let session = self.handle.session.clone();
        let old_id = session.frames.session_id();
        self.handle.change(|view| {
            // The id of the session is the default; one that the user chose stays.
            if view.choice.user_id.as_deref() == Some(&old_id) {
                Arc::make_mut(&mut view.choice).user_id = Some(session_id.to_owned());
            }
            view.progress = ConversationProgress::default();
            view.prompt_id = None;
            view.todos = Arc::default();
            view.forget_loaded_tools(&[]);
        });
        session.frames.set_session_id(session_id.to_owned());
        self.journal.begin_anew(session_id);
        session.totals().begin_anew();
        self.compaction = CompactionState::default();
        self.deferral = DeferredCallState::default();
        self.handle.workspace.forget_files();
        self.history = ConversationHistory::default();
        self.begin_instructions_anew();
        // Commands and hooks that run from now on belong to the new session.
        const NAME: &str = "CLAUDE_CODE_SESSION_ID";
        self.handle.workspace.env.set_by_host([(NAME.to_owned(), session_id.to_owned())]);
        session.change_hook_variable(NAME, session_id);
    }
}
