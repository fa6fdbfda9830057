//! Takes what needs trust apart into items: each hook, rule, variable and server one by one, with what a person has to
//! see of it and a hash of its content.
//!
//! Trust is remembered by these hashes, so a change to one item leaves the others trusted. What needs trust at all is
//! decided in [`crate::withhold`] for settings and in [`super::listing`] for files.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::kinds::ContentKind;
use crate::withhold::kind_of_key;

/// One thing that a folder brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentItem {
    /// What kind of thing.
    pub kind: ContentKind,
    /// The file it stands in, relative to the folder.
    pub file: String,
    /// Where in the file, or which of several.
    pub name: String,
    /// What it would do, whole: a command, a rule, a value. Text of the folder: escape it before it is printed.
    pub shown: String,
    /// SHA-256 of kind, file, name and content, in hexadecimal digits; `None` if the content cannot be read, and then
    /// it is never trusted.
    pub hash: Option<String>,
}

impl ContentItem {
    /// Makes an item with the hash of its content. The kind, file and name are part of the hash: an item that moves is
    /// a new one.
    pub(crate) fn new(kind: ContentKind, file: &str, name: String, shown: String, content: &[u8]) -> Self {
        let hash = Some(hash(kind, file, &name, content));
        Self { kind, file: file.to_owned(), name, shown, hash }
    }

    /// Makes an item for a file that cannot be read. It has no hash, so it can never be trusted.
    pub(crate) fn unreadable(kind: ContentKind, file: &str, why: &str) -> Self {
        let shown = format!("(cannot be read: {why})");
        Self { kind, file: file.to_owned(), name: file.to_owned(), shown, hash: None }
    }

    /// Returns name and content of the item in one line of bounded length, escaped so that it can be printed.
    pub(crate) fn summary(&self) -> String {
        const MAX_CHARS: usize = 120;
        let text =
            if self.shown.is_empty() { self.name.clone() } else { format!("{}: {}", self.name, self.shown) };
        let mut short: String = text.chars().take(MAX_CHARS).collect();
        if short.len() < text.len() {
            short.push('…');
        }
        // Escaped after the cut, which therefore cannot split an escape sequence.
        printable(&short)
    }
}

/// One grant of a settings file, as settings of its own. All parts of a file laid over each other are the whole again.
#[derive(Debug, Clone)]
pub(crate) struct SettingsPart {
    pub item: ContentItem,
    pub settings: Map<String, Value>,
}

/// Splits the settings that [`crate::withhold::withhold`] took out of a file into items, each trusted on its own.
/// Together they give the same settings again.
pub(crate) fn parts(file: &str, taken: &Map<String, Value>) -> Vec<SettingsPart> {
    let mut parts = Parts { file, found: Vec::new() };
    for (key, value) in taken {
        match (key.as_str(), value) {
            ("permissions", Value::Object(permissions)) => parts.permissions(permissions),
            ("hooks", Value::Object(events)) => parts.hooks(events),
            ("env", Value::Object(variables)) => {
                for (name, value) in variables {
                    parts.add(kind_of_variable(name), &["env", name], value);
                }
            }
            ("sandbox", value) => parts.leaves(ContentKind::Sandbox, &["sandbox"], value),
            ("enabledPlugins" | "extraKnownMarketplaces" | "pluginConfigs", Value::Object(plugins)) => {
                for (name, value) in plugins {
                    parts.add(ContentKind::Plugins, &[key, name], value);
                }
            }
            (key, value) => parts.add(kind_of_key(key), &[key], value),
        }
    }
    parts.found
}

struct Parts<'a> {
    file: &'a str,
    found: Vec<SettingsPart>,
}

