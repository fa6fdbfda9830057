//! Checks whether a read-only git command could run another program.
//!
//! Git runs what the configuration of a repository tells it to: `core.fsmonitor` on `git status`, a textconv on `git
//! diff`. So a git command counts as read-only only where the configuration holds nothing but keys that are known to
//! name no program. Besides [`crate::paths`], the only module of this crate that reads the disk. It reads configuration
//! only, with a bound, and only when a git command would otherwise be allowed.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A configuration larger than this is not read.
const MAX_CONFIG: u64 = 64 * 1024;

/// The hook that runs when git writes its index, which even a read-only command may do.
const INDEX_HOOK: &str = "post-index-change";

/// The most submodules that are checked.
const MAX_MODULES: usize = 64;

/// Keys by section that name no program and no file to read, or that only matter to commands that change
/// something. Subsections (`remote "origin"`) are left out of the comparison.
const HARMLESS: &[(&str, &str)] = &[
    (
        "core",
        "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf \
      eol safecrlf abbrev quotepath compression commentchar longpaths protectntfs protecthfs sharedrepository \
      untrackedcache preloadindex fscache splitindex sparsecheckout sparsecheckoutcone checkstat trustctime \
      bigfilethreshold deltabasecachelimit editor sshcommand",
    ),
    (
        "remote",
        "url fetch push pushurl tagopt prune prunetags mirror skipdefaultupdate skipfetchall gh-resolved",
    ),
    (
        "branch",
        "remote merge rebase description pushremote mergeoptions autosetupmerge autosetuprebase sort \
      vscode-merge-base gh-merge-base gh-pr-base-branch",
    ),
    ("user", "name email signingkey useconfigonly"),
    ("author", "name email"),
    ("committer", "name email"),
    ("init", "defaultbranch"),
    ("pull", "rebase ff"),
    ("push", "default autosetupremote followtags"),
    ("fetch", "prune prunetags all parallel"),
    ("merge", "ff conflictstyle renames log"),
    ("rebase", "autosquash autostash updaterefs"),
    ("submodule", "url active path branch recurse update ignore fetchjobs"),
    ("extensions", "objectformat refstorage noop"),
    ("color", "ui status branch diff interactive"),
    ("gc", "auto autodetach pruneexpire reflogexpire"),
    ("advice", "*"),
    ("alias", "*"),
    ("status", "short branch showuntrackedfiles renames relativepaths showstash aheadbehind"),
    ("log", "date decorate abbrevcommit follow"),
    ("diff", "algorithm renames colormoved mnemonicprefix noprefix context indentheuristic wordregex"),
    ("commit", "gpgsign verbose"),
    ("tag", "sort gpgsign"),
    ("index", "version threads"),
    ("pack", "threads windowmemory"),
    ("rerere", "enabled autoupdate"),
    ("feature", "manyfiles experimental"),
    ("i18n", "commitencoding logoutputencoding"),
    ("credential", "*"),
    ("http", "postbuffer version sslverify"),
    ("url", "insteadof pushinsteadof"),
    ("column", "ui status branch tag"),
    ("maintenance", "auto strategy"),
    ("lfs", "repositoryformatversion url pushurl locksverify access"),
];

/// Returns whether a read-only git command in `cwd` runs git and nothing else. `true` outside a repository; `false` if
/// configuration or hooks could start a program or cannot be understood, and in a bare repository.
pub(crate) fn is_inert(cwd: &Path) -> bool {
    for directory in cwd.ancestors() {
        let git = directory.join(".git");
        match fs::metadata(&git) {
            Ok(metadata) if metadata.is_dir() => return git_dir_is_inert(&git, directory),
            Ok(_) => return linked_dir(&git, directory).is_some_and(|git| git_dir_is_inert(&git, directory)),
            // A dangling link, or a directory that cannot be read.
            Err(_) if fs::symlink_metadata(&git).is_ok() => return false,
            Err(_) => {}
        }
        if looks_bare(directory) {
            return false;
        }
    }
    true
}

/// Returns whether git would take a directory for a bare repository, and use its configuration: it contains `HEAD`,
/// `objects` and `refs`.
fn looks_bare(directory: &Path) -> bool {
    directory.join("HEAD").exists() && directory.join("objects").exists() && directory.join("refs").exists()
}

/// Returns the directory that a `.git` file names, relative to `directory`; `None` if the file cannot be read or names
/// none.
fn linked_dir(file: &Path, directory: &Path) -> Option<PathBuf> {
    let text = read(file)?;
    let target = text.strip_prefix("gitdir:")?.trim();
    Some(directory.join(target))
}

/// Returns whether everything is inert that git reads from one repository: the shared and the worktree configuration,
/// the index hook, and the submodules. `root` is its work tree.
fn git_dir_is_inert(git: &Path, root: &Path) -> bool {
    let common = match read(&git.join("commondir")) {
        Some(text) => git.join(text.trim()),
        None => git.to_owned(),
    };
    let hooked = [common.as_path(), git].iter().any(|dir| dir.join("hooks").join(INDEX_HOOK).exists());
    !hooked
        && config_is_inert(&common.join("config"), Worktree::At(root))
        && config_is_inert(&git.join("config.worktree"), Worktree::At(root))
        && modules_are_inert(&common.join("modules"), 0, &mut 0)
}

