//! Paths as they are written, and as the kernel would follow them.
//!
//! Besides [`crate::repository`], the only module of this crate that reads the file system. Links are followed one by
//! one with a bound, because a path that does not exist yet needs a result too, and a failure must be told apart from a
//! path that is only new. A path that cannot be followed is never inside a directory.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

/// The most links that are followed, as in the kernel.
const MAX_LINKS: u32 = 40;

/// The most directory entries that are read to see what a pattern permits.
pub(crate) const FEW_ENTRIES: usize = 2000;

/// The most directory entries that are read to see whether a pattern covers something forbidden.
pub(crate) const MANY_ENTRIES: usize = 50_000;

/// A directory the session may work in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkingDir {
    pub written: PathBuf,
    pub real: PathBuf,
}

impl WorkingDir {
    /// Creates a working directory from an absolute path, and resolves its links once, now. If that fails, the written
    /// path also serves as the real one.
    pub(crate) fn new(path: &Path) -> Self {
        let written = normal(path);
        let real = follow(&written, &written).map_or_else(|_| written.clone(), |followed| followed.path);
        Self { written, real }
    }
}

/// Why a path cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Lost {
    #[error("it contains a NUL byte")]
    Nul,
    #[error("its links lead in a circle")]
    Circle,
    #[error("it cannot be followed")]
    Unreadable,
    #[error("it names an open file of a process")]
    OpenFile,
}

/// A path and where it leads.
#[derive(Debug, Clone)]
pub(crate) struct Located {
    /// Absolute, with `.` and `..` resolved as text.
    pub written: PathBuf,
    /// The path with links resolved.
    pub real: Result<PathBuf, Lost>,
    /// The path goes through `/proc`, where a name means something else to every process.
    magic: bool,
}

/// The kind of file at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Missing,
    File {
        hard_links: u64,
    },
    Directory,
    /// A pipe, a socket or a device.
    Special,
}

impl Located {
    /// Locates a path as it was written, relative to `cwd`, with its links resolved as they are now. Why a path cannot
    /// be followed is kept in `real`.
    pub(crate) fn new(path: &str, cwd: &Path) -> Self {
        let mut located = Self::of(&cwd.join(path), cwd);
        if path.contains('\0') {
            located.real = Err(Lost::Nul);
        }
        located
    }

    /// Locates a path that is absolute already, with its links resolved as they are now. `cwd` is needed for
    /// `/proc/self/cwd`; why a path cannot be followed is kept in `real`.
    pub(crate) fn of(path: &Path, cwd: &Path) -> Self {
        let written = normal(path);
        match follow(path, cwd) {
            Ok(followed) => Self { written, real: Ok(followed.path), magic: followed.magic },
            Err(lost) => Self { written, real: Err(lost), magic: true },
        }
    }

    /// Returns the first of `dirs` that the resolved path is or lies in. `None` if there is none, and always for a path
    /// that cannot be followed or goes through `/proc`.
    pub(crate) fn inside<'d>(&self, dirs: &'d [WorkingDir]) -> Option<&'d WorkingDir> {
        let real = self.real.as_ref().ok().filter(|_| !self.magic)?;
        dirs.iter().find(|dir| real.starts_with(&dir.real))
    }

    /// Returns the path that the tool must open without following a link: the resolved one, or the written one if
    /// it cannot be resolved.
    pub(crate) fn place(&self) -> &Path {
        self.real.as_deref().unwrap_or(&self.written)
    }

    /// Returns every form of the path that a rule may be written for: as written and, if it differs, with links
    /// resolved. A forbidding rule has to match one of them, an allow rule all.
    pub(crate) fn forms(&self) -> impl Iterator<Item = &Path> {
        let real = self.real.as_deref().ok().filter(|real| *real != self.written);
        std::iter::once(self.written.as_path()).chain(real)
    }

    /// Returns the resolved path if links led elsewhere than the written one; `None` if they did not, or if the path
    /// cannot be resolved.
    pub(crate) fn through_link(&self) -> Option<&Path> {
        self.real.as_deref().ok().filter(|real| *real != self.written)
    }

    /// Returns the kind of file at the resolved path. A path that cannot be resolved or examined counts as missing.
    pub(crate) fn kind(&self) -> Kind {
        let Ok(real) = &self.real else { return Kind::Missing };
        let Ok(metadata) = std::fs::symlink_metadata(real) else { return Kind::Missing };
        let file_type = metadata.file_type();
        if file_type.is_dir() {
            Kind::Directory
        } else if file_type.is_file() {
            Kind::File { hard_links: metadata.nlink() }
        } else if file_type.is_fifo()
            || file_type.is_socket()
            || file_type.is_char_device()
            || file_type.is_block_device()
        {
            Kind::Special
        } else {
            Kind::Missing
        }
    }

    /// Returns whether the path, as written or resolved, is below `/proc` and holds secrets of a process: its
    /// environment or its memory.
    pub(crate) fn is_process_secret(&self) -> bool {
        self.forms().any(|path| {
            let mut names = path.components().filter_map(|component| match component {
                Component::Normal(name) => name.to_str(),
                _ => None,
            });
            names.next() == Some("proc")
                && matches!(path.file_name().and_then(|name| name.to_str()), Some("environ" | "mem"))
        })
    }
}

