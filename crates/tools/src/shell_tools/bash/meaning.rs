//! What the text of a command says about its result: whether exit code 1 is information and not a failure, and whether
//! no output is normal.
//!
//! This is a heuristic, not a parser, and no permission depends on it. It does not judge what it does not understand
//! (substitutions, subshells, here-documents): a non-zero exit code then counts as a failure.

use std::iter::Peekable;
use std::str::CharIndices;

/// Commands that print nothing when they succeed.
const SILENT: [&str; 12] =
    ["cd", "chgrp", "chmod", "chown", "cp", "ln", "mkdir", "mkfifo", "mv", "rm", "rmdir", "touch"];

/// How a command is joined to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joint {
    /// It runs whatever the result of the one before: `;`, a new line, `|`, `||`, `&`, or the start.
    Anyway,
    /// `&&`: it runs only if the one before succeeded.
    AndThen,
}

/// Returns what exit code `code` of `command` means if it is not a failure, otherwise `None`; only code 1 of some known
/// programs has such a meaning. The code must be that of the last command: after `&&` it might come from an earlier
/// one, so only `cd` is accepted before it.
pub(super) fn benign(command: &str, code: i32) -> Option<&'static str> {
    if code != 1 {
        return None;
    }
    let parts = split(command)?;
    let ((joint, last), before) = parts.split_last()?;
    let mut joint = *joint;
    for (joint_before, earlier) in before.iter().rev() {
        if joint == Joint::Anyway {
            break;
        }
        if program(earlier) != "cd" {
            return None;
        }
        joint = *joint_before;
    }
    match program(last) {
        "grep" | "egrep" | "fgrep" | "rg" => Some("No matches found"),
        "find" => Some("Some directories were inaccessible"),
        "diff" => Some("Files differ"),
        "test" | "[" => Some("Condition is false"),
        "git" => match git_subcommand(last)? {
            "grep" => Some("No matches found"),
            "diff" => Some("Files differ"),
            _ => None,
        },
        _ => None,
    }
}

/// Returns whether all simple commands of a command line are of the kind that prints nothing; false if it has none or
/// is not understood.
pub(super) fn is_silent(command: &str) -> bool {
    split(command).is_some_and(|parts| {
        !parts.is_empty() && parts.iter().all(|(_, part)| SILENT.contains(&program(part)))
    })
}

/// Returns the name of the program in a simple command, without its directory; empty if there is none.
fn program(simple: &str) -> &str {
    let first = words(simple).next().unwrap_or_default();
    first.rsplit('/').next().unwrap_or(first)
}

/// Returns the subcommand of a `git` command, after the global options; `None` if it has none. Only `-C` and `-c` are
/// known to take the next word as their value.
fn git_subcommand(simple: &str) -> Option<&str> {
    let mut words = words(simple).skip(1);
    loop {
        match words.next()? {
            "-C" | "-c" => _ = words.next()?,
            option if option.starts_with('-') => {}
            subcommand => return Some(subcommand),
        }
    }
}

/// Returns the words of a simple command after leading assignments, with their quotes: it is split at every white
/// space, inside quotes too. A lone backslash, which continues a line, is left out.
fn words(simple: &str) -> impl Iterator<Item = &str> {
    let is_assignment = |word: &&str| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    // A lone backslash continues the line.
    simple.split_whitespace().filter(|word| *word != "\\").skip_while(is_assignment)
}

type Characters<'a> = Peekable<CharIndices<'a>>;

/// Splits a command line into simple commands, each with how it is joined to the one before; empty ones and comments
/// are left out. `None` if it is not understood.
fn split(command: &str) -> Option<Vec<(Joint, &str)>> {
    let mut parts = Vec::new();
    let mut joint = Joint::Anyway;
    let mut start = 0;
    let mut previous = '\n';
    let mut characters = command.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        if let Some(next_joint) = boundary(character, previous, &mut characters)? {
            let part = command[start..at].trim();
            // Between `&&` and the line that continues it there is only white space.
            if !part.is_empty() {
                parts.push((joint, part));
                joint = next_joint;
            }
            start = characters.peek().map_or(command.len(), |(next, _)| *next);
        }
        previous = character;
    }
    let part = command[start..].trim();
    if !part.is_empty() {
        parts.push((joint, part));
    }
    Some(parts)
}

