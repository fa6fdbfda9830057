//! Options by table, and the programs whose table is all there is to know.
//!
//! A table entry reads like getopt: letters, `:` after a letter that takes a value, `+` after one whose value is a
//! number, `@` after one whose value is a file, `?` after one whose value is glued to it or absent, `#` for `-NUMBER`.
//! Long options are separated by blanks and end in `=`, `+`, `@` or `?` in the same sense.
//!
//! The surprising thing: an option behind an operand is read twice. GNU programs take it as an option; others, and all
//! of them under `POSIXLY_CORRECT`, take it and its value as further operands. So the value counts as a file, too.

use super::{Listed, NotListed, Touch, TouchAccess};
use crate::shell::value::{Arg, Value};

/// One program.
pub(super) struct Spec {
    pub name: &'static str,
    pub short: &'static str,
    pub long: &'static str,
    pub operands: Operands,
    pub globs: Globs,
}

/// What operands mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    None,
    /// Words that name no file.
    Text,
    /// Files to read.
    Files,
    /// Files to read that must not be directories: the program would follow the links in them.
    PlainFiles,
    /// At most one file to read: a second one would be written.
    OneFile,
    /// Directories or files whose content or names are listed all the way down.
    Trees,
    /// A pattern, then files. The pattern may come as an option instead.
    PatternThenFiles,
    /// The same, going down into directories.
    PatternThenTrees,
}

/// Which unquoted patterns are accepted as operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Globs {
    /// Any: the program has no option that does harm, should a file name look like one.
    Any,
    /// Only those that cannot match a name that starts with a dash.
    Anchored,
}

/// A command line taken apart.
#[derive(Debug, Default)]
pub(super) struct Taken<'a> {
    /// Options by letter or long name, with their value.
    pub options: Vec<(String, Option<&'a Arg>, String)>,
    pub operands: Vec<&'a Arg>,
    /// Words that are values of options behind an operand; see the head of this module.
    pub behind: Vec<&'a Arg>,
    pub touches: Vec<Touch>,
}

impl<'a> Taken<'a> {
    /// Notes an option with its value, which is a word of its own if `next` is one. A file that it names is noted as
    /// read; a value that should be a number and is none is refused.
    fn option(
        &mut self,
        name: &str,
        expects: Expects,
        next: Option<&'a Arg>,
        value: String,
    ) -> Result<(), NotListed> {
        if expects == Expects::Number && !is_number(&value) {
            return Err(NotListed);
        }
        if expects == Expects::File {
            self.touches.push(Touch::path(&value, TouchAccess::Read));
        }
        if !self.operands.is_empty() {
            self.behind.extend(next);
        }
        self.options.push((name.to_owned(), next, value));
        Ok(())
    }

    /// Returns option values that follow an operand as files that may be read, because programs that stop at the
    /// first operand would open them. One letter is a separator or a type far more often, so it is left out.
    pub(super) fn read_behind(&self) -> impl Iterator<Item = Touch> {
        self.behind.iter().filter(|arg| arg.text().chars().count() > 1).map(|arg| Touch::read(arg))
    }

    /// Returns whether any of these options was given; names are without dashes.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _, _)| names.contains(&name.as_str()))
    }

    /// Returns the values given for any of these options, in their order; an option that was given without a value
    /// yields an empty string. Names are without dashes.
    pub(super) fn values<'s>(&'s self, names: &'s [&str]) -> impl Iterator<Item = &'s str> {
        self.options
            .iter()
            .filter(|(name, _, _)| names.contains(&name.as_str()))
            .map(|(_, _, value)| value.as_str())
    }
}

/// Returns whether a text is a number as programs accept it: with a sign, a unit, a base or a second number after a
/// colon.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == ':')
}

/// What an option letter or name expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expects {
    Nothing,
    Value,
    Number,
    File,
    Glued,
}

/// Returns what the mark after an option stands for in the notation of the tables; without a known mark, the option
/// takes no value.
fn expects(mark: Option<u8>) -> Expects {
    match mark {
        Some(b':' | b'=') => Expects::Value,
        Some(b'+') => Expects::Number,
        Some(b'@') => Expects::File,
        Some(b'?') => Expects::Glued,
        _ => Expects::Nothing,
    }
}

