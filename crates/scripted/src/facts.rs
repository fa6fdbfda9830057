//! The content of a request, as far as scripts need it: last user text, tool results, system text, tools.
//!
//! The conversation is parsed only when it is needed. A script that goes by position never needs it, which keeps turn
//! 1,000 of a benchmark as cheap as turn 1.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use bytes::Bytes;
use lathe_models::{ModelRequest, OutgoingRequest};
use lathe_protocol::text::first_chars;
use regex::Regex;
use serde_json::{Map, Value};

use crate::check::{BodyFields, CheckedRequest, MessagesField, RequestRefusal};

/// One request as a script sees it.
#[derive(Debug)]
pub struct Facts {
    /// Number of the request, from one, counted over all requests that this script responded to.
    pub number: u64,
    /// The model that was asked for.
    pub model: String,
    /// Whether the response is to be streamed.
    pub stream: bool,
    /// The `max_tokens` asked for.
    pub max_tokens: Option<u64>,
    /// Whether the request offers any tool.
    pub has_tools: bool,
    /// The agent that asks: known in-process; over HTTP only if the client sends `x-script-agent`.
    pub agent: Option<String>,
    source: Source,
    checked: Option<CheckedRequest>,
    body: OnceLock<Value>,
    detail: OnceLock<Detail>,
}

#[derive(Debug)]
enum Source {
    Http { body: Bytes, headers: Vec<(String, String)> },
    InProcess(OutgoingRequest),
}

/// How an in-process caller wants the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Event by event.
    Streamed,
    /// As one message.
    Whole,
}

/// A tool result of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// Name of the tool, if the call is still in the conversation.
    pub tool: Option<String>,
    /// The text of the result.
    pub text: String,
    /// Whether it is marked as an error.
    pub is_error: bool,
}

#[derive(Debug, Default)]
struct Detail {
    system: String,
    tools: Vec<String>,
    /// User texts in order, one entry per message, without reminders.
    users: Vec<String>,
    results: Vec<ToolResult>,
    /// Every user text and tool result in the order of the conversation.
    texts: Vec<String>,
    /// How many of `users` and `results` are in the last message.
    last_message: Tail,
}

#[derive(Debug, Default)]
struct Tail {
    has_user_text: bool,
    results: usize,
}

/// The few fields that every script needs.
#[derive(Debug)]
pub(crate) struct RequestBrief {
    model: String,
    stream: bool,
    max_tokens: Option<u64>,
    has_tools: bool,
}

impl RequestBrief {
    /// Reads the fields by which turns are chosen. Refuses, also for a lax script, a body without messages (an empty
    /// list included), model or `max_tokens`; a `max_tokens` that is not a whole number is taken as `None`.
    pub(crate) fn read(fields: &BodyFields<'_>) -> Result<Self, RequestRefusal> {
        let missing = |name: &str| RequestRefusal::invalid(format!("{name}: Field required"));
        match &fields.messages {
            MessagesField::Absent | MessagesField::NotAList => return Err(missing("messages")),
            MessagesField::List(messages) if messages.is_empty() => {
                return Err(RequestRefusal::invalid("messages: at least one message is required"));
            }
            MessagesField::List(_) => {}
        }
        let Some(Value::String(model)) = fields.value("model")? else { return Err(missing("model")) };
        let Some(max_tokens) = fields.value("max_tokens")? else { return Err(missing("max_tokens")) };
        Ok(Self {
            model,
            stream: fields.value("stream")? == Some(Value::Bool(true)),
            max_tokens: max_tokens.as_u64(),
            has_tools: !matches!(fields.raw("tools").map(str::trim), None | Some("[]" | "null")),
        })
    }
}

impl Facts {
    /// Reads the body of a `POST /v1/messages` without the checks of the API; a body that is not a request is refused.
    /// Names of headers are in lower case, and the number is 0 until an engine responds.
    pub fn from_http(body: Bytes, headers: Vec<(String, String)>) -> Result<Self, RequestRefusal> {
        let brief = RequestBrief::read(&BodyFields::split(&body)?)?;
        Ok(Self::of_http(brief, body, headers))
    }

