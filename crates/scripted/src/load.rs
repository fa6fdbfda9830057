//! Turns text into a [`Script`]: finds out which of the three forms it has, parses it, and words errors so that a
//! person can act on them (file, line, the nearest valid key).
//!
//! The forms are the full one (a map with `turns:` or `routes:`), the short one of [`crate::scenario`] (a bare list, or
//! a map of lists), and the recorder's JSON lines. The text is parsed twice, once to see its shape and once into types,
//! because only the typed parse knows the position of a wrong key.

use std::path::Path;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value};

use crate::error::ScriptError;
use crate::record;
use crate::scenario::Scenario;
use crate::script::{AtEnd, Script, ScriptBlock, Turn};

/// A larger script is refused before it is read: it was not written by hand, and a recording of that size should be
/// split.
const MAX_SCRIPT_BYTES: u64 = 256 * 1024 * 1024;

impl Script {
    /// Reads a script file in any of the three forms. A file above 256 MiB is an error and is not read.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let read_error = |source| ScriptError::Read { path: path.to_owned(), source };
        let size = std::fs::metadata(path).map_err(read_error)?.len();
        if size > MAX_SCRIPT_BYTES {
            let text = format!("{size} bytes, more than the {MAX_SCRIPT_BYTES} a script may have");
            return Err(read_error(std::io::Error::other(text)));
        }
        let text = std::fs::read_to_string(path).map_err(read_error)?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Reads a script from its text in any of the three forms and validates it; `file` is the name for messages. A name
    /// that ends in `.json` makes the text JSON.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScriptError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if record::is_recording(text) {
            return record::parse_recording(file, text);
        }
        let document = Document { file, text, syntax: Syntax::of(file, text) };
        let script = match document.parse()? {
            Value::Array(_) => Scenario::List(document.parse()?).into_script(file)?,
            Value::Object(map) if is_keyed(&map) => Scenario::Keyed(document.parse()?).into_script(file)?,
            // Also for a text that is not a script at all: the typed parse says what is missing or misspelt.
            _ => document.parse()?,
        };
        validate(file, &script)?;
        Ok(script)
    }
}

/// Returns whether this is the keyed short form: a map of lists that is not empty and has neither `turns` nor `routes`.
fn is_keyed(map: &Map<String, Value>) -> bool {
    let full = map.contains_key("turns") || map.contains_key("routes");
    !full && !map.is_empty() && map.values().all(Value::is_array)
}

#[derive(Clone, Copy)]
enum Syntax {
    Json,
    Yaml,
}

impl Syntax {
    /// Decides by name or by content whether the text is JSON. JSON is almost YAML, but not quite: only a JSON parser
    /// joins the two halves of an escaped emoji.
    fn of(file: &str, text: &str) -> Self {
        let named = Path::new(file).extension().is_some_and(|extension| extension == "json");
        if named || serde_json::from_str::<IgnoredAny>(text).is_ok() { Self::Json } else { Self::Yaml }
    }
}

struct Document<'a> {
    file: &'a str,
    text: &'a str,
    syntax: Syntax,
}

impl Document<'_> {
    /// Parses the text as a `T`; an error tells file, line and column.
    fn parse<T: DeserializeOwned>(&self) -> Result<T, ScriptError> {
        match self.syntax {
            Syntax::Json => serde_json::from_str(self.text).map_err(|error| json_error(self.file, 0, &error)),
            Syntax::Yaml => serde_saphyr::from_str_with_options(self.text, yaml_options())
                .map_err(|error| yaml_error(self.file, &error)),
        }
    }
}

/// Returns the options of every YAML parse; both parses of a text must use the same ones.
fn yaml_options() -> serde_saphyr::Options {
    // `with_snippet` would wrap the error; only its location is needed. Strict booleans keep `on` and `no` strings, as
    // in JSON. The file's size is bounded already, so many turns are not an attack.
    serde_saphyr::options! {
        with_snippet: false,
        strict_booleans: true,
        budget: serde_saphyr::budget! { max_nodes: 10_000_000, max_events: 40_000_000 },
    }
}

