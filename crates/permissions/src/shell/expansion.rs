//! Expansions: `$name`, `${…}`, `$(…)`, `$((…))`, backquotes, `$'…'`, `<(…)`.
//!
//! Commands inside expansions are parsed with the same grammar and kept. Where bash itself is inconsistent about the
//! end of a piece (quotes inside arithmetic or inside a quoted `${…}`), the piece is refused.

use super::ast::{Evaluates, List, Part};
use super::parse::{Parsed, Parser, Stop, is_name};
use super::word::Parts;

/// Whether a piece stands between double quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoted {
    Yes,
    No,
}

impl Parser<'_> {
    /// Reads what a `$` starts and appends it to `parts`; the position is at the `$`. A `$` that starts nothing is
    /// text.
    pub(super) fn dollar(&mut self, parts: &mut Parts, quoted: Quoted) -> Parsed<()> {
        self.at += 1;
        match self.peek() {
            Some(b'(') => self.dollar_parenthesis(parts),
            Some(b'{') => {
                self.at += 1;
                let part = self.nested(|parser| parser.parameter(quoted))?;
                parts.0.push(part);
                Ok(())
            }
            Some(b'[') => {
                self.at += 1;
                match self.nested(|parser| parser.arithmetic("]"))? {
                    Some(part) => parts.0.push(part),
                    None => return self.error("an open bracket"),
                }
                Ok(())
            }
            Some(b'\'') if quoted == Quoted::No => self.ansi_quoted(parts),
            Some(b'"') if quoted == Quoted::No => {
                // A string for translation: its value depends on the locale.
                let mut inner = Parts::default();
                self.double_quoted(&mut inner)?;
                parts.0.push(Part::Opaque { nested: inner.0, evaluates: Evaluates::Hidden });
                Ok(())
            }
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {
                let mut name = String::new();
                while let Some(byte) =
                    self.peek().filter(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
                {
                    name.push(char::from(byte));
                    self.at += 1;
                }
                parts.0.push(Part::Variable { name, quoted: quoted == Quoted::Yes });
                Ok(())
            }
            Some(byte) if byte.is_ascii_digit() || b"@*#?-$!".contains(&byte) => {
                self.at += 1;
                parts.0.push(Part::Variable {
                    name: char::from(byte).to_string(),
                    quoted: quoted == Quoted::Yes,
                });
                Ok(())
            }
            Some(_) | None => {
                parts.text("$", quoted == Quoted::Yes);
                Ok(())
            }
        }
    }

    /// Reads `$((…))` or `$(…)` from its first parenthesis, and appends it to `parts`. What starts like arithmetic and
    /// does not end like it is read again as a substitution, so the here-documents of the first attempt are dropped.
    fn dollar_parenthesis(&mut self, parts: &mut Parts) -> Parsed<()> {
        self.no_pending_heredoc()?;
        self.at += 1;
        if self.peek() == Some(b'(') {
            let (start, kept) = (self.at, self.heredocs.len());
            self.at += 1;
            if let Some(part) = self.nested(|parser| parser.arithmetic("))"))? {
                parts.0.push(part);
                return Ok(());
            }
            self.at = start;
            self.heredocs.truncate(kept);
        }
        let list = self.substituted_list()?;
        parts.0.push(Part::Substitution(list));
        Ok(())
    }

    /// Reads the list of a substitution up to `)`, which is consumed; the opening parenthesis was consumed before. A
    /// here-document without its body is refused.
    fn substituted_list(&mut self) -> Parsed<List> {
        let list = self.nested(|parser| parser.list(&[Stop::Parenthesis]))?;
        if !self.accept(")") {
            return self.error("an open parenthesis");
        }
        self.no_pending_heredoc()?;
        Ok(list)
    }

    /// Reads `<(…)` or `>(…)` and appends it to `parts`; the position is at the first character.
    pub(super) fn process(&mut self, parts: &mut Parts) -> Parsed<()> {
        self.no_pending_heredoc()?;
        self.at += 1;
        self.accept("(");
        let list = self.substituted_list()?;
        parts.0.push(Part::Process(list));
        Ok(())
    }

    /// Reads a backquoted substitution, from its opening backquote, and appends it to `parts`. Its text is unescaped
    /// first and then parsed as a script of its own, one level deeper, as bash does.
    pub(super) fn backquoted(&mut self, parts: &mut Parts, quoted: Quoted) -> Parsed<()> {
        self.no_pending_heredoc()?;
        self.at += 1;
        let mut inner = String::new();
        loop {
            let Some(byte) = self.raw() else { return self.error("an open backquote") };
            let next = self.source.as_bytes().get(self.at + 1).copied();
            match (byte, next) {
                (b'`', _) => break,
                (b'\\', Some(escaped @ (b'$' | b'`' | b'\\'))) => {
                    inner.push(char::from(escaped));
                    self.at += 2;
                }
                (b'\\', Some(b'"')) if quoted == Quoted::Yes => {
                    inner.push('"');
                    self.at += 2;
                }
                _ => {
                    let c = self.character();
                    inner.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
        self.at += 1;
        let depth = self.depth;
        let list = self.nested(|outer| {
            let mut parser = Parser::new(&inner, depth + 1);
            let parsed = parser.list(&[]).and_then(|list| {
                parser.finish()?;
                parser.no_heredocs()?;
                Ok(list)
            });
            parsed.or_else(|error| outer.error(error.what))
        })?;
        parts.0.push(Part::Substitution(list));
        Ok(())
    }

    /// Reads `$'…'`, from its opening quote to after the closing one, and appends its text to `parts`. Refuses escapes
    /// whose value is not plain text.
    fn ansi_quoted(&mut self, parts: &mut Parts) -> Parsed<()> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.raw() {
                None => return self.error("an open quote"),
                Some(b'\'') => break,
                Some(b'\\') => {
                    self.at += 1;
                    let c = self.ansi_escape()?;
                    text.push(c);
                }
                Some(_) => {
                    let c = self.character();
                    if c == '\n' {
                        self.no_pending_heredoc()?;
                    }
                    text.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
        self.at += 1;
        parts.text(&text, true);
        Ok(())
    }

    /// Reads one escape of `$'…'`, from after the backslash to after its last digit, and returns its character. Must
    /// yield what bash yields, or refuse: a wrong character hides a command from the rules. Refused are unknown
    /// escapes, NUL (bash ends the string there), and octal and `\x` above ASCII, which make bytes and not characters.
    fn ansi_escape(&mut self) -> Parsed<char> {
        let Some(byte) = self.raw() else { return self.error("an open quote") };
        let simple = match byte {
            b'n' => Some('\n'),
            b't' => Some('\t'),
            b'r' => Some('\r'),
            b'a' => Some('\u{7}'),
            b'b' => Some('\u{8}'),
            b'e' | b'E' => Some('\u{1b}'),
            b'f' => Some('\u{c}'),
            b'v' => Some('\u{b}'),
            b'\\' | b'\'' | b'"' | b'?' => Some(char::from(byte)),
            _ => None,
        };
        if let Some(c) = simple {
            self.at += 1;
            return Ok(c);
        }
        let (radix, digits) = match byte {
            b'0'..=b'7' => (8, 3),
            b'x' => (16, 2),
            b'u' => (16, 4),
            b'U' => (16, 8),
            _ => return self.error("an escape we do not know"),
        };
        if radix == 16 {
            self.at += 1;
        }
        let mut value = 0;
        let mut seen = 0;
        while let Some(digit) =
            self.raw().and_then(|byte| char::from(byte).to_digit(radix)).filter(|_| seen < digits)
        {
            value = value * radix + digit;
            seen += 1;
            self.at += 1;
        }
        // Above ASCII, `\x` and octal escapes make bytes rather than characters; a NUL cuts the string off.
        match char::from_u32(value) {
            Some(c) if seen > 0 && value != 0 && (value < 0x80 || matches!(byte, b'u' | b'U')) => Ok(c),
            _ => self.error("an escape we do not know"),
        }
    }

    /// Reads the inside of `${…}` and its closing brace; the opening one was consumed before. Only `${name}` is a
    /// variable; every other form is opaque, and evaluates hidden code unless its operator is known to be harmless.
    fn parameter(&mut self, quoted: Quoted) -> Parsed<Part> {
        let mut evaluates = Evaluates::Nothing;
        if self.peek() == Some(b'!') {
            evaluates = Evaluates::Hidden;
            self.at += 1;
        } else if self.peek() == Some(b'#') && !self.looking_at("#}") {
            self.at += 1;
        }
        let mut name = String::new();
        while let Some(byte) = self.peek().filter(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
            name.push(char::from(byte));
            self.at += 1;
        }
        if name.is_empty() {
            match self.peek() {
                Some(byte) if b"@*#?-$!".contains(&byte) => {
                    name.push(char::from(byte));
                    self.at += 1;
                }
                _ => return self.error("an expansion we do not know"),
            }
        }
        let plain = self.source[..self.at].ends_with(&format!("{{{name}"));
        if plain && self.peek() == Some(b'}') && (is_name(&name) || name.len() == 1) {
            self.at += 1;
            return Ok(Part::Variable { name, quoted: quoted == Quoted::Yes });
        }
        let harmless = [":-", ":+", ":?", "-", "+", "?", "%", "#", "/", "^", ",", "}"];
        if !harmless.iter().any(|operator| self.looking_at(operator)) {
            evaluates = Evaluates::Hidden;
        }
        let mut nested = Parts::default();
        loop {
            match self.raw() {
                None => return self.error("an open brace"),
                Some(b'}') => break,
                Some(b'\'') if quoted == Quoted::Yes => {
                    return self.error("a quote inside a quoted expansion");
                }
                Some(b'<' | b'>')
                    if quoted == Quoted::No && (self.looking_at("<(") || self.looking_at(">(")) =>
                {
                    self.process(&mut nested)?;
                }
                Some(b'\n') => {
                    self.no_pending_heredoc()?;
                    self.at += 1;
                }
                Some(_) => self.piece(&mut nested)?,
            }
        }
        self.at += 1;
        Ok(Part::Opaque { nested: nested.0, evaluates })
    }

    /// Reads an arithmetic expression up to `close`, which is consumed. `None` when the parentheses do not close that
    /// way, so that it is not arithmetic; the caller must then reset the position. A quote or a backslash in it is an
    /// error, even where it may turn out not to be arithmetic.
    pub(super) fn arithmetic(&mut self, close: &str) -> Parsed<Option<Part>> {
        self.no_pending_heredoc()?;
        let start = self.at;
        let mut nested = Parts::default();
        let mut open = 0_usize;
        loop {
            // Byte for byte: between these two bytes bash does not skip a line continuation.
            if open == 0 && self.source[self.at..].starts_with(close) {
                break;
            }
            match self.raw() {
                None => return Ok(None),
                // Bash considers quotes when it finds the end, but not when it expands the text.
                Some(b'\'' | b'"' | b'\\') => return self.error("a quote inside arithmetic"),
                Some(b'(') => open += 1,
                Some(b')') if open == 0 && close == "))" => return Ok(None),
                Some(b')') => open = open.saturating_sub(1),
                Some(b'$') => {
                    self.dollar(&mut nested, Quoted::Yes)?;
                    continue;
                }
                Some(b'`') => {
                    self.backquoted(&mut nested, Quoted::Yes)?;
                    continue;
                }
                Some(_) => {}
            }
            self.at += self.character().len_utf8();
        }
        // Arithmetic on plain numbers is the only kind that reads no variable.
        let number = self.source[start..self.at].bytes().all(|byte| b"0123456789+-*/%() \t".contains(&byte));
        let evaluates = if number { Evaluates::Nothing } else { Evaluates::Hidden };
        self.accept(close);
        Ok(Some(Part::Opaque { nested: nested.0, evaluates }))
    }
}
