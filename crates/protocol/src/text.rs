//! Cuts a text after a number of characters, for every crate that shows, records or sends only the beginning of one.
//! Counts are characters, not bytes: a text is never cut inside of one.

use std::borrow::Cow;

/// Returns the first `count` characters of a text, or all of it. The text was cut if the result is shorter.
pub fn first_chars(text: &str, count: usize) -> &str {
    // A character has at least one byte, so most texts need not be counted.
    if text.len() <= count {
        return text;
    }
    text.char_indices().nth(count).map_or(text, |(end, _)| &text[..end])
}

/// Returns the first `count` characters of a text and `…`, so one more than `count`, or the text if it is not longer.
pub fn shorten(text: &str, count: usize) -> Cow<'_, str> {
    let head = first_chars(text, count);
    if head.len() < text.len() { format!("{head}…").into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        for (text, count, head, shortened) in [
            ("", 0, "", ""),
            ("abc", 0, "", "…"),
            ("abc", 2, "ab", "ab…"),
            ("abc", 3, "abc", "abc"),
            ("äöü", 2, "äö", "äö…"),
            ("äöü", 3, "äöü", "äöü"),
            ("äöü", 5, "äöü", "äöü"),
        ] {
            assert_eq!(
                (first_chars(text, count), &*shorten(text, count)),
                (head, shortened),
                "{text} {count}"
            );
        }
    }
}
