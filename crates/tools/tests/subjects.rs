//! What each built-in tool says its calls are about: from the input alone, and unknown where the input does not say.

use std::sync::Arc;

use lathe_protocol::{CallSubject, FileAccess, SessionAccess, UserQuestion};
use lathe_tools::{StructuredOutput, ToolSet, builtin_tools};
use serde_json::{Value, json};

fn tools() -> ToolSet {
    let tools = builtin_tools();
    ToolSet::new(tools).with(Arc::new(StructuredOutput::new(json!({"type": "object"})).unwrap()))
}

fn search(path: &str, name_pattern: Option<&str>) -> CallSubject {
    let name_pattern = name_pattern.map(str::to_owned);
    CallSubject::File { path: path.to_owned(), access: FileAccess::Search { name_pattern } }
}

#[test]
fn every_tool_describes_its_calls() {
    let tools = tools();
    let cases: Vec<(&str, Value, CallSubject)> = vec![
        ("Bash", json!({"command": "ls"}), CallSubject::Shell { command: "ls".to_owned() }),
        ("Read", json!({"file_path": "a"}), CallSubject::read(Some("a"))),
        ("Write", json!({"file_path": "a", "content": ""}), CallSubject::write(Some("a"))),
        ("Edit", json!({"file_path": "a"}), CallSubject::write(Some("a"))),
        ("NotebookEdit", json!({"notebook_path": "n.ipynb"}), CallSubject::write(Some("n.ipynb"))),
        ("Grep", json!({"pattern": "x", "path": "src"}), search("src", None)),
        ("Grep", json!({"pattern": "x"}), search("", None)),
        ("Glob", json!({"pattern": "../*", "path": "src"}), search("src", Some("../*"))),
        ("AskUserQuestion", json!({"questions": []}), CallSubject::Question(UserQuestion::Open)),
        ("AskUserQuestion", json!({"answers": {}}), CallSubject::Question(UserQuestion::Open)),
        ("AskUserQuestion", json!({"answers": {"a": "b"}}), CallSubject::Question(UserQuestion::Answered)),
        ("EnterPlanMode", json!({}), CallSubject::Session(SessionAccess::Changes)),
        ("ExitPlanMode", json!({}), CallSubject::Question(UserQuestion::PlanApproval)),
        ("TaskOutput", json!({"task_id": "b1"}), CallSubject::Session(SessionAccess::Reads)),
        ("BashOutput", json!({"bash_id": "b1"}), CallSubject::Session(SessionAccess::Reads)),
        ("TaskStop", json!({"task_id": "b1"}), CallSubject::Session(SessionAccess::Changes)),
        ("KillShell", json!({"shell_id": "b1"}), CallSubject::Session(SessionAccess::Changes)),
        ("MultiEdit", json!({"file_path": "a"}), CallSubject::write(Some("a"))),
        ("ReportFindings", json!({}), CallSubject::Session(SessionAccess::Reads)),
        ("TodoWrite", json!({}), CallSubject::Session(SessionAccess::Changes)),
        ("TaskCreate", json!({}), CallSubject::Session(SessionAccess::Changes)),
        ("TaskGet", json!({}), CallSubject::Session(SessionAccess::Reads)),
        ("TaskList", json!({}), CallSubject::Session(SessionAccess::Reads)),
        ("TaskUpdate", json!({}), CallSubject::Session(SessionAccess::Changes)),
        ("ToolSearch", json!({"query": "a"}), CallSubject::Session(SessionAccess::Reads)),
        ("Monitor", json!({"command": "ls"}), CallSubject::Shell { command: "ls".to_owned() }),
        ("CronCreate", json!({"cron": "* * * * *"}), CallSubject::Session(SessionAccess::Changes)),
        ("CronDelete", json!({"id": "1"}), CallSubject::Session(SessionAccess::Changes)),
        ("CronList", json!({}), CallSubject::Session(SessionAccess::Reads)),
        ("ScheduleWakeup", json!({}), CallSubject::Session(SessionAccess::Changes)),
        ("WebFetch", json!({"url": "https://a.b"}), CallSubject::Host { url: "https://a.b".to_owned() }),
        ("WebSearch", json!({"query": "x y"}), CallSubject::WebSearch { query: "x y".to_owned() }),
        ("EnterWorktree", json!({"name": "a"}), CallSubject::Session(SessionAccess::Changes)),
        ("ExitWorktree", json!({"action": "keep"}), CallSubject::Session(SessionAccess::Changes)),
        ("StructuredOutput", json!({}), CallSubject::StructuredOutput),
    ];
    for (tool, input, subject) in &cases {
        assert_eq!(tools.get(tool).unwrap().subject(input), *subject, "{tool} {input}");
    }
    for name in tools.names() {
        assert!(cases.iter().any(|(tool, ..)| *tool == name), "{name} has no case here");
    }
}

#[test]
fn an_input_that_does_not_say_is_unknown() {
    let tools = tools();
    for (tool, input) in [
        ("Bash", json!({})),
        ("Bash", json!({"command": ["ls"]})),
        ("Monitor", json!({"ws": {"url": "wss://a"}})),
        ("Read", json!({"path": "a"})),
        ("Write", json!({"file_path": 7})),
        ("Edit", json!(null)),
        ("MultiEdit", json!({"edits": []})),
        ("NotebookEdit", json!({"file_path": "a"})),
        ("Grep", json!({"path": ["a"]})),
        ("Glob", json!({"path": "a"})),
        ("Glob", json!({"pattern": "*", "path": {}})),
        ("WebFetch", json!({"url": ["https://a.b"]})),
        ("WebSearch", json!({})),
    ] {
        assert_eq!(tools.get(tool).unwrap().subject(&input), CallSubject::Unknown, "{tool} {input}");
    }
}

#[test]
fn one_text_stands_for_the_input_a_call_is_mostly_about() {
    let tools = tools();
    for (tool, field) in [
        ("Bash", Some("command")),
        ("Read", Some("file_path")),
        ("Grep", Some("path")),
        ("Glob", Some("pattern")),
        ("NotebookEdit", Some("notebook_path")),
        ("WebFetch", Some("url")),
        ("WebSearch", Some("query")),
        ("EnterPlanMode", None),
    ] {
        assert_eq!(tools.get(tool).unwrap().main_input(), field, "{tool}");
    }
}