/// Returns an absolute path without `.` and `..`, resolved as text without looking at the disk. Wrong across links, so
/// only for paths whose links are resolved elsewhere.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut result = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => result.push(name),
            Component::ParentDir => {
                result.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    result
}

struct Followed {
    path: PathBuf,
    magic: bool,
}

/// Returns the names of a path, `..` included because [`follow`] resolves it after links. `.` and the root are left
/// out.
fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + '_ {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// Follows a path link by link, as the kernel would. Names after the first missing one are kept as text, so a file that
/// does not exist yet has a real path too. Fails for a circle of links, for an open file of a process and where the
/// disk cannot be read.
fn follow(path: &Path, cwd: &Path) -> Result<Followed, Lost> {
    let mut rest: VecDeque<OsString> = parts(path).collect();
    let mut at = PathBuf::from("/");
    let (mut links, mut magic, mut missing) = (0, false, false);
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            at.pop();
            missing = false;
            continue;
        }
        if at.starts_with("/proc") && is_process(&at) {
            magic = true;
            match name.to_str() {
                Some("root") => {
                    at = PathBuf::from("/");
                    continue;
                }
                Some("cwd") => {
                    at = PathBuf::from("/");
                    let mut again: VecDeque<OsString> = parts(cwd).collect();
                    again.append(&mut rest);
                    rest = again;
                    continue;
                }
                Some("fd" | "exe" | "map_files") => return Err(Lost::OpenFile),
                _ => {}
            }
        }
        at.push(&name);
        if missing {
            continue;
        }
        match std::fs::read_link(&at) {
            Ok(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Lost::Circle);
                }
                at.pop();
                // `/proc/self` links to the id of the process that reads it, so its name is kept.
                if at == Path::new("/proc") {
                    at.push(&name);
                    continue;
                }
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                for part in parts(&target).rev() {
                    rest.push_front(part);
                }
            }
            Err(error) => match error.kind() {
                // Not a link.
                ErrorKind::InvalidInput => {}
                ErrorKind::NotFound | ErrorKind::NotADirectory => missing = true,
                _ => return Err(Lost::Unreadable),
            },
        }
    }
    Ok(Followed { path: at, magic })
}

/// Returns whether a directory below `/proc` belongs to a process or thread. `/proc` itself does not.
fn is_process(directory: &Path) -> bool {
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or("");
    directory != Path::new("/proc")
        && (matches!(name, "self" | "thread-self") || name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// More files match, or may match, than are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany;

/// Returns the paths that a shell glob pattern may stand for, as far as the directories can be read; rather too many
/// than too few, and names without a wildcard are not looked up. A segment that starts with a wildcard matches no
/// hidden file, as in bash; if nothing matches, the list is empty, where bash would keep the pattern. Fails if more
/// than `most` entries would be read, over all directories.
pub(crate) fn expand(pattern: &str, cwd: &Path, most: usize) -> Result<Vec<PathBuf>, TooMany> {
    let mut found = vec![if pattern.starts_with('/') { PathBuf::from("/") } else { cwd.to_owned() }];
    let mut left = most;
    for segment in pattern.split('/').filter(|segment| !segment.is_empty()) {
        if !segment.contains(['*', '?', '[']) {
            let name = unescaped(segment);
            found.iter_mut().for_each(|path| path.push(&name));
            continue;
        }
        let generous = match segment.split_once('[') {
            Some((before, _)) => format!("{before}*"),
            None => segment.to_owned(),
        };
        let mut next = Vec::new();
        for directory in &found {
            matching(directory, &generous, segment.contains("**"), &mut next, &mut left)?;
        }
        if segment == "**" {
            next.extend(found);
        }
        found = next;
    }
    Ok(found)
}

/// Adds to `found` the entries of a directory that match a segment; with `deep` also those below matching directories.
/// An unreadable directory matches nothing. `left` counts down over all directories of one expansion, and fails at
/// zero.
fn matching(
    directory: &Path,
    segment: &str,
    deep: bool,
    found: &mut Vec<PathBuf>,
    left: &mut usize,
) -> Result<(), TooMany> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Ok(()) };
    for entry in entries.flatten() {
        *left = left.checked_sub(1).ok_or(TooMany)?;
        let name = entry.file_name();
        let shown = name.to_string_lossy();
        let hidden = shown.starts_with('.') && !segment.starts_with('.');
        if hidden || !crate::glob::matches(segment, &shown) {
            continue;
        }
        let path = directory.join(&name);
        if deep && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            matching(&path, segment, deep, found, left)?;
        }
        found.push(path);
    }
    Ok(())
}

/// Returns a segment of a pattern without the backslashes that mark quoted characters.
fn unescaped(segment: &str) -> String {
    let mut result = String::new();
    let mut chars = segment.chars();
    while let Some(c) = chars.next() {
        result.push(if c == '\\' { chars.next().unwrap_or('\\') } else { c });
    }
    result
}

#[cfg(test)]
mod tests;
