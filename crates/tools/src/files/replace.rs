//! Replaces a file as a whole: after any crash it has the old content or the new one, never a mix.
//!
//! The new content is written to a temporary file next to the target, which is then renamed to it. Targets are real
//! paths ([`super::real`]): the file a link leads to is replaced, not the link. Surprising: all steps go through the
//! open directory, so a parent that is swapped meanwhile cannot redirect the write; and a file that another program
//! changed since it was read is left alone ([`FileError::Changed`]). Calls of one process take turns at a file; against
//! other programs only the moment between the last check and the rename is unguarded.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::FileError;
use super::open::{Stamp, names_special, open_regular_at};
use super::real::{Parents, open_dir};

/// A file that is to be read and then replaced.
pub(crate) struct Target {
    dir: OwnedFd,
    name: OsString,
    /// The real path, with symlinks resolved: the key under which the file is remembered.
    pub path: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

/// The current content of the target.
pub(crate) struct Original {
    pub bytes: Vec<u8>,
    pub stamp: Stamp,
}

/// What must still be true when the file is replaced.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expected<'a> {
    Absent,
    Unchanged(&'a Stamp),
}

impl Target {
    /// Returns the target at a real path and opens its directory; `parents` says whether missing ones are created.
    /// Waits for its turn at the file and keeps it until it is dropped, so a call must never hold two targets.
    pub fn at(path: PathBuf, parents: Parents) -> Result<Self, FileError> {
        if names_special(&path) {
            return Err(FileError::Special);
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name().map(OsStr::to_owned)) else {
            return Err(FileError::Directory);
        };
        let dir = open_dir(parent, parents)?;
        Ok(Self { dir, name, _turn: take_turn(&path), path })
    }

    /// Reads the content; `None` if the file does not exist yet. Fails with [`FileError::TooLarge`] if it has more than
    /// `max_bytes`, and for anything that is not a regular file.
    pub fn read(&self, max_bytes: u64) -> Result<Option<Original>, FileError> {
        let opened = match open_regular_at(self.dir.as_fd(), Path::new(&self.name)) {
            Ok(opened) => opened,
            Err(FileError::Missing) => return Ok(None),
            Err(error) => return Err(error),
        };
        let size = opened.stamp.size;
        if size > max_bytes {
            return Err(FileError::TooLarge { size });
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        opened
            .file
            .take(max_bytes + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| FileError::from_io(&error, "read"))?;
        if bytes.len() as u64 > max_bytes {
            return Err(FileError::TooLarge { size: bytes.len() as u64 });
        }
        Ok(Some(Original { bytes, stamp: opened.stamp }))
    }

    /// Returns the state of the file without reading it; `None` if it does not exist. Anything that is not a regular
    /// file is an error.
    pub fn stamp(&self) -> Result<Option<Stamp>, FileError> {
        match rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Ok(Some(Stamp::of(&stat))),
                FileType::Directory => Err(FileError::Directory),
                FileType::Symlink => Err(FileError::Swapped),
                FileType::Fifo
                | FileType::Socket
                | FileType::CharacterDevice
                | FileType::BlockDevice
                | FileType::Unknown => Err(FileError::Special),
            },
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(FileError::from_errno(errno, "open")),
        }
    }

    /// Returns how many names (hard links) the file has now; a missing file is an error.
    pub fn links(&self) -> Result<u64, FileError> {
        let stat = rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| FileError::from_errno(errno, "stat"))?;
        #[allow(clippy::unnecessary_cast, reason = "the field type differs between platforms")]
        Ok(stat.st_nlink as u64)
    }

    /// Sets the permission bits of the file that is there now. It does not check whether another program replaced the
    /// file.
    pub fn set_mode(&self, mode: u32) -> Result<(), FileError> {
        rustix::fs::chmodat(&self.dir, &self.name, Mode::from_raw_mode(mode & 0o7777), AtFlags::empty())
            .map_err(|errno| FileError::from_errno(errno, "chmod"))
    }

    /// Removes the file that is there now, whatever its state; it is an error if it is gone already.
    pub fn remove(&self) -> Result<(), FileError> {
        rustix::fs::unlinkat(&self.dir, &self.name, AtFlags::empty())
            .map_err(|errno| FileError::from_errno(errno, "unlink"))
    }

    /// Puts `content` in place in one step, with the mode and, where possible, the owner of the old file, and returns
    /// the new state. Fails with [`FileError::Changed`], and leaves the file alone, if it is not in the `expected`
    /// state any more; a file that may not be written is refused too, although a rename would not need that.
    pub fn replace(&self, content: &[u8], expected: Expected<'_>) -> Result<Stamp, FileError> {
        if let Expected::Unchanged(_) = expected {
            // A rename does not check whether the file itself may be written.
            rustix::fs::accessat(&self.dir, &self.name, Access::WRITE_OK, AtFlags::empty()).map_err(
                |errno| match errno {
                    Errno::NOENT => FileError::Changed,
                    errno => FileError::from_errno(errno, "open"),
                },
            )?;
        }
        let temporary = Temporary::create(self, expected)?;
        temporary.fill(content)?;
        if let Expected::Unchanged(stamp) = expected {
            temporary.take_on(stamp)?;
        }
        match (expected, self.stamp()?) {
            (Expected::Absent, None) => {}
            (Expected::Unchanged(before), Some(now)) if before.same_content(&now) => {}
            (Expected::Absent | Expected::Unchanged(_), _) => return Err(FileError::Changed),
        }
        temporary.take_name(expected)
    }
}

