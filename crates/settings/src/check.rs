//! Checks one settings text: which keys mean nothing, which values have the wrong type, and whether what it
//! says about permissions can be relied on.
//!
//! The line between a warning and an error is the point of this module. A wrong key or value is named and
//! ignored. But where ignoring would drop a limit that a person relies on (a deny list that does not parse,
//! a `denny`, a second `permissions` that hides the first), it is an error and the caller fails closed.

use std::collections::HashSet;

use lathe_protocol::settings::{HookHandler, HookMatcher};
use lathe_protocol::{HookEvent, PermissionMode, Settings};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::file::{end_of, to_u32};
use crate::known;
use crate::locate::Positions;
use crate::nearest::nearest;
use crate::problem::{Origin, Position, SettingsProblem, Severity};

/// More unknown keys than this are not looked at one by one.
const MAX_UNKNOWN: usize = 200;

/// How strictly wrong types are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// A wrong type is a warning, except where permissions are concerned.
    Usual,
    /// Managed settings: every value is a limit, so every wrong type is an error.
    Policy,
}

/// A settings text, taken apart.
#[derive(Debug, Clone, Default)]
pub(crate) struct Document {
    /// As it was written.
    pub raw: Map<String, Value>,
    /// Without what has the wrong type.
    pub clean: Map<String, Value>,
    /// Where things stand.
    pub positions: Positions,
    /// What is wrong.
    pub problems: Vec<SettingsProblem>,
}

impl Document {
    /// Parses and checks the text of a settings file. Never fails: everything that is wrong is among the problems. A
    /// text that is not a JSON object leaves no settings and one error, an empty one only a warning.
    pub fn read(text: &str, origin: &Origin, strictness: Strictness) -> Self {
        let mut document = Self::default();
        // Unlike broken JSON, an empty file cannot hide a limit, so it is not an error.
        if text.trim().is_empty() {
            document.problems.push(SettingsProblem::warning(origin, None, "the file is empty"));
            return document;
        }
        match serde_json::from_str(text) {
            Ok(Value::Object(raw)) => {
                document.positions = Positions::of(text);
                document.check(raw, origin, strictness);
            }
            Ok(other) => {
                let message = format!("settings must be a JSON object, not {}", kind(&other));
                document.problems.push(SettingsProblem::error(origin, None, message));
            }
            Err(error) => document.problems.push(syntax(text, origin, &error)),
        }
        document
    }

    /// Checks settings that are a JSON value already, so their problems have no lines.
    pub fn of_value(raw: Map<String, Value>, origin: &Origin, strictness: Strictness) -> Self {
        let mut document = Self::default();
        document.check(raw, origin, strictness);
        document
    }

    /// Checks settings and keeps them twice: `raw` as they were written, `clean` without wrong values. Positions must
    /// be known before, or the problems have no lines.
    fn check(&mut self, raw: Map<String, Value>, origin: &Origin, strictness: Strictness) {
        let mut check = Check { origin, strictness, positions: &self.positions, problems: Vec::new() };
        check.duplicates();
        check.top_level(&raw);
        let clean = check.values(raw.clone());
        self.problems.append(&mut check.problems);
        (self.raw, self.clean) = (raw, clean);
    }
}

struct Check<'a> {
    origin: &'a Origin,
    strictness: Strictness,
    positions: &'a Positions,
    problems: Vec<SettingsProblem>,
}

