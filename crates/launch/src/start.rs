//! From options to a session: finds the folder, the model, the tools and the rules, and fills in the
//! configuration that the loop takes. Nothing is read here that the run does not need.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lathe_agent::CheckpointsConfig;
use lathe_agent::ProcessServices;
use lathe_agent::{
    AgentConfig, AgentModel, BackgroundConfig, FrameOptions, HooksConfig, ScheduleConfig, SessionBeginning,
    SessionConfig, SessionEnd, SessionSignals, SlashCommands, StateFrames, TurnLimits,
};
use lathe_agent::{ProcessHost, iso_time};
use lathe_agent::{PromptEnvironment, SystemPrompt, environment_text};
use lathe_exec::Ledger;
use lathe_hooks::HookVariables;
use lathe_models::CacheTtl;
use lathe_models::catalog::Phase;
use lathe_permissions::PermissionEngine;
use lathe_protocol::{ClientFacts, ClientGeneration, Inbound, Init, Outbound, Settings};
use lathe_settings::memory::ReadCheck;
use lathe_tools::{BackgroundPolicy, ChildEnvironment, ShellStartup, WebState, Workspace, builtin_tools};
use lathe_transcript::SessionPaths;
use tokio::sync::mpsc;

use crate::children::ChildEnvironments;
use crate::client::{self, KeyHelper, ModelSource};
use crate::env::LaunchEnvironment;
use crate::error::LaunchError;
use crate::host::RealHost;
use crate::live;
use crate::options::{BackgroundEnd, SessionOptions};
use crate::project_context::{ProjectContext, permissions, plan_dir};
use crate::retention::RetentionSweep;
use crate::services::SharedServices;
use crate::session_tools::{list_tools, session_kind, task_lists, tools};
use crate::sessions::{self, OpenSession};
use crate::settings::{self, ModelInstructions};
use crate::warning::WarningSink;
use crate::{LATHE_VERSION, PROTOCOL_VERSION};

/// How long a command runs in the background before it is stopped, unless it asks for a time of its own.
const BACKGROUND_LIFETIME: Duration = Duration::from_millis(1_800_000);

/// How long a session waits for its background tasks after its last turn.
const DEFAULT_CEILING_MS: u64 = 600_000;

/// A session that can run, and what is to be done when it has.
pub struct PreparedSession {
    /// What the loop takes.
    pub config: SessionConfig,
    /// What is to be done about old sessions when this one has ended.
    pub retention: Option<RetentionSweep>,
    /// A folder that goes with the run, of a session that is not saved.
    scratch: ScratchFolder,
}

impl PreparedSession {
    /// Returns whether the resumed session has a call that a hook deferred and that runs before the first prompt. A run
    /// without a prompt is an error unless this is true.
    pub fn has_deferred_call(&self) -> bool {
        self.config.beginning.has_deferred_call()
    }

    /// Runs the session until its inbox is closed and everything in it is done, or until a signal ends it; dropping the
    /// future ends it too. Removes the scratch folder of a session that is not saved. Take `retention` out before: it
    /// is lost here.
    pub async fn run(
        self,
        inbox: mpsc::Receiver<Inbound>,
        out: mpsc::Sender<Outbound>,
        signals: SessionSignals,
    ) -> SessionEnd {
        let _removed_at_the_end = self.scratch;
        lathe_agent::run(self.config, inbox, out, signals).await
    }
}

/// The folder of a session that is not saved. It is removed with this value; most sessions never make it.
struct ScratchFolder(Option<PathBuf>);

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        if let Some(dir) = &self.0 {
            // A session that is not saved keeps none of this; where it was never made there is nothing to say.
            drop(std::fs::remove_dir_all(dir));
        }
    }
}

