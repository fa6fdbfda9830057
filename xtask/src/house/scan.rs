//! A small scanner of Rust source: where functions and test modules begin and end.
//!
//! It knows just enough of the language to match braces: comments, strings and characters are blanked out first, then
//! words and brackets are counted. It never fails; on text that is not Rust it finds less.

use std::ops::Range;

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, without the type it belongs to.
    pub name: String,
    /// The line of the `fn`, from 1.
    pub line: usize,
    /// Lines between the braces of the body.
    pub body_lines: usize,
}

/// Source text whose comments and literals are blank; every byte and line keeps its position.
pub struct Code(Vec<u8>);

impl Code {
    /// Returns the source with comments, strings and character literals blanked out.
    pub fn new(source: &str) -> Self {
        let bytes = source.as_bytes();
        let mut code = bytes.to_vec();
        let mut at = 0;
        while at < bytes.len() {
            let end = literal_end(bytes, at).unwrap_or(at);
            for byte in &mut code[at..end] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
            at = end.max(at + 1);
        }
        Self(code)
    }

    /// Returns every function that has a body, those in tests included, in order; a nested one comes after the one
    /// around it.
    pub fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for at in self.words("fn") {
            let (name, after) = self.name_from(at + 2);
            if name.is_empty() {
                continue; // a function pointer type
            }
            let Some(open) = self.body_start(after) else { continue };
            let close = self.matching_brace(open);
            let body_lines = self.line(close).saturating_sub(self.line(open) + 1);
            found.push(Function { name, line: self.line(at), body_lines });
        }
        found
    }

    /// Returns the lines of every `#[cfg(test)] mod … { … }`, from the attribute to the closing brace, from 1. A module
    /// in a file of its own (`mod tests;`) and other items for tests are left out.
    pub fn test_modules(&self) -> Vec<Range<usize>> {
        const MARK: &[u8] = b"#[cfg(test)]";
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(at) = find(&self.0, MARK, from) {
            from = at + MARK.len();
            let Some(open) = self.body_start(from) else { continue };
            let between = String::from_utf8_lossy(&self.0[from..open]);
            if between.split_whitespace().any(|word| word == "mod") {
                let close = self.matching_brace(open);
                found.push(self.line(at)..self.line(close) + 1);
                from = close;
            }
        }
        found
    }

    /// Returns the first name after every `crate::`, with the line of the path; of `crate::{a::b, c}` every one of
    /// them.
    pub fn crate_paths(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for at in self.words("crate") {
            let after = at + "crate".len();
            if !self.0[after..].starts_with(b"::") {
                continue;
            }
            let line = self.line(at);
            if self.0.get(after + 2) == Some(&b'{') {
                let close = self.matching_brace(after + 2);
                let inside = String::from_utf8_lossy(&self.0[after + 3..close]).into_owned();
                found.extend(outer_names(&inside).into_iter().map(|name| (line, name)));
            } else {
                found.push((line, self.name_from(after + 2).0));
            }
        }
        found
    }

    /// Returns every item that is `pub` at the beginning of a line and outside of tests, from the word after `pub` to
    /// the `;` or `{` that ends its head (for `use` with its names), in one line. Indented items and `pub(crate)` ones
    /// are left out.
    pub fn public_items(&self) -> Vec<String> {
        let tests = self.test_modules();
        let mut found = Vec::new();
        for at in self.words("pub") {
            let starts_line = at == 0 || self.0[at - 1] == b'\n';
            if !starts_line || self.0.get(at + 3) != Some(&b' ') {
                continue;
            }
            let line = self.line(at);
            if tests.iter().any(|lines| lines.contains(&line)) {
                continue;
            }
            let rest = &self.0[at + 4..];
            let is_use = rest.starts_with(b"use ");
            let end = rest.iter().position(|byte| *byte == b';' || (*byte == b'{' && !is_use));
            let head = String::from_utf8_lossy(&rest[..end.map_or(rest.len(), |end| end + 1)]).into_owned();
            found.push(head.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        found
    }

    /// Returns the positions at which `word` stands as a whole word, in order.
    fn words(&self, word: &str) -> Vec<usize> {
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(at) = find(&self.0, word.as_bytes(), from) {
            let end = at + word.len();
            let starts = at == 0 || !is_name_byte(self.0[at - 1]);
            let ends = self.0.get(end).is_none_or(|byte| !is_name_byte(*byte));
            if starts && ends {
                found.push(at);
            }
            from = end;
        }
        found
    }

    /// Returns the name after the position, white space skipped, and where it ends. The name is empty if something else
    /// follows.
    fn name_from(&self, at: usize) -> (String, usize) {
        let start = at + self.0[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let end = start + self.0[start..].iter().take_while(|byte| is_name_byte(**byte)).count();
        (String::from_utf8_lossy(&self.0[start..end]).into_owned(), end)
    }

    /// Returns the position of the next `{` outside of parentheses and brackets, which opens a body; `None` if a `;`
    /// comes first or the text ends.
    fn body_start(&self, from: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for (at, byte) in self.0.iter().enumerate().skip(from) {
            match byte {
                b'(' | b'[' => depth += 1,
                b')' | b']' => depth = depth.saturating_sub(1),
                b'{' if depth == 0 => return Some(at),
                b';' if depth == 0 => return None,
                _ => {}
            }
        }
        None
    }

    /// Returns the brace that closes the one at `open`, or the last byte if none does.
    fn matching_brace(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for (at, byte) in self.0.iter().enumerate().skip(open) {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return at;
            }
        }
        self.0.len().saturating_sub(1)
    }

    /// Returns the number of the line at a byte position, from 1.
    fn line(&self, at: usize) -> usize {
        1 + self.0[..at].iter().filter(|byte| **byte == b'\n').count()
    }
}

/// Returns the first name of each path in a group, without groups inside it.
fn outer_names(group: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let mut paths = vec![String::new()];
    for letter in group.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => paths.push(String::new()),
            _ if depth == 0 => paths.last_mut().into_iter().for_each(|path| path.push(letter)),
            _ => {}
        }
    }
    let first = |path: &String| path.trim().split("::").next().unwrap_or_default().to_owned();
    paths.iter().map(first).filter(|name| !name.is_empty()).collect()
}

