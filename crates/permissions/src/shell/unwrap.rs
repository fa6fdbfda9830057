//! Commands that run other commands: `sudo`, `env`, `xargs`, `find -exec`, `sh -c`, `eval` and similar ones.
//!
//! This finds what a command *also* runs, for rules that forbid or ask. A guess that finds too much only asks too
//! often, so where options are unclear every possible beginning of the inner command is tried. Programs that are not in
//! these tables (`make`, a script, `awk`) hide what they run, as in every check of text: only a sandbox protects there.

use super::value::{Arg, Value};
use super::walk::InputText;

/// Something that a command runs in turn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Inner {
    Command(Vec<Arg>),
    /// A script as text.
    Script(String),
    /// A script that is only known at run time.
    Unreadable,
}

/// A program that runs the rest of its words.
struct Wrapper {
    name: &'static str,
    /// One-letter options that take a value.
    values: &'static str,
    /// Long options that take a value as the next word.
    long_values: &'static [&'static str],
    /// Operands before the command.
    operands: usize,
}

/// Creates an entry of [`WRAPPERS`]; the fields of [`Wrapper`] say what the arguments mean.
const fn wrapper(
    name: &'static str,
    values: &'static str,
    long_values: &'static [&'static str],
    operands: usize,
) -> Wrapper {
    Wrapper { name, values, long_values, operands }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper(
        "sudo",
        "CDghpRrTtUu",
        &["chdir", "close-from", "group", "host", "prompt", "chroot", "role", "type", "user"],
        0,
    ),
    wrapper("doas", "Cu", &[], 0),
    wrapper("env", "uC", &["unset", "chdir"], 0),
    wrapper("nice", "n", &["adjustment"], 0),
    wrapper("ionice", "cnPpu", &["class", "classdata", "pid"], 0),
    wrapper("nohup", "", &[], 0),
    wrapper("setsid", "", &[], 0),
    wrapper("stdbuf", "ioe", &["input", "output", "error"], 0),
    wrapper("timeout", "ks", &["kill-after", "signal"], 1),
    wrapper("time", "fo", &["format", "output"], 0),
    wrapper("chrt", "TPD", &["sched-runtime", "sched-period", "sched-deadline"], 1),
    wrapper("taskset", "", &[], 1),
    wrapper("chroot", "", &[], 1),
    wrapper("unshare", "SGRw", &[], 0),
    wrapper("nsenter", "tSG", &["target"], 0),
    wrapper("flock", "wE", &["timeout", "wait", "conflict-exit-code"], 1),
    wrapper("watch", "nqs", &["interval", "equexit"], 0),
    wrapper("strace", "abeEIoOpPsSuUX", &[], 0),
    wrapper("ltrace", "aAeFlnopsuwx", &[], 0),
    wrapper("command", "", &[], 0),
    wrapper("builtin", "", &[], 0),
    wrapper("exec", "a", &[], 0),
    wrapper("noglob", "", &[], 0),
    wrapper("nocorrect", "", &[], 0),
    wrapper("busybox", "", &[], 0),
    wrapper("toybox", "", &[], 0),
    wrapper(
        "xargs",
        "adEILnPs",
        &["arg-file", "delimiter", "max-args", "max-procs", "max-chars", "replace"],
        0,
    ),
    wrapper("parallel", "jaIn", &["jobs", "arg-file", "colsep", "joblog", "results", "timeout"], 0),
    wrapper("rlwrap", "", &[], 0),
    wrapper("unbuffer", "", &[], 0),
    wrapper("pkexec", "", &["user"], 0),
    wrapper(
        "systemd-run",
        "pMHEup",
        &["property", "unit", "slice", "setenv", "machine", "host", "uid", "gid"],
        0,
    ),
    wrapper("caffeinate", "tw", &[], 0),
    wrapper("setarch", "", &[], 1),
    wrapper("linux64", "", &[], 0),
    wrapper("prlimit", "p", &["pid"], 0),
    wrapper("numactl", "NCmpi", &[], 0),
    wrapper("proxychains", "f", &[], 0),
    wrapper("catchsegv", "", &[], 0),
];

const SHELLS: [&str; 11] =
    ["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash", "yash", "posh"];

/// Returns the name of a program without its path and without the `=` of zsh; only the last name counts to rules.
pub(crate) fn program_name(text: &str) -> &str {
    let base = text.trim_end_matches('/').rsplit('/').next().unwrap_or(text);
    base.strip_prefix('=').unwrap_or(base)
}

