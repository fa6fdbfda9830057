use std::sync::Arc;

use super::*;
use crate::{Loading, ToolDeclaration};

/// A tool that only has words.
struct Described(String, String, Loading);

static ANY_INPUT: LazyLock<Value> = LazyLock::new(|| json!({ "type": "object" }));

impl Tool for Described {
    fn name(&self) -> &str {
        &self.0
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration { loading: self.2, ..ToolDeclaration::EVERYWHERE }
    }

    fn description(&self) -> &str {
        &self.1
    }

    fn input_schema(&self) -> &Value {
        &ANY_INPUT
    }

    fn subject(&self, _: &Value) -> CallSubject {
        CallSubject::Unknown
    }

    fn call<'a>(
        &'a self,
        _: &'a Value,
        _: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async { Err(ToolFailure::Interrupted) })
    }
}

fn tool(name: &str, description: &str, loading: Loading) -> Arc<dyn Tool> {
    Arc::new(Described(name.to_owned(), description.to_owned(), loading))
}

fn tools() -> ToolSet {
    let deferred = [
        ("CronCreate", "Runs a prompt again and again, at fixed times"),
        ("CronList", "Lists the prompts that run at fixed times"),
        ("NotebookEdit", "Changes a cell of a Jupyter notebook"),
        ("mcp__slack__send_message", "Sends text to a channel"),
        ("mcp__slack__list_channels", "All channels of a workspace"),
        ("mcp__mail__send_message", "Sends mail"),
        ("TaskStop", "Stops a task"),
    ];
    let deferred = deferred.map(|(name, description)| tool(name, description, Loading::Deferred));
    let always = [Arc::new(ToolSearch) as Arc<dyn Tool>, tool("Read", "Reads a notebook", Loading::Always)];
    ToolSet::new(always.into_iter().chain(deferred)).deferring()
}

fn matches(query: &str, max_results: usize) -> Vec<String> {
    find(&tools(), query, max_results).matches
}

#[test]
fn names_are_selected_in_their_order() {
    assert_eq!(matches("select:NotebookEdit,CronList", 1), ["NotebookEdit", "CronList"]);
    assert_eq!(matches("Select: cronlist , CronList,Nothing,", 5), ["CronList"]);
    assert_eq!(matches("select:KillShell", 5), ["TaskStop"], "a former name");
    assert!(matches("select:", 5).is_empty());
}

#[test]
fn words_find_names_before_descriptions() {
    assert_eq!(matches("notebook", 3), ["NotebookEdit"], "what is described anyway is not found");
    assert_eq!(matches("notebooks", 3), ["NotebookEdit"]);
    assert_eq!(matches("cron", 5), ["CronCreate", "CronList"]);
    assert_eq!(matches("cron", 1), ["CronCreate"]);
    assert_eq!(matches("mcp__slack__list_channels", 1), ["mcp__slack__list_channels"]);
    assert_eq!(matches("fixed times", 5), ["CronCreate", "CronList"]);
    assert!(matches("zzzqqq", 5).is_empty());
    assert!(matches("", 5).is_empty());
}

#[test]
fn required_words_must_occur() {
    assert_eq!(matches("+slack send", 5), ["mcp__slack__send_message", "mcp__slack__list_channels"]);
    assert_eq!(matches("+slack +send", 5), ["mcp__slack__send_message"]);
    assert!(matches("+slack +cron", 5).is_empty());
}

#[test]
fn results_refer_to_tools_or_say_that_there_are_none() {
    let shown = |query: &str| content(&find(&tools(), query, 5));
    assert_eq!(
        shown("select:CronList,CronCreate"),
        Content::Blocks(vec![
            json!({"type": "tool_reference", "tool_name": "CronList"}),
            json!({"type": "tool_reference", "tool_name": "CronCreate"}),
        ])
    );
    assert_eq!(shown("zzzqqq"), Content::Text("No matching deferred tools found".to_owned()));
    let at_hand = "Nothing to load, these can be called as they are: Read".to_owned();
    assert_eq!(shown("select:Read"), Content::Text(at_hand));
}

#[test]
fn one_call_loads_a_bounded_number_of_tools() {
    let many = (0..200).map(|n| tool(&format!("mcp__s__t{n}"), "many of one kind", Loading::Deferred));
    let set = ToolSet::new(std::iter::once(Arc::new(ToolSearch) as Arc<dyn Tool>).chain(many)).deferring();
    let names: Vec<String> = set.deferred().map(|tool| tool.name().to_owned()).collect();
    assert_eq!(find(&set, &format!("select:{}", names.join(",")), 5).matches.len(), MAX_LOADED);
}