/// Assembles a session: reads settings, memory files and rules, opens (and locks) the session's file, and chooses the
/// model. Warnings go to `warnings` as they are found, also when the launch then fails. It blocks on files and locks,
/// so it belongs on a thread that may wait.
pub fn prepare(
    options: &SessionOptions,
    env: LaunchEnvironment,
    model: ModelSource<'_>,
    services: &SharedServices,
    warnings: &WarningSink,
) -> Result<PreparedSession, LaunchError> {
    let host: Arc<dyn ProcessHost> = Arc::new(RealHost::new(&env, warnings.clone()));
    let project = ProjectContext::load(options, env, warnings)?;
    let (env, cwd, extra_dirs) = (&project.env, &project.cwd, project.extra_dirs());
    let session = sessions::open(options, env, cwd, host.as_ref(), warnings)?;
    let session_id = session.id.clone();
    let ledger = Ledger::with_limits(env.child_limits);
    let helper = KeyHelper::of(&project.settings.stack(), env, &options.tool_env);
    let chosen = client::choose(model, project.model_name(options), env, helper, &ledger, services)?;
    chosen.warnings.into_iter().for_each(|warning| warnings(warning));
    let model_id = client::catalog(env).resolve(&chosen.name, Phase::Working);
    let (mut permissions, scope) = permissions(options, &project, session.saved_mode(), warnings)?;
    let children = ChildEnvironments::new(project.process.clone(), &session_id, &options.tool_env);
    let child_env = children.env(&project.settings.stack());
    let (own_dir, scratch) = own_dir(&session, &project.process, host.as_ref());
    let mut workspace = workspace(options, &project, &session_id, &model_id, ledger);
    workspace.output_dir = own_dir.join("tool-results");
    workspace.env = Arc::new(ChildEnvironment::new(child_env.tools));
    // The model is pointed to long outputs in this folder, and must not need a permission to read them back.
    permissions.add_readable(&workspace.output_dir);
    // After the rules, because a deny rule for reading also keeps memory files out.
    let mut instructions = settings::instructions(env, &project.settings.stack(), read_check(&permissions));
    std::mem::take(&mut instructions.warnings).into_iter().for_each(|warning| warnings(warning));
    record_title(&session, options);
    let background = background(options, &project, &session_id);
    let days = project.wanted.cleanup_period_days;
    let outputs = lathe_agent::task_folder_of_user(&background.folder);
    let retention = RetentionSweep::of(options, env, outputs, days, warnings);
    let kind = session_kind(options, env, &model_id, chosen.deferral);
    let task_lists = task_lists(options, env, &own_dir);
    let folder = project.settings.stack().scheduled_tasks().map(Arc::new);
    let schedule = ScheduleConfig { clock: kind.clock, folder };
    // The model is pointed to these files, too.
    permissions.add_readable(&background.folder);
    let config = SessionConfig {
        init: init_facts(&project, &instructions, chosen.key_source),
        output_styles: instructions.style_names,
        slash_commands: if options.slash_commands { SlashCommands::default() } else { SlashCommands::Off },
        model: chosen.model,
        checkpoints: checkpoints(options, env, cwd, &session),
        main: AgentConfig {
            system: SystemPrompt {
                style: instructions.style.map(|style| style.text).unwrap_or_default(),
                ..system_prompt(options, cwd, &extra_dirs, &model_id, host.as_ref())
            },
            choice: AgentModel {
                // Requests of one session can be told to belong together, and nothing else about the user.
                user_id: Some(session_id.clone()),
                ..model_choice(options, env, &project.wanted, model_id)
            },
            tools: tools(options, &kind, &permissions)?,
            scope,
            workspace,
            limits: turn_limits(options, env),
            compaction: live::compaction(options.autocompact, env, &project.wanted),
            journal: session.journal,
            memory: Some(instructions.memory),
        },
        process: process_services(host, env, services),
        session_id,
        list_tools: list_tools(options, env, &kind, &permissions),
        known_tools: builtin_tools().iter().map(|tool| tool.name().to_owned()).collect(),
        hooks: hooks_config(&project, services, child_env.hooks, &own_dir),
        permissions,
        setup: options.setup,
        worktree: options.worktree.clone(),
        background,
        task_lists,
        schedule,
        max_budget_usd: options.max_budget_usd,
        frames: frame_options(options, env),
        surface: options.surface.clone(),
        beginning: session.beginning,
        notices: project.settings.withheld_notice().into_iter().collect(),
        settings: Arc::new(project.into_live(options, children)),
    };
    Ok(PreparedSession { config, retention, scratch })
}

/// Returns the check of which memory files may be read: those that no deny rule for reading matches. It uses the rules
/// that the session starts with, so later changes of rules do not apply to it.
fn read_check(permissions: &PermissionEngine) -> ReadCheck {
    match permissions.read_filter() {
        Some(is_denied) => ReadCheck(Arc::new(move |path| !is_denied(path))),
        None => ReadCheck::default(),
    }
}

/// Collects what all agents of the session share: host, model names, retries and limits.
fn process_services(
    host: Arc<dyn ProcessHost>,
    env: &LaunchEnvironment,
    services: &SharedServices,
) -> Arc<ProcessServices> {
    let (catalog, retry) = (client::catalog(env), client::retry_policy(env));
    Arc::new(ProcessServices { host, catalog, retry, limits: services.limits().clone() })
}

