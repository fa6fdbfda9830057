//! The bytes of a request, split as far as the checks need it: the top-level fields and the text of each message.
//!
//! Nothing inside a field is parsed here. Over HTTP the body is one text and is walked once; in-process the client's
//! assembly knows the positions of the messages, so that only the fields before them are walked. A message that was
//! checked before is then recognised by its bytes alone.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use lathe_models::OutgoingRequest;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::refusal::{RequestRefusal, Verdict, refuse};

/// The fields of a body, in the order sent.
#[derive(Debug, Default)]
pub(crate) struct BodyFields<'a> {
    fields: Vec<(Cow<'a, str>, &'a RawValue)>,
    pub(crate) messages: MessagesField<'a>,
    /// The whole body, if it is one text: error messages count lines and characters in it.
    whole: Option<&'a str>,
}

/// The `messages` of a body.
#[derive(Debug, Default)]
pub(crate) enum MessagesField<'a> {
    #[default]
    Absent,
    NotAList,
    List(Vec<MessageText<'a>>),
}

/// One message as it was sent.
#[derive(Debug, Clone)]
pub(crate) struct MessageText<'a> {
    pub(crate) json: Cow<'a, str>,
    /// Its position in the body, in bytes.
    offset: usize,
}

impl<'a> BodyFields<'a> {
    /// Splits a body into its fields without parsing their values. Refuses a body that is not a JSON object, with the
    /// message of the API.
    pub(crate) fn split(body: &'a [u8]) -> Verdict<Self> {
        let Ok(text) = std::str::from_utf8(body) else {
            return refuse(not_json("invalid utf-8", None, 0));
        };
        let mut fields: BodyFields<'a> =
            serde_json::from_str(text).map_err(|error| unreadable(&error, text, Some(text), 0))?;
        fields.whole = Some(text);
        if let MessagesField::List(messages) = &mut fields.messages {
            for message in messages {
                // Each message is a slice of the text.
                message.offset = message.json.as_ptr() as usize - text.as_ptr() as usize;
            }
        }
        Ok(fields)
    }

    /// Returns the fields of an assembled body. `head` must be the text that [`head_of`] returns for `sent`; the
    /// messages are found by their spans and not parsed.
    pub(crate) fn of_assembled(head: &'a str, sent: &'a OutgoingRequest) -> Verdict<Self> {
        let mut fields: BodyFields<'a> =
            serde_json::from_str(head).map_err(|error| unreadable(&error, head, None, 0))?;
        let mut pieces = Pieces::new(sent.chunks());
        let mut messages = Vec::with_capacity(sent.message_spans().len());
        for span in sent.message_spans() {
            let json = match pieces.text(span) {
                Some(json) => json,
                None => return refuse(not_json("invalid utf-8", None, span.start)),
            };
            messages.push(MessageText { json, offset: span.start });
        }
        fields.messages = MessagesField::List(messages);
        Ok(fields)
    }

    /// Returns the names of the fields, without `messages`, in the order in which they were sent.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_ref())
    }

    /// Returns the text of a field as it was sent; `None` if it is absent. `messages` is not among these fields.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a str> {
        self.fields.iter().find(|(key, _)| key == name).map(|(_, raw)| raw.get())
    }

    /// Parses a field; `None` if it is absent or null. JSON that is not valid inside the field is refused.
    pub(crate) fn value(&self, name: &str) -> Verdict<Option<Value>> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let offset = self.whole.map_or(0, |whole| raw.as_ptr() as usize - whole.as_ptr() as usize);
        let value: Value =
            serde_json::from_str(raw).map_err(|error| unreadable(&error, raw, self.whole, offset))?;
        Ok(Some(value).filter(|value| !value.is_null()))
    }

    /// Parses one message of this body; JSON that is not valid is refused with its position in the body.
    pub(crate) fn parse_message(&self, message: &MessageText<'_>) -> Verdict<Value> {
        serde_json::from_str(&message.json)
            .map_err(|error| unreadable(&error, &message.json, self.whole, message.offset))
    }
}

/// Returns the part of an assembled body before its first message, closed with `]}` to a complete body. Without
/// messages it is the whole body.
pub(crate) fn head_of(sent: &OutgoingRequest) -> Verdict<String> {
    let end = sent.message_spans().first().map_or(usize::MAX, |span| span.start);
    let mut head = Vec::new();
    for chunk in sent.chunks() {
        let left = end - head.len();
        head.extend_from_slice(&chunk[..chunk.len().min(left)]);
        if chunk.len() >= left {
            head.extend_from_slice(b"]}");
            break;
        }
    }
    String::from_utf8(head).or_else(|_| refuse(not_json("invalid utf-8", None, 0)))
}

