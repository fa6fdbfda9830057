//! The records of a session file. There are two families: *chain* records (`user`, `assistant`, `system`, `attachment`)
//! form the conversation by `uuid` and `parentUuid`; *side* records (titles, tags, costs …) are facts about the
//! session, of which the last one of a kind counts.
//!
//! [`chain`] builds the chain records that a session writes, [`side`] holds the side records for reading and writing,
//! and [`Record`] is any line after parsing. Ids and times always come from the caller. No record is rejected because
//! it is unknown; it keeps all its fields.

pub mod chain;
pub mod side;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::Result;
pub use chain::{
    AssistantBody, AttachmentBody, ChainBody, Envelope, Link, SystemBody, TurnPosition, UserBody,
};
pub use side::{CostState, SideRecord};

/// One record as it is written to the file: compact JSON and a newline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line(String);

impl Line {
    /// Serialises a record as one line of compact JSON, with its newline. Line breaks between the tokens of raw JSON
    /// become spaces.
    pub fn of(record: &impl Serialize) -> Result<Self> {
        let mut json = serde_json::to_string(record)?;
        // Raw JSON from another program may be pretty-printed. A line break between tokens is only white space, and
        // inside a string it is always escaped.
        if json.contains(['\n', '\r']) {
            json = json.replace(['\n', '\r'], " ");
        }
        json.push('\n');
        Ok(Self(json))
    }

    /// Returns the record without its newline, for mirrors of the file.
    pub fn json(&self) -> &str {
        &self.0[..self.0.len() - 1]
    }

    /// Returns the record with its newline, as it stands in the file.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Any record after parsing.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A link of the conversation.
    Chain(ChainRecord),
    /// A fact about the session.
    Side(SideRecord),
}

/// The type of a chain record. An unknown type is still part of the chain if it has a `uuid` and a parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainKind {
    /// A prompt, a tool result, or a synthetic turn.
    User,
    /// One content block of a response.
    Assistant,
    /// Compaction boundaries, local commands, errors.
    System,
    /// Context that was added for the model.
    Attachment,
    /// Progress of a tool, written by older versions.
    Progress,
    /// A newer type.
    Other(String),
}

/// A chain record with all its fields.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainRecord {
    /// Its type.
    pub kind: ChainKind,
    /// The whole record, `type` included.
    pub fields: Map<String, Value>,
}

impl ChainRecord {
    /// Returns the id of the record; empty if it is not a string.
    pub fn uuid(&self) -> &str {
        self.text("uuid").unwrap_or_default()
    }

    /// Returns whether it belongs to a subagent.
    pub fn is_sidechain(&self) -> bool {
        self.fields.get("isSidechain") == Some(&Value::Bool(true))
    }

    /// Returns the API message of a user or assistant record; `None` if the record has none.
    pub fn message(&self) -> Option<&Value> {
        self.fields.get("message")
    }

    /// Returns a field that holds a string; `None` if it is missing or another value.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.fields.get(key)?.as_str()
    }
}

impl Record {
    /// Parses one line. It is an error only if the line is not a JSON object; a record of unknown form keeps all its
    /// fields.
    pub fn parse(json: &str) -> Result<Self> {
        let fields: Map<String, Value> = serde_json::from_str(json)?;
        Ok(Self::from_fields(fields))
    }

    /// Sorts a record into chain or side. `index.rs` sorts by the same fields, so both must be changed together.
    fn from_fields(fields: Map<String, Value>) -> Self {
        let kind = match fields.get("type").and_then(Value::as_str).unwrap_or_default() {
            "user" => ChainKind::User,
            "assistant" => ChainKind::Assistant,
            "system" => ChainKind::System,
            "attachment" => ChainKind::Attachment,
            "progress" => ChainKind::Progress,
            other => ChainKind::Other(other.to_owned()),
        };
        // Some programs give side records a uuid, but only chain records have a parent.
        let may_be_link = !matches!(kind, ChainKind::Other(_)) || fields.contains_key("parentUuid");
        if may_be_link && fields.get("uuid").is_some_and(Value::is_string) {
            Self::Chain(ChainRecord { kind, fields })
        } else {
            Self::Side(SideRecord::from_fields(fields))
        }
    }

    /// Returns the record as JSON, with all its fields.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Chain(chain) => Value::Object(chain.fields.clone()),
            Self::Side(side) => side.to_value(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use serde_json::value::RawValue;

    #[test]
    fn a_line_is_one_line_even_when_its_source_was_pretty_printed() {
        let raw = RawValue::from_string("{\n  \"a\": \"x\\ny\"\r\n}".to_owned()).unwrap();
        let line = Line::of(&json!({ "type": "t", "m": 1 })).unwrap();
        assert_eq!(line.json(), r#"{"type":"t","m":1}"#);
        let line = Line::of(&raw).unwrap();
        assert_eq!(line.bytes().iter().filter(|byte| **byte == b'\n').count(), 1);
        assert_eq!(serde_json::from_str::<Value>(line.json()).unwrap(), json!({ "a": "x\ny" }));
    }

    #[test]
    fn unknown_records_keep_everything() {
        let link = r#"{"type":"future","uuid":"u","parentUuid":"p","x":{"y":[1,2.5]}}"#;
        let Record::Chain(record) = Record::parse(link).unwrap() else { panic!("a uuid makes a link") };
        assert_eq!(record.kind, ChainKind::Other("future".into()));
        assert_eq!((record.uuid(), record.text("parentUuid")), ("u", Some("p")));
        let side = r#"{"type":"custom-title","customTitle":7,"z":null}"#;
        let with_uuid = r#"{"type":"custom-title","customTitle":"T","sessionId":"S","uuid":"u"}"#;
        assert!(matches!(Record::parse(with_uuid).unwrap(), Record::Side(SideRecord::CustomTitle { .. })));
        for text in [link, side, with_uuid, "{}"] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(Record::parse(text).unwrap().to_value(), value);
        }
        assert!(Record::parse("[1]").is_err());
    }
}
