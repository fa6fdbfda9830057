use std::collections::BTreeSet;

use super::*;
use crate::builtin_tools;

fn names(kind: SessionKind, choice: &ToolChoice, removed: &[&str]) -> Vec<String> {
    let set = kind.tools(builtin_tools(), choice, |name| removed.contains(&name));
    set.names().map(str::to_owned).collect()
}

fn only(names: &[&str]) -> ToolChoice {
    ToolChoice::Only(names.iter().map(|name| (*name).to_owned()).collect())
}

const CURRENT: SessionKind =
    SessionKind { generation: ClientGeneration::Current, has_host: false, work_list: WorkList::None };

#[test]
fn current_clients_search_with_bash_and_ask_through_a_host() {
    let plain = names(CURRENT, &ToolChoice::Default, &[]);
    assert!(plain.is_sorted(), "{plain:?}");
    assert!(!plain.iter().any(|name| name == "Grep" || name == "AskUserQuestion"), "{plain:?}");
    let hosted = names(SessionKind { has_host: true, ..CURRENT }, &ToolChoice::Default, &[]);
    let more: BTreeSet<_> = hosted.iter().filter(|name| !plain.contains(name)).map(String::as_str).collect();
    assert_eq!(more, ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode"].into());
    let without_bash = names(CURRENT, &ToolChoice::Default, &["Bash"]);
    assert!(without_bash.contains(&"Glob".to_owned()) && without_bash.contains(&"Grep".to_owned()));
}

#[test]
fn tools_are_chosen_by_name() {
    assert_eq!(names(CURRENT, &ToolChoice::Bare, &[]), ["Bash", "Edit", "Read"]);
    assert_eq!(names(CURRENT, &only(&["Grep", "Read", "Nothing"]), &[]), ["Grep", "Read"]);
    assert!(names(CURRENT, &only(&[]), &[]).is_empty());
    assert!(names(CURRENT, &only(&["AskUserQuestion"]), &[]).is_empty(), "there is no one to ask");
    assert!(names(CURRENT, &only(&["Read"]), &["Read"]).is_empty());
}

#[test]
fn older_clients_get_their_own_order_and_questions_without_a_host() {
    let kind = SessionKind { generation: ClientGeneration::Sdk02, ..CURRENT };
    let names = names(kind, &ToolChoice::Default, &[]);
    let recorded = [
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
    let built: Vec<_> = recorded.into_iter().filter(|name| names.iter().any(|own| own == name)).collect();
    assert_eq!(names, built);
}
