//! `find`: an expression of listed predicates only.

use super::{Listed, NotListed, Touch};
use crate::shell::value::{Arg, Value};

/// Predicates without an argument. Left out: `-delete`, `-follow`, the variants of `-ls` that write a file, `-exec…`.
const PLAIN: [&str; 27] = [
    "-depth",
    "-d",
    "-xdev",
    "-mount",
    "-daystart",
    "-noleaf",
    "-warn",
    "-nowarn",
    "-empty",
    "-readable",
    "-writable",
    "-executable",
    "-nouser",
    "-nogroup",
    "-prune",
    "-print",
    "-print0",
    "-ls",
    "-quit",
    "-true",
    "-false",
    "-not",
    "!",
    "-a",
    "-and",
    "-o",
    "-or",
];

/// Predicates with one argument that names no file.
const WITH_TEXT: [&str; 31] = [
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-iwholename",
    "-lname",
    "-ilname",
    "-regex",
    "-iregex",
    "-regextype",
    "-type",
    "-xtype",
    "-size",
    "-mtime",
    "-mmin",
    "-atime",
    "-amin",
    "-ctime",
    "-cmin",
    "-perm",
    "-user",
    "-group",
    "-uid",
    "-gid",
    "-links",
    "-inum",
    "-maxdepth",
    "-mindepth",
    "-printf",
    "-used",
];

/// Predicates whose argument is a file that is examined.
const WITH_FILE: [&str; 7] =
    ["-newer", "-anewer", "-cnewer", "-newermm", "-newermc", "-newermt", "-samefile"];

/// Returns what a `find` with listed predicates reads, which is `.` if it names no starting point. Any other predicate
/// is refused: `-exec`, `-delete` and `-fprint` run programs or change files.
pub(super) fn find(args: &[Arg]) -> Listed {
    let mut words = args[1..].iter().peekable();
    let mut touches = Vec::new();
    while words.next_if(|arg| matches!(arg.fixed(), Some("-P" | "-O1" | "-O2" | "-O3"))).is_some() {}
    while let Some(start) = words.next_if(|arg| !starts_expression(arg)) {
        if start.value == Value::Unknown
            || matches!(&start.value, Value::Pattern(p) if p.starts_with(['*', '?', '[']))
        {
            return Err(NotListed);
        }
        touches.push(Touch::read(start));
    }
    if touches.is_empty() {
        touches.push(Touch::read(&Arg::literal(".")));
    }
    while let Some(word) = words.next() {
        let predicate = word.fixed().ok_or(NotListed)?;
        if PLAIN.contains(&predicate) || matches!(predicate, "(" | ")" | ",") {
            continue;
        }
        let argument = words.next().filter(|arg| arg.value != Value::Unknown).ok_or(NotListed)?;
        // Without quotes the shell expands it first.
        if argument.fixed().is_none() {
            touches.push(Touch::read(argument));
        }
        if WITH_FILE.contains(&predicate) {
            if predicate != "-newermt" {
                touches.push(Touch::read(argument));
            }
        } else if !WITH_TEXT.contains(&predicate) {
            return Err(NotListed);
        }
    }
    Ok(touches)
}

/// Returns whether a word ends the start directories of `find`, by the same rule as `find` itself.
fn starts_expression(arg: &Arg) -> bool {
    arg.text().starts_with('-') || matches!(arg.text(), "(" | ")" | "!" | ",")
}
