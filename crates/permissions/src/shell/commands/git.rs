//! `git`: the subcommands that only read, with the options that keep them read-only.
//!
//! Left out everywhere: `--output`, `--ext-diff`, `--textconv`, `-O`, `--no-index`, `--show-signature`, formats with
//! `%G` (run gpg), and every option before the subcommand that changes configuration or directory. Git still runs what
//! the configuration of the repository names, so every accepted call also touches the repository, and its configuration
//! must be harmless.

use super::options::{Globs, Taken, take};
use super::{Listed, NotListed, Touch, TouchAccess};
use crate::shell::value::Arg;

/// Options of the subcommands that show commits and differences.
const LOG_SHORT: &str = "abcgimpqrstuvwzEFPRn:S:G:L:U:M?C?B?D#";
const LOG_LONG: &str = "oneline pretty? format= abbrev? no-abbrev abbrev-commit no-abbrev-commit decorate? no-decorate \
 decorate-refs= decorate-refs-exclude= graph no-graph all branches? tags? remotes? max-count= \
 skip= since= after= until= before= author= committer= grep= all-match invert-grep \
 regexp-ignore-case extended-regexp fixed-strings perl-regexp merges no-merges first-parent \
 follow reverse date= relative-date date-order topo-order author-date-order patch no-patch stat? \
 numstat shortstat compact-summary summary name-only name-status raw unified= patch-with-stat \
 patch-with-raw cached staged merge-base minimal patience histogram diff-algorithm= anchored= \
 indent-heuristic dirstat? color? no-color color-words? word-diff? word-diff-regex= color-moved? \
 no-color-moved diff-filter= find-renames? find-copies? find-copies-harder no-renames \
 ignore-space-at-eol ignore-space-change ignore-all-space ignore-blank-lines ignore-cr-at-eol \
 inter-hunk-context= function-context exit-code quiet check full-index binary no-ext-diff \
 no-textconv text pickaxe-regex pickaxe-all relative? no-relative src-prefix= dst-prefix= \
 no-prefix line-prefix= left-right cherry-pick cherry-mark cherry boundary simplify-by-decoration \
 full-history dense sparse ancestry-path walk-reflogs notes? no-notes source children parents \
 left-only right-only show-pulls diff-merges= cc ignore-submodules? no-walk? encoding= \
 expand-tabs? log-size count objects name-only mailmap use-mailmap";

/// Returns what a git command with a listed subcommand and listed options reads, the repository included; `git version`
/// reads nothing. Every other command is refused, and so is one with other options before its subcommand.
pub(super) fn git(args: &[Arg]) -> Listed {
    let mut index = 1;
    while matches!(args.get(index).and_then(Arg::fixed), Some("--no-pager" | "-P" | "--no-optional-locks")) {
        index += 1;
    }
    let command = args.get(index).and_then(Arg::fixed).ok_or(NotListed)?;
    let words = &args[index + 1..];
    if matches!(command, "--version" | "version") && words.is_empty() {
        return Ok(Vec::new());
    }
    let mut touches = subcommand(command, words)?;
    touches.push(Touch::path(".", TouchAccess::Repository));
    Ok(touches)
}

/// Returns what a listed subcommand reads; every other one is refused. [`git`] adds the repository itself, whose
/// configuration must be checked.
fn subcommand(command: &str, words: &[Arg]) -> Listed {
    match command {
        "status" => status(words),
        "log" | "show" | "diff" | "whatchanged" | "rev-list" => shown(words),
        "reflog" => reflog(words),
        "branch" => branch(words),
        "tag" => tag(words),
        "remote" => remote(words),
        "stash" => stash(words),
        "rev-parse" => rev_parse(words),
        "ls-files" => ls_files(words),
        "ls-tree" => ls_tree(words),
        "blame" => blame(words),
        "config" => config(words),
        "grep" => grep(words),
        "describe" => describe(words),
        "merge-base" => merge_base(words),
        "shortlog" => shortlog(words),
        _ => Err(NotListed),
    }
}

/// Takes options and operands apart, in the notation of [`super::options`]. Patterns must not start with a wildcard,
/// because a matching file could be named like an option; what is not listed is refused.
fn options<'a>(short: &str, long: &str, words: &'a [Arg]) -> Result<Taken<'a>, NotListed> {
    take(short, long, Globs::Anchored, words)
}

/// Returns a read of each operand, which may be a revision, a path or `REVISION:PATH`, of which the path is kept. An
/// operand that leads out of the tree, or whose value is not fixed, is kept whole.
fn revisions_or_paths(taken: &Taken<'_>) -> Vec<Touch> {
    let mut touches = Vec::new();
    for arg in &taken.operands {
        let text = arg.text();
        let leads_elsewhere = text.starts_with(['/', '~']) || text.split('/').any(|segment| segment == "..");
        if leads_elsewhere || arg.fixed().is_none() {
            touches.push(Touch::read(arg));
        } else {
            // `HEAD:path` and a plain path: for rules about files.
            let path = text.split_once(':').map_or(text, |(_, path)| path);
            touches.push(Touch::path(path, TouchAccess::Read));
        }
    }
    touches
}