/// Returns the command inside a wrapper that only limits it, such as `timeout`, or inside `xargs` without options;
/// permitting rules look through these and no others. `None` for every other program, for one named with its path, and
/// if it is not clear where the command begins.
pub(crate) fn stripped(args: &[Arg]) -> Option<&[Arg]> {
    const LIMITING: [&str; 8] =
        ["timeout", "time", "nice", "nohup", "stdbuf", "command", "builtin", "noglob"];
    let (program, rest) = args.split_first()?;
    let name = program.fixed()?;
    let inner = if name == "xargs" {
        // The options of `xargs` are not parsed: with one, the check below returns `None`.
        rest
    } else if LIMITING.contains(&name) {
        let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.name == name)?;
        command_words(wrapper, rest)?
    } else {
        return None;
    };
    inner.first().filter(|first| first.fixed().is_some_and(|text| !text.starts_with('-'))).map(|_| inner)
}

/// Returns everything that a command runs in turn, rather too much than too little; empty if the program is not in the
/// tables or its word is not fixed. What the found commands run themselves is not included. `input` is what the command
/// reads, if that is known.
pub(crate) fn inner_commands(args: &[Arg], input: Option<&InputText>) -> Vec<Inner> {
    let Some(name) = args.first().and_then(Arg::fixed).map(program_name) else { return Vec::new() };
    let rest = &args[1..];
    let mut found = Vec::new();
    match name {
        "eval" => found.push(joined_script(rest)),
        "trap" => found.extend(rest.iter().find(|arg| !arg.source.starts_with('-')).map(script)),
        "su" | "runuser" | "script" | "flock" => found.extend(option_script(rest)),
        "find" | "gfind" | "bfs" => {
            found.extend(after_actions(rest, &["-exec", "-execdir", "-ok", "-okdir"]))
        }
        "fd" | "fdfind" => found.extend(after_actions(rest, &["-x", "-X", "--exec", "--exec-batch"])),
        "git" => found.extend(git_scripts(rest)),
        "env" => found.extend(split_string(rest)),
        _ => {}
    }
    if SHELLS.contains(&name) {
        found.extend(shell_script(rest, input));
    }
    if name.starts_with("ld-") && name.contains(".so") {
        found.extend(all_beginnings(rest, 0));
    }
    if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
        found.extend(wrapped(wrapper, rest));
        if name == "watch" {
            found.push(joined_script(command_words(wrapper, rest).unwrap_or(rest)));
        }
    }
    found
}

/// Returns the script that a word holds, [`Inner::Unreadable`] if the value of the word is not fixed.
fn script(arg: &Arg) -> Inner {
    match arg.fixed() {
        Some(text) => Inner::Script(text.to_owned()),
        None => Inner::Unreadable,
    }
}

/// Returns the script that words make when they are joined and parsed again. If one of the words is not fixed, the
/// script cannot be read.
fn joined_script(args: &[Arg]) -> Inner {
    let words: Option<Vec<&str>> = args.iter().map(Arg::fixed).collect();
    match words {
        Some(words) => Inner::Script(words.join(" ")),
        None => Inner::Unreadable,
    }
}

/// Returns the script that a shell runs: `sh -c SCRIPT`, `sh <<< SCRIPT`, or its input. Empty if it runs a file or its
/// input is not given here.
fn shell_script(rest: &[Arg], input: Option<&InputText>) -> Vec<Inner> {
    let mut index = 0;
    let mut wants_script = false;
    while let Some(arg) = rest.get(index) {
        let Some(text) = arg.fixed() else { break };
        if text == "--" || text == "-" {
            index += 1;
            break;
        }
        let Some(option) = text.strip_prefix(['-', '+']) else { break };
        if option.starts_with('-') {
            index += if matches!(option, "-rcfile" | "-init-file") { 2 } else { 1 };
            continue;
        }
        wants_script |= option.contains('c');
        index += 1 + option.matches(['o', 'O']).count();
    }
    match (rest.get(index), wants_script, input) {
        (Some(arg), true, _) => vec![script(arg)],
        // If an option was misread, any word may be the script.
        (None, true, _) => vec![Inner::Unreadable],
        (None, false, Some(InputText::Known(input))) => vec![Inner::Script(input.to_owned())],
        (None, false, Some(InputText::Unknown)) => vec![Inner::Unreadable],
        (None, false, None) | (Some(_), false, _) => Vec::new(),
    }
}

/// Returns the scripts in `-c SCRIPT` and `--command=SCRIPT`, for programs that can also run a script.
fn option_script(rest: &[Arg]) -> Vec<Inner> {
    let mut found = Vec::new();
    for (index, arg) in rest.iter().enumerate() {
        let text = arg.text();
        if let Some(inline) = text.strip_prefix("--command=") {
            found.push(Inner::Script(inline.to_owned()));
        } else if text == "--command"
            || (text.starts_with('-') && !text.starts_with("--") && text.ends_with('c'))
        {
            found.extend(rest.get(index + 1).map(script));
        }
    }
    found
}

