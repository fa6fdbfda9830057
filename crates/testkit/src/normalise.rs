//! Makes two runs comparable: values that differ from run to run (ids, times, durations, paths) are replaced by
//! placeholders, and everything else stays.
//!
//! There are two ways to apply the same rules. [`Normaliser`] takes parsed values and gives every id the same
//! placeholder, for comparisons of single frames. [`NumberedNormaliser`] takes text, changes only the bytes that a rule
//! matches, and numbers ids in the order in which they occur, so that equal ids can still be recognised.
//!
//! Ids of tasks and agents are random and also occur inside texts. Both ways therefore first collect them from the
//! fields that are known to hold them.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

static UUID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").expect("the pattern is fixed")
});
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)").expect("the pattern is fixed")
});
/// The date in the system prompt. Other dates (versions of the API, names of betas) are compared.
static TODAY: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"Date: \d{4}-\d\d-\d\d").expect("the pattern is fixed"));
static OWN_VERSION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"lathe/\d+\.\d+\.\d+[0-9A-Za-z.+-]*").expect("the pattern is fixed"));
/// A saved copy of a file, named after a hash of its path.
static SAVED_COPY: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b[0-9a-f]{16}@v").expect("the pattern is fixed"));
/// A field with a number, also in JSON that is inside a string.
static NUMBER_FIELD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?P<quote>\\*")(?P<key>[A-Za-z_]+)\\*":(?P<space> ?)-?\d[0-9.eE+-]*"#)
        .expect("the pattern is fixed")
});
/// A field that is known to hold a version or a random id, also in JSON that is inside a string.
static TEXT_FIELD: LazyLock<Regex> = LazyLock::new(|| {
    let keys = RANDOM_IDS.iter().chain(&VERSIONS).copied().collect::<Vec<_>>().join("|");
    let pattern = format!(r#"(?P<quote>\\*")(?P<key>{keys})\\*":(?P<space> ?)\\*"(?P<text>[^"\\]*)\\*""#);
    Regex::new(&pattern).expect("the keys are plain words")
});

/// Fields whose strings are random.
const RANDOM_IDS: [&str; 7] =
    ["task_id", "taskId", "agent_id", "agentId", "backgroundTaskId", "shell_id", "job_id"];
/// Fields whose numbers are points in time.
const MOMENTS: [&str; 5] = ["end_time", "start_time", "startTime", "nextFireAt", "resets_at"];
/// Fields with durations whose names do not end in a unit.
const DURATIONS: [&str; 4] =
    ["totalDuration", "totalAPIDuration", "totalAPIDurationWithoutRetries", "totalToolDuration"];
/// Fields whose strings change with each release.
const VERSIONS: [&str; 2] = ["claude_code_version", "lathe_version"];
/// Fields with limits that the test sets, although their names look like those of durations.
const CHOSEN: [&str; 3] = ["timeout_ms", "timeoutMs", "timeout"];
const COST_FIELDS: [&str; 2] = ["total_cost_usd", "costUSD"];

/// Whether costs are compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Costs {
    /// Compared.
    #[default]
    Keep,
    /// Replaced.
    Hide,
}

/// The rules for parsed values.
#[derive(Debug, Clone, Default)]
pub struct Normaliser {
    replacements: Vec<(String, String)>,
    costs: Costs,
}

impl Normaliser {
    /// Adds a text that is replaced by `placeholder` everywhere, before all other rules. Longer texts are replaced
    /// before shorter ones.
    pub fn replace(mut self, text: &str, placeholder: &str) -> Self {
        self.replacements.push((text.to_owned(), placeholder.to_owned()));
        self.replacements.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        self
    }

    /// Sets whether costs are compared.
    pub fn costs(mut self, costs: Costs) -> Self {
        self.costs = costs;
        self
    }

    /// Converts the rules into those for text, with numbered ids; numbering starts at 1.
    pub fn numbered(self) -> NumberedNormaliser {
        NumberedNormaliser { rules: self, kept: HashSet::new(), numbers: HashMap::new() }
    }

    /// Returns one value normalised, without collecting ids: a random id is replaced in its field, but not inside
    /// texts.
    pub fn value(&self, value: &Value) -> Value {
        self.field("", value)
    }

    /// Returns all lines of a run normalised. Random ids are collected from all of them first, so that they are
    /// replaced inside texts too.
    pub fn lines(&self, lines: &[Value]) -> Vec<Value> {
        let mut knowing = self.clone();
        lines.iter().for_each(|line| knowing.collect_ids("", line));
        lines.iter().map(|line| knowing.value(line)).collect()
    }

