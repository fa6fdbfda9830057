//! Cuts the value for programs (`tool_use_result`) to its limit: the shape stays, long parts are cut.
//!
//! Strings are cut and end with a note, lists and objects lose what comes last, and what is nested very deep becomes
//! null; the mildest of four steps that makes the value fit is used. An object then says in `persistedOutputPath` and
//! `persistedOutputSize` where the whole value is (the fields by which programs know a long output of a command), or in
//! `persistedOutputError` why it was not saved; a list says it in a last text block, a string at its end.

use lathe_protocol::content::tag_of;
use lathe_protocol::text::first_chars;
use lathe_tools::persisted::{self, human_size};
use serde_json::{Map, Value, json};

use super::Kept;

/// Characters that a number, a bracket or a comma counts as.
const NODE_CHARS: usize = 4;

/// What is nested deeper than this is left out of a value that is cut.
const DEPTH: usize = 16;

/// How much is kept of the parts of a value.
#[derive(Clone, Copy)]
struct Cut {
    /// Characters of a string; longer keys (in bytes) are dropped with their values.
    chars: usize,
    /// Members of a list or object.
    members: usize,
}

/// Tried in turn, the mildest first.
const CUTS: [Cut; 4] = [
    Cut { chars: 20_000, members: 1_000 },
    Cut { chars: 2_000, members: 200 },
    Cut { chars: 200, members: 50 },
    Cut { chars: 50, members: 10 },
];

/// Returns whether a value has at most that many characters, as [`chars`] counts them.
pub fn fits(value: &Value, most: usize) -> bool {
    chars(value, most) <= most
}

/// Counts the characters in all strings and keys of a value, and [`NODE_CHARS`] for each value in it, no further than
/// one beyond `most`.
pub fn chars(value: &Value, most: usize) -> usize {
    let mut room = most;
    if takes(value, &mut room) { most - room } else { most.saturating_add(1) }
}

/// Subtracts the size of a value from the room. Returns false if there is not enough; a part of the room may be used up
/// then.
fn takes(value: &Value, room: &mut usize) -> bool {
    take(NODE_CHARS, room)
        && match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
            Value::String(text) => take_text(text, room),
            Value::Array(items) => items.iter().all(|item| takes(item, room)),
            Value::Object(members) => {
                members.iter().all(|(key, value)| take_text(key, room) && takes(value, room))
            }
        }
}

/// Subtracts the characters of a text from the room. Returns false, with the room unchanged, if there is not enough.
fn take_text(text: &str, room: &mut usize) -> bool {
    // A text that is too long by its bytes alone is not counted.
    text.len() / 4 <= *room && take(text.chars().count(), room)
}

/// Subtracts a number of characters from the room. Returns false, with the room unchanged, if there is not enough.
fn take(chars: usize, room: &mut usize) -> bool {
    match room.checked_sub(chars) {
        Some(rest) => {
            *room = rest;
            true
        }
        None => false,
    }
}

/// Returns the value, cut by the mildest of [`CUTS`] with which it has at most `chars` characters, with a note that
/// says where the whole is. If none suffices, only an empty object, list or text and the note are left, and these may
/// exceed `chars`.
pub fn cut_to_fit(value: &Value, chars: usize, kept: &Kept) -> Value {
    for cut in CUTS {
        let bounded = with_note(shortened(value, cut, 0), kept);
        if fits(&bounded, chars) {
            return bounded;
        }
    }
    // Not even the last step fits, so only the shape is left.
    let empty = match value {
        Value::Object(_) => json!({}),
        Value::Array(_) => json!([]),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => json!(""),
    };
    with_note(empty, kept)
}

/// Returns the value with its strings cut and the last members of long lists and objects left out. A member whose key
/// is too long is left out too, because a cut key could equal another; what is nested deeper than [`DEPTH`] becomes
/// null.
fn shortened(value: &Value, cut: Cut, depth: usize) -> Value {
    if depth > DEPTH {
        return Value::Null;
    }
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => Value::String(shortened_text(text, cut.chars)),
        Value::Array(items) => {
            items.iter().take(cut.members).map(|item| shortened(item, cut, depth + 1)).collect()
        }
        Value::Object(members) => {
            // A key is dropped and never cut: the rest of it could be the name of another member.
            let kept = members.iter().filter(|(key, _)| key.len() <= cut.chars).take(cut.members);
            let kept = kept.map(|(key, value)| (key.clone(), shortened(value, cut, depth + 1)));
            Value::Object(kept.collect::<Map<String, Value>>())
        }
    }
}

/// Returns the first `chars` characters and a note of how much was left out; a text that fits stays as it is.
fn shortened_text(text: &str, chars: usize) -> String {
    let start = first_chars(text, chars);
    if start.len() == text.len() {
        return text.to_owned();
    }
    format!("{start}… [{} left out here]", human_size((text.len() - start.len()) as u64))
}

/// Adds to a cut value where the complete one is, or why it could not be saved: as members of an object (in place of
/// members with these names), as the last entry of a list (a text block if the list holds blocks or nothing), or at the
/// end of a text. Any other value stays as it is.
fn with_note(value: Value, kept: &Kept) -> Value {
    let note = || match kept {
        Ok(saved) => format!("[cut: {}]", saved.whereabouts()),
        Err(why) => format!("[cut: {}]", persisted::not_kept(why)),
    };
    match value {
        Value::Object(mut members) => {
            match kept {
                Ok(saved) => {
                    members.insert("persistedOutputPath".into(), saved.path.display().to_string().into());
                    members.insert("persistedOutputSize".into(), saved.bytes.into());
                }
                Err(why) => {
                    members.insert("persistedOutputError".into(), why.as_str().into());
                }
            }
            Value::Object(members)
        }
        Value::Array(mut items) => {
            // A list of blocks must stay one, because hosts read its items by their type.
            let of_blocks = items.first().is_none_or(|first| !tag_of(first).is_empty());
            items.push(if of_blocks { json!({"type": "text", "text": note()}) } else { json!(note()) });
            Value::Array(items)
        }
        Value::String(text) => json!(format!("{text}\n{}", note())),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other,
    }
}