/// Refuses options with a format that contains `%G`, for which git runs gpg to check signatures.
fn inert_formats(taken: &Taken<'_>) -> Result<(), NotListed> {
    let runs_gpg = taken.values(&["format", "pretty"]).any(|format| format.contains("%G"));
    if runs_gpg { Err(NotListed) } else { Ok(()) }
}

/// Accepts `log`, `show`, `diff` and the other subcommands that share their options. Returns the paths that the call
/// may read, as all functions for subcommands do, and refuses every form that is not listed.
fn shown(words: &[Arg]) -> Listed {
    let taken = options(LOG_SHORT, LOG_LONG, words)?;
    inert_formats(&taken)?;
    Ok(revisions_or_paths(&taken))
}

/// Accepts `git status` with listed options and paths, which it reads.
fn status(words: &[Arg]) -> Listed {
    let long = "short branch porcelain? untracked-files? ignored? long ahead-behind no-ahead-behind renames \
     no-renames find-renames? show-stash column? no-column ignore-submodules? null verbose";
    Ok(revisions_or_paths(&options("sbvzu?", long, words)?))
}

/// Accepts `git reflog` where it only lists: `expire`, `delete`, `drop` and `write` change the reflog, and an operand
/// that is not fixed could be one of them. Reads no file.
fn reflog(words: &[Arg]) -> Listed {
    let taken = options(LOG_SHORT, LOG_LONG, words)?;
    inert_formats(&taken)?;
    let acts = |arg: &&Arg| matches!(arg.fixed(), Some("expire" | "delete" | "drop" | "write") | None);
    if taken.operands.iter().any(acts) { Err(NotListed) } else { Ok(Vec::new()) }
}

/// Accepts `git branch` where it lists branches. An operand without a listing option would create a branch, and is
/// refused.
fn branch(words: &[Arg]) -> Listed {
    let long = "all remotes list show-current verbose contains= no-contains= merged? no-merged? sort= \
     format= points-at= column? no-column color? no-color abbrev= no-abbrev ignore-case";
    listed(&options("arvqil", long, words)?, &["l", "list", "merged", "no-merged"])
}

/// Accepts `git tag` where it lists tags. An operand without a listing option would create a tag, and is refused.
fn tag(words: &[Arg]) -> Listed {
    let long = "list sort= contains= no-contains= merged? no-merged? points-at= format= column? no-column \
     color? ignore-case";
    listed(&options("ln?i", long, words)?, &["l", "list"])
}

/// Accepts fixed operands, and only with one of the `listing` options: without it git would create what they name.
/// Reads no file.
fn listed(taken: &Taken<'_>, listing: &[&str]) -> Listed {
    inert_formats(taken)?;
    let fixed = taken.operands.iter().all(|arg| arg.fixed().is_some());
    if fixed && (taken.operands.is_empty() || taken.has(listing)) { Ok(Vec::new()) } else { Err(NotListed) }
}

/// Accepts operands that are names in the history and never files, so nothing is touched. The value of each must be
/// known.
fn fixed_operands(taken: &Taken<'_>) -> Listed {
    if taken.operands.iter().all(|arg| arg.fixed().is_some()) { Ok(Vec::new()) } else { Err(NotListed) }
}

/// Accepts `git remote` where it lists, and `get-url`; every other form changes the configuration or uses the network.
fn remote(words: &[Arg]) -> Listed {
    match words {
        [] => Ok(Vec::new()),
        [only] if matches!(only.fixed(), Some("-v" | "--verbose")) => Ok(Vec::new()),
        [get, name]
            if get.fixed() == Some("get-url") && name.fixed().is_some_and(|n| !n.starts_with('-')) =>
        {
            Ok(Vec::new())
        }
        _ => Err(NotListed),
    }
}

/// Accepts `git stash list` and `git stash show`; a bare `git stash` changes the work tree.
fn stash(words: &[Arg]) -> Listed {
    match words.first().and_then(Arg::fixed) {
        Some("list" | "show") => shown(&words[1..]),
        _ => Err(NotListed),
    }
}

/// Accepts `git rev-parse` with listed options, which ask about revisions and about the repository, and fixed operands.
/// Reads no file.
fn rev_parse(words: &[Arg]) -> Listed {
    let long = "show-toplevel abbrev-ref? short? verify quiet git-dir git-common-dir absolute-git-dir \
     is-inside-work-tree is-inside-git-dir is-bare-repository is-shallow-repository show-prefix \
     show-cdup symbolic-full-name symbolic all branches? tags? remotes? \
     show-superproject-working-tree revs-only no-revs flags no-flags show-object-format? \
     path-format= default=";
    fixed_operands(&options("q", long, words)?)
}