    /// Adds every random id in a value to the texts that are replaced everywhere. Ids of fewer than six characters are
    /// left out. Entries of a list have the key of the list.
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

    /// Normalises the value of a key: the key decides about ids, versions and numbers; all other texts, keys included,
    /// get the general rules.
    fn field(&self, key: &str, value: &Value) -> Value {
        let placeholder = |text: &str| Value::String(text.to_owned());
        match value {
            Value::String(_) if RANDOM_IDS.contains(&key) => placeholder("<id>"),
            Value::String(_) if matches!(key, "request_id" | "requestId") => placeholder("<request>"),
            Value::String(_) if VERSIONS.contains(&key) => placeholder("<version>"),
            Value::Number(number) => match self.number(key) {
                Some(text) => placeholder(text),
                None => Value::Number(number.clone()),
            },
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.field(key, item)).collect(),
            Value::Object(fields) => Value::Object(
                fields.iter().map(|(key, value)| (self.text(key), self.field(key, value))).collect(),
            ),
            Value::Null | Value::Bool(_) => value.clone(),
        }
    }

    /// Returns the placeholder for a number in the field `key`; `None` if the number does not vary and is compared.
    fn number(&self, key: &str) -> Option<&'static str> {
        match key {
            "pid" => Some("<pid>"),
            key if is_duration(key) => Some("<ms>"),
            key if MOMENTS.contains(&key) => Some("<time>"),
            key if COST_FIELDS.contains(&key) && self.costs == Costs::Hide => Some("<cost>"),
            _ => None,
        }
    }

    /// Returns the text with known texts replaced first, then UUIDs and times. The order matters: a path or id that was
    /// added may contain a UUID.
    fn text(&self, text: &str) -> String {
        let text = self.replaced(text);
        let text = UUID.replace_all(&text, "<uuid>");
        TIME.replace_all(&text, "<time>").into_owned()
    }

    /// Returns the text with the texts that were added replaced, longest first, as [`Self::replace`] sorted them.
    fn replaced(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in &self.replacements {
            if text.contains(from.as_str()) {
                text = text.replace(from.as_str(), to);
            }
        }
        text
    }
}

/// Applies the rules of a [`Normaliser`] to text, and numbers ids across all texts.
#[derive(Debug, Clone)]
pub struct NumberedNormaliser {
    rules: Normaliser,
    /// Ids that are not replaced.
    kept: HashSet<String>,
    /// The placeholder of each id.
    numbers: HashMap<String, String>,
}

impl NumberedNormaliser {
    /// Keeps every UUID in `text`, because the test chose it and it does not vary. Must be called before the texts that
    /// contain them are normalised.
    pub fn keep_ids_of(&mut self, text: &str) {
        self.kept.extend(UUID.find_iter(text).map(|id| id.as_str().to_owned()));
    }