/// Writes the title of `--name` into the session's file; does nothing without a name or with a blank one.
fn record_title(session: &OpenSession, options: &SessionOptions) {
    if let Some(name) = options.name.as_deref().map(str::trim).filter(|name| !name.is_empty()) {
        session.journal.files().title(&session.id, name);
    }
}

/// Combines the choices about the model `id`: flags win over the environment, and that over settings. Only
/// `CLAUDE_CODE_DISABLE_THINKING` wins over its flag. A `CLAUDE_CODE_EXTRA_BODY` that cannot be parsed is ignored.
/// `user_id` is left to the caller.
fn model_choice(
    options: &SessionOptions,
    env: &LaunchEnvironment,
    wanted: &Settings,
    id: String,
) -> AgentModel {
    let catalog = client::catalog(env);
    let fallbacks =
        options.fallback_models.iter().map(|name| catalog.resolve(name, Phase::Working)).collect();
    let extra_body = env.get("CLAUDE_CODE_EXTRA_BODY").and_then(|text| serde_json::from_str(text).ok());
    let max_output = env.number("CLAUDE_CODE_MAX_OUTPUT_TOKENS").filter(|tokens| *tokens > 0);
    let thinking = if env.is_on("CLAUDE_CODE_DISABLE_THINKING") {
        Some(lathe_models::Thinking::Disabled)
    } else {
        let tokens = env.number("MAX_THINKING_TOKENS");
        options.thinking.clone().or_else(|| tokens.map(|tokens| thinking_budget(tokens as u32)))
    };
    AgentModel {
        id,
        fallbacks,
        thinking,
        effort: options
            .effort
            .clone()
            .or_else(|| env.get("CLAUDE_CODE_EFFORT_LEVEL").map(str::to_owned))
            .or_else(|| wanted.effort_level.clone()),
        max_output_tokens: max_output.map(|tokens| tokens.min(u64::from(u32::MAX)) as u32),
        betas: options.betas.clone(),
        task_budget: options.task_budget,
        cache: cache(env),
        extra_body: extra_body.unwrap_or_default(),
        user_id: None,
    }
}

/// Converts the number in `MAX_THINKING_TOKENS` into a thinking choice; zero disables thinking.
fn thinking_budget(tokens: u32) -> lathe_models::Thinking {
    if tokens == 0 { lathe_models::Thinking::Disabled } else { lathe_models::Thinking::Budget(tokens) }
}

/// Returns how long the API caches prompts, by the environment. `DISABLE_PROMPT_CACHING` wins over everything, and five
/// minutes win over an hour.
fn cache(env: &LaunchEnvironment) -> CacheTtl {
    if env.is_on("DISABLE_PROMPT_CACHING") {
        CacheTtl::Off
    } else if env.is_on("ENABLE_PROMPT_CACHING_1H") && !env.is_on("FORCE_PROMPT_CACHING_5M") {
        CacheTtl::OneHour
    } else {
        CacheTtl::FiveMinutes
    }
}

/// Returns how commands run in the background: where their output goes, for how long, and how long the session waits
/// for them after its last turn. A ceiling of 0 in the environment means no limit, and the option to stop them means no
/// wait.
fn background(options: &SessionOptions, project: &ProjectContext, session_id: &str) -> BackgroundConfig {
    let env = &project.env;
    let base = env.get("CLAUDE_CODE_TMPDIR").map_or_else(|| project.process.temp_dir(), Path::new);
    let ceiling = env.number("CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS").unwrap_or(DEFAULT_CEILING_MS);
    BackgroundConfig {
        folder: lathe_agent::task_folder(base, &lathe_transcript::project_key(&project.cwd), session_id),
        policy: if env.is_on("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS") {
            BackgroundPolicy::Off
        } else {
            BackgroundPolicy::For(BACKGROUND_LIFETIME)
        },
        ceiling: match options.background {
            BackgroundEnd::Stop => Some(Duration::ZERO),
            BackgroundEnd::Wait => (ceiling > 0).then(|| Duration::from_millis(ceiling)),
        },
    }
}

