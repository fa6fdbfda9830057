//! What was checked before and need not be checked again: a bounded memory, and the fingerprint by which a message is
//! recognised.
//!
//! A client moves its cache marks with every turn, so the bytes of a message change although the message does not. The
//! fingerprint therefore has two parts: the message without its marks, and the marks. A message that was valid with
//! marks is valid without them, because every rule about marks only forbids some.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use memchr::memmem;

/// A memory of valid items in two generations, each with items up to a total weight of `limit`. An item that is looked
/// up moves into the younger one; when that is full it becomes the older one, and the previous older one is dropped.
#[derive(Debug)]
pub(crate) struct RecentlyChecked<T> {
    younger: HashMap<u64, T>,
    older: HashMap<u64, T>,
    weight: usize,
    limit: usize,
}

impl<T: Clone> RecentlyChecked<T> {
    /// Returns an empty memory, each of whose two generations holds items up to a total weight of `limit`.
    pub(crate) fn new(limit: usize) -> Self {
        Self { younger: HashMap::new(), older: HashMap::new(), weight: 0, limit }
    }

    /// Returns a copy of what is known under `key`, or `None`. An item of the older generation moves into the younger
    /// one, with the weight that `weight` gives, which may drop other items.
    pub(crate) fn get(&mut self, key: u64, weight: impl Fn(&T) -> usize) -> Option<T> {
        if let Some(known) = self.younger.get(&key) {
            return Some(known.clone());
        }
        let known = self.older.remove(&key)?;
        let size = weight(&known);
        self.insert(key, known.clone(), size);
        Some(known)
    }

    /// Adds an item of this weight, in the unit of the limit. If the younger generation has no room it becomes the
    /// older one, and the previous older one is forgotten. An item that is heavier than the limit is kept all the same.
    pub(crate) fn insert(&mut self, key: u64, value: T, weight: usize) {
        if self.weight + weight > self.limit {
            self.older = std::mem::take(&mut self.younger);
            self.weight = 0;
        }
        self.weight += weight;
        self.younger.insert(key, value);
    }
}

/// The fingerprint of a message, in two parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageFingerprint {
    /// The message without its cache marks.
    pub(crate) content: u64,
    /// The marks and their positions; 0 without any.
    pub(crate) marks: u64,
}

const MARK_KEY: &[u8] = b"\"cache_control\"";

/// Returns the fingerprints of messages in their order. `seed` stands for everything else that the verdict depends on.
pub(crate) fn fingerprints<'a>(
    messages: impl Iterator<Item = &'a str>,
    seed: u64,
) -> Vec<MessageFingerprint> {
    // Created once: creating it takes longer than searching a short message.
    let finder = memmem::Finder::new(MARK_KEY);
    messages.map(|json| fingerprint(json, seed, &finder)).collect()
}

/// Hashes a message in two parts, see [`MessageFingerprint`]; `finder` searches for [`MARK_KEY`]. The hash of marks
/// includes their positions, and is 0 only if there are none.
fn fingerprint(json: &str, seed: u64, finder: &memmem::Finder<'_>) -> MessageFingerprint {
    let mut content = DefaultHasher::new();
    let mut marks = DefaultHasher::new();
    seed.hash(&mut content);
    let mut has_marks = false;
    let mut rest = json.as_bytes();
    let mut kept = 0;
    let mut from = 0;
    while let Some(found) = finder.find(&rest[from..]) {
        let at = from + found;
        let Some(end) = mark_end(rest, at) else {
            from = at + MARK_KEY.len();
            continue;
        };
        let (before, after) = without_comma(rest, at, end);
        content.write(&rest[..before]);
        kept += before;
        kept.hash(&mut marks);
        marks.write(&rest[at..end]);
        has_marks = true;
        rest = &rest[after..];
        from = 0;
    }
    content.write(rest);
    MessageFingerprint { content: content.finish(), marks: if has_marks { marks.finish().max(1) } else { 0 } }
}

/// Returns the fingerprint of any other part of a request. Its cache marks count like the rest.
pub(crate) fn part_fingerprint(json: &str, seed: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    seed.hash(&mut hasher);
    hasher.write(json.as_bytes());
    hasher.finish()
}

/// Returns the end of the flat object after the key at `at`; `None` if another value follows. Inside a JSON string the
/// quotes of the key would be escaped, so a match is always a key.
fn mark_end(json: &[u8], at: usize) -> Option<usize> {
    let behind = skip_blanks(json, at + MARK_KEY.len());
    if json.get(behind) != Some(&b':') {
        return None;
    }
    let open = skip_blanks(json, behind + 1);
    if json.get(open) != Some(&b'{') {
        return None;
    }
    let length = json[open + 1..].iter().position(|byte| matches!(byte, b'{' | b'}'))?;
    (json[open + 1 + length] == b'}').then_some(open + length + 2)
}

/// Returns the range of a member at `at..end` including one comma, that before it or else that after it, so that JSON
/// without the range is still valid.
fn without_comma(json: &[u8], at: usize, end: usize) -> (usize, usize) {
    let before = json[..at].trim_ascii_end();
    if before.last() == Some(&b',') {
        return (before.len() - 1, end);
    }
    let after = skip_blanks(json, end);
    if json.get(after) == Some(&b',') { (at, skip_blanks(json, after + 1)) } else { (at, end) }
}

/// Returns the position of the next byte from `from` on that is not white space, or the end.
fn skip_blanks(json: &[u8], from: usize) -> usize {
    json[from..]
        .iter()
        .position(|byte| !byte.is_ascii_whitespace())
        .map_or(json.len(), |blanks| from + blanks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(json: &str, seed: u64) -> MessageFingerprint {
        fingerprints([json].into_iter(), seed)[0]
    }

    #[test]
    fn marks_change_only_their_own_half() {
        let plain = fingerprint(r#"{"type":"text","text":"a \"cache_control\":{} b"}"#, 1);
        let marked = [
            r#"{"type":"text","text":"a \"cache_control\":{} b","cache_control":{"type":"ephemeral"}}"#,
            r#"{"cache_control":{"type":"ephemeral"},"type":"text","text":"a \"cache_control\":{} b"}"#,
        ];
        assert_eq!(plain.marks, 0);
        for json in marked {
            let print = fingerprint(json, 1);
            assert_eq!(print.content, plain.content, "{json}");
            assert_ne!(print.marks, 0);
        }
        let longer = marked[0].replace("ephemeral\"}", "ephemeral\",\"ttl\":\"1h\"}");
        assert_ne!(fingerprint(&longer, 1).marks, fingerprint(marked[0], 1).marks);
        assert_ne!(fingerprint(marked[1], 1).marks, fingerprint(marked[0], 1).marks, "the place counts");
        assert_ne!(fingerprint(marked[0], 2).content, plain.content, "so does the seed");
        assert_ne!(fingerprint(r#"{"type":"text","text":"b"}"#, 1).content, plain.content);
    }

    #[test]
    fn the_memory_is_bounded_and_keeps_what_is_used() {
        let mut memory = RecentlyChecked::new(10);
        for key in 0..1000 {
            memory.insert(key, key, 1);
            assert_eq!(memory.get(0, |_| 1), Some(0), "asked for all the time, at {key}");
            assert!(memory.younger.len() + memory.older.len() <= 21);
        }
        assert_eq!(memory.get(500, |_| 1), None);
        assert_eq!(memory.get(999, |_| 1), Some(999));
    }
}
