//! Read-only programs whose arguments have their own grammar.

use super::options::{Globs, take};
use super::{Listed, NotListed, Touch, TouchAccess};
use crate::shell::value::{Arg, Value};

/// Returns the command that `timeout`, `command` or `builtin` runs, if they are used in their plain form; `None` for
/// other programs, unknown options and a command that is not fixed.
pub(super) fn looked_through<'a>(name: &str, args: &'a [Arg]) -> Option<&'a [Arg]> {
    let inner = match name {
        "command" | "builtin" => &args[1..],
        "timeout" => {
            let mut index = 1;
            while let Some(option) = args.get(index)?.fixed().filter(|text| text.starts_with('-')) {
                index += match option {
                    "-k" | "-s" | "--kill-after" | "--signal" => 2,
                    "--foreground" | "--preserve-status" | "-v" | "--verbose" => 1,
                    _ if option.starts_with("--kill-after=") || option.starts_with("--signal=") => 1,
                    _ => return None,
                };
            }
            let duration = args.get(index)?.fixed()?;
            let number = duration.strip_suffix(['s', 'm', 'h', 'd']).unwrap_or(duration);
            if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
                return None;
            }
            &args[index + 1..]
        }
        _ => return None,
    };
    inner.first().and_then(Arg::fixed).filter(|program| !program.starts_with('-')).map(|_| inner)
}

/// Returns what a program whose arguments have their own grammar reads; `NotListed` for every program that is not named
/// here.
pub(super) fn special(name: &str, args: &[Arg]) -> Listed {
    let words = &args[1..];
    match name {
        "echo" => text_words(words),
        ":" | "help" | "expr" => fixed_words(words),
        "printf" => printf(words),
        "test" => test(words),
        "[" => test(words.split_last().filter(|(last, _)| last.fixed() == Some("]")).ok_or(NotListed)?.1),
        "date" => date(words),
        "cd" => cd(words),
        "xargs" => xargs(words),
        "jq" => jq(words),
        "ps" => ps(words),
        "tput" => tput(words),
        "man" => man(words),
        "history" => history(words),
        "lsof" => lsof(words),
        "docker" => docker(words),
        "node" | "python3" | "python" => match words {
            [only] if matches!(only.fixed(), Some("--version" | "-V" | "-v")) => {
                // `python -v` is verbose and interactive; only node prints its version.
                if only.fixed() == Some("-v") && name != "node" { Err(NotListed) } else { Ok(Vec::new()) }
            }
            _ => Err(NotListed),
        },
        _ => Err(NotListed),
    }
}

/// Accepts words that are only text, or patterns, which read the names of existing files. A word whose value is not
/// known is refused.
fn text_words(words: &[Arg]) -> Listed {
    let mut touches = Vec::new();
    for word in words {
        match word.value {
            Value::Fixed(_) => {}
            Value::Pattern(_) => touches.push(Touch::read(word)),
            Value::Unknown => return Err(NotListed),
        }
    }
    Ok(touches)
}

/// Accepts words that are only text, none of which is read as a file. Each value must be known.
fn fixed_words(words: &[Arg]) -> Listed {
    if words.iter().all(|word| word.fixed().is_some()) { Ok(Vec::new()) } else { Err(NotListed) }
}

/// Accepts `printf` without `-v` and `%n`, which set variables. Where a number is converted the operand must be
/// one, because zsh evaluates operands.
fn printf(words: &[Arg]) -> Listed {
    fixed_words(words)?;
    let words: Vec<&str> = words.iter().filter_map(Arg::fixed).collect();
    let Some((format, rest)) = words.split_first() else { return Err(NotListed) };
    if format.starts_with('-') {
        return Err(NotListed);
    }
    let mut converts = false;
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            continue;
        }
        let conversion = chars.by_ref().find(|c| !"-+ #0123456789.".contains(*c));
        match conversion {
            Some('s' | 'b' | 'q' | 'c' | '%') => {}
            Some('d' | 'i' | 'u' | 'o' | 'x' | 'X' | 'f' | 'F' | 'e' | 'E' | 'g' | 'G') => converts = true,
            Some(_) | None => return Err(NotListed),
        }
    }
    let number = |text: &&str| text.chars().all(|c| c.is_ascii_digit() || ".+-".contains(c));
    if converts && !rest.iter().all(number) { Err(NotListed) } else { Ok(Vec::new()) }
}