/// Up to this size, reading, comparing and writing a file is faster than handing the work to another thread.
const QUICK_BYTES: u64 = 64 * 1024;

/// Returns whether a change can be made at once: file and change are small, and no other call is at the file. Such a
/// change may be made on the event loop. If another call gets to the file right after this check, this one waits for
/// it; it is as quick, or one of a few on the blocking pool.
pub(crate) fn is_quick(path: &Path, changed_bytes: usize) -> bool {
    let size = std::fs::symlink_metadata(path).map_or(0, |metadata| metadata.len());
    size.max(changed_bytes as u64) <= QUICK_BYTES && turn(path).try_lock().is_ok()
}

/// Waits until no other call of this process is at this file (or at one that happens to share its lock), and returns
/// the lock. It blocks the thread, and a caller that holds a turn already must not take another.
fn take_turn(path: &Path) -> MutexGuard<'static, ()> {
    turn(path).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the lock of a path. The locks are a fixed set chosen by hash, so that they need no cleaning up; two paths
/// may share one, so no call may hold two.
fn turn(path: &Path) -> &'static Mutex<()> {
    static TURNS: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    let turn = usize::try_from(hasher.finish() % 64).unwrap_or_default();
    &TURNS[turn]
}

/// The new content under a temporary name; removed on drop unless it was renamed to the target.
struct Temporary<'a> {
    target: &'a Target,
    name: String,
    file: File,
    keep: std::cell::Cell<bool>,
}

impl<'a> Temporary<'a> {
    /// Creates an empty temporary file next to the target, because a rename cannot cross file systems. It is removed
    /// when the result is dropped, unless [`Temporary::take_name`] has renamed it.
    #[allow(clippy::disallowed_methods, reason = "only part of a name that no other process takes")]
    fn create(target: &'a Target, expected: Expected<'_>) -> Result<Self, FileError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // A new file gets the default mode minus the umask; one that replaces another is private until it has the
        // other's mode.
        let mode = match expected {
            Expected::Absent => Mode::from_raw_mode(0o666),
            Expected::Unchanged(_) => Mode::RUSR | Mode::WUSR,
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!(".lathe-{}-{number}.tmp", std::process::id());
            match rustix::fs::openat(&target.dir, &name, flags, mode) {
                Ok(fd) => {
                    let keep = std::cell::Cell::new(false);
                    return Ok(Self { target, name, file: File::from(fd), keep });
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(FileError::from_errno(errno, "open")),
            }
        }
    }

    /// Writes the content. It is not synced: a rename protects against a half-written file, not against a power
    /// failure.
    fn fill(&self, content: &[u8]) -> Result<(), FileError> {
        (&self.file).write_all(content).map_err(|error| FileError::from_io(&error, "write"))
    }

