//! The grammar: lists, pipelines, simple and compound commands.
//!
//! Written by hand after the bash manual instead of with a general grammar, because here the only safe mistake is to
//! refuse: an error-tolerant parser guesses, this one stops. Any construct it does not know is an error, and the
//! callers never allow a command with an error. Words and expansions are in [`super::word`].

use super::ast::{
    Assigned, Assignment, Command, End, Evaluates, HereDoc, Item, List, Part, Pipeline, Script, Simple, Word,
};
use super::redirect::Pending;

/// Commands longer than this are not parsed.
const MAX_BYTES: usize = 128 * 1024;

/// Nesting deeper than this is refused: ordinary scripts do not need it, and the recursion must be bounded.
const MAX_DEPTH: u32 = 40;

/// The most nested pieces that are read, including those that are read twice because `((` may be arithmetic or a
/// subshell. This keeps the time linear at any nesting.
const MAX_PIECES: u32 = 20_000;

/// Why a script could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub(crate) struct ParseError {
    /// What is wrong, as a fragment.
    pub what: &'static str,
    /// The position, in bytes.
    pub at: usize,
}

pub(crate) type Parsed<T> = Result<T, ParseError>;

/// Parses a whole script. What is not understood, too long or nested too deep is an error and never skipped, because a
/// skipped part could run anything.
pub(crate) fn parse(source: &str) -> Parsed<Script> {
    if source.len() > MAX_BYTES {
        return Err(ParseError { what: "the command is too long to analyse", at: MAX_BYTES });
    }
    let unseen = |c: char| c.is_control() && c != '\n' && c != '\t';
    if let Some((at, _)) = source.char_indices().find(|&(_, c)| unseen(c)) {
        return Err(ParseError { what: "a control character", at });
    }
    // In some locales bash reads the last byte of a character and the backslash after it as one character.
    let mut chars = source.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if !c.is_ascii() && chars.peek().is_some_and(|(_, next)| *next == '\\') {
            return Err(ParseError { what: "a backslash behind a character that is not ASCII", at });
        }
    }
    let mut parser = Parser::new(source, 0);
    let list = parser.list(&[])?;
    parser.finish()?;
    Ok(Script { list, heredocs: parser.heredocs })
}

/// Where a list ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// `)`
    Parenthesis,
    /// A reserved word.
    Word(&'static str),
    /// `;;`, `;&` or `;;&`
    CaseEnd,
}

/// A position in a script.
pub(super) struct Parser<'s> {
    pub(super) source: &'s str,
    pub(super) at: usize,
    pub(super) depth: u32,
    pieces: u32,
    pub(super) pending: Vec<Pending>,
    pub(super) heredocs: Vec<HereDoc>,
}

impl<'s> Parser<'s> {
    /// Creates a parser at the beginning of a text. `depth` continues the count of the surrounding parser, so that
    /// nesting stays bounded across texts that are parsed each with a parser of its own; nested pieces are counted
    /// anew.
    pub(super) fn new(source: &'s str, depth: u32) -> Self {
        Self { source, at: 0, depth, pieces: 0, pending: Vec::new(), heredocs: Vec::new() }
    }

    /// Returns an error at the current position; `what` is shown to people as a fragment, followed by the position.
    pub(super) fn error<T>(&self, what: &'static str) -> Parsed<T> {
        Err(ParseError { what, at: self.at })
    }

    /// Requires that the script ends here, with no here-document left open.
    pub(super) fn finish(&mut self) -> Parsed<()> {
        if self.peek().is_some() {
            return self.error("an unexpected character");
        }
        if !self.pending.is_empty() {
            return self.error("a here-document without a body");
        }
        Ok(())
    }

