//! Rules about shell commands: exact texts, prefixes and wildcards, found by their fixed beginning.
//!
//! A thousand rules cost no more than ten: a text is looked up once for every *length* a fixed beginning has,
//! not once for every rule.

use std::collections::HashMap;

use crate::shell::ast::Command;
use crate::shell::parse::parse;

/// All command rules of one behaviour.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandRules {
    patterns: Vec<CommandPattern>,
    by_beginning: HashMap<String, Vec<usize>>,
    lengths: Vec<usize>,
    /// Rules with option letters, by program.
    by_program: HashMap<String, Vec<Flags>>,
}

#[derive(Debug, Clone)]
struct CommandPattern {
    shape: Shape,
    rule: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    Exact(String),
    /// The text itself, or the text, a blank and anything.
    Prefix(String),
    /// Pieces with anything between them; the blank before a final star is optional.
    Wild {
        pieces: Vec<String>,
        bare_end: bool,
    },
}

/// A rule such as `rm -rf`, which matches however the options are grouped.
#[derive(Debug, Clone)]
struct Flags {
    words: Vec<String>,
    letters: Vec<char>,
    longs: Vec<String>,
    rule: usize,
}

/// The rule that matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommandMatch<'r> {
    pub rule: usize,
    /// The fixed beginning of the pattern: the part of the command that the author of the rule certainly had in mind.
    pub beginning: &'r str,
}

impl CommandRules {
    /// Returns whether there are no rules, neither by text nor by options.
    pub(crate) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Adds a rule under its fixed beginning and, if it names options, also under its program. `rule` is the number
    /// that [`Self::find`] and [`Self::find_flags`] return.
    pub(crate) fn add(&mut self, content: &str, rule: usize) {
        let shape = Shape::read(content);
        if let Some(flags) = flags(&shape, rule) {
            self.by_program.entry(flags.words[0].clone()).or_default().push(flags);
        }
        let beginning = shape.beginning().to_owned();
        if !self.lengths.contains(&beginning.len()) {
            self.lengths.push(beginning.len());
        }
        self.by_beginning.entry(beginning).or_default().push(self.patterns.len());
        self.patterns.push(CommandPattern { shape, rule });
    }

    /// Returns the match with the lowest rule number for a text; `None` if no rule matches. The words of the text must
    /// be separated by single blanks, because those of the rules are.
    pub(crate) fn find(&self, text: &str) -> Option<CommandMatch<'_>> {
        let candidates = self.lengths.iter().filter_map(|length| {
            let beginning = text.get(..*length)?;
            self.by_beginning.get(beginning)
        });
        candidates
            .flatten()
            .map(|&index| &self.patterns[index])
            .filter(|pattern| pattern.shape.matches(text))
            .min_by_key(|pattern| pattern.rule)
            .map(|pattern| CommandMatch { rule: pattern.rule, beginning: pattern.shape.beginning() })
    }

    /// Returns the number of the first rule for `program` whose options all occur in `words`, in any grouping and
    /// order, and whose other words come first among those that are not options; `None` if none does. `--` and all
    /// words after it are left out. Some long options also count as their letter ([`letter_of`]), and `-R` as `-r` for
    /// `rm`.
    pub(crate) fn find_flags(&self, program: &str, words: &[&str]) -> Option<usize> {
        let candidates = self.by_program.get(program)?;
        let (mut letters, mut longs, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        for word in words.iter().take_while(|word| **word != "--") {
            if let Some(long) = word.strip_prefix("--") {
                let long = long.split('=').next().unwrap_or(long);
                letters.extend(letter_of(program, long));
                longs.push(long);
            } else if let Some(cluster) = word.strip_prefix('-') {
                letters.extend(cluster.chars());
            } else {
                plain.push(*word);
            }
        }
        let has_letter = |letter: &char| {
            letters.contains(letter) || (program == "rm" && *letter == 'r' && letters.contains(&'R'))
        };
        candidates
            .iter()
            .find(|flags| {
                plain.len() >= flags.words.len() - 1
                    && flags.words[1..].iter().zip(&plain).all(|(wanted, word)| wanted == word)
                    && flags.letters.iter().all(has_letter)
                    && flags.longs.iter().all(|long| longs.contains(&long.as_str()))
            })
            .map(|flags| flags.rule)
    }
}

