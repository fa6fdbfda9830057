//! Keeps the output of a command within bounds: the head and the tail in memory, all of it (up to a cap) in a file once
//! it does not fit into memory, or as soon as the file is asked for.
//!
//! The file is written from the async thread: it goes to the page cache and is capped. A disk error is never an error
//! of the command; the result then says so next to what memory holds. The surprising thing: the file always starts with
//! the first byte, however late it is created, because it is created before memory drops anything; only a file that
//! keeps the end ([`WhenFull::KeepTail`]) loses its beginning again.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::PathBuf;

use crate::Exit;
use crate::reading::{Located, OutputPart};
use crate::spec::{Capture, OutputLimit, SpillFile, WhenFull};

/// The part of an output that was kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes. Empty for a detached command whose output is in a file: the file has them.
    pub head: Vec<u8>,
    /// The last bytes; directly after the head if nothing is missing between them.
    pub tail: Vec<u8>,
    /// All bytes that were printed, kept or not.
    pub total_bytes: u64,
    /// The file that has the output, if memory does not hold all of it and a file was asked for.
    pub spill: Option<Spilled>,
    /// Why a file that was asked for and needed is missing or incomplete.
    pub spill_error: Option<String>,
}

/// A file with an output, or with the part of it that its cap allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spilled {
    /// Where it is.
    pub path: PathBuf,
    /// How much of the output it holds: all of it, or as much as its cap allowed.
    pub bytes: u64,
}

impl Captured {
    /// Returns whether head and tail together are the whole output. False if only the file has all of it.
    pub fn is_complete(&self) -> bool {
        self.missing_bytes() == 0
    }

    /// Returns how many bytes before the tail are not in memory, whether or not a file has them.
    pub fn missing_bytes(&self) -> u64 {
        self.total_bytes - (self.head.len() + self.tail.len()) as u64
    }

    /// Returns head and tail as text; bytes that are not UTF-8 are replaced. A gap between the two is not marked.
    pub fn to_text(&self) -> String {
        let mut bytes = Vec::with_capacity(self.head.len() + self.tail.len());
        bytes.extend_from_slice(&self.head);
        bytes.extend_from_slice(&self.tail);
        match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }
    }
}

/// Collects an output as it is read.
pub(crate) struct Collector {
    capture: Capture,
    head: Vec<u8>,
    /// Up to twice the size of the tail, so that bytes are rarely moved.
    tail: Vec<u8>,
    total: u64,
    spill: Spill,
    filing: Filing,
}

/// When the file is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filing {
    /// With the first byte that does not fit into memory.
    WhenMemoryIsFull,
    /// With the next byte.
    WithNextByte,
    /// The same, and then only the file keeps the head.
    InsteadOfHead,
}

/// What has become of the file for an output.
enum Spill {
    /// Memory still holds everything, or no file was asked for.
    NotYet,
    Writing(OutputFile),
    Failed(String),
}

/// The file of an output, and which part of the output it holds.
struct OutputFile {
    /// `None` once nothing more is written: the tree is gone, or a write failed.
    file: Option<File>,
    path: PathBuf,
    /// The end of what the file holds, as an offset in the output.
    bytes: u64,
    /// The beginning of it: what was before made room for later output.
    dropped: u64,
    exit_line: ExitLine,
    error: Option<String>,
}

/// A line in the file that is not part of the output.
#[derive(Clone, Copy)]
enum ExitLine {
    NotWritten,
    Written { after_bytes: u64, len: u64 },
}

/// Whether the command may continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    GoOn,
    OverLimit,
}

impl Collector {
    /// Returns an empty collector, which creates its file only when memory is full.
    pub fn new(capture: Capture) -> Self {
        let filing = Filing::WhenMemoryIsFull;
        Self { capture, head: Vec::new(), tail: Vec::new(), total: 0, spill: Spill::NotYet, filing }
    }