    /// Runs `inner` one level deeper, and refuses a script that is nested too deep or has too many nested pieces, so
    /// that recursion and time stay bounded.
    pub(super) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.pieces += 1;
        if self.depth >= MAX_DEPTH || self.pieces > MAX_PIECES {
            return self.error("nesting that is too deep");
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Returns the next byte as it is, without consuming it; `None` at the end. Quotes, backquotes and comments are
    /// read with this: [`Self::peek`] would skip a backslash and a newline that may belong to their text.
    pub(super) fn raw(&self) -> Option<u8> {
        self.source.as_bytes().get(self.at).copied()
    }

    /// Returns the next byte without consuming it, or `None` at the end. Line continuations, a backslash before a
    /// newline, are skipped and consumed.
    pub(super) fn peek(&mut self) -> Option<u8> {
        while self.source.as_bytes()[self.at..].starts_with(b"\\\n") {
            self.at += 2;
        }
        self.raw()
    }

    /// Returns whether the next bytes are these, with line continuations skipped. The position stays.
    pub(super) fn looking_at(&mut self, text: &str) -> bool {
        let start = self.at;
        for &expected in text.as_bytes() {
            if self.peek() != Some(expected) {
                self.at = start;
                return false;
            }
            self.at += 1;
        }
        self.at = start;
        true
    }

    /// Consumes a text if it comes next, and returns whether it did; otherwise the position stays. Line continuations
    /// before and in it are skipped and consumed, too, so it is not for the content of quotes and comments; see
    /// [`Self::raw`]. It does not check that a word ends there; see [`Self::reserved`].
    pub(super) fn accept(&mut self, text: &str) -> bool {
        if !self.looking_at(text) {
            return false;
        }
        for _ in 0..text.len() {
            self.peek();
            self.at += 1;
        }
        true
    }

    /// Skips blanks and a comment. Only called where a word may start, so `#` begins a comment.
    pub(super) fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        if self.raw() == Some(b'#') {
            while self.raw().is_some_and(|byte| byte != b'\n') {
                self.at += 1;
            }
        }
    }

    /// Skips blanks, comments and newlines, and reads the bodies of here-documents that begin after them.
    pub(super) fn newlines(&mut self) -> Parsed<()> {
        self.blanks();
        while self.peek() == Some(b'\n') {
            self.newline()?;
            self.blanks();
        }
        Ok(())
    }

    /// Consumes a newline and the bodies of the here-documents that were announced on the line before it.
    fn newline(&mut self) -> Parsed<()> {
        self.at += 1;
        for pending in std::mem::take(&mut self.pending) {
            self.heredoc_body(&pending)?;
        }
        Ok(())
    }

    /// Refuses what may span lines, or has a grammar of its own, between `<<` and the body of the here-document,
    /// because the end of the line is not clear there.
    pub(super) fn no_pending_heredoc(&self) -> Parsed<()> {
        if self.pending.is_empty() {
            Ok(())
        } else {
            self.error("a here-document in a place we cannot follow")
        }
    }

    /// Returns the word that starts here if it has no quotes and no expansions, and so may be a reserved word;
    /// otherwise `None`, also if no word starts here. Consumes nothing. Each byte becomes a character, so the text is
    /// only good for comparing with ASCII words.
    pub(super) fn plain_word(&mut self) -> Option<String> {
        let start = self.at;
        let mut word = String::new();
        let plain = loop {
            match self.peek() {
                None | Some(b' ' | b'\t' | b'\n' | b'|' | b'&' | b';' | b'(' | b')' | b'<' | b'>') => {
                    break true;
                }
                Some(b'\'' | b'"' | b'\\' | b'$' | b'`') => break false,
                Some(byte) => word.push(byte as char),
            }
            self.at += 1;
        };
        self.at = start;
        (plain && !word.is_empty()).then_some(word)
    }

    /// Consumes a reserved word if the whole next word is that one and is not quoted. Returns whether it was.
    pub(super) fn reserved(&mut self, word: &str) -> bool {
        if self.plain_word().as_deref() != Some(word) {
            return false;
        }
        self.accept(word)
    }

