//! Commands that change files: what exactly, in the few forms where that is certain; and a generous reading
//! of everything else, for rules that forbid.

use super::options::{Globs, Taken, take};
use super::{Listed, NotListed, Touch, TouchAccess, sed};
use crate::shell::unwrap::program_name;
use crate::shell::value::Arg;

/// Returns what a listed file command touches, such as `mkdir`, `rm`, `mv`, `cp` and `sed -i`. Every other program,
/// option or form is refused.
pub(super) fn changes(name: &str, args: &[Arg]) -> Listed {
    let words = &args[1..];
    match name {
        "mkdir" => written(&take("pvm:", "parents verbose mode=", Globs::Anchored, words)?),
        "touch" => written(&take("acmd:t:", "no-create date=", Globs::Anchored, words)?),
        "rm" => removed(&take("rRfiIvd", "recursive force verbose dir", Globs::Anchored, words)?),
        "rmdir" => removed(&take("pv", "parents verbose", Globs::Anchored, words)?),
        "mv" => moved(&take("fniuv", "force no-clobber verbose update", Globs::Anchored, words)?),
        "cp" => copied(&take(
            "rRapfniuvdP",
            "recursive archive force no-clobber verbose update no-dereference",
            Globs::Anchored,
            words,
        )?),
        "sed" => sed::in_place(args),
        _ => Err(NotListed),
    }
}

/// Returns one touch with the same access for each operand.
fn all(operands: &[&Arg], access: TouchAccess) -> Vec<Touch> {
    operands.iter().map(|arg| Touch::new(arg, access)).collect()
}

/// Accepts one or more operands that are all created or changed, and returns a touch for each. Refused without an
/// operand, and if an option behind one has its value in the next word, which may be a file then.
fn written(taken: &Taken<'_>) -> Listed {
    // Where options end at the first operand, `touch FILE -d X` makes X.
    if taken.operands.is_empty() || !taken.behind.is_empty() {
        return Err(NotListed);
    }
    Ok(all(&taken.operands, TouchAccess::Write))
}

/// Accepts one or more operands that are all removed, and returns a touch for each.
fn removed(taken: &Taken<'_>) -> Listed {
    if taken.operands.is_empty() { Err(NotListed) } else { Ok(all(&taken.operands, TouchAccess::Remove)) }
}

/// Accepts sources, which are removed, and a last operand, which is written. Refused without a source, and if a name is
/// not fixed.
fn moved(taken: &Taken<'_>) -> Listed {
    let (target, sources) = taken.operands.split_last().ok_or(NotListed)?;
    let mut touches = all(sources, TouchAccess::Remove);
    touches.extend(targets(sources, target, TouchAccess::Write)?);
    Ok(touches)
}

/// Accepts sources, which are read, and a last operand, which is written. A recursive copy must not meet an existing
/// directory, and a source that ends in `.` is refused, because it pours its content into the target.
fn copied(taken: &Taken<'_>) -> Listed {
    let (target, sources) = taken.operands.split_last().ok_or(NotListed)?;
    // `cp -r x/. y` pours the content of x into y, whatever it is called.
    if sources.iter().any(|arg| arg.text().ends_with("/.") || arg.text().ends_with("..") || arg.text() == ".")
    {
        return Err(NotListed);
    }
    let recursive = taken.has(&["r", "R", "a", "recursive", "archive"]);
    let (reads, writes) = if recursive {
        (TouchAccess::ReadTree, TouchAccess::WriteNew)
    } else {
        (TouchAccess::Read, TouchAccess::Write)
    };
    let mut touches = all(sources, reads);
    touches.extend(targets(sources, target, writes)?);
    Ok(touches)
}

/// Returns touches for the target, and for what appears inside it if it is a directory. Refused without a source, and
/// if a name is not fixed.
fn targets(sources: &[&Arg], target: &Arg, access: TouchAccess) -> Listed {
    if sources.is_empty() {
        return Err(NotListed);
    }
    let directory = target.fixed().ok_or(NotListed)?;
    let mut touches = vec![Touch::path(directory, TouchAccess::Write)];
    for source in sources {
        let name = program_name(source.fixed().ok_or(NotListed)?);
        touches.push(Touch::path(&format!("{}/{name}", directory.trim_end_matches('/')), access));
    }
    Ok(touches)
}

/// Programs that work on the files they are given, one way or another.
const READERS: [&str; 38] = [
    "awk", "gawk", "mawk", "less", "more", "most", "xxd", "bat", "batcat", "vi", "vim", "nvim", "view",
    "nano", "emacs", "code", "tar", "zip", "unzip", "zcat", "zless", "zgrep", "gzip", "gunzip", "bzip2",
    "xz", "scp", "rsync", "openssl", "gpg", "source", ".", "python", "python3", "node", "perl", "ruby", "dd",
];
const WRITERS: [&str; 16] = [
    "cp", "mv", "rm", "rmdir", "mkdir", "touch", "ln", "tee", "chmod", "chown", "truncate", "shred",
    "unlink", "install", "sed", "patch",
];

/// Returns a touch for every word that may be a path, for a command whose form is not known. Empty for a program that
/// is not known to work on files. Only for rules that forbid.
pub(super) fn generous(args: &[Arg]) -> Vec<Touch> {
    let Some(name) = args.first().and_then(Arg::fixed).map(program_name) else { return Vec::new() };
    let in_place = |arg: &Arg| {
        let text = arg.text();
        text.starts_with("--in-place")
            || (text.starts_with('-') && !text.starts_with("--") && text.contains('i'))
    };
    let writes = WRITERS.contains(&name) && (name != "sed" || args.iter().any(in_place));
    let listed =
        writes || READERS.contains(&name) || super::table::TABLE.iter().any(|spec| spec.name == name);
    if !listed && !matches!(name, "find" | "jq" | "git" | "curl" | "wget" | "cd" | "pushd") {
        return Vec::new();
    }
    let access = if writes { TouchAccess::Write } else { TouchAccess::Read };
    let mut touches = Vec::new();
    for arg in &args[1..] {
        let text = arg.text();
        if !text.starts_with('-') {
            touches.push(Touch::new(arg, access));
        }
        // `--file=x`, `if=x`, `-d@x`, `HEAD:x`
        for separator in ['=', '@', ':'] {
            if let Some((_, value)) = text.split_once(separator).filter(|(_, value)| !value.is_empty()) {
                touches.push(Touch::path(value, access));
            }
        }
    }
    touches
}
