//! Words, quotes and assignments.
//!
//! A word is split into parts whose value is fixed or not; the text after a `$` or a backquote is read in
//! [`super::expansion`].

use super::ast::{Assigned, Assignment, Evaluates, Part, Word};
use super::expansion::Quoted;
use super::parse::{Parsed, Parser, is_name};

impl Word {
    /// Returns the text of a word without expansions, however it is quoted; `None` if it has an expansion.
    pub(crate) fn only_text(&self) -> Option<String> {
        let mut whole = String::new();
        for part in &self.parts {
            let Part::Text { text, .. } = part else { return None };
            whole.push_str(text);
        }
        Some(whole)
    }
}

/// Collects parts; adjacent text of one kind is joined.
#[derive(Default)]
pub(super) struct Parts(pub(super) Vec<Part>);

impl Parts {
    /// Appends text. Quoted and unquoted text stay apart, because only unquoted text is matched against files. An empty
    /// quoted piece is kept if it starts a new part: `""` is a word.
    pub(super) fn text(&mut self, piece: &str, quoted: bool) {
        match self.0.last_mut() {
            Some(Part::Text { text, quoted: same }) if *same == quoted => text.push_str(piece),
            _ => self.0.push(Part::Text { text: piece.to_owned(), quoted }),
        }
    }
}

/// Returns whether a character outside of ASCII is invisible or looks like a blank.
fn unseen(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{e0000}'..='\u{e0fff}')
}

