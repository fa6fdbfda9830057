//! Opens files by their real path: one that goes through no symbolic link.
//!
//! The decision about a call is made for the place its path leads to, and that place is what gets opened. The kernel is
//! told to follow no link on the way (`openat2`), so a directory that is swapped for a link after the decision makes
//! the call fail instead of redirecting it. Surprising: `RESOLVE_BENEATH` is not used, because a path without any link
//! cannot leave what it names. The same holds for the walk, name by name, on kernels that do not have the call.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use super::FileError;

/// The most symlinks that are followed to resolve a path.
const MAX_LINKS: usize = 40;

/// What to do about missing directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parents {
    Create,
    MustExist,
}

/// Opens an absolute path without `..`, and fails with `LOOP` if any part of it is a link. Uses one system call if
/// there is one for it, otherwise opens name by name.
pub(crate) fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    match open_in_one(path, flags) {
        // Old kernels, and containers whose filter does not allow the call.
        Err(Errno::NOSYS | Errno::PERM) => walk(path, flags),
        result => result,
    }
}

/// Opens the path in one call that follows no link. `NOSYS` or `PERM` means that the call is not available, and the
/// caller walks instead.
#[cfg(target_os = "linux")]
fn open_in_one(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..8 {
        match rustix::fs::openat2(CWD, path, flags | OFlags::CLOEXEC, Mode::empty(), links) {
            // Another program renamed a directory meanwhile; try again.
            Err(Errno::AGAIN) => {}
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

/// Always fails with `NOSYS`: only Linux has the call, so the caller walks.
#[cfg(not(target_os = "linux"))]
fn open_in_one(_path: &Path, _flags: OFlags) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// Opens a path like [`open`], but one name at a time, each in the directory before it.
fn walk(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut names = names(path)?;
    let last = names.pop_back();
    let mut dir = rustix::fs::openat(CWD, "/", DIRECTORY, Mode::empty())?;
    for name in names {
        dir = step(dir.as_fd(), name, DIRECTORY)?;
    }
    match last {
        Some(name) => step(dir.as_fd(), name, flags | OFlags::CLOEXEC),
        None => rustix::fs::openat(CWD, "/", flags | OFlags::CLOEXEC, Mode::empty()),
    }
}

/// Opens one name in an open directory. A symbolic link is an error, also with flags that would open the link itself.
fn step(dir: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let opened = rustix::fs::openat(dir, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
    // With O_PATH a link is opened as itself.
    let stat = rustix::fs::fstat(&opened)?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Symlink {
        return Err(Errno::LOOP);
    }
    Ok(opened)
}

/// Returns the names that an absolute path consists of; `INVAL` if one of them is `..`.
fn names(path: &Path) -> Result<VecDeque<&OsStr>, Errno> {
    let mut names = VecDeque::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push_back(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(Errno::INVAL),
        }
    }
    Ok(names)
}

/// The flags to open a directory with for the `*at` calls.
#[cfg(target_os = "linux")]
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens the directory at a real path, and creates missing directories if `parents` says so. A link on the way is
/// [`FileError::Swapped`].
pub(crate) fn open_dir(path: &Path, parents: Parents) -> Result<OwnedFd, FileError> {
    let failed = |errno| error(errno, "open");
    match open(path, DIRECTORY) {
        Err(Errno::NOENT) if parents == Parents::Create => {}
        result => return result.map_err(failed),
    }
    let mut missing: Vec<&OsStr> = Vec::new();
    let mut above = path;
    let mut dir = loop {
        let (Some(parent), Some(name)) = (above.parent(), above.file_name()) else {
            return Err(FileError::Missing);
        };
        missing.push(name);
        above = parent;
        match open(above, DIRECTORY) {
            Ok(dir) => break dir,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
    };
    for name in missing.into_iter().rev() {
        match rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(error(errno, "mkdir")),
        }
        dir = step(dir.as_fd(), name, DIRECTORY).map_err(failed)?;
    }
    Ok(dir)
}

/// Maps an errno of a step that follows no links. A link is [`FileError::Swapped`]: it was put there after the
/// decision, because the path had none then.
pub(crate) fn error(errno: Errno, operation: &'static str) -> FileError {
    match errno {
        Errno::LOOP => FileError::Swapped,
        errno => FileError::from_errno(errno, operation),
    }
}

/// Returns where an absolute path leads now, with all links resolved; for a path that does not exist, where it would be
/// created. Only for callers without a decision about the path. Fails for links in `/proc` and for too many links.
pub(crate) fn follow(path: &Path) -> Result<PathBuf, FileError> {
    let parts = |path: &Path| -> VecDeque<OsString> {
        let names = path.components().filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        });
        names.collect()
    };
    let mut rest = parts(path);
    let mut at = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        at.push(&name);
        match std::fs::read_link(&at) {
            // The text of a link in `/proc` is not its real target.
            Ok(_) if at.starts_with("/proc") => return Err(FileError::Special),
            Ok(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(FileError::from_errno(Errno::LOOP, "open"));
                }
                at.pop();
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                let mut next = parts(&target);
                next.append(&mut rest);
                rest = next;
            }
            Err(error) => match Errno::from_io_error(&error) {
                // Not a link, or nothing there.
                Some(Errno::INVAL | Errno::NOENT | Errno::NOTDIR) => {}
                Some(errno) => return Err(FileError::from_errno(errno, "open")),
                // A NUL byte, which is rejected before the system call.
                None => return Err(FileError::from_errno(Errno::INVAL, "open")),
            },
        }
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "tests look at the real file system")]

    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder with `real/f`, `link` to `real` and `away` to `real/f`.
    fn folder() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/deep")).unwrap();
        fs::write(root.join("real/f"), "x").unwrap();
        symlink("real", root.join("link")).unwrap();
        symlink("real/f", root.join("away")).unwrap();
        (dir, root)
    }

    #[test]
    fn both_ways_of_opening_follow_no_link() {
        let (_dir, root) = folder();
        for way in [open_in_one, walk] {
            let try_to = |path: PathBuf| way(&path, OFlags::RDONLY).map(drop);
            assert_eq!(try_to(root.join("real/f")), Ok(()));
            assert_eq!(try_to(PathBuf::from("/")), Ok(()));
            assert_eq!(try_to(root.join("away")), Err(Errno::LOOP));
            let through = try_to(root.join("link/f")).unwrap_err();
            assert!(matches!(through, Errno::LOOP | Errno::NOTDIR), "{through}");
            assert_eq!(try_to(root.join("real/none")), Err(Errno::NOENT));
            assert_eq!(try_to(root.join("real/f/x")), Err(Errno::NOTDIR));
        }
    }

    #[test]
    fn directories_are_made_beside_links_but_not_behind_them() {
        let (_dir, root) = folder();
        open_dir(&root.join("real/a/b"), Parents::Create).unwrap();
        assert!(root.join("real/a/b").is_dir());
        let behind = open_dir(&root.join("link/c/d"), Parents::Create).err();
        assert_eq!(behind, Some(FileError::Swapped));
        assert!(!root.join("real/c").exists());
        assert_eq!(open_dir(&root.join("no"), Parents::MustExist).err(), Some(FileError::Missing));
    }

    #[test]
    fn a_path_is_followed_to_where_it_leads_or_would_lead() {
        let (_dir, root) = folder();
        let leads = |path: &str| follow(&root.join(path)).unwrap();
        assert_eq!(leads("link/f"), root.join("real/f"));
        assert_eq!(leads("away"), root.join("real/f"));
        assert_eq!(leads("link/../x"), root.join("x"));
        assert_eq!(leads("link/deep/../new/file"), root.join("real/new/file"));
        symlink("loop", root.join("loop")).unwrap();
        assert_eq!(follow(&root.join("loop")), Err(FileError::from_errno(Errno::LOOP, "open")));
        assert_eq!(follow(Path::new("/proc/self/cwd/x")), Err(FileError::Special));
    }
}
