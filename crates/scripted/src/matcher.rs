//! Conditions on a request. `when:` uses them to choose, `expect:` to assert; both read the same keys, and a condition
//! that does not hold explains itself with the key, the wanted and the actual value.

use std::collections::BTreeMap;
use std::fmt;

use lathe_protocol::text::first_chars;
use regex::Regex;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer};
use serde_json::Value;

use crate::facts::Facts;

/// All of these must hold. In a script a plain string stands for `any_user: STRING`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Conditions {
    /// The text that the user sent with this request.
    pub user: Option<TextMatch>,
    /// The first user text of the conversation.
    pub first_user: Option<TextMatch>,
    /// Any user text of the conversation.
    pub any_user: Option<TextMatch>,
    /// The last `RUN<name>` in the user texts has this name.
    pub marker: Option<String>,
    /// Any tool result that was sent with this request.
    pub tool_result: Option<TextMatch>,
    /// The tool of any result that was sent with this request.
    pub tool: Option<TextMatch>,
    /// Whether a result that was sent with this request is marked as an error.
    pub tool_error: Option<bool>,
    /// What the last message of the request brings.
    pub brings: Option<RequestBrings>,
    /// The system prompt.
    pub system: Option<TextMatch>,
    /// The agent that asks; a plain string means equality.
    pub agent: Option<TextMatch>,
    /// The requested model; a plain string means equality.
    pub model: Option<TextMatch>,
    /// Tools that must be offered.
    pub tools: Vec<String>,
    /// Whether any tool is offered.
    pub has_tools: Option<bool>,
    /// Whether the response is to be streamed.
    pub stream: Option<bool>,
    /// The `max_tokens` of the request.
    pub max_tokens: Option<u64>,
    /// Request headers (HTTP only).
    pub headers: BTreeMap<String, TextMatch>,
    /// JSON pointers into the body.
    pub body: BTreeMap<String, ValueMatch>,
}

/// What the last message of a request brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestBrings {
    /// Words of the user, whatever else.
    Prompt,
    /// Tool results, and no words of the user.
    Results,
    /// Only what the runtime says, such as that a task has ended.
    Reminders,
}

/// A condition on a text.
#[derive(Debug, Clone)]
pub enum TextMatch {
    /// A bare string: contained in texts, equal for names.
    Plain(String),
    /// The whole text.
    Equals(String),
    /// A part of the text.
    Contains(String),
    /// A regular expression that matches somewhere.
    Regex(Regex),
    /// The opposite.
    Not(Box<TextMatch>),
    /// Each of them.
    All(Vec<TextMatch>),
    /// One of them.
    Any(Vec<TextMatch>),
}

/// A condition on a value of the body.
#[derive(Debug, Clone)]
pub enum ValueMatch {
    /// Equal to this value.
    Equals(Value),
    /// A string (or the JSON of anything else) that matches.
    Text(TextMatch),
    /// Not present.
    Absent,
}

/// What a bare string means in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bare {
    Contains,
    Equals,
}

impl TextMatch {
    /// Returns whether the text satisfies the condition. `bare` says whether a plain string means "contains" or
    /// "equals"; it also applies inside `not`, `all` and `any`. An empty `all` holds for every text, an empty `any` for
    /// none.
    fn holds(&self, text: &str, bare: Bare) -> bool {
        match self {
            Self::Plain(wanted) => match bare {
                Bare::Contains => text.contains(wanted.as_str()),
                Bare::Equals => text == wanted,
            },
            Self::Equals(wanted) => text == wanted,
            Self::Contains(wanted) => text.contains(wanted.as_str()),
            Self::Regex(regex) => regex.is_match(text),
            Self::Not(inner) => !inner.holds(text, bare),
            Self::All(all) => all.iter().all(|one| one.holds(text, bare)),
            Self::Any(any) => any.iter().any(|one| one.holds(text, bare)),
        }
    }
}

impl fmt::Display for TextMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, word: &str, items: &[TextMatch]| {
            let items: Vec<String> = items.iter().map(ToString::to_string).collect();
            write!(f, "{}", items.join(word))
        };
        match self {
            Self::Plain(text) => write!(f, "{text:?}"),
            Self::Equals(text) => write!(f, "exactly {text:?}"),
            Self::Contains(text) => write!(f, "a text with {text:?}"),
            Self::Regex(regex) => write!(f, "a match of /{regex}/"),
            Self::Not(inner) => write!(f, "not {inner}"),
            Self::All(items) => list(f, " and ", items),
            Self::Any(items) => list(f, " or ", items),
        }
    }
}

