//! Positions in a JSON text: the line and column of every key and list entry.
//!
//! `serde_json` parses the values and reports errors; this module walks over a text that `serde_json` has accepted and
//! records positions, so it needs no errors of its own. It also finds duplicate keys, which a parsed value no longer
//! shows because the last one replaces the others.

use std::collections::{HashMap, HashSet};

use crate::file::to_u32;
use crate::problem::Position;

/// The depth down to which positions are recorded: deeper than any setting that a message names.
const MAX_DEPTH: usize = 8;

/// The positions of keys and list entries.
#[derive(Debug, Clone, Default)]
pub(crate) struct Positions {
    places: HashMap<String, Position>,
    /// Keys that occur a second time in their object: the path of the key, and its position.
    pub duplicates: Vec<(Vec<String>, Position)>,
}

impl Positions {
    /// Returns the positions in a text that is valid JSON. In any other text the walk stops early and what it has found
    /// is returned; it never panics.
    pub fn of(text: &str) -> Self {
        let mut walk = Walk { text, at: 0, line: 1, line_start: 0, path: Vec::new(), found: Self::default() };
        walk.value();
        walk.found
    }

    /// Returns the position of a key or a list entry; entries are named by their index. `None` if there is nothing at
    /// this path, or if it is nested too deep.
    pub fn get(&self, path: &[&str]) -> Option<Position> {
        // A key with a slash in it can collide with a deeper path. That only moves the position in a message.
        self.places.get(&path.join("/")).copied()
    }
}

struct Walk<'a> {
    text: &'a str,
    /// Offset of the next byte.
    at: usize,
    line: usize,
    line_start: usize,
    path: Vec<String>,
    found: Positions,
}

impl Walk<'_> {
    /// Returns the next byte without consuming it; `None` at the end.
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space and counts lines. Only this function counts them: valid JSON has line ends nowhere else.
    fn skip_blanks(&mut self) {
        while let Some(byte @ (b' ' | b'\t' | b'\r' | b'\n')) = self.peek() {
            self.at += 1;
            if byte == b'\n' {
                self.line += 1;
                self.line_start = self.at;
            }
        }
    }

    /// Returns the current position, from 1; columns are characters, not bytes.
    fn position(&self) -> Position {
        let column = self.text[self.line_start..self.at].chars().count() + 1;
        Position { line: to_u32(self.line), column: to_u32(column) }
    }

    /// Records the current position for the current path. Nothing is recorded for a path that is nested too deep.
    fn note(&mut self) {
        if self.path.len() <= MAX_DEPTH {
            self.found.places.insert(self.path.join("/"), self.position());
        }
    }

    /// Walks over one value of any type. A number or a word ends at the next separator; its spelling is not checked.
    fn value(&mut self) {
        self.skip_blanks();
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => {
                self.string();
            }
            Some(_) => {
                let rest = &self.text.as_bytes()[self.at..];
                let end = rest.iter().position(|byte| b",]} \t\r\n".contains(byte));
                self.at += end.unwrap_or(rest.len());
            }
            None => {}
        }
    }

    /// Walks over an object, records the position of each key, and notes keys that occur again as duplicates. The
    /// position must be at the opening brace.
    fn object(&mut self) {
        self.at += 1;
        let mut seen = HashSet::new();
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'"') {
                break;
            }
            let start = self.position();
            let key = self.string();
            self.path.push(key.clone());
            if self.path.len() <= MAX_DEPTH {
                self.found.places.insert(self.path.join("/"), start);
            }
            if !seen.insert(key) {
                self.found.duplicates.push((self.path.clone(), start));
            }
            self.skip_blanks();
            self.at += usize::from(self.peek() == Some(b':'));
            self.value();
            self.path.pop();
            if !self.comma() {
                break;
            }
        }
        self.at += usize::from(self.peek() == Some(b'}'));
    }

    /// Walks over a list and records the position of each entry under its index. The position must be at the opening
    /// bracket.
    fn array(&mut self) {
        self.at += 1;
        for index in 0.. {
            self.skip_blanks();
            if matches!(self.peek(), None | Some(b']')) {
                break;
            }
            self.path.push(index.to_string());
            self.note();
            self.value();
            self.path.pop();
            if !self.comma() {
                break;
            }
        }
        self.at += usize::from(self.peek() == Some(b']'));
    }

    /// Skips blanks and a comma. Returns whether there was one; otherwise the object or list ends here.
    fn comma(&mut self) -> bool {
        self.skip_blanks();
        let is_comma = self.peek() == Some(b',');
        self.at += usize::from(is_comma);
        is_comma
    }

    /// Reads the string that starts here and returns its value; empty if it is not valid.
    fn string(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                // The escaped character may be a quote.
                b'\\' => self.at = (self.at + 1).min(self.text.len()),
                b'"' => break,
                _ => {}
            }
        }
        self.text.get(start..self.at).and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn place(text: &str, path: &[&str]) -> (u32, u32) {
        let found = Positions::of(text).get(path).unwrap_or_else(|| panic!("{path:?} in {text}"));
        (found.line, found.column)
    }

    #[test]
    fn keys_and_entries_have_places() {
        let text = "{\n  \"model\": \"x\",\r\n  \"permissions\": {\n    \"deny\": [\"a\",\n      \"b\\\"]\"],\n    \"é\": {}, \"k\\u0065y\": 1 }\n}";
        assert_eq!(place(text, &["model"]), (2, 3));
        assert_eq!(place(text, &["permissions"]), (3, 3));
        assert_eq!(place(text, &["permissions", "deny"]), (4, 5));
        assert_eq!(place(text, &["permissions", "deny", "0"]), (4, 14));
        assert_eq!(place(text, &["permissions", "deny", "1"]), (5, 7));
        assert_eq!(place(text, &["permissions", "é"]), (6, 5));
        assert_eq!(place(text, &["permissions", "key"]), (6, 14));
        assert!(Positions::of(text).duplicates.is_empty());
    }

    #[test]
    fn a_key_that_stands_there_twice_is_seen() {
        let found = Positions::of("{\"a\": {\"b\": 1, \"b\": 2},\n \"a\": []}");
        let names: Vec<String> = found.duplicates.iter().map(|(path, _)| path.join(".")).collect();
        assert_eq!(names, ["a.b", "a"]);
        assert_eq!(found.duplicates[1].1, Position { line: 2, column: 2 });
    }

    /// Returns every object key and list entry that the parser sees.
    fn count(value: &Value) -> usize {
        match value {
            Value::Object(map) => map.len() + map.values().map(count).sum::<usize>(),
            Value::Array(list) => list.len() + list.iter().map(count).sum::<usize>(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[^/]*", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_walk_agrees_with_the_parser(value in json(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let found = Positions::of(&text.unwrap());
            prop_assert_eq!(found.places.len(), count(&value));
            prop_assert!(found.duplicates.is_empty());
        }

        #[test]
        fn no_text_makes_it_panic(text in "[\\[\\]{}\",:\\\\ \n0aé]*") {
            Positions::of(&text);
        }
    }
}
