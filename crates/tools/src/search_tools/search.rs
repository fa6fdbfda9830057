//! What Glob and Grep share: the starting place, the parallel walk, and keeping the best few results.
//!
//! Never entered: directories of version control, and the kernel's own (`/proc`, `/sys`, `/dev`) unless the search
//! starts there. Symlinks are not followed, so a walk cannot loop. A walk starts at the real path that was decided on.
//! The walker may still list a directory that becomes a link while it runs, so whatever is shown or read of a file goes
//! through [`crate::files::real`], which follows no link.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ignore::{DirEntry, WalkBuilder};
use lathe_protocol::{CallSubject, FileAccess};
use serde_json::Value;

use crate::files::open::names_special;
use crate::files::real;
use crate::{PathFilter, ToolContext, ToolFailure};

/// The most threads of one walk; more do not help a disk.
const MAX_THREADS: usize = 12;

const VCS_DIRS: [&str; 6] = [".git", ".svn", ".hg", ".bzr", ".jj", ".sl"];

const KERNEL_DIRS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Where a search starts, and how its results are named.
#[derive(Clone)]
pub(crate) struct Place {
    /// Where it starts: a real path.
    pub root: PathBuf,
    /// The same path as the caller wrote it.
    written: PathBuf,
    cwd: PathBuf,
    closed: Option<PathFilter>,
}

/// What a search may start at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartAt<'a> {
    /// A directory, or one below it: the fixed directories of a pattern, which were part of the decision.
    Directory {
        below: Option<&'a Path>,
    },
    FileOrDirectory,
}

/// Returns the subject of a search: everything below its `path`, or below the current directory of the shell. A path
/// that is not a string makes the subject unknown.
pub(crate) fn subject(input: &Value, name_pattern: Option<&str>) -> CallSubject {
    let path = match &input["path"] {
        Value::Null => "",
        Value::String(path) => path,
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            return CallSubject::Unknown;
        }
    };
    let name_pattern = name_pattern.map(str::to_owned);
    CallSubject::File { path: path.to_owned(), access: FileAccess::Search { name_pattern } }
}

impl Place {
    /// Returns the place that the input names, or the current directory of the shell. If a decision about the call has
    /// fixed the real place, that is searched. Rejects a place that does not exist, is of the wrong kind, or belongs to
    /// the kernel; the fixed directories of a pattern need not exist.
    pub fn of(path: Option<&str>, start: StartAt<'_>, context: &ToolContext) -> Result<Self, ToolFailure> {
        let cwd = context.workspace.cwd();
        let closed = context.closed_paths.clone();
        let path = path.unwrap_or_default();
        let mut written = context.workspace.resolve(path);
        let named = written.clone();
        if let StartAt::Directory { below: Some(below) } = start {
            written.push(below);
        }
        let root = match &context.place {
            Some(place) => place.clone(),
            None => real::follow(&written)
                .map_err(|error| ToolFailure::Rejected(error.in_words(Path::new(path))))?,
        };
        if names_special(&root) {
            return Err(ToolFailure::Rejected(format!(
                "Cannot search '{}': this path names a device or process file.",
                written.display()
            )));
        }
        check_start(path, &named, start, &cwd)?;
        Ok(Self { root, written, cwd, closed })
    }

    /// Returns a found path for the model: as the input wrote the root, and relative to the current directory of the
    /// shell if it is below that.
    pub fn name(&self, path: &Path) -> String {
        let written = match path.strip_prefix(&self.root) {
            Ok(below) if below.as_os_str().is_empty() => self.written.clone(),
            Ok(below) => self.written.join(below),
            Err(_) => path.to_owned(),
        };
        let shown = written.strip_prefix(&self.cwd).unwrap_or(&written);
        shown.to_string_lossy().into_owned()
    }
}