impl Conditions {
    /// Returns conditions that hold if any user text of the conversation contains `text`.
    pub fn any_user(text: impl Into<String>) -> Self {
        Self { any_user: Some(TextMatch::Plain(text.into())), ..Self::default() }
    }

    /// Returns whether all conditions hold. Without any condition the result is true.
    pub fn hold(&self, facts: &Facts) -> bool {
        self.check(facts).is_ok()
    }

    /// Checks all conditions. The error describes the first one that does not hold, with the wanted and the actual
    /// value. Only conditions that need the conversation parse it.
    pub fn check(&self, facts: &Facts) -> Result<(), String> {
        self.check_texts(facts)?;
        self.check_results(facts)?;
        check_flag("has_tools", self.has_tools, facts.has_tools)?;
        check_flag("stream", self.stream, facts.stream)?;
        if let Some(wanted) = self.max_tokens.filter(|wanted| facts.max_tokens != Some(*wanted)) {
            return Err(format!("max_tokens: wanted {wanted}, got {:?}", facts.max_tokens));
        }
        if let Some(missing) = self.tools.iter().find(|name| !facts.tools().contains(name)) {
            return Err(format!(
                "tools: `{missing}` is not on offer (offered: {})",
                facts.tools().join(", ")
            ));
        }
        for (name, wanted) in &self.headers {
            check_text(&format!("headers.{name}"), Some(wanted), facts.header(name), Bare::Equals)?;
        }
        for (pointer, wanted) in &self.body {
            wanted.check(facts.body().pointer(pointer)).map_err(|why| format!("body {pointer}: {why}"))?;
        }
        Ok(())
    }

    /// Checks the conditions on texts; the error describes the first that does not hold. Agent and model come first,
    /// because the others parse the conversation.
    fn check_texts(&self, facts: &Facts) -> Result<(), String> {
        check_text("agent", self.agent.as_ref(), facts.agent.as_deref(), Bare::Equals)?;
        check_text("model", self.model.as_ref(), Some(&facts.model), Bare::Equals)?;
        // The rest would parse the conversation, so it is read only if a condition needs it.
        if self.user.is_some() {
            check_text("user", self.user.as_ref(), facts.fresh_user_text(), Bare::Contains)?;
        }
        if self.first_user.is_some() {
            check_text("first_user", self.first_user.as_ref(), facts.first_user_text(), Bare::Contains)?;
        }
        if self.system.is_some() {
            check_text("system", self.system.as_ref(), Some(facts.system()), Bare::Contains)?;
        }
        if let Some(wanted) = &self.any_user
            && !facts.user_texts().iter().any(|text| wanted.holds(text, Bare::Contains))
        {
            return Err(format!("any_user: wanted {wanted}, no user text of the conversation fits"));
        }
        if let Some(wanted) = &self.marker {
            let found = facts.last_marker();
            if found != Some(wanted.as_str()) {
                return Err(format!("marker: wanted {wanted:?}, got {found:?}"));
            }
        }
        Ok(())
    }

    /// Checks `brings` and the conditions on the fresh tool results. One result that fits is enough, and without a
    /// result `tool` and `tool_result` do not hold, not even a `not`; only `tool_error: false` demands that none is an
    /// error.
    fn check_results(&self, facts: &Facts) -> Result<(), String> {
        if let Some(wanted) = self.brings {
            let got = match (facts.fresh_user_text(), facts.fresh_results()) {
                (Some(_), _) => RequestBrings::Prompt,
                (None, [_, ..]) => RequestBrings::Results,
                (None, []) => RequestBrings::Reminders,
            };
            if got != wanted {
                return Err(format!("brings: wanted {wanted:?}, got {got:?}"));
            }
        }
        if let Some(wanted) = &self.tool_result
            && !facts.fresh_results().iter().any(|result| wanted.holds(&result.text, Bare::Contains))
        {
            let got: Vec<String> = facts.fresh_results().iter().map(|result| shorten(&result.text)).collect();
            return Err(format!("tool_result: wanted {wanted}, got [{}]", got.join(", ")));
        }
        if let Some(wanted) = &self.tool {
            let tools = || facts.fresh_results().iter().filter_map(|result| result.tool.as_deref());
            if !tools().any(|tool| wanted.holds(tool, Bare::Equals)) {
                let got: Vec<&str> = tools().collect();
                return Err(format!(
                    "tool: wanted a result of {wanted}, got results of [{}]",
                    got.join(", ")
                ));
            }
        }
        if self.tool_error.is_some() {
            check_flag(
                "tool_error",
                self.tool_error,
                facts.fresh_results().iter().any(|result| result.is_error),
            )?;
        }
        Ok(())
    }
}