    /// Returns the text with values that vary replaced; all other bytes stay as they are. Ids are numbered over all
    /// calls, so texts must come in the same order in every run. A random id is replaced only from the text on in which
    /// a field names it; an earlier text keeps it.
    pub fn text(&mut self, text: &str) -> String {
        let mut text = self.rules.replaced(text);
        for field in TEXT_FIELD.captures_iter(&text) {
            let id = &field["text"];
            if RANDOM_IDS.contains(&&field["key"]) && id.len() >= 6 && !UUID.is_match(id) {
                let number = self.numbers.len() + 1;
                self.numbers.entry(id.to_owned()).or_insert_with(|| format!("<id-{number}>"));
            }
        }
        for (id, placeholder) in
            self.numbers.iter().filter(|(_, placeholder)| placeholder.starts_with("<id-"))
        {
            text = text.replace(id.as_str(), placeholder);
        }
        let text = UUID.replace_all(&text, |id: &Captures<'_>| self.uuid(&id[0]));
        let text = SAVED_COPY.replace_all(&text, |name: &Captures<'_>| self.saved_copy(&name[0]));
        let text = TIME.replace_all(&text, "<time>");
        let text = TODAY.replace_all(&text, "Date: <date>");
        let text = OWN_VERSION.replace_all(&text, "lathe/<version>");
        let text = NUMBER_FIELD
            .replace_all(&text, |field: &Captures<'_>| with_value(field, self.rules.number(&field["key"])));
        let version = |field: &Captures<'_>| {
            with_value(field, VERSIONS.contains(&&field["key"]).then_some("<version>"))
        };
        TEXT_FIELD.replace_all(&text, version).into_owned()
    }

    /// Returns the placeholder of a UUID, numbered by first appearance; the same UUID always gets the same one. Kept
    /// UUIDs stay as they are.
    fn uuid(&mut self, id: &str) -> String {
        if self.kept.contains(id) {
            return id.to_owned();
        }
        let number = self.numbers.len() + 1;
        self.numbers.entry(id.to_owned()).or_insert_with(|| format!("<uuid-{number}>")).clone()
    }

    /// Returns the placeholder for the name of a saved copy. It is numbered in the same sequence as the ids.
    fn saved_copy(&mut self, name: &str) -> String {
        let number = self.numbers.len() + 1;
        self.numbers.entry(name.to_owned()).or_insert_with(|| format!("<copy-{number}>@v")).clone()
    }
}

/// Returns a field of JSON text with a placeholder as its value, or unchanged if there is none.
fn with_value(field: &Captures<'_>, placeholder: Option<&str>) -> String {
    let Some(placeholder) = placeholder else { return field[0].to_owned() };
    let (quote, key, space) = (&field["quote"], &field["key"], &field["space"]);
    format!("{quote}{key}{quote}:{space}{quote}{placeholder}{quote}")
}

/// Returns whether the key holds a measured time, by its name or the ending `_ms` or `Ms`. Keys in [`CHOSEN`] are
/// excepted, because the test sets their value.
fn is_duration(key: &str) -> bool {
    DURATIONS.contains(&key) || ((key.ends_with("_ms") || key.ends_with("Ms")) && !CHOSEN.contains(&key))
}

/// Returns one value normalised with the general rules only; see [`Normaliser::value`].
pub fn normalise(value: &Value) -> Value {
    Normaliser::default().value(value)
}

/// Returns all lines of a run normalised with the general rules only; see [`Normaliser::lines`].
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
    fn numbered_ids_show_which_are_the_same_and_other_bytes_stay() {
        let (a, b) = ("18a11066-59ff-4bcb-a3ea-c6c21412779d", "28a11066-59ff-4bcb-a3ea-c6c21412779d");
        let chosen = "5e55104e-0000-4000-8000-000000000001";
        let mut filter = Normaliser::default().replace("/tmp/x", "<root>").numbered();
        filter.keep_ids_of(chosen);
        let text = format!(
            r#"{{"a":"{b}","b" : "{a}","c":"{b} /tmp/x/{chosen}","n":1.50,"u":"\u00e9","duration_ms":12,"pid": 7}}"#
        );
        assert_eq!(
            filter.text(&text),
            format!(
                r#"{{"a":"<uuid-1>","b" : "<uuid-2>","c":"<uuid-1> <root>/{chosen}","n":1.50,"u":"\u00e9","duration_ms":"<ms>","pid": "<pid>"}}"#
            )
        );
        let inside = format!(r#"{{"text":"{{\"duration_ms\":3,\"timeout_ms\":4,\"id\":\"{a}\"}}"}}"#);
        let expected = r#"{"text":"{\"duration_ms\":\"<ms>\",\"timeout_ms\":4,\"id\":\"<uuid-2>\"}"}"#;
        assert_eq!(filter.text(&inside), expected, "numbers go on, also in JSON inside of text");
        assert_eq!(filter.text("0123456789abcdef@v2 0123456789abcdef@v1"), "<copy-3>@v2 <copy-3>@v1");
        let version = filter.text(r#"{\"lathe_version\":\"0.1.0\",\"version\":\"2.1\"}"#);
        assert_eq!(version, r#"{\"lathe_version\":\"<version>\",\"version\":\"2.1\"}"#);
        let tasks =
            filter.text(r#"started bxe5eun67 {"task_id":"bxe5eun67"} with lathe/0.1.0 - Date: 2026-01-31"#);
        assert_eq!(tasks, r#"started <id-4> {"task_id":"<id-4>"} with lathe/<version> - Date: <date>"#);
    }

    #[test]
    fn normalising_twice_changes_nothing_more() {
        let line = json!({"uuid": "18a11066-59ff-4bcb-a3ea-c6c21412779d", "ttft_ms": 4, "at": "2026-01-01T00:00:00+01:00"});
        let once = normalise(&line);
        assert_eq!(normalise(&once), once);
    }
}