    /// Skips newlines and consumes a reserved word; `missing` is the error if something else follows.
    pub(super) fn expect_reserved(&mut self, word: &'static str, missing: &'static str) -> Parsed<()> {
        self.newlines()?;
        if self.reserved(word) { Ok(()) } else { self.error(missing) }
    }

    /// Returns whether the list ends here, at one of `stops`. The stop is not consumed.
    fn at_stop(&mut self, stops: &[Stop]) -> bool {
        let word = self.plain_word();
        stops.iter().any(|stop| match stop {
            Stop::Parenthesis => self.peek() == Some(b')'),
            Stop::Word(name) => word.as_deref() == Some(name),
            Stop::CaseEnd => self.looking_at(";;") || self.looking_at(";&"),
        })
    }

    /// Reads pipelines up to one of `stops`, which is not consumed, or to the end of the script. An empty list is no
    /// error, and neither is the end of the script without a stop: the caller must require what has to follow.
    pub(super) fn list(&mut self, stops: &[Stop]) -> Parsed<List> {
        let mut items: Vec<Item> = Vec::new();
        loop {
            self.newlines()?;
            if self.peek().is_none() || self.at_stop(stops) {
                if matches!(items.last(), Some(Item { end: End::And | End::Or, .. })) {
                    return self.error("nothing after `&&` or `||`");
                }
                return Ok(List(items));
            }
            let pipeline = self.pipeline()?;
            self.blanks();
            let end = self.list_end(stops)?;
            items.push(Item { pipeline, end });
        }
    }

    /// Consumes what separates a pipeline from the next one; newlines and stops are left for the caller. The order of
    /// the checks matters: `&&` and `||` come before `&`, and `;;` before `;`.
    fn list_end(&mut self, stops: &[Stop]) -> Parsed<End> {
        if self.accept("&&") {
            Ok(End::And)
        } else if self.accept("||") {
            Ok(End::Or)
        } else if self.peek().is_none() || self.peek() == Some(b'\n') || self.at_stop(stops) {
            Ok(End::Sequence)
        } else if self.looking_at(";;") || self.looking_at(";&") {
            self.error("a case terminator outside of case")
        } else if self.accept(";") {
            Ok(End::Sequence)
        } else if self.accept("&") {
            Ok(End::Background)
        } else {
            self.error("an unexpected character")
        }
    }

    /// Reads commands joined by `|` or `|&`, after any number of `!` and `time`. At least one command must follow.
    fn pipeline(&mut self) -> Parsed<Pipeline> {
        let mut pipeline = Pipeline { negated: false, timed: false, commands: Vec::new() };
        loop {
            self.blanks();
            if self.reserved("!") {
                pipeline.negated = !pipeline.negated;
            } else if self.reserved("time") {
                pipeline.timed = true;
                self.blanks();
                if self.reserved("-p") {
                    self.blanks();
                }
                self.reserved("--");
            } else {
                break;
            }
        }
        loop {
            let command = self.nested(Self::command)?;
            pipeline.commands.push(command);
            self.blanks();
            if self.looking_at("||") || !(self.accept("|&") || self.accept("|")) {
                return Ok(pipeline);
            }
            self.newlines()?;
        }
    }

    /// Reads a compound command with its redirections, a simple command, or a function definition. A missing command is
    /// an error.
    pub(super) fn command(&mut self) -> Parsed<Command> {
        self.blanks();
        let Some(kind) = self.compound()? else { return self.simple() };
        let mut redirects = Vec::new();
        loop {
            self.blanks();
            match self.redirect()? {
                Some(redirect) => redirects.push(redirect),
                None => return Ok(Command::Compound { kind, redirects }),
            }
        }
    }

