//! Headers and top-level fields: the known ones, and the rules that concern a single field.

use serde_json::Value;

use super::cache::{CacheMark, check_mark};
use super::generation::ModelRules;
use super::refusal::{EXTRA, FieldPath, REQUIRED, Verdict, given, refuse};
use super::schema;
use super::sent::{BodyFields, MessagesField};

/// The endpoint of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiEndpoint {
    Messages,
    CountTokens,
}

const MESSAGES_FIELDS: &[&str] = &[
    "model",
    "messages",
    "max_tokens",
    "cache_control",
    "container",
    "inference_geo",
    "metadata",
    "output_config",
    "service_tier",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
];

const COUNT_FIELDS: &[&str] =
    &["model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control"];

/// Fields that need a beta: the field, and the beginning of the names of its betas.
const BETA_FIELDS: &[(&str, &[&str])] = &[
    ("context_management", &["context-management-", "compact-"]),
    ("mcp_servers", &["mcp-client-"]),
    ("speed", &["fast-mode-"]),
    ("output_format", &["structured-outputs-"]),
    ("user_profile_id", &["user-profiles-"]),
    ("diagnostics", &["cache-diagnosis-"]),
];

/// Values of `anthropic-beta`, by the part before the date. The date is not checked: names are reused with later ones.
const BETAS: &[&str] = &[
    "adaptive-thinking",
    "advanced-tool-use",
    "advisor-tool",
    "afk-mode",
    "cache-diagnosis",
    "code-execution",
    "compact",
    "computer-use",
    "context-1m",
    "context-management",
    "dangerous-tool-use",
    "dev-full-thinking",
    "effort",
    "extended-cache-ttl",
    "fast-mode",
    "files-api",
    "fine-grained-tool-streaming",
    "interleaved-thinking",
    "managed-agents",
    "max-tokens-3-5-sonnet",
    "mcp-client",
    "message-batches",
    "mid-conversation-tool-changes",
    "model-context-window-exceeded",
    "oauth",
    "output-128k",
    "output-300k",
    "pdfs",
    "per-turn-control",
    "prompt-caching",
    "prompt-caching-scope",
    "redact-thinking",
    "skills",
    "structured-outputs",
    "task-budgets",
    "thinking-display-updates",
    "thinking-token-count",
    "token-counting",
    "token-efficient-tools",
    "tool-examples",
    "tool-search-tool",
    "user-profiles",
    "web-fetch",
    "web-search",
];

/// Checks the headers and returns the requested betas in their order. Refuses a request without `anthropic-version`,
/// whose value is not looked at, and any beta that is neither known nor in `more`, the names that the script adds.
pub(crate) fn check_headers<'h>(headers: &'h [(String, String)], more: &[String]) -> Verdict<Vec<&'h str>> {
    let values = |name: &'static str| {
        headers.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    };
    if values("anthropic-version").next().is_none() {
        return refuse("anthropic-version: header is required");
    }
    let betas: Vec<&str> = values("anthropic-beta")
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .filter(|b| !b.is_empty())
        .collect();
    let unknown: Vec<String> = betas
        .iter()
        .filter(|beta| !is_known_beta(beta) && !more.iter().any(|known| known == *beta))
        .map(|beta| format!("`{beta}`"))
        .collect();
    if !unknown.is_empty() {
        return refuse(format!(
            "Unexpected value(s) {} for the `anthropic-beta` header. Please consult our documentation at \
             docs.claude.com or try again without the header.",
            unknown.join(", ")
        ));
    }
    Ok(betas)
}