    /// Takes the next bytes of the output. The file is written first: it is created from what memory holds, so this
    /// must happen before the tail drops anything. [`Flow::OverLimit`] asks the caller to end the tree; the bytes are
    /// kept all the same.
    pub fn push(&mut self, chunk: &[u8]) -> Flow {
        self.total += chunk.len() as u64;
        let memory = (self.capture.head_bytes + self.capture.tail_bytes) as u64;
        let in_use = matches!(self.spill, Spill::Writing(_));
        if in_use || self.total > memory || self.filing != Filing::WhenMemoryIsFull {
            self.write_spill(chunk);
        }
        let room = self.capture.head_bytes - self.head.len();
        let (to_head, rest) = chunk.split_at(room.min(chunk.len()));
        self.head.extend_from_slice(to_head);
        self.push_tail(rest);
        if self.filing == Filing::InsteadOfHead {
            self.release_head();
        }
        match self.capture.limit {
            OutputLimit::KillAt(limit) if self.total >= limit => Flow::OverLimit,
            OutputLimit::KillAt(_) | OutputLimit::None => Flow::GoOn,
        }
    }

    /// Appends to the tail what did not fit into the head, and drops its oldest bytes so that it never holds more than
    /// twice its size. The dropped bytes are lost unless [`Collector::write_spill`] wrote them before.
    fn push_tail(&mut self, rest: &[u8]) {
        let keep = self.capture.tail_bytes;
        if rest.len() >= keep {
            self.tail.clear();
            self.tail.extend_from_slice(&rest[rest.len() - keep..]);
            return;
        }
        if self.tail.len() + rest.len() > 2 * keep {
            let surplus = self.tail.len() + rest.len() - keep;
            self.tail.drain(..surplus.min(self.tail.len()));
        }
        self.tail.extend_from_slice(rest);
    }

    /// Returns whether head and tail hold every byte so far, so that a file can still start with the first one.
    fn memory_holds_all(&self) -> bool {
        self.total == (self.head.len() + self.tail.len()) as u64
    }

    /// Writes a chunk that is not in head and tail yet; the first time also what they hold. Does nothing if no file was
    /// named or an earlier write failed. After an error the file is removed, unless it has the only copy of the head.
    fn write_spill(&mut self, chunk: &[u8]) {
        let Some(wanted) = &self.capture.spill else { return };
        match &mut self.spill {
            Spill::Failed(_) => {}
            Spill::Writing(open) => {
                let Some(why) = open.append(chunk, wanted).err() else { return };
                open.file = None;
                if self.head.is_empty() && self.capture.head_bytes == 0 {
                    // No other copy of the head exists, so the file stays.
                    open.error = Some(why);
                    return;
                }
                // Memory still has the head, and half a file is useless, least of all on a full disk.
                let _ = std::fs::remove_file(&wanted.path);
                self.spill = Spill::Failed(why);
            }
            Spill::NotYet => {
                let parts = [&self.head[..], &self.tail[..], chunk];
                self.spill = match OutputFile::create(wanted, &parts) {
                    Ok(open) => Spill::Writing(open),
                    Err(why) => Spill::Failed(why),
                };
            }
        }
    }

    /// Creates the file now, unless it exists already, and returns its path and how much of the output it holds. `file`
    /// replaces the one in the [`Capture`] if none was created yet; of a file that was created, only its exit line
    /// changes and its cap can grow. Fails if no file was named, if it cannot be created, or if memory has dropped
    /// bytes already, because a file must start with the first byte.
    pub fn start_file(&mut self, file: Option<SpillFile>) -> Result<Spilled, String> {
        if matches!(self.spill, Spill::NotYet) {
            if !self.memory_holds_all() {
                return Err("the start of the output is lost already".to_owned());
            }
            if let Some(file) = file {
                self.capture.spill = Some(file);
            }
            self.write_spill(&[]);
        } else if let (Some(begun), Some(file)) = (&mut self.capture.spill, file) {
            begun.exit_line = file.exit_line;
            begun.cap_bytes = file.cap_bytes.max(begun.cap_bytes);
        }
        match &self.spill {
            Spill::NotYet => Err("no file was asked for".to_owned()),
            Spill::Writing(open) => Ok(open.spilled()),
            Spill::Failed(why) => Err(why.clone()),
        }
    }

    /// Lets the next byte of output create the file, if one is named, instead of waiting until memory is full. Called
    /// when the main process has ended, so that what its leftovers print is in the file.
    pub fn file_with_next_byte(&mut self) {
        if self.filing == Filing::WhenMemoryIsFull {
            self.filing = Filing::WithNextByte;
        }
    }

    /// Creates the file at once and releases the head, so that memory keeps only the tail. Without a file, or if it
    /// cannot be created, head and tail stay as they are.
    pub fn file_instead_of_head(&mut self) {
        self.filing = Filing::InsteadOfHead;
        let _ = self.start_file(None);
        self.release_head();
    }

