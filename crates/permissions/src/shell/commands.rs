//! The effects of single commands, by allow-list: programs, their options and the meaning of their operands.
//!
//! An option that is not listed, even an abbreviation of one that is, makes the command unknown, and unknown commands
//! need approval. The lists leave out every option that writes a file, runs a program, follows links out of the tree or
//! reads a file of file names.

mod change;
mod find;
pub(crate) mod git;
mod options;
mod sed;
mod special;
mod table;

use super::value::{Arg, Value};
use super::walk::{AssignedValue, Invocation};

/// The effect of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It changes nothing.
    ReadOnly(Vec<Touch>),
    /// It changes files, and only these.
    Changes(Vec<Touch>),
    /// It is not known, or not with these arguments.
    Unknown,
}

/// A path a command touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Touch {
    pub path: Touched,
    pub access: TouchAccess,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Touched {
    /// A path as the command sees it.
    Path(String),
    /// A glob pattern.
    Pattern(String),
    /// The word's value is not known.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TouchAccess {
    /// Reads the content or the name.
    Read,
    /// Reads the content; it must not be a directory.
    ReadFile,
    /// Reads the content of everything below.
    ReadTree,
    /// Makes it the current directory of the shell.
    Enter,
    /// Creates or changes.
    Write,
    /// Creates, and must not find an existing directory: it would write through the links in it.
    WriteNew,
    /// Removes.
    Remove,
    /// Git reads the configuration of the current repository.
    Repository,
}

impl TouchAccess {
    /// Returns whether the access creates, changes or removes a file.
    pub(crate) fn changes(self) -> bool {
        match self {
            Self::Write | Self::WriteNew | Self::Remove => true,
            Self::Read | Self::ReadFile | Self::ReadTree | Self::Enter | Self::Repository => false,
        }
    }
}

impl Touch {
    /// Creates a touch of whatever a word stands for: a path, a pattern, or a value that is not known.
    pub(crate) fn new(arg: &Arg, access: TouchAccess) -> Self {
        let path = match &arg.value {
            Value::Fixed(text) => Touched::Path(text.clone()),
            Value::Pattern(pattern) => Touched::Pattern(pattern.clone()),
            Value::Unknown => Touched::Unknown,
        };
        Self { path, access }
    }

    /// Creates a touch that reads the file or files a word stands for.
    pub(crate) fn read(arg: &Arg) -> Self {
        Self::new(arg, TouchAccess::Read)
    }

    /// Creates a touch of a fixed path that is not a word of its own, such as the value of an option.
    pub(crate) fn path(text: &str, access: TouchAccess) -> Self {
        Self { path: Touched::Path(text.to_owned()), access }
    }
}

/// Why a command is not on the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotListed;

type Listed = Result<Vec<Touch>, NotListed>;

/// Returns whether a variable in front of a command (`NAME=value command`) cannot change what the command does: its
/// name is on a list, and its value has no unusual characters and names no path.
pub(crate) fn safe_variable(name: &str, value: &str) -> bool {
    const SAFE: [&str; 25] = [
        "NODE_ENV",
        "LANG",
        "LANGUAGE",
        "NO_COLOR",
        "FORCE_COLOR",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "TERM",
        "COLUMNS",
        "LINES",
        "TZ",
        "CI",
        "RUST_BACKTRACE",
        "RUST_LOG",
        "CARGO_TERM_COLOR",
        "PYTHONUNBUFFERED",
        "PYTHONDONTWRITEBYTECODE",
        "GOOS",
        "GOARCH",
        "CGO_ENABLED",
        "DEBIAN_FRONTEND",
        "GIT_TERMINAL_PROMPT",
        "GIT_OPTIONAL_LOCKS",
        "TIME_STYLE",
        "LC_ALL",
    ];
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.@+:,=-".contains(c) || (c == '/' && name == "TZ");
    let listed = SAFE.contains(&name) || name.starts_with("LC_");
    listed && value.chars().all(plain) && !value.starts_with([':', '/']) && !value.contains("..")
}

/// Returns whether a shell variable of this name may be set without changing what later commands do: a lower-case name
/// without a known meaning.
pub(crate) fn harmless_name(name: &str) -> bool {
    // Lower-case names with a meaning: proxies, and the arrays that zsh ties to the search path.
    const MEANINGFUL: [&str; 14] = [
        "http_proxy",
        "https_proxy",
        "ftp_proxy",
        "all_proxy",
        "no_proxy",
        "path",
        "cdpath",
        "fpath",
        "manpath",
        "module_path",
        "mailpath",
        "histchars",
        "auto_resume",
        "argv",
    ];
    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !MEANINGFUL.contains(&name)
        && !name.starts_with("npm_")
        && name != "_"
}

/// Returns the effect of an invocation. Wrappers that only limit it (`timeout`, `command`, `builtin`) are looked
/// through; with an assignment in front that may change what it does, the effect is unknown.
pub(crate) fn effect(invocation: &Invocation) -> Effect {
    let safe = invocation.assigns.iter().all(|assigns| match &assigns.value {
        AssignedValue::Fixed(value) => safe_variable(&assigns.name, value),
        AssignedValue::Output | AssignedValue::Loop | AssignedValue::Other => false,
    });
    if !safe {
        return Effect::Unknown;
    }
    effect_of(&invocation.args, 0)
}

/// Returns the effect of a command without its assignments. At most four wrappers are looked through; read-only
/// programs are tried before those that change files.
fn effect_of(args: &[Arg], depth: u32) -> Effect {
    let Some(name) = args.first().and_then(Arg::fixed) else { return Effect::Unknown };
    if let Some(inner) = special::looked_through(name, args).filter(|_| depth < 4) {
        return effect_of(inner, depth + 1);
    }
    if let Ok(touches) = read_only(name, args) {
        return Effect::ReadOnly(touches);
    }
    match change::changes(name, args) {
        Ok(touches) => Effect::Changes(touches),
        Err(NotListed) => Effect::Unknown,
    }
}

/// Returns what a listed read-only command touches. `NotListed` means that its text does not prove it harmless, not
/// that it changes something.
fn read_only(name: &str, args: &[Arg]) -> Listed {
    match name {
        "find" => find::find(args),
        "git" => git::git(args),
        "sed" => sed::printing(args),
        _ => match table::TABLE.iter().find(|spec| spec.name == name) {
            Some(spec) => options::by_table(spec, args),
            None => special::special(name, args),
        },
    }
}

/// Returns every path that a command may touch, for rules that forbid: exactly what a listed command touches, otherwise
/// all words of programs that work on files, read broadly. Empty for a program that is not known to work on files.
pub(crate) fn possible_touches(args: &[Arg]) -> Vec<Touch> {
    match effect_of(args, 0) {
        Effect::ReadOnly(touches) | Effect::Changes(touches) => touches,
        Effect::Unknown => change::generous(args),
    }
}