/// Returns whether this is the name of a known beta followed by a date. Any date is accepted, so that a newer version
/// of a beta needs no change here; one name has its date in another form.
fn is_known_beta(beta: &str) -> bool {
    if beta == "claude-code-20250219" {
        return true;
    }
    // `NAME-2025-01-31`
    let Some(split) = beta.len().checked_sub(11).filter(|at| beta.is_char_boundary(*at)) else {
        return false;
    };
    let (name, date) = beta.split_at(split);
    let is_date = date.bytes().enumerate().all(|(at, byte)| match at {
        0 | 5 | 8 => byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    is_date && BETAS.contains(&name)
}

/// Checks that the required fields are present and the others are known, some of them only with one of their betas.
/// Values are not looked at.
pub(crate) fn check_fields(fields: &BodyFields<'_>, endpoint: ApiEndpoint, betas: &[&str]) -> Verdict {
    let (known, required): (_, &[&str]) = match endpoint {
        ApiEndpoint::Messages => (MESSAGES_FIELDS, &["model", "max_tokens"]),
        ApiEndpoint::CountTokens => (COUNT_FIELDS, &["model"]),
    };
    let allowed_by_beta = |name: &str| {
        let row = BETA_FIELDS.iter().find(|(field, _)| *field == name);
        row.is_some_and(|(_, starts)| {
            starts.iter().any(|start| betas.iter().any(|beta| beta.starts_with(start)))
        })
    };
    for name in required {
        if fields.raw(name).is_none() {
            return FieldPath::root(name).refuse(REQUIRED);
        }
    }
    if matches!(fields.messages, MessagesField::Absent) {
        return FieldPath::root("messages").refuse(REQUIRED);
    }
    match fields.names().find(|name| !known.contains(name) && !allowed_by_beta(name)) {
        Some(name) => FieldPath::root(name).refuse(EXTRA),
        None => Ok(()),
    }
}

/// Checks the fields whose rules depend on no other field, and that the values of the fields without a rule are JSON.
pub(crate) fn check_simple_fields(fields: &BodyFields<'_>) -> Verdict {
    if fields.value("temperature")?.and_then(|value| value.as_f64()).is_some_and(|value| value > 1.0) {
        return refuse("temperature: range: 0..1");
    }
    let blank = |item: &Value| item.as_str().is_some_and(|text| text.trim().is_empty());
    if let Some(Value::Array(items)) = fields.value("stop_sequences")?
        && items.iter().any(blank)
    {
        return refuse("stop_sequences: each stop sequence must contain non-whitespace");
    }
    for name in ["metadata", "container", "inference_geo", "service_tier", "stream", "top_p", "top_k"] {
        // Parsing finds invalid JSON inside the field.
        fields.value(name)?;
    }
    Ok(())
}

/// Checks `output_config` and returns the requested effort; `None` if the field is absent or names none.
pub(crate) fn check_output_config(fields: &BodyFields<'_>, betas: &[&str]) -> Verdict<Option<String>> {
    let path = FieldPath::root("output_config");
    let Some(config) = fields.value("output_config")? else { return Ok(None) };
    let config = path.object(&config)?;
    path.only(config, &["effort", "format", "task_budget"])?;
    if let Some(budget) = given(config, "task_budget") {
        check_task_budget(budget, &path.key("task_budget"), betas)?;
    }
    if let Some(format) = given(config, "format") {
        let path = path.key("format");
        let format = path.object(format)?;
        path.only(format, &["type", "schema", "name"])?;
        if let Some(schema) = given(format, "schema") {
            schema::check_output_schema(schema, MAX_SCHEMA_DEPTH)?;
        }
    }
    Ok(given(config, "effort").and_then(Value::as_str).map(str::to_owned))
}

/// Checks a task budget: a field of a beta, which is refused without it, with a number of tokens above 0.
fn check_task_budget(budget: &Value, path: &FieldPath<'_>, betas: &[&str]) -> Verdict {
    if !betas.iter().any(|beta| beta.starts_with("task-budgets-")) {
        return path.refuse(EXTRA);
    }
    let budget = path.object(budget)?;
    path.only(budget, &["type", "total", "remaining"])?;
    match budget.get("type") {
        None => return path.key("type").refuse(REQUIRED),
        Some(kind) if kind != "tokens" => return path.key("type").refuse("Input should be 'tokens'"),
        Some(_) => {}
    }
    match budget.get("total") {
        None => path.key("total").refuse(REQUIRED),
        Some(total) if total.as_u64().is_none_or(|total| total == 0) => {
            path.key("total").refuse("Input should be greater than 0")
        }
        Some(_) => Ok(()),
    }
}

/// How deep schemas are checked.
const MAX_SCHEMA_DEPTH: usize = 64;

/// The system prompt, as the other rules need it.
#[derive(Debug, Default)]
pub(crate) struct SystemText {
    pub(crate) marks: Vec<CacheMark>,
    pub(crate) text_bytes: u64,
}

/// Checks `system` and returns its marks and bytes of text. Blocks of other types than text are skipped. `cache_scope`
/// says whether marks may have a scope.
pub(crate) fn check_system(system: &Value, cache_scope: bool) -> Verdict<SystemText> {
    let path = FieldPath::root("system");
    let mut seen = SystemText::default();
    match system {
        Value::String(text) => seen.text_bytes = text.len() as u64,
        Value::Array(blocks) => {
            for (index, value) in blocks.iter().enumerate() {
                let at = path.index(index);
                let block = at.object(value)?;
                if block.get("type").is_some_and(|kind| kind != "text") {
                    continue;
                }
                at.only(block, &["type", "text", "cache_control", "citations"])?;
                seen.text_bytes += at.text(block, "text")?.len() as u64;
                if let Some(mark) = given(block, "cache_control") {
                    seen.marks.push(check_mark(mark, &at, &at, cache_scope)?);
                }
            }
        }
        _ => return path.refuse("Input should be a valid list"),
    }
    Ok(seen)
}

/// Checks `max_tokens` against the longest response of the model; accepted if either is not known.
pub(crate) fn check_output_cap(model: &str, max_tokens: Option<u64>, rules: &ModelRules) -> Verdict {
    match (max_tokens, rules.output_cap) {
        (Some(asked), Some(cap)) if asked > cap => refuse(format!(
            "max_tokens: {asked} > {cap}, which is the maximum allowed number of output tokens for {model}"
        )),
        _ => Ok(()),
    }
}