/// Checks one condition on a text; `key` names it in the error. Without a condition everything fits, and a text that
/// the request lacks (`got` is `None`) fits no condition, not even `not`.
fn check_text(key: &str, wanted: Option<&TextMatch>, got: Option<&str>, bare: Bare) -> Result<(), String> {
    let Some(wanted) = wanted else { return Ok(()) };
    match got {
        Some(text) if wanted.holds(text, bare) => Ok(()),
        Some(text) => Err(format!("{key}: wanted {wanted}, got {}", shorten(text))),
        None => Err(format!("{key}: wanted {wanted}, the request has none")),
    }
}

/// Checks a condition on a yes-or-no fact. `None` stands for no condition and always holds; the error names the key,
/// the wanted and the actual value.
fn check_flag(key: &str, wanted: Option<bool>, got: bool) -> Result<(), String> {
    match wanted {
        Some(wanted) if wanted != got => Err(format!("{key}: wanted {wanted}, got {got}")),
        _ => Ok(()),
    }
}

/// Returns up to 200 characters of a text in quotes for a message, followed by `…` if there are more.
fn shorten(text: &str) -> String {
    let head = first_chars(text, 200);
    if head.len() < text.len() { format!("{head:?}…") } else { format!("{head:?}") }
}

impl ValueMatch {
    /// Checks a value of the body; `got` is `None` if the path leads nowhere, which fits only `absent` and no text
    /// condition, not even `not`. A text condition on another kind of value looks at its JSON.
    fn check(&self, got: Option<&Value>) -> Result<(), String> {
        let shown = || got.map_or_else(|| "nothing".to_owned(), |value| shorten(&value.to_string()));
        let holds = match (self, got) {
            (Self::Absent, got) => got.is_none(),
            (Self::Equals(wanted), got) => got == Some(wanted),
            (Self::Text(wanted), Some(Value::String(text))) => wanted.holds(text, Bare::Contains),
            (Self::Text(wanted), Some(other)) => wanted.holds(&other.to_string(), Bare::Contains),
            (Self::Text(_), None) => false,
        };
        match self {
            _ if holds => Ok(()),
            Self::Absent => Err(format!("wanted nothing there, got {}", shown())),
            Self::Equals(wanted) => Err(format!("wanted {wanted}, got {}", shown())),
            Self::Text(wanted) => Err(format!("wanted {wanted}, got {}", shown())),
        }
    }
}

// Deserialising. Hand-written visitors instead of `untagged`, because an untagged enum loses both the line and the
// misspelt key.

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextFields {
    equals: Option<String>,
    contains: Option<String>,
    regex: Option<String>,
    not: Option<Box<TextMatch>>,
    any: Option<Vec<TextMatch>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ValueFields {
    equals: Option<Value>,
    contains: Option<String>,
    regex: Option<String>,
    absent: Option<bool>,
}

/// Reads a `when:` or `expect:` field: a map of conditions, or a text as a shorthand for `any_user`. The result is
/// never `None`, which only an absent field has.
pub(crate) fn conditions_or_text<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Conditions>, D::Error> {
    struct Either;
    impl<'de> Visitor<'de> for Either {
        type Value = Conditions;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text to find in the user texts, or a map of conditions")
        }
        /// A bare text is looked for in all user texts.
        fn visit_str<E: de::Error>(self, text: &str) -> Result<Conditions, E> {
            Ok(Conditions::any_user(text))
        }
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Conditions, A::Error> {
            Conditions::deserialize(MapAccessDeserializer::new(map))
        }
    }
    deserializer.deserialize_any(Either).map(Some)
}