/// Returns the letter that stands for a long option in deny rules, such as `f` for `--force`; `None` for all others.
fn letter_of(program: &str, long: &str) -> Option<char> {
    match (program, long) {
        ("rm", "recursive") => Some('r'),
        ("rm" | "git" | "mv" | "cp", "force") => Some('f'),
        _ => None,
    }
}

impl Shape {
    /// Reads the content of a rule. A final `:*` or ` *` after a text without stars is a prefix; any other unescaped
    /// star makes a wildcard pattern; the rest is an exact command.
    fn read(content: &str) -> Self {
        let content = content.trim();
        if let Some(prefix) = content.strip_suffix(":*").filter(|prefix| !has_star(prefix)) {
            return Self::Prefix(collapsed(prefix));
        }
        if let Some(prefix) = content.strip_suffix(" *").filter(|prefix| !has_star(prefix)) {
            return Self::Prefix(collapsed(prefix));
        }
        if !has_star(content) {
            return Self::Exact(canonical(content));
        }
        let mut pieces = vec![String::new()];
        let mut chars = content.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' if chars.peek() == Some(&'*') => {
                    chars.next();
                    push(&mut pieces, '*');
                }
                '*' => pieces.push(String::new()),
                ' ' | '\t' => {
                    while chars.next_if(|next| matches!(next, ' ' | '\t')).is_some() {}
                    push(&mut pieces, ' ');
                }
                c => push(&mut pieces, c),
            }
        }
        let bare_end = content.ends_with(" *");
        Self::Wild { pieces, bare_end }
    }

    /// Returns the fixed text the pattern starts with, without trailing blanks in a wildcard: the key of the lookup
    /// table.
    fn beginning(&self) -> &str {
        match self {
            Self::Exact(text) | Self::Prefix(text) => text,
            Self::Wild { pieces, .. } => pieces.first().map_or("", |piece| piece.trim_end()),
        }
    }

    /// Returns whether a text matches, whose words must be separated by single blanks. A prefix ends at a word
    /// boundary: `git` does not match `gitk`.
    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(exact) => text == exact,
            Self::Prefix(prefix) => text
                .strip_prefix(prefix.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')),
            Self::Wild { pieces, bare_end } => {
                wild(pieces, text) || (*bare_end && wild(pieces, &format!("{text} ")))
            }
        }
    }
}

/// Appends a character to the last piece of a wildcard pattern.
fn push(pieces: &mut [String], c: char) {
    if let Some(piece) = pieces.last_mut() {
        piece.push(c);
    }
}

/// Returns whether a text has a star that is not escaped with a backslash.
fn has_star(text: &str) -> bool {
    text.replace("\\*", "").contains('*')
}

/// Returns whether the pieces appear in the text in order and without overlap, the first at the start and the last at
/// the end. `false` for fewer than two pieces.
fn wild(pieces: &[String], text: &str) -> bool {
    let [first, middle @ .., last] = pieces else { return false };
    let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
    for piece in middle {
        match rest.find(piece.as_str()) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last.as_str())
}

/// Returns a text with single blanks between words and escaped stars as plain ones.
fn collapsed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace("\\*", "*")
}

/// Returns a command in the form in which exact commands are compared: one blank between words, quotes only where they
/// matter. Of anything but one simple command only the blanks are normalised.
fn canonical(content: &str) -> String {
    let Ok(script) = parse(content) else { return collapsed(content) };
    match script.list.0.as_slice() {
        [item] if item.pipeline.commands.len() == 1 => match &item.pipeline.commands[0] {
            Command::Simple(simple) if simple.redirects.is_empty() && simple.assignments.is_empty() => {
                let words: Vec<String> = simple
                    .words
                    .iter()
                    .map(|word| plain_text(word.only_text().as_deref(), &word.source).to_owned())
                    .collect();
                words.join(" ")
            }
            Command::Simple(_) | Command::Compound { .. } | Command::Function { .. } => collapsed(content),
        },
        _ => collapsed(content),
    }
}