    /// Returns the facts of a request over HTTP. Names of headers are in lower case; `x-script-agent` names the agent.
    pub(crate) fn of_http(brief: RequestBrief, body: Bytes, headers: Vec<(String, String)>) -> Self {
        let agent = headers.iter().find(|(name, _)| name == "x-script-agent").map(|(_, value)| value.clone());
        Self::new(brief, agent, Source::Http { body, headers })
    }

    /// Returns the facts of a request that never becomes HTTP; `sent` is what the client would send for it and gives
    /// the body.
    pub(crate) fn of_outgoing(request: &ModelRequest, delivery: Delivery, sent: OutgoingRequest) -> Self {
        let brief = RequestBrief {
            model: request.model.clone(),
            stream: delivery == Delivery::Streamed,
            max_tokens: Some(request.max_tokens.into()),
            has_tools: !matches!(request.tools.trim(), "" | "[]"),
        };
        Self::new(brief, Some(request.agent.to_string()), Source::InProcess(sent))
    }

    /// Returns facts whose conversation is not parsed yet. The number is 0 until the engine chooses a turn.
    fn new(brief: RequestBrief, agent: Option<String>, source: Source) -> Self {
        Self {
            number: 0,
            model: brief.model,
            stream: brief.stream,
            max_tokens: brief.max_tokens,
            has_tools: brief.has_tools,
            agent,
            source,
            checked: None,
            body: OnceLock::new(),
            detail: OnceLock::new(),
        }
    }

    /// Sets the findings of the check; `None` if the request was not checked.
    pub(crate) fn with_check(self, checked: Option<CheckedRequest>) -> Self {
        Self { checked, ..self }
    }

    /// Returns whether the conversation contains a call with this id; false if the request was not checked, since only
    /// the check finds the calls.
    pub(crate) fn has_call(&self, id: &str) -> bool {
        self.checked.as_ref().is_some_and(|checked| checked.has_call(id))
    }

    /// Returns a hash of the conversation so far, if the model binds its thinking to it; otherwise, or if the request
    /// was not checked, 0.
    pub(crate) fn history(&self) -> u64 {
        self.checked.as_ref().map_or(0, |checked| checked.history)
    }

    /// Returns the whole body as JSON, parsed at the first call; null if it is not JSON.
    pub fn body(&self) -> &Value {
        self.body.get_or_init(|| match &self.source {
            Source::Http { body, .. } => serde_json::from_slice(body).unwrap_or(Value::Null),
            Source::InProcess(sent) => serde_json::from_slice(&sent.body_bytes()).unwrap_or(Value::Null),
        })
    }

