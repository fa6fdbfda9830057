//! What a session owns and every agent in it uses: the channel to the host, the questions to it, hooks, rules,
//! settings, totals and budget, the queue, the checkpoints. What belongs to one conversation is the agent's
//! (`agent.rs`); what all sessions share is the process's (`process.rs`).
//!
//! Locks are held for moments, never across an await.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lathe_hooks::{HookEngine, HookVariables};
use lathe_models::Model;
use lathe_models::web::WebClient;
use lathe_permissions::PermissionEngine;
use lathe_protocol::{Init, Outbound};
use lathe_tools::ToolSet;
use lathe_transcript::record::{Envelope, SideRecord};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::record::checkpoints::{CheckpointMoment, FileCheckpoints};
use crate::record::journal::SessionFiles;
use crate::record::totals::SessionTotals;
use crate::state::agent::{AgentCell, AgentView};
use crate::state::async_hook_output::AsyncHookOutput;
use crate::state::background_tasks::BackgroundTasks;
use crate::state::commands::SlashCommands;
use crate::state::config::{
    AgentConfig, FrameOptions, HooksConfig, PromptSurface, SessionConfig, TaskListConfig,
};
use crate::state::env_files::EnvFiles;
use crate::state::file_watch::FileWatch;
use crate::state::frames::FrameBuilder;
use crate::state::host_questions::HostQuestions;
use crate::state::introduction::HostIntroduction;
use crate::state::process::ProcessServices;
use crate::state::queue::PromptQueue;
use crate::state::schedule::TurnSchedule;
use crate::state::settings_access::SettingsAccess;

/// How often the host is shown that the session still waits for a tool, or for one of the host's hooks.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// The folders that paths in the `if` of hooks are relative to.
pub struct IfRules {
    /// For relative paths.
    pub root: PathBuf,
    /// For `~/`.
    pub home: Option<PathBuf>,
}

/// The services of one session.
pub struct SessionServices {
    pub process: Arc<ProcessServices>,
    pub model: Arc<dyn Model>,
    /// What others may see of the main agent, for requests that concern the session as a whole.
    pub main: Arc<AgentCell>,
    /// Builds the frames that belong to the session and not to an agent.
    pub frames: FrameBuilder,
    /// The client for HTTP hooks and for pages that tools fetch.
    pub web: Arc<WebClient>,
    /// The files that the session is recorded in.
    pub files: Arc<SessionFiles>,
    /// The fields that every record of the session has.
    pub envelope: Envelope,
    /// Names of tools that exist, whether this session has them or not.
    pub known_tools: Vec<String>,
    /// Tools that come and go with the model of the main agent.
    pub list_tools: ToolSet,
    pub options: FrameOptions,
    /// US dollars for the whole run, of all agents together; none means no limit.
    pub max_budget_usd: Option<f64>,
    pub surface: PromptSurface,
    pub settings: Arc<dyn SettingsAccess>,
    /// The hooks of settings files and of the host.
    pub hooks: HookEngine,
    /// The rule language for the `if` of hooks.
    pub(crate) if_rules: IfRules,
    /// The project as hooks are told of it, if it is not the folder of the agent.
    pub(crate) hook_project: Option<PathBuf>,
    /// Files that hooks wait for.
    pub(crate) watch: FileWatch,
    /// Variables that hooks set.
    pub(crate) env_files: EnvFiles,
    /// Output of hooks that finished after their event.
    pub(crate) late: AsyncHookOutput,
    /// The commands that run beside the turn.
    pub tasks: BackgroundTasks,
    /// Where the task list is.
    pub task_lists: TaskListConfig,
    /// Turns that start by the clock.
    pub schedule: TurnSchedule,
    /// The model the session started with, which `default` goes back to.
    pub first_model: String,
    pub init: Init,
    pub output_styles: Vec<String>,
    /// Copies of files as they were before each prompt, if a host may rewind them.
    pub checkpoints: Option<Arc<FileCheckpoints>>,
    /// Whether prompts may be commands, and which.
    pub slash_commands: SlashCommands,
    /// Questions to the host that have no reply yet.
    pub questions: HostQuestions,
    /// Fires when the session has to end: its reader is gone, or it was told to.
    pub stop: CancellationToken,
    /// Fires when the host asks to end the session: the running turn is the last.
    pub end_asked: CancellationToken,
    /// When the session began, milliseconds since the epoch.
    pub started_ms: u64,
    out: mpsc::Sender<Outbound>,
    /// The rules. Written by host requests, replies to permission questions and settings that changed; read for every
    /// call of every agent.
    permissions: Mutex<PermissionEngine>,
    /// Written by every agent that asks a model or runs a tool; read by results and host requests.
    totals: Mutex<SessionTotals>,
    /// Written by lines of the host and by calls that schedule; read by the main agent between rounds and turns.
    queue: Mutex<PromptQueue>,
    /// The environment of command hooks. Written when settings change or another session begins; read for
    /// every hook.
    hook_env: Mutex<Arc<HookVariables>>,
    /// Written by `initialize`; read by calls, commands and requests.
    introduction: Mutex<HostIntroduction>,
}

