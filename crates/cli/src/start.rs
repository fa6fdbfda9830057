//! From a plan to a session: finds the folder, the model, the tools and the rules, and fills in the
//! configuration that the loop takes. Nothing is read here that the run does not need.
#![allow(clippy::disallowed_macros, reason = "warnings of the start go to stderr")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lathe_agent::checkpoints::CheckpointsConfig;
use lathe_agent::era::{ClientFacts, Era};
use lathe_agent::history::as_reminder;
use lathe_agent::host::{Host, iso_time};
use lathe_agent::prompt::{Environment, SystemPrompt, environment_text};
use lathe_agent::{
    Beginning, CompactPolicy, FrameOptions, HooksConfig, ModelChoice, PromptSurface, SessionConfig,
    SlashCommands, StateFrames, Switch, TurnLimits,
};
use lathe_exec::Ledger;
use lathe_models::CacheTtl;
use lathe_models::catalog::Phase;
use lathe_permissions::{Engine, EngineConfig, RuleSource, mode_warning, parse_rule_list};
use lathe_protocol::{Init, PermissionBehavior, PermissionMode, Settings};
use lathe_settings::memory::ReadCheck;
use lathe_tools::{Selection, StructuredOutput, Tool, ToolSet, Workspace, builtin_tools, interactive_tools};
use lathe_transcript::SessionPaths;

use crate::children::Children;
use crate::client;
use crate::env::Env;
use crate::host::RealHost;
use crate::live::{self, LiveSettings, RulesInForce};
use crate::plan::{self, Autocompact, RunPlan, StartError, ToolChoice};
use crate::retention::Retention;
use crate::sessions::{self, OpenSession};
use crate::settings::{self, RunSettings};
use crate::{LATHE_VERSION, PROTOCOL_VERSION};

/// The model when nobody names one.
const DEFAULT_MODEL: &str = "default";

/// A session that can run, and what is to be done when it has.
pub struct Start {
    pub session: SessionConfig,
    pub retention: Option<Retention>,
}

