//! Redirections and here-documents.
//!
//! The body of a here-document follows the line that announces it, so the parser keeps it as pending until the next
//! newline.

use super::ast::{Fd, HereDoc, Operator, Redirect, Target, Word};
use super::parse::{Parsed, Parser, is_name};

/// A here-document whose body has not been read yet.
#[derive(Debug)]
pub(super) struct Pending {
    delimiter: String,
    literal: bool,
    strip_tabs: bool,
    index: usize,
}

impl Parser<'_> {
    /// Reads the redirection that starts here. `None` if there is none, also before `<(` and `>(`; nothing is consumed
    /// then. An operator without a word is an error. The body of a here-document is read with the next newline.
    pub(super) fn redirect(&mut self) -> Parsed<Option<Redirect>> {
        let start = self.at;
        let fd = self.redirect_fd()?;
        if self.looking_at("<(") || self.looking_at(">(") {
            self.at = start;
            return Ok(None);
        }
        const OPERATORS: [(&str, Operator); 11] = [
            ("<<<", Operator::HereString),
            ("<<", Operator::HereDoc),
            ("<&", Operator::DuplicateInput),
            ("<>", Operator::ReadWrite),
            ("<", Operator::Read),
            (">>", Operator::Write),
            (">&", Operator::DuplicateOutput),
            (">|", Operator::Write),
            (">", Operator::Write),
            ("&>>", Operator::WriteBoth),
            ("&>", Operator::WriteBoth),
        ];
        let found = OPERATORS.iter().find(|(text, _)| {
            let own = fd == Fd::Default || !text.starts_with('&');
            own && self.looking_at(text)
        });
        let Some(&(text, operator)) = found else {
            self.at = start;
            return Ok(None);
        };
        self.accept(text);
        let target = if operator == Operator::HereDoc {
            Target::HereDoc(self.heredoc_start()?)
        } else {
            self.blanks_without_comment();
            Target::Word(self.word()?)
        };
        Ok(Some(Redirect { operator, fd, target }))
    }

    /// Skips blanks after a redirection operator, but no comment: a `#` there would leave the operator without a word,
    /// which is an error.
    fn blanks_without_comment(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    /// Reads `2` of `2>` or `{fd}` of `{fd}>`. Returns the default and consumes nothing if there is no descriptor or no
    /// operator follows.
    fn redirect_fd(&mut self) -> Parsed<Fd> {
        let start = self.at;
        let Some(word) = self.plain_word() else { return Ok(Fd::Default) };
        let fd = match word.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            Some(name) if is_name(name) => Fd::Variable,
            _ if word.bytes().all(|byte| byte.is_ascii_digit()) => match word.parse() {
                Ok(number) => Fd::Number(number),
                Err(_) => return self.error("a descriptor number that is too large"),
            },
            _ => return Ok(Fd::Default),
        };
        self.accept(&word);
        if matches!(self.peek(), Some(b'<' | b'>')) {
            return Ok(fd);
        }
        self.at = start;
        Ok(Fd::Default)
    }

    /// Reads the delimiter after `<<` and reserves a place for the body, which is filled in after the next newline.
    /// Returns the index of that place. A delimiter with an expansion or a line end is refused.
    fn heredoc_start(&mut self) -> Parsed<usize> {
        let strip_tabs = self.accept("-");
        self.blanks_without_comment();
        let word = self.word()?;
        let Some(delimiter) = word.only_text() else {
            return self.error("a here-document delimiter we cannot read");
        };
        if delimiter.contains('\n') {
            return self.error("a here-document delimiter we cannot read");
        }
        if word.source.contains('$') {
            return self.error("a here-document delimiter we cannot read");
        }
        let literal = word.source.contains(['\'', '"', '\\']);
        let index = self.heredocs.len();
        self.heredocs.push(HereDoc::default());
        self.pending.push(Pending { delimiter, literal, strip_tabs, index });
        Ok(index)
    }

    /// Reads the body that starts at the current line, up to and with the line of its delimiter, and stores it in the
    /// place that [`Self::heredoc_start`] reserved. The position must be right behind a newline; a body without the
    /// line of its delimiter is an error.
    pub(super) fn heredoc_body(&mut self, pending: &Pending) -> Parsed<()> {
        let mut text = String::new();
        loop {
            if self.at >= self.source.len() {
                return self.error("a here-document without its end");
            }
            let line = self.heredoc_line(pending.literal);
            let line = if pending.strip_tabs { line.trim_start_matches('\t') } else { &line };
            if line == pending.delimiter {
                break;
            }
            text.push_str(line);
            text.push('\n');
        }
        let word = if pending.literal { Word::default() } else { Self::heredoc_word(&text, self.depth)? };
        self.heredocs[pending.index] = HereDoc { text, literal: pending.literal, word };
        Ok(())
    }

    /// Reads one line of a body and consumes its newline, which is not returned. Unless the body is literal, a
    /// backslash at the end joins the next line to it, even if that line is the delimiter.
    fn heredoc_line(&mut self, literal: bool) -> String {
        let mut line = String::new();
        loop {
            let rest = &self.source[self.at..];
            let (piece, next) = match rest.find('\n') {
                Some(end) => (&rest[..end], end + 1),
                None => (rest, rest.len()),
            };
            self.at += next;
            let backslashes = piece.bytes().rev().take_while(|&byte| byte == b'\\').count();
            if literal || backslashes % 2 == 0 || self.at >= self.source.len() {
                line.push_str(piece);
                return line;
            }
            line.push_str(&piece[..piece.len() - 1]);
        }
    }
}