/// Returns `Some(None)` if no simple command ends at `character`, `Some` of how the next one is joined if one does, and
/// `None` if the text is not understood. Consumes everything that belongs to the character: the rest of an operator, a
/// quoted text, a comment.
fn boundary(character: char, previous: char, rest: &mut Characters<'_>) -> Option<Option<Joint>> {
    let next = rest.peek().map(|(_, next)| *next);
    match character {
        '(' | ')' | '`' => return None,
        '<' if next == Some('<') => return None,
        '\\' => _ = rest.next(),
        '\'' => _ = rest.find(|(_, c)| *c == '\'')?,
        '"' => skip_double_quotes(rest)?,
        '$' if next == Some('{') => _ = rest.find(|(_, c)| *c == '}')?,
        '#' if previous.is_whitespace() || previous == ';' => {
            while rest.next_if(|(_, c)| *c != '\n').is_some() {}
            return Some(Some(Joint::Anyway));
        }
        ';' | '\n' => return Some(Some(Joint::Anyway)),
        '|' => {
            rest.next_if(|(_, c)| matches!(c, '|' | '&'));
            return Some(Some(Joint::Anyway));
        }
        '&' if next == Some('&') => {
            rest.next();
            return Some(Some(Joint::AndThen));
        }
        // `>&` and `&>` redirect.
        '&' if !matches!(previous, '>' | '<') && next != Some('>') => return Some(Some(Joint::Anyway)),
        _ => {}
    }
    Some(None)
}

/// Consumes the rest of a text in double quotes, whose first quote is consumed already. `None` if it does not end, or
/// contains a command substitution, which is not understood.
fn skip_double_quotes(rest: &mut Characters<'_>) -> Option<()> {
    loop {
        match rest.next()?.1 {
            '"' => return Some(()),
            '\\' => _ = rest.next()?,
            '`' => return None,
            '$' if rest.peek().is_some_and(|(_, c)| *c == '(') => return None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_one_can_be_an_answer() {
        let cases = [
            ("grep zzz a.txt", "No matches found"),
            ("cat a | grep zzz", "No matches found"),
            ("/usr/bin/rg x", "No matches found"),
            ("LC_ALL=C grep -r 'a; b && c' .", "No matches found"),
            ("cd sub && grep x y", "No matches found"),
            ("cd sub &&\n  grep x \\\n  y\n", "No matches found"),
            ("make 2>&1 | grep error", "No matches found"),
            ("make; grep error log # none is good", "No matches found"),
            ("false || egrep \"a\\\"|b\" \"${file}\"", "No matches found"),
            ("git -C sub --no-pager grep x", "No matches found"),
            ("git diff --quiet", "Files differ"),
            ("diff a b;", "Files differ"),
            ("find . -name x \\; -print", "Some directories were inaccessible"),
            ("test -f nope", "Condition is false"),
            ("[ -f nope ]", "Condition is false"),
        ];
        for (command, meaning) in cases {
            assert_eq!(benign(command, 1), Some(meaning), "{command}");
            assert_eq!(benign(command, 2), None, "{command}");
        }
    }

    #[test]
    fn what_may_be_a_failure_is_one() {
        let cases = [
            "make && grep done log",
            "cd a && make && grep done log",
            "make &&\n# look\ngrep done log",
            "grep x y && echo found",
            "(grep x y)",
            "grep \"$(cat patterns)\" y",
            "grep `cat patterns` y",
            "cat <<E | grep x\n; grep\nE",
            "for f in *; do grep x $f; done",
            "! grep x y",
            "git push",
            "git",
            "grep 'unclosed",
            "mygrep x",
            "exit 1",
            "",
        ];
        for command in cases {
            assert_eq!(benign(command, 1), None, "{command}");
        }
    }

    #[test]
    fn silence_is_expected_of_few() {
        for command in ["touch a b", "cd deep", "mkdir -p a/b && cp x a/b; rm x", "X=1 chmod 600 a"] {
            assert!(is_silent(command), "{command}");
        }
        for command in ["true", "cd sub && pwd", "touch zz && ls", "date > b", "sleep 1", "", "rm $(ls)"] {
            assert!(!is_silent(command), "{command}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_cut_without_losing_its_words(command in "[ -~\\n]{0,60}") {
            for (_, part) in split(&command).unwrap_or_default() {
                proptest::prop_assert!(!part.is_empty() && command.contains(part));
            }
            is_silent(&command);
            benign(&command, 1);
        }
    }
}