impl SessionServices {
    /// Creates the services of a session, and returns what its main agent is made of. `hook_engine` builds the hook
    /// engine and gets a weak reference to the session, which cannot be upgraded before this returns.
    pub(crate) fn start(
        config: SessionConfig,
        out: mpsc::Sender<Outbound>,
        stop: CancellationToken,
        hook_engine: impl FnOnce(&Weak<Self>, &ProcessServices, &AgentConfig, HooksConfig) -> HookEngine,
    ) -> (Arc<Self>, AgentConfig) {
        let SessionConfig { session_id, process, model, main, known_tools, permissions, list_tools, .. } =
            config;
        let SessionConfig { max_budget_usd, frames, surface, settings, hooks, init, .. } = config;
        let SessionConfig { output_styles, checkpoints, slash_commands, background, .. } = config;
        let SessionConfig { task_lists, schedule, .. } = config;
        let cell = Arc::new(AgentCell::new(AgentView::of(&main)));
        let session = Arc::new_cyclic(|this| Self {
            started_ms: process.host.now_ms(),
            frames: FrameBuilder::new(session_id, process.host.clone()),
            model,
            main: cell,
            files: main.journal.files().clone(),
            envelope: main.journal.envelope().clone(),
            known_tools,
            list_tools,
            options: frames,
            max_budget_usd,
            surface,
            settings,
            hook_project: hooks.project_dir.clone(),
            watch: FileWatch::default(),
            env_files: EnvFiles::new(hooks.env_dir.clone()),
            late: AsyncHookOutput::default(),
            tasks: BackgroundTasks::new(background),
            task_lists,
            schedule: TurnSchedule::new(schedule, process.host.clone()),
            hook_env: Mutex::new(Arc::new(hooks.env.clone())),
            if_rules: IfRules {
                root: main.workspace.root.clone(),
                home: hooks.env.all.iter().find(|(name, _)| name == "HOME").map(|(_, home)| home.into()),
            },
            web: hooks.web.clone(),
            hooks: hook_engine(this, &process, &main, hooks),
            process,
            first_model: main.choice.id.clone(),
            init,
            output_styles,
            checkpoints: checkpoints.map(|config| Arc::new(FileCheckpoints::new(config))),
            slash_commands,
            questions: HostQuestions::default(),
            stop,
            end_asked: CancellationToken::new(),
            out,
            permissions: Mutex::new(permissions),
            totals: Mutex::default(),
            queue: Mutex::default(),
            introduction: Mutex::default(),
        });
        (session, main)
    }

    /// Sends a frame to the host, after the records that the host mirrors. A slow host slows the session here; a host
    /// that is gone ends it.
    pub async fn emit(&self, frame: impl Into<Outbound>) {
        self.mirror_records().await;
        self.send(frame.into()).await;
    }

    /// Sends the host the records written since the last call, if it keeps its own copy of the session. Called
    /// before each frame, so that a host has the record of a message before the message.
    pub(crate) async fn mirror_records(&self) {
        while let Some(frame) = self.files.take_mirrored() {
            self.send(frame.into()).await;
        }
    }

    /// Sends a frame to the host and waits for room in the channel. A closed channel means that the host is gone: the
    /// frame is lost, and the session stops.
    async fn send(&self, frame: Outbound) {
        // Without a reader nothing can use the results any more, and every further request would cost money.
        if self.out.send(frame).await.is_err() {
            self.stop.cancel();
        }
    }

    /// Reports a problem that does not stop the session, to the host under `tag` and to the log, because many hosts
    /// show no frames that they do not know.
    pub async fn trouble(&self, tag: &str, text: &str) {
        self.process.host.log(text);
        self.emit(self.frames.note(tag, text)).await;
    }

    /// Shows the host every [`HEARTBEAT`] that a tool, or a hook of the host, still runs, because hosts take silence
    /// for a hang. Never returns; the caller drops the future when the work is done.
    pub(crate) async fn beat(&self, name: &str, id: &str) -> Infallible {
        let mut elapsed = Duration::ZERO;
        for count in 0.. {
            tokio::time::sleep(HEARTBEAT).await;
            elapsed += HEARTBEAT;
            self.emit(self.frames.heartbeat(name, id, count, elapsed)).await;
        }
        std::future::pending().await
    }