impl Parts<'_> {
    /// Adds a setting as one item, named by its path and shown with its value.
    fn add(&mut self, kind: ContentKind, path: &[&str], value: &Value) {
        self.push(kind, path, path.join("."), text_of(value), value.clone());
    }

    /// Adds an item together with the settings it stands for: an object that has only `value` at `path`. The hash of
    /// the item is made of `value`.
    fn push(&mut self, kind: ContentKind, path: &[&str], name: String, shown: String, value: Value) {
        // Cannot fail: a `Value` has only string keys.
        let content = serde_json::to_vec(&value).unwrap_or_default();
        let whole = path.iter().rev().fold(value, |below, key| json!({ *key: below }));
        let Value::Object(settings) = whole else { return };
        let item = ContentItem::new(kind, self.file, name, shown, &content);
        self.found.push(SettingsPart { item, settings });
    }

    /// Adds what `permissions` grants, each entry of a list as its own item, so that each is trusted separately.
    fn permissions(&mut self, permissions: &Map<String, Value>) {
        for (key, value) in permissions {
            let kind = match key.as_str() {
                "allow" => ContentKind::AllowRules,
                "additionalDirectories" => ContentKind::AdditionalDirectories,
                "defaultMode" => ContentKind::PermissionModes,
                _ => ContentKind::Switches,
            };
            let path = ["permissions", key.as_str()];
            match value {
                Value::Array(entries) => {
                    for entry in entries {
                        self.push(kind, &path, path.join("."), text_of(entry), json!([entry]));
                    }
                }
                value => self.add(kind, &path, value),
            }
        }
    }

    /// Adds each hook handler as an item, together with the matcher of its group, because both decide when it runs.
    fn hooks(&mut self, events: &Map<String, Value>) {
        for (event, groups) in events {
            let path = ["hooks", event.as_str()];
            let Value::Array(groups) = groups else {
                self.add(ContentKind::Hooks, &path, groups);
                continue;
            };
            for group in groups {
                let handlers = group.get("hooks").and_then(Value::as_array).cloned();
                let name = match group.get("matcher").and_then(Value::as_str) {
                    Some(matcher) if !matcher.is_empty() => format!("hooks.{event}({matcher})"),
                    Some(_) | None => format!("hooks.{event}"),
                };
                for handler in handlers.iter().flatten() {
                    let mut alone = group.clone();
                    alone["hooks"] = json!([handler]);
                    let shown = handler_text(group, handler).unwrap_or_else(|| text_of(&alone));
                    self.push(ContentKind::Hooks, &path, name.clone(), shown, json!([alone]));
                }
                // A group without handlers runs nothing, but without it the parts would not add up to the whole.
                if handlers.is_none_or(|handlers| handlers.is_empty()) {
                    self.push(ContentKind::Hooks, &path, name, text_of(group), json!([group]));
                }
            }
        }
    }

    /// Adds each single value and list entry below a value as an item; an empty object or list is an item too.
    fn leaves(&mut self, kind: ContentKind, path: &[&str], value: &Value) {
        match value {
            // An empty object or list has no leaves and is a part itself; otherwise the parts would not add up to the
            // whole.
            Value::Object(below) if !below.is_empty() => {
                for (key, value) in below {
                    self.leaves(kind, &[path, &[key.as_str()]].concat(), value);
                }
            }
            Value::Array(entries) if !entries.is_empty() => {
                for entry in entries {
                    self.push(kind, path, path.join("."), text_of(entry), json!([entry]));
                }
            }
            value => self.add(kind, path, value),
        }
    }
}

/// Returns the command of a handler that has nothing but a command and a matcher; `None` for any other, which is
/// shown as JSON.
fn handler_text(group: &Value, handler: &Value) -> Option<String> {
    let has_only = |value: &Value, keys: [&str; 2]| {
        value.as_object().is_some_and(|object| object.keys().all(|key| keys.contains(&key.as_str())))
    };
    let is_plain = has_only(group, ["matcher", "hooks"])
        && has_only(handler, ["type", "command"])
        && handler.get("type").is_some_and(|kind| kind == "command");
    handler.get("command").and_then(Value::as_str).filter(|_| is_plain).map(str::to_owned)
}

/// Returns a value as it is shown: a text unchanged, anything else as JSON.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the kind of a variable: those whose names suggest addresses or headers are listed on their own. The kind
/// changes only the listing; both are withheld.
fn kind_of_variable(name: &str) -> ContentKind {
    const ENDS: [&str; 5] = ["_BASE_URL", "_PROXY", "_HEADERS", "_ENDPOINT", "_URL"];
    let upper = name.to_uppercase();
    if ENDS.iter().any(|end| upper.ends_with(end)) {
        ContentKind::Destinations
    } else {
        ContentKind::Variables
    }
}

