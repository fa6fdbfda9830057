//! Reads files of unknown origin: never blocks on a FIFO or a device, never reads more than a stated number of bytes,
//! and distinguishes an absent file from one that exists and cannot be read.
//!
//! Surprising: a dangling link is a failure, not an absent file, because the link shows that a file is expected.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::problem::Position;

/// The identity and times of a file at one moment. Two stamps differ if the file was changed or replaced in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, u64),
    // A program can set the modification time back, but not this one.
    changed: (i64, u64),
    /// User id of the owner.
    pub owner: u32,
    /// Type and permission bits.
    pub mode: u32,
}

impl Stamp {
    /// Takes the parts of a `stat` that change when a file is replaced, edited or gets other permissions.
    #[allow(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        reason = "the field types differ between platforms"
    )]
    fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as u64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as u64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as u64),
            owner: stat.st_uid as u32,
            mode: stat.st_mode as u32,
        }
    }

    /// Returns the stamp of the file at a path, with links followed; `None` if it does not exist or is not accessible.
    pub fn at(path: &Path) -> Option<Self> {
        rustix::fs::stat(path).ok().map(|stat| Self::of(&stat))
    }
}

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadFailure {
    #[error("it is {0}, not a file")]
    NotAFile(&'static str),
    #[error("it is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("it is not UTF-8 text")]
    NotUtf8 { at: Position },
    #[error("it is a link to something that does not exist")]
    Dangling,
    #[error("it cannot be read: {0}")]
    Io(io::Error),
}

impl ReadFailure {
    /// Returns the position in the text of a failure that has one: text that is not UTF-8. `None` for all others.
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::NotUtf8 { at } => Some(*at),
            Self::NotAFile(_) | Self::TooLarge { .. } | Self::Dangling | Self::Io(_) => None,
        }
    }
}

/// The first bytes of a file.
pub(crate) struct Content {
    pub bytes: Vec<u8>,
    pub stamp: Stamp,
    /// The file is longer than the limit.
    pub is_cut: bool,
}

/// A whole text file.
#[derive(Debug)]
pub(crate) struct Text {
    /// The content without a byte order mark.
    pub text: String,
    pub stamp: Stamp,
}

/// Whether the last component of a path may be a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    Follow,
    Refuse,
}

/// Reads a text of at most `limit` bytes, without a byte order mark; `None` if the file does not exist. Links are
/// followed; a longer file, one that is not UTF-8 and a dangling link are failures.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<Option<Text>, ReadFailure> {
    read_text_at(CWD, path, Links::Follow, limit)
}

/// Reads like [`read_text`], with a path relative to an open folder, so that the folder cannot be replaced in between;
/// `None` if the file does not exist. `links` says whether the last name of the path may be a link.
pub(crate) fn read_text_at(
    dir: BorrowedFd<'_>,
    path: &Path,
    links: Links,
    limit: u64,
) -> Result<Option<Text>, ReadFailure> {
    let Some(content) = read_start_at(dir, path, links, limit)? else { return Ok(None) };
    if content.is_cut {
        return Err(ReadFailure::TooLarge { limit });
    }
    match String::from_utf8(content.bytes) {
        Ok(text) => Ok(Some(Text { text: without_bom(text), stamp: content.stamp })),
        Err(error) => {
            let good = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
            Err(ReadFailure::NotUtf8 { at: end_of(&good) })
        }
    }
}

/// Reads at most the first `limit` bytes of a regular file, with links followed; `None` if nothing is there. A dangling
/// link is a failure.
pub(crate) fn read_start(path: &Path, limit: u64) -> Result<Option<Content>, ReadFailure> {
    read_start_at(CWD, path, Links::Follow, limit)
}

