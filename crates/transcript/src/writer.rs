//! Appends records to one session file. Each record is one `write` to a file opened for appending, so a killed process
//! leaves at most one torn line, at the end, and records of other writers are never split.
//!
//! The lock is an advisory `flock` on the session file itself: other programs can still read the file and append a
//! title, and the system releases the lock when its holder ends, so no stale lock stays for long. The file is created
//! at the first record, or at once if the caller chose the id; a session without records leaves no file.
//!
//! The surprising thing: [`append`](TranscriptWriter::append) fails once per trouble, not once per record. If the disk
//! is full, the error is returned once, records are held in memory, and written in order when there is room again. If
//! writing has failed for good, the error is returned once and the writer is off. The session warns on every `Err` and
//! otherwise goes on.

use std::collections::VecDeque;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::error::{Result, TranscriptError};
use crate::record::Line;

/// Opens fail on a symbolic link: a link in place of a session file must not redirect writes to another file.
const NO_LINKS: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

/// How many bytes may wait in memory while the disk is full, before the writer gives up.
pub const BACKLOG_BYTES: usize = 32 * 1024 * 1024;

/// How much a crash may lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// No written record is lost when the process dies; a power cut may lose the last seconds.
    #[default]
    ProcessCrash,
    /// A power cut loses at most the running turn: data is synced to the disk at the end of each turn.
    FsyncPerTurn,
}

/// Where a record went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// To the file.
    Written,
    /// To memory, until the disk has room.
    Held,
    /// Nowhere: an earlier error switched the writer off.
    Off,
}

enum Target {
    /// The file is created at the first record.
    Lazy,
    Open(File),
    Off,
}

/// The one writer of a session.
pub struct TranscriptWriter {
    path: PathBuf,
    target: Target,
    durability: Durability,
    backlog: VecDeque<Line>,
    backlog_bytes: usize,
    /// Whether a failed write left part of a line that could not be removed.
    torn: bool,
    /// Whether a record was written since the last sync.
    dirty: bool,
    /// The link count of the file at the last write. If it drops to 0, the file was deleted; on some file systems it is
    /// always 0.
    links: u64,
    /// Whether the directory entry may not be on the disk yet.
    new_entry: bool,
}

impl TranscriptWriter {
    /// Creates a writer for a new session. Fails if the file at `path` exists and is not empty. No file is created or
    /// locked before the first record, so another writer may still take the path until then.
    pub fn create(path: &Path, durability: Durability) -> Result<Self> {
        match path.metadata() {
            Ok(found) if found.len() > 0 => Err(TranscriptError::AlreadyExists { path: path.to_owned() }),
            Ok(_) | Err(_) => Ok(Self::with(path, Target::Lazy, durability)),
        }
    }

    /// Creates a writer for a new session whose id was chosen by the caller. The file is created and locked at once, so
    /// that of two sessions with the same id the second fails before it has done anything. If nothing is ever written,
    /// the file is removed when the writer is dropped.
    pub fn claim(path: &Path, durability: Durability) -> Result<Self> {
        let file = create_file(path)?;
        let mut writer = Self::with(path, Target::Open(file), durability);
        writer.new_entry = true;
        Ok(writer)
    }

