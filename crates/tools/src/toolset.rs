//! The tools of one agent: looked up by name, filtered, and written once as the API's `tools` array.
//!
//! The arrays are kept as text, because they go into every request unchanged. There are two: one describes all tools,
//! the other leaves deferred ones out until they are loaded ([`deferral`]).

mod deferral;

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

pub use deferral::{ToolDescriptions, ToolListing, ToolLoading};
use lathe_protocol::tool_names::current_name;
use serde_json::{Value, json};

use self::deferral::Deferral;
use crate::search_tools::tool_search::ToolSearch;
use crate::{Loading, Tool};

/// A set of tools in a fixed order.
#[derive(Clone, Default)]
pub struct ToolSet {
    tools: Vec<Arc<dyn Tool>>,
    order: ToolOrder,
    /// The `tools` array with all of them.
    whole: OnceLock<Arc<str>>,
    /// What of them was loaded; `None` if requests describe all of them.
    deferral: Option<Deferral>,
}

/// Where a tool goes that is added to a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ToolOrder {
    /// To the end.
    #[default]
    AsAdded,
    /// To its place among the names.
    ByName,
}

/// Which tools of a set are kept.
#[derive(Debug, Clone, Copy)]
pub enum Selection<'a> {
    /// Only those with these names; names without a tool are ignored.
    Only(&'a [String]),
    /// All but those with these names.
    Except(&'a [String]),
}

impl ToolSet {
    /// Returns a set of these tools; of two with the same name the first is kept.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        let mut names = HashSet::new();
        let tools = tools.into_iter().filter(|tool| names.insert(tool.name().to_owned())).collect();
        Self { tools, ..Self::default() }
    }

    /// Returns the same set sorted by name; tools that are added later are sorted in, too.
    pub fn by_name(mut self) -> Self {
        self.tools.sort_by(|a, b| a.name().cmp(b.name()));
        Self { order: ToolOrder::ByName, whole: OnceLock::new(), ..self }
    }

    /// Returns the tool with this name, or else the one of which this is an alias or former name; `None` if there is
    /// neither.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        let current = current_name(name);
        self.tools
            .iter()
            .find(|tool| tool.name() == name)
            .or_else(|| self.tools.iter().find(|tool| current_name(tool.name()) == current))
    }

    /// Returns the names of the tools, in the order of the set.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.name())
    }

    /// Returns the tools, in the order of the set.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.iter()
    }

    /// Returns a set of the tools that the selection names, or of all others. A former name stands for the tool's
    /// current one. Nothing is loaded in the new set.
    pub fn select(&self, selection: Selection<'_>) -> Self {
        let listed = |names: &[String], tool: &Arc<dyn Tool>| {
            names.iter().any(|name| current_name(name) == current_name(tool.name()))
        };
        let tools = self.tools.iter().filter(|tool| match selection {
            Selection::Only(names) => listed(names, tool),
            Selection::Except(names) => !listed(names, tool),
        });
        let part = Self { tools: tools.cloned().collect(), order: self.order, ..Self::default() };
        if self.deferral.is_some() { part.deferring() } else { part }
    }

    /// Returns this set with one more tool, in place of one with the same name. It goes to the end, or to its place
    /// among the names if the set is sorted. What was loaded stays loaded.
    pub fn with(&self, tool: Arc<dyn Tool>) -> Self {
        let others = self.tools.iter().filter(|known| known.name() != tool.name()).cloned();
        let set = self.of_tools(others.chain([tool.clone()]).collect());
        match self.order {
            ToolOrder::AsAdded => set,
            ToolOrder::ByName => set.by_name(),
        }
    }

    /// Returns this set without the tools with these names; former names do not count. What was loaded of them stays in
    /// the array of requests, because results in the conversation may refer to it.
    pub fn without(&self, names: &HashSet<String>) -> Self {
        self.of_tools(self.tools.iter().filter(|tool| !names.contains(tool.name())).cloned().collect())
    }

    /// Returns a set of other tools in the same order and with the same deferral; what was loaded stays loaded.
    fn of_tools(&self, tools: Vec<Arc<dyn Tool>>) -> Self {
        Self {
            tools,
            order: self.order,
            whole: OnceLock::new(),
            deferral: self.deferral.as_ref().map(Deferral::for_other_tools),
        }
    }

    /// Returns the `tools` array of a request that describes all tools, with name, description and schema of each;
    /// ToolSearch is left out, because there is nothing to search for. Built when first needed.
    fn whole_json(&self) -> Arc<str> {
        self.whole
            .get_or_init(|| {
                // With every tool described there is nothing to search for.
                let described = self.tools.iter().filter(|tool| tool.name() != ToolSearch::NAME);
                Value::Array(described.map(|tool| description(tool.as_ref())).collect()).to_string().into()
            })
            .clone()
    }

    /// Returns whether requests leave this tool out until it is loaded. False for all tools if the set defers nothing.
    fn leaves_out(&self, tool: &dyn Tool) -> bool {
        self.deferral.is_some() && tool.declaration().loading == Loading::Deferred
    }
}