/// A string literal.
#[derive(Debug, PartialEq, Eq)]
pub struct Literal {
    /// The line it begins on, from 1.
    pub line: usize,
    /// The text between the quotes, with escapes as written.
    pub text: String,
}

/// Returns every string literal, raw and byte strings included, in order; comments and characters do not count.
pub fn literals(source: &str) -> Vec<Literal> {
    let bytes = source.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let end = literal_end(bytes, at).unwrap_or(at + 1).max(at + 1);
        let piece = &source.as_bytes()[at..end.min(bytes.len())];
        let opening = piece.iter().position(|byte| *byte == b'"');
        let closing = piece.iter().rposition(|byte| *byte == b'"');
        if let (b'"' | b'r', Some(open), Some(close)) = (bytes[at], opening, closing)
            && open < close
        {
            let text = String::from_utf8_lossy(&piece[open + 1..close]).into_owned();
            found.push(Literal { line, text });
        }
        line += piece.iter().filter(|byte| **byte == b'\n').count();
        at = end;
    }
    found
}

/// Returns whether a byte can be part of a Rust name.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Returns the first position of `what` in `bytes` at or after `from`; `None` if there is none.
fn find(bytes: &[u8], what: &[u8], from: usize) -> Option<usize> {
    bytes.get(from..)?.windows(what.len()).position(|window| window == what).map(|at| at + from)
}

/// Returns the end of the comment, string or character that starts at `at`; `None` if none starts there.
fn literal_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        return Some(find(bytes, b"\n", at).unwrap_or(bytes.len()));
    }
    if rest.starts_with(b"/*") {
        return Some(block_comment_end(bytes, at));
    }
    match rest[0] {
        b'"' => Some(string_end(bytes, at)),
        b'\'' => char_end(bytes, at),
        b'r' if at == 0 || !is_name_byte(bytes[at - 1]) || is_raw_prefix(bytes, at) => {
            raw_string_end(bytes, at)
        }
        _ => None,
    }
}

/// Returns whether the byte before an `r` makes it a raw literal, as in `br"…"` and `cr"…"`, and is not the end of
/// a name.
fn is_raw_prefix(bytes: &[u8], at: usize) -> bool {
    matches!(bytes[at - 1], b'b' | b'c') && (at == 1 || !is_name_byte(bytes[at - 2]))
}

/// Returns the end of the block comment that starts at `at`, or of the text if it is not closed. Comments inside it are
/// counted, because Rust nests them.
fn block_comment_end(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0_usize;
    let mut here = at;
    while here < bytes.len() {
        if bytes[here..].starts_with(b"/*") {
            depth += 1;
            here += 2;
        } else if bytes[here..].starts_with(b"*/") {
            depth -= 1;
            here += 2;
            if depth == 0 {
                return here;
            }
        } else {
            here += 1;
        }
    }
    bytes.len()
}

/// Returns the end of the string literal that starts at `at`, with escapes skipped; the end of the text (or one more)
/// if it is not closed.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut here = at + 1;
    while here < bytes.len() {
        match bytes[here] {
            b'\\' => here += 2,
            b'"' => return here + 1,
            _ => here += 1,
        }
    }
    bytes.len()
}