impl<'de> Deserialize<'de> for TextMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Forms;
        impl<'de> Visitor<'de> for Forms {
            type Value = TextMatch;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a list of conditions, or a map with equals, contains, regex, not or any")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<TextMatch, E> {
                Ok(TextMatch::Plain(text.to_owned()))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<TextMatch, E> {
                Ok(TextMatch::Plain(number.to_string()))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<TextMatch, E> {
                Ok(TextMatch::Plain(number.to_string()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<TextMatch, A::Error> {
                let mut all = Vec::new();
                while let Some(one) = seq.next_element()? {
                    all.push(one);
                }
                Ok(TextMatch::All(all))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TextMatch, A::Error> {
                let fields = TextFields::deserialize(MapAccessDeserializer::new(map))?;
                let mut all = Vec::new();
                all.extend(fields.equals.map(TextMatch::Equals));
                all.extend(fields.contains.map(TextMatch::Contains));
                all.extend(fields.regex.map(|source| compile(&source)).transpose()?);
                all.extend(fields.not.map(TextMatch::Not));
                all.extend(fields.any.map(TextMatch::Any));
                match all.len() {
                    0 => {
                        Err(de::Error::custom("an empty condition: give equals, contains, regex, not or any"))
                    }
                    1 => Ok(all.remove(0)),
                    _ => Ok(TextMatch::All(all)),
                }
            }
        }
        deserializer.deserialize_any(Forms)
    }
}

impl<'de> Deserialize<'de> for ValueMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A body value may be anything, so the map is examined only after it was read whole.
        let value = Value::deserialize(deserializer)?;
        if !value.is_object() {
            return Ok(Self::Equals(value));
        }
        let fields: ValueFields = serde_json::from_value(value).map_err(de::Error::custom)?;
        match fields {
            ValueFields { equals: Some(value), contains: None, regex: None, absent: None } => {
                Ok(Self::Equals(value))
            }
            ValueFields { equals: None, contains: Some(text), regex: None, absent: None } => {
                Ok(Self::Text(TextMatch::Contains(text)))
            }
            ValueFields { equals: None, contains: None, regex: Some(source), absent: None } => {
                compile(&source).map(Self::Text)
            }
            ValueFields { equals: None, contains: None, regex: None, absent: Some(true) } => Ok(Self::Absent),
            _ => Err(de::Error::custom("give exactly one of equals, contains, regex, absent: true")),
        }
    }
}

/// Compiles a regular expression while the script is loaded, so that a bad one is an error of the script and not of a
/// request.
fn compile<E: de::Error>(source: &str) -> Result<TextMatch, E> {
    Regex::new(source).map(TextMatch::Regex).map_err(|error| E::custom(format!("bad regex: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn conditions(text: &str) -> Conditions {
        serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}"))
    }

    fn facts() -> Facts {
        let body = json!({
            "model": "claude-x", "max_tokens": 7, "stream": true, "thinking": {"type": "adaptive"},
            "system": "be brief", "tools": [{"name": "Bash"}],
            "messages": [{"role": "user", "content": "What is the weather?"}],
        });
        let headers =
            vec![("x-api-key".to_owned(), "k".to_owned()), ("x-script-agent".to_owned(), "main".to_owned())];
        Facts::from_http(body.to_string().into(), headers).unwrap()
    }

    #[test]
    fn conditions_that_hold() {
        for text in [
            "user: weather",
            "user: {equals: What is the weather?}",
            "user: {regex: '^What .* weather\\?$', not: snow}",
            "user: [weather, {contains: What}]",
            "user: {any: [snow, weather]}",
            "first_user: weather\nany_user: weather\nsystem: brief",
            "agent: main\nmodel: claude-x",
            "model: {contains: claude}",
            "tools: [Bash]\nhas_tools: true\nstream: true\nmax_tokens: 7\ntool_error: false",
            "headers: {X-Api-Key: k}",
            "body: {/thinking/type: adaptive, /max_tokens: 7, /top_k: {absent: true}, /model: {regex: x$}}",
            "body: {/thinking: {equals: {type: adaptive}}, /tools: {contains: Bash}}",
            "{}",
        ] {
            assert_eq!(conditions(text).check(&facts()), Ok(()), "{text}");
        }
    }

    #[test]
    fn conditions_that_do_not_hold_begin_with_their_key() {
        for (text, key) in [
            ("user: snow", "user"),
            ("user: {not: weather}", "user"),
            ("user: [weather, snow]", "user"),
            ("agent: mai", "agent"),
            ("model: claude", "model"),
            ("tool: Bash", "tool"),
            ("tool_result: x", "tool_result"),
            ("tool_error: true", "tool_error"),
            ("brings: reminders", "brings"),
            ("tools: [Read]", "tools"),
            ("stream: false", "stream"),
            ("max_tokens: 8", "max_tokens"),
            ("marker: bob", "marker"),
            ("headers: {x-other: k}", "headers.x-other"),
            ("body: {/thinking/type: disabled}", "body /thinking/type"),
            ("body: {/thinking: {absent: true}}", "body /thinking"),
            ("body: {/nowhere: {contains: a}}", "body /nowhere"),
        ] {
            let why = conditions(text).check(&facts()).expect_err(text);
            assert!(why.starts_with(&format!("{key}: ")), "{text}: {why}");
        }
    }

    #[test]
    fn a_condition_that_says_nothing_is_an_error() {
        for text in
            ["user: {}", "body: {/a: {}}", "body: {/a: {equals: 1, contains: b}}", "body: {/a: {like: b}}"]
        {
            assert!(serde_saphyr::from_str::<Conditions>(text).is_err(), "{text}");
        }
    }
}