    /// Creates a writer for a session that is resumed: locks the file and ends a torn last line, so that the next
    /// record starts on a line of its own. Fails if the file is missing, empty or locked. Load the session after this
    /// and not before, so that no other writer can append to it in between.
    pub fn open_existing(path: &Path, durability: Durability) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .custom_flags(NO_LINKS)
            .open(path)
            .map_err(|error| TranscriptError::io("open", path, error))?;
        lock(&file, path)?;
        let torn = match end_torn_line(&file).map_err(|error| TranscriptError::io("repair", path, error)) {
            Ok(LastLine::Whole) => false,
            Ok(LastLine::None) => return Err(TranscriptError::NotFound { path: path.to_owned() }),
            // No room even for a line break: the next record that can be written starts with one.
            Err(TranscriptError::NoSpace { .. }) => true,
            Err(error) => return Err(error),
        };
        let links = file.metadata().map_or(0, |metadata| metadata.nlink());
        let mut writer = Self::with(path, Target::Open(file), durability);
        (writer.links, writer.torn) = (links, torn);
        Ok(writer)
    }

    /// Creates a writer for another new session in the same folder and with the same durability. Its file is created at
    /// the first record.
    pub fn beside(&self, session_id: &str) -> Result<Self> {
        let path = self.path.with_file_name(format!("{session_id}.jsonl"));
        Self::create(&path, self.durability)
    }

    /// Creates a writer with an empty backlog; the caller sets what it knows about the file.
    fn with(path: &Path, target: Target, durability: Durability) -> Self {
        Self {
            path: path.to_owned(),
            target,
            durability,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            torn: false,
            dirty: false,
            links: 0,
            new_entry: false,
        }
    }

    /// Returns the path of the session file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one record, after those that still wait. If the disk is full, the record waits in memory, and the error
    /// is returned for the first such record only. Any other error, and more than [`BACKLOG_BYTES`] waiting, switches
    /// the writer off for good; from then on every call returns `Ok(Appended::Off)` and the record is lost.
    pub fn append(&mut self, line: &Line) -> Result<Appended> {
        if let Target::Off = self.target {
            return Ok(Appended::Off);
        }
        if !self.backlog.is_empty() {
            self.hold(line)?;
            return match self.write_backlog() {
                Ok(()) => Ok(Appended::Written),
                // The error was already returned when the first record had to wait.
                Err(TranscriptError::NoSpace { .. }) => Ok(Appended::Held),
                Err(error) => Err(self.switch_off(error)),
            };
        }
        match self.write_line(line) {
            Ok(()) => Ok(Appended::Written),
            Err(error @ TranscriptError::NoSpace { .. }) => {
                self.hold(line)?;
                Err(error)
            }
            Err(error) => Err(self.switch_off(error)),
        }
    }

    /// Marks the end of a turn: tries again to write records that wait, and syncs data to the disk if the durability
    /// demands it. A disk that is still full is not an error here; any other failed write switches the writer off.
    pub fn end_turn(&mut self) -> Result<()> {
        match self.write_backlog() {
            Ok(()) | Err(TranscriptError::NoSpace { .. }) => {}
            Err(error) => return Err(self.switch_off(error)),
        }
        if self.durability == Durability::FsyncPerTurn && self.dirty {
            self.sync().map_err(|error| TranscriptError::io("sync", &self.path, error))?;
            self.dirty = false;
        }
        Ok(())
    }

    /// Returns the number of records that wait for room on the disk.
    pub fn held(&self) -> usize {
        self.backlog.len()
    }

    /// Syncs the data, and once also the directory of a new file, without which the file itself could be lost in a
    /// crash. Does nothing without an open file.
    fn sync(&mut self) -> io::Result<()> {
        let Target::Open(file) = &self.target else { return Ok(()) };
        file.sync_data()?;
        if std::mem::take(&mut self.new_entry)
            && let Some(dir) = self.path.parent()
        {
            File::open(dir)?.sync_all()?;
        }
        Ok(())
    }

    /// Adds a record to the backlog. If that is full, the writer is switched off for good and the error is returned.
    fn hold(&mut self, line: &Line) -> Result<()> {
        self.backlog_bytes += line.bytes().len();
        if self.backlog_bytes > BACKLOG_BYTES {
            // A record missing in the middle would break the chain for good; a file that ends early is still valid.
            let error = TranscriptError::BacklogFull { path: self.path.clone(), limit: BACKLOG_BYTES };
            return Err(self.switch_off(error));
        }
        self.backlog.push_back(line.clone());
        Ok(())
    }

    /// Writes the records that wait, the oldest first. Stops at the first error and keeps that record and the rest in
    /// order.
    fn write_backlog(&mut self) -> Result<()> {
        while let Some(line) = self.backlog.pop_front() {
            if let Err(error) = self.write_line(&line) {
                self.backlog.push_front(line);
                return Err(error);
            }
            self.backlog_bytes -= line.bytes().len();
        }
        Ok(())
    }

    /// Stops writing for the rest of the session, discards the backlog, and returns the error to report. A file that
    /// ends early is valid; one with a gap is not.
    fn switch_off(&mut self, error: TranscriptError) -> TranscriptError {
        self.target = Target::Off;
        self.backlog.clear();
        self.backlog_bytes = 0;
        error
    }

    /// Writes one record, after a line break if the last line is torn; creates the file first if there is none, and
    /// writes nothing if the writer is off. Checks before each write that the file was not deleted, since writes to a
    /// deleted file succeed and are lost.
    fn write_line(&mut self, line: &Line) -> Result<()> {
        if let Target::Lazy = self.target {
            self.target = Target::Open(create_file(&self.path)?);
            self.new_entry = true;
        }
        let Target::Open(file) = &mut self.target else { return Ok(()) };
        let failed = |error| TranscriptError::io("write", &self.path, error);
        let links = file.metadata().map_err(failed)?.nlink();
        if std::mem::replace(&mut self.links, links) > 0 && links == 0 {
            return Err(TranscriptError::Deleted { path: self.path.clone() });
        }
        if self.torn {
            write_whole(file, &[b"\n", line.bytes()].concat(), &mut self.torn).map_err(failed)?;
        } else {
            write_whole(file, line.bytes(), &mut self.torn).map_err(failed)?;
        }
        self.dirty = true;
        Ok(())
    }
}

impl Drop for TranscriptWriter {
    /// Removes a file that was claimed and never written, while its lock is still held.
    fn drop(&mut self) {
        if let Target::Open(file) = &self.target
            && file.metadata().is_ok_and(|file| file.len() == 0 && file.nlink() > 0)
        {
            drop(std::fs::remove_file(&self.path));
        }
    }
}