/// Accepts `test` with listed operators. `-v` and `-R` evaluate a subscript and are refused; numeric comparisons
/// accept only numbers. Another operator is refused only as the first word; later ones count as text.
fn test(words: &[Arg]) -> Listed {
    const FILE: [&str; 22] = [
        "-a", "-b", "-c", "-d", "-e", "-f", "-g", "-h", "-k", "-p", "-r", "-s", "-u", "-w", "-x", "-G", "-L",
        "-N", "-O", "-S", "-nt", "-ot",
    ];
    const NUMERIC: [&str; 6] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
    const TEXT: [&str; 12] = ["-n", "-z", "-t", "-ef", "=", "==", "!=", "!", "(", ")", "-o", "<"];
    fixed_words(words)?;
    let mut touches = Vec::new();
    let texts: Vec<&str> = words.iter().filter_map(Arg::fixed).collect();
    for (index, &text) in texts.iter().enumerate() {
        let next = texts.get(index + 1);
        if NUMERIC.contains(&text) {
            let number = |text: Option<&&str>| {
                text.is_some_and(|text| {
                    !text.is_empty() && text.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit())
                })
            };
            if index == 0 || !number(next) || !number(texts.get(index - 1)) {
                return Err(NotListed);
            }
        } else if FILE.contains(&text) {
            touches.extend(next.map(|path| Touch::path(path, TouchAccess::Read)));
        } else if matches!(text, "-v" | "-R")
            || (index == 0 && text.starts_with('-') && text.len() > 1 && !TEXT.contains(&text))
        {
            return Err(NotListed);
        }
    }
    Ok(touches)
}

/// Accepts `date` with listed options and formats, which start with a plus. Any other operand would set the clock.
fn date(words: &[Arg]) -> Listed {
    let long = "date= iso-8601? rfc-3339= rfc-email utc universal debug";
    let taken = take("d:I?Ru", long, Globs::Anchored, words)?;
    let formats = taken.operands.iter().all(|arg| arg.fixed().is_some_and(|text| text.starts_with('+')));
    if formats { Ok(Vec::new()) } else { Err(NotListed) }
}

/// Accepts one fixed directory, which the command enters. `cd -` and a bare `cd` depend on variables, so where they
/// lead is not known, and they are refused.
fn cd(words: &[Arg]) -> Listed {
    let words = match words {
        [first, rest @ ..] if matches!(first.fixed(), Some("--" | "-L")) => rest,
        all => all,
    };
    match words {
        [directory] => {
            let text = directory.fixed().ok_or(NotListed)?;
            if text.starts_with('-') || text.is_empty() {
                return Err(NotListed);
            }
            Ok(vec![Touch::path(text, TouchAccess::Enter)])
        }
        _ => Err(NotListed),
    }
}

/// Accepts `xargs echo` and `xargs` without a command, because `echo` is harmless with any words. Only five short
/// options are accepted before it.
fn xargs(words: &[Arg]) -> Listed {
    let mut index = 0;
    while let Some(word) = words.get(index) {
        index += match word.fixed().ok_or(NotListed)? {
            "-0" | "-r" | "-x" => 1,
            "-n" | "-L" => match words.get(index + 1).and_then(Arg::fixed) {
                Some(count) if count.bytes().all(|byte| byte.is_ascii_digit()) => 2,
                _ => return Err(NotListed),
            },
            _ => break,
        };
    }
    match words[index..].first().map(Arg::fixed) {
        None => Ok(Vec::new()),
        Some(Some("echo")) => text_words(&words[index + 1..]),
        Some(_) => Err(NotListed),
    }
}

/// Accepts `jq` with listed options, a filter and files, which it reads. `-f`, `-L` and filters that import are
/// refused, because they load filters and modules that were not checked.
fn jq(words: &[Arg]) -> Listed {
    let (mut filter_seen, mut touches) = (false, Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.fixed() else {
            // A pattern is accepted only where a file is expected, and its matches must not look like options.
            if filter_seen && matches!(&word.value, Value::Pattern(p) if !p.starts_with(['*', '?', '[', '-']))
            {
                touches.push(Touch::read(word));
                continue;
            }
            return Err(NotListed);
        };
        let mut next = || words.next().and_then(Arg::fixed).ok_or(NotListed);
        match text {
            "--arg" | "--argjson" => {
                next()?;
                next()?;
            }
            "--slurpfile" | "--rawfile" => {
                next()?;
                touches.push(Touch::path(next()?, TouchAccess::Read));
            }
            "--indent" => {
                next()?;
            }
            "--raw-output"
            | "--compact-output"
            | "--null-input"
            | "--exit-status"
            | "--slurp"
            | "--sort-keys"
            | "--ascii-output"
            | "--join-output"
            | "--raw-input"
            | "--tab"
            | "--color-output"
            | "--monochrome-output"
            | "--stream"
            | "--seq"
            | "--unbuffered"
            | "--version" => {}
            _ if text.starts_with('-') && text.len() > 1 => {
                if !text[1..].chars().all(|letter| "rcnesSajRCM".contains(letter)) {
                    return Err(NotListed);
                }
            }
            // The filter may read modules from any place it names.
            _ if !filter_seen => {
                if text.contains("import") || text.contains("include") || text.contains("modulemeta") {
                    return Err(NotListed);
                }
                filter_seen = true;
            }
            _ => touches.push(Touch::path(text, TouchAccess::Read)),
        }
    }
    Ok(touches)
}