/// Returns the parse error of a JSON text. `lines_before` is the number of lines in the file before that text, so that
/// the error names the line of the file.
pub(crate) fn json_error(file: &str, lines_before: u64, error: &serde_json::Error) -> ScriptError {
    let text = error.to_string();
    let message = text.split(" at line ").next().unwrap_or(&text);
    parse_error(file, lines_before + error.line() as u64, error.column() as u64, message)
}

/// Returns a YAML error in the words that [`parse_error`] understands: an unknown field is put into serde's form, so
/// that it gets the same hint as in JSON. An error without a place is at line 1, column 1.
fn yaml_error(file: &str, error: &serde_saphyr::Error) -> ScriptError {
    let (line, column) = error.location().map_or((1, 1), |place| (place.line(), place.column()));
    if let serde_saphyr::Error::SerdeUnknownField { field, expected, .. } = error {
        let expected: Vec<String> = expected.iter().map(|name| format!("`{name}`")).collect();
        let message = format!("unknown field `{field}`, expected one of {}", expected.join(", "));
        return parse_error(file, line, column, &message);
    }
    let text = error.to_string();
    let message = text.split(" at line ").next().unwrap_or(&text);
    parse_error(file, line, column, message.trim_start_matches("error: "))
}

/// Returns the error with a hint if it is about an unknown key: the nearest valid key, otherwise all of them.
fn parse_error(file: &str, line: u64, column: u64, message: &str) -> ScriptError {
    let (message, hint) = match unknown_key(message) {
        Some((key, known)) => {
            let hint = nearest(key, &known)
                .map(|near| format!("did you mean `{near}`?"))
                .unwrap_or_else(|| format!("the keys here are {}", known.join(", ")));
            (format!("unknown key `{key}`"), Some(hint))
        }
        None => (message.to_owned(), None),
    };
    ScriptError::Parse { file: file.to_owned(), line, column, message, hint }
}

/// Parses serde's "unknown field `a`, expected one of `b`, `c`" (or "expected `b`", "expected `b` or `c`") into the key
/// and the known ones. `None` if the message is another one.
fn unknown_key(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown field `")?;
    let (key, rest) = rest.split_once('`')?;
    let known = rest.split('`').skip(1).step_by(2).collect();
    Some((key, known))
}

/// Returns the known key that `key` is probably a misspelling of; `None` if each differs in more than half of its
/// characters.
fn nearest<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |candidate: &&&str| edit_distance(key, candidate);
    let best = known.iter().min_by_key(distance)?;
    (edit_distance(key, best) <= key.chars().count().max(3) / 2).then_some(*best)
}

/// Returns how many characters must be inserted, removed or replaced to get from one word to the other.
fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in right.iter().enumerate() {
            let replace = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[right.len()]
}

/// Checks what the types cannot express: keys that exclude each other, lines without turns, and invalid values. The
/// error names the first turn or route that is wrong.
pub(crate) fn validate(file: &str, script: &Script) -> Result<(), ScriptError> {
    let invalid =
        |place: String, message: String| ScriptError::Invalid { file: file.to_owned(), place, message };
    if let Some(version) = script.version.filter(|version| *version != 1) {
        return Err(invalid("version".to_owned(), format!("{version} is not known, this is version 1")));
    }
    // A line without turns that ends in an error or a text is still valid.
    if script.turns.is_empty() && script.routes.is_empty() && matches!(script.at_end, AtEnd::Repeat) {
        return Err(invalid("turns".to_owned(), "the script has no turns".to_owned()));
    }
    check_headers(&script.defaults.headers).map_err(|why| invalid("defaults".to_owned(), why))?;
    let check_line = |line: &str, turns: &[Turn]| {
        for (index, turn) in turns.iter().enumerate() {
            check_turn(turn).map_err(|why| invalid(format!("{line}{}", turn_name(index, turn)), why))?;
        }
        Ok(())
    };
    check_line("", &script.turns)?;
    for (index, route) in script.routes.iter().enumerate() {
        let name = route.name.clone().unwrap_or_else(|| (index + 1).to_string());
        if route.turns.is_empty() {
            return Err(invalid(format!("route {name}"), "it has no turns".to_owned()));
        }
        check_line(&format!("route {name}, "), &route.turns)?;
    }
    Ok(())
}

/// Returns the name of a turn for messages: its number, counted from one, and its id if it has one.
pub(crate) fn turn_name(index: usize, turn: &Turn) -> String {
    match &turn.id {
        Some(id) => format!("turn {} (`{id}`)", index + 1),
        None => format!("turn {}", index + 1),
    }
}

