//! Checks a tool input against the tool's own JSON Schema, strictly, before anything else sees it.
//!
//! Supports the part of JSON Schema that tools use: types, `properties`, `required`, `enum`, bounds, `items`,
//! `additionalProperties: false`, `format: uri` and `default`. Other keywords are ignored, so a schema from outside is
//! checked as far as it is understood. Surprising: two faults are repaired instead of rejected, because models make
//! them all the time and the meaning is clear: a number sent as a string, and a missing parameter that has a default.

use lathe_protocol::text::first_chars;
use serde_json::{Map, Value, json};

/// An input that does not fit the schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the input does not fit the schema: {message}")]
pub struct InvalidInput {
    /// What the model reads after `InputValidationError: `.
    pub message: String,
    /// What programs read after `InputValidationError: `: the issues as a JSON array, or a short note when
    /// the input was not JSON at all.
    pub issues_json: String,
}

impl InvalidInput {
    /// Returns the text that the model reads in the `tool_result` block.
    pub fn content(&self) -> String {
        format!("<tool_use_error>InputValidationError: {}</tool_use_error>", self.message)
    }

    /// Returns the text that programs get in `tool_use_result`.
    pub fn result(&self) -> String {
        format!("InputValidationError: {}", self.issues_json)
    }

    /// Returns the error with advice behind what the model reads; what programs get is unchanged.
    pub fn with_advice(self, advice: &str) -> Self {
        Self { message: format!("{}\n\n{advice}", self.message), ..self }
    }

    /// Returns the error for one issue that a schema cannot express, in the form of the other issues.
    pub fn custom(parameter: &str, problem: &str) -> Self {
        let issues = json!([{ "code": "custom", "path": [parameter], "message": problem }]);
        let text = pretty(&issues);
        Self { message: text.clone(), issues_json: text }
    }

    /// Returns the error for an input that was cut off or is not JSON. Only the first characters of `raw` are repeated
    /// to the model.
    pub fn unparsable(tool_name: &str, raw: &str) -> Self {
        let shown = first_chars(raw, UNPARSABLE_SHOWN);
        Self {
            message: format!(
                "{tool_name} was called with input that could not be parsed as JSON.\n\
                 You sent (first {} of {} bytes): {shown}\n\
                 Send the call again as one valid JSON object; check backslashes, control characters and the end of the input.",
                shown.len(),
                raw.len(),
            ),
            issues_json: format!("JSON parse failed ({} bytes)", raw.len()),
        }
    }
}

/// The most characters of an unparsable input that are quoted back.
const UNPARSABLE_SHOWN: usize = 200;

/// Checks `input` and returns it repaired: numeric strings become numbers, defaults are filled in. The error names all
/// issues that were found.
pub fn validate(tool_name: &str, schema: &Value, mut input: Value) -> Result<Value, InvalidInput> {
    let mut issues = Issues::default();
    check(schema, &mut input, &mut Vec::new(), &mut issues);
    if issues.raw.is_empty() {
        return Ok(input);
    }
    let issues_json = pretty(&Value::Array(issues.raw));
    let message = match issues.prose {
        Some(lines) => {
            let noun = if lines.len() == 1 { "issue" } else { "issues" };
            format!("{tool_name} failed due to the following {noun}:\n{}", lines.join("\n"))
        }
        None => issues_json.clone(),
    };
    Err(InvalidInput { message, issues_json })
}

/// The issues so far. `prose` stays `Some` while every issue is a missing or an unexpected parameter.
struct Issues {
    raw: Vec<Value>,
    prose: Option<Vec<String>>,
}

impl Default for Issues {
    fn default() -> Self {
        Self { raw: Vec::new(), prose: Some(Vec::new()) }
    }
}

impl Issues {
    /// Adds an issue that has no wording of its own. From then on the message is the JSON of all issues.
    fn plain(&mut self, issue: Value) {
        self.raw.push(issue);
        self.prose = None;
    }

