//! The few fields of a record that the index needs, read in one pass over its bytes without parsing the rest. A field
//! of the wrong type reads as absent and a repeated key as its last value, because files of other versions and damaged
//! files must load.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::tasks::NOTICE_TAG;

/// The fields of a record that the index needs.
#[derive(Debug, Default)]
pub(crate) struct Head<'a> {
    pub kind: Option<Cow<'a, str>>,
    pub uuid: Option<Cow<'a, str>>,
    pub parent: Parent<'a>,
    pub session_id: Option<Cow<'a, str>>,
    pub is_sidechain: bool,
    pub is_meta: bool,
    pub is_summary: bool,
    pub is_team: bool,
    pub has_ai_title: bool,
    /// Has `rendered`: the text of an attachment for the model.
    pub is_rendered: bool,
    /// `message.id`: shared by all blocks of one response.
    pub message_id: Option<Cow<'a, str>>,
    /// `apiBlockIndex`: which block of that response it is.
    pub block_index: Option<u64>,
    /// An attachment that delivered a prompt.
    pub is_queued_prompt: bool,
    /// `attachment.source_uuid`: the uuid of that prompt, if the host gave it one.
    pub queued_uuid: Option<Cow<'a, str>>,
    /// `toolUseResult` names a background task: the call started or stopped it.
    pub has_task_result: bool,
    /// `origin` or `attachment` names the run of a task (`runId`), whose end the record tells.
    pub names_task_run: bool,
    /// `content` is a text with a notice of a task.
    pub holds_notice: bool,
}

/// The link of a record to the one before it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Parent<'a> {
    /// Missing or of the wrong type. Every writer writes it, so this is damage.
    #[default]
    Unknown,
    /// `null`: the conversation starts here.
    Root,
    Uuid(Cow<'a, str>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Head<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeadVisitor)
    }
}

struct HeadVisitor;

impl<'de> Visitor<'de> for HeadVisitor {
    type Value = Head<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut head = Head::default();
        while let Some(Key(key)) = map.next_key()? {
            match &*key {
                "type" => head.kind = map.next_value::<Loose>()?.text(),
                "uuid" => head.uuid = map.next_value::<Loose>()?.text(),
                "parentUuid" => {
                    head.parent = match map.next_value::<Loose>()? {
                        Loose::Text(uuid) => Parent::Uuid(uuid),
                        Loose::Null => Parent::Root,
                        Loose::True | Loose::Number(_) | Loose::Object(_) | Loose::Other => Parent::Unknown,
                    }
                }
                "sessionId" => head.session_id = map.next_value::<Loose>()?.text(),
                "isSidechain" => head.is_sidechain = map.next_value::<Loose>()?.is_true(),
                "isMeta" => head.is_meta = map.next_value::<Loose>()?.is_true(),
                "isCompactSummary" => head.is_summary = map.next_value::<Loose>()?.is_true(),
                "teamName" => {
                    head.is_team = map.next_value::<Loose>()?.text().is_some_and(|name| !name.is_empty())
                }
                "aiTitle" => head.has_ai_title = map.next_value::<Loose>()?.text().is_some(),
                "rendered" => head.is_rendered = !matches!(map.next_value::<Loose>()?, Loose::Null),
                "message" => head.message_id = map.next_value::<Loose>()?.member("id"),
                "apiBlockIndex" => head.block_index = map.next_value::<Loose>()?.number(),
                "attachment" => {
                    let body = map.next_value::<Loose>()?;
                    head.is_queued_prompt = body.member("type").is_some_and(|kind| kind == "queued_command");
                    head.queued_uuid = body.member("source_uuid");
                    head.names_task_run |= body.member("runId").is_some();
                }
                "origin" => head.names_task_run |= map.next_value::<Loose>()?.member("runId").is_some(),
                "toolUseResult" => {
                    let result = map.next_value::<Loose>()?;
                    let named = ["backgroundTaskId", "task_id"].map(|name| result.member(name).is_some());
                    head.has_task_result = named.contains(&true);
                }
                "content" => {
                    let text = map.next_value::<Loose>()?.text();
                    head.holds_notice = text.is_some_and(|text| text.contains(NOTICE_TAG));
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(head)
    }
}

/// An object key, borrowed if it has no escapes.
pub(crate) struct Key<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Key(Loose::deserialize(deserializer)?.text().unwrap_or_default()))
    }
}

