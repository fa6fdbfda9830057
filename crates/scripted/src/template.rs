//! Placeholders in the strings of a script: `{{last_user_text}}`, `{{tool.Bash.result}}`, `{{last:REGEX}}` and the rest
//! of the list in `SCRIPT.md`. They are compiled when the script is loaded, so a misspelt one is an error with a line
//! number and not a strange response an hour later.
//!
//! A placeholder that finds nothing fails the request: an agent test that continues with an empty string would hide
//! exactly what it was written to show.

use regex::Regex;
use serde::de::{self, Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::facts::Facts;

/// A string with placeholders.
#[derive(Debug, Clone, Default)]
pub struct Template {
    parts: Vec<Part>,
}

/// A JSON value whose strings may hold placeholders. A string that consists of one placeholder takes the type of the
/// value that was found.
#[derive(Debug, Clone)]
pub struct TemplateValue(Node);

/// A placeholder that cannot be parsed, or that finds nothing in the request.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TemplateError {
    /// `{{` without `}}`.
    #[error("placeholder is not closed in {0:?}")]
    Unclosed(String),
    /// Not in the list.
    #[error(
        "unknown placeholder `{{{{{0}}}}}` (known: last_user_text, first_user_text, last_tool_result, \
         tool.NAME.result, last:REGEX, model, agent, request)"
    )]
    Unknown(String),
    /// `{{last:…}}` with a pattern that does not compile.
    #[error("bad pattern in a placeholder: {0}")]
    Pattern(String),
    /// The request has no such value.
    #[error("placeholder `{{{{{0}}}}}` finds nothing in the request")]
    NotFound(String),
}

#[derive(Debug, Clone)]
enum Part {
    Literal(String),
    Slot(Slot),
}

#[derive(Debug, Clone)]
struct Slot {
    source: String,
    what: Lookup,
    /// JSON pointer into the value that was found.
    pointer: Option<String>,
}

#[derive(Debug, Clone)]
enum Lookup {
    LastUserText,
    FirstUserText,
    LastToolResult,
    ToolResult(String),
    Last(Regex),
    Model,
    Agent,
    Request,
}

#[derive(Debug, Clone)]
enum Node {
    Plain(Value),
    Text(Template),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Template {
    /// Compiles `source`. A placeholder that is unknown or not closed, or has a bad pattern, is an error here and not
    /// only when it is rendered.
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = source;
        while let Some(open) = rest.find("{{") {
            if open > 0 {
                parts.push(Part::Literal(rest[..open].to_owned()));
            }
            let inner = &rest[open + 2..];
            let close = closing(inner).ok_or_else(|| TemplateError::Unclosed(source.to_owned()))?;
            parts.push(Part::Slot(Slot::parse(&inner[..close])?));
            rest = &inner[close + 2..];
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        Ok(Self { parts })
    }

    /// Returns a template of this text alone: braces in it stay as they are.
    pub fn literal(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::Literal(text.into())] }
    }

    /// Returns the text with the placeholders filled in for this request; a value that is not a string appears as its
    /// JSON. A placeholder that finds nothing is an error.
    pub fn render(&self, facts: &Facts) -> Result<String, TemplateError> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Slot(slot) => match slot.find(facts)? {
                    Value::String(found) => text.push_str(&found),
                    other => text.push_str(&other.to_string()),
                },
            }
        }
        Ok(text)
    }

    /// Returns a template that consists of one placeholder as the JSON value that it finds, and any other as a string.
    /// A placeholder that finds nothing is an error.
    fn render_value(&self, facts: &Facts) -> Result<Value, TemplateError> {
        match self.parts.as_slice() {
            [Part::Slot(only)] => only.find(facts),
            _ => self.render(facts).map(Value::String),
        }
    }
}

/// Returns the position in `inner`, the text after `{{`, of the `}}` that ends the placeholder; `None` if there is
/// none. Of more than two braces in a row the last two count, as in `{{last:\d{4}}}`.
fn closing(inner: &str) -> Option<usize> {
    let mut close = inner.find("}}")?;
    while inner[close + 2..].starts_with('}') {
        close += 1;
    }
    Some(close)
}

impl Slot {
    /// Parses what is between the braces. `last:` takes everything after it as a regular expression, colons included;
    /// after any other name only a JSON pointer may follow. An unknown name or a bad pattern is an error.
    fn parse(source: &str) -> Result<Self, TemplateError> {
        let inner = source.trim();
        if let Some(pattern) = inner.strip_prefix("last:") {
            let regex = Regex::new(pattern).map_err(|error| TemplateError::Pattern(error.to_string()))?;
            return Ok(Self { source: source.to_owned(), what: Lookup::Last(regex), pointer: None });
        }
        let (name, pointer) = match inner.split_once(':') {
            Some((name, pointer)) if pointer.starts_with('/') => (name, Some(pointer.to_owned())),
            Some(_) => return Err(TemplateError::Unknown(source.to_owned())),
            None => (inner, None),
        };
        let tool = name.strip_prefix("tool.").and_then(|rest| rest.strip_suffix(".result"));
        let what = match (name, tool) {
            (_, Some(tool)) if !tool.is_empty() => Lookup::ToolResult(tool.to_owned()),
            ("last_user_text", _) => Lookup::LastUserText,
            ("first_user_text", _) => Lookup::FirstUserText,
            ("last_tool_result", _) => Lookup::LastToolResult,
            ("model", _) => Lookup::Model,
            ("agent", _) => Lookup::Agent,
            ("request", _) => Lookup::Request,
            _ => return Err(TemplateError::Unknown(source.to_owned())),
        };
        Ok(Self { source: source.to_owned(), what, pointer })
    }