/// Checks that a search can start at `named`: it exists and is of the kind that `start` wants. Otherwise it returns a
/// rejection, which names the place by `path`, as the input wrote it.
fn check_start(path: &str, named: &Path, start: StartAt<'_>, cwd: &Path) -> Result<(), ToolFailure> {
    let missing = match start {
        StartAt::Directory { .. } => "Directory does not exist",
        StartAt::FileOrDirectory => "Path does not exist",
    };
    let metadata = std::fs::metadata(named).map_err(|error| {
        ToolFailure::Rejected(match error.kind() {
            std::io::ErrorKind::NotFound => {
                format!("{missing}: {path}. Note: your current working directory is {}.", cwd.display())
            }
            _ => format!("Cannot search {path}: {error}"),
        })
    })?;
    match start {
        StartAt::Directory { .. } if !metadata.is_dir() => {
            Err(ToolFailure::Rejected(format!("Path is not a directory: {path}")))
        }
        StartAt::FileOrDirectory if !metadata.is_dir() && !metadata.is_file() => {
            Err(ToolFailure::Rejected(format!("Path is not a file or directory: {path}")))
        }
        StartAt::Directory { .. } | StartAt::FileOrDirectory => Ok(()),
    }
}

/// Whether a walk includes directories of version control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vcs {
    Skip,
    Enter,
}

impl Vcs {
    /// Returns `Enter` for a pattern that names a directory of version control, such as `.git`; all others skip
    /// these directories.
    pub fn named_in(pattern: &str) -> Self {
        if pattern.split('/').any(|part| VCS_DIRS.contains(&part)) { Self::Enter } else { Self::Skip }
    }
}

impl Place {
    /// Returns a walk below the root that sees hidden files, respects ignore files and uses several threads. It enters
    /// no closed path, and directories of version control only with [`Vcs::Enter`].
    pub fn walk(&self, vcs: Vcs) -> WalkBuilder {
        let mut builder = WalkBuilder::new(&self.root);
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        let closed = self.closed.clone();
        builder
            .hidden(false)
            .follow_links(false)
            // The user's own ignore file is found through the environment, which libraries do not read.
            .git_global(false)
            .threads(threads)
            .filter_entry(move |entry| {
                is_entered(entry, vcs) && !closed.as_ref().is_some_and(|closed| closed(entry.path()))
            });
        builder
    }
}

/// Returns whether the walk visits an entry: not the directories of version control (unless wanted), and not those of
/// the kernel, whose files may block. The root is always visited, because the call names it.
fn is_entered(entry: &DirEntry, vcs: Vcs) -> bool {
    if entry.depth() == 0 {
        return true;
    }
    let name = entry.file_name();
    if vcs == Vcs::Skip && name.as_encoded_bytes().first() == Some(&b'.') {
        return !VCS_DIRS.iter().any(|dir| name == *dir);
    }
    entry.depth() > 1 || !KERNEL_DIRS.iter().any(|dir| entry.path() == Path::new(dir))
}

/// The `capacity` entries with the smallest keys, in order, and the number of all entries.
#[derive(Debug)]
pub(crate) struct Best<K, V> {
    entries: BTreeMap<K, V>,
    capacity: usize,
    pub total: u64,
}

impl<K: Ord, V> Best<K, V> {
    /// Returns an empty collection that keeps at most `capacity` entries.
    pub fn new(capacity: usize) -> Self {
        Self { entries: BTreeMap::new(), capacity, total: 0 }
    }

    /// Counts an entry, and keeps it if its key is among the smallest so far. A key must not be added twice: the later
    /// value would replace the first.
    pub fn add(&mut self, key: K, value: V) {
        self.total += 1;
        if self.entries.len() >= self.capacity {
            match self.entries.last_key_value() {
                Some((last, _)) if *last > key => drop(self.entries.pop_last()),
                Some(_) | None => return,
            }
        }
        self.entries.insert(key, value);
    }

    /// Returns the kept entries, smallest key first.
    pub fn into_entries(self) -> impl DoubleEndedIterator<Item = (K, V)> {
        self.entries.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_kept_in_order() {
        let mut best = Best::new(2);
        for key in [5, 1, 4, 2, 3] {
            best.add(key, ());
        }
        assert_eq!(best.total, 5);
        assert_eq!(best.into_entries().map(|(key, ())| key).collect::<Vec<_>>(), [1, 2]);
        let mut none = Best::new(0);
        none.add(1, ());
        assert_eq!((none.total, none.into_entries().count()), (1, 0));
    }
}