/// Checks one turn for what the types cannot express: kinds of responses that exclude each other, and the bounds of
/// numbers. The error is the message without the name of the turn.
fn check_turn(turn: &Turn) -> Result<(), String> {
    let says = turn.text.is_some() || turn.thinking.is_some() || !turn.tools.is_empty();
    let kinds = [
        ("text/thinking/tools", says),
        ("blocks", !turn.blocks.is_empty()),
        ("error", turn.error.is_some()),
        ("raw", turn.raw.is_some()),
    ];
    let used: Vec<&str> = kinds.iter().filter(|(_, used)| *used).map(|(name, _)| *name).collect();
    if used.len() > 1 {
        return Err(format!("{} exclude each other", used.join(" and ")));
    }
    if turn.times == Some(0) {
        return Err("`times: 0` would never be used".to_owned());
    }
    check_headers(&turn.headers)?;
    if let Some(error) = &turn.error {
        check_status(error.status, 400)?;
        check_headers(&error.headers)?;
    }
    if let Some(raw) = &turn.raw {
        check_status(raw.status, 200)?;
        check_headers(&raw.headers)?;
    }
    if turn.drip.is_some_and(|drip| drip.bytes == 0) {
        return Err("`drip.bytes` must be at least 1".to_owned());
    }
    turn.tools.iter().try_for_each(|call| check_call(call.input.is_some(), call.raw.is_some()))?;
    turn.blocks.iter().try_for_each(check_block)?;
    check_places(turn)
}

/// Checks that a call does not give its input twice.
fn check_call(has_input: bool, has_raw: bool) -> Result<(), String> {
    if has_input && has_raw {
        return Err("a tool call has `input` or `raw`, not both".to_owned());
    }
    Ok(())
}

/// Checks that a block is of exactly one kind, and that the value of that kind is valid.
fn check_block(block: &ScriptBlock) -> Result<(), String> {
    let kinds = [block.text.is_some(), block.thinking.is_some(), block.tool.is_some(), block.block.is_some()];
    if kinds.iter().filter(|used| **used).count() != 1 {
        return Err("a block is exactly one of text, thinking, tool, block".to_owned());
    }
    if let Some(call) = &block.tool {
        check_call(call.input.is_some(), call.raw.is_some())?;
    }
    if block.block.as_ref().is_some_and(|value| !value.is_object()) {
        return Err("`block` must be a map".to_owned());
    }
    Ok(())
}

/// Checks that each fault has at most one of its two positions.
fn check_places(turn: &Turn) -> Result<(), String> {
    let places = [
        ("cut", turn.cut.as_ref().map(|fault| (fault.after_events, fault.after_bytes))),
        ("stall", turn.stall.as_ref().map(|fault| (fault.after_events, fault.after_bytes))),
        ("garbage", turn.garbage.as_ref().map(|fault| (fault.after_events, fault.after_bytes))),
        ("error_event", turn.error_event.as_ref().map(|fault| (fault.after_events, fault.after_bytes))),
    ];
    match places.iter().find(|(_, place)| matches!(place, Some((Some(_), Some(_))))) {
        Some((name, _)) => Err(format!("`{name}` has both `after_events` and `after_bytes`")),
        None => Ok(()),
    }
}

/// Checks that an HTTP status is from `least` to 599; `least` is 400 where only an error makes sense.
fn check_status(status: u16, least: u16) -> Result<(), String> {
    if (least..=599).contains(&status) {
        Ok(())
    } else {
        Err(format!("status {status} is not {least} to 599"))
    }
}

/// Refuses headers that HTTP cannot carry: a name with other characters than letters, digits and `-_.`, or a value with
/// a control character other than a tab, because a line break would start another header.
fn check_headers(headers: &std::collections::BTreeMap<String, String>) -> Result<(), String> {
    let token = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    let visible = |value: &str| value.bytes().all(|byte| byte == b'\t' || (byte >= 0x20 && byte != 0x7f));
    match headers.iter().find(|(name, value)| !token(name) || !visible(value)) {
        Some((name, _)) => Err(format!("header {name:?} has a name or value that HTTP cannot carry")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
