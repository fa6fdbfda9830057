//! A session in-process on a scripted model: what goes in is a script and prompts, what comes out is the
//! list of frames. Ids and time are counted, so that runs are the same every time.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod hooked;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use lathe_agent::AgentJournal;
use lathe_agent::CheckpointsConfig;
use lathe_agent::ProcessHost;
use lathe_agent::ProcessServices;
use lathe_agent::SystemPrompt;
use lathe_agent::{
    AgentConfig, AgentModel, CompactPolicy, FrameOptions, HooksConfig, PromptSurface, ScheduleConfig,
    SessionBeginning, SessionConfig, SessionEnd, SessionSignals, SetupTrigger, SlashCommands, TurnLimits,
};
use lathe_agent::{NoSettings, SettingsAccess};
use lathe_exec::{Ledger, ProcessLimits};
use lathe_hooks::{HookSource, HookVariables};
use lathe_models::retry::RetryPolicy;
use lathe_models::{CacheTtl, CompleteMessage, Model, ModelError, ModelRequest, ModelStream};
use lathe_permissions::{EngineConfig, PermissionEngine, PermissionScope, PermissionScopeConfig, RuleSource};
use lathe_protocol::{Inbound, Init, Outbound, PermissionBehavior, PermissionMode, SettingsSource};
use lathe_scripted::{Script, ScriptedModel};
use lathe_settings::memory::Memory;
use lathe_tools::{
    ChildEnvironment, ChildVariables, Selection, StructuredOutput, ToolSet, Workspace, builtin_tools,
};
use lathe_transcript::record::Envelope;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// What a session wrote to the log.
pub type Log = Arc<Mutex<Vec<String>>>;

/// Counts instead of drawing at random, and keeps the log.
#[derive(Default)]
pub struct CountingHost(AtomicU64, Log);

impl ProcessHost for CountingHost {
    fn uuid(&self) -> String {
        format!("00000000-0000-4000-8000-{:012}", self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn now_ms(&self) -> u64 {
        1_700_000_000_000
    }

    fn random(&self) -> f64 {
        0.5
    }

    fn process_id(&self) -> Option<u32> {
        Some(4711)
    }

    fn log(&self, line: &str) {
        self.1.lock().expect("nothing panics here").push(line.to_owned());
    }
}

/// What a model was told, request by request: the messages as JSON.
pub type Heard = Arc<Mutex<Vec<String>>>;

/// A model that remembers what it was told.
struct Listening {
    model: ScriptedModel,
    heard: Heard,
    offered_tools: Heard,
}

impl Model for Listening {
    fn stream(&self, request: Arc<ModelRequest>) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        let messages: Vec<String> = request
            .messages
            .iter()
            .map(|message| String::from_utf8_lossy(message.bytes()).into_owned())
            .collect();
        self.heard.lock().unwrap().push(messages.join("\n"));
        self.offered_tools.lock().unwrap().push(request.tools.to_string());
        self.model.stream(request)
    }

    fn complete(&self, request: Arc<ModelRequest>) -> BoxFuture<'_, Result<CompleteMessage, ModelError>> {
        self.model.complete(request)
    }
}

/// What a test wants of its session.
pub struct Setup {
    pub script: Script,
    pub cwd: PathBuf,
    pub mode: PermissionMode,
    pub limits: TurnLimits,
    pub max_budget_usd: Option<f64>,
    pub frames: FrameOptions,
    pub surface: PromptSurface,
    pub max_retries: u32,
    pub fallbacks: Vec<String>,
    pub log: Log,
    /// Whether files must be read before they are changed.
    pub must_read_first: bool,
    pub checkpoints: Option<CheckpointsConfig>,
    /// The `hooks` of a settings file.
    pub hooks: Value,
    /// The shape of answers.
    pub schema: Option<Value>,
    /// What hooks have besides.
    pub hooking: HooksConfig,
    pub settings: Arc<dyn SettingsAccess>,
    pub memory: Option<Memory>,
    pub setup: Option<SetupTrigger>,
    pub rules: Vec<(PermissionBehavior, String)>,
    /// The conversation as each request sent it.
    pub heard: Heard,
    /// The `tools` of each request.
    pub offered_tools: Heard,
    pub compaction: CompactPolicy,
    pub slash_commands: SlashCommands,
    /// Where the session is written, if it is.
    pub journal: Option<AgentJournal>,
    pub beginning: SessionBeginning,
    /// Where plans are written.
    pub plan_file: Option<PathBuf>,
    pub process_limits: ProcessLimits,
    pub schedule: ScheduleConfig,
    /// The clock and the ids.
    pub host: Option<Arc<dyn ProcessHost>>,
}

