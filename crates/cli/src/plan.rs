//! From words to a plan: what the flags mean together, with every complaint a start can have. The only
//! place that knows flag quirks; no code after it looks at a flag.

use std::path::PathBuf;

use lathe_agent::PromptChoice;
use lathe_agent::{PromptSurface, SetupTrigger};
use lathe_launch::options::{AutocompactOption, BackgroundEnd, ResumeOption, SessionOptions};
use lathe_launch::{LaunchEnvironment, LaunchError};
use lathe_models::Thinking;
use lathe_protocol::PermissionMode;
use lathe_settings::TrustChoice;
use lathe_tools::ToolChoice;
use lathe_tools::worktree_tools::actions::WorktreeTarget;
use lathe_tools::worktree_tools::name::WorktreeName;
use lathe_transcript::is_session_id;
use serde_json::Value;

use crate::args::{Args, FLAGS, Flag, State, invalid};
use crate::refusal::StartError;

/// How frames leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    Text,
    /// The result alone.
    Json,
    /// All frames in one list (`json --verbose`).
    JsonList,
    StreamJson,
}

/// How prompts come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputFormat {
    Text,
    StreamJson,
}

/// Everything a run was asked to be.
#[derive(Debug, Clone)]
pub struct RunPlan {
    pub output: OutputFormat,
    pub input: InputFormat,
    /// Whether the first line of input must be the host's introduction.
    pub await_initialize: bool,
    /// The prompt on the command line.
    pub prompt: Option<String>,
    /// What the session itself is asked to be.
    pub session: SessionOptions,
    /// Things worth saying on stderr before the run.
    pub warnings: Vec<String>,
}

/// Turns the flags into a plan. All checks between flags are made here, before anything is started; the order of the
/// checks decides which of several mistakes is reported. Unknown values of `--permission-prompts` and
/// `--permission-prompt-tool` are not refused but count as not given. Only files of system prompts are read.
pub fn make(args: &Args, env: &LaunchEnvironment) -> Result<RunPlan, StartError> {
    refuse_unready(args)?;
    let (output, input) = formats(args)?;
    let (permission_mode, bypass_available) = permission_mode(args, env)?;
    let mut warnings = Vec::new();
    let effort = effort(args, &mut warnings);
    let session_id = session_id(args)?;
    let session = SessionOptions {
        cwd: None,
        words: args.words.clone(),
        partial_messages: args.has("include-partial-messages"),
        replay_prompts: args.has("replay-user-messages"),
        hook_events: args.has("include-hook-events"),
        surface: match (args.value("permission-prompts"), args.value("permission-prompt-tool")) {
            (Some("none"), _) => PromptSurface::Closed,
            (_, Some("stdio")) => PromptSurface::Host,
            (_, _) => PromptSurface::None,
        },
        model: args.value("model").map(str::to_owned),
        fallback_models: list(args.value("fallback-model")),
        thinking: thinking(args)?,
        effort,
        betas: args.values("betas").into_iter().flat_map(|value| list(Some(value))).collect(),
        max_turns: max_turns(args)?,
        max_budget_usd: budget(args)?,
        json_schema: json_schema(args)?,
        system_prompt: system_prompt(args)?,
        tools: tools(args),
        allowed_tools: strings(args.values("allowedTools")),
        disallowed_tools: strings(args.values("disallowedTools")),
        permission_mode,
        bypass_available,
        add_dirs: args.values("add-dir").into_iter().map(PathBuf::from).collect(),
        tool_env: tool_env(args)?,
        settings: args.value("settings").map(str::to_owned),
        managed_settings: args.value("managed-settings").map(str::to_owned),
        setting_sources: setting_sources(args)?,
        trust: if args.has("trust-workspace") { TrustChoice::Given } else { TrustChoice::LookUp },
        session_id,
        resume: resume(args)?,
        fork: args.has("fork-session"),
        persist: !args.has("no-session-persistence"),
        mirror: args.has("session-mirror"),
        name: args.value("name").map(str::to_owned),
        background: background(args)?,
        worktree: worktree(args)?,
        task_budget: task_budget(args)?,
        project_config_root: args.value("project-config-root").map(PathBuf::from),
        setup: setup(args),
        slash_commands: !args.has("disable-slash-commands"),
        autocompact: autocompact(args)?,
    };
    Ok(RunPlan {
        output,
        input,
        await_initialize: args.has("await-initialize"),
        prompt: args.positional.first().cloned(),
        session,
        warnings,
    })
}

/// Returns the names in `--tool-env`. A `NAME=value` is refused, because every user of the machine can read a
/// command line.
fn tool_env(args: &Args) -> Result<Vec<String>, StartError> {
    let names = args.values("tool-env");
    if let Some(wrong) = names.iter().find(|name| name.is_empty() || name.contains('=')) {
        let why =
            "It takes the name of a variable, whose value is the one that lathe finds in its environment.";
        return Err(invalid("tool-env", wrong, why).into());
    }
    Ok(strings(names))
}

