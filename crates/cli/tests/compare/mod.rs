//! How a stream of ours is held against one of the reference: the same types in the same order, the same
//! fields, and the same values where clients rely on them. Texts that are ours are compared by shape only.
//!
//! The recordings are read where they lie, beside the repository, and nothing of them is kept here.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod tools;

use std::path::Path;

use serde_json::{Map, Value};

/// Whether the run's texts are the reference's, so that values can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Texts {
    Same,
    Ours,
}

/// Fields of the reference that Lathe has no use for: hosted features, and facts about itself.
const NOT_OURS: &[&str] = &[
    "messaging_socket_path",
    "memory_paths",
    "per_turn_effort_active",
    "ultrathink_available",
    "ultrathink_typed_raises",
    "thinking_display",
    "thinking_duration_ms",
    "request_sent_wall_ms",
    "first_request_input_tokens",
    "first_request_cache_read_input_tokens",
    "diagnostics",
    "gitDiff",
    "staleReadFileStateHint",
    "noOutputExpected",
    "contentNotInModelContext",
    "api_error_params",
    "user_output_styles_dir",
    "other_hook_ask_outranks_host",
    "feedback_mode",
    "remote_control_auto_enable",
    "remote_control_auto_connect_default",
    "remote_control_available",
    "remote_control_auto_on_by_default",
    "ide_rc_auto_enable_gate",
    "server_policy_ask_only",
];

/// Lists whose entries are each runtime's own.
const OWN_LISTS: &[&str] = &[
    "tools",
    "slash_commands",
    "terminal_slash_commands",
    "commands",
    "agents",
    "skills",
    "plugins",
    "capabilities",
    "models",
    "available_output_styles",
    "categories",
    "gridRows",
    "eventCatalog",
];

/// Fields that are compared by value in every run.
const COMPARED: &[&str] = &[
    "type",
    "subtype",
    "is_error",
    "num_turns",
    "stop_reason",
    "terminal_reason",
    "permissionMode",
    "model",
    "apiKeySource",
    "name",
    "tool_name",
    "tool_use_id",
    "role",
    "input",
    "index",
    "isSynthetic",
    "isReplay",
    "decision",
    "error",
    "error_status",
    "api_error_status",
    "api_error_type",
    "api_error",
    "attempt",
    "max_retries",
    "result_index",
    "queued_turn_count",
    "non_execution_kind",
    "input_tokens",
    "output_tokens",
    "total_cost_usd",
    "trigger",
    "original_model",
    "fallback_model",
];

/// Frames that clients of an older generation were not sent, or were sent at another moment: all of a turn's tasks at
/// its end. Lathe sends them to every client, because these pass on what they do not know.
const NEWER_FRAMES: &[&str] =
    &["permission_denied", "background_tasks_changed", "task_started", "task_updated", "task_notification"];

/// Returns the version of the client that a run was recorded with, where it is one of an older generation.
fn older_client(recorded: &Value) -> Option<&str> {
    recorded["version"].as_str().filter(|version| version.starts_with("0.2."))
}

/// Returns the variables of a recorded run. Older clients name their version in one, and had another model to begin with.
pub fn environment(dir: &Path, recorded: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut variables: Vec<(String, String)> = recorded["env"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), text(value)))
        .collect();
    if let Some(version) = older_client(recorded) {
        variables.push(("CLAUDE_AGENT_SDK_VERSION".to_owned(), version.to_owned()));
        let stdout = std::fs::read_to_string(dir.join("stdout.jsonl")).unwrap_or_default();
        let mut frames = stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let init = frames.find(|frame| frame["subtype"] == "init").unwrap_or_default();
        variables.push(("ANTHROPIC_MODEL".to_owned(), text(&init["model"])));
    }
    variables
}

/// Removes from both sides of a comparison what is different for every older client: frames that are newer than it, the
/// reason of the stop, which its results left out, and costs, because prices were others and its CLI asked a small model
/// about every command.
pub fn as_older_clients_see(recorded: &Value, mut frames: Vec<Value>) -> Vec<Value> {
    if older_client(recorded).is_none() {
        return frames;
    }
    frames.retain(|frame| match frame["subtype"].as_str() {
        // Of another mode they were told, of a request not.
        Some("status") => !frame["permissionMode"].is_null(),
        Some(name) => !NEWER_FRAMES.contains(&name),
        None => true,
    });
    for frame in frames.iter_mut().filter(|frame| frame["type"] == "result") {
        frame["stop_reason"] = Value::Null;
        frame["total_cost_usd"] = Value::Null;
        frame["modelUsage"] = Value::Null;
    }
    frames
}