/// Builds the session of a plan.
pub async fn session_config(plan: &RunPlan, mut env: Env) -> Result<Start, StartError> {
    let host: Arc<dyn Host> = Arc::new(RealHost);
    let process = env.clone();
    let (settings, warnings) = settings::load(plan, &env)?;
    warnings.iter().for_each(|warning| eprintln!("{warning}"));
    let (wanted, variables) = {
        let stack = settings.stack();
        (stack.effective(), stack.env())
    };
    for (name, value) in &variables {
        env.set(name, value);
    }
    let cwd = env.cwd.clone().ok_or_else(|| StartError {
        message: "Error: the working directory does not exist any more".to_owned(),
        reason: Some("cwd_unavailable"),
        session: None,
    })?;
    let mut session = sessions::open(plan, &env, &cwd, host.as_ref())?;
    let session_id = session.id.clone();
    let ledger = Ledger::default();
    let named = plan.model.clone().or_else(|| env.get("ANTHROPIC_MODEL").map(str::to_owned));
    let named = named.or_else(|| wanted.model.clone()).unwrap_or_else(|| DEFAULT_MODEL.to_owned());
    let chosen = client::choose(&named, &env, wanted.api_key_helper.clone(), &ledger)?;
    chosen.warnings.iter().for_each(|warning| eprintln!("{warning}"));
    let model_id = resolve_model(&named, &env);
    let mut dirs = plan.add_dirs.clone();
    dirs.extend(settings.stack().permission_dirs().into_iter().map(|dir| dir.path));
    let extra_dirs = existing_dirs(&dirs, &cwd);
    let default_mode = settings.stack().default_mode();
    let mode = plan.permission_mode.or(session.saved_mode()).or(default_mode).unwrap_or_default();
    let mut permissions = permissions(plan, &env, &settings, &extra_dirs, mode)?;
    let tools = tools(plan, &permissions)?;
    let children = Children::new(process, &session_id);
    let child_env = children.env(&variables);
    let mut workspace = workspace(&cwd, &extra_dirs, &session_id, &env, ledger);
    workspace.child_env = child_env.tools;
    workspace.plan_file = plan_dir(&wanted, &env).map(|dir| dir.join(format!("{session_id}.md")));
    if !lathe_models::catalog::may_edit_unread(&model_id) {
        workspace.limits.read_before_edit = lathe_tools::ReadBeforeEdit::Required;
    }
    permissions.add_readable(&workspace.output_dir);
    let rules = RulesInForce::new(permissions.clone());
    if let Some(name) = plan.name.as_deref().filter(|name| !name.trim().is_empty()) {
        session.journal.title(name.trim());
    }
    let closed = rules.clone();
    let may_read = ReadCheck(Arc::new(move |path: &Path| !closed.deny_reading(path)));
    let instructions = settings::instructions(&env, &settings.stack(), may_read);
    instructions.warnings.iter().for_each(|warning| eprintln!("{warning}"));
    let mut system = system_prompt(plan, &cwd, &extra_dirs, &model_id, host.as_ref());
    let style = instructions.style.as_ref();
    system.style = style.map(|style| style.text.clone()).unwrap_or_default();
    let checkpoints = checkpoints(plan, &env, &cwd, &session);
    let hooks = hooks_config(&env, &settings, child_env.hooks, &workspace.output_dir);
    let settings_dirs: Vec<PathBuf> =
        settings.stack().permission_dirs().into_iter().map(|dir| dir.path).collect();
    let live = LiveSettings {
        children,
        cwd: cwd.clone(),
        flag_dirs: existing_dirs(&plan.add_dirs, &cwd),
        dirs: Mutex::new(existing_dirs(&settings_dirs, &cwd)),
        session_end_budget: live::session_end_budget(&env),
        rules,
        settings,
    };
    let retention = Retention::of(plan, &env, wanted.cleanup_period_days);
    let session = SessionConfig {
        init: Init {
            output_style: style.map_or("default", |style| &style.name).to_owned(),
            ..init_facts(&cwd, &extra_dirs, chosen.key_source)
        },
        output_styles: instructions.style_names,
        slash_commands: if plan.slash_commands { SlashCommands::On } else { SlashCommands::Off },
        compaction: compaction(plan, &env, &wanted),
        model: chosen.model,
        choice: ModelChoice {
            // Requests of one session can be told to belong together, and nothing else about the user.
            user_id: Some(session_id.clone()),
            ..model_choice(plan, &env, &wanted, model_id)
        },
        session_id,
        retry: client::retry_policy(&env),
        tools,
        known_tools: all_tools(plan).iter().map(|tool| tool.name().to_owned()).collect(),
        workspace: Arc::new(workspace),
        permissions,
        system,
        preamble: instructions.memory.text().map(|text| as_reminder(&text)),
        memory: Some(instructions.memory),
        setup: plan.setup,
        limits: TurnLimits {
            max_rounds: plan.max_turns,
            max_budget_usd: plan.max_budget_usd,
            ..turn_limits(&env)
        },
        hooks,
        frames: frame_options(plan, &env),
        surface: plan.surface.clone(),
        catalog: client::catalog(&env),
        settings: Arc::new(live),
        checkpoints,
        journal: session.journal,
        beginning: session.beginning,
        host,
    };
    Ok(Start { session, retention })
}

/// The id behind a name; a script stands in for the default model.
fn resolve_model(name: &str, env: &Env) -> String {
    let name = if name.starts_with("script:") { DEFAULT_MODEL } else { name };
    client::catalog(env).resolve(name, Phase::Working)
}

fn model_choice(plan: &RunPlan, env: &Env, wanted: &Settings, id: String) -> ModelChoice {
    let catalog = client::catalog(env);
    let fallbacks = plan.fallback_models.iter().map(|name| catalog.resolve(name, Phase::Working)).collect();
    let extra_body = env.get("CLAUDE_CODE_EXTRA_BODY").and_then(|text| serde_json::from_str(text).ok());
    let max_output = env.number("CLAUDE_CODE_MAX_OUTPUT_TOKENS").filter(|tokens| *tokens > 0);
    let thinking = if env.is_on("CLAUDE_CODE_DISABLE_THINKING") {
        Some(lathe_models::Thinking::Disabled)
    } else {
        let tokens = env.number("MAX_THINKING_TOKENS");
        plan.thinking.clone().or_else(|| tokens.map(|tokens| thinking_budget(tokens as u32)))
    };
    ModelChoice {
        id,
        fallbacks,
        thinking,
        effort: plan
            .effort
            .clone()
            .or_else(|| env.get("CLAUDE_CODE_EFFORT_LEVEL").map(str::to_owned))
            .or_else(|| wanted.effort_level.clone()),
        max_output_tokens: max_output.map(|tokens| tokens.min(u64::from(u32::MAX)) as u32),
        betas: plan.betas.clone(),
        cache: cache(env),
        extra_body: extra_body.unwrap_or_default(),
        user_id: None,
    }
}