    /// Returns the first header of this name, in any case; `None` if there is none, and always for an in-process
    /// request.
    pub fn header(&self, name: &str) -> Option<&str> {
        match &self.source {
            Source::Http { headers, .. } => headers
                .iter()
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.as_str()),
            Source::InProcess(_) => None,
        }
    }

    /// Returns the text that the user sent with this request, without reminders; `None` if the last message brings only
    /// tool results or reminders.
    pub fn fresh_user_text(&self) -> Option<&str> {
        let detail = self.detail();
        if detail.last_message.has_user_text { detail.users.last().map(String::as_str) } else { None }
    }

    /// Returns the newest user text of the conversation without reminders; `None` if there is none.
    pub fn last_user_text(&self) -> Option<&str> {
        self.detail().users.last().map(String::as_str)
    }

    /// Returns the text that the conversation began with, without reminders; `None` without user text.
    pub fn first_user_text(&self) -> Option<&str> {
        self.detail().users.first().map(String::as_str)
    }

    /// Returns the user texts, one for each message that has any, oldest first and without reminders.
    pub fn user_texts(&self) -> &[String] {
        &self.detail().users
    }

    /// Returns the name in the last `RUN<name>` of the user texts; `None` if there is none.
    pub fn last_marker(&self) -> Option<&str> {
        self.markers().last()
    }

    /// Returns how often `RUN<name>` occurs in all user texts together.
    pub fn marker_count(&self) -> usize {
        self.markers().count()
    }

    /// Returns the names in `RUN<name>` of all user texts, in their order.
    fn markers(&self) -> impl Iterator<Item = &str> {
        let texts = self.detail().users.iter();
        let after_run = texts.flat_map(|text| text.split("RUN<").skip(1));
        after_run.filter_map(|rest| rest.split_once('>')).map(|(name, _)| name)
    }

    /// Returns the tool results in the last message of the request; empty if there are none.
    pub fn fresh_results(&self) -> &[ToolResult] {
        let detail = self.detail();
        &detail.results[detail.results.len() - detail.last_message.results..]
    }

    /// Returns the text of the newest tool result of the conversation; `None` if there is none.
    pub fn last_tool_result(&self) -> Option<&str> {
        self.detail().results.last().map(|result| result.text.as_str())
    }

    /// Returns the text of the newest result of the tool `name`; `None` if the conversation has none.
    pub fn result_of(&self, name: &str) -> Option<&str> {
        let results = &self.detail().results;
        results
            .iter()
            .rev()
            .find(|result| result.tool.as_deref() == Some(name))
            .map(|result| result.text.as_str())
    }

    /// Returns the newest match of `regex` in the user texts and tool results: its first group, or all of it if it has
    /// none. `None` if nothing matches.
    pub fn last_match(&self, regex: &Regex) -> Option<String> {
        self.detail().texts.iter().rev().find_map(|text| {
            let found = regex.captures_iter(text).last()?;
            found.get(1).or_else(|| found.get(0)).map(|group| group.as_str().to_owned())
        })
    }

    /// Returns the system prompt, followed by the system messages of the conversation, each on new lines; empty if
    /// there is none.
    pub fn system(&self) -> &str {
        &self.detail().system
    }

    /// Returns the names of the offered tools in the order of the request.
    pub fn tools(&self) -> &[String] {
        &self.detail().tools
    }

    /// Returns a number that is the same for all requests of a conversation: a hash of the user id in the metadata
    /// and the first user text.
    pub fn conversation(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.body()["metadata"]["user_id"].as_str().hash(&mut hasher);
        self.first_user_text().hash(&mut hasher);
        hasher.finish()
    }

    /// Returns a short description of what the request brings, for error messages.
    pub fn summary(&self) -> String {
        let results = self.fresh_results().len();
        match self.fresh_user_text() {
            Some(text) => format!("user text {:?}", first_chars(text, 80)),
            None if results > 0 => format!("{results} tool result(s)"),
            None => "no user text and no tool result".to_owned(),
        }
    }

    /// Returns what is read from the conversation. The first call parses the whole body, so conditions that do not need
    /// it must not call this.
    fn detail(&self) -> &Detail {
        self.detail.get_or_init(|| Detail::read(self.body()))
    }

    /// Returns the facts of a request with this body, as if it had come over HTTP.
    #[cfg(test)]
    pub(crate) fn for_test(body: Value) -> Self {
        let mut facts = Self::from_http(Bytes::from(body.to_string()), Vec::new()).expect("a valid request");
        facts.number = 1;
        facts
    }
}

impl Detail {
    /// Collects system prompt, tools, user texts and tool results from a body. What is missing or malformed is left
    /// out. A message of the system joins the system prompt and is passed over as the last message; any other role but
    /// that of the assistant counts as the user.
    fn read(body: &Value) -> Self {
        let mut detail = Self { system: text_of(&body["system"]), ..Self::default() };
        detail.tools =
            list(&body["tools"]).iter().filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect();
        let mut calls: Map<String, Value> = Map::new();
        for message in list(&body["messages"]) {
            match message["role"].as_str() {
                Some("assistant") => {
                    let uses = list(&message["content"]).iter().filter(|block| block["type"] == "tool_use");
                    calls.extend(
                        uses.filter_map(|call| Some((call["id"].as_str()?.to_owned(), call["name"].clone()))),
                    );
                    detail.last_message = Tail::default();
                }
                Some("system") => {
                    detail.system.push('\n');
                    detail.system.push_str(&text_of(&message["content"]));
                }
                _ => detail.read_user(&message["content"], &calls),
            }
        }
        detail
    }

