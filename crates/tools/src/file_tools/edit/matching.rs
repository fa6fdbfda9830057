//! Finds the old string of an edit: exactly, or with typographic quotes treated as straight ones.
//!
//! Models write straight quotes where a text has curly ones. Such a match counts only if no exact one exists, and the
//! new string then gets the quotes of the file's style.

use std::ops::Range;

/// Where the old string occurs.
pub(super) struct Found {
    /// In order, without overlap.
    pub ranges: Vec<Range<usize>>,
    /// The old string as it is in the file (its first occurrence).
    pub actual: String,
    /// Whether it matched byte for byte.
    pub exact: bool,
}

/// Returns all occurrences of `needle` in `text`, in order and without overlap. Only without an exact one,
/// typographic and straight quotes count as equal; [`Found::exact`] tells which.
pub(super) fn find(text: &[u8], needle: &str) -> Found {
    let exact: Vec<Range<usize>> =
        memchr::memmem::find_iter(text, needle.as_bytes()).map(|at| at..at + needle.len()).collect();
    if !exact.is_empty() {
        return Found { ranges: exact, actual: needle.to_owned(), exact: true };
    }
    let (straight, places) = straightened(text);
    let (needle, _) = straightened(needle.as_bytes());
    let ranges: Vec<Range<usize>> = memchr::memmem::find_iter(&straight, &needle)
        .map(|at| places[at]..places[at + needle.len()])
        .collect();
    let actual = ranges
        .first()
        .map(|range| String::from_utf8_lossy(&text[range.clone()]).into_owned())
        .unwrap_or_default();
    Found { ranges, actual, exact: false }
}

/// Returns the text with straight quotes, and for each of its bytes (and its end) the position in the original.
fn straightened(text: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let mut out = Vec::with_capacity(text.len());
    let mut places = Vec::with_capacity(text.len() + 1);
    let mut at = 0;
    while at < text.len() {
        places.push(at);
        let (byte, length) = match text.get(at..at + 3) {
            Some([0xE2, 0x80, 0x98 | 0x99]) => (b'\'', 3),
            Some([0xE2, 0x80, 0x9C | 0x9D]) => (b'"', 3),
            _ => (text[at], 1),
        };
        out.push(byte);
        at += length;
    }
    places.push(at);
    (out, places)
}

impl Found {
    /// Returns the new string with the style of quotes that the found text has, so that an edit does not mix straight
    /// and curly ones. After an exact match the string stays as it is.
    pub fn restyle(&self, new: &str) -> String {
        if self.exact {
            return new.to_owned();
        }
        let double = self.actual.contains(['“', '”']);
        let single = self.actual.contains(['‘', '’']);
        let mut out = String::with_capacity(new.len() + 8);
        let mut before = None;
        for letter in new.chars() {
            out.push(match letter {
                '"' if double => {
                    if opens(before) {
                        '“'
                    } else {
                        '”'
                    }
                }
                '\'' if single => {
                    if opens(before) {
                        '‘'
                    } else {
                        '’'
                    }
                }
                other => other,
            });
            before = Some(letter);
        }
        out
    }
}

/// Returns whether a quote after this character opens a quotation; an apostrophe follows a letter and therefore closes.
fn opens(before: Option<char>) -> bool {
    before.is_none_or(|letter| letter.is_whitespace() || "([{<-–—/=\"'".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curly_quotes_match_straight_ones() {
        let text = "x it’s “x” and ‘y’\n";
        let found = find(text.as_bytes(), "it's \"x\"");
        assert!(!found.exact);
        assert_eq!(found.actual, "it’s “x”");
        assert_eq!(&text[found.ranges[0].clone()], "it’s “x”");
        assert_eq!(found.restyle("it's \"y\" ('z')"), "it’s “y” (‘z’)");
    }

    #[test]
    fn only_the_kind_of_quote_that_was_curly_is_restyled() {
        let found = find("say “x”".as_bytes(), "\"x\"");
        assert_eq!(found.restyle("\"it's\""), "“it's”");
    }

    #[test]
    fn an_exact_match_comes_first() {
        let found = find("\"a\" “a”".as_bytes(), "\"a\"");
        assert_eq!((found.ranges.len(), found.exact), (1, true));
        assert_eq!(found.restyle("\"b\""), "\"b\"");
    }

    #[test]
    fn matches_do_not_overlap_and_bad_bytes_do_no_harm() {
        assert_eq!(find(b"aaaa", "aa").ranges, [0..2, 2..4]);
        assert!(find(b"\xE2\x80", "'").ranges.is_empty());
        assert_eq!(find(b"\xFFab\xE2", "ab").ranges.first(), Some(&(1..3)));
    }
}