/// Refuses flags that Lathe knows but does not implement, because ignoring them would change the meaning of the
/// run.
fn refuse_unready(args: &Args) -> Result<(), StartError> {
    for name in args.names() {
        let flag = FLAGS.iter().find(|flag| flag.name == name);
        if let Some(flag) = flag.filter(|flag| flag.state == State::NotYet) {
            return Err(StartError::new(refusal_of(flag)));
        }
    }
    Ok(())
}

/// Why flags are refused that lathe could have and does not.
const REFUSED: [(&str, &str); 3] = [
    (
        "safe-mode",
        "what it leaves out is not published, and a mode that others rely on to leave things out must not guess. \
         --setting-sources \"\" reads no settings of user and project, --bare gives as few tools as there are",
    ),
    (
        "restricted",
        "what it forbids is not published, and a mode that others rely on to forbid things must not guess. \
         --permission-mode dontAsk, --disallowedTools and --tools forbid what they name",
    ),
    (
        "file",
        "it fetches files from a service of the model's vendor before the session begins, and lathe speaks to nobody \
         but the model. Put the file into the folder, or name it in the prompt",
    ),
];

/// Returns the text that refuses a flag which is not there yet, with the reason from [`REFUSED`] if it has one.
fn refusal_of(flag: &Flag) -> String {
    match REFUSED.iter().find(|(name, _)| *name == flag.name) {
        Some((_, why)) => {
            format!("error: option '{}' is known but not supported by lathe: {why}", flag.usage)
        }
        None => format!("error: option '{}' is known but not supported by lathe yet", flag.usage),
    }
}

/// Reads the two formats (text if none is given) and refuses combinations that do not fit. If several are wrong, the
/// order of the checks decides which complaint a host sees.
fn formats(args: &Args) -> Result<(OutputFormat, InputFormat), StartError> {
    let output = args.choice("output-format", &["text", "json", "stream-json"])?.unwrap_or("text");
    let input = args.choice("input-format", &["text", "stream-json"])?.unwrap_or("text");
    let verbose = args.has("verbose");
    if input == "stream-json" && output != "stream-json" {
        return Err(StartError::new("Error: --input-format=stream-json requires output-format=stream-json."));
    }
    if args.has("replay-user-messages") && !(input == "stream-json" && output == "stream-json") {
        return Err(StartError::new(
            "Error: --replay-user-messages requires both --input-format=stream-json and --output-format=stream-json.",
        ));
    }
    if args.has("include-partial-messages") && output != "stream-json" {
        return Err(StartError::new(
            "Error: --include-partial-messages requires --print and --output-format=stream-json.",
        ));
    }
    if output == "stream-json" && !verbose {
        return Err(StartError::new(
            "Error: When using --print, --output-format=stream-json requires --verbose",
        ));
    }
    let output = match (output, verbose) {
        ("stream-json", _) => OutputFormat::StreamJson,
        ("json", true) => OutputFormat::JsonList,
        ("json", false) => OutputFormat::Json,
        _ => OutputFormat::Text,
    };
    let input = if input == "stream-json" { InputFormat::StreamJson } else { InputFormat::Text };
    Ok((output, input))
}

/// Returns the mode (`None` leaves it to settings), and whether the session may switch to bypassing permissions later.
/// Either form of bypassing is refused for root outside a sandbox; `--dangerously-skip-permissions` wins over
/// `--permission-mode`.
fn permission_mode(
    args: &Args,
    env: &LaunchEnvironment,
) -> Result<(Option<PermissionMode>, bool), StartError> {
    const MODES: [&str; 7] =
        ["acceptEdits", "auto", "bypassPermissions", "manual", "dontAsk", "plan", "default"];
    let named = args.choice("permission-mode", &MODES)?;
    let mut mode = named.and_then(|name| PermissionMode::parse(name).ok());
    if args.has("dangerously-skip-permissions") {
        mode = Some(PermissionMode::BypassPermissions);
    }
    let bypass = mode == Some(PermissionMode::BypassPermissions);
    let available = bypass || args.has("allow-dangerously-skip-permissions");
    if available && env.refuses_bypass() {
        return Err(LaunchError::BypassAsRoot.into());
    }
    Ok((mode, available))
}

