//! The form of a refusal: status, type and text of the API's error object, and the path of the faulty field.
//!
//! Paths are only written out when something is refused: during a check they are a chain of borrowed steps, so that the
//! many valid fields cost no allocation.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::render::{Framing, Reply, Step};

/// Why the Messages API would refuse a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RequestRefusal {
    /// HTTP status.
    pub status: u16,
    /// The API's error type.
    pub kind: &'static str,
    /// The API's message.
    pub message: String,
}

/// The result of a check.
pub(crate) type Verdict<T = ()> = Result<T, RequestRefusal>;

impl RequestRefusal {
    /// Returns a refusal with status 400.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { status: 400, kind: "invalid_request_error", message: message.into() }
    }

    /// Returns the refusal of a body that is larger than the API reads.
    pub(crate) fn too_large() -> Self {
        let message = "Request exceeds the maximum size".to_owned();
        Self { status: 413, kind: "request_too_large", message }
    }

    /// Returns the response with the id `req_refused_<refused>`, because a refused request does not use a number of the
    /// script. `refused` counts the refusals.
    pub(crate) fn reply(&self, refused: u64) -> Reply {
        let id = format!("req_refused_{refused}");
        let error = json!({"type": self.kind, "message": self.message});
        let body = json!({"type": "error", "error": error, "request_id": id});
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Reply {
            status: self.status,
            headers: vec![
                header("content-type", "application/json"),
                header("request-id", &id),
                header("x-should-retry", "false"),
            ],
            framing: Framing::Length,
            steps: vec![Step::Head, Step::Send(body.to_string().into())],
        }
    }
}

/// Returns the refusal of a request with status 400 and this message.
pub(crate) fn refuse<T>(message: impl Into<String>) -> Verdict<T> {
    Err(RequestRefusal::invalid(message))
}

/// A field of the request, as messages name it: `messages.2.content.0.text`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldPath<'a> {
    parent: Option<&'a FieldPath<'a>>,
    step: PathStep<'a>,
}

#[derive(Debug, Clone, Copy)]
enum PathStep<'a> {
    Name(&'a str),
    Index(usize),
}

impl<'a> FieldPath<'a> {
    /// Returns the path of a top-level field.
    pub(crate) fn root(name: &'a str) -> Self {
        Self { parent: None, step: PathStep::Name(name) }
    }

    /// Returns the path of the field `name` inside this one. Borrows this path, so no text is built yet.
    pub(crate) fn key<'b>(&'b self, name: &'b str) -> FieldPath<'b> {
        FieldPath { parent: Some(self), step: PathStep::Name(name) }
    }

    /// Returns the path of an item of this list. Borrows this path, so no text is built yet.
    pub(crate) fn index(&self, index: usize) -> FieldPath<'_> {
        FieldPath { parent: Some(self), step: PathStep::Index(index) }
    }

    /// Refuses the request because of this field. The message begins with its path, as those of the API do.
    pub(crate) fn refuse<T>(&self, message: impl fmt::Display) -> Verdict<T> {
        refuse(format!("{self}: {message}"))
    }

    /// Returns `value`, which is the value of this field, as an object. Refuses the request if it is not one.
    pub(crate) fn object<'v>(&self, value: &'v Value) -> Verdict<&'v Map<String, Value>> {
        match value {
            Value::Object(fields) => Ok(fields),
            _ => self.refuse("Input should be an object"),
        }
    }

    /// Returns the text under `name` in `object`, which is the value of this field. Refuses the request if it is absent
    /// or not a string.
    pub(crate) fn text<'v>(&self, object: &'v Map<String, Value>, name: &str) -> Verdict<&'v str> {
        match object.get(name) {
            Some(Value::String(text)) => Ok(text),
            Some(_) => self.key(name).refuse("Input should be a valid string"),
            None => self.key(name).refuse(REQUIRED),
        }
    }

    /// Refuses an object that has a key other than the known ones, by the first such key.
    pub(crate) fn only(&self, object: &Map<String, Value>, known: &[&str]) -> Verdict {
        match object.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => self.key(key).refuse(EXTRA),
            None => Ok(()),
        }
    }

    /// Refuses the request because the `type` of this field is `found` and not one of `known`, which the message lists.
    pub(crate) fn tag<T>(&self, found: &str, known: &[&str]) -> Verdict<T> {
        let known = known.iter().map(|tag| format!("'{tag}'")).collect::<Vec<_>>().join(", ");
        self.refuse(format!(
            "Input tag '{found}' found using 'type' does not match any of the expected tags: {known}"
        ))
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(f, "{parent}.")?;
        }
        match self.step {
            PathStep::Name(name) => f.write_str(name),
            PathStep::Index(index) => write!(f, "{index}"),
        }
    }
}

pub(crate) const EXTRA: &str = "Extra inputs are not permitted";
pub(crate) const REQUIRED: &str = "Field required";

/// Returns the value under `key`; `None` if it is absent or null, because an optional field may also be null.
pub(crate) fn given<'v>(object: &'v Map<String, Value>, key: &str) -> Option<&'v Value> {
    object.get(key).filter(|value| !value.is_null())
}