/// Returns the commands that follow each of `actions`, up to `;` or `+`. An action without words is left out.
fn after_actions(rest: &[Arg], actions: &[&str]) -> Vec<Inner> {
    let mut found = Vec::new();
    for (index, arg) in rest.iter().enumerate() {
        if actions.contains(&arg.text()) {
            let words: Vec<Arg> = rest[index + 1..]
                .iter()
                .take_while(|arg| !matches!(arg.text(), ";" | "+"))
                .cloned()
                .collect();
            found.extend((!words.is_empty()).then_some(Inner::Command(words)));
        }
    }
    found
}

/// Returns the scripts and commands that git options, aliases on the command line and subcommands such as `bisect run`
/// start; empty if there are none.
fn git_scripts(rest: &[Arg]) -> Vec<Inner> {
    let mut found = Vec::new();
    for (index, arg) in rest.iter().enumerate() {
        let next = rest.get(index + 1);
        match arg.text() {
            "-x" | "--exec" => found.extend(next.map(script)),
            "foreach" => found.push(joined_script(&rest[index + 1..])),
            "run" if index > 0 && rest[index - 1].text() == "bisect" => {
                found.push(Inner::Command(rest[index + 1..].to_vec()));
            }
            text => {
                let value = text.strip_prefix("--exec=").or_else(|| {
                    let (key, value) = text.split_once("=!")?;
                    key.starts_with("alias.").then_some(value)
                });
                found.extend(value.map(|value| Inner::Script(value.to_owned())));
            }
        }
    }
    found.retain(|inner| !matches!(inner, Inner::Command(words) if words.is_empty()));
    found
}

/// Returns the command in `env -S 'command words'`, as a script; empty without such an option.
fn split_string(rest: &[Arg]) -> Vec<Inner> {
    let mut found = Vec::new();
    for (index, arg) in rest.iter().enumerate() {
        let text = arg.text();
        if text == "-S" || text == "--split-string" || (text.starts_with('-') && text.ends_with('S')) {
            found.extend(rest.get(index + 1).map(script));
        } else if let Some(inline) = text.strip_prefix("--split-string=").or_else(|| text.strip_prefix("-S"))
        {
            found.push(Inner::Script(inline.to_owned()));
        }
    }
    found
}

/// Returns the command that a wrapper runs, or nothing if no word is left for it. If [`command_words`] cannot tell
/// where it begins, every later word may start it, and the commands of [`all_beginnings`] are returned.
fn wrapped(wrapper: &Wrapper, rest: &[Arg]) -> Vec<Inner> {
    match command_words(wrapper, rest) {
        Some([]) => Vec::new(),
        Some(words) => vec![Inner::Command(words.to_vec())],
        None => all_beginnings(rest, wrapper.operands),
    }
}

/// Returns the words of the command after a wrapper's options and operands, empty if there are none. `None` when a long
/// option without `=` is not known or a word before the command is not fixed; short options of letters that are not
/// known count as options without a value.
fn command_words<'a>(wrapper: &Wrapper, rest: &'a [Arg]) -> Option<&'a [Arg]> {
    let mut index = 0;
    let mut operands = wrapper.operands;
    while let Some(arg) = rest.get(index) {
        let Value::Fixed(text) = &arg.value else { return None };
        if text == "--" {
            index += 1;
            break;
        }
        if let Some(long) = text.strip_prefix("--") {
            let takes_next = wrapper.long_values.contains(&long);
            if !takes_next && !long.contains('=') {
                return None;
            }
            index += if takes_next { 2 } else { 1 };
        } else if let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            let value_at = letters.find(|letter| wrapper.values.contains(letter));
            let unknown =
                value_at.is_none() && letters.len() > 1 && !letters.bytes().all(|b| b.is_ascii_digit());
            if unknown && !letters.bytes().all(|byte| byte.is_ascii_alphabetic()) {
                return None;
            }
            index += if value_at == Some(letters.len() - 1) { 2 } else { 1 };
        } else if text.contains('=') && matches!(wrapper.name, "env" | "sudo" | "doas") {
            // For these wrappers any word with an equals sign is an assignment, even without a valid name.
            index += 1;
        } else if operands > 0 {
            operands -= 1;
            index += 1;
        } else {
            break;
        }
    }
    Some(rest.get(index + skipped(operands, rest, index)..).unwrap_or(&[]))
}

/// Returns how many of the words from `index` on are operands of the wrapper that still follow `--`: at most as many as
/// there are words.
fn skipped(operands: usize, rest: &[Arg], index: usize) -> usize {
    operands.min(rest.len().saturating_sub(index))
}

/// Returns a command for every place where one could start, when the options are unclear; at most sixteen. Words that
/// look like options are no beginnings.
fn all_beginnings(rest: &[Arg], operands: usize) -> Vec<Inner> {
    (operands..rest.len())
        .filter(|&index| !rest[index].text().starts_with('-'))
        .take(16)
        .map(|index| Inner::Command(rest[index..].to_vec()))
        .collect()
}