/// Combines `--thinking` with `--max-thinking-tokens`: `disabled` wins, then a budget, and a budget of zero or less
/// disables thinking. `None`, without either flag, leaves the choice to settings and model; an unknown mode or number
/// is an error.
fn thinking(args: &Args) -> Result<Option<Thinking>, StartError> {
    let mode = args.choice("thinking", &["enabled", "adaptive", "disabled"])?;
    let tokens = args.number("max-thinking-tokens")?;
    Ok(match (mode, tokens) {
        (Some("disabled"), _) => Some(Thinking::Disabled),
        (_, Some(tokens)) if tokens <= 0.0 => Some(Thinking::Disabled),
        (_, Some(tokens)) => Some(Thinking::Budget(tokens as u32)),
        (Some(_), None) => Some(Thinking::Adaptive),
        (None, None) => None,
    })
}

/// Returns the level of `--effort`, or `None` without the flag. An unknown level is added to `warnings` and is not an
/// error: the run starts as if the flag were absent.
fn effort(args: &Args, warnings: &mut Vec<String>) -> Option<String> {
    const LEVELS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];
    let level = args.value("effort")?;
    if LEVELS.contains(&level) {
        return Some(level.to_owned());
    }
    warnings.push(format!(
        "Warning: unknown effort level '{level}' is ignored; the levels are {}.",
        LEVELS.join(", ")
    ));
    None
}

/// Returns the limit of rounds; `None` without the flag and for numbers below 1, which mean no limit. Fractions are cut
/// off.
fn max_turns(args: &Args) -> Result<Option<u32>, StartError> {
    let turns = args.number("max-turns")?;
    // Zero means no limit.
    Ok(turns.filter(|turns| *turns >= 1.0).map(|turns| turns as u32))
}

/// Returns the limit of cost in US dollars; `None`, without the flag, means no limit. Unlike with `--max-turns`, zero
/// is an error: it does not mean "no limit".
fn budget(args: &Args) -> Result<Option<f64>, StartError> {
    let Some(text) = args.value("max-budget-usd") else { return Ok(None) };
    match text.trim().parse::<f64>() {
        Ok(amount) if amount > 0.0 && amount.is_finite() => Ok(Some(amount)),
        _ => {
            Err(invalid("max-budget-usd", text, "--max-budget-usd must be a positive number greater than 0")
                .into())
        }
    }
}

/// Returns the schema as JSON, or `None` without the flag; a text that is not JSON is an error. Whether it is a valid
/// schema is checked where it is used.
fn json_schema(args: &Args) -> Result<Option<Value>, StartError> {
    let Some(text) = args.value("json-schema") else { return Ok(None) };
    serde_json::from_str(text)
        .map(Some)
        .map_err(|error| StartError::new(format!("Error: --json-schema is not valid JSON: {error}")))
}

/// Collects the flags about the system prompt. Files are read here, at the start, and not again; one that cannot be
/// read is an error.
fn system_prompt(args: &Args) -> Result<PromptChoice, StartError> {
    let replace = text_or_file(args, "system-prompt", "System prompt")?;
    let append = text_or_file(args, "append-system-prompt", "Append system prompt")?;
    Ok(PromptChoice {
        replace,
        append,
        without_environment: args.has("exclude-dynamic-system-prompt-sections"),
    })
}

/// Returns the text of `--NAME TEXT`, or that of the file in `--NAME-file PATH`; `None` if neither is given. The text
/// wins if both are. `what` names the file in errors.
fn text_or_file(args: &Args, name: &str, what: &str) -> Result<Option<String>, StartError> {
    if let Some(text) = args.value(name) {
        return Ok(Some(text.to_owned()));
    }
    let Some(path) = args.value(&format!("{name}-file")) else { return Ok(None) };
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(StartError::new(format!("Error: {what} file not found: {path}")))
        }
        Err(error) => Err(StartError::new(format!("Error: {what} file {path} cannot be read: {error}"))),
    }
}

/// Returns the choice of tools. `--tools` wins over `--bare`; `--tools ""` means no tool at all, and the single word
/// `default` means the default set.
fn tools(args: &Args) -> ToolChoice {
    if !args.has("tools") {
        return if args.has("bare") { ToolChoice::Bare } else { ToolChoice::Default };
    }
    let names: Vec<String> = args.values("tools").into_iter().flat_map(|value| list(Some(value))).collect();
    if names == ["default"] { ToolChoice::Default } else { ToolChoice::Only(names) }
}

/// Returns the settings sources to read. `None`, without the flag, means all of them, an empty list means none; an
/// unknown source is an error.
fn setting_sources(args: &Args) -> Result<Option<Vec<String>>, StartError> {
    let Some(value) = args.value("setting-sources") else { return Ok(None) };
    let sources = list(Some(value));
    match sources.iter().find(|source| !["user", "project", "local"].contains(&source.as_str())) {
        Some(unknown) => Err(StartError::new(format!(
            "Error processing --setting-sources: Invalid setting source: {unknown}. Valid options are: user, project, local"
        ))),
        None => Ok(Some(sources)),
    }
}