    /// Adds an issue with its wording, one line for each parameter. The lines are dropped if another issue has no
    /// wording, because then the message is the JSON of all issues.
    fn in_words(&mut self, issue: Value, lines: impl IntoIterator<Item = String>) {
        self.raw.push(issue);
        if let Some(prose) = &mut self.prose {
            prose.extend(lines);
        }
    }
}

/// Checks a value, repairing it where that is allowed, and adds the issues found. A value of the wrong type or outside
/// an `enum` is not looked into; a list of types is not checked. `path` is the same after the call as before it.
fn check(schema: &Value, value: &mut Value, path: &mut Vec<Value>, issues: &mut Issues) {
    if let Some(kind) = schema["type"].as_str() {
        repair_number(kind, value);
        if !fits(kind, value) {
            issues.plain(type_issue(kind, path, type_name(value)));
            return;
        }
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        issues.plain(enum_issue(allowed, path));
        return;
    }
    match value {
        Value::Object(object) => check_object(schema, object, path, issues),
        Value::Array(items) => {
            check_size(schema, ["minItems", "maxItems"], Size::items(items.len()), path, issues);
            for (index, item) in items.iter_mut().enumerate() {
                path.push(json!(index));
                check(&schema["items"], item, path, issues);
                path.pop();
            }
        }
        Value::String(text) => {
            let length = text.encode_utf16().count();
            check_size(schema, ["minLength", "maxLength"], Size::characters(length), path, issues);
            if schema["format"] == "uri" && url::Url::parse(text).is_err() {
                issues.plain(json!({
                    "code": "invalid_format", "format": "url", "path": path, "message": "Invalid URL",
                }));
            }
        }
        Value::Number(number) => {
            let size = Size::number(number.as_f64().unwrap_or_default());
            check_size(schema, ["minimum", "maximum"], size, path, issues);
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Checks the properties of an object in the order of the schema, inserts missing defaults (not checked, and in place
/// of required keys too), and reports required keys that are missing and keys that are not allowed. A required key that
/// `properties` does not describe is not missed.
fn check_object(schema: &Value, object: &mut Map<String, Value>, path: &mut Vec<Value>, issues: &mut Issues) {
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    let required =
        |key: &str| schema["required"].as_array().is_some_and(|keys| keys.iter().any(|k| k == key));
    for (key, property) in properties {
        path.push(json!(key));
        match object.get_mut(key) {
            Some(value) => check(property, value, path, issues),
            None if property.get("default").is_some() => {
                object.insert(key.clone(), property["default"].clone());
            }
            None if required(key) => {
                let issue = match property["enum"].as_array() {
                    Some(allowed) => enum_issue(allowed, path),
                    None => type_issue(property["type"].as_str().unwrap_or("nonoptional"), path, "undefined"),
                };
                let words = format!("The required parameter `{}` is missing", in_words(path));
                issues.in_words(issue, [words]);
            }
            None => {}
        }
        path.pop();
    }
    if schema["additionalProperties"] == json!(false) {
        let unknown: Vec<&String> = object.keys().filter(|key| !properties.contains_key(*key)).collect();
        if !unknown.is_empty() {
            issues.in_words(
                unknown_keys_issue(&unknown, path),
                unknown.iter().map(|key| format!("An unexpected parameter `{key}` was provided")),
            );
        }
    }
}

/// A measured value, and the words for its bounds.
struct Size {
    value: f64,
    origin: &'static str,
    /// `to be` for numbers, `to have` for things that are counted.
    verb: &'static str,
    unit: &'static str,
}

impl Size {
    /// Returns the size of an array.
    fn items(count: usize) -> Self {
        Self { value: count as f64, origin: "array", verb: "to have", unit: " items" }
    }

    /// Returns the size of a string.
    fn characters(count: usize) -> Self {
        Self { value: count as f64, origin: "string", verb: "to have", unit: " characters" }
    }

    /// Returns a number as a size, to be checked against `minimum` and `maximum`.
    fn number(value: f64) -> Self {
        Self { value, origin: "number", verb: "to be", unit: "" }
    }
}

/// Checks a size against the schema's bounds with the names `low` and `high`, both inclusive; one that is missing does
/// not bound.
fn check_size(schema: &Value, [low, high]: [&str; 2], size: Size, path: &[Value], issues: &mut Issues) {
    let Size { value, origin, verb, unit } = size;
    if let Some(minimum) = schema[low].as_f64()
        && value < minimum
    {
        let bound = &schema[low];
        issues.plain(json!({
            "origin": origin, "code": "too_small", "minimum": bound, "inclusive": true, "path": path,
            "message": format!("Too small: expected {origin} {verb} >={bound}{unit}"),
        }));
    }
    if let Some(maximum) = schema[high].as_f64()
        && value > maximum
    {
        let bound = &schema[high];
        issues.plain(json!({
            "origin": origin, "code": "too_big", "maximum": bound, "inclusive": true, "path": path,
            "message": format!("Too big: expected {origin} {verb} <={bound}{unit}"),
        }));
    }
}

/// Replaces a numeric string by its number where the schema wants a number, because models often write `"5"` for `5`.
/// Any other value stays as it is.
fn repair_number(kind: &str, value: &mut Value) {
    if !matches!(kind, "number" | "integer") {
        return;
    }
    let Value::String(text) = value else { return };
    let text = text.trim();
    if !text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.')) {
        return;
    }
    if let Ok(whole) = text.parse::<i64>() {
        *value = json!(whole);
    } else if let Ok(number) = text.parse::<f64>() {
        *value = json!(number);
    }
}

/// Returns whether a value has a type of the schema. An integer may be written as `5.0`; an unknown type allows
/// everything.
fn fits(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _unknown_keyword => true,
    }
}

/// Returns the type of a value as the messages name it.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the issue for a value of the wrong type. Its form is the one programs parse, in which an expected integer is
/// called `number` unless a fractional number was sent.
fn type_issue(kind: &str, path: &[Value], received: &str) -> Value {
    if kind == "integer" && received == "number" {
        return json!({
            "expected": "int", "format": "safeint", "code": "invalid_type", "path": path,
            "message": "Invalid input: expected int, received number",
        });
    }
    let expected = if kind == "integer" { "number" } else { kind };
    json!({
        "expected": expected, "code": "invalid_type", "path": path,
        "message": format!("Invalid input: expected {expected}, received {received}"),
    })
}

/// Returns the issue for a value that is not one of those allowed.
fn enum_issue(allowed: &[Value], path: &[Value]) -> Value {
    let options: Vec<String> = allowed.iter().map(Value::to_string).collect();
    let message = match options.as_slice() {
        [only] => format!("Invalid input: expected {only}"),
        many => format!("Invalid option: expected one of {}", many.join("|")),
    };
    json!({ "code": "invalid_value", "values": allowed, "path": path, "message": message })
}

/// Returns one issue for all unexpected keys of an object.
fn unknown_keys_issue(unknown: &[&String], path: &[Value]) -> Value {
    let quoted: Vec<String> = unknown.iter().map(|key| json!(key).to_string()).collect();
    let noun = if unknown.len() == 1 { "key" } else { "keys" };
    json!({
        "code": "unrecognized_keys", "keys": unknown, "path": path,
        "message": format!("Unrecognized {noun}: {}", quoted.join(", ")),
    })
}

/// Returns the path to a value as people write it: `["todos", 0, "content"]` becomes `todos[0].content`.
fn in_words(path: &[Value]) -> String {
    let mut words = String::new();
    for step in path {
        match step.as_str() {
            Some(key) if words.is_empty() => words.push_str(key),
            Some(key) => {
                words.push('.');
                words.push_str(key);
            }
            None => words.push_str(&format!("[{step}]")),
        }
    }
    words
}

/// Returns JSON over several lines, the form in which issues are shown.
fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("a JSON value can be written")
}

#[cfg(test)]
mod tests;