/// Accepts `ps` without `e` in the BSD spelling, which shows the environment of every process.
fn ps(words: &[Arg]) -> Listed {
    const COLUMNS: [&str; 40] = [
        "pid", "ppid", "pgid", "pgrp", "sid", "tid", "lwp", "user", "uid", "ruser", "euser", "group", "gid",
        "comm", "cmd", "args", "command", "%cpu", "%mem", "pcpu", "pmem", "vsz", "rss", "sz", "stat",
        "state", "s", "tty", "tt", "time", "etime", "etimes", "lstart", "start", "stime", "nice", "ni",
        "pri", "psr", "nlwp",
    ];
    if let [only] = words
        && let Some(text) = only.fixed()
        && !text.is_empty()
        && text.bytes().all(|letter| b"auxfwjlr".contains(&letter))
    {
        return Ok(Vec::new());
    }
    let (bsd, rest) = match words {
        [first, rest @ ..] if first.fixed().is_some_and(|text| !text.starts_with('-')) => {
            (first.fixed(), rest)
        }
        all => (None, all),
    };
    if bsd.is_some_and(|text| !text.bytes().all(|letter| b"auxfwjlr".contains(&letter))) {
        return Err(NotListed);
    }
    let long = "sort= forest no-headers no-heading headers pid= ppid= user= format=";
    let taken = take("AaefFjlLHwTNu:U:p:C:G:g:t:s:o:", long, Globs::Anchored, rest)?;
    let mut columns = taken.values(&["o", "format"]).flat_map(|list| list.split([',', ' ']));
    let listed = columns.all(|column| COLUMNS.contains(&column.split(['=', ':']).next().unwrap_or("")));
    // `-uxe` is read as `uxe`, in the BSD spelling, when no user is named `xe`.
    let glued =
        taken.options.iter().any(|(name, next, _)| matches!(name.as_str(), "u" | "U") && next.is_none());
    if listed && !glued && taken.operands.is_empty() { Ok(Vec::new()) } else { Err(NotListed) }
}

/// Accepts `tput` with capabilities that only print; `init` and `reset` may run a program that the terminal database
/// names.
fn tput(words: &[Arg]) -> Listed {
    const ASKED: [&str; 12] = [
        "cols", "lines", "colors", "setaf", "setab", "sgr0", "bold", "dim", "smul", "rmul", "rev", "longname",
    ];
    let texts: Option<Vec<&str>> = words.iter().map(Arg::fixed).collect();
    let texts = texts.ok_or(NotListed)?;
    let number = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
    match texts.split_first() {
        Some((name, rest)) if ASKED.contains(name) && rest.iter().all(number) => Ok(Vec::new()),
        _ => Err(NotListed),
    }
}

/// Accepts `man` with names of pages. An operand with a slash is a file to format and is refused.
fn man(words: &[Arg]) -> Listed {
    let taken = take("kf", "", Globs::Anchored, words)?;
    let pages = taken.operands.iter().all(|arg| arg.fixed().is_some_and(|text| !text.contains('/')));
    if pages { Ok(Vec::new()) } else { Err(NotListed) }
}

/// Accepts a bare `history` or one with a count; options can change the list or write a file.
fn history(words: &[Arg]) -> Listed {
    match words {
        [] => Ok(Vec::new()),
        [count] if count.fixed().is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit())) => {
            Ok(Vec::new())
        }
        _ => Err(NotListed),
    }
}

/// Accepts `lsof` without `-D` (a cache file), `-k`, `-m`, options with a plus, and hosts, whose names would be
/// looked up.
fn lsof(words: &[Arg]) -> Listed {
    let taken = take("nPtali?p:u:c:", "", Globs::Anchored, words)?;
    let address = |text: &str| {
        let (protocol, port) = text.split_once(':').unwrap_or((text, ""));
        matches!(protocol, "" | "tcp" | "udp" | "TCP" | "UDP" | "4" | "6" | "4TCP" | "6TCP")
            && port.bytes().all(|byte| byte.is_ascii_digit() || byte == b',' || byte == b'-')
    };
    let operands = taken.operands.iter().all(|arg| arg.fixed().is_some_and(address));
    if operands && taken.values(&["i"]).all(address) { Ok(Vec::new()) } else { Err(NotListed) }
}

/// Accepts `docker ps` and `docker images` with listed options, which list containers and images.
fn docker(words: &[Arg]) -> Listed {
    let (command, rest) = words.split_first().ok_or(NotListed)?;
    let (short, long) = match command.fixed() {
        Some("ps") => ("aqlsn:f:", "all quiet latest size last= no-trunc filter= format="),
        Some("images") => ("aqf:", "all quiet no-trunc digests filter= format="),
        _ => return Err(NotListed),
    };
    let taken = take(short, long, Globs::Anchored, rest)?;
    if taken.operands.iter().all(|arg| arg.fixed().is_some()) { Ok(Vec::new()) } else { Err(NotListed) }
}