/// Frame by frame; the differences in words.
pub fn compare_frames(expected: &[Value], actual: &[Value], texts: Texts) -> Result<(), String> {
    let kinds = |frames: &[Value]| -> Vec<String> { frames.iter().map(kind).collect() };
    if kinds(expected) != kinds(actual) {
        return Err(format!(
            "frames differ\n  recorded: {}\n  ours:     {}",
            kinds(expected).join(", "),
            kinds(actual).join(", ")
        ));
    }
    let mut differences = Differences { texts, found: Vec::new() };
    for (at, (expected, actual)) in expected.iter().zip(actual).enumerate() {
        differences.look(expected, actual, &format!("frame {at} ({})", kind(expected)), "");
    }
    differences.result()
}

/// One value against another; what ours has beyond the recording is no difference.
pub fn compare_value(expected: &Value, actual: &Value, path: &str, texts: Texts) -> Result<(), String> {
    let mut differences = Differences { texts, found: Vec::new() };
    differences.look(expected, actual, path, "");
    differences.result()
}

/// What was found so far.
struct Differences {
    texts: Texts,
    found: Vec<String>,
}

impl Differences {
    fn result(self) -> Result<(), String> {
        if self.found.is_empty() { Ok(()) } else { Err(self.found.join("\n  ")) }
    }

    fn differs(&mut self, path: &str, expected: &Value, actual: &Value) {
        self.found.push(format!("{path}: recorded {expected}, ours {actual}"));
    }

    fn look(&mut self, expected: &Value, actual: &Value, path: &str, key: &str) {
        let compared = COMPARED.contains(&key) || self.texts == Texts::Same;
        let same = match (expected, actual) {
            (Value::Object(expected), Value::Object(actual)) => {
                return self.look_at_fields(expected, actual, path);
            }
            (Value::Array(expected), Value::Array(actual)) => {
                if expected.len() != actual.len() {
                    let counts = format!("{} entries recorded, ours {}", expected.len(), actual.len());
                    return self.found.push(format!("{path}: {counts}"));
                }
                for (at, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                    self.look(expected, actual, &format!("{path}[{at}]"), key);
                }
                return;
            }
            (Value::String(text), Value::String(ours)) => text == ours || text.contains("…[") || !compared,
            (Value::Number(_), Value::Number(_)) => {
                let (a, b) = (expected.as_f64().unwrap_or(0.0), actual.as_f64().unwrap_or(1.0));
                (a - b).abs() < 1e-9 || !compared
            }
            (Value::Null, Value::Null) => true,
            (Value::Bool(theirs), Value::Bool(ours)) if theirs == ours => true,
            // A result that was shortened to nothing, or that depends on the clock of the run.
            (Value::String(text), _) if text.starts_with('<') => true,
            (expected, actual) if kind_of(expected) == kind_of(actual) => !compared,
            _ => false,
        };
        if !same {
            self.differs(path, expected, actual);
        }
    }

    fn look_at_fields(&mut self, expected: &Map<String, Value>, actual: &Map<String, Value>, path: &str) {
        for (key, expected) in expected {
            if NOT_OURS.contains(&key.as_str()) || OWN_LISTS.contains(&key.as_str()) {
                continue;
            }
            let path = format!("{path}.{key}");
            match actual.get(key) {
                Some(actual) => self.look(expected, actual, &path, key),
                None => self.found.push(format!("{path} is missing; recorded {expected}")),
            }
        }
    }
}

/// What a frame is, in a word.
pub fn kind(frame: &Value) -> String {
    let text = |key: &str| frame[key].as_str().unwrap_or("").to_owned();
    let detail = match frame["type"].as_str() {
        Some("stream_event") => frame["event"]["type"].as_str().unwrap_or("").to_owned(),
        Some("assistant" | "user") => {
            frame["message"]["content"][0]["type"].as_str().unwrap_or("").to_owned()
        }
        Some("control_request") => {
            let request = &frame["request"];
            let about = [&request["tool_name"], &request["input"]["hook_event_name"]];
            let about = about.iter().find_map(|name| name.as_str()).unwrap_or("");
            format!("{} {about}", request["subtype"].as_str().unwrap_or(""))
        }
        Some("command_lifecycle") => text("state"),
        _ => text("subtype"),
    };
    if frame.is_string() { "text".to_owned() } else { format!("{} {detail}", text("type")) }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