/// Returns the value of a word, that is its text without quotes; if it is unknown, empty or contains blanks, `source`,
/// the word as written.
pub(crate) fn plain_text<'t>(text: Option<&'t str>, source: &'t str) -> &'t str {
    match text {
        Some(text) if !text.is_empty() && !text.contains(char::is_whitespace) => text,
        _ => source,
    }
}

/// Reads the program, words and options of a rule such as `rm -rf`. `None` if the rule has wildcards, no program or no
/// options, is about `find`, or has a single-dash word that is not a cluster of at most three letters.
fn flags(shape: &Shape, rule: usize) -> Option<Flags> {
    let text = match shape {
        Shape::Exact(text) | Shape::Prefix(text) => text,
        Shape::Wild { .. } => return None,
    };
    let mut flags = Flags { words: Vec::new(), letters: Vec::new(), longs: Vec::new(), rule };
    for word in text.split(' ') {
        if let Some(long) = word.strip_prefix("--") {
            flags.longs.push(long.to_owned());
        } else if let Some(cluster) = word.strip_prefix('-') {
            // Single-dash words that are not clusters of letters, such as those of `find`, are left to the exact
            // comparison.
            if cluster.is_empty() || cluster.len() > 3 || !cluster.chars().all(|c| c.is_ascii_alphabetic()) {
                return None;
            }
            flags.letters.extend(cluster.chars());
        } else {
            flags.words.push(word.to_owned());
        }
    }
    let worthwhile = !flags.letters.is_empty() || !flags.longs.is_empty();
    (worthwhile && !flags.words.is_empty() && flags.words[0] != "find").then_some(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching(rule: &str, text: &str) -> bool {
        let mut rules = CommandRules::default();
        rules.add(rule, 0);
        rules.find(text).is_some()
    }

    #[test]
    fn prefixes_end_at_a_word() {
        for rule in ["npm test:*", "npm test *"] {
            assert!(matching(rule, "npm test"), "{rule}");
            assert!(matching(rule, "npm test -- --watch"), "{rule}");
            assert!(!matching(rule, "npm testx"), "{rule}");
            assert!(!matching(rule, "npm"), "{rule}");
        }
        assert!(matching("npm*", "npmx y"));
        assert!(!matching("git diff *", "git difftool -y"));
    }

    #[test]
    fn stars_span_words() {
        assert!(matching("git * main", "git push origin main"));
        assert!(!matching("git * main", "git main"));
        assert!(!matching("git * main", "git push mainx"));
        assert!(matching("* --version", "node --version"));
        assert!(matching("git * push *", "git -C x push"));
        assert!(matching("echo \\*", "echo *"));
        assert!(!matching("echo \\*", "echo x"));
    }

    #[test]
    fn exact_rules_ignore_blanks_and_needless_quotes() {
        assert!(matching("make", "make"));
        assert!(!matching("make", "make install"));
        assert!(matching("git  commit -m \"a  b\"", "git commit -m \"a  b\""));
        assert!(matching("git 'push'", "git push"));
    }

    #[test]
    fn options_match_in_any_grouping() {
        let mut rules = CommandRules::default();
        rules.add("rm -rf:*", 7);
        rules.add("git push --force *", 8);
        assert_eq!(rules.find_flags("rm", &["-r", "-f", "x"]), Some(7));
        assert_eq!(rules.find_flags("rm", &["--recursive", "-fv", "x"]), Some(7));
        assert_eq!(rules.find_flags("rm", &["-r", "x"]), None);
        assert_eq!(rules.find_flags("git", &["push", "origin", "--force"]), Some(8));
        assert_eq!(rules.find_flags("git", &["push", "origin"]), None);
        assert_eq!(rules.find_flags("git", &["pull", "--force"]), None);
    }
}
