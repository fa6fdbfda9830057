//! The tool sets, as lists of the reference in which only the names of [`ELSEWHERE`] are missing. A tool that is added
//! takes its name out of that table, and nothing else here changes.

use super::*;
use crate::builtin_tools;

/// Names of the lists below that are not among the tools, each with the reason. One that is there fails the tests.
const ELSEWHERE: &[(&str, &str)] = &[
    ("Agent", "subagents are not there yet"),
    ("Task", "subagents are not there yet"),
    ("SendMessage", "subagents are not there yet"),
    ("Skill", "skills are not there yet"),
    ("ListAgents", "not offered: no messaging between sessions"),
    ("Workflow", "not offered: needs a JavaScript engine"),
];

/// Today's tools with Bash and without a host.
const TODAY: &[&str] = &[
    "Agent",
    "Bash",
    "CronCreate",
    "CronDelete",
    "CronList",
    "Edit",
    "EnterWorktree",
    "ExitWorktree",
    "ListAgents",
    "Monitor",
    "NotebookEdit",
    "Read",
    "ReportFindings",
    "ScheduleWakeup",
    "SendMessage",
    "Skill",
    "TaskStop",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
    "Workflow",
    "Write",
];

const TASK_TOOLS: [&str; 4] = ["TaskCreate", "TaskGet", "TaskList", "TaskUpdate"];

/// The tools of the generation 0.2.x, in their order.
const SDK_0_2: [&str; 18] = [
    "Task",
    "TaskOutput",
    "Bash",
    "Glob",
    "Grep",
    "ExitPlanMode",
    "Read",
    "Edit",
    "Write",
    "NotebookEdit",
    "WebFetch",
    "TodoWrite",
    "WebSearch",
    "TaskStop",
    "AskUserQuestion",
    "Skill",
    "EnterPlanMode",
    "ToolSearch",
];

/// Those of 1.0.x, of which only the names are known; the order is that of 0.2.x.
const CLI_1_0: [&str; 19] = [
    "Task",
    "BashOutput",
    "Bash",
    "Glob",
    "Grep",
    "ExitPlanMode",
    "Read",
    "Edit",
    "MultiEdit",
    "Write",
    "NotebookEdit",
    "WebFetch",
    "TodoWrite",
    "WebSearch",
    "KillShell",
    "AskUserQuestion",
    "Skill",
    "EnterPlanMode",
    "ToolSearch",
];

const CURRENT: SessionKind = SessionKind {
    generation: ClientGeneration::Current,
    has_host: false,
    clock: ClockTurns::On,
    work_list: WorkList::TasksByName,
    deferral: ToolDeferral::On,
};

const OLD: SessionKind = SessionKind {
    generation: ClientGeneration::Sdk02,
    has_host: false,
    clock: ClockTurns::On,
    work_list: WorkList::Todos,
    deferral: ToolDeferral::On,
};

fn tools(kind: SessionKind, choice: &ToolChoice, removed: &[&str]) -> ToolSet {
    kind.tools(builtin_tools(), choice, |name| removed.contains(&name))
}

fn names(kind: SessionKind, choice: &ToolChoice, removed: &[&str]) -> Vec<String> {
    tools(kind, choice, removed).names().map(str::to_owned).collect()
}

fn all(kind: SessionKind) -> Vec<String> {
    names(kind, &ToolChoice::Default, &[])
}

fn only(names: &[&str]) -> ToolChoice {
    ToolChoice::Only(names.iter().map(|name| (*name).to_owned()).collect())
}

/// A list without the names that are elsewhere.
fn here<'a>(list: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    list.into_iter().filter(|name| ELSEWHERE.iter().all(|(elsewhere, _)| elsewhere != name)).collect()
}

