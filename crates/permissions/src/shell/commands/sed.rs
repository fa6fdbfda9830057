//! `sed`: scripts that print, and scripts that edit in place without running or writing anything else.
//!
//! Only a small part of the language is accepted: addresses, `p`, `=`, `d`, `q` and `s` with the flags that
//! stay inside. A script with `w`, `r` or `e` is asked about.

use super::options::{Globs, take};
use super::{Listed, NotListed, Touch, TouchAccess};
use crate::shell::value::Arg;

const QUIET: [&str; 3] = ["n", "quiet", "silent"];
const LONG: &str =
    "quiet silent regexp-extended separate unbuffered null-data expression= posix in-place? debug";

/// What a script may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scripts {
    /// `p`, `=` and `q` only.
    Printing,
    /// Also `d` and `s`.
    Editing,
}

/// Accepts `sed -n '1,40p' FILE`, which prints and does nothing else. Returns the files that it reads; every other form
/// is refused.
pub(super) fn printing(args: &[Arg]) -> Listed {
    let taken = take("nErsuze:", LONG, Globs::Anchored, &args[1..])?;
    if !taken.has(&QUIET) || taken.has(&["in-place"]) {
        return Err(NotListed);
    }
    let from = check_scripts(&taken, Scripts::Printing)?;
    let files = taken.operands[from..].iter().map(|arg| Touch::read(arg));
    Ok(files.chain(taken.read_behind()).collect())
}

/// Accepts `sed -i s/a/b/ FILE`, which changes the named files and nothing else. Returns these files; every other form
/// is refused.
pub(super) fn in_place(args: &[Arg]) -> Listed {
    let taken = take("nErsuze:i?", LONG, Globs::Anchored, &args[1..])?;
    let mut suffixes = taken.values(&["i", "in-place"]);
    // A suffix with a slash or a star puts the backup somewhere else.
    let plain = |suffix: &str| suffix.chars().all(|c| c.is_ascii_alphanumeric() || "._~-".contains(c));
    if !taken.has(&["i", "in-place"]) || !suffixes.all(plain) || !taken.behind.is_empty() {
        return Err(NotListed);
    }
    let from = check_scripts(&taken, Scripts::Editing)?;
    let files = &taken.operands[from..];
    if files.is_empty() {
        return Err(NotListed);
    }
    Ok(files.iter().map(|arg| Touch::new(arg, TouchAccess::Write)).collect())
}

/// Refuses a call if one of its scripts has a command that is not accepted, or if it has no script with a known text.
/// Returns how many operands are scripts: none if options give them, otherwise one.
fn check_scripts(taken: &super::options::Taken<'_>, allowed: Scripts) -> Result<usize, NotListed> {
    let given: Vec<&str> = taken.values(&["e", "expression"]).collect();
    if !given.is_empty() {
        return if given.iter().all(|script| accepted(script, allowed)) { Ok(0) } else { Err(NotListed) };
    }
    let script = taken.operands.first().and_then(|arg| arg.fixed()).ok_or(NotListed)?;
    if accepted(script, allowed) { Ok(1) } else { Err(NotListed) }
}

/// Returns whether a script consists only of commands that `allowed` names, each with at most one address or range. An
/// empty script is accepted.
fn accepted(script: &str, allowed: Scripts) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', ';', '\n']);
        if rest.is_empty() {
            return true;
        }
        let Some(after) = address(rest).and_then(|rest| command(rest, allowed)) else { return false };
        let after = after.trim_start_matches(' ');
        if !(after.is_empty() || after.starts_with([';', '\n'])) {
            return false;
        }
        rest = after;
    }
}

/// Skips an address: `N`, `$`, `/re/`, `N,M`, `N,+M`, `N~M`, and a following `!`. Returns the rest, which is the whole
/// text without an address; `None` if a regular expression does not end.
fn address(text: &str) -> Option<&str> {
    let mut rest = one_address(text)?;
    if let Some(second) = rest.strip_prefix(',') {
        rest = one_address(second.trim_start_matches(' ').trim_start_matches('+'))?;
    }
    rest = rest.trim_start_matches(' ');
    Some(rest.strip_prefix('!').unwrap_or(rest))
}

/// Skips one address, and returns the rest; no address at all is accepted too. `None` if a regular expression does not
/// end.
fn one_address(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('$') {
        return Some(rest);
    }
    if let Some(rest) = text.strip_prefix('/') {
        return delimited(rest, '/');
    }
    Some(text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '~'))
}

/// Returns what follows the next unescaped `delimiter`; `None` if the line ends before. Brackets are not special here:
/// a delimiter inside a class ends the text too early, and the rest is refused.
fn delimited(text: &str, delimiter: char) -> Option<&str> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '\n' => return None,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == delimiter => return Some(&text[at + c.len_utf8()..]),
            _ => {}
        }
    }
    None
}

/// Skips one accepted command and its flags, and returns the rest; `None` for all others, because `w`, `e` and `r`
/// reach beyond the file.
fn command(text: &str, allowed: Scripts) -> Option<&str> {
    let mut chars = text.chars();
    match chars.next()? {
        'p' | '=' | 'q' => Some(chars.as_str()),
        'd' if allowed == Scripts::Editing => Some(chars.as_str()),
        's' if allowed == Scripts::Editing => {
            let delimiter = chars.next().filter(|c| c.is_ascii_punctuation() && !"\\;".contains(*c))?;
            let replacement = delimited(chars.as_str(), delimiter)?;
            let flags = delimited(replacement, delimiter)?;
            Some(flags.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, 'g' | 'p' | 'i' | 'I')))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_scripts_print_and_nothing_else() {
        for good in
            ["1p", "1,40p", "$p", "/fn main/p", "1,/end/p", "5q", "1p;3p", "2,+3p", "$=", "1!p", "0~3p"]
        {
            assert!(accepted(good, Scripts::Printing), "{good}");
        }
        for bad in [
            "w /tmp/x",
            "1w x",
            "1e",
            "e touch x",
            "r /etc/passwd",
            "s/a/b/",
            "d",
            "1p\nw x",
            "1p w x",
            "p;w x",
            "/a/w x",
            "/a/pw x",
            "{p}",
            "p}",
            "a text",
            "1,3",
            "/[/]/w x",
            "y/a/b/",
            "R x",
            "W x",
            "F",
            ":a",
            "ba",
        ] {
            assert!(!accepted(bad, Scripts::Printing), "{bad}");
        }
    }

    #[test]
    fn editing_scripts_stay_inside_the_file() {
        for good in ["s/a/b/", "s/a/b/g", "s#a#b#gI", "1,3d", "/x/d", "s/a\\/b/c/2"] {
            assert!(accepted(good, Scripts::Editing), "{good}");
        }
        for bad in
            ["s/a/b/e", "s/a/b/w x", "s/a/b/ge", "s/a/b/gw x", "s/a/b", "s/a/b/;e", "s/[/]/x/w y/", "sxaxbxe"]
        {
            assert!(!accepted(bad, Scripts::Editing), "{bad}");
        }
    }
}