/// Writes `bytes` with one call. If the system accepts only a part, that part is removed again, or, if that fails,
/// `torn` is set, so that the next line starts with a line break; the error is then that the disk is full.
fn write_whole(file: &mut File, bytes: &[u8], torn: &mut bool) -> io::Result<()> {
    let written = loop {
        match file.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => break outcome?,
        }
    };
    if written == bytes.len() {
        *torn = false;
        return Ok(());
    }
    // A short write of a regular file means that the disk (or a limit) is full.
    let end = file.stream_position()?;
    let is_ours = end == file.metadata()?.len();
    if written > 0 && !(is_ours && file.set_len(end - written as u64).is_ok()) {
        *torn = true;
    }
    Err(io::Error::from(io::ErrorKind::StorageFull))
}

/// Creates a session file and its folders, for this user only, or takes over an empty file, and locks it. Fails if
/// another process holds the lock, or if the file is a link, not a regular file or not empty; its length is checked
/// under the lock, because another process may have written the session and ended.
pub(crate) fn create_file(path: &Path) -> Result<File> {
    let failed = |error| TranscriptError::io("create", path, error);
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    }
    loop {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600).custom_flags(NO_LINKS);
        let file = options.open(path).map_err(failed)?;
        let kind = file.metadata().map_err(failed)?.file_type();
        if !kind.is_file() {
            // A pipe would accept a few records and then block the writer.
            return Err(failed(io::Error::other("it is not a regular file")));
        }
        lock(&file, path)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.len() > 0 {
            return Err(TranscriptError::AlreadyExists { path: path.to_owned() });
        }
        // The previous holder of the lock may have removed the opened file. The next round opens or creates another.
        if metadata.nlink() > 0 {
            return Ok(file);
        }
    }
}

/// Takes the session lock, which lasts until `file` is closed, without waiting for it. If no living process holds the
/// lock, the error has no holder: after a process was killed, a child that it was just starting can have the lock for a
/// moment. On a file system without locks the session is used without one.
pub(crate) fn lock(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let holder = lock_holder(file).filter(|pid| is_alive(*pid));
            Err(TranscriptError::Locked { path: path.to_owned(), holder })
        }
        Err(TryLockError::Error(error)) if has_no_locks(&error) => Ok(()),
        Err(TryLockError::Error(error)) => Err(TranscriptError::io("lock", path, error)),
    }
}

/// Returns whether a process is running; false for a zombie, and if `/proc` does not have it.
fn is_alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // `4711 (name) S …`; the name may contain any character.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Returns whether an error means that the file system has no locks; some network file systems report `ENOLCK`.
fn has_no_locks(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported || Errno::from_io_error(error) == Some(Errno::NOLCK)
}

/// Returns the process that holds the lock, by the kernel's list; `None` if the system has no such list, or it names
/// none.
fn lock_holder(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino().to_string();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // `1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF`
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_ours = fields.get(1) == Some(&"FLOCK") && fields.get(5)?.rsplit(':').next()? == inode;
        if is_ours { fields.get(4)?.parse().ok().filter(|pid| *pid != 0) } else { None }
    })
}

/// The end of a file after [`end_torn_line`].
enum LastLine {
    /// The file is empty.
    None,
    /// It ends with a newline.
    Whole,
}

/// Adds a newline to a last line that has none, and returns whether the file is empty. The line is never removed: it
/// may be a complete record that only lacks its newline, and if another program is just writing it, the newline still
/// comes after its end.
fn end_torn_line(mut file: &File) -> io::Result<LastLine> {
    let length = file.seek(SeekFrom::End(0))?;
    if length == 0 {
        return Ok(LastLine::None);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0_u8];
    file.read_exact(&mut last)?;
    if last != *b"\n" {
        file.write_all(b"\n")?;
    }
    Ok(LastLine::Whole)
}

/// Appends one record, such as a title, to a session that another process may be writing. Takes no lock, because one
/// append cannot split another. Never creates the file: a missing or empty one is the error `NotFound`.
pub(crate) fn append_unlocked(path: &Path, line: &Line) -> Result<()> {
    let failed = |error| TranscriptError::io("append to", path, error);
    let mut options = OpenOptions::new();
    options.read(true).append(true).custom_flags(NO_LINKS);
    let mut file = options.open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    if length == 0 {
        return Err(TranscriptError::NotFound { path: path.to_owned() });
    }
    let mut last = [0_u8];
    file.seek(SeekFrom::End(-1)).and_then(|_| file.read_exact(&mut last)).map_err(failed)?;
    let prefix: &[u8] = if last == *b"\n" { b"" } else { b"\n" };
    write_whole(&mut file, &[prefix, line.bytes()].concat(), &mut false).map_err(failed)
}

#[cfg(test)]
mod tests;
