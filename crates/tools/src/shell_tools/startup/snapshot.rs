//! A snapshot that was taken: its file, and which commands may need its functions.
//!
//! To read two hundred functions takes a shell longer than to start, and most commands use none. So the file of a bash
//! has them behind a line at which the shell turns back, unless it is told to go on. It is told so if the command may
//! use one: if it has the name of one in it, or anything that could make up a name or look at functions.

use std::collections::HashSet;
use std::path::PathBuf;

/// The line behind which the functions are.
const BORDER: &str = "\n[[ -n ${lathe_functions-} ]] || return 0\n";

/// What can stand for any name, or shows functions. Too much of it costs two milliseconds, too little a function.
const DYNAMIC: [&str; 13] =
    ["$", "`", "{", "\\", "eval", "source", ". ", "declare", "typeset", "type", "compgen", "export", "set"];

/// A snapshot of the user's shell.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// Where it is.
    pub file: PathBuf,
    /// What a command has in it that needs the functions. `None`: they cannot be left out.
    names: Option<HashSet<String>>,
}

impl Snapshot {
    /// Returns a description of the snapshot with this text in that file. Without the border between aliases and
    /// functions every command is taken to need the functions.
    pub fn new(file: PathBuf, text: &str) -> Self {
        // The border stands alone at the start if nothing is before it.
        let whole = format!("\n{text}");
        let names = whole.split_once(BORDER).map(|(before, functions)| needing(before, functions));
        Self { file, names }
    }

    /// Returns whether a command may need the functions of the snapshot. True when in doubt.
    pub fn is_needed_whole(&self, command: &str) -> bool {
        let Some(names) = &self.names else { return true };
        leads(command, names)
    }
}

/// Returns whether a text may lead to one of the names: it has one of them as a word, or anything that could make up a
/// name.
fn leads(text: &str, names: &HashSet<String>) -> bool {
    let mut words = text.split(|c: char| c.is_whitespace() || ";|&()<>'\"=!".contains(c));
    DYNAMIC.iter().any(|piece| text.contains(piece)) || words.any(|word| names.contains(word))
}

/// Returns the names of the functions, and of the aliases that lead to one, also through other aliases. A line of a
/// here-document that looks like the beginning of a function adds a name that is not needed.
fn needing(aliases: &str, functions: &str) -> HashSet<String> {
    let mut names: HashSet<String> =
        functions.lines().filter_map(|line| line.strip_suffix(" () ").map(str::to_owned)).collect();
    if names.is_empty() {
        return names;
    }
    let mut left: Vec<(&str, &str)> = aliases
        .split("\nalias ")
        .skip(1)
        .filter_map(|alias| alias.trim_start_matches("-- ").split_once('='))
        .collect();
    loop {
        let (leading, rest): (Vec<_>, Vec<_>) = left.into_iter().partition(|(_, value)| leads(value, &names));
        if leading.is_empty() {
            return names;
        }
        names.extend(leading.into_iter().map(|(name, _)| name.to_owned()));
        left = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_left_out_where_no_name_leads_to_one() {
        let text = "shopt -s extglob\nalias ll='ls -l'\nalias one='two x'\nalias two='greet you'\nalias v='echo $X'\n\
                    alias -- -='greet'\n[[ -n ${lathe_functions-} ]] || return 0\ngreet () \n{ \n    echo hi\n}\n\
                    my-fn.x () \n{ \n    :\n}\n# end of snapshot\n";
        let snapshot = Snapshot::new("f".into(), text);
        for command in ["echo hi", "ll a b", "git log --oneline | head -3", "cargo test 2>&1"] {
            assert!(!snapshot.is_needed_whole(command), "{command}");
        }
        for command in [
            "greet",
            "cd x && my-fn.x",
            "one",
            "two",
            "v",
            "$f",
            "gre{et,}",
            "gre\\et",
            "`x`",
            "type x",
            ". ./x.sh",
            "set",
            "- x",
            "true;greet|cat",
            "('greet')",
        ] {
            assert!(snapshot.is_needed_whole(command), "{command}");
        }
        for (text, whole) in
            [("[[ -n ${lathe_functions-} ]] || return 0\n# end", false), ("git () {\n}\n", true)]
        {
            assert_eq!(Snapshot::new("f".into(), text).is_needed_whole("echo hi"), whole, "{text}");
        }
    }
}