fn thinking_budget(tokens: u32) -> lathe_models::Thinking {
    if tokens == 0 { lathe_models::Thinking::Disabled } else { lathe_models::Thinking::Budget(tokens) }
}

fn cache(env: &Env) -> CacheTtl {
    if env.is_on("DISABLE_PROMPT_CACHING") {
        CacheTtl::Off
    } else if env.is_on("ENABLE_PROMPT_CACHING_1H") && !env.is_on("FORCE_PROMPT_CACHING_5M") {
        CacheTtl::OneHour
    } else {
        CacheTtl::FiveMinutes
    }
}

/// The further directories that exist; the others are passed over, as clients expect.
pub fn existing_dirs(dirs: &[PathBuf], cwd: &Path) -> Vec<PathBuf> {
    dirs.iter().filter_map(|dir| cwd.join(dir).canonicalize().ok()).filter(|dir| dir.is_dir()).collect()
}

/// The engine alone, for those who only want to know what it would say.
pub fn permission_engine(plan: &RunPlan, env: &Env) -> Result<Engine, StartError> {
    let (settings, _) = settings::load(plan, env)?;
    let cwd = env.cwd.clone().unwrap_or_else(|| "/".into());
    let mode = plan.permission_mode.or(settings.stack().default_mode()).unwrap_or_default();
    let mut dirs = plan.add_dirs.clone();
    dirs.extend(settings.stack().permission_dirs().into_iter().map(|dir| dir.path));
    permissions(plan, env, &settings, &existing_dirs(&dirs, &cwd), mode)
}

/// The rules and the mode: those of the settings files, then those of the command line.
fn permissions(
    plan: &RunPlan,
    env: &Env,
    settings: &RunSettings,
    extra_dirs: &[PathBuf],
    mode: PermissionMode,
) -> Result<Engine, StartError> {
    let stack = settings.stack();
    if let Some(warning) = mode_warning(mode) {
        eprintln!("Warning: {warning}");
    }
    let bypass = mode == PermissionMode::BypassPermissions;
    if bypass && stack.bypass_is_disabled() {
        return Err(StartError::new("Error: the settings of this machine forbid to skip permissions"));
    }
    if bypass && plan.bypass_is_refused {
        return Err(plan::root_refusal());
    }
    let mut working_dirs: Vec<PathBuf> = env.cwd.iter().cloned().collect();
    working_dirs.extend_from_slice(extra_dirs);
    let mut engine = Engine::new(EngineConfig {
        mode,
        working_dirs,
        home: env.home().map(Path::to_owned),
        config_dir: env.config_dir(),
        bypass_available: (plan.bypass_available || bypass) && !stack.bypass_is_disabled(),
        managed_allow_only: stack.managed_rules_only(),
        plan_dir: plan_dir(&stack.effective(), env),
        ..EngineConfig::default()
    });
    let mut warnings = Vec::new();
    for (behavior, source, rule) in stack.permission_rules() {
        warnings.extend(engine.add_rules(behavior, source, [rule]));
    }
    let lists = [
        (PermissionBehavior::Allow, &plan.allowed_tools),
        (PermissionBehavior::Deny, &plan.disallowed_tools),
    ];
    for (behavior, lists) in lists {
        let rules = lists.iter().flat_map(|list| parse_rule_list(list));
        warnings.extend(engine.add_rules(behavior, RuleSource::CliArg, rules));
    }
    warnings.iter().for_each(|warning| eprintln!("Warning: {warning}"));
    Ok(engine)
}