/// Any JSON value, reduced to what the readers of this crate need.
pub(crate) enum Loose<'a> {
    Text(Cow<'a, str>),
    True,
    /// A whole number that is not negative.
    Number(u64),
    Null,
    /// An object: those of its [`MEMBERS`] that are strings.
    Object(Vec<(&'static str, Cow<'a, str>)>),
    Other,
}

/// The members of nested objects that are kept.
const MEMBERS: [&str; 6] = ["backgroundTaskId", "id", "runId", "source_uuid", "task_id", "type"];

impl<'a> Loose<'a> {
    /// Returns the string; `None` for any other value, so that a field of the wrong type counts as absent.
    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) => Some(text),
            Self::True | Self::Number(_) | Self::Null | Self::Object(_) | Self::Other => None,
        }
    }

    /// Returns the whole number; `None` for any other value, negative numbers and fractions included.
    pub(crate) fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(_) | Self::True | Self::Null | Self::Object(_) | Self::Other => None,
        }
    }

    /// Returns whether the value is `true`; strings and numbers are not converted.
    pub(crate) fn is_true(&self) -> bool {
        matches!(self, Self::True)
    }

    /// Returns a string member of an object, the last one if it is repeated; `None` if there is none. `name` must be
    /// one of [`MEMBERS`], because others are not kept.
    pub(crate) fn member(&self, name: &str) -> Option<Cow<'a, str>> {
        match self {
            Self::Object(members) => {
                members.iter().rev().find(|(key, _)| *key == name).map(|(_, text)| text.clone())
            }
            Self::Text(_) | Self::True | Self::Number(_) | Self::Null | Self::Other => None,
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Loose<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseVisitor)
    }
}

struct LooseVisitor;

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = Loose<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Loose::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Loose::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(if value { Loose::True } else { Loose::Other })
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Loose::Other)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Loose::Number(number))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Loose::Other)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Loose::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Loose::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(Key(key)) = map.next_key()? {
            match MEMBERS.iter().find(|name| **name == key) {
                Some(name) => members.extend(map.next_value::<Scalar>()?.0.map(|text| (*name, text))),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Loose::Object(members))
    }
}

/// A string member; `None` for any other value.
struct Scalar<'a>(Option<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Scalar(Loose::deserialize(deserializer)?.text()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_types_read_as_absent_and_the_last_key_wins() {
        let json = r#"{"type":7,"uuid":"a","uuid":"b","parentUuid":null,"isMeta":"true","isSidechain":true,
            "message":["id"],"attachment":{"source_uuid":{"id":"x"}},"extra":{"uuid":"no"}}"#;
        let head: Head = serde_json::from_str(json).unwrap();
        assert_eq!(head.uuid.as_deref(), Some("b"));
        assert!(head.kind.is_none() && head.message_id.is_none());
        assert_eq!(head.parent, Parent::Root);
        assert_eq!(serde_json::from_str::<Head>(r#"{"parentUuid":7}"#).unwrap().parent, Parent::Unknown);
        assert!(head.queued_uuid.is_none());
        assert!(head.is_sidechain && !head.is_meta);
    }

    #[test]
    fn nested_ids_are_found() {
        let json =
            r#"{"type":"assistant","message":{"content":[{"id":"toolu"}],"id":"msg_1"},"aiTitle":"t"}"#;
        let head: Head = serde_json::from_str(json).unwrap();
        assert_eq!(head.message_id.as_deref(), Some("msg_1"));
        assert!(head.has_ai_title);
    }

    #[test]
    fn only_objects_are_records() {
        for json in ["[]", "1", "\"{}\"", "null"] {
            assert!(serde_json::from_str::<Head>(json).is_err(), "{json}");
        }
    }
}