    /// Releases the memory of the head if a file has the same bytes, otherwise does nothing. Memory then keeps only the
    /// last bytes, up to the size of the tail.
    fn release_head(&mut self) {
        match &self.spill {
            Spill::Writing(open) if open.bytes >= self.head.len() as u64 && !self.head.is_empty() => {}
            Spill::Writing(_) | Spill::NotYet | Spill::Failed(_) => return,
        }
        let mut last = std::mem::take(&mut self.head);
        self.capture.head_bytes = 0;
        last.append(&mut self.tail);
        last.drain(..last.len().saturating_sub(self.capture.tail_bytes));
        // A new vector of exactly this size, without the capacity of the head.
        self.tail = last.as_slice().to_vec();
    }

    /// Writes the line that the [`SpillFile`] asks for into the file, even above its cap; no effect without a file or a
    /// line, and an error of the disk is ignored. Its place is recorded, because [`Collector::locate`] must skip the
    /// line: it is not output.
    pub fn write_exit_line(&mut self, exit: Exit) {
        let Some(line) = self.capture.spill.as_ref().and_then(|wanted| wanted.exit_line) else { return };
        if let Spill::Writing(open) = &mut self.spill
            && let Some(file) = &mut open.file
        {
            let line = line(exit);
            if file.write_all(line.as_bytes()).is_ok() {
                open.exit_line = ExitLine::Written { after_bytes: open.bytes, len: line.len() as u64 };
            }
        }
    }

    /// Closes the file for writing, because no more output will come. What it holds can still be located and read.
    pub fn close_file(&mut self) {
        if let Spill::Writing(open) = &mut self.spill {
            open.file = None;
        }
    }

    /// Returns whether the file lacks output because of its cap: at its end or, if it keeps the tail, at its beginning.
    /// False without a file.
    pub fn is_file_full(&self) -> bool {
        match (&self.spill, &self.capture.spill) {
            (Spill::Writing(open), Some(wanted)) => {
                let is_at_cap = open.bytes >= wanted.cap_bytes && self.total > open.bytes;
                is_at_cap || open.dropped > 0
            }
            (Spill::Writing(_) | Spill::NotYet | Spill::Failed(_), _) => false,
        }
    }

    /// Returns the first bytes, as far as memory has them.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Returns how many bytes the command printed, including those that neither memory nor the file holds.
    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    /// Returns a copy of what is kept now: head, tail and count, and where the file is or why it is missing.
    pub fn snapshot(&self) -> Captured {
        let surplus = self.tail.len().saturating_sub(self.capture.tail_bytes);
        let (spill, spill_error) = match &self.spill {
            Spill::NotYet => (None, None),
            Spill::Writing(open) => (Some(open.spilled()), open.error.clone()),
            Spill::Failed(why) => (None, Some(why.clone())),
        };
        Captured {
            head: self.head.clone(),
            tail: self.tail[surplus..].to_vec(),
            total_bytes: self.total,
            spill,
            spill_error,
        }
    }

    /// Returns the place of up to `max` bytes from `offset` on: in memory or in the file, never across the border
    /// between them. Bytes that were not kept are skipped, so the place may begin after `offset`; it is empty if
    /// nothing follows.
    pub fn locate(&self, offset: u64, max: usize) -> Located {
        let in_memory = |offset: u64, bytes: &[u8]| {
            let bytes = bytes[..bytes.len().min(max)].to_vec();
            Located::Memory(OutputPart { offset, bytes, total_bytes: self.total })
        };
        if let Some(rest) = self.head.get(in_usize(offset)..).filter(|rest| !rest.is_empty()) {
            return in_memory(offset, rest);
        }
        let tail_start = self.tail_start();
        if offset < tail_start
            && let Spill::Writing(open) = &self.spill
            && offset < open.bytes
        {
            let offset = offset.max(open.dropped);
            return open.locate(offset, max.min(in_usize(open.bytes - offset)), self.total);
        }
        if offset < tail_start {
            return in_memory(tail_start, &self.tail);
        }
        in_memory(offset.min(self.total), self.tail.get(in_usize(offset - tail_start)..).unwrap_or_default())
    }

    /// Returns the offset, within the whole output, of the first byte that the tail holds.
    pub fn tail_start(&self) -> u64 {
        self.total - self.tail.len() as u64
    }
}