/// Where plans are written, which plan mode permits.
fn plan_dir(wanted: &Settings, env: &Env) -> Option<PathBuf> {
    match (&wanted.plans_directory, &env.cwd) {
        (Some(named), Some(cwd)) => Some(cwd.join(named)),
        (Some(_), None) | (None, _) => env.config_dir().map(|dir| dir.join("plans")),
    }
}

/// Every tool there is for such a run. Those that ask somebody need somebody to ask.
fn all_tools(plan: &RunPlan) -> Vec<Arc<dyn Tool>> {
    let mut all = builtin_tools();
    if plan.surface == PromptSurface::Host {
        all.extend(interactive_tools());
        all.sort_by(|a, b| a.name().cmp(b.name()));
    }
    all
}

/// The tools of the session: those the plan names, without those that a bare deny takes away.
fn tools(plan: &RunPlan, permissions: &Engine) -> Result<ToolSet, StartError> {
    let all = ToolSet::new(all_tools(plan));
    let chosen = match &plan.tools {
        ToolChoice::Default => all,
        ToolChoice::Only(names) => all.select(Selection::Only(names)),
    };
    let removed: Vec<String> = chosen
        .names()
        .filter(|name| permissions.removes_tool(name, None).is_some())
        .map(str::to_owned)
        .collect();
    let chosen = chosen.select(Selection::Except(&removed));
    let Some(schema) = &plan.json_schema else { return Ok(chosen) };
    let structured = StructuredOutput::new(schema.clone()).map_err(|error| {
        StartError::new(format!("Error: --json-schema is not a valid JSON Schema: {error}"))
    })?;
    Ok(chosen.with(Arc::new(structured)))
}

fn workspace(cwd: &Path, extra_dirs: &[PathBuf], session_id: &str, env: &Env, ledger: Ledger) -> Workspace {
    let mut workspace = Workspace::new(cwd.to_owned(), ledger);
    workspace.extra_dirs = extra_dirs.to_vec().into();
    workspace.output_dir = output_dir(cwd, session_id, env);
    if let Some(shell) = env.get("CLAUDE_CODE_SHELL") {
        workspace.shell = PathBuf::from(shell);
    }
    let limits = &mut workspace.limits;
    let millis = |name: &str| env.number(name).filter(|ms| *ms > 0).map(Duration::from_millis);
    limits.bash_default_timeout = millis("BASH_DEFAULT_TIMEOUT_MS").unwrap_or(limits.bash_default_timeout);
    limits.bash_max_timeout =
        millis("BASH_MAX_TIMEOUT_MS").unwrap_or(limits.bash_max_timeout).max(limits.bash_default_timeout);
    if let Some(chars) = env.number("BASH_MAX_OUTPUT_LENGTH").filter(|chars| *chars > 0) {
        limits.bash_output_chars = chars.min(150_000) as usize;
    }
    workspace
}

/// When the conversation is compacted: by the command line, the environment, then the settings.
fn compaction(plan: &RunPlan, env: &Env, wanted: &Settings) -> CompactPolicy {
    let window = env.number("CLAUDE_CODE_AUTO_COMPACT_WINDOW").or(wanted.auto_compact_window);
    let percent = env.number("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE").filter(|percent| (1..=100).contains(percent));
    let off = env.is_on("DISABLE_AUTO_COMPACT") || wanted.auto_compact_enabled == Some(false);
    CompactPolicy {
        automatic: Switch::off_if(off && plan.autocompact.is_none()),
        manual: Switch::off_if(env.is_on("DISABLE_COMPACT")),
        window: match plan.autocompact {
            Some(Autocompact::Auto) => None,
            Some(Autocompact::Window(tokens)) => Some(tokens),
            None => window,
        },
        percent: percent.map(|percent| percent as u8),
    }
}

fn turn_limits(env: &Env) -> TurnLimits {
    let mut limits = TurnLimits::default();
    if let Some(cap) = env.number("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP") {
        limits.max_stop_blocks = cap.min(10_000) as u32;
    }
    if let Some(attempts) = env.number("MAX_STRUCTURED_OUTPUT_RETRIES").filter(|attempts| *attempts > 0) {
        limits.max_structured_attempts = attempts.min(100) as u32;
    }
    limits
}