    /// Reads assignments, words and redirections up to the end of a simple command. A parenthesis after the first word,
    /// or the word `function`, makes it a function definition. If nothing is there, or a reserved word such as `done`,
    /// it is an error.
    fn simple(&mut self) -> Parsed<Command> {
        const UNEXPECTED: [&str; 8] = ["then", "else", "elif", "fi", "do", "done", "esac", "}"];
        if let Some(word) = self.plain_word() {
            if word == "function" {
                self.accept("function");
                return self.function_after_keyword();
            }
            if UNEXPECTED.contains(&word.as_str()) {
                return self.error("a reserved word out of place");
            }
        }
        let mut simple = Simple::default();
        loop {
            self.blanks();
            if let Some(redirect) = self.redirect()? {
                simple.redirects.push(redirect);
                continue;
            }
            match self.peek() {
                None | Some(b'\n' | b'|' | b'&' | b';' | b')') => break,
                Some(b'(') => return self.function_after_name(&simple),
                Some(_) => {}
            }
            if simple.words.is_empty() && self.at_assignment() {
                let assignment = self.assignment()?;
                simple.assignments.push(assignment);
            } else if self.at_assignment() && declares(&simple) {
                // `declare a=(x y)`: only the array form is more than a word.
                let assignment = self.assignment()?;
                simple.words.push(declared_word(assignment));
            } else {
                let word = self.word()?;
                simple.words.push(word);
            }
        }
        if simple == Simple::default() {
            return self.error("a missing command");
        }
        Ok(Command::Simple(simple))
    }

    /// Reads the rest of `name() body`, from the parenthesis on. `simple` is what was read before it, and must be
    /// nothing but the name.
    fn function_after_name(&mut self, simple: &Simple) -> Parsed<Command> {
        let alone = simple.assignments.is_empty() && simple.redirects.is_empty();
        let [name] = simple.words.as_slice() else { return self.error("an unexpected parenthesis") };
        if !alone || !self.accept("(") {
            return self.error("an unexpected parenthesis");
        }
        let name = name.source.clone();
        self.blanks();
        if !self.accept(")") {
            return self.error("an unexpected parenthesis");
        }
        self.function_body(name)
    }

    /// Reads `function name body`, in which the parentheses are optional. The keyword was consumed before.
    fn function_after_keyword(&mut self) -> Parsed<Command> {
        self.blanks();
        let name = self.word()?.source;
        self.blanks();
        if self.accept("(") {
            self.blanks();
            if !self.accept(")") {
                return self.error("an unexpected parenthesis");
            }
        }
        self.function_body(name)
    }

    /// Reads the body of a function, which must be a compound command, and returns the definition.
    fn function_body(&mut self, name: String) -> Parsed<Command> {
        self.newlines()?;
        match self.nested(Self::command)? {
            body @ Command::Compound { .. } => Ok(Command::Function { name, body: Box::new(body) }),
            Command::Simple(_) | Command::Function { .. } => self.error("a function without a body"),
        }
    }
}

/// Returns whether the command is a builtin whose words may be array assignments, such as `declare`.
fn declares(simple: &Simple) -> bool {
    const DECLARING: [&str; 5] = ["declare", "typeset", "local", "export", "readonly"];
    simple.words.first().is_some_and(|word| DECLARING.contains(&word.source.as_str()))
}

/// Returns an assignment as a word of a builtin such as `declare`. Arrays and subscripts make its value unknown,
/// because bash may evaluate what they contain.
fn declared_word(assignment: Assignment) -> Word {
    let mut parts = Vec::new();
    match assignment.value {
        Assigned::Word(word) => {
            parts.push(Part::Text { text: format!("{}=", assignment.name), quoted: true });
            parts.extend(word.parts);
        }
        Assigned::Array(words) => {
            let nested = words.into_iter().flat_map(|word| word.parts).collect();
            parts.push(Part::Opaque { nested, evaluates: Evaluates::Hidden });
        }
    }
    if let Some(subscript) = assignment.subscript {
        parts.push(Part::Opaque { nested: subscript.parts, evaluates: Evaluates::Hidden });
    }
    Word { parts, source: assignment.source }
}

/// Returns whether a text could be the name of a variable.
pub(crate) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
