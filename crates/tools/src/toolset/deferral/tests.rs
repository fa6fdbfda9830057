use std::fmt::Write as _;

use futures_util::future::BoxFuture;
use lathe_protocol::CallSubject;

use super::*;
use crate::{
    Content, Loading, Selection, SessionKind, ToolChoice, ToolContext, ToolDeclaration, ToolDeferral,
    ToolFailure, ToolOutput, builtin_tools,
};

/// A tool of a server, with a schema of about 1 KB.
struct OfServer {
    name: String,
    schema: Value,
}

impl Tool for OfServer {
    fn name(&self) -> &str {
        &self.name
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration { loading: Loading::Deferred, ..ToolDeclaration::EVERYWHERE }
    }

    fn description(&self) -> &str {
        "of a server"
    }

    fn input_schema(&self) -> &Value {
        &self.schema
    }

    fn subject(&self, _: &Value) -> CallSubject {
        CallSubject::Unknown
    }

    fn call<'a>(
        &'a self,
        _: &'a Value,
        _: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async { Ok(ToolOutput::new(Content::Text(String::new()), Value::Null)) })
    }
}

fn of_server(name: impl Into<String>) -> Arc<dyn Tool> {
    let description = "x".repeat(1000);
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "string", "description": description}}});
    Arc::new(OfServer { name: name.into(), schema })
}

fn session() -> ToolSet {
    let kind = SessionKind { deferral: ToolDeferral::On, ..SessionKind::default() };
    kind.tools(builtin_tools(), &ToolChoice::Default, |_| false)
}

/// The names in an array, those that are deferred with a star.
fn sent(set: &ToolSet) -> Vec<String> {
    let array: Vec<Value> = serde_json::from_str(&set.api_json(ToolDescriptions::Loaded)).unwrap();
    let star = |entry: &Value| if entry["defer_loading"] == true { "*" } else { "" };
    array.iter().map(|entry| format!("{}{}", entry["name"].as_str().unwrap(), star(entry))).collect()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn the_array_grows_at_its_end() {
    let set = session();
    let before = set.api_json(ToolDescriptions::Loaded);
    let first = sent(&set);
    assert_eq!(first.last().map(String::as_str), Some("DeferredToolPlaceholder*"));
    assert!(
        first.contains(&"ToolSearch".to_owned()) && !first.iter().any(|name| name.starts_with("TaskStop"))
    );
    let set = set.loading(&names(&["TaskStop"])).loading(&names(&["NotebookEdit", "TaskStop"]));
    let after = set.api_json(ToolDescriptions::Loaded);
    assert!(after.starts_with(before.trim_end_matches(']')), "{after}");
    assert_eq!(sent(&set)[first.len()..], ["TaskStop*", "NotebookEdit*"]);
    assert!(!set.is_unloaded("TaskStop") && !set.is_unloaded("Read") && !session().is_unloaded("Nothing"));
    assert!(session().is_unloaded("TaskStop") && session().is_unloaded("KillShell"), "the names of one tool");
}

#[test]
fn models_that_cannot_search_get_everything() {
    let set = session().loading(&names(&["TaskStop"]));
    let all = set.api_json(ToolDescriptions::All);
    assert!(!all.contains("defer_loading") && !all.contains("\"ToolSearch\""), "{all}");
    assert!(all.contains("\"TaskStop\"") && all.contains("\"NotebookEdit\""));
    assert!(set.marks_deferred(ToolDescriptions::Loaded) && !set.marks_deferred(ToolDescriptions::All));
}

#[test]
fn without_anything_to_search_for_there_is_no_search() {
    let set = session().select(Selection::Only(&names(&["Read", "ToolSearch"])));
    assert_eq!(sent(&set), ["Read"]);
    assert!(!set.marks_deferred(ToolDescriptions::Loaded));
    assert_eq!(set.listing().and_then(|listing| listing.text()), None);
}

#[test]
fn a_part_of_a_set_has_nothing_loaded() {
    let set = session().loading(&names(&["TaskStop"]));
    let part = set.select(Selection::Except(&names(&["Write"])));
    assert!(part.is_unloaded("TaskStop"));
    let without_search = set.select(Selection::Except(&names(&["ToolSearch"])));
    assert!(!without_search.is_unloaded("TaskStop"));
    assert!(sent(&without_search).contains(&"TaskStop".to_owned()), "nothing is deferred without the search");
}

#[test]
fn what_results_may_refer_to_stays_in_the_array() {
    let set = session().with(of_server("mcp__s__a")).loading(&names(&["mcp__s__a", "never_there"]));
    let before = set.api_json(ToolDescriptions::Loaded);
    let gone = set.without(&["mcp__s__a".to_owned()].into());
    assert_eq!(gone.api_json(ToolDescriptions::Loaded), before, "entries do not change when a tool goes");
    assert_eq!(sent(&gone)[sent(&gone).len() - 2..], ["mcp__s__a*", "never_there*"]);
    assert!(gone.get("mcp__s__a").is_none());
    let (set, dropped) = gone.unloading_all_but(&names(&["never_there"]));
    assert_eq!(dropped, ["mcp__s__a"]);
    assert_eq!(sent(&set).last().map(String::as_str), Some("never_there*"));
}

#[test]
fn a_loaded_tool_that_is_always_described_stands_there_once() {
    let set = session().loading(&names(&["Read"]));
    assert_eq!(sent(&set).iter().filter(|name| name.starts_with("Read")).count(), 1);
}

#[test]
fn the_listing_names_one_tool_a_line_and_then_what_changes() {
    let set = session();
    let listing = set.listing().unwrap();
    let text = listing.text().unwrap();
    let named: Vec<&str> = set.deferred().map(|tool| tool.name()).collect();
    assert!(named.is_sorted() && named.contains(&"TaskStop"), "{named:?}");
    assert!(text.ends_with(&format!("\n{}", named.join("\n"))), "{text}");
    assert!(Arc::ptr_eq(&listing, &set.loading(&names(&["TaskStop"])).listing().unwrap()));
    let more = set.with(of_server("mcp__s__b")).with(of_server("mcp__s__a"));
    let more = more.without(&["TaskStop".to_owned()].into());
    let now = more.listing().unwrap();
    assert_eq!(
        listing.changes(&now).unwrap(),
        "ToolSearch finds these tools, too:\nmcp__s__a\nmcp__s__b\nThese tools are not available any more:\nTaskStop"
    );
    assert_eq!(now.changes(&now), None);
    assert_eq!(ToolSet::default().listing(), None);
}

#[test]
fn a_thousand_tools_are_named_and_not_described() {
    let many = (0..1000).map(|n| of_server(format!("mcp__server__tool_{n}")));
    let set = ToolSet::new(session().iter().cloned().chain(many)).deferring();
    assert!(set.api_json(ToolDescriptions::Loaded).len() < 10_000);
    let text = set.listing().unwrap().text().unwrap();
    assert!(text.len() < 25_000, "{} bytes", text.len());
    let one = set.loading(&names(&["mcp__server__tool_7"]));
    let grown = one.api_json(ToolDescriptions::Loaded).len() - set.api_json(ToolDescriptions::Loaded).len();
    assert!((1000..1300).contains(&grown), "{grown} bytes");
    let mut all = String::new();
    set.deferred().for_each(|tool| write!(all, "{}", tool.name()).unwrap());
    assert!(all.len() > 15_000);
}
