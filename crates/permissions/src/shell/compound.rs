//! Compound commands: groups, conditions, loops, `case`, `[[ ]]`, `(( ))`, coprocesses.

use super::ast::{Compound, List, Part, Word};
use super::parse::{Parsed, Parser, Stop, is_name};

impl Parser<'_> {
    /// Reads the compound command that starts here, without its redirections. `None` if there is none; nothing is
    /// consumed then.
    pub(super) fn compound(&mut self) -> Parsed<Option<Compound>> {
        if self.looking_at("((") {
            let start = self.at;
            self.accept("((");
            if let Some(expression) = self.arithmetic("))")? {
                return Ok(Some(Compound::Arithmetic(expression)));
            }
            self.at = start;
        }
        if self.accept("(") {
            let list = self.list(&[Stop::Parenthesis])?;
            return if self.accept(")") {
                Ok(Some(Compound::Subshell(list)))
            } else {
                self.error("an open parenthesis")
            };
        }
        let Some(word) = self.plain_word() else { return Ok(None) };
        let kind = match word.as_str() {
            "{" => self.group()?,
            "if" => self.conditional()?,
            "while" | "until" => self.repetition(&word)?,
            "for" | "select" => self.iteration(&word)?,
            "case" => self.case()?,
            "[[" => {
                self.accept("[[");
                Compound::Test(self.test_words()?)
            }
            "coproc" => {
                self.accept("coproc");
                self.coproc()?
            }
            _ => return Ok(None),
        };
        Ok(Some(kind))
    }

    /// Reads `{ list }`, from its opening brace. `}` is a reserved word, so it ends the group only where a command may
    /// start; an empty group is an error.
    fn group(&mut self) -> Parsed<Compound> {
        self.accept("{");
        let list = self.list(&[Stop::Word("}")])?;
        if list.0.is_empty() || !self.reserved("}") {
            return self.error("an open brace");
        }
        Ok(Compound::Group(list))
    }

    /// Reads an `if` from its keyword to `fi`. Conditions and branches go into one list in the order they are written,
    /// because all of them are analysed alike.
    fn conditional(&mut self) -> Parsed<Compound> {
        let mut lists = Vec::new();
        self.accept("if");
        loop {
            lists.push(self.list(&[Stop::Word("then")])?);
            self.expect_reserved("then", "if without then")?;
            lists.push(self.list(&[Stop::Word("elif"), Stop::Word("else"), Stop::Word("fi")])?);
            if self.reserved("elif") {
                continue;
            }
            if self.reserved("else") {
                lists.push(self.list(&[Stop::Word("fi")])?);
            }
            self.expect_reserved("fi", "if without fi")?;
            return Ok(Compound::If(lists));
        }
    }

    /// Reads a `while` or `until` loop; `word` is its keyword, which has not been consumed.
    fn repetition(&mut self, word: &str) -> Parsed<Compound> {
        self.accept(word);
        let condition = self.list(&[Stop::Word("do")])?;
        Ok(Compound::Loop { condition, body: self.loop_body()? })
    }

    /// Reads `do list done` and returns the list; newlines before `do` are skipped.
    fn loop_body(&mut self) -> Parsed<List> {
        self.expect_reserved("do", "a loop without do")?;
        let body = self.list(&[Stop::Word("done")])?;
        self.expect_reserved("done", "a loop without done")?;
        Ok(body)
    }

    /// Reads a `for` or `select` loop, with words or, for `for`, with an arithmetic header. `word` is its keyword,
    /// which has not been consumed.
    fn iteration(&mut self, word: &str) -> Parsed<Compound> {
        self.accept(word);
        self.blanks();
        if word == "for" && self.accept("((") {
            let Some(expression) = self.arithmetic("))")? else { return self.error("an open parenthesis") };
            self.blanks();
            self.accept(";");
            return Ok(Compound::ArithmeticFor { expression, body: self.loop_body()? });
        }
        let Some(variable) = self.plain_word().filter(|name| is_name(name)) else {
            return self.error("a loop without a variable");
        };
        self.word()?;
        self.newlines()?;
        let mut words = Vec::new();
        if self.reserved("in") {
            loop {
                self.blanks();
                match self.peek() {
                    Some(b';' | b'\n') => break,
                    None | Some(b'|' | b'&' | b'(' | b')' | b'<' | b'>') => {
                        return self.error("an unexpected character");
                    }
                    Some(_) => words.push(self.word()?),
                }
            }
        }
        if self.looking_at(";;") || (self.looking_at(";&")) {
            return self.error("an unexpected character");
        }
        self.accept(";");
        Ok(Compound::For { variable, words, body: self.loop_body()? })
    }

    /// Reads a `case` from its keyword to `esac`. The patterns of all branches are kept in one list: they are expanded,
    /// so they may run commands too.
    fn case(&mut self) -> Parsed<Compound> {
        self.accept("case");
        self.blanks();
        let subject = self.word()?;
        self.expect_reserved("in", "case without in")?;
        let (mut patterns, mut bodies) = (Vec::new(), Vec::new());
        loop {
            self.newlines()?;
            if self.reserved("esac") {
                return Ok(Compound::Case { subject, patterns, bodies });
            }
            self.accept("(");
            loop {
                self.blanks();
                patterns.push(self.word()?);
                self.blanks();
                if !self.accept("|") {
                    break;
                }
            }
            if !self.accept(")") {
                return self.error("a case pattern without `)`");
            }
            bodies.push(self.list(&[Stop::CaseEnd, Stop::Word("esac")])?);
            if !(self.accept(";;&") || self.accept(";;") || self.accept(";&")) {
                self.expect_reserved("esac", "case without esac")?;
                return Ok(Compound::Case { subject, patterns, bodies });
            }
        }
    }

    /// Reads the command of a coprocess, after the keyword. The optional name before a compound command is skipped.
    fn coproc(&mut self) -> Parsed<Compound> {
        self.blanks();
        // The optional name stands only before a compound command, where it cannot be a command itself, so it is
        // skipped.
        if let Some(name) = self.plain_word().filter(|name| is_name(name)) {
            let start = self.at;
            self.accept(&name);
            self.blanks();
            let compound = self.looking_at("(")
                || self.plain_word().is_some_and(|next| {
                    matches!(next.as_str(), "{" | "if" | "while" | "until" | "for" | "select" | "case" | "[[")
                });
            if !compound {
                self.at = start;
            }
        }
        let command = self.nested(Self::command)?;
        Ok(Compound::Coproc(Box::new(command)))
    }

    /// Reads the words between `[[` and `]]`, operators included, and consumes `]]`. The caller has consumed `[[`.
    pub(super) fn test_words(&mut self) -> Parsed<Vec<Word>> {
        let mut words = Vec::new();
        loop {
            self.newlines()?;
            if self.plain_word().as_deref() == Some("]]") {
                self.accept("]]");
                return Ok(words);
            }
            match self.peek() {
                None | Some(b';') => return self.error("an open `[[`"),
                // Operators, and the parentheses and bars of a pattern or regular expression, count as words.
                Some(operator @ (b'|' | b'&' | b'(' | b')' | b'<' | b'>')) => {
                    if self.looking_at("<(") || self.looking_at(">(") {
                        words.push(self.word()?);
                        continue;
                    }
                    self.at += 1;
                    let text = char::from(operator).to_string();
                    words.push(Word {
                        parts: vec![Part::Text { text: text.clone(), quoted: false }],
                        source: text,
                    });
                }
                Some(_) => words.push(self.word()?),
            }
        }
    }
}