/// Returns what a listed letter expects; `None` if it is not listed.
fn short_expects(short: &str, letter: char) -> Option<Expects> {
    let at = short.find(letter).filter(|_| letter.is_ascii_alphanumeric())?;
    Some(expects(short.as_bytes().get(at + 1).copied().filter(|byte| b":+@?".contains(byte))))
}

/// Returns what a listed long option expects; `None` if it is not listed. Abbreviations are not accepted.
fn long_expects(long: &str, name: &str) -> Option<Expects> {
    long.split_ascii_whitespace().find_map(|entry| {
        let bare = entry.trim_end_matches(['=', '+', '@', '?']);
        (bare == name)
            .then(|| expects(entry.as_bytes().last().copied().filter(|byte| b"=+@?".contains(byte))))
    })
}

/// Splits the words after the program into options and operands, by `short` and `long` in the notation of this module.
/// Refuses an option that is not listed, an option value that is not fixed, a word whose value is not known and, with
/// [`Globs::Anchored`], a pattern that could match an option.
pub(super) fn take<'a>(
    short: &str,
    long: &str,
    globs: Globs,
    words: &'a [Arg],
) -> Result<Taken<'a>, NotListed> {
    let mut taken = Taken::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = match &word.value {
            Value::Fixed(text) => text.as_str(),
            Value::Pattern(pattern) => {
                let anchored = !pattern.starts_with(['*', '?', '[', '-']);
                if let Some(option) = pattern.strip_prefix("--") {
                    pattern_option(long, option, word, &mut taken)?;
                } else if pattern.starts_with('-') || (globs == Globs::Anchored && !anchored) {
                    return Err(NotListed);
                } else {
                    taken.operands.push(word);
                }
                continue;
            }
            Value::Unknown => return Err(NotListed),
        };
        if text == "--" {
            for rest in words.by_ref() {
                if rest.value == Value::Unknown {
                    return Err(NotListed);
                }
                taken.operands.push(rest);
            }
        } else if let Some(option) = text.strip_prefix("--") {
            long_option(long, option, &mut words, &mut taken)?;
        } else if text.len() > 1 && text.starts_with('-') {
            short_options(short, &text[1..], &mut words, &mut taken)?;
        } else {
            taken.operands.push(word);
        }
    }
    Ok(taken)
}

/// Reads an option such as `--include=*.rs` without quotes: the shell leaves the word as it is unless a file has such a
/// name, so the word is also noted as a pattern that is read. Refused unless the option is listed with a value.
fn pattern_option<'a>(
    long: &str,
    option: &str,
    word: &'a Arg,
    taken: &mut Taken<'a>,
) -> Result<(), NotListed> {
    let (name, value) = option.split_once('=').ok_or(NotListed)?;
    if long_expects(long, name) != Some(Expects::Value) {
        return Err(NotListed);
    }
    taken.touches.push(Touch::read(word));
    taken.options.push((name.to_owned(), Some(word), value.to_owned()));
    Ok(())
}

/// Reads one long option, with its value after `=` or as the next word, which is then consumed. Refused if it is not
/// listed.
fn long_option<'a>(
    long: &str,
    option: &str,
    words: &mut std::slice::Iter<'a, Arg>,
    taken: &mut Taken<'a>,
) -> Result<(), NotListed> {
    let (name, inline) = match option.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (option, None),
    };
    let expects = long_expects(long, name).ok_or(NotListed)?;
    let (next, value) = match (expects, inline) {
        (Expects::Nothing, Some(_)) => return Err(NotListed),
        (Expects::Nothing, None) | (Expects::Glued, None) => (None, String::new()),
        (Expects::Glued | Expects::Value | Expects::Number | Expects::File, Some(value)) => {
            (None, value.to_owned())
        }
        (Expects::Value | Expects::Number | Expects::File, None) => {
            let next = words.next().ok_or(NotListed)?;
            (Some(next), next.fixed().ok_or(NotListed)?.to_owned())
        }
    };
    taken.option(name, expects, next, value)
}