/// Returns what the shells of commands begin with: a snapshot of the user's aliases and functions, unless
/// `LATHE_SHELL_SNAPSHOT` is off or no configuration folder is known, and the file in `CLAUDE_ENV_FILE`.
fn shell_startup(env: &LaunchEnvironment, workspace: &Workspace, session_id: &str) -> ShellStartup {
    let mut startup = ShellStartup::default();
    let is_wanted = env.get("LATHE_SHELL_SNAPSHOT").is_none() || env.is_on("LATHE_SHELL_SNAPSHOT");
    let shell = workspace.shell.file_name().unwrap_or_default().to_string_lossy();
    if let Some(config_dir) = env.config_dir().filter(|_| is_wanted) {
        startup = startup.with_snapshot_in(lathe_transcript::shell_snapshot(&config_dir, &shell, session_id));
    }
    match env.get("CLAUDE_ENV_FILE").filter(|file| !file.is_empty()) {
        Some(file) => startup.with_user_file(workspace.root.join(file)),
        None => startup,
    }
}

/// Creates the workspace of the tools with the limits from the environment. Zero and unreadable numbers leave the
/// default; the maximal timeout is never below the default one.
fn workspace(
    options: &SessionOptions,
    project: &ProjectContext,
    session_id: &str,
    model: &str,
    ledger: Ledger,
) -> Workspace {
    let env = &project.env;
    let mut workspace = Workspace::new(project.cwd.clone(), ledger);
    workspace.change_dirs(&[], &project.extra_dirs());
    // The calls of that generation hold the plan.
    if client_generation(options, env) != ClientGeneration::Cli10 {
        workspace.plan_file = plan_dir(project).map(|dir| dir.join(format!("{session_id}.md")));
    }
    if let Some(shell) = env.get("CLAUDE_CODE_SHELL") {
        workspace.shell = PathBuf::from(shell);
    }
    workspace.shell_startup = Arc::new(shell_startup(env, &workspace, session_id));
    let limits = &mut workspace.limits;
    let millis = |name: &str| env.number(name).filter(|ms| *ms > 0).map(Duration::from_millis);
    limits.bash_default_timeout = millis("BASH_DEFAULT_TIMEOUT_MS").unwrap_or(limits.bash_default_timeout);
    // A maximum below the default would contradict it for every call that names no timeout.
    limits.bash_max_timeout =
        millis("BASH_MAX_TIMEOUT_MS").unwrap_or(limits.bash_max_timeout).max(limits.bash_default_timeout);
    if let Some(chars) = env.number("BASH_MAX_OUTPUT_LENGTH").filter(|chars| *chars > 0) {
        limits.bash_output_chars = chars.min(150_000) as usize;
    }
    if env.is_on("CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR") {
        limits.shell_folder = lathe_tools::ShellFolder::StaysAtRoot;
    }
    workspace.web = Arc::new(WebState::new(client::web_limits(env)));
    if !lathe_models::catalog::may_edit_unread(model) {
        limits.read_before_edit = lathe_tools::ReadBeforeEdit::Required;
    }
    workspace
}

/// Returns the limits of a turn: rounds from the options, the others from the environment, with upper bounds. Values
/// that cannot be read leave the default.
fn turn_limits(options: &SessionOptions, env: &LaunchEnvironment) -> TurnLimits {
    let mut limits = TurnLimits { max_rounds: options.max_turns, ..TurnLimits::default() };
    if let Some(cap) = env.number("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP") {
        limits.max_stop_blocks = cap.min(10_000) as u32;
    }
    if let Some(attempts) = env.number("MAX_STRUCTURED_OUTPUT_RETRIES").filter(|attempts| *attempts > 0) {
        limits.max_structured_attempts = attempts.min(100) as u32;
    }
    limits
}

/// Collects the hooks of the settings files, the variables and the HTTP client that they get, and the folder for the
/// environment files that they write (`hook-env` in `own_dir`).
fn hooks_config(
    project: &ProjectContext,
    services: &SharedServices,
    variables: HookVariables,
    own_dir: &Path,
) -> HooksConfig {
    let (env, stack) = (&project.env, project.settings.stack());
    HooksConfig {
        registered: live::hooks_of(&stack),
        options: live::hook_options(&stack, live::session_end_budget(env)),
        env: variables,
        env_dir: Some(own_dir.join("hook-env")),
        project_dir: project.config_root.clone(),
        web: client::web_client(env, services),
    }
}

/// Returns where copies of changed files are kept for `rewind_files`; `None` if the host did not ask for it
/// (`CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING`) or no config folder is known. Only a resumed or forked session gets
/// the path of earlier records.
fn checkpoints(
    options: &SessionOptions,
    env: &LaunchEnvironment,
    cwd: &Path,
    session: &OpenSession,
) -> Option<CheckpointsConfig> {
    if !env.is_on("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING") {
        return None;
    }
    let goes_on = matches!(session.beginning, SessionBeginning::Resumed(_) | SessionBeginning::Forked(_));
    Some(CheckpointsConfig {
        dir: env.config_dir()?.join("file-history"),
        root: cwd.to_owned(),
        earlier: session.journal.files().path().filter(|_| goes_on),
        lasting: options.persist,
    })
}