/// Reads at most the first `limit` bytes of a regular file; `path` is relative to `dir`. `None` means that nothing is
/// there; a dangling link is a failure. Never waits for a FIFO and never opens a device that was there at the check.
fn read_start_at(
    dir: BorrowedFd<'_>,
    path: &Path,
    links: Links,
    limit: u64,
) -> Result<Option<Content>, ReadFailure> {
    let (stat_flags, open_flags) = match links {
        Links::Follow => (AtFlags::empty(), OFlags::empty()),
        Links::Refuse => (AtFlags::SYMLINK_NOFOLLOW, OFlags::NOFOLLOW),
    };
    // A dangling link also gives `ENOENT`, but then the link itself is there.
    let failed = |errno: Errno| match errno {
        Errno::NOENT | Errno::NOTDIR => match rustix::fs::statat(dir, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(ReadFailure::Dangling),
            Err(_) => Ok(None),
        },
        errno => Err(ReadFailure::Io(errno.into())),
    };
    // The type is checked first, because opening some devices has side effects, and again on the open file, because the
    // path may lead to another file by then.
    match rustix::fs::statat(dir, path, stat_flags) {
        Ok(stat) => check_type(&stat)?,
        Err(errno) => return failed(errno),
    }
    // `NONBLOCK` and `NOCTTY` are for a FIFO or a terminal that replaced the file after the first check.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | open_flags;
    let fd = match rustix::fs::openat(dir, path, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(errno) => return failed(errno),
    };
    let stat = rustix::fs::fstat(&fd).map_err(|errno| ReadFailure::Io(errno.into()))?;
    check_type(&stat)?;
    let mut bytes = Vec::new();
    // One byte more tells a file of exactly `limit` bytes from a longer one.
    File::from(fd).take(limit + 1).read_to_end(&mut bytes).map_err(ReadFailure::Io)?;
    let is_cut = bytes.len() as u64 > limit;
    if is_cut {
        bytes.pop();
    }
    Ok(Some(Content { bytes, stamp: Stamp::of(&stat), is_cut }))
}

/// Fails for everything but a regular file; the failure names what it is instead.
fn check_type(stat: &Stat) -> Result<(), ReadFailure> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(ReadFailure::NotAFile("a directory")),
        FileType::Fifo => Err(ReadFailure::NotAFile("a named pipe")),
        FileType::Socket => Err(ReadFailure::NotAFile("a socket")),
        FileType::CharacterDevice | FileType::BlockDevice => Err(ReadFailure::NotAFile("a device")),
        FileType::Symlink => Err(ReadFailure::NotAFile("a link")),
        FileType::Unknown => Err(ReadFailure::NotAFile("something unknown")),
    }
}

/// Returns a text without a byte order mark at its start, which some editors write and JSON does not allow.
fn without_bom(text: String) -> String {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

/// Returns the position right after a text that begins at line 1, column 1.
pub(crate) fn end_of(text: &str) -> Position {
    let line = text.matches('\n').count() + 1;
    let column = text.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Position { line: to_u32(line), column: to_u32(column) }
}

/// Converts a count for a [`Position`]; one that does not fit becomes `u32::MAX`.
pub(crate) fn to_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn absent_damaged_and_odd_files_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("plain"), "\u{feff}a\r\nb").unwrap();
        fs::write(path("latin"), b"one\ntw\xe9").unwrap();
        fs::write(path("large"), "123456789").unwrap();
        symlink("nowhere", path("dangling")).unwrap();
        symlink("loop", path("loop")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, path("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let read = |name: &str| read_text(&path(name), 8);

        assert_eq!(read("plain").unwrap().unwrap().text, "a\r\nb");
        assert!(read("absent").unwrap().is_none());
        assert!(read("plain/below").unwrap().is_none(), "a file where a folder should be");
        assert!(matches!(read("fifo"), Err(ReadFailure::NotAFile("a named pipe"))));
        assert!(matches!(read_text(dir.path(), 8), Err(ReadFailure::NotAFile("a directory"))));
        assert!(matches!(read("large"), Err(ReadFailure::TooLarge { limit: 8 })));
        assert!(matches!(read("dangling"), Err(ReadFailure::Dangling)));
        assert!(matches!(read("loop"), Err(ReadFailure::Io(_))));
        let Err(ReadFailure::NotUtf8 { at }) = read("latin") else { panic!("latin is not UTF-8") };
        assert_eq!(at, Position { line: 2, column: 3 });
    }

    #[test]
    fn a_device_is_never_opened() {
        assert!(matches!(read_text(Path::new("/dev/zero"), 8), Err(ReadFailure::NotAFile("a device"))));
    }
}