/// Converts a count of bytes; one that does not fit becomes `usize::MAX`, so use the result only as an upper bound.
fn in_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl OutputFile {
    /// Creates the file and writes `parts` into it in this order, up to its cap. If a write fails, the file is removed
    /// again; the error is a text with the path.
    fn create(wanted: &SpillFile, parts: &[&[u8]]) -> Result<Self, String> {
        let in_words = |error: io::Error| format!("{}: {error}", wanted.path.display());
        // A file that existed before is neither removed nor written to.
        let file = create_new(wanted).map_err(in_words)?;
        let path = wanted.path.clone();
        let mut open = Self {
            file: Some(file),
            path,
            bytes: 0,
            dropped: 0,
            exit_line: ExitLine::NotWritten,
            error: None,
        };
        for part in parts {
            if let Err(why) = open.append(part, wanted) {
                let _ = std::fs::remove_file(&wanted.path);
                return Err(why);
            }
        }
        Ok(open)
    }

    /// Writes as much of `part` as the cap leaves room for; a file that keeps the tail first drops older output, unless
    /// its exit line is written. What does not fit is dropped without an error, and so is everything once the file is
    /// closed.
    fn append(&mut self, mut part: &[u8], wanted: &SpillFile) -> Result<(), String> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let in_words = |error: io::Error| format!("{}: {error}", self.path.display());
        let cap = wanted.cap_bytes;
        let may_drop = match (wanted.when_full, self.exit_line) {
            (WhenFull::KeepTail, ExitLine::NotWritten) => true,
            (WhenFull::KeepTail, ExitLine::Written { .. }) | (WhenFull::KeepHead, _) => false,
        };
        let mut room = cap.saturating_sub(self.bytes - self.dropped);
        if may_drop && room < part.len() as u64 {
            let kept = (self.bytes - self.dropped).min(cap / 2).min(cap.saturating_sub(part.len() as u64));
            move_end_to_front(file, self.bytes - self.dropped, kept).map_err(in_words)?;
            // Only a piece that is larger than the whole file loses its own beginning.
            let skipped = part.len().saturating_sub(in_usize(cap));
            self.bytes += skipped as u64;
            part = &part[skipped..];
            self.dropped = self.bytes - kept;
            room = cap - kept;
        }
        let part = &part[..in_usize(room).min(part.len())];
        file.write_all(part).map_err(in_words)?;
        self.bytes += part.len() as u64;
        Ok(())
    }

    /// Returns the path of the file and how many bytes of the output it holds; an exit line is not counted.
    fn spilled(&self) -> Spilled {
        Spilled { path: self.path.clone(), bytes: self.bytes - self.dropped }
    }

    /// Returns the place of `len` bytes of the output from `offset` on, fewer if the exit line is between them.
    /// `offset` must not be before the first byte that the file still has.
    fn locate(&self, offset: u64, len: usize, total_bytes: u64) -> Located {
        let at = offset - self.dropped;
        let (at, len) = match self.exit_line {
            ExitLine::Written { after_bytes, len: line } if offset >= after_bytes => (at + line, len),
            ExitLine::Written { after_bytes, .. } => (at, len.min(in_usize(after_bytes - offset))),
            ExitLine::NotWritten => (at, len),
        };
        Located::InFile { path: self.path.clone(), at, len, offset, total_bytes }
    }
}

/// Moves the last `kept` bytes of a file of `size` bytes to its front, cuts off the rest and leaves the position at the
/// new end. The two parts may overlap: each piece is read before anything is written behind its beginning. Blocks while
/// the bytes are copied, which happens once for each half of the cap that the command prints.
fn move_end_to_front(file: &mut File, size: u64, kept: u64) -> io::Result<()> {
    let mut buffer = vec![0; 256 * 1024];
    let mut done = 0;
    while done < kept {
        let piece = &mut buffer[..in_usize(kept - done).min(256 * 1024)];
        file.read_exact_at(piece, size - kept + done)?;
        file.write_all_at(piece, done)?;
        done += piece.len() as u64;
    }
    file.set_len(kept)?;
    file.seek(io::SeekFrom::Start(kept)).map(drop)
}

/// Creates the file, readable by its owner only, and the folders above it. Fails if the path exists, symbolic links
/// included, so that output never goes into a file that was prepared by another process.
fn create_new(wanted: &SpillFile) -> io::Result<File> {
    if let Some(directory) = wanted.path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&wanted.path)
}

#[cfg(test)]
mod tests;
