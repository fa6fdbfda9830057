//! Which tools a session has, and where the task list is that some of them keep: by the options, the model, the
//! generation of the client and the environment.

use std::path::Path;
use std::sync::Arc;

use lathe_agent::{PromptSurface, TaskListConfig, TaskListName};
use lathe_permissions::{PermissionEngine, parse_rule_list};
use lathe_protocol::ClientGeneration;
use lathe_tools::{
    ClockTurns, Selection, SessionKind, StructuredOutput, ToolChoice, ToolDeferral, ToolSet, WorkList,
    builtin_tools,
};

use crate::env::LaunchEnvironment;
use crate::error::LaunchError;
use crate::options::SessionOptions;
use crate::start::client_generation;

/// Returns the tools of the session: those that the options select and that suit the client, without those that a deny
/// rule for the whole tool removes. The tool for structured output is added last, whatever the selection is; an invalid
/// `--json-schema` is an error.
pub fn tools(
    options: &SessionOptions,
    kind: &SessionKind,
    permissions: &PermissionEngine,
) -> Result<ToolSet, LaunchError> {
    let chosen = selected(options, kind, permissions);
    // Added after the selection: without this tool the session could not return the result that the caller requires.
    let Some(schema) = &options.json_schema else { return Ok(chosen) };
    Ok(chosen.with(Arc::new(StructuredOutput::new(schema.clone())?)))
}

/// Returns the built-in tools that the options select and that suit a session of this kind, without those that a deny
/// rule removes. By default, tools that an allow rule of the options names are added.
fn selected(options: &SessionOptions, kind: &SessionKind, permissions: &PermissionEngine) -> ToolSet {
    let is_removed = |name: &str| permissions.removes_tool(name, None).is_some();
    let choice = match &options.tools {
        ToolChoice::Default => ToolChoice::DefaultAnd(allowed_names(options)),
        choice => choice.clone(),
    };
    kind.tools(builtin_tools(), &choice, is_removed)
}

/// Returns the tools that the session has only while its model needs a list of its work. Empty where the client or
/// `CLAUDE_CODE_ENABLE_TODO_TOOLS` wants the list with every model, because they are then ordinary tools.
pub fn list_tools(
    options: &SessionOptions,
    env: &LaunchEnvironment,
    kind: &SessionKind,
    permissions: &PermissionEngine,
) -> ToolSet {
    if kind.generation != ClientGeneration::Current || env.is_on("CLAUDE_CODE_ENABLE_TODO_TOOLS") {
        return ToolSet::default();
    }
    let (kept, by_name) = match kind.work_list {
        WorkList::Tasks | WorkList::TasksByName => (WorkList::Tasks, WorkList::TasksByName),
        WorkList::Todos | WorkList::TodosByName => (WorkList::Todos, WorkList::TodosByName),
    };
    let of = |work_list| selected(options, &SessionKind { work_list, ..*kind }, permissions);
    let others: Vec<String> = of(by_name).names().map(str::to_owned).collect();
    of(kept).select(Selection::Except(&others))
}

/// Returns the names of the tools in the allow rules of the options, without what a rule says in parentheses.
fn allowed_names(options: &SessionOptions) -> Vec<String> {
    let rules = options.allowed_tools.iter().flat_map(|list| parse_rule_list(list));
    rules.map(|rule| rule.split('(').next().unwrap_or_default().trim().to_owned()).collect()
}

/// Returns what the tools of the session depend on besides the options and the rules. Current clients keep a list of
/// tasks with older models only, which need one; `CLAUDE_CODE_ENABLE_TODO_TOOLS` gives it to all.
/// `CLAUDE_CODE_ENABLE_TASKS` chooses the kind of list, to-dos by default for clients that know no other.
pub fn session_kind(
    options: &SessionOptions,
    env: &LaunchEnvironment,
    model: &str,
    deferral: ToolDeferral,
) -> SessionKind {
    let generation = client_generation(options, env);
    let is_current = generation == ClientGeneration::Current;
    let keeps_list = !is_current
        || lathe_models::catalog::needs_work_list(model)
        || env.is_on("CLAUDE_CODE_ENABLE_TODO_TOOLS");
    let are_tasks = match env.get("CLAUDE_CODE_ENABLE_TASKS") {
        Some(_) => env.is_on("CLAUDE_CODE_ENABLE_TASKS"),
        None => is_current,
    };
    SessionKind {
        generation,
        has_host: options.surface == PromptSurface::Host,
        clock: if env.is_on("CLAUDE_CODE_DISABLE_CRON") { ClockTurns::Off } else { ClockTurns::On },
        work_list: match (keeps_list, are_tasks) {
            (false, true) => WorkList::TasksByName,
            (false, false) => WorkList::TodosByName,
            (true, true) => WorkList::Tasks,
            (true, false) => WorkList::Todos,
        },
        deferral,
    }
}

/// Returns where the task list is: among those of the user, by the name in `CLAUDE_CODE_TASK_LIST_ID`, which agents and
/// sessions share, or else by the session's id. The own list of a session that is not saved goes with the session, and
/// so does every list where no config folder is known.
pub fn task_lists(options: &SessionOptions, env: &LaunchEnvironment, own_dir: &Path) -> TaskListConfig {
    let name = match env.get("CLAUDE_CODE_TASK_LIST_ID") {
        Some(name) => TaskListName::Shared(name.to_owned()),
        None => TaskListName::OfSession,
    };
    let is_kept = options.persist || name != TaskListName::OfSession;
    let base = env.config_dir().filter(|_| is_kept).unwrap_or_else(|| own_dir.to_owned());
    TaskListConfig { folder: base.join("tasks"), name }
}
