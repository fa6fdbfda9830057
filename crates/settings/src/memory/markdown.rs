//! The parts of a memory file's Markdown that matter here: HTML comments, which the model does not get, imports, and
//! invisible characters.
//!
//! Code is left alone: inside fences nothing is a comment or an import, inside backticks nothing is an import.

use std::borrow::Cow;

/// The number of imports that are followed from one file; further ones are ignored.
const MAX_IMPORTS: usize = 200;

/// Follows the lines of a text and tells which of them are code.
#[derive(Default)]
struct Fences {
    /// The character and length of the open fence.
    open: Option<(char, usize)>,
}

impl Fences {
    /// Returns whether this line is code, or opens or closes a fence. Must be called for every line in order, because
    /// it keeps the open fence.
    fn is_code(&mut self, line: &str) -> bool {
        let body = line.trim_start_matches(' ').trim_end();
        let first = body.chars().next().filter(|c| matches!(c, '`' | '~'));
        let length = first.map_or(0, |first| body.chars().take_while(|c| *c == first).count());
        match (self.open, first) {
            (Some((fence, opened)), Some(first)) if first == fence && length >= opened => {
                // A closing fence has no text after it; a line with text is content.
                if body.len() == length {
                    self.open = None;
                }
                true
            }
            (Some(_), _) => true,
            // A line such as "```x```" is a code span and opens no fence.
            (None, Some(first)) if length >= 3 && !body[length..].contains('`') => {
                self.open = Some((first, length));
                true
            }
            (None, _) => false,
        }
    }
}

/// Returns a text without HTML comments that start a line. A comment after other text stays, and so does one without an
/// end or in a fence.
pub(crate) fn without_comments(text: &str) -> Cow<'_, str> {
    if !text.contains("<!--") {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    let mut fences = Fences::default();
    let mut rest = text;
    while !rest.is_empty() {
        let line_end = rest.find('\n').map_or(rest.len(), |end| end + 1);
        let line = &rest[..line_end];
        let starts_comment = line.trim_start_matches(' ').starts_with("<!--");
        if !fences.is_code(line)
            && starts_comment
            && let Some(end) = rest.find("-->")
        {
            rest = &rest[end + 3..];
            // A comment that fills its line is removed with the line break, so that no blank line remains.
            let blank_end = rest.find('\n').map_or(rest.len(), |end| end + 1);
            if rest[..blank_end].trim().is_empty() {
                rest = &rest[blank_end..];
            }
            continue;
        }
        kept += line;
        rest = &rest[line_end..];
    }
    Cow::Owned(kept)
}

/// Returns the paths that a text imports with `@path`, as they are written, at most 200. Code is left out.
pub(crate) fn imports(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fences = Fences::default();
    for line in text.lines() {
        if fences.is_code(line) || !line.contains('@') {
            continue;
        }
        for part in outside_code_spans(line) {
            found.extend(imports_of(part));
            if found.len() >= MAX_IMPORTS {
                found.truncate(MAX_IMPORTS);
                return found;
            }
        }
    }
    found
}

/// Returns the parts of a line that are not between backticks, in their order. Backticks without a closing run are
/// plain text.
fn outside_code_spans(line: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let ticks = rest[start..].chars().take_while(|c| *c == '`').count();
        let inside = start + ticks;
        match closing(&rest[inside..], ticks) {
            Some(end) => {
                parts.push(&rest[..start]);
                rest = &rest[inside + end + ticks..];
            }
            // Backticks without a closing run are plain text.
            None => {
                parts.push(&rest[..inside]);
                rest = &rest[inside..];
            }
        }
    }
    parts.push(rest);
    parts
}

/// Returns the offset of the next run of exactly this many backticks; `None` if there is none.
fn closing(text: &str, ticks: usize) -> Option<usize> {
    let mut from = 0;
    while let Some(start) = text[from..].find('`').map(|start| start + from) {
        let run = text[start..].chars().take_while(|c| *c == '`').count();
        if run == ticks {
            return Some(start);
        }
        from = start + run;
    }
    None
}