/// Returns the folder for the files of this session other than its transcript; it is not created here. It lies beside
/// the transcript, so that both are deleted together. A session that is not saved gets a temporary folder with a random
/// name, which the returned [`ScratchFolder`] removes when it is dropped.
fn own_dir(
    session: &OpenSession,
    process: &LaunchEnvironment,
    host: &dyn ProcessHost,
) -> (PathBuf, ScratchFolder) {
    match session.journal.files().path() {
        Some(transcript) => (SessionPaths::of_transcript(&transcript).dir(), ScratchFolder(None)),
        None => {
            let dir = process.temp_dir().join(format!("lathe-{}", host.uuid()));
            (dir.clone(), ScratchFolder(Some(dir)))
        }
    }
}

/// Returns the system prompt with a description of folder, platform, day and model, as they are at the start. `style`
/// is left empty for the caller to fill in. The text must not change between starts on one day, because requests cache
/// it.
fn system_prompt(
    options: &SessionOptions,
    cwd: &Path,
    extra_dirs: &[PathBuf],
    model: &str,
    host: &dyn ProcessHost,
) -> SystemPrompt {
    let date = iso_time(host.now_ms());
    let dirs: Vec<String> = extra_dirs.iter().map(|dir| dir.display().to_string()).collect();
    let environment = environment_text(&PromptEnvironment {
        cwd,
        extra_dirs: &dirs,
        // `.git` is a file in linked working trees and submodules.
        is_git: cwd.ancestors().any(|dir| dir.join(".git").exists()),
        platform: std::env::consts::OS,
        shell: "bash",
        // The day alone: a time would change the system prompt, and so the cached prefix of requests, with every start.
        date: &date[..10],
        model,
    });
    SystemPrompt { choice: options.system_prompt.clone(), environment, style: String::new() }
}

/// Returns which optional frames the host gets, by its flags and the environment, and the generation of the client,
/// which decides the form of some frames. Of the two variables for states, the one that shows them to everyone wins.
fn frame_options(options: &SessionOptions, env: &LaunchEnvironment) -> FrameOptions {
    let states = if env.is_on("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS") {
        StateFrames::Public
    } else if env.is_on("CLAUDE_CODE_SDK_READS_SESSION_STATE") {
        StateFrames::SdkOnly
    } else {
        StateFrames::None
    };
    FrameOptions {
        partial_messages: options.partial_messages,
        hook_events: options.hook_events,
        replay_prompts: options.replay_prompts,
        states,
        client_generation: client_generation(options, env),
    }
}

/// Returns the generation of the client, by what it says of itself in its environment and on its command line.
pub(crate) fn client_generation(options: &SessionOptions, env: &LaunchEnvironment) -> ClientGeneration {
    ClientGeneration::of(&ClientFacts {
        // The second is the former name of the variable.
        named: env.get("LATHE_CLIENT_GENERATION").or_else(|| env.get("LATHE_CLIENT_ERA")),
        entrypoint: env.get("CLAUDE_CODE_ENTRYPOINT"),
        sdk_version: env.get("CLAUDE_AGENT_SDK_VERSION"),
        words: &options.words,
    })
}

/// Returns the fields of the init frame that are known at the start and do not change from turn to turn. An empty list
/// tells the client that there are none.
fn init_facts(project: &ProjectContext, instructions: &ModelInstructions, key_source: String) -> Init {
    let style = instructions.style.as_ref().map_or("default", |style| &style.name);
    let dirs = project.extra_dirs();
    Init {
        api_key_source: key_source,
        claude_code_version: Some(PROTOCOL_VERSION.to_owned()),
        output_style: style.to_owned(),
        agents: Some(Vec::new()),
        skills: Some(Vec::new()),
        plugins: Some(Vec::new()),
        capabilities: Some(Vec::new()),
        analytics_disabled: Some(true),
        product_feedback_disabled: Some(true),
        original_cwd: Some(project.cwd.display().to_string()),
        additional_directories: Some(dirs.iter().map(|dir| dir.display().to_string()).collect()),
        fast_mode_state: Some("off".to_owned()),
        fast_mode_disabled_reason: Some("sdk_opt_in_required".to_owned()),
        terminal_slash_commands: Some(Vec::new()),
        view_mode: Some("default".to_owned()),
        lathe_version: Some(LATHE_VERSION.to_owned()),
        ..Init::default()
    }
}