    /// Begins a checkpoint for the prompt with the id `prompt`: files that were followed so far are compared and saved
    /// again. Does nothing if checkpoints are off.
    pub(crate) async fn checkpoint_prompt(&self, prompt: &str) {
        let prompt = prompt.to_owned();
        self.checkpoint(&self.stop, move |checkpoints, at| Some(checkpoints.begin(&prompt, at))).await;
    }

    /// Saves a file that a call is about to change; does nothing if checkpoints are off. Must be awaited before the
    /// change. `cancel` is the call's own token: a call that was cancelled meanwhile changes nothing and needs no copy.
    pub(crate) async fn checkpoint_file(
        &self,
        path: &Path,
        assistant_uuid: &str,
        cancel: &CancellationToken,
    ) {
        let (path, call) = (path.to_owned(), assistant_uuid.to_owned());
        self.checkpoint(cancel, move |checkpoints, at| checkpoints.before_change(&path, &call, at)).await;
    }

    /// Does the file work of checkpoints on the blocking pool, because it copies files of up to 32 MB; nothing if
    /// checkpoints are off. Returns early if `cancel` fires, but the work goes on and writes its record there. Problems
    /// are reported to the session's files and not returned.
    async fn checkpoint(
        &self,
        cancel: &CancellationToken,
        work: impl FnOnce(&FileCheckpoints, CheckpointMoment<'_>) -> Option<SideRecord> + Send + 'static,
    ) {
        let Some(checkpoints) = self.checkpoints.clone() else { return };
        let (session, now, files) = (self.frames.session_id(), self.frames.now(), self.files.clone());
        let kept = lathe_exec::spawn_blocking(move || {
            let record = work(&checkpoints, CheckpointMoment { session: &session, now: &now });
            record.iter().for_each(|record| files.side(record));
            files.report(checkpoints.take_troubles().into_iter());
        });
        tokio::select! {
            // Finished work comes first, so that its error is reported even if the call was cancelled.
            biased;
            done = kept => {
                let broke_off = done.err().map(|error| format!("files cannot be rewound: {error}"));
                self.files.report(broke_off.into_iter());
            }
            () = cancel.cancelled() => {}
        }
    }

    /// Gives the session a title: records it and tells the host.
    pub(crate) async fn set_title(&self, title: &str) {
        self.files.title(&self.frames.session_id(), title);
        self.emit(self.frames.title_changed(title)).await;
    }

    /// Locks the permission engine. The guard must not be held across an await.
    pub fn permissions(&self) -> MutexGuard<'_, PermissionEngine> {
        lock(&self.permissions)
    }

    /// Locks the counts of what the session has used so far. The guard must not be held across an await.
    pub fn totals(&self) -> MutexGuard<'_, SessionTotals> {
        lock(&self.totals)
    }

    /// Locks the queue of prompts, which also holds what is scheduled. The guard must not be held across an await.
    pub fn queue(&self) -> MutexGuard<'_, PromptQueue> {
        lock(&self.queue)
    }

    /// Locks what the host said about itself in its handshake. The guard must not be held across an await.
    pub fn introduction(&self) -> MutexGuard<'_, HostIntroduction> {
        lock(&self.introduction)
    }

    /// Returns the environment of command hooks as it is now; later changes do not show in it.
    pub(crate) fn hook_env(&self) -> Arc<HookVariables> {
        lock(&self.hook_env).clone()
    }

    /// Replaces the whole environment of command hooks, with what [`Self::change_hook_variable`] has changed in it.
    pub(crate) fn set_hook_env(&self, env: HookVariables) {
        *lock(&self.hook_env) = Arc::new(env);
    }

    /// Changes the value of a variable in the environment of command hooks. One that they do not have is not added.
    pub(crate) fn change_hook_variable(&self, wanted: &str, value: &str) {
        let mut env = lock(&self.hook_env);
        for (_, old) in Arc::make_mut(&mut env).all.iter_mut().filter(|(name, _)| name == wanted) {
            value.clone_into(old);
        }
    }

    /// Returns whether the run has reached its spending limit; false if there is none.
    pub fn over_budget(&self) -> bool {
        self.max_budget_usd.is_some_and(|limit| self.totals().run_cost_usd() >= limit)
    }
}

/// Locks a mutex of the session, also after a panic under the lock. The guard must not be held across an await.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