    /// Returns what the placeholder stands for: without a pointer always a string, also for a number. Finding nothing
    /// is an error, and so is a pointer into a text that is not JSON.
    fn find(&self, facts: &Facts) -> Result<Value, TemplateError> {
        let missing = || TemplateError::NotFound(self.source.clone());
        let text = match &self.what {
            Lookup::LastUserText => facts.last_user_text().map(str::to_owned),
            Lookup::FirstUserText => facts.first_user_text().map(str::to_owned),
            Lookup::LastToolResult => facts.last_tool_result().map(str::to_owned),
            Lookup::ToolResult(name) => facts.result_of(name).map(str::to_owned),
            Lookup::Last(regex) => facts.last_match(regex),
            Lookup::Model => Some(facts.model.clone()),
            Lookup::Agent => facts.agent.clone(),
            Lookup::Request => Some(facts.number.to_string()),
        };
        let text = text.ok_or_else(missing)?;
        let Some(pointer) = &self.pointer else { return Ok(Value::String(text)) };
        let parsed: Value = serde_json::from_str(&text).map_err(|_| missing())?;
        parsed.pointer(pointer).cloned().ok_or_else(missing)
    }
}

impl TemplateValue {
    /// Compiles the placeholders in all strings of `value`, but not in the keys of its maps. One that cannot be
    /// compiled is an error.
    pub fn parse(value: Value) -> Result<Self, TemplateError> {
        Node::parse(value).map(Self)
    }

    /// Returns the value with all placeholders filled in for this request. A string that is one placeholder becomes the
    /// value that it finds; one that finds nothing is an error.
    pub fn render(&self, facts: &Facts) -> Result<Value, TemplateError> {
        self.0.render(facts)
    }
}

impl Node {
    /// Compiles the placeholders in all strings of a value; keys of maps are not templates.
    fn parse(value: Value) -> Result<Self, TemplateError> {
        Ok(match value {
            Value::String(text) if text.contains("{{") => Self::Text(Template::parse(&text)?),
            Value::Array(items) => Self::List(items.into_iter().map(Self::parse).collect::<Result<_, _>>()?),
            Value::Object(entries) => {
                let entry = |(key, value)| Self::parse(value).map(|node| (key, node));
                Self::Map(entries.into_iter().map(entry).collect::<Result<_, _>>()?)
            }
            plain => Self::Plain(plain),
        })
    }

    /// Returns the value of the node with its placeholders filled in for this request. A placeholder that finds nothing
    /// is an error.
    fn render(&self, facts: &Facts) -> Result<Value, TemplateError> {
        Ok(match self {
            Self::Plain(value) => value.clone(),
            Self::Text(template) => template.render_value(facts)?,
            Self::List(items) => {
                Value::Array(items.iter().map(|item| item.render(facts)).collect::<Result<_, _>>()?)
            }
            Self::Map(entries) => {
                let entry = |(key, node): &(String, Node)| Ok((key.clone(), node.render(facts)?));
                Value::Object(entries.iter().map(entry).collect::<Result<Map<_, _>, TemplateError>>()?)
            }
        })
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let source = String::deserialize(deserializer)?;
        Self::parse(&source).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for TemplateValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::parse(value).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn facts() -> Facts {
        Facts::for_test(json!({
            "model": "m", "max_tokens": 10,
            "messages": [
                {"role": "user", "content": "first words"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "{\"rows\": [1, 22]} agentId: abc"}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t2", "name": "Read", "input": {}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "{\"rows\": [1, 22]}"}]}]}
            ]
        }))
    }

    fn render(source: &str) -> Result<String, TemplateError> {
        Template::parse(source)?.render(&facts())
    }

    #[test]
    fn every_placeholder_finds_its_text() {
        assert_eq!(render("<{{last_user_text}}>").unwrap(), "<first words>");
        assert_eq!(render("{{ tool.Bash.result }}").unwrap(), "{\"rows\": [1, 22]} agentId: abc");
        assert_eq!(render("{{last_tool_result:/rows/1}}!").unwrap(), "22!");
        assert_eq!(render("{{last:agentId: (\\w{3})}}").unwrap(), "abc");
        assert_eq!(render("{{model}} {{request}}").unwrap(), "m 1");
        assert_eq!(render("no { braces } here").unwrap(), "no { braces } here");
    }

    #[test]
    fn what_is_not_there_is_an_error_that_names_it() {
        for source in ["{{tool.Grep.result}}", "{{last:nowhere}}", "{{last_tool_result:/none}}", "{{agent}}"]
        {
            let error = render(source).unwrap_err().to_string();
            assert!(error.contains(source), "{error}");
        }
        assert!(matches!(render("{{nonsense}}"), Err(TemplateError::Unknown(_))));
        assert!(matches!(render("a {{model"), Err(TemplateError::Unclosed(_))));
        assert!(matches!(render("{{last:(}}"), Err(TemplateError::Pattern(_))));
    }

    #[test]
    fn a_lone_placeholder_keeps_its_type() {
        let value =
            json!({"n": "{{last_tool_result:/rows/1}}", "s": "n={{last_tool_result:/rows/1}}", "l": [true]});
        let rendered = TemplateValue::parse(value).unwrap().render(&facts()).unwrap();
        assert_eq!(rendered, json!({"n": 22, "s": "n=22", "l": [true]}));
    }

    proptest::proptest! {
        #[test]
        fn parsing_never_panics(source in ".{0,60}") {
            let _ = Template::parse(&source);
        }

        #[test]
        fn text_without_braces_is_itself(source in "[^{}]{0,60}") {
            proptest::prop_assert_eq!(Template::parse(&source).unwrap().render(&facts()).unwrap(), source);
        }
    }
}