/// Today's list with more names, sorted.
fn today_and(more: &[&'static str]) -> Vec<&'static str> {
    let mut list = here(TODAY.iter().chain(more).copied());
    list.sort_unstable();
    list
}

#[test]
fn what_is_elsewhere_is_not_here() {
    let built = builtin_tools();
    for (name, why) in ELSEWHERE {
        assert!(built.iter().all(|tool| tool.name() != *name), "{name} is there now, not: {why}");
    }
}

#[test]
fn today() {
    assert_eq!(all(CURRENT), today_and(&[]));
    let hosted = SessionKind { has_host: true, ..CURRENT };
    assert_eq!(all(hosted), today_and(&["AskUserQuestion", "EnterPlanMode", "ExitPlanMode"]));
    let mut without_bash = today_and(&["Glob", "Grep"]);
    without_bash.retain(|name| *name != "Bash" && *name != "Monitor");
    assert_eq!(names(CURRENT, &ToolChoice::Default, &["Bash"]), without_bash);
}

#[test]
fn today_with_search_tools_that_are_allowed() {
    let allowed =
        |names: &[&str]| ToolChoice::DefaultAnd(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(names(CURRENT, &allowed(&["Glob"]), &[]), today_and(&["Glob"]));
    assert_eq!(
        names(CURRENT, &allowed(&["Bash", "TaskCreate", "AskUserQuestion", "MultiEdit"]), &[]),
        today_and(&[])
    );
}

#[test]
fn today_with_a_list_of_work() {
    assert_eq!(all(SessionKind { work_list: WorkList::Tasks, ..CURRENT }), today_and(&TASK_TOOLS));
    assert_eq!(all(SessionKind { work_list: WorkList::Todos, ..CURRENT }), today_and(&["TodoWrite"]));
    assert_eq!(all(SessionKind { work_list: WorkList::TodosByName, ..CURRENT }), today_and(&[]));
}

#[test]
fn sdk_0_2_x() {
    assert_eq!(all(OLD), here(SDK_0_2));
    assert_eq!(
        all(SessionKind { has_host: true, ..OLD }),
        here(SDK_0_2),
        "questions need no host to be offered"
    );
}

#[test]
fn sdk_0_2_x_with_tasks() {
    let with_tasks = SessionKind { work_list: WorkList::Tasks, ..OLD };
    let mut recorded: Vec<&str> = SDK_0_2.into_iter().filter(|name| *name != "TodoWrite").collect();
    let search = recorded.pop();
    recorded.extend(["TaskCreate", "TaskGet", "TaskUpdate", "TaskList"].into_iter().chain(search));
    assert_eq!(all(with_tasks), here(recorded));
}

#[test]
fn cli_1_0_x() {
    let kind = SessionKind { generation: ClientGeneration::Cli10, ..OLD };
    assert_eq!(all(kind), here(CLI_1_0));
    let set = tools(kind, &ToolChoice::Default, &[]);
    let required = |tool: &str| set.get(tool).unwrap().input_schema()["required"].clone();
    for (tool, fields) in [
        ("BashOutput", &["bash_id"][..]),
        ("KillShell", &["shell_id"]),
        ("MultiEdit", &["file_path", "edits"]),
        ("ExitPlanMode", &["plan"]),
        ("TodoWrite", &["todos"]),
    ] {
        assert_eq!(required(tool), serde_json::json!(fields), "{tool}");
    }
}

#[test]
fn tools_are_chosen_by_name() {
    assert_eq!(names(CURRENT, &ToolChoice::Bare, &[]), ["Bash", "Edit", "Read"]);
    assert_eq!(names(CURRENT, &only(&["Grep", "Read", "Nothing"]), &[]), ["Grep", "Read"]);
    assert!(names(CURRENT, &only(&[]), &[]).is_empty());
    assert!(names(CURRENT, &only(&["AskUserQuestion"]), &[]).is_empty(), "no one can be asked");
    assert!(names(CURRENT, &only(&["Read"]), &["Read"]).is_empty());
    // Of the two kinds of lists of work, a session has only one, also by name.
    let lists = only(&["TodoWrite", "TaskCreate"]);
    assert_eq!(names(CURRENT, &lists, &[]), ["TaskCreate"]);
    assert_eq!(
        names(SessionKind { work_list: WorkList::TodosByName, ..CURRENT }, &lists, &[]),
        ["TodoWrite"]
    );
    let gone = only(&["TaskOutput", "BashOutput", "MultiEdit", "LS", "SlashCommand", "TeamCreate"]);
    assert!(names(CURRENT, &gone, &[]).is_empty(), "of earlier generations");
}

#[test]
fn a_former_name_chooses_finds_and_removes_its_tool_in_every_set() {
    for (former, own, kind) in [
        ("KillShell", "TaskStop", CURRENT),
        ("KillBash", "TaskStop", CURRENT),
        ("KillShell", "TaskStop", OLD),
        ("TaskStop", "KillShell", SessionKind { generation: ClientGeneration::Cli10, ..OLD }),
        ("KillBash", "KillShell", SessionKind { generation: ClientGeneration::Cli10, ..OLD }),
    ] {
        assert_eq!(names(kind, &only(&[former]), &[]), [own], "{former}");
        let set = tools(kind, &ToolChoice::Default, &[]);
        assert_eq!(set.get(former).unwrap().name(), own, "{former}");
        let without = set.select(crate::Selection::Except(&[former.to_owned()]));
        assert!(without.get(own).is_none(), "{former}");
    }
}

#[test]
fn tools_are_deferred_where_the_model_can_search_for_them() {
    let set = |kind: SessionKind, choice: &ToolChoice| kind.tools(builtin_tools(), choice, |_| false);
    let deferred = |set: &ToolSet| set.deferred().map(|tool| tool.name().to_owned()).collect::<Vec<_>>();
    let hosted = set(SessionKind { has_host: true, ..CURRENT }, &ToolChoice::Default);
    for name in ["EnterPlanMode", "ExitPlanMode", "NotebookEdit", "TaskStop"] {
        assert!(deferred(&hosted).contains(&name.to_owned()), "{name}");
    }
    assert!(!deferred(&hosted).contains(&"AskUserQuestion".to_owned()));
    // Without the search, and for earlier clients, everything is described.
    let off = set(SessionKind { deferral: ToolDeferral::Off, ..CURRENT }, &ToolChoice::Default);
    assert!(deferred(&off).is_empty() && off.get("ToolSearch").is_none());
    assert!(deferred(&set(CURRENT, &only(&["Bash", "Read"]))).is_empty());
    assert_eq!(deferred(&set(CURRENT, &only(&["Bash", "ToolSearch"]))), ["TaskStop"]);
    for generation in [ClientGeneration::Sdk02, ClientGeneration::Cli10] {
        let earlier = set(SessionKind { generation, ..CURRENT }, &ToolChoice::Default);
        assert!(deferred(&earlier).is_empty() && earlier.get("ToolSearch").is_some());
    }
}
