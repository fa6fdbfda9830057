//! Opens files for reading without ever blocking and without trusting the path twice.
//!
//! Paths are real ones ([`super::real`]): no link is followed. The type is checked before opening (opening some devices
//! has effects) and again on the open file, so a file that was replaced in between is noticed.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};

use super::FileError;
use super::real::{self, Parents};

/// An open regular file.
pub(crate) struct Opened {
    pub file: File,
    pub stamp: Stamp,
}

/// The state of a file at one moment: enough to notice that it was replaced or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    /// Seconds and nanoseconds.
    pub modified: (i64, u64),
    pub mode: u32,
    pub owner: u32,
    pub group: u32,
}

impl Stamp {
    /// Takes the fields from a stat that tell whether a file has changed, in types that are the same on every platform.
    #[allow(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        reason = "the field types differ between platforms"
    )]
    pub fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as u64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as u64),
            mode: stat.st_mode as u32,
            owner: stat.st_uid as u32,
            group: stat.st_gid as u32,
        }
    }

    /// Returns whether it is the same file with, as far as a stat can tell, the same content. Mode and owner may
    /// differ.
    pub fn same_content(&self, other: &Self) -> bool {
        (self.device, self.inode, self.size, self.modified)
            == (other.device, other.inode, other.size, other.modified)
    }
}

/// Opens the regular file at a real path for reading, without ever blocking. Fails for a link on the way
/// ([`FileError::Swapped`]), for a directory, and for devices and files of the kernel ([`FileError::Special`]).
pub(crate) fn open_regular(path: &Path) -> Result<Opened, FileError> {
    if names_special(path) {
        return Err(FileError::Special);
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(FileError::Directory);
    };
    open_regular_at(real::open_dir(parent, Parents::MustExist)?.as_fd(), Path::new(name))
}

/// Opens the regular file at a real path for reading, for other crates that act on a decision about it. The kind of the
/// error does not tell the cause; a link anywhere on the way is an error too.
pub fn open_file(path: &Path) -> std::io::Result<File> {
    open_regular(path).map(|opened| opened.file).map_err(std::io::Error::other)
}

/// Opens a regular file like [`open_regular`], by its name in an open directory. `name` must be a single name; a
/// directory in `/dev` is not recognised here.
pub(crate) fn open_regular_at(dir: BorrowedFd<'_>, name: &Path) -> Result<Opened, FileError> {
    let failed = |errno| real::error(errno, "open");
    check_type(&rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let fd = rustix::fs::openat(dir, name, flags, Mode::empty()).map_err(failed)?;
    let stat = rustix::fs::fstat(&fd).map_err(failed)?;
    check_type(&stat)?;
    if is_kernel_file_system(fd.as_fd()) {
        return Err(FileError::Special);
    }
    Ok(Opened { file: File::from(fd), stamp: Stamp::of(&stat) })
}

/// Checks that this is a regular file. A symbolic link is [`FileError::Swapped`], because the path was free of links
/// when it was resolved.
fn check_type(stat: &Stat) -> Result<(), FileError> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(FileError::Directory),
        FileType::Symlink => Err(FileError::Swapped),
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Err(FileError::Special),
    }
}

/// Returns whether this is `/proc` or a tracing file system, whose "regular files" may block or never end. False if the
/// kind of the file system cannot be found out.
#[cfg(target_os = "linux")]
fn is_kernel_file_system(fd: BorrowedFd<'_>) -> bool {
    const DEBUGFS: i64 = 0x6462_6720;
    const TRACEFS: i64 = 0x7472_6163;
    #[allow(clippy::unnecessary_cast, reason = "the field type differs between platforms")]
    rustix::fs::fstatfs(fd).is_ok_and(|stat| {
        let kind = stat.f_type as i64;
        kind == rustix::fs::PROC_SUPER_MAGIC as i64 || kind == DEBUGFS || kind == TRACEFS
    })
}

/// Returns false: only Linux has such file systems in the directory tree.
#[cfg(not(target_os = "linux"))]
fn is_kernel_file_system(_fd: BorrowedFd<'_>) -> bool {
    false
}

/// Returns whether the name alone says that this is not an ordinary file: `/proc` and what is under it, or anything
/// under `/dev` except shared memory. False for a relative path; `..` is resolved in the text, without looking at
/// links.
pub(crate) fn names_special(path: &Path) -> bool {
    let mut parts: Vec<&std::ffi::OsStr> = Vec::new();
    if !path.is_absolute() {
        return false;
    }
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(part),
            Component::ParentDir => drop(parts.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    match parts.as_slice() {
        [first, ..] if *first == "proc" => true,
        [first, second, ..] if *first == "dev" => *second != "shm",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "tests look at the real file system")]

    use rustix::fs::CWD;
    use rustix::io::Errno;

    use super::*;

    fn opened(path: &Path) -> Result<Opened, FileError> {
        open_regular(&real::follow(path)?)
    }

    fn error(path: &Path) -> FileError {
        opened(path).err().expect("must not open")
    }

    #[test]
    fn names_of_devices_and_processes_are_known() {
        for special in ["/dev/zero", "/proc/self/environ", "/tmp/../dev/./tty", "/dev/fd/0"] {
            assert!(names_special(Path::new(special)), "{special}");
        }
        for plain in ["/tmp/dev/zero", "/dev/shm/x", "/process", "dev/zero", "/dev", "/"] {
            assert!(!names_special(Path::new(plain)), "{plain}");
        }
    }

    #[test]
    fn what_is_no_regular_file_is_refused_without_blocking() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(error(&fifo), FileError::Special);
        let socket = dir.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(error(&socket), FileError::Special);
        assert_eq!(error(dir.path()), FileError::Directory);
        assert_eq!(error(&dir.path().join("none")), FileError::Missing);
        let looped = dir.path().join("loop");
        std::os::unix::fs::symlink("loop", &looped).unwrap();
        assert_eq!(error(&looped), FileError::from_errno(Errno::LOOP, "open"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn links_into_proc_are_refused_whatever_they_are_called() {
        let dir = tempfile::tempdir().unwrap();
        let link = |name: &str, target: &str| {
            let path = dir.path().join(name);
            std::os::unix::fs::symlink(target, &path).unwrap();
            path
        };
        assert_eq!(error(&link("a.txt", "/proc/self/environ")), FileError::Special);
        assert_eq!(error(&link("b.txt", "/dev/zero")), FileError::Special);
        let plain = dir.path().join("plain");
        std::fs::write(&plain, "x").unwrap();
        let held = File::open(&plain).unwrap();
        let magic = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&held));
        assert!(opened(&link("c.txt", &magic)).is_err());
        assert!(opened(&link("d.txt", "plain")).is_ok());
        assert_eq!(open_regular(&dir.path().join("d.txt")).err(), Some(FileError::Swapped));
    }
}
