//! WebSearch: the API of the model searches, in a request of its own that offers the model nothing but the search.

use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use lathe_protocol::CallSubject;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::actions::{SideAnswer, SideFailure, SideModel, SideQuestion};
use crate::{Content, Loading, Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput};

/// Searches that the model may make for one call.
const MAX_SEARCHES: u64 = 8;

const SYSTEM: &str = "You search the web on behalf of another agent, which reads what the search finds.";

/// The WebSearch tool.
#[derive(Debug, Default)]
pub struct WebSearch;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "minLength": 2, "description": "What to search for" },
            "allowed_domains": {
                "type": "array", "items": { "type": "string" },
                "description": "Only results from these domains",
            },
            "blocked_domains": {
                "type": "array", "items": { "type": "string" },
                "description": "No results from these domains; not together with allowed_domains",
            },
        },
        "required": ["query"],
        "additionalProperties": false,
    })
});

impl Tool for WebSearch {
    fn name(&self) -> &str {
        "WebSearch"
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration { loading: Loading::Deferred, ..ToolDeclaration::EVERYWHERE }
    }

    fn description(&self) -> &str {
        "Searches the web and returns titles and addresses of what was found, with what the search says about them. \
         Name the sources that an answer relies on, as links."
    }

    fn input_schema(&self) -> &Value {
        &SCHEMA
    }

    fn subject(&self, input: &Value) -> CallSubject {
        match input["query"].as_str() {
            Some(query) => CallSubject::WebSearch { query: query.to_owned() },
            None => CallSubject::Unknown,
        }
    }

    fn check(&self, input: &Value) -> Result<(), ToolFailure> {
        let is_given = |key: &str| input[key].as_array().is_some_and(|domains| !domains.is_empty());
        if is_given("allowed_domains") && is_given("blocked_domains") {
            let text = "Give allowed_domains or blocked_domains, not both.";
            return Err(ToolFailure::Rejected(text.to_owned()));
        }
        Ok(())
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            let began = Instant::now();
            let state = &context.workspace.web;
            let Some(mut reserved) = state.reserve_searches(MAX_SEARCHES) else {
                return Err(ToolFailure::Failed(format!(
                    "This session has made its {} web searches; there are no more.",
                    state.max_searches()
                )));
            };
            // Until the API says how many it made, all of them may have been made.
            reserved.made = reserved.count;
            let asking = context.session.ask_side_question(question(input, reserved.count));
            let answer = match context.cancel.run_until_cancelled(asking).await {
                None => return Err(ToolFailure::Interrupted),
                Some(Ok(answer)) => answer,
                Some(Err(failure)) => {
                    reserved.made = 0;
                    return Err(failed(failure));
                }
            };
            reserved.made = answer.web_searches.min(reserved.count);
            let query = input["query"].as_str().unwrap_or_default();
            let results = results(&answer);
            let text = told(query, &results);
            let result = json!({
                "query": query,
                "results": results,
                "durationSeconds": began.elapsed().as_secs_f64(),
                "searchCount": answer.web_searches,
            });
            Ok(ToolOutput::new(Content::Text(text), result))
        })
    }
}

/// Returns the question that makes the API of the model search, at most `max_searches` times.
fn question(input: &Value, max_searches: u64) -> SideQuestion {
    let query = input["query"].as_str().unwrap_or_default();
    let mut tool = json!({"type": "web_search_20250305", "name": "web_search", "max_uses": max_searches});
    for key in ["allowed_domains", "blocked_domains"] {
        if let Some(domains) = input[key].as_array().filter(|domains| !domains.is_empty()) {
            tool[key] = json!(domains);
        }
    }
    SideQuestion {
        purpose: "web_search",
        model: SideModel::OfConversation,
        system: SYSTEM.to_owned(),
        prompt: format!("Search the web for: {query}"),
        server_tool: Some(tool),
        max_tokens: None,
    }
}

/// Returns the failure of a call whose search could not be made.
fn failed(failure: SideFailure) -> ToolFailure {
    ToolFailure::Failed(match failure {
        SideFailure::OverBudget => "Not searched: the spending limit is reached.".to_owned(),
        SideFailure::Refused(why) => format!(
            "The API of the model did not take the search ({why}). Where it has no web search of its own, this tool does \
             not work."
        ),
        SideFailure::Failed(why) => format!("The search failed: {why}"),
    })
}

/// Returns what programs get: what the model says as texts, and between them the hits of each search. Texts that follow
/// each other become one.
fn results(answer: &SideAnswer) -> Vec<Value> {
    let mut results: Vec<Value> = Vec::new();
    let mut follows_text = false;
    for block in &answer.blocks {
        let is_text = block["type"] == "text";
        if is_text {
            let text = block["text"].as_str().unwrap_or_default();
            match results.last_mut() {
                // Sentences with sources come as blocks of their own.
                Some(Value::String(before)) if follows_text => before.push_str(text),
                _first => results.push(json!(text)),
            }
        } else if block["type"] == "web_search_tool_result" {
            results.push(found(block));
        }
        follows_text = is_text;
    }
    results
}

/// Returns the hits of one search, or a text with the code of its error if it failed.
fn found(block: &Value) -> Value {
    let Some(hits) = block["content"].as_array() else {
        let code = block["content"]["error_code"].as_str().unwrap_or("unknown");
        return json!(format!("Web search error: {code}"));
    };
    let text = |hit: &Value, key: &str| hit[key].as_str().unwrap_or_default().to_owned();
    let hits: Vec<Value> =
        hits.iter().map(|hit| json!({"title": text(hit, "title"), "url": text(hit, "url")})).collect();
    json!({"tool_use_id": block["tool_use_id"], "content": hits})
}

/// Returns what the model reads: the texts and hits of `results`, in the form that [`results`] gives them, and a line
/// that asks it to name its sources.
fn told(query: &str, results: &[Value]) -> String {
    let mut text = format!("Found on the web for \"{query}\":\n");
    for result in results {
        match result {
            Value::String(said) => text.push_str(&format!("\n{}\n", said.trim())),
            hits => {
                text.push('\n');
                for hit in hits["content"].as_array().into_iter().flatten() {
                    let part = |key: &str| hit[key].as_str().unwrap_or_default();
                    text.push_str(&format!("- [{}]({})\n", part("title"), part("url")));
                }
            }
        }
    }
    if results.is_empty() {
        text.push_str("\nNothing.\n");
    }
    text.push_str("\nWhere an answer relies on one of these pages, name it as a Markdown link.");
    text
}

#[cfg(test)]
mod tests;
