//! What the parts of one session share: the immutable pieces it was made of, the few that change while
//! it runs (behind locks that are never held across a wait), and the way out for frames.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use lathe_hooks::{HookEngine, Services};
use lathe_models::catalog::Catalog;
use lathe_models::retry::RetryPolicy;
use lathe_models::{Model, ModelRequest, WireMessage};
use lathe_permissions::Engine;
use lathe_protocol::{Init, Outbound, PermissionMode};
use lathe_settings::memory::LoadReason;
use lathe_tools::{Tool, ToolSet, Workspace};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::access::{SessionEnv, SettingsAccess};
use crate::ask::Questions;
use crate::checkpoints::{Checkpoints, Moment};
use crate::commands::SlashCommands;
use crate::compact::Compaction;
use crate::config::{FrameOptions, ModelChoice, PromptSurface, SessionConfig, TurnLimits};
use crate::frames::Frames;
use crate::history::Size;
use crate::hooking::env::EnvFiles;
use crate::hooking::files::FileWatch;
use crate::hooking::judge::Judge;
use crate::hooking::late::Late;
use crate::hooking::services::{HostCallbacks, IfRules, WebHooks};
use crate::host::Host;
use crate::instructions::Instructions;
use crate::introduction::Introduction;
use crate::journal::Journal;
use crate::prompt::SystemPrompt;
use crate::queue::Queue;
use crate::totals::Totals;

/// One session's common ground.
pub struct Shared {
    pub host: Arc<dyn Host>,
    pub model: Arc<dyn Model>,
    pub catalog: Catalog,
    pub retry: RetryPolicy,
    /// Names of tools that exist, whether this session has them or not.
    pub known_tools: Vec<String>,
    pub workspace: Arc<Workspace>,
    pub frames: Frames,
    pub options: FrameOptions,
    pub limits: TurnLimits,
    pub surface: PromptSurface,
    pub settings: Arc<dyn SettingsAccess>,
    /// The hooks of settings files and of the host.
    pub hooks: HookEngine,
    /// Memory files, and what of them may still become due.
    pub(crate) instructions: Instructions,
    /// Files that hooks wait for.
    pub(crate) watch: FileWatch,
    /// Variables that hooks set.
    pub(crate) env_files: EnvFiles,
    /// What hooks said too late.
    pub(crate) late: Late,
    /// The model the session started with, which `default` goes back to.
    pub first_model: String,
    pub init: Init,
    pub output_styles: Vec<String>,
    /// Files as they were before each prompt, where a host wants to go back.
    pub checkpoints: Option<Checkpoints>,
    /// Whether prompts may be commands.
    pub slash_commands: SlashCommands,
    /// What the host has been asked and not yet answered.
    pub questions: Questions,
    /// Fires when the session has to end: its reader is gone, or it was told to.
    pub stop: CancellationToken,
    out: mpsc::Sender<Outbound>,
    tools: Mutex<Arc<ToolSet>>,
    permissions: Mutex<Engine>,
    choice: Mutex<ModelChoice>,
    system: Mutex<SystemPrompt>,
    totals: Mutex<Totals>,
    journal: Mutex<Journal>,
    queue: Mutex<Queue>,
    last_request: Mutex<Option<(Arc<ModelRequest>, u64)>>,
    /// The conversation after the last turn; none while a turn goes on from there.
    said: Mutex<Option<Vec<WireMessage>>>,
    /// When the session began, milliseconds since the epoch.
    pub started_ms: u64,
    /// The environment of command hooks.
    hook_env: Mutex<Arc<[(String, String)]>>,
    /// Where the shell stood when hooks last heard of it.
    cwd_told: Mutex<PathBuf>,
    compaction: Mutex<Compaction>,
    /// How large the conversation was when it last changed.
    context: Mutex<Size>,
    initialized: AtomicBool,
    introduction: Mutex<Introduction>,
    /// The mode that planning interrupted.
    before_plan: Mutex<Option<PermissionMode>>,
}

