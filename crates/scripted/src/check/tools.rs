//! Tool definitions and `tool_choice`.
//!
//! Tools that run in the API have their own `type`; the fields of the web search are checked, of others only the name.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::cache::{CacheMark, check_mark};
use super::generation::ModelRules;
use super::message::MessageSummary;
use super::refusal::{FieldPath, REQUIRED, Verdict, given, refuse};
use super::schema;

/// The tools of a request, as the other rules need them.
#[derive(Debug, Default)]
pub(crate) struct ToolList {
    pub(crate) names: Vec<String>,
    pub(crate) marks: Vec<CacheMark>,
    /// Bytes of text of the tools that the model is shown in any case.
    pub(crate) text_bytes: u64,
    /// Deferred tools, which the model is shown where a result refers to them, with their bytes of text.
    deferred: HashMap<String, u64>,
}

const TOOL_FIELDS: &[&str] = &[
    "name",
    "description",
    "input_schema",
    "type",
    "cache_control",
    "strict",
    "defer_loading",
    "input_examples",
    "allowed_callers",
    "eager_input_streaming",
];

/// Checks the field `tools` and returns the names, marks and bytes of text in it. `cache_scope` says whether cache
/// marks may have a scope. Also refuses a repeated name, a cache mark on a deferred tool, and a list of deferred tools
/// only.
pub(crate) fn check_tools(tools: &Value, cache_scope: bool) -> Verdict<ToolList> {
    let path = FieldPath::root("tools");
    let Value::Array(tools) = tools else { return path.refuse("Input should be a valid list") };
    let mut list = ToolList::default();
    for (index, tool) in tools.iter().enumerate() {
        let at = path.index(index);
        let tool = at.object(tool)?;
        let kind = given(tool, "type").and_then(Value::as_str).unwrap_or("custom");
        let inside = at.key(kind);
        match kind {
            "custom" => check_custom(tool, &inside)?,
            kind if kind.starts_with("web_search_") => check_web_search(tool, &inside)?,
            _run_by_the_api => {}
        }
        let is_deferred = match given(tool, "defer_loading") {
            None => false,
            Some(Value::Bool(deferred)) => *deferred,
            Some(_) => return inside.key("defer_loading").refuse("Input should be a valid boolean"),
        };
        if let Some(mark) = given(tool, "cache_control") {
            if is_deferred {
                let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
                return at.refuse(format!(
                    "Tool '{name}' cannot have both defer_loading=true and cache_control set. Tools with \
                     defer_loading cannot use prompt caching."
                ));
            }
            list.marks.push(check_mark(mark, &at, &inside, cache_scope)?);
        }
        if let Some(name) = tool.get("name").and_then(Value::as_str) {
            if list.names.iter().any(|known| known == name) {
                return refuse("tools: Tool names must be unique.");
            }
            list.names.push(name.to_owned());
        }
        let length = |key: &str| tool.get(key).map_or(0, |value| value.to_string().len() as u64);
        let text_bytes = length("description") + length("input_schema");
        match list.names.last() {
            Some(name) if is_deferred => drop(list.deferred.insert(name.clone(), text_bytes)),
            Some(_) | None => list.text_bytes += text_bytes,
        }
    }
    if !list.names.is_empty() && list.deferred.len() == list.names.len() {
        return refuse("All tools have defer_loading set. At least one tool must be non-deferred.");
    }
    Ok(list)
}

const WEB_SEARCH_FIELDS: &[&str] = &[
    "type",
    "name",
    "max_uses",
    "allowed_domains",
    "blocked_domains",
    "user_location",
    "cache_control",
    "strict",
    "defer_loading",
    "allowed_callers",
];

/// Checks a web search tool of the API: its fields, its one name, and that domains are not both allowed and blocked.
/// `inside` is the path that messages name.
fn check_web_search(tool: &Map<String, Value>, inside: &FieldPath<'_>) -> Verdict {
    inside.only(tool, WEB_SEARCH_FIELDS)?;
    if inside.text(tool, "name")? != "web_search" {
        return inside.key("name").refuse("Input should be 'web_search'");
    }
    if let Some(uses) = given(tool, "max_uses") {
        match uses.as_i64() {
            Some(1..) => {}
            Some(_) => return inside.key("max_uses").refuse("Input should be greater than 0"),
            None => return inside.key("max_uses").refuse("Input should be a valid integer"),
        }
    }
    let is_list = |key: &str| given(tool, key).is_some_and(Value::is_array);
    if is_list("allowed_domains") && is_list("blocked_domains") {
        return inside.refuse("only one of allowed_domains and blocked_domains can be specified");
    }
    Ok(())
}

