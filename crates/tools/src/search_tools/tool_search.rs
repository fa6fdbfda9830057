//! ToolSearch: loads deferred tools, by their names or by words about them.
//!
//! The result refers to the tools; their descriptions are in the `tools` array from the next request on.

mod ranking;

use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use lathe_protocol::{CallSubject, SessionAccess};
use serde_json::{Value, json};

use self::ranking::{Words, best};
use crate::{Content, Offered, Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput, ToolSet};

/// The most tools that one call loads: each adds its description to the conversation.
const MAX_LOADED: usize = 50;

/// How many tools words find, unless the call says otherwise.
const DEFAULT_RESULTS: u64 = 5;

/// What a query begins with that names tools.
const SELECT: &str = "select:";

/// The ToolSearch tool.
#[derive(Debug, Default)]
pub struct ToolSearch;

impl ToolSearch {
    /// The name of the tool, which texts about deferred tools mention.
    pub const NAME: &'static str = "ToolSearch";
}

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": "select:NAME or select:A,B; or words, with + before those that must occur",
            },
            "max_results": {
                "type": "number",
                "description": "For words: the most tools to load",
                "default": DEFAULT_RESULTS,
            },
        },
        "required": ["query"],
        "additionalProperties": false,
    })
});

/// What a query finds.
struct Found {
    /// The tools to load.
    matches: Vec<String>,
    /// Named tools that are not deferred.
    at_hand: Vec<String>,
}

/// Returns what a query finds in a set: the tools that it names after the prefix for names, otherwise at most
/// `max_results` deferred tools by words. Loads nothing.
fn find(tools: &ToolSet, query: &str, max_results: usize) -> Found {
    let query = query.trim();
    let has_prefix = query.get(..SELECT.len()).is_some_and(|start| start.eq_ignore_ascii_case(SELECT));
    if has_prefix {
        return select(tools, &query[SELECT.len()..]);
    }
    let matches = best(tools.deferred(), &Words::of(query), max_results);
    Found { matches, at_hand: Vec::new() }
}

/// Returns the tools that a query names, in its order, deferred ones and others apart, at most [`MAX_LOADED`] of each;
/// former names and another case count, too. Names without a tool are ignored.
fn select(tools: &ToolSet, names: &str) -> Found {
    let mut found = Found { matches: Vec::new(), at_hand: Vec::new() };
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let same_letters = || tools.iter().find(|tool| tool.name().eq_ignore_ascii_case(name));
        let Some(tool) = tools.get(name).or_else(same_letters) else { continue };
        let is_deferred = tools.deferred().any(|deferred| deferred.name() == tool.name());
        let list = if is_deferred { &mut found.matches } else { &mut found.at_hand };
        if list.len() < MAX_LOADED && !list.iter().any(|known| known == tool.name()) {
            list.push(tool.name().to_owned());
        }
    }
    found
}

/// Returns what the model reads: references to what was loaded, or that nothing was. Tools that need no loading are
/// named only if nothing was loaded.
fn content(found: &Found) -> Content {
    if !found.matches.is_empty() {
        let reference = |name: &String| json!({ "type": "tool_reference", "tool_name": name });
        return Content::Blocks(found.matches.iter().map(reference).collect());
    }
    Content::Text(if found.at_hand.is_empty() {
        "No matching deferred tools found".to_owned()
    } else {
        format!("Nothing to load, these can be called as they are: {}", found.at_hand.join(", "))
    })
}

impl Tool for ToolSearch {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration { current: Offered::WithToolSearch, ..ToolDeclaration::EVERYWHERE }
    }

    fn description(&self) -> &str {
        "Loads tools that were only named so far. The result is their descriptions, and then they can be called. Give \
         exact names (select:A,B) if you know them, otherwise words about the task, which are compared with names and \
         descriptions."
    }

    fn input_schema(&self) -> &Value {
        &SCHEMA
    }

    fn subject(&self, _: &Value) -> CallSubject {
        CallSubject::Session(SessionAccess::Reads)
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            let query = input["query"].as_str().unwrap_or("");
            // A fraction or a negative number means as little as no number.
            let wanted = input["max_results"].as_f64().filter(|wanted| *wanted >= 1.0);
            let max_results =
                wanted.map_or(DEFAULT_RESULTS as usize, |wanted| wanted as usize).min(MAX_LOADED);
            let tools = context.session.agent_tools();
            let found = find(&tools, query, max_results);
            if !found.matches.is_empty() {
                context.session.load_tools(&found.matches);
            }
            let content = content(&found);
            let result = json!({
                "matches": found.matches,
                "query": query,
                "total_deferred_tools": tools.deferred().count(),
            });
            Ok(ToolOutput::new(content, result))
        })
    }
}

#[cfg(test)]
mod tests;
