//! Makes two runs comparable: what differs from run to run (ids, times, durations, paths) becomes a
//! placeholder, everything else stays.
//!
//! Ids of tasks and agents are drawn at random and then turn up inside texts as well. [`normalise_lines`]
//! therefore first collects them from the fields that are known to hold them, over all lines.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

static UUID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").expect("the pattern is fixed")
});
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)").expect("the pattern is fixed")
});

/// Fields whose strings are drawn at random, and what they become.
const RANDOM_IDS: [&str; 7] =
    ["task_id", "taskId", "agent_id", "agentId", "backgroundTaskId", "shell_id", "job_id"];
/// Numbers that are a moment in time.
const MOMENTS: [&str; 4] = ["end_time", "start_time", "nextFireAt", "resets_at"];
/// Limits that somebody chose, although they look like durations.
const CHOSEN: [&str; 3] = ["timeout_ms", "timeoutMs", "timeout"];
const COST_FIELDS: [&str; 2] = ["total_cost_usd", "costUSD"];

/// Whether money is compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Costs {
    /// Compared.
    #[default]
    Keep,
    /// Replaced.
    Hide,
}

/// What to replace.
#[derive(Debug, Clone, Default)]
pub struct Normaliser {
    replacements: Vec<(String, String)>,
    costs: Costs,
}

impl Normaliser {
    /// Replaces `text` wherever it stands, longest first.
    pub fn replace(mut self, text: &str, placeholder: &str) -> Self {
        self.replacements.push((text.to_owned(), placeholder.to_owned()));
        self.replacements.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        self
    }

    /// Whether money is compared.
    pub fn costs(mut self, costs: Costs) -> Self {
        self.costs = costs;
        self
    }

    /// One value.
    pub fn value(&self, value: &Value) -> Value {
        self.field("", value)
    }

    /// All lines of a run, random ids replaced in texts too.
    pub fn lines(&self, lines: &[Value]) -> Vec<Value> {
        let mut knowing = self.clone();
        lines.iter().for_each(|line| knowing.collect_ids("", line));
        lines.iter().map(|line| knowing.value(line)).collect()
    }

    fn collect_ids(&mut self, key: &str, value: &Value) {
        match value {
            Value::String(id) if RANDOM_IDS.contains(&key) && id.len() >= 6 => {
                if !self.replacements.iter().any(|(known, _)| known == id) {
                    *self = std::mem::take(self).replace(id, "<id>");
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.collect_ids(key, item)),
            Value::Object(fields) => fields.iter().for_each(|(key, value)| self.collect_ids(key, value)),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn field(&self, key: &str, value: &Value) -> Value {
        let placeholder = |text: &str| Value::String(text.to_owned());
        match value {
            Value::String(_) if RANDOM_IDS.contains(&key) => placeholder("<id>"),
            Value::String(_) if matches!(key, "request_id" | "requestId") => placeholder("<request>"),
            Value::String(_) if key == "claude_code_version" => placeholder("<version>"),
            Value::Number(_) if is_duration(key) => placeholder("<ms>"),
            Value::Number(_) if MOMENTS.contains(&key) => placeholder("<time>"),
            Value::Number(_) if key == "pid" => placeholder("<pid>"),
            Value::Number(_) if COST_FIELDS.contains(&key) && self.costs == Costs::Hide => {
                placeholder("<cost>")
            }
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.field(key, item)).collect(),
            Value::Object(fields) => Value::Object(
                fields.iter().map(|(key, value)| (self.text(key), self.field(key, value))).collect(),
            ),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in &self.replacements {
            if text.contains(from.as_str()) {
                text = text.replace(from.as_str(), to);
            }
        }
        let text = UUID.replace_all(&text, "<uuid>");
        TIME.replace_all(&text, "<time>").into_owned()
    }
}

fn is_duration(key: &str) -> bool {
    (key.ends_with("_ms") || key.ends_with("Ms")) && !CHOSEN.contains(&key)
}

/// One value with nothing but the general rules.
pub fn normalise(value: &Value) -> Value {
    Normaliser::default().value(value)
}

/// All lines of a run with nothing but the general rules.
pub fn normalise_lines(lines: &[Value]) -> Vec<Value> {
    Normaliser::default().lines(lines)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_varies_becomes_a_placeholder_and_the_rest_stays() {
        let line = json!({
            "type": "result", "session_id": "18a11066-59ff-4bcb-a3ea-c6c21412779d", "duration_ms": 12, "totalDurationMs": 3,
            "timeout_ms": 5000, "timestamp": "2026-11-15T23:59:28.992Z", "request_id": "req_1", "num_turns": 2, "pid": 17,
            "total_cost_usd": 0.5, "path": "/tmp/x/work/a 18a11066-59ff-4bcb-a3ea-c6c21412779d.jsonl", "tool": "toolu_001_0",
        });
        let normaliser = Normaliser::default()
            .replace("/tmp/x", "<root>")
            .replace("/tmp/x/work", "<cwd>")
            .costs(Costs::Hide);
        let expected = json!({
            "type": "result", "session_id": "<uuid>", "duration_ms": "<ms>", "totalDurationMs": "<ms>",
            "timeout_ms": 5000, "timestamp": "<time>", "request_id": "<request>", "num_turns": 2, "pid": "<pid>",
            "total_cost_usd": "<cost>", "path": "<cwd>/a <uuid>.jsonl", "tool": "toolu_001_0",
        });
        assert_eq!(normaliser.value(&line), expected);
        assert_eq!(normalise(&line)["total_cost_usd"], 0.5);
    }

    #[test]
    fn random_ids_are_found_in_texts_of_other_lines() {
        let lines = [json!({"text": "started bxe5eun67"}), json!({"task_id": "bxe5eun67"})];
        assert_eq!(normalise_lines(&lines), [json!({"text": "started <id>"}), json!({"task_id": "<id>"})]);
    }

    #[test]
    fn normalising_twice_changes_nothing_more() {
        let line = json!({"uuid": "18a11066-59ff-4bcb-a3ea-c6c21412779d", "ttft_ms": 4, "at": "2026-01-01T00:00:00+01:00"});
        let once = normalise(&line);
        assert_eq!(normalise(&once), once);
    }
}