/// Returns the end of the raw string literal whose `r` is at `at`; `None` if none begins there.
fn raw_string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(at + 1 + hashes) != Some(&b'"') {
        return None; // an ordinary name, or a raw one such as `r#fn`
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let end = find(bytes, &close, at + 2 + hashes);
    Some(end.map_or(bytes.len(), |found| found + close.len()))
}

/// Returns the end of the character literal that starts at `at`, such as `'a'` and `'\n'`; `None` for a lifetime such
/// as `'a`.
fn char_end(bytes: &[u8], at: usize) -> Option<usize> {
    let first = *bytes.get(at + 1)?;
    if first == b'\\' {
        return find(bytes, b"'", at + 3).map(|end| end + 1);
    }
    let width = match first {
        0..0x80 => 1,
        0x80..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    };
    (bytes.get(at + 1 + width) == Some(&b'\'')).then_some(at + 2 + width)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn functions(source: &str) -> Vec<(String, usize, usize)> {
        let found = Code::new(source).functions();
        found.into_iter().map(|function| (function.name, function.line, function.body_lines)).collect()
    }

    fn named(name: &str, line: usize, body_lines: usize) -> (String, usize, usize) {
        (name.to_owned(), line, body_lines)
    }

    #[test]
    fn bodies_are_measured_between_their_braces() {
        let source =
            "fn short() {}\n\npub async fn long(a: [u8; 2]) -> u8\nwhere\n    A: B,\n{\n    1\n    + 2\n}\n";
        assert_eq!(functions(source), [named("short", 1, 0), named("long", 3, 2)]);
    }

    #[test]
    fn declarations_and_function_types_have_no_body() {
        assert_eq!(functions("trait A { fn a(&self); }\ntype B = fn(u8) -> u8;\n"), []);
    }

    #[test]
    fn braces_in_strings_comments_and_characters_do_not_count() {
        let source = "fn a() {\n    let b = \"}\\\"}\"; // }\n    /* } /* } */ } */\n    let c = '}';\n    let d = r#\"}\"}\"#;\n    let e = br\"}\";\n    let f = '\\'';\n    let g = '\\u{7d}';\n}\nfn b<'a>(x: &'a str) {\n    x\n}\n";
        assert_eq!(functions(source), [named("a", 1, 7), named("b", 10, 1)]);
    }

    #[test]
    fn a_nested_function_is_found_as_well() {
        let source = "fn outer() {\n    fn inner() {\n        1\n    }\n}\n";
        assert_eq!(functions(source), [named("outer", 1, 3), named("inner", 2, 1)]);
    }

    #[test]
    fn names_that_only_contain_the_word_are_not_functions() {
        assert_eq!(functions("let fn_name = dyn_fn { };\nlet r#fn = 1;"), []);
    }

    #[test]
    fn test_modules_are_found_with_their_attributes() {
        let source =
            "fn a() {}\n\n#[cfg(test)]\n#[allow(clippy::all)]\nmod tests {\n    fn b() {}\n}\n// end\n";
        let found = Code::new(source).test_modules();
        assert_eq!((found.len(), found[0].clone()), (1, 3..8));
    }

    #[test]
    fn literals_are_strings_and_nothing_else() {
        let source = "let a = \"one \\\" two\"; // \"no\"\n/* \"no\" */ let b = r#\"thr\"ee\"#;\nlet c = '\"'; let d = b\"four\";";
        let found: Vec<(usize, String)> =
            literals(source).into_iter().map(|literal| (literal.line, literal.text)).collect();
        let expected = [(1, "one \\\" two"), (2, "thr\"ee"), (3, "four")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn other_things_for_tests_are_not_modules() {
        assert_eq!(Code::new("#[cfg(test)]\nmod tests;\n").test_modules(), []);
        assert_eq!(Code::new("#[cfg(test)]\nfn helper() {\n}\n").test_modules(), []);
        assert_eq!(Code::new("// #[cfg(test)] mod x {\n").test_modules(), []);
    }

    proptest! {
        #[test]
        fn any_text_is_survived_and_keeps_its_lines(
            source in "([a-z#'\"{}()/*\\\\\n\u{e4}r;]|fn |/\\*|//|#\\[cfg\\(test\\)\\] mod ){0,60}",
        ) {
            let code = Code::new(&source);
            prop_assert_eq!(code.0.len(), source.len());
            let lines = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
            prop_assert_eq!(lines(&code.0), lines(source.as_bytes()));
            let _ = (code.functions(), code.test_modules(), literals(&source));
        }
    }
}
