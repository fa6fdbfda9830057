//! A JSON object whose values are kept as text. Records of other versions pass through unchanged: the spelling of
//! numbers, lone surrogates and the order of keys survive, which a parsed value would not guarantee.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

/// An object whose members are in the order of its text.
#[derive(Debug, Clone)]
pub(crate) struct RawObject<'a>(Vec<(Cow<'a, str>, Part<'a>)>);

#[derive(Debug, Clone)]
enum Part<'a> {
    Found(&'a RawValue),
    Set(Box<RawValue>),
}

impl<'a> RawObject<'a> {
    /// Parses an object without parsing its members, which borrow from `json`. Any other value is an error.
    pub(crate) fn parse(json: &'a str) -> serde_json::Result<Self> {
        serde_json::from_str(json)
    }

    /// Returns the JSON text of a member; for a repeated key, the last one. `None` if there is none.
    pub(crate) fn get(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, part)| match part {
            Part::Found(raw) => *raw,
            Part::Set(raw) => raw,
        })
    }

    /// Returns a member with the lifetime of the parsed text; for a repeated key, the last one. `None` if there is none or
    /// it was set since.
    pub(crate) fn found(&self, key: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(name, _)| name == key).and_then(|(_, part)| match part {
            Part::Found(raw) => Some(*raw),
            Part::Set(_) => None,
        })
    }

    /// Returns a member that is a string; `None` if it is missing, another value, or has half of a surrogate pair.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.get(key)?.get()).ok()
    }

    /// Returns a member as a parsed value; `None` if it is missing or a string in it has half of a surrogate pair.
    pub(crate) fn value(&self, key: &str) -> Option<serde_json::Value> {
        serde_json::from_str(self.get(key)?.get()).ok()
    }

    /// Sets a member, of a repeated key the last one, which [`Self::get`] returns. An existing one keeps its position;
    /// a new one is added at the end. Fails only if `value` cannot be serialised.
    pub(crate) fn set(&mut self, key: &str, value: &impl Serialize) -> serde_json::Result<()> {
        let raw = Part::Set(serde_json::value::to_raw_value(value)?);
        match self.0.iter_mut().rev().find(|(name, _)| name == key) {
            Some((_, part)) => *part = raw,
            None => self.0.push((Cow::Owned(key.to_owned()), raw)),
        }
        Ok(())
    }

    /// Removes a member, all of them if the key is repeated; nothing happens if there is none.
    pub(crate) fn remove(&mut self, key: &str) {
        self.0.retain(|(name, _)| name != key);
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RawObjectVisitor)
    }
}

struct RawObjectVisitor;

impl<'de> Visitor<'de> for RawObjectVisitor {
    type Value = RawObject<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            members.push((key, Part::Found(map.next_value()?)));
        }
        Ok(RawObject(members))
    }
}

impl Serialize for RawObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, part) in &self.0 {
            match part {
                Part::Found(raw) => map.serialize_entry(key, raw)?,
                Part::Set(raw) => map.serialize_entry(key, raw)?,
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_touched_stays_as_it_was() {
        let json = r#"{"b":1.50,"a":"\ud83d","n":123456789012345678901234567890,"x":null}"#;
        let mut object = RawObject::parse(json).unwrap();
        assert_eq!(serde_json::to_string(&object).unwrap(), json);
        assert_eq!(object.text("a"), None);
        object.set("b", &"new").unwrap();
        object.set("z", &true).unwrap();
        object.remove("x");
        assert_eq!(
            serde_json::to_string(&object).unwrap(),
            r#"{"b":"new","a":"\ud83d","n":123456789012345678901234567890,"z":true}"#
        );
    }
}