/// Returns the paths after each `@` at the start of a word or after an opening parenthesis, in text without code.
fn imports_of(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        // After any other character, as in `me@example.com`, it is not an import.
        if c == '@' && (before.is_whitespace() || before == '(') {
            let path = path_at(&text[at + 1..]);
            if !path.is_empty() {
                found.push(path);
            }
        }
        before = c;
    }
    found
}

/// Returns the path at the start of a text: up to a blank (`\ ` is part of the path), without an anchor and without the
/// punctuation of the sentence around it. Empty if no path starts there.
fn path_at(text: &str) -> String {
    let mut path = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&' ') => path.extend(chars.next()),
            c if c.is_whitespace() => break,
            c => path.push(c),
        }
    }
    let path = path.split('#').next().unwrap_or_default();
    let path = path.trim_end_matches([',', '.', ';', ':', '!', '?', ')', '"', '\'', '*', '>', ']']);
    let starts_well =
        path.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '/' | '~' | '_' | '-'));
    if starts_well { path.to_owned() } else { String::new() }
}

/// Returns the text without characters that a model reads and a person does not see, and the number of characters
/// removed.
pub(crate) fn visible(text: &str) -> (Cow<'_, str>, usize) {
    // Tag characters, and the controls that change the direction in which a line is displayed.
    let is_hidden =
        |c: char| matches!(c, '\u{e0000}'..='\u{e007f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let count = text.chars().filter(|c| is_hidden(*c)).count();
    if count == 0 {
        return (Cow::Borrowed(text), 0);
    }
    (Cow::Owned(text.chars().filter(|c| !is_hidden(*c)).collect()), count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn comments_that_start_a_line_go() {
        for (text, expected) in [
            ("a\n<!-- x -->\nb\n", "a\nb\n"),
            ("a\n  <!-- x\ny\n-->\nb", "a\nb"),
            ("a <!-- x -->\nb", "a <!-- x -->\nb"),
            ("<!-- x --> tail\n", " tail\n"),
            ("<!-- x --><!-- y -->\nb", "b"),
            ("<!-- never closed\nb", "<!-- never closed\nb"),
            ("```\n<!-- x -->\n```\n", "```\n<!-- x -->\n```\n"),
            ("<!-- ``` -->\nb <!-- -->\n", "b <!-- -->\n"),
        ] {
            assert_eq!(without_comments(text), expected, "{text:?}");
        }
    }

    #[test]
    fn imports_are_found_outside_code() {
        for (text, expected) in [
            ("@a.md", vec!["a.md"]),
            ("See @docs/x.md, @./y.md and (@../z.md).", vec!["docs/x.md", "./y.md", "../z.md"]),
            ("- @~/.claude/me.md\n- **@bold.md**", vec!["~/.claude/me.md"]),
            ("@my\\ file.md", vec!["my file.md"]),
            ("@a.md#part", vec!["a.md"]),
            ("mail me@example.com `@no.md` ``@no ` @no.md`` @yes.md", vec!["yes.md"]),
            ("an open ` tick @yes.md", vec!["yes.md"]),
            ("```\n@no.md\n```\n@yes.md", vec!["yes.md"]),
            ("~~~md\n```\n@no.md\n~~~\n@yes.md", vec!["yes.md"]),
            ("````\n```\n@no.md\n````\n@yes.md", vec!["yes.md"]),
            ("```never closed\n@no.md", vec![]),
            ("```inline``` @yes.md", vec!["yes.md"]),
            ("@ @@ @, @(x)", vec![]),
        ] {
            assert_eq!(imports(text), expected, "{text:?}");
        }
    }

    #[test]
    fn there_is_an_end_to_imports() {
        assert_eq!(imports(&"@a ".repeat(10_000)).len(), MAX_IMPORTS);
    }

    #[test]
    fn hidden_characters_are_taken_out_and_counted() {
        assert_eq!(visible("plain é 👩‍💻"), (Cow::Borrowed("plain é 👩‍💻"), 0));
        assert_eq!(visible("a\u{e0041}\u{e007f}b\u{202e}c"), (Cow::Owned("abc".to_owned()), 3));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[`~@a./ <!>#é\\\\\n-]*") {
            let text = without_comments(&text);
            imports(&text);
            prop_assert!(without_comments(&text).len() <= text.len());
        }
    }
}