impl Parser<'_> {
    /// Returns the whole character at the current position without consuming it; NUL at the end of the script.
    pub(super) fn character(&self) -> char {
        self.source[self.at..].chars().next().unwrap_or('\0')
    }

    /// Reads one word, whose start is the current position, one nesting level deeper. An empty word is an error.
    pub(super) fn word(&mut self) -> Parsed<Word> {
        self.nested(Self::word_parts)
    }

    /// Reads the parts of a word up to a blank or an operator, which is not consumed. An empty word is an error.
    fn word_parts(&mut self) -> Parsed<Word> {
        self.peek();
        let start = self.at;
        let mut parts = Parts::default();
        if self.raw() == Some(b'~') {
            self.tilde(&mut parts)?;
        }
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b'|' | b'&' | b';' | b'(' | b')' => break,
                b'<' | b'>' => {
                    if !(self.looking_at("<(") || self.looking_at(">(")) {
                        break;
                    }
                    self.process(&mut parts)?;
                }
                _ => self.piece(&mut parts)?,
            }
        }
        if self.at == start || parts.0.is_empty() {
            return self.error("a missing word");
        }
        Ok(Word { parts: parts.0, source: self.source[start..self.at].replace("\\\n", "") })
    }

    /// Reads one unquoted character, quotation or expansion; nothing at the end of the script. Invisible characters
    /// outside of ASCII are refused, because they hide what a person approves. A line continuation must be skipped
    /// before, with [`Self::peek`]; here it would become a quoted newline.
    pub(super) fn piece(&mut self, parts: &mut Parts) -> Parsed<()> {
        match self.raw() {
            None => Ok(()),
            Some(b'\\') => {
                self.at += 1;
                if self.raw().is_none() {
                    return self.error("a backslash at the end");
                }
                let escaped = self.character();
                parts.text(escaped.encode_utf8(&mut [0; 4]), true);
                self.at += escaped.len_utf8();
                Ok(())
            }
            Some(b'\'') => self.single_quoted(parts),
            Some(b'"') => self.double_quoted(parts),
            Some(b'$') => self.dollar(parts, Quoted::No),
            Some(b'`') => self.backquoted(parts, Quoted::No),
            Some(_) => {
                let c = self.character();
                if !c.is_ascii() && unseen(c) {
                    return self.error("an invisible character");
                }
                parts.text(c.encode_utf8(&mut [0; 4]), false);
                self.at += c.len_utf8();
                Ok(())
            }
        }
    }

    /// Reads a `~` at the start of a word: the home directory if the name ends after it, otherwise a value that is not
    /// known. What follows the `~` is not consumed.
    fn tilde(&mut self, parts: &mut Parts) -> Parsed<()> {
        self.at += 1;
        match self.peek() {
            None
            | Some(b'/' | b' ' | b'\t' | b'\n' | b'|' | b'&' | b';' | b'(' | b')' | b'<' | b'>' | b':') => {
                parts.0.push(Part::Home);
            }
            // Another user's home, `~+`, `~-`, a directory stack entry, or a quote that turns it into text.
            Some(_) => parts.0.push(Part::Opaque { nested: Vec::new(), evaluates: Evaluates::Nothing }),
        }
        Ok(())
    }

    /// Reads `'…'`, in which nothing is special, and appends it to `parts`; the position is at the opening quote. An
    /// open quote is an error, and so is a newline in it while a here-document waits for its body.
    fn single_quoted(&mut self, parts: &mut Parts) -> Parsed<()> {
        let rest = &self.source[self.at + 1..];
        let Some(end) = rest.find('\'') else { return self.error("an open quote") };
        let text = &rest[..end];
        if text.contains('\n') {
            self.no_pending_heredoc()?;
        }
        parts.text(text, true);
        self.at += end + 2;
        Ok(())
    }

    /// Reads `"…"` with its expansions, and appends it to `parts`, as an empty text if nothing is in it; the position
    /// is at the opening quote. An open quote is an error.
    pub(super) fn double_quoted(&mut self, parts: &mut Parts) -> Parsed<()> {
        self.at += 1;
        parts.text("", true);
        loop {
            match self.raw() {
                None => return self.error("an open quote"),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(_) => self.quoted_piece(parts, b'"')?,
            }
        }
    }

    /// Reads one character or expansion between double quotes, or in a here-document, whose end the caller must have
    /// checked for. `closing` is the character that a backslash quotes besides the usual ones: `"`, or 0 for none in a
    /// here-document. Before any other character a backslash is text; a line continuation is consumed.
    fn quoted_piece(&mut self, parts: &mut Parts, closing: u8) -> Parsed<()> {
        match self.raw() {
            Some(b'\\') => {
                let next = self.source.as_bytes().get(self.at + 1).copied();
                match next {
                    Some(b'\n') => self.at += 2,
                    Some(byte @ (b'$' | b'`' | b'\\')) => {
                        parts.text(char::from(byte).encode_utf8(&mut [0; 4]), true);
                        self.at += 2;
                    }
                    Some(byte) if byte == closing => {
                        parts.text("\"", true);
                        self.at += 2;
                    }
                    _ => {
                        parts.text("\\", true);
                        self.at += 1;
                    }
                }
                Ok(())
            }
            Some(b'$') => self.dollar(parts, Quoted::Yes),
            Some(b'`') => self.backquoted(parts, Quoted::Yes),
            Some(b'\n') => {
                self.no_pending_heredoc()?;
                parts.text("\n", true);
                self.at += 1;
                Ok(())
            }
            Some(_) | None => {
                let c = self.character();
                parts.text(c.encode_utf8(&mut [0; 4]), true);
                self.at += c.len_utf8();
                Ok(())
            }
        }
    }

    /// Reads the expanded body of a here-document as a word. `depth` continues the count of the surrounding parser;
    /// here-documents inside the body are refused.
    pub(super) fn heredoc_word(text: &str, depth: u32) -> Parsed<Word> {
        let mut parser = Parser::new(text, depth);
        let mut parts = Parts::default();
        while parser.raw().is_some() {
            parser.quoted_piece(&mut parts, 0)?;
        }
        parser.no_heredocs()?;
        Ok(Word { parts: parts.0, source: text.to_owned() })
    }

    /// Refuses here-documents in a text that is parsed as a script of its own: their bodies would be stored in this
    /// parser and lost.
    pub(super) fn no_heredocs(&self) -> Parsed<()> {
        if self.heredocs.is_empty() {
            Ok(())
        } else {
            self.error("a here-document in a place we cannot follow")
        }
    }

    /// Returns whether an assignment starts here: `name=`, `name+=`, or `name[` if `]=` or the like follows anywhere.
    /// Consumes nothing.
    pub(super) fn at_assignment(&mut self) -> bool {
        let start = self.at;
        let mut name = String::new();
        while let Some(byte) = self.peek().filter(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
            name.push(char::from(byte));
            self.at += 1;
        }
        let found = is_name(&name)
            && (self.looking_at("=")
                || self.looking_at("+=")
                || (self.looking_at("[") && self.subscript_assigns()));
        self.at = start;
        found
    }

    /// Returns whether the bracket that starts here may be followed by an assignment. This is a guess that only has to
    /// be right when it is `false`: then the rest is read as ordinary words.
    fn subscript_assigns(&self) -> bool {
        let rest = &self.source[self.at..];
        rest.contains("]=") || rest.contains("]+=") || rest.contains("]\\\n")
    }

    /// Reads an assignment; [`Self::at_assignment`] must have found one here. An empty value is an empty word. `+=` is
    /// read like `=`, so the value is then only what is appended.
    pub(super) fn assignment(&mut self) -> Parsed<Assignment> {
        self.peek();
        let start = self.at;
        let mut name = String::new();
        while let Some(byte) = self.peek().filter(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
            name.push(char::from(byte));
            self.at += 1;
        }
        let subscript = if self.accept("[") { Some(self.nested(Self::subscript)?) } else { None };
        self.accept("+");
        if !self.accept("=") {
            return self.error("a subscript without an assignment");
        }
        let value = if self.accept("(") {
            Assigned::Array(self.nested(Self::array)?)
        } else {
            match self.peek() {
                None | Some(b' ' | b'\t' | b'\n' | b'|' | b'&' | b';' | b')') => {
                    Assigned::Word(Word::default())
                }
                Some(b'<' | b'>') if !self.looking_at("<(") && !self.looking_at(">(") => {
                    Assigned::Word(Word::default())
                }
                Some(_) => Assigned::Word(self.word()?),
            }
        };
        let source = self.source[start..self.at].replace("\\\n", "");
        Ok(Assignment { name, subscript, value, source })
    }

    /// Reads the index of `name[…]` up to `]`, which is consumed; the opening bracket was consumed before. Nested
    /// brackets are refused.
    fn subscript(&mut self) -> Parsed<Word> {
        let start = self.at;
        let mut parts = Parts::default();
        loop {
            match self.peek() {
                None | Some(b'\n') => return self.error("an open bracket"),
                Some(b']') => break,
                Some(b'[') => return self.error("a bracket inside a subscript"),
                Some(_) => self.piece(&mut parts)?,
            }
        }
        let source = self.source[start..self.at].to_owned();
        self.accept("]");
        Ok(Word { parts: parts.0, source })
    }

    /// Reads the words of `name=(…)` up to `)`, which is consumed. The opening parenthesis was consumed before.
    fn array(&mut self) -> Parsed<Vec<Word>> {
        let mut words = Vec::new();
        loop {
            self.newlines()?;
            match self.peek() {
                None | Some(b'|' | b'&' | b';' | b'(') => return self.error("an open array"),
                Some(b')') => break,
                Some(_) => words.push(self.word()?),
            }
        }
        self.accept(")");
        Ok(words)
    }
}