impl Check<'_> {
    /// Adds a problem at the position of a key, or without one if the key has none. Returns it, so that the caller can
    /// add a hint.
    fn say(&mut self, severity: Severity, path: &[&str], message: String) -> &mut SettingsProblem {
        let at = self.positions.get(path);
        let problem = SettingsProblem { severity, ..SettingsProblem::warning(self.origin, at, message) };
        self.problems.push(problem);
        self.problems.last_mut().expect("one was just added")
    }

    /// Reports keys that occur twice in one object. This is an error where the lost value may be a permission rule, and
    /// otherwise a warning.
    fn duplicates(&mut self) {
        for (path, at) in &self.positions.duplicates {
            // The parser keeps the last of two equal keys, so the rules of the first would be lost without a word.
            let hides_rules = path[0] == "permissions" && path.len() <= 2;
            let make = if hides_rules { SettingsProblem::error } else { SettingsProblem::warning };
            let message =
                format!("`{}` stands there twice, and only the last one would count", path.join("."));
            self.problems.push(make(self.origin, Some(*at), message));
        }
    }

    /// Reports unknown top-level keys; they stay in the settings. A key that may have been meant to forbid something is
    /// an error, and so is a file with more than [`MAX_UNKNOWN`] of them, where the rest is not looked at.
    fn top_level(&mut self, raw: &Map<String, Value>) {
        let known: HashSet<&str> = known::top_level().collect();
        let unknown = || raw.iter().filter(|(key, _)| !known.contains(key.as_str()));
        let count = unknown().count();
        if count > MAX_UNKNOWN {
            let message = format!("{count} unknown keys: this does not look like a settings file");
            self.say(Severity::Error, &[], message);
        }
        for (key, value) in unknown().take(MAX_UNKNOWN) {
            let is_rule_list = matches!(key.as_str(), "allow" | "ask" | "deny");
            if is_rule_list {
                // A misplaced `allow` permits less than its author thinks; a misplaced `deny` or `ask` permits more.
                let severity = if key == "allow" { Severity::Warning } else { Severity::Error };
                let message = format!("`{key}` has no effect here: it belongs inside `permissions`");
                self.say(severity, &[key], message);
                continue;
            }
            let meant = nearest(key, known::top_level());
            let hides_rules =
                meant == Some("permissions") && (value.get("deny").is_some() || value.get("ask").is_some());
            let severity = if hides_rules { Severity::Error } else { Severity::Warning };
            self.unknown(severity, &[key], meant);
        }
    }

    /// Reports a key that is not known; `meant`, the key that was probably meant, becomes the hint.
    fn unknown(&mut self, severity: Severity, path: &[&str], meant: Option<&str>) {
        let problem = self.say(severity, path, format!("unknown key `{}`", path.join(".")));
        problem.hint = meant.map(|name| format!("did you mean `{name}`?"));
    }

    /// Returns the settings without values of the wrong type, each of which is reported, and without nulls at the top
    /// level and in `permissions`. Numbers and booleans in `env` become text; unknown keys stay.
    fn values(&mut self, mut raw: Map<String, Value>) -> Map<String, Value> {
        raw.retain(|_, value| !value.is_null());
        if let Some(env) = raw.get_mut("env").and_then(Value::as_object_mut) {
            env.values_mut().for_each(as_variable);
        }
        if let Some(names) = raw.get_mut("toolEnv").and_then(Value::as_array_mut) {
            self.variable_names("toolEnv", names);
        }
        self.permissions(&mut raw);
        if let Some(hooks) = raw.get_mut("hooks").and_then(Value::as_object_mut) {
            self.hooks(hooks);
        }
        // A sandbox is a limit that its author relies on, so ignoring it would fail open.
        if raw.get("sandbox").is_some_and(|sandbox| !sandbox.is_object()) {
            self.wrong_type(Severity::Error, &["sandbox"], "an object");
            raw.remove("sandbox");
        }
        let severity = match self.strictness {
            Strictness::Usual => Severity::Warning,
            Strictness::Policy => Severity::Error,
        };
        for (key, error) in drop_misfits(&mut raw) {
            self.say(severity, &[&key], format!("the value of `{key}` is ignored: {error}"));
        }
        raw
    }

    /// Removes names from a list that no variable can have, and reports them. Entries that are no text are left for the
    /// check of types.
    fn variable_names(&mut self, key: &str, names: &mut Vec<Value>) {
        let mut wrong = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let is_wrong = name.as_str().is_some_and(|name| name.is_empty() || name.contains(['=', '\0']));
            if is_wrong {
                wrong.push(index);
                let message =
                    format!("{name} in `{key}` is ignored: it takes names of variables, without values");
                self.say(Severity::Warning, &[key, &index.to_string()], message);
            }
        }
        let mut index = 0;
        names.retain(|_| {
            index += 1;
            !wrong.contains(&(index - 1))
        });
    }

    /// Reports a value of the wrong type; `expected` completes the words "must be".
    fn wrong_type(&mut self, severity: Severity, path: &[&str], expected: &str) {
        self.say(severity, path, format!("`{}` must be {expected}", path.join(".")));
    }

    /// Checks `permissions`, reports values of the wrong type and removes them, and removes nulls. Whatever may have
    /// been meant to forbid something is an error, never a warning: it must not be ignored silently. Unknown keys are
    /// reported and stay.
    fn permissions(&mut self, raw: &mut Map<String, Value>) {
        let Some(value) = raw.get_mut("permissions") else { return };
        let Some(permissions) = value.as_object_mut() else {
            self.wrong_type(Severity::Error, &["permissions"], "an object");
            raw.remove("permissions");
            return;
        };
        permissions.retain(|_, value| !value.is_null());
        let mut wrong = Vec::new();
        for (key, value) in permissions.iter() {
            let path = ["permissions", key.as_str()];
            match key.as_str() {
                "allow" | "ask" | "deny" | "additionalDirectories" => {
                    if !self.is_list_of_strings(&path, value) {
                        wrong.push(key.clone());
                    }
                }
                "defaultMode" | "disableBypassPermissionsMode" | "disableAutoMode" => {
                    if !self.is_choice(&path, value) {
                        wrong.push(key.clone());
                    }
                }
                other => {
                    let meant = if known::OTHER_WORDS_FOR_DENY.contains(&other) {
                        Some("deny")
                    } else {
                        nearest(other, known::PERMISSIONS.iter().copied())
                    };
                    let forbids = matches!(meant, Some("deny" | "ask" | "disableBypassPermissionsMode"));
                    let severity = if forbids { Severity::Error } else { Severity::Warning };
                    self.unknown(severity, &path, meant);
                }
            }
        }
        permissions.retain(|key, _| !wrong.contains(key));
    }

    /// Returns whether the value is a list of strings; otherwise the list or its first wrong entry is reported as an
    /// error. `path` must have two parts.
    fn is_list_of_strings(&mut self, path: &[&str], value: &Value) -> bool {
        let Some(list) = value.as_array() else {
            self.wrong_type(Severity::Error, path, "a list of strings");
            return false;
        };
        let misfit = list.iter().position(|entry| !entry.is_string()).map(|index| index.to_string());
        if let Some(index) = &misfit {
            self.wrong_type(Severity::Error, &[path[0], path[1], index], "a string");
        }
        misfit.is_none()
    }

    /// Returns whether the value of a mode or switch in `permissions` is a known one; any other is reported. The caller
    /// drops an unknown mode, so that the default mode applies, which is the strictest that still works.
    fn is_choice(&mut self, path: &[&str], value: &Value) -> bool {
        let Some(choice) = value.as_str() else {
            self.wrong_type(Severity::Error, path, "a string");
            return false;
        };
        if path[1] == "defaultMode" && PermissionMode::parse(choice).is_err() {
            let names = PermissionMode::ALL.map(PermissionMode::as_str);
            let meant = nearest(choice, names);
            let problem = self.say(
                Severity::Warning,
                path,
                format!("unknown permission mode `{choice}`, so `default` is used"),
            );
            problem.hint = Some(match meant {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("the modes are {}", names.join(", ")),
            });
            return false;
        }
        if path[1] != "defaultMode" && choice != "disable" {
            self.wrong_type(Severity::Error, path, "\"disable\", or left out");
            return false;
        }
        true
    }

    /// Drops the matchers that cannot be read, and reports them and unknown events; the other matchers of the same file
    /// stay, those of unknown events too. What is not a list of matchers is replaced by an empty one.
    fn hooks(&mut self, hooks: &mut Map<String, Value>) {
        for (event, matchers) in hooks.iter_mut() {
            if !HookEvent::NAMES.contains(&event.as_str()) {
                let meant = nearest(event, HookEvent::NAMES.iter().copied());
                let problem =
                    self.say(Severity::Warning, &["hooks", event], format!("unknown hook event `{event}`"));
                problem.hint = meant.map(|name| format!("did you mean `{name}`?"));
            }
            let Some(list) = matchers.as_array_mut() else {
                self.wrong_type(Severity::Warning, &["hooks", event], "a list");
                *matchers = Value::Array(Vec::new());
                continue;
            };
            let mut index = 0;
            list.retain(|matcher| {
                index += 1;
                self.is_matcher(event, &(index - 1).to_string(), matcher)
            });
        }
    }

    /// Returns whether the value is a hook matcher; any other is reported. A single handler that cannot run is reported
    /// too, and the rest of the matcher stays.
    fn is_matcher(&mut self, event: &str, index: &str, matcher: &Value) -> bool {
        match HookMatcher::deserialize(matcher) {
            Ok(parsed) => {
                for (number, handler) in parsed.hooks.iter().enumerate() {
                    if let HookHandler::Unknown(value) = handler {
                        let path = ["hooks", event, index, "hooks", &number.to_string()];
                        let message = match value["type"].as_str() {
                            Some(tag) if HookHandler::TAGS.contains(&tag) => {
                                format!("this {tag} hook is incomplete and will not run")
                            }
                            Some(tag) => format!("unknown hook type `{tag}`: this hook will not run"),
                            None => "this hook has no `type` and will not run".to_owned(),
                        };
                        self.say(Severity::Warning, &path, message);
                    }
                }
                true
            }
            Err(error) => {
                let message = format!("this hook matcher is ignored: {error}");
                self.say(Severity::Warning, &["hooks", event, index], message);
                false
            }
        }
    }
}