/// Returns the SHA-256 of an item in hexadecimal. Users' trust is stored by this value: a change here makes everything
/// untrusted again.
fn hash(kind: ContentKind, file: &str, name: &str, content: &[u8]) -> String {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for part in [kind.as_str().as_bytes(), file.as_bytes(), name.as_bytes(), content] {
        // The lengths keep the end of one part from passing for the beginning of the next.
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    context.finish().as_ref().iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns a text from the folder with everything escaped that a terminal would act on, hide or reorder, line ends
/// included. All text of a folder must pass here before it is printed, so that a person sees the real command.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let is_deceptive = matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
        if c.is_control() || is_deceptive {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::lay_over;
    use crate::withhold::withhold;

    fn everything() -> Map<String, Value> {
        let command = |line: &str| json!({ "type": "command", "command": line });
        let settings = json!({
            "hooks": {
                "PreToolUse": [
                    { "matcher": "Bash", "hooks": [command("a"), command("b")] },
                    { "hooks": [{ "type": "http", "url": "http://x" }] }
                ],
                "Stop": [{ "hooks": [command("a")] }]
            },
            "permissions": {
                "allow": ["Bash(x)", "Bash(y)"], "additionalDirectories": ["/a"], "defaultMode": "acceptEdits"
            },
            "env": { "ANTHROPIC_BASE_URL": "http://x", "FOO": "1" },
            "apiKeyHelper": "h", "statusLine": { "type": "command", "command": "s" },
            "enabledPlugins": { "p@m": true, "q@m": true }, "disableAllHooks": true,
            "sandbox": { "enabled": false, "network": { "allowedDomains": ["a", "b"] } }
        });
        settings.as_object().unwrap().clone()
    }

    #[test]
    fn the_parts_are_the_whole() {
        let mut settings = everything();
        let (taken, _) = withhold(&mut settings);
        let parts = parts("f", &taken);
        let mut hashes: Vec<&str> = parts.iter().filter_map(|part| part.item.hash.as_deref()).collect();
        assert_eq!(hashes.len(), 18, "{parts:#?}");
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 18, "each has a hash of its own");
        let mut again = Map::new();
        parts.iter().for_each(|part| lay_over(&mut again, &part.settings));
        // Handlers of one group have become groups of their own, and are taken apart in the same way.
        let same = super::parts("f", &again);
        let texts = |parts: &[SettingsPart]| -> Vec<String> {
            let mut texts: Vec<_> =
                parts.iter().map(|part| Value::from(part.settings.clone()).to_string()).collect();
            texts.sort_unstable();
            texts
        };
        assert_eq!(texts(&same), texts(&parts));
        let without_hooks = |map: &Map<String, Value>| {
            let mut map = map.clone();
            map.shift_remove("hooks");
            Value::Object(map)
        };
        assert_eq!(without_hooks(&again), without_hooks(&taken));
    }

    #[test]
    fn a_change_of_one_byte_changes_the_hash_of_one_part() {
        let hashes = |settings: &Map<String, Value>| -> Vec<Option<String>> {
            let (taken, _) = withhold(&mut settings.clone());
            parts("f", &taken).into_iter().map(|part| part.item.hash).collect()
        };
        let before = everything();
        let mut after = before.clone();
        after["hooks"]["PreToolUse"][0]["hooks"][1]["command"] = "c".into();
        let differ = hashes(&before).into_iter().zip(hashes(&after)).filter(|(a, b)| a != b).count();
        assert_eq!(differ, 1);
        let mut moved = before.clone();
        moved["hooks"]["PreToolUse"][0]["matcher"] = "Edit".into();
        let differ = hashes(&before).into_iter().zip(hashes(&moved)).filter(|(a, b)| a != b).count();
        assert_eq!(differ, 2, "the matcher belongs to both handlers of its group");
    }

    #[test]
    fn what_a_terminal_would_act_on_is_escaped() {
        assert_eq!(printable("a\u{1b}[2Kb\r\n"), "a\\u{1b}[2Kb\\r\\n");
        assert_eq!(printable("rm \u{202e}x\u{200b} é 語"), "rm \\u{202e}x\\u{200b} é 語");
    }
}