/// Returns when to compact; `None`, without the flag, leaves it to settings. Anything but `auto` or a number of tokens
/// above zero is an error.
fn autocompact(args: &Args) -> Result<Option<AutocompactOption>, StartError> {
    match args.value("autocompact") {
        None => Ok(None),
        Some("auto") => Ok(Some(AutocompactOption::Auto)),
        Some(text) => match text.parse() {
            Ok(tokens) if tokens > 0 => Ok(Some(AutocompactOption::Window(tokens))),
            Ok(_) | Err(_) => {
                Err(invalid("autocompact", text, "It must be auto or a number of tokens.").into())
            }
        },
    }
}

/// Returns which session to resume, and refuses flags that need each other. `--resume` without a value becomes an empty
/// name, which the launch rejects with its own text.
fn resume(args: &Args) -> Result<ResumeOption, StartError> {
    let at = args.value("resume-session-at").map(str::to_owned);
    let drops_turn = args.value("resume-drops-turn").map(str::to_owned);
    if drops_turn.is_some() && at.is_none() {
        return Err(StartError::new("Error: --resume-drops-turn requires --resume-session-at"));
    }
    if at.is_some() && !args.has("resume") {
        return Err(StartError::new("Error: --resume-session-at requires --resume"));
    }
    let goes_on = args.has("resume") || args.has("continue");
    if goes_on && args.has("session-id") && !args.has("fork-session") {
        return Err(StartError::new(
            "Error: --session-id can only be used with --continue or --resume if --fork-session is also specified.",
        ));
    }
    Ok(match args.value("resume") {
        Some(name) => ResumeOption::Named { name: name.to_owned(), at, drops_turn },
        None if args.has("resume") => ResumeOption::Named { name: String::new(), at, drops_turn },
        None if args.has("continue") => ResumeOption::Newest,
        None => ResumeOption::No,
    })
}

/// Returns whether the run waits for tasks in the background after its last turn, which is the default, or stops them.
/// Any other word than `wait` and `stop` is an error.
fn background(args: &Args) -> Result<BackgroundEnd, StartError> {
    match args.value("background") {
        None | Some("wait") => Ok(BackgroundEnd::Wait),
        Some("stop") => Ok(BackgroundEnd::Stop),
        Some(other) => Err(StartError::new(format!("Error: --background is wait or stop, not {other}"))),
    }
}

/// Returns the worktree to begin in, or `None` without the flag. Without a name in the flag the worktree gets one
/// later; a name that cannot be one is an error.
fn worktree(args: &Args) -> Result<Option<WorktreeTarget>, StartError> {
    if !args.has("worktree") {
        return Ok(None);
    }
    let Some(name) = args.value("worktree") else { return Ok(Some(WorktreeTarget::Unnamed)) };
    match WorktreeName::parse(name) {
        Ok(name) => Ok(Some(WorktreeTarget::Named(name))),
        Err(refusal) => Err(invalid("worktree", name, &format!("{refusal}.")).into()),
    }
}

/// Returns how many tokens the model is told it may use, or `None` without the flag. Zero is an error.
fn task_budget(args: &Args) -> Result<Option<u64>, StartError> {
    let Some(text) = args.value("task-budget") else { return Ok(None) };
    match text.trim().parse::<u64>() {
        Ok(tokens) if tokens > 0 => Ok(Some(tokens)),
        Ok(_) | Err(_) => {
            Err(invalid("task-budget", text, "--task-budget must be a positive integer").into())
        }
    }
}

/// Returns what Setup hooks are told to do; `None` without such a flag. Of several, `--init-only` wins, which ends the
/// run after them, then `--init`.
fn setup(args: &Args) -> Option<SetupTrigger> {
    let flags = [
        ("init-only", SetupTrigger::InitOnly),
        ("init", SetupTrigger::Init),
        ("maintenance", SetupTrigger::Maintenance),
    ];
    flags.into_iter().find(|(name, _)| args.has(name)).map(|(_, setup)| setup)
}

/// Returns the id that the host chose, or `None` if it chose none. It becomes part of a path, so anything but a UUID is
/// an error.
fn session_id(args: &Args) -> Result<Option<String>, StartError> {
    let Some(id) = args.value("session-id") else { return Ok(None) };
    if is_session_id(id) {
        Ok(Some(id.to_owned()))
    } else {
        Err(StartError::new("Error: Invalid session ID. Must be a valid UUID."))
    }
}

/// Splits a comma-separated list; empty parts are dropped, and `None` is an empty list.
fn list(value: Option<&str>) -> Vec<String> {
    let parts = value.unwrap_or("").split(',').map(str::trim);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Copies words into owned strings.
fn strings(values: Vec<&str>) -> Vec<String> {
    values.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