/// Returns the entry of a tool in the array of a request.
fn description(tool: &dyn Tool) -> Value {
    json!({
        "name": tool.name(),
        "description": tool.description(),
        "input_schema": tool.input_schema(),
    })
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;
    use lathe_protocol::CallSubject;

    use super::*;
    use crate::{SessionKind, ToolChoice, ToolContext, ToolDeferral, ToolFailure, ToolOutput, builtin_tools};

    struct Named(&'static str);

    impl Tool for Named {
        fn name(&self) -> &str {
            self.0
        }

        fn description(&self) -> &str {
            "a tool"
        }

        fn input_schema(&self) -> &Value {
            &Value::Null
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

    fn set(names: &[&'static str]) -> ToolSet {
        ToolSet::new(names.iter().map(|name| Arc::new(Named(name)) as Arc<dyn Tool>))
    }

    #[test]
    fn former_names_find_their_tool() {
        let set = set(&["Agent", "Read", "Read"]);
        assert_eq!(set.names().collect::<Vec<_>>(), ["Agent", "Read"]);
        assert_eq!(set.get("Task").map(|tool| tool.name().to_owned()), Some("Agent".to_owned()));
        assert!(set.get("KillShell").is_none());
        assert!(set.get("MultiEdit").is_none());
    }

    #[test]
    fn a_tool_that_is_added_goes_to_the_end_or_to_its_place() {
        let names =
            |set: ToolSet| set.with(Arc::new(Named("Edit"))).names().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(names(set(&["Read", "Bash"])), ["Read", "Bash", "Edit"]);
        assert_eq!(names(set(&["Read", "Bash"]).by_name()), ["Bash", "Edit", "Read"]);
        assert_eq!(
            names(set(&["Read", "Bash"]).by_name().select(Selection::Except(&[]))),
            ["Bash", "Edit", "Read"]
        );
    }

    #[test]
    fn lists_select() {
        let set = set(&["Agent", "Bash", "Read"]);
        let names =
            |selection: Selection<'_>| set.select(selection).names().map(str::to_owned).collect::<Vec<_>>();
        let list = ["Task".to_owned(), "Read".to_owned(), "Nothing".to_owned()];
        assert_eq!(names(Selection::Only(&list)), ["Agent", "Read"]);
        assert_eq!(names(Selection::Except(&list)), ["Bash"]);
        assert!(names(Selection::Only(&[])).is_empty());
    }

    #[test]
    fn the_builtin_tools_fit_their_budget() {
        let tools_of = |deferral: ToolDeferral| {
            let kind = SessionKind { deferral, ..SessionKind::default() };
            kind.tools(builtin_tools(), &ToolChoice::Default, |_| false)
        };
        let json = tools_of(ToolDeferral::Off).api_json(ToolDescriptions::All);
        let tools: Value = serde_json::from_str(&json).unwrap();
        for tool in tools.as_array().unwrap() {
            assert_eq!(tool["input_schema"]["type"], "object", "{}", tool["name"]);
            assert_eq!(tool["input_schema"]["additionalProperties"], false, "{}", tool["name"]);
        }
        assert!(json.len() < 11_000, "all tools take {} bytes", json.len());
        let described = tools_of(ToolDeferral::On).api_json(ToolDescriptions::Loaded);
        assert!(described.len() < 6_500, "the tools take {} bytes of every request", described.len());
    }
}