/// Turns a number or a boolean into text as it is written, because variables are text. Other values stay as they are.
fn as_variable(value: &mut Value) {
    if let Value::Number(_) | Value::Bool(_) = value {
        *value = Value::String(value.to_string());
    }
}

/// Removes the top-level keys whose values do not fit the type of their setting. Returns the removed keys with the
/// reasons.
pub(crate) fn drop_misfits(map: &mut Map<String, Value>) -> Vec<(String, String)> {
    if Settings::deserialize(&*map).is_ok() {
        return Vec::new();
    }
    let mut misfits = Vec::new();
    map.retain(|key, value| {
        let alone: Map<String, Value> = [(key.clone(), value.clone())].into_iter().collect();
        match Settings::deserialize(&alone) {
            Ok(_) => true,
            Err(error) => {
                misfits.push((key.clone(), error.to_string()));
                false
            }
        }
    });
    misfits
}

/// Returns the error for a text that is not valid JSON, with a hint if a comment is the cause. `serde_json` counts
/// columns in bytes; they are converted to characters.
fn syntax(text: &str, origin: &Origin, error: &serde_json::Error) -> SettingsProblem {
    let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    let before = line.char_indices().take_while(|(offset, _)| offset + 1 < error.column()).count();
    let at = if error.line() == 0 {
        end_of(text)
    } else {
        Position { line: to_u32(error.line()), column: to_u32(before + 1) }
    };
    let message = error.to_string();
    // The problem has its own position: the one of the parser counts columns in bytes.
    let message = message.split(" at line ").next().unwrap_or_default();
    let problem = SettingsProblem::error(origin, Some(at), format!("not valid JSON: {message}"));
    let rest = line.get(line.char_indices().nth(before).map_or(0, |(offset, _)| offset)..).unwrap_or("");
    if rest.starts_with('/') || rest.starts_with('#') {
        problem.hint("comments are not allowed in settings files")
    } else {
        problem
    }
}

/// Returns words for the type of a JSON value, for messages.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
