//! Sessions with hooks: what the hooks are, what they say, and what the model must have been told.

use std::path::Path;

use serde_json::{Value, json};

use super::Setup;

/// A session on a script with the hooks of a settings file. `turns` is a list of turns in the full form.
pub fn hooked(turns: Value, folder: &Path, hooks: Value) -> Setup {
    let mut setup = Setup::new(json!({"turns": turns, "at_end": "error"}), folder);
    setup.hooks = hooks;
    setup
}

/// One handler for all subjects of an event.
pub fn on(event: &str, handler: Value) -> Value {
    json!({event: [{"hooks": [handler]}]})
}

/// A command.
pub fn command(command: &str) -> Value {
    json!({"type": "command", "command": command})
}

/// A command that answers with JSON.
pub fn answers(output: &Value) -> Value {
    command(&format!("cat <<'END'\n{output}\nEND"))
}

/// A command that answers with fields of its event.
pub fn specific(event: &str, fields: Value) -> Value {
    let mut specific = json!({"hookEventName": event});
    for (key, value) in fields.as_object().expect("fields") {
        specific[key] = value.clone();
    }
    answers(&json!({"hookSpecificOutput": specific}))
}

/// A turn that calls Bash.
pub fn bash(command: &str) -> Value {
    json!({"tools": [{"name": "Bash", "input": {"command": command}}]})
}

/// A turn with a text, which fails unless the conversation holds all of these, in this order.
pub fn says(text: &str, seen: &[&str]) -> Value {
    let quoted = |part: &&str| {
        let quote = |c: char| if c.is_ascii_punctuation() { format!("\\{c}") } else { c.to_string() };
        part.chars().map(quote).collect::<String>()
    };
    let regex = format!("(?s){}", seen.iter().map(quoted).collect::<Vec<_>>().join(".*"));
    json!({"text": text, "expect": {"body": {"/messages": {"regex": regex}}}})
}

/// The lines that hooks wrote to a file of the folder, parsed.
pub fn lines(folder: &Path, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}