impl Setup {
    /// A session that may do everything, on this script.
    pub fn new(script: Value, cwd: &Path) -> Self {
        Self::with_script(Script::parse("test.json", &script.to_string()).expect("the script is valid"), cwd)
    }

    pub fn with_script(script: Script, cwd: &Path) -> Self {
        Self {
            script,
            cwd: cwd.canonicalize().expect("the folder exists"),
            mode: PermissionMode::BypassPermissions,
            limits: TurnLimits::default(),
            max_budget_usd: None,
            frames: FrameOptions::default(),
            surface: PromptSurface::None,
            max_retries: 2,
            fallbacks: Vec::new(),
            log: Log::default(),
            must_read_first: false,
            checkpoints: None,
            hooks: json!({}),
            schema: None,
            hooking: HooksConfig {
                env: HookVariables::unrestricted(vec![(
                    "PATH".to_owned(),
                    "/usr/local/bin:/usr/bin:/bin".to_owned(),
                )]),
                ..HooksConfig::default()
            },
            settings: Arc::new(NoSettings),
            memory: None,
            setup: None,
            rules: Vec::new(),
            heard: Heard::default(),
            offered_tools: Heard::default(),
            compaction: CompactPolicy::default(),
            slash_commands: SlashCommands::default(),
            journal: None,
            beginning: SessionBeginning::New,
            process_limits: ProcessLimits::default(),
            schedule: ScheduleConfig::default(),
            host: None,
            plan_file: None,
        }
    }

    pub fn config(self) -> SessionConfig {
        let session_id = "5e55104e-0000-4000-8000-000000000000".to_owned();
        let mut workspace = Workspace::new(self.cwd.clone(), Ledger::default());
        let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        workspace.env = Arc::new(ChildEnvironment::new(ChildVariables::unrestricted(vec![path])));
        workspace.output_dir = self.cwd.join(".outputs");
        if self.must_read_first {
            workspace.limits.read_before_edit = lathe_tools::ReadBeforeEdit::Required;
        }
        workspace.plan_file.clone_from(&self.plan_file);
        let mut tools = ToolSet::new(builtin_tools());
        if self.surface != PromptSurface::Host {
            let interactive = ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode"].map(str::to_owned);
            tools = tools.select(Selection::Except(&interactive));
        }
        if let Some(schema) = self.schema {
            tools = tools.with(Arc::new(StructuredOutput::new(schema).expect("the schema is valid")));
        }
        let hooks = serde_json::from_value(self.hooks).expect("hooks as settings files have them");
        let mut retry = RetryPolicy::with_max_retries(self.max_retries);
        retry.base = Duration::from_millis(1);
        let mut permissions = PermissionEngine::new(EngineConfig {
            root: Some(self.cwd.clone()),
            plan_dir: self.plan_file.as_deref().and_then(Path::parent).map(Path::to_owned),
            ..EngineConfig::default()
        });
        let scope = PermissionScope::new(PermissionScopeConfig {
            mode: self.mode,
            working_dirs: vec![self.cwd.clone()],
            bypass_available: true,
        });
        for (behavior, rule) in self.rules {
            assert!(permissions.add_rules(behavior, RuleSource::CliArg, [rule]).is_empty(), "a sound rule");
        }
        SessionConfig {
            schedule: self.schedule,
            background: lathe_agent::BackgroundConfig {
                folder: lathe_agent::task_folder(&self.cwd.join(".tmp"), "-project", "session"),
                policy: lathe_tools::BackgroundPolicy::For(Duration::from_secs(1800)),
                ceiling: Some(Duration::from_secs(600)),
            },
            task_lists: lathe_agent::TaskListConfig {
                folder: self.cwd.join(".tasks"),
                name: lathe_agent::TaskListName::OfSession,
            },
            process: Arc::new(ProcessServices {
                host: self.host.unwrap_or_else(|| Arc::new(CountingHost(AtomicU64::default(), self.log))),
                catalog: lathe_models::catalog::Catalog::default(),
                retry,
                limits: self.process_limits,
            }),
            known_tools: tools.names().map(str::to_owned).collect(),
            list_tools: ToolSet::default(),
            main: AgentConfig {
                choice: AgentModel {
                    id: "claude-opus-5-5".to_owned(),
                    fallbacks: self.fallbacks,
                    thinking: None,
                    effort: None,
                    max_output_tokens: None,
                    task_budget: None,
                    betas: Vec::new(),
                    cache: CacheTtl::FiveMinutes,
                    extra_body: serde_json::Map::new(),
                    user_id: None,
                },
                tools,
                workspace,
                scope,
                system: SystemPrompt::default(),
                limits: self.limits,
                compaction: self.compaction,
                journal: self.journal.unwrap_or_else(|| {
                    AgentJournal::off(Envelope { session_id: session_id.clone(), ..Envelope::default() })
                }),
                memory: self.memory,
            },
            max_budget_usd: self.max_budget_usd,
            model: Arc::new(Listening {
                model: ScriptedModel::new(self.script).expect("the script is sound"),
                heard: self.heard,
                offered_tools: self.offered_tools,
            }),
            permissions,
            frames: self.frames,
            surface: self.surface,
            settings: self.settings,
            hooks: HooksConfig {
                registered: vec![(HookSource::Settings(SettingsSource::User), hooks)],
                ..self.hooking
            },
            output_styles: vec!["default".to_owned()],
            init: Init { output_style: "default".to_owned(), ..Init::default() },
            setup: self.setup,
            worktree: None,
            checkpoints: self.checkpoints,
            slash_commands: self.slash_commands,
            beginning: self.beginning,
            notices: Vec::new(),
            session_id,
        }
    }
}