impl Shared {
    pub(crate) fn new(
        config: SessionConfig,
        out: mpsc::Sender<Outbound>,
        stop: CancellationToken,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self::build(config, out, stop, this))
    }

    fn build(
        config: SessionConfig,
        out: mpsc::Sender<Outbound>,
        stop: CancellationToken,
        this: &Weak<Self>,
    ) -> Self {
        let ids = config.host.clone();
        let services = Services {
            ledger: config.workspace.ledger.clone(),
            limit: config.hooks.limit,
            new_id: Arc::new(move || ids.uuid()),
            rules: Arc::new(IfRules {
                root: config.workspace.root.clone(),
                home: config.hooks.env.iter().find(|(name, _)| name == "HOME").map(|(_, home)| home.into()),
            }),
            callbacks: Some(Arc::new(HostCallbacks(this.clone()))),
            prompter: Some(Arc::new(Judge(this.clone()))),
            http: Some(Arc::new(WebHooks(config.hooks.web))),
        };
        let hooks = HookEngine::new(services, config.hooks.options);
        let mut journal = config.journal;
        for (source, settings) in config.hooks.registered {
            let warnings = hooks.register(source, &settings);
            journal.report(warnings.iter().map(ToString::to_string));
        }
        Self {
            started_ms: config.host.now_ms(),
            frames: Frames::new(config.session_id, config.host.clone()),
            host: config.host,
            model: config.model,
            catalog: config.catalog,
            retry: config.retry,
            known_tools: config.known_tools,
            options: config.frames,
            limits: config.limits,
            surface: config.surface,
            settings: config.settings,
            hooks,
            instructions: Instructions::new(config.memory),
            watch: FileWatch::default(),
            env_files: EnvFiles::new(config.hooks.env_dir),
            late: Late::default(),
            hook_env: Mutex::new(config.hooks.env.into()),
            cwd_told: Mutex::new(config.workspace.cwd()),
            workspace: config.workspace,
            first_model: config.choice.id.clone(),
            init: config.init,
            output_styles: config.output_styles,
            checkpoints: config.checkpoints.map(Checkpoints::new),
            slash_commands: config.slash_commands,
            questions: Questions::default(),
            stop,
            out,
            tools: Mutex::new(Arc::new(config.tools)),
            permissions: Mutex::new(config.permissions),
            choice: Mutex::new(config.choice),
            system: Mutex::new(config.system),
            totals: Mutex::default(),
            journal: Mutex::new(journal),
            queue: Mutex::default(),
            last_request: Mutex::default(),
            said: Mutex::default(),
            compaction: Mutex::new(Compaction::new(config.compaction)),
            context: Mutex::default(),
            initialized: AtomicBool::new(false),
            introduction: Mutex::default(),
            before_plan: Mutex::default(),
        }
    }

    /// Hands a frame to the host. A slow host slows the session here; a host that is gone ends it.
    pub async fn emit(&self, frame: impl Into<Outbound>) {
        self.mirror_records().await;
        self.send(frame.into()).await;
    }

    /// Hands over the records that were written since the last time, for hosts that keep their own copy: a
    /// host has the record of a message before it has the message.
    pub(crate) async fn mirror_records(&self) {
        loop {
            let mirrored = self.journal().take_mirrored();
            let Some(frame) = mirrored else { return };
            self.send(frame.into()).await;
        }
    }

    async fn send(&self, frame: Outbound) {
        if self.out.send(frame).await.is_err() {
            self.stop.cancel();
        }
    }

    /// Something is wrong that the host should know of and that stops nothing: it is told, and so is the
    /// log, because many hosts show nobody the frames they do not know.
    pub async fn trouble(&self, tag: &str, text: &str) {
        self.host.log(text);
        self.emit(self.frames.note(tag, text)).await;
    }

    /// The tools the session has now; a host may bring one along.
    pub fn tools(&self) -> Arc<ToolSet> {
        lock(&self.tools).clone()
    }

    /// The tool with this name or alias.
    pub fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        lock(&self.tools).get(name).cloned()
    }

    /// Adds a tool, in the place of one with the same name.
    pub fn add_tool(&self, tool: Arc<dyn Tool>) {
        let mut tools = lock(&self.tools);
        *tools = Arc::new(tools.with(tool));
    }

    /// A prompt begins: the files followed so far are looked at, where somebody wants to go back to here.
    pub(crate) fn checkpoint_prompt(&self, prompt: &str) {
        if let Some(checkpoints) = &self.checkpoints {
            let (session, now) = (self.frames.session_id(), self.frames.now());
            let record = checkpoints.begin(prompt, Moment { session: &session, now: &now });
            self.journal().side(&record);
        }
    }

    /// A call is about to change a file: what it is now is kept.
    pub(crate) fn checkpoint_file(&self, path: &Path, assistant_uuid: &str) {
        if let Some(checkpoints) = &self.checkpoints {
            let (session, now) = (self.frames.session_id(), self.frames.now());
            let moment = Moment { session: &session, now: &now };
            if let Some(record) = checkpoints.before_change(path, assistant_uuid, moment) {
                self.journal().side(&record);
            }
        }
    }

    /// The permission engine.
    pub fn permissions(&self) -> MutexGuard<'_, Engine> {
        lock(&self.permissions)
    }

    /// The model choice, which a host may change between two requests.
    pub fn choice(&self) -> MutexGuard<'_, ModelChoice> {
        lock(&self.choice)
    }

    /// How hard the model is to think: as chosen, or as it does by itself.
    pub fn effort(&self) -> Option<String> {
        let choice = self.choice();
        let own = lathe_models::catalog::capabilities(&choice.id).default_effort;
        choice.effort.clone().or_else(|| own.map(str::to_owned))
    }

    /// The system prompt, which a host may change before the first request.
    pub fn system_prompt(&self) -> MutexGuard<'_, SystemPrompt> {
        lock(&self.system)
    }

    /// What the session has used so far.
    pub fn totals(&self) -> MutexGuard<'_, Totals> {
        lock(&self.totals)
    }

    /// Where the session is written down.
    pub fn journal(&self) -> MutexGuard<'_, Journal> {
        lock(&self.journal)
    }

    /// The prompts that wait.
    pub fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// The last request that was sent, for those who want to know what the model sees.
    pub fn last_request(&self) -> Option<Arc<ModelRequest>> {
        lock(&self.last_request).as_ref().map(|(request, _)| request.clone())
    }

    /// When that was, milliseconds since the epoch.
    pub fn last_request_ms(&self) -> Option<u64> {
        lock(&self.last_request).as_ref().map(|(_, at)| *at)
    }

    /// The conversation as it stands: after the last turn, or as the turn under way last sent it.
    pub fn conversation(&self) -> Vec<WireMessage> {
        let said = lock(&self.said).clone();
        let sent = || self.last_request().map(|request| request.messages.clone());
        said.or_else(sent).unwrap_or_default()
    }

    pub(crate) fn remember_conversation(&self, messages: Vec<WireMessage>) {
        *lock(&self.said) = Some(messages);
    }

    pub(crate) fn remember_request(&self, request: &Arc<ModelRequest>) {
        *lock(&self.said) = None;
        *lock(&self.last_request) = Some((request.clone(), self.host.now_ms()));
    }

    /// What the host said when it introduced itself.
    pub fn introduction(&self) -> MutexGuard<'_, Introduction> {
        lock(&self.introduction)
    }

    /// How the conversation is kept small.
    pub fn compaction(&self) -> MutexGuard<'_, Compaction> {
        lock(&self.compaction)
    }

    /// How large the conversation was when it last changed.
    pub fn context(&self) -> Size {
        *lock(&self.context)
    }

    pub(crate) fn note_context(&self, size: Size) {
        *lock(&self.context) = size;
    }

    /// Another session begins: nothing of the old conversation counts any more. What the host has chosen
    /// (model, permissions, hooks) stays, and so do the prompts that wait.
    pub(crate) fn begin_anew(&self, session_id: &str) {
        {
            let mut choice = self.choice();
            if choice.user_id.as_deref() == Some(&self.frames.session_id()) {
                choice.user_id = Some(session_id.to_owned());
            }
        }
        self.frames.set_session_id(session_id.to_owned());
        self.journal().begin_anew(session_id);
        self.totals().begin_anew();
        self.compaction().begin_anew();
        self.workspace.seen.clear();
        self.instructions.begin_anew(LoadReason::SessionStart);
        self.tell_children(session_id);
        self.note_context(Size::default());
        *lock(&self.last_request) = None;
        *lock(&self.said) = None;
    }

    pub(crate) fn remember_mode(&self, mode: PermissionMode) {
        *lock(&self.before_plan) = Some(mode);
    }

    /// The mode that follows plan mode.
    pub(crate) fn mode_before_plan(&self) -> PermissionMode {
        lock(&self.before_plan).unwrap_or_default()
    }

    /// Commands and hooks that run from now on belong to this session.
    fn tell_children(&self, session_id: &str) {
        const NAME: &str = "CLAUDE_CODE_SESSION_ID";
        self.workspace.set_child_env([(NAME.to_owned(), session_id.to_owned())]);
        let mut env = lock(&self.hook_env);
        let renamed = env.iter().map(|(name, value)| {
            let value = if name == NAME { session_id } else { value };
            (name.clone(), value.to_owned())
        });
        let renamed: Arc<[(String, String)]> = renamed.collect();
        *env = renamed;
    }

    /// Whether the host has introduced itself.
    pub(crate) fn is_initialized(&self) -> bool {
        self.initialized.load(Ordering::Relaxed)
    }

    /// Notes that the host has introduced itself; true if it had done so before.
    pub(crate) fn note_initialized(&self) -> bool {
        self.initialized.swap(true, Ordering::Relaxed)
    }

    /// The environment of command hooks.
    pub(crate) fn hook_env(&self) -> Arc<[(String, String)]> {
        lock(&self.hook_env).clone()
    }

    /// Settings changed: children see this from now on.
    pub(crate) fn set_env(&self, env: SessionEnv) {
        *lock(&self.hook_env) = env.hooks.into();
        self.workspace.set_base_env(env.tools);
    }

    /// Notes where the shell stands; returns where it stood, if that is somewhere else.
    pub(crate) fn cwd_told(&self, now: &Path) -> Option<PathBuf> {
        let mut told = lock(&self.cwd_told);
        (*told != now).then(|| std::mem::replace(&mut *told, now.to_owned()))
    }

    /// Whether the spending limit is reached.
    pub fn over_budget(&self) -> bool {
        self.limits.max_budget_usd.is_some_and(|limit| self.totals().run_cost_usd() >= limit)
    }
}

/// Locks are held for moments, never across a wait, and nothing panics meanwhile.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while a lock of the session is held")
}