/// Returns whether all submodules below a directory are inert too: each has a configuration of its own, which `git
/// status` reads. `true` if the directory cannot be read, `false` if there are too many entries or folders lie too
/// deep. `seen` counts the entries over the whole search, whether they are submodules or not.
fn modules_are_inert(directory: &Path, depth: u32, seen: &mut usize) -> bool {
    let Ok(entries) = fs::read_dir(directory) else { return true };
    for entry in entries.flatten() {
        let path = entry.path();
        *seen += 1;
        if *seen > MAX_MODULES || depth > 6 {
            return false;
        }
        if path.join("HEAD").exists() {
            let hooked = path.join("hooks").join(INDEX_HOOK).exists();
            let inert = config_is_inert(&path.join("config"), Worktree::Elsewhere);
            if hooked || !inert || !modules_are_inert(&path.join("modules"), depth + 1, seen) {
                return false;
            }
        } else if path.is_dir() && !modules_are_inert(&path, depth + 1, seen) {
            return false;
        }
    }
    true
}

/// Where the work tree of a configuration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worktree<'a> {
    /// At this path.
    At(&'a Path),
    /// Where the configuration says, as in a submodule.
    Elsewhere,
}

/// Reads at most the first [`MAX_CONFIG`] bytes of a file, without saying whether there are more; `None` if it cannot
/// be read or is not UTF-8.
fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    fs::File::open(path).ok()?.take(MAX_CONFIG).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns whether a configuration file names no program. A missing file is inert; a dangling link, an overlong file
/// and anything but a file are not.
fn config_is_inert(path: &Path, worktree: Worktree<'_>) -> bool {
    match fs::metadata(path) {
        Err(_) => fs::symlink_metadata(path).is_err(),
        Ok(metadata) if metadata.len() >= MAX_CONFIG || !metadata.is_file() => false,
        Ok(_) => read(path).is_some_and(|text| text_is_inert(&text, worktree)),
    }
}

/// Returns whether a folder of hooks, relative to the root of the work tree, has none that a read-only command would
/// run. An empty path and one with unusual characters count as not quiet; a folder that does not exist is quiet.
fn hooks_are_quiet(root: &Path, value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    !value.is_empty() && value.chars().all(plain) && !root.join(value).join(INDEX_HOOK).exists()
}

/// Returns whether every key of a configuration is on the list of harmless ones. A line that is not understood, a
/// continued line included, counts as not inert.
fn text_is_inert(text: &str, worktree: Worktree<'_>) -> bool {
    let mut section = String::new();
    for line in text.trim_start_matches('\u{feff}').lines() {
        let mut line = line.trim();
        if line.ends_with('\\') {
            return false;
        }
        if line.starts_with('[') {
            let Some((header, rest)) = section_header(line) else { return false };
            section = header;
            line = rest.trim();
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        let harmless = match (section.as_str(), key.as_str()) {
            ("core", "worktree") => worktree == Worktree::Elsewhere,
            // Any other value names a program.
            ("core", "fsmonitor") => matches!(value.to_ascii_lowercase().as_str(), "true" | "false"),
            ("core", "hookspath") => match worktree {
                Worktree::At(root) => hooks_are_quiet(root, value),
                Worktree::Elsewhere => false,
            },
            (section, key) => is_harmless(section, key),
        };
        if !harmless {
            return false;
        }
    }
    true
}

/// Returns the lower-case name of a section without its subsection, and the text after the header; `None` if the line
/// is not a complete header.
fn section_header(line: &str) -> Option<(String, &str)> {
    let inner = line.strip_prefix('[')?;
    let name_end = inner.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '.'))?;
    let name = &inner[..name_end];
    let mut rest = inner[name_end..].trim_start();
    if let Some(quoted) = rest.strip_prefix('"') {
        let mut escaped = false;
        let end = quoted.char_indices().find_map(|(at, c)| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends.then_some(at)
        })?;
        rest = &quoted[end + 1..];
    }
    let rest = rest.strip_prefix(']')?;
    let section = name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    Some((section, rest))
}

/// Returns whether a key is on the list of keys that cannot make git run a program. Both names must be in lower case.
fn is_harmless(section: &str, key: &str) -> bool {
    HARMLESS.iter().any(|(name, keys)| {
        *name == section && (*keys == "*" || keys.split_ascii_whitespace().any(|harmless| harmless == key))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inert(text: &str) -> bool {
        text_is_inert(text, Worktree::At(Path::new("/nowhere")))
    }

    #[test]
    fn ordinary_configurations_are_inert() {
        assert!(inert("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"));
        assert!(inert(
            "[remote \"origin\"]\n url = git@host:x.git\n fetch = +refs/heads/*:refs/remotes/origin/*\n"
        ));
        assert!(inert("# note\n; note\n[branch \"a]b\"]\nremote = origin\n"));
        assert!(inert("[alias]\n x = !touch y\n"));
        assert!(inert("[core]\n\thooksPath = .husky/_\n\tfsmonitor = true\n"));
        assert!(inert(""));
    }

    #[test]
    fn whatever_may_name_a_program_is_not() {
        for text in [
            "[core]\nfsmonitor = touch x",
            "[core] fsmonitor = touch x",
            "[CORE]\n\tFSMonitor=touch x",
            "[diff \"x\"]\ntextconv = touch x",
            "[diff]\nexternal = x",
            "[filter \"lfs\"]\nclean = x",
            "[include]\npath = ../evil",
            "[core]\nhooksPath = \"x y\"",
            "[core]\nfsmonitor",
            "[core]\nfsmonitor =",
            "[core]\npager = x",
            "[extensions]\npartialClone = origin",
            "[remote \"o\"]\nuploadpack = x",
            "[log]\nshowSignature = true",
            "[core]\nbare = fal\\\nse",
            "[unknown]\nkey = 1",
            "[core\nfsmonitor = x",
            "[core]\nworktree = /etc",
            "\u{feff}[core]\nfsmonitor = x",
            "[branch \"a\\\"]\n[core]\nfsmonitor=x",
        ] {
            assert!(!inert(text), "{text}");
        }
    }
}