/// Reads spans of a body that consists of pieces, in ascending order.
struct Pieces<'a> {
    chunks: &'a [Bytes],
    /// The position of the first of `chunks`.
    start: usize,
}

impl<'a> Pieces<'a> {
    /// Creates a reader of the chunks of an assembled body, at its beginning.
    fn new(chunks: &'a [Bytes]) -> Self {
        Self { chunks, start: 0 }
    }

    /// Returns the text of a range of the body, borrowed if it is in one piece; `None` if the range is not in the body
    /// or not UTF-8. Ranges must be read from front to back.
    fn text(&mut self, span: &Range<usize>) -> Option<Cow<'a, str>> {
        while let Some((first, rest)) = self.chunks.split_first()
            && self.start + first.len() <= span.start
        {
            self.start += first.len();
            self.chunks = rest;
        }
        let first = self.chunks.first()?;
        let (from, to) = (span.start - self.start, span.end - self.start);
        if let Some(bytes) = first.get(from..to) {
            return std::str::from_utf8(bytes).ok().map(Cow::Borrowed);
        }
        let mut joined: Vec<u8> = Vec::with_capacity(span.len());
        for chunk in self.chunks {
            joined.extend_from_slice(chunk);
            if joined.len() >= to {
                break;
            }
        }
        joined.truncate(to);
        String::from_utf8(joined.split_off(from)).ok().map(Cow::Owned)
    }
}

/// Returns the API's refusal of a body that is not JSON. `parsed` is the text that failed and `offset` its position in
/// the whole body.
fn unreadable(error: &serde_json::Error, parsed: &str, whole: Option<&str>, offset: usize) -> RequestRefusal {
    let said = error.to_string();
    let what = if said.contains("unexpected end of hex escape") {
        "no low surrogate in string"
    } else if said.contains("surrogate") {
        "invalid high surrogate in string"
    } else if error.is_eof() {
        "unexpected end of data"
    } else {
        "unexpected character"
    };
    let line_start = match error.line() {
        0 | 1 => 0,
        line => parsed.match_indices('\n').nth(line - 2).map_or(0, |(at, _)| at + 1),
    };
    RequestRefusal::invalid(not_json(what, whole, offset + line_start + error.column().saturating_sub(1)))
}

/// Returns the message of the API for a body that is not JSON. Line and column are counted in `whole` up to the byte
/// `offset`; without it the body is taken as one line.
fn not_json(what: &str, whole: Option<&str>, offset: usize) -> String {
    let before = whole.and_then(|text| text.as_bytes().get(..offset)).map(String::from_utf8_lossy);
    let (line, column, place) = match before {
        Some(before) => {
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
            (line, column, before.chars().count())
        }
        None => (1, offset + 1, offset),
    };
    format!("The request body is not valid JSON: {what}: line {line} column {column} (char {place})")
}

impl<'de: 'a, 'a> Deserialize<'de> for BodyFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = BodyFields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<BodyFields<'de>, A::Error> {
                let mut body = BodyFields::default();
                while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                    if key == "messages" {
                        body.messages = map.next_value()?;
                    } else {
                        body.fields.push((key, map.next_value()?));
                    }
                }
                Ok(body)
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for MessagesField<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListOrNot;
        impl<'de> Visitor<'de> for ListOrNot {
            type Value = MessagesField<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<MessagesField<'de>, A::Error> {
                let mut messages = Vec::new();
                while let Some(raw) = list.next_element::<&'de RawValue>()? {
                    messages.push(MessageText { json: Cow::Borrowed(raw.get()), offset: 0 });
                }
                Ok(MessagesField::List(messages))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MessagesField<'de>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(MessagesField::NotAList)
            }
            fn visit_str<E>(self, _: &str) -> Result<MessagesField<'de>, E> {
                Ok(MessagesField::NotAList)
            }
            fn visit_bool<E>(self, _: bool) -> Result<MessagesField<'de>, E> {
                Ok(MessagesField::NotAList)
            }
            fn visit_f64<E>(self, _: f64) -> Result<MessagesField<'de>, E> {
                Ok(MessagesField::NotAList)
            }
            fn visit_i64<E>(self, _: i64) -> Result<MessagesField<'de>, E> {
                Ok(MessagesField::NotAList)
            }
            fn visit_u64<E>(self, _: u64) -> Result<MessagesField<'de>, E> {
                Ok(MessagesField::NotAList)
            }
            fn visit_unit<E>(self) -> Result<MessagesField<'de>, E> {
                Ok(MessagesField::NotAList)
            }
        }
        deserializer.deserialize_any(ListOrNot)
    }
}