/// Accepts `git ls-files` with listed options and paths, which it reads.
fn ls_files(words: &[Arg]) -> Listed {
    let long = "cached deleted modified others ignored stage unmerged killed directory no-empty-directory \
     exclude-standard exclude= error-unmatch full-name abbrev? deduplicate eol sparse format=";
    Ok(revisions_or_paths(&options("cdmoisuktvzx:", long, words)?))
}

/// Accepts `git ls-tree` with listed options, revisions and paths, which it reads.
fn ls_tree(words: &[Arg]) -> Listed {
    let long = "name-only name-status object-only long full-name full-tree abbrev? format=";
    Ok(revisions_or_paths(&options("drtlz", long, words)?))
}

/// Accepts `git blame` with listed options, revisions and paths, which it reads.
fn blame(words: &[Arg]) -> Listed {
    let long = "root show-stats since= date= porcelain line-porcelain incremental show-name show-number \
     show-email abbrev= reverse first-parent score-debug color-lines color-by-age";
    Ok(revisions_or_paths(&options("bctlfnsewpL:M?C?", long, words)?))
}

/// Accepts `git config` where it reads single keys. A list of all keys would also show credentials from the user's own
/// configuration, and is refused.
fn config(words: &[Arg]) -> Listed {
    let long = "get get-all local show-origin show-scope name-only null type= bool int path default=";
    let taken = options("z", long, words)?;
    let fixed = taken.operands.iter().all(|arg| arg.fixed().is_some());
    let first = taken.operands.first().and_then(|arg| arg.fixed());
    let reads = taken.has(&["get", "get-all"])
        || (taken.operands.len() == 1 && first.is_some_and(|key| key.contains('.')))
        || (taken.operands.len() == 2 && first == Some("get"));
    if fixed && reads { Ok(Vec::new()) } else { Err(NotListed) }
}

/// Accepts `git grep` without `-O`, which opens a pager, and `-f`. The first operand is the pattern unless `-e` gives
/// one; the others are revisions or paths, which it reads.
fn grep(words: &[Arg]) -> Listed {
    let long = "cached untracked text ignore-case word-regexp invert-match full-name extended-regexp \
     basic-regexp perl-regexp fixed-strings line-number column files-with-matches name-only \
     files-without-match null only-matching count color? no-color break heading show-function \
     function-context after-context= before-context= context= max-count= threads= and or not \
     all-match quiet max-depth= recursive no-recursive";
    let taken = options("aIiwvhHEGPFnlLzocpWqre:A:B:C:m:#", long, words)?;
    let pattern = usize::from(!taken.has(&["e"]));
    if taken.operands.iter().take(pattern).any(|arg| arg.fixed().is_none()) || taken.operands.len() < pattern
    {
        return Err(NotListed);
    }
    let rest = Taken { operands: taken.operands[pattern..].to_vec(), ..Taken::default() };
    Ok(revisions_or_paths(&rest))
}

/// Accepts `git describe` with listed options and fixed names in the history. Reads no file.
fn describe(words: &[Arg]) -> Listed {
    let long = "all tags contains abbrev= candidates= exact-match long match= exclude= always first-parent \
     dirty? broken?";
    fixed_operands(&options("", long, words)?)
}

/// Accepts `git merge-base` with listed options and fixed names in the history. Reads no file.
fn merge_base(words: &[Arg]) -> Listed {
    fixed_operands(&options("a", "all octopus independent is-ancestor fork-point", words)?)
}

/// Accepts `git shortlog` with listed options, revisions and paths, which it reads.
fn shortlog(words: &[Arg]) -> Listed {
    let long = "numbered summary email group= all no-merges since= until= author= format=";
    let taken = options("nsec", long, words)?;
    inert_formats(&taken)?;
    Ok(revisions_or_paths(&taken))
}

/// Returns the first option that can make any git call run a program, whatever a rule says about the rest; `None` if
/// there is none. Before the subcommand, `-c` and a word whose value is not known count too.
pub(crate) fn executing_option(args: &[Arg]) -> Option<&str> {
    const ANYWHERE: [&str; 12] = [
        "--upload-pack",
        "--receive-pack",
        "--exec",
        "--exec-path",
        "--config-env",
        "--ext-diff",
        "--textconv",
        "--open-files-in-pager",
        "--extcmd",
        "--tool",
        "--gpg-program",
        "--config",
    ];
    const WITH_VALUE: [&str; 5] = ["-C", "--git-dir", "--work-tree", "--namespace", "--attr-source"];
    let mut before_command = true;
    let mut words = args.iter().skip(1);
    while let Some(arg) = words.next() {
        let text = arg.text();
        let name = text.split('=').next().unwrap_or(text);
        if ANYWHERE.contains(&name) || (before_command && (text.starts_with("-c") || arg.fixed().is_none())) {
            return Some(text);
        }
        if before_command && WITH_VALUE.contains(&text) {
            words.next();
        } else {
            before_command &= text.starts_with('-');
        }
    }
    None
}