/// A prompt as a host writes it.
pub fn prompt(text: &str) -> Inbound {
    line(json!({"type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": null}))
}

/// Any line as a host writes it.
pub fn line(value: Value) -> Inbound {
    Inbound::parse_line(&value.to_string()).expect("a line of the protocol")
}

/// Runs prompts to their end; the frames as JSON.
pub async fn run(setup: Setup, prompts: &[&str]) -> (Vec<Value>, SessionEnd) {
    run_config(setup.config(), prompts).await
}

/// The same for a session that was put together by hand.
pub async fn run_config(config: SessionConfig, prompts: &[&str]) -> (Vec<Value>, SessionEnd) {
    let (lines, inbox) = mpsc::channel(16);
    for text in prompts {
        lines.send(prompt(text)).await.expect("room for the prompts");
    }
    drop(lines);
    let (out, mut frames) = mpsc::channel(16);
    let collect = async {
        let mut all = Vec::new();
        while let Some(frame) = frames.recv().await {
            all.push(to_json(&frame));
        }
        all
    };
    let (end, frames) =
        tokio::join!(Box::pin(lathe_agent::run(config, inbox, out, SessionSignals::default())), collect);
    (frames, end)
}

/// A session to talk with.
pub struct Talk {
    pub lines: Option<mpsc::Sender<Inbound>>,
    pub frames: mpsc::Receiver<Outbound>,
    pub signals: SessionSignals,
    pub session: tokio::task::JoinHandle<SessionEnd>,
}

impl Talk {
    pub fn start(setup: Setup) -> Self {
        Self::start_config(setup.config())
    }

    /// The same for a session that was put together by hand.
    pub fn start_config(config: SessionConfig) -> Self {
        let (lines, inbox) = mpsc::channel(16);
        let (out, frames) = mpsc::channel(16);
        let signals = SessionSignals::default();
        let session = tokio::spawn(lathe_agent::run(config, inbox, out, signals.clone()));
        Self { lines: Some(lines), frames, signals, session }
    }

    pub async fn send(&self, value: Inbound) {
        self.lines.as_ref().expect("still open").send(value).await.expect("the session listens");
    }

    /// The next frame that fits, within a minute; those before it are passed over.
    pub async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        let search = async {
            while let Some(frame) = self.frames.recv().await {
                let frame = to_json(&frame);
                if fits(&frame) {
                    return frame;
                }
            }
            panic!("the session ended before the frame came");
        };
        tokio::time::timeout(Duration::from_secs(60), search).await.expect("the frame comes in time")
    }

    /// Closes the input and waits for the end; the frames that were left.
    pub async fn finish(mut self) -> (Vec<Value>, SessionEnd) {
        self.lines.take();
        let mut rest = Vec::new();
        while let Some(frame) = self.frames.recv().await {
            rest.push(to_json(&frame));
        }
        (rest, self.session.await.expect("the session does not panic"))
    }
}

pub fn to_json(frame: &Outbound) -> Value {
    serde_json::to_value(frame).expect("frames serialise")
}

/// `type/subtype` or `type:first block` of each frame.
pub fn kinds(frames: &[Value]) -> Vec<String> {
    frames
        .iter()
        .map(|frame| {
            let kind = frame["type"].as_str().unwrap_or("");
            let block = frame["message"]["content"][0]["type"].as_str();
            match frame["subtype"].as_str().or(block) {
                Some(detail) => format!("{kind} {detail}"),
                None => kind.to_owned(),
            }
        })
        .collect()
}

/// The frames of one type.
pub fn of_type<'a>(frames: &'a [Value], kind: &str) -> Vec<&'a Value> {
    frames.iter().filter(|frame| frame["type"] == kind).collect()
}