/// Reads a cluster of letters. The first one that takes a value ends it: the rest of the word, or the next word, is
/// that value. A letter that is not listed is refused; digits alone are skipped and not noted if `short` has a `#`.
fn short_options<'a>(
    short: &str,
    letters: &str,
    words: &mut std::slice::Iter<'a, Arg>,
    taken: &mut Taken<'a>,
) -> Result<(), NotListed> {
    if short.contains('#') && letters.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(());
    }
    for (at, letter) in letters.char_indices() {
        let expects = short_expects(short, letter).ok_or(NotListed)?;
        let glued = &letters[at + letter.len_utf8()..];
        let (next, value) = match expects {
            Expects::Nothing => {
                taken.options.push((letter.to_string(), None, String::new()));
                continue;
            }
            Expects::Glued => (None, glued.to_owned()),
            Expects::Value | Expects::Number | Expects::File if !glued.is_empty() => (None, glued.to_owned()),
            Expects::Value | Expects::Number | Expects::File => {
                let next = words.next().ok_or(NotListed)?;
                (Some(next), next.fixed().ok_or(NotListed)?.to_owned())
            }
        };
        return taken.option(&letter.to_string(), expects, next, value);
    }
    Ok(())
}

/// Returns what a program of the table reads. Refused if an option is not listed or the operands do not fit its entry.
pub(super) fn by_table(spec: &Spec, args: &[Arg]) -> Listed {
    let mut taken = take(spec.short, spec.long, spec.globs, &args[1..])?;
    // Ripgrep takes options anywhere, whatever the system and the environment.
    if spec.name != "rg" {
        let behind: Vec<Touch> = taken.read_behind().collect();
        taken.touches.extend(behind);
    }
    // Programs of binutils read more options from `@file`.
    if spec.name == "strings" && taken.operands.iter().any(|arg| arg.text().starts_with('@')) {
        return Err(NotListed);
    }
    operand_touches(spec.operands, taken)
}

/// Returns what the operands and option values read; refuses operands that do not fit, and a search pattern that is not
/// fixed. A search down into directories without a file operand reads the current directory; the operand `-` reads no
/// file.
fn operand_touches(operands: Operands, taken: Taken<'_>) -> Listed {
    /// Unless told otherwise, ripgrep skips hidden and ignored files.
    const EVERYTHING: [&str; 6] = ["u", "unrestricted", "hidden", "no-ignore", "no-ignore-vcs", "binary"];
    let patterns = usize::from(!taken.has(&["e", "f", "regexp", "file"]));
    let tree = |all: bool| if all { TouchAccess::ReadTree } else { TouchAccess::Read };
    let count = taken.operands.len();
    let (skipped, access) = match operands {
        Operands::None if count == 0 => (0, TouchAccess::Read),
        Operands::OneFile if count <= 1 && taken.operands.iter().all(|arg| arg.fixed().is_some()) => {
            (0, TouchAccess::Read)
        }
        Operands::None | Operands::OneFile => return Err(NotListed),
        Operands::Text | Operands::Files | Operands::Trees => (0, TouchAccess::Read),
        Operands::PlainFiles => (0, TouchAccess::ReadFile),
        Operands::PatternThenFiles => (patterns, tree(taken.has(&["r", "recursive"]))),
        Operands::PatternThenTrees if taken.has(&["files"]) => (0, tree(taken.has(&EVERYTHING))),
        Operands::PatternThenTrees => (patterns, tree(taken.has(&EVERYTHING))),
    };
    if taken.operands.iter().take(skipped).any(|arg| arg.fixed().is_none()) {
        return Err(NotListed);
    }
    let descends =
        access == TouchAccess::ReadTree || matches!(operands, Operands::Trees | Operands::PatternThenTrees);
    let mut touches = taken.touches;
    if descends && count <= skipped {
        touches.push(Touch::path(".", access));
    }
    let files = taken.operands.iter().skip(skipped).filter(|arg| match operands {
        // Also a text operand becomes file names when it is a pattern.
        Operands::Text => arg.fixed().is_none(),
        Operands::None
        | Operands::Files
        | Operands::PlainFiles
        | Operands::OneFile
        | Operands::Trees
        | Operands::PatternThenFiles
        | Operands::PatternThenTrees => arg.text() != "-",
    });
    touches.extend(files.map(|arg| Touch::new(arg, access)));
    Ok(touches)
}