    /// Adds the texts and results of a user message, and makes it the last one. Reminders are left out, but only in a
    /// list of blocks: a content that is one string counts whole. `calls` maps the ids of the calls before it to the
    /// names of their tools.
    fn read_user(&mut self, content: &Value, calls: &Map<String, Value>) {
        let mut texts = Vec::new();
        let results_before = self.results.len();
        match content {
            Value::String(text) => texts.push(text.clone()),
            blocks => {
                for block in list(blocks) {
                    if block["type"] == "tool_result" {
                        let id = block["tool_use_id"].as_str().unwrap_or("");
                        let text = text_of(&block["content"]);
                        self.texts.push(text.clone());
                        self.results.push(ToolResult {
                            tool: calls.get(id).and_then(Value::as_str).map(str::to_owned),
                            text,
                            is_error: block["is_error"].as_bool().unwrap_or(false),
                        });
                    } else if let Some(text) = block["text"].as_str().filter(|text| !is_reminder(text)) {
                        texts.push(text.to_owned());
                    }
                }
            }
        }
        self.last_message =
            Tail { has_user_text: !texts.is_empty(), results: self.results.len() - results_before };
        if !texts.is_empty() {
            let text = texts.join("\n");
            self.texts.push(text.clone());
            self.users.push(text);
        }
    }
}

/// Returns whether a text begins with a reminder. Runtimes add these to user messages, so they are not the user's
/// words.
fn is_reminder(text: &str) -> bool {
    text.trim_start().starts_with("<system-reminder>")
}

/// Returns the entries of a list; an empty slice for any other value.
fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or(&[])
}

/// Returns a string as it is, or the texts of a list of blocks joined by line breaks; empty for any other value.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        blocks => {
            list(blocks).iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn conversation() -> Facts {
        Facts::for_test(json!({
            "model": "m", "max_tokens": 5, "system": [{"type": "text", "text": "be brief"}],
            "tools": [{"name": "Bash"}, {"name": "Read"}],
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "<system-reminder>\nnot a user</system-reminder>"},
                    {"type": "text", "text": "hello"}]},
                {"role": "system", "content": "environment"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "Bash", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "no", "is_error": true}]}
            ]
        }))
    }

    #[test]
    fn reminders_are_not_user_text_and_results_know_their_tool() {
        let facts = conversation();
        assert_eq!(facts.first_user_text(), Some("hello"));
        assert_eq!(facts.last_user_text(), Some("hello"));
        assert_eq!(facts.fresh_user_text(), None, "the last message brings only a tool result");
        let result = ToolResult { tool: Some("Bash".to_owned()), text: "no".to_owned(), is_error: true };
        assert_eq!(facts.fresh_results(), [result]);
        assert_eq!(facts.system(), "be brief\nenvironment");
        assert_eq!(facts.tools(), ["Bash", "Read"]);
        assert!(facts.has_tools && !facts.stream);
    }

    #[test]
    fn a_body_that_is_no_request_says_what_is_missing() {
        let refuse = |body: &str| Facts::from_http(Bytes::from(body.to_owned()), vec![]).unwrap_err().message;
        assert!(refuse("{").contains("not valid JSON"));
        assert_eq!(refuse(r#"{"model":"m","max_tokens":1}"#), "messages: Field required");
        assert_eq!(refuse(r#"{"messages":[{}],"max_tokens":1}"#), "model: Field required");
        assert_eq!(refuse(r#"{"messages":[{}],"model":"m"}"#), "max_tokens: Field required");
    }

    #[test]
    fn strange_messages_are_read_as_far_as_they_go() {
        let facts = Facts::for_test(
            json!({"model": "m", "max_tokens": 1, "messages": [7, {"role": "user", "content": [3, null]}]}),
        );
        assert_eq!(facts.last_user_text(), None);
        assert_eq!(facts.summary(), "no user text and no tool result");
    }
}
