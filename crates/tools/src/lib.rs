//! The [`Tool`] trait and the built-in tools, one file each.
//!
//! A tool does its work and describes the outcome; whether it may is decided elsewhere (`permissions`),
//! and nothing here is ever called but by the agent's `toolrun.rs`. Tools read no environment: the
//! [`Workspace`] carries directories, limits and the variables that children get.

// The tests of single tools use the same support as those in `tests/`, which knows the crate by its name.
#[cfg(test)]
extern crate self as lathe_tools;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;

pub mod background;
mod child_env;
mod file_tools;
mod files;
mod host_tools;
mod list_tools;
mod offered;
pub mod persisted;
mod remark;
mod schedule;
mod schedule_tools;
mod schema;
mod search_tools;
mod session;
mod shape;
mod shell_tools;
mod stoppable;
mod tool;
mod toolset;
mod web_tools;
mod work_list;
mod workspace;
pub mod worktree_tools;

use std::sync::Arc;

pub use background::{
    BackgroundPolicy, CommandTask, NotStopped, TASK_FILE_BYTES, TaskActions, TaskGround, TaskKind, TaskPlace,
    TaskReport, TaskStatus, exit_code, exit_line,
};
pub use child_env::{ChildEnvironment, ChildVariables, CommandEnvironment};
pub use file_tools::edit::Edit;
use file_tools::multi_edit::MultiEdit;
pub use file_tools::notebook_edit::NotebookEdit;
pub use file_tools::read::Read;
pub use file_tools::write::Write;
pub use files::keep;
pub use files::open::open_file;
pub use files::seen::{Excerpt, FilesRead, Shown, current_text};
pub use host_tools::structured::{BadSchema, CALL_STRUCTURED_OUTPUT, STRUCTURED_OUTPUT, StructuredOutput};
pub use host_tools::{ask_user, plan};
use host_tools::{plan_in_call, report_findings};
pub use list_tools::store::TaskListStore;
use list_tools::{task_create, task_get, task_list, task_update, todo_write};
pub use offered::{
    ClockTurns, Loading, Offered, SessionKind, ToolChoice, ToolDeclaration, ToolDeferral, WorkList,
};
pub use remark::SessionRemarks;
pub use schedule::{
    CronJob, CronRecurrence, CronStanding, CronStorage, NewCronJob, ScheduleActions, ScheduleFailure,
    ScheduledWakeUp, WakeUpRequest,
};
pub use schedule_tools::cron::{CronCreate, CronDelete, CronList};
pub use schedule_tools::expression::{CronExpression, InvalidCron};
pub use schedule_tools::wakeup::ScheduleWakeup;
pub use schema::{InvalidInput, validate};
pub use search_tools::glob::Glob;
pub use search_tools::grep::Grep;
pub use search_tools::tool_search::ToolSearch;
pub use session::{AgentEnd, AgentReport, AgentRequest, DetachedSession, SessionActions};
pub use shape::{content_of_result, telling_text};
pub use shell_tools::bash::Bash;
pub use shell_tools::monitor::Monitor;
pub use shell_tools::startup::{ShellStartup, try_env_files};
pub use shell_tools::task_output::{BashOutput, TaskOutput};
pub use shell_tools::task_stop::{KillShell, TaskStop};
pub use tool::{
    CallEffects, ChangedLines, Content, ResultLimits, TextLimit, Tool, ToolContext, ToolFailure, ToolOutput,
};
pub use toolset::{Selection, ToolDescriptions, ToolListing, ToolLoading, ToolSet};
pub use web_tools::actions::{SideAnswer, SideFailure, SideModel, SideQuestion, WebActions};
pub use web_tools::fetch::WebFetch;
pub use web_tools::search::WebSearch;
pub use web_tools::state::{HostResolver, WebLimits, WebState};
pub use work_list::{AfterCall, TaskFacts, TaskStep, TaskVerdict, TodoItem, WorkListActions};
pub use workspace::{
    AgentPlace, GlobScope, Limits, PathFilter, PlaceHolder, ReadBeforeEdit, ShellFolder, Workspace,
};

/// Returns every built-in tool, in the order in which clients of the generation `Sdk02` get them.
pub fn builtin_tools() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(TaskOutput),
        Arc::new(BashOutput),
        Arc::new(Bash),
        Arc::new(Glob),
        Arc::new(Grep),
        Arc::new(plan::ExitPlanMode),
        Arc::new(plan_in_call::ExitWithPlan),
        Arc::new(Read),
        Arc::new(Edit),
        Arc::new(MultiEdit),
        Arc::new(Write),
        Arc::new(NotebookEdit),
        Arc::new(WebFetch),
        Arc::new(todo_write::TodoWrite),
        Arc::new(WebSearch),
        Arc::new(TaskStop),
        Arc::new(KillShell),
        Arc::new(ask_user::AskUserQuestion),
        Arc::new(plan::EnterPlanMode),
        Arc::new(worktree_tools::enter::EnterWorktree),
        Arc::new(worktree_tools::exit::ExitWorktree),
        Arc::new(task_create::TaskCreate),
        Arc::new(task_get::TaskGet),
        Arc::new(task_update::TaskUpdate),
        Arc::new(task_list::TaskList),
        Arc::new(report_findings::ReportFindings),
        Arc::new(Monitor),
        Arc::new(CronCreate),
        Arc::new(CronDelete),
        Arc::new(CronList),
        Arc::new(ScheduleWakeup),
        Arc::new(ToolSearch),
    ]
}