    /// Gives the temporary file the mode and owner of the replaced file. The owner cannot always be kept, which is no
    /// error; the mode can, and is set last because a change of owner clears bits of it.
    fn take_on(&self, stamp: &Stamp) -> Result<(), FileError> {
        let owner = Some(rustix::fs::Uid::from_raw(stamp.owner));
        let group = Some(rustix::fs::Gid::from_raw(stamp.group));
        if rustix::fs::fchown(&self.file, owner, group).is_err() {
            let _only_root_may = rustix::fs::fchown(&self.file, None, group);
        }
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(stamp.mode & 0o7777))
            .map_err(|errno| FileError::from_errno(errno, "chmod"))
    }

    /// Renames the file to the target and returns its stamp. A target that appeared where none was expected is
    /// [`FileError::Changed`] and stays, where the file system can rename without replacing.
    fn take_name(&self, expected: Expected<'_>) -> Result<Stamp, FileError> {
        let dir = &self.target.dir;
        let target = &self.target.name;
        let renamed = match expected {
            Expected::Unchanged(_) => rustix::fs::renameat(dir, &self.name, dir, target),
            Expected::Absent => {
                match rustix::fs::renameat_with(dir, &self.name, dir, target, RenameFlags::NOREPLACE) {
                    // The file system cannot rename without replacing; the check just before has to suffice.
                    Err(Errno::INVAL | Errno::NOSYS) => rustix::fs::renameat(dir, &self.name, dir, target),
                    result => result,
                }
            }
        };
        renamed.map_err(|errno| match errno {
            Errno::EXIST => FileError::Changed,
            errno => FileError::from_errno(errno, "rename"),
        })?;
        self.keep.set(true);
        let stat = rustix::fs::fstat(&self.file).map_err(|errno| FileError::from_errno(errno, "stat"))?;
        Ok(Stamp::of(&stat))
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.keep.get() {
            let _nothing_more_to_do = rustix::fs::unlinkat(&self.target.dir, &self.name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "tests look at the real file system")]

    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;
    use crate::files::real::follow;

    fn put(path: &Path, content: &str) -> Result<(), FileError> {
        let target = Target::at(follow(path)?, Parents::Create)?;
        let original = target.read(1 << 20)?;
        let expected = match &original {
            Some(original) => Expected::Unchanged(&original.stamp),
            None => Expected::Absent,
        };
        target.replace(content.as_bytes(), expected).map(drop)
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn directories_are_made_and_the_umask_decides_the_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/new.txt");
        put(&path, "x").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "x");
        let by_std = dir.path().join("std");
        fs::write(&by_std, "").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode();
        assert_eq!(mode(&path), mode(&by_std));
        assert_eq!(names(path.parent().unwrap()), ["new.txt"]);
    }

    #[test]
    fn mode_is_kept_and_links_stay_links() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real.sh");
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o751)).unwrap();
        symlink("real.sh", dir.path().join("one")).unwrap();
        symlink(dir.path().join("one"), dir.path().join("two")).unwrap();
        put(&dir.path().join("two"), "new").unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        assert_eq!(fs::metadata(&real).unwrap().mode() & 0o7777, 0o751);
        assert!(fs::symlink_metadata(dir.path().join("two")).unwrap().is_symlink());
        assert_eq!(names(dir.path()), ["one", "real.sh", "two"]);
    }

    #[test]
    fn a_dangling_link_creates_its_target_and_a_loop_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        symlink("there", dir.path().join("link")).unwrap();
        put(&dir.path().join("link"), "x").unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("there")).unwrap(), "x");
        symlink("loop", dir.path().join("loop")).unwrap();
        assert_eq!(put(&dir.path().join("loop"), "x"), Err(FileError::from_errno(Errno::LOOP, "open")));
    }

    #[test]
    fn what_others_changed_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "one").unwrap();
        let target = Target::at(follow(&path).unwrap(), Parents::MustExist).unwrap();
        let original = target.read(100).unwrap().unwrap();
        fs::write(&path, "someone else").unwrap();
        let outcome = target.replace(b"mine", Expected::Unchanged(&original.stamp));
        assert_eq!(outcome.err(), Some(FileError::Changed));
        assert_eq!(target.replace(b"mine", Expected::Absent).err(), Some(FileError::Changed));
        assert_eq!(fs::read_to_string(&path).unwrap(), "someone else");
        fs::remove_file(&path).unwrap();
        let outcome = target.replace(b"mine", Expected::Unchanged(&original.stamp));
        assert_eq!(outcome.err(), Some(FileError::Changed));
        assert!(names(dir.path()).is_empty(), "no temporary file is left");
    }

    #[test]
    fn directories_devices_and_missing_parents_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(put(dir.path(), "x"), Err(FileError::Directory));
        assert_eq!(put(Path::new("/"), "x"), Err(FileError::Directory));
        assert_eq!(put(Path::new("/dev/null"), "x"), Err(FileError::Special));
        let missing = Target::at(follow(&dir.path().join("no/f")).unwrap(), Parents::MustExist);
        assert_eq!(missing.err(), Some(FileError::Missing));
        fs::write(dir.path().join("file"), "").unwrap();
        let below = put(&dir.path().join("file/f"), "x");
        assert_eq!(below, Err(FileError::from_errno(Errno::NOTDIR, "open")));
    }

    #[test]
    fn the_directory_counts_not_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("inside");
        fs::create_dir(&inside).unwrap();
        let target = Target::at(follow(&inside.join("f")).unwrap(), Parents::MustExist).unwrap();
        fs::rename(&inside, dir.path().join("moved")).unwrap();
        fs::create_dir(dir.path().join("elsewhere")).unwrap();
        symlink("elsewhere", &inside).unwrap();
        target.replace(b"x", Expected::Absent).unwrap();
        assert!(names(&dir.path().join("elsewhere")).is_empty());
        assert_eq!(names(&dir.path().join("moved")), ["f"]);
    }
}