/// Checks a tool that the client runs: its fields, its name and its input schema. `inside` is the path that messages
/// name.
fn check_custom(tool: &Map<String, Value>, inside: &FieldPath<'_>) -> Verdict {
    inside.only(tool, TOOL_FIELDS)?;
    let name = inside.text(tool, "name")?;
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !(1..=128).contains(&name.len()) || !name.bytes().all(legal) {
        return inside.key("name").refuse("String should match pattern '^[a-zA-Z0-9_-]{1,128}$'");
    }
    let path = inside.key("input_schema");
    match tool.get("input_schema") {
        Some(schema) => check_input_schema(schema, &path),
        None => path.refuse(REQUIRED),
    }
}

/// Checks the schema of a tool's input: an object, without alternatives at the top level, and valid under draft
/// 2020-12. The order is that of the cost: the whole schema is validated last.
fn check_input_schema(schema: &Value, path: &FieldPath<'_>) -> Verdict {
    let fields = path.object(schema)?;
    match fields.get("type") {
        Some(kind) if kind == "object" => {}
        Some(_) => return path.key("type").refuse("Input should be 'object'"),
        None => return path.key("type").refuse(REQUIRED),
    }
    if ["oneOf", "allOf", "anyOf"].iter().any(|key| fields.contains_key(*key)) {
        return path.refuse("input_schema does not support oneOf, allOf, or anyOf at the top level");
    }
    if !schema::is_draft_2020_12(schema) {
        return path.refuse(
            "JSON schema is invalid. It must match JSON Schema draft 2020-12 \
             (https://json-schema.org/draft/2020-12). Learn more about tool use at \
             https://docs.claude.com/en/docs/tool-use.",
        );
    }
    Ok(())
}

impl ToolList {
    /// Checks that the results of the conversation refer only to tools of this list, and only for models that
    /// understand it. Returns the bytes of text that the model is shown in the places of the references; a tool that
    /// several results refer to counts once.
    pub(crate) fn check_references(&self, messages: &[&MessageSummary], rules: &ModelRules) -> Verdict<u64> {
        let (mut shown, mut text_bytes) = (HashSet::new(), 0);
        for (index, message) in messages.iter().enumerate() {
            for reference in &message.tool_references {
                if !rules.takes_tool_references {
                    return refuse(format!(
                        "messages.{index}{}: tool references are not supported on this model",
                        reference.path
                    ));
                }
                let name = &reference.name;
                if !self.names.contains(name) {
                    return refuse(format!("Tool reference '{name}' has no corresponding tool definition"));
                }
                if shown.insert(name) {
                    text_bytes += self.deferred.get(name).copied().unwrap_or(0);
                }
            }
        }
        Ok(text_bytes)
    }
}

/// What `tool_choice` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolChoiceAsked {
    /// Nothing, or a value that leaves the choice to the model.
    Free,
    /// A call, of any tool or of one.
    Forced,
}

/// Checks the field `tool_choice` against the names of the offered tools, and returns what it asks for; an absent field
/// leaves the choice free.
pub(crate) fn check_choice(choice: Option<&Value>, tools: &[String]) -> Verdict<ToolChoiceAsked> {
    let path = FieldPath::root("tool_choice");
    let Some(choice) = choice else { return Ok(ToolChoiceAsked::Free) };
    let choice = path.object(choice)?;
    let kind = path.text(choice, "type")?;
    let fields = path.key(kind);
    match kind {
        "auto" | "any" => fields.only(choice, &["type", "disable_parallel_tool_use"])?,
        "tool" => fields.only(choice, &["type", "name", "disable_parallel_tool_use"])?,
        "none" => fields.only(choice, &["type"])?,
        other => return path.tag(other, &["any", "auto", "none", "tool"]),
    }
    if kind == "tool" {
        let name = fields.text(choice, "name")?;
        if !tools.iter().any(|tool| tool == name) {
            return refuse(format!("Tool '{name}' not found in provided tools"));
        }
    }
    Ok(if matches!(kind, "any" | "tool") { ToolChoiceAsked::Forced } else { ToolChoiceAsked::Free })
}