/// The hooks of the settings files, and what they need.
fn hooks_config(
    env: &Env,
    settings: &RunSettings,
    variables: Vec<(String, String)>,
    output_dir: &Path,
) -> HooksConfig {
    let stack = settings.stack();
    HooksConfig {
        registered: live::hooks_of(&stack),
        options: live::hook_options(&stack, live::session_end_budget(env)),
        env: variables,
        env_dir: Some(output_dir.with_file_name("hook-env")),
        web: client::web_client(env),
    }
}

/// Copies of the files that tools change, for hosts that asked to be able to go back.
fn checkpoints(plan: &RunPlan, env: &Env, cwd: &Path, session: &OpenSession) -> Option<CheckpointsConfig> {
    if !env.is_on("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING") {
        return None;
    }
    let goes_on = matches!(session.beginning, Beginning::Resumed(_));
    Some(CheckpointsConfig {
        dir: env.config_dir()?.join("file-history"),
        root: cwd.to_owned(),
        earlier: session.journal.path().filter(|_| goes_on).map(Path::to_owned),
        lasting: plan.persist,
    })
}

/// Where large outputs of this session go.
fn output_dir(cwd: &Path, session_id: &str, env: &Env) -> PathBuf {
    match env.config_dir() {
        Some(config) => SessionPaths::new(&config, cwd, session_id).tool_results(),
        None => std::env::temp_dir().join(format!("lathe-{session_id}")),
    }
}

fn system_prompt(
    plan: &RunPlan,
    cwd: &Path,
    extra_dirs: &[PathBuf],
    model: &str,
    host: &dyn Host,
) -> SystemPrompt {
    let date = iso_time(host.now_ms());
    let dirs: Vec<String> = extra_dirs.iter().map(|dir| dir.display().to_string()).collect();
    let environment = environment_text(&Environment {
        cwd,
        extra_dirs: &dirs,
        is_git: cwd.ancestors().any(|dir| dir.join(".git").exists()),
        platform: std::env::consts::OS,
        shell: "bash",
        date: &date[..10],
        model,
    });
    SystemPrompt { choice: plan.system_prompt.clone(), environment, style: String::new() }
}

/// Which frames the host wants, by its flags and by what it says of itself in the environment.
fn frame_options(plan: &RunPlan, env: &Env) -> FrameOptions {
    let states = if env.is_on("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS") {
        StateFrames::Public
    } else if env.is_on("CLAUDE_CODE_SDK_READS_SESSION_STATE") {
        StateFrames::SdkOnly
    } else {
        StateFrames::None
    };
    FrameOptions {
        partial_messages: plan.partial_messages,
        hook_events: plan.hook_events,
        replay_prompts: plan.replay_prompts,
        states,
        era: Era::of(&ClientFacts {
            named: env.get("LATHE_CLIENT_ERA"),
            entrypoint: env.get("CLAUDE_CODE_ENTRYPOINT"),
            sdk_version: env.get("CLAUDE_AGENT_SDK_VERSION"),
            words: &plan.words,
        }),
    }
}

fn init_facts(cwd: &Path, extra_dirs: &[PathBuf], key_source: String) -> Init {
    let mut init = Init {
        api_key_source: key_source,
        claude_code_version: Some(PROTOCOL_VERSION.to_owned()),
        output_style: "default".to_owned(),
        agents: Some(Vec::new()),
        skills: Some(Vec::new()),
        plugins: Some(Vec::new()),
        capabilities: Some(Vec::new()),
        analytics_disabled: Some(true),
        product_feedback_disabled: Some(true),
        original_cwd: Some(cwd.display().to_string()),
        additional_directories: Some(extra_dirs.iter().map(|dir| dir.display().to_string()).collect()),
        fast_mode_state: Some("off".to_owned()),
        fast_mode_disabled_reason: Some("sdk_opt_in_required".to_owned()),
        terminal_slash_commands: Some(Vec::new()),
        view_mode: Some("default".to_owned()),
        ..Init::default()
    };
    init.extra.insert("lathe_version".to_owned(), LATHE_VERSION.into());
    init
}
