//! Keeps what a command prints within bounds: the head and the tail in memory, all of it (up to a cap) in a
//! file once memory does not hold it.
//!
//! The file is written from the async thread: it goes to the page cache and is capped. A disk that refuses
//! is never an error of the command; the result then says so beside what memory holds.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use crate::spec::{Capture, OutputLimit, SpillFile};

/// What was kept of an output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes.
    pub head: Vec<u8>,
    /// The last bytes; directly after the head if nothing is missing between them.
    pub tail: Vec<u8>,
    /// All that came, kept or not.
    pub total_bytes: u64,
    /// The file that has the output, if memory does not hold all of it and a file was asked for.
    pub spill: Option<Spilled>,
    /// Why there is no such file although one was asked for and needed.
    pub spill_error: Option<String>,
}

/// A file with the start of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spilled {
    /// Where it is.
    pub path: PathBuf,
    /// How much of the output it holds: all of it, or as much as its cap allowed.
    pub bytes: u64,
}

impl Captured {
    /// Whether head and tail together are the whole output.
    pub fn is_complete(&self) -> bool {
        self.missing_bytes() == 0
    }

    /// How many bytes between head and tail are not in memory.
    pub fn missing_bytes(&self) -> u64 {
        self.total_bytes - (self.head.len() + self.tail.len()) as u64
    }

    /// Head and tail as text; bytes that are not UTF-8 are replaced. The gap, if any, is not marked.
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

/// Takes an output as it comes.
pub(crate) struct Collector {
    capture: Capture,
    head: Vec<u8>,
    /// Up to twice the tail's size, so that it is moved seldom.
    tail: Vec<u8>,
    total: u64,
    spill: Spill,
}

enum Spill {
    /// Memory still holds everything, or no file was asked for.
    NotYet,
    Writing {
        file: File,
        path: PathBuf,
        bytes: u64,
    },
    Failed(String),
}

/// Whether the command may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    GoOn,
    OverLimit,
}

impl Collector {
    pub fn new(capture: Capture) -> Self {
        Self { capture, head: Vec::new(), tail: Vec::new(), total: 0, spill: Spill::NotYet }
    }

    pub fn push(&mut self, chunk: &[u8]) -> Flow {
        self.total += chunk.len() as u64;
        let room = self.capture.head_bytes - self.head.len();
        let (to_head, rest) = chunk.split_at(room.min(chunk.len()));
        self.head.extend_from_slice(to_head);
        if !rest.is_empty() {
            self.overflow(rest);
        }
        match self.capture.limit {
            OutputLimit::KillAt(limit) if self.total >= limit => Flow::OverLimit,
            OutputLimit::KillAt(_) | OutputLimit::None => Flow::GoOn,
        }
    }

    /// What the head had no room for.
    fn overflow(&mut self, rest: &[u8]) {
        let memory = (self.capture.head_bytes + self.capture.tail_bytes) as u64;
        if self.total > memory {
            self.write_spill(rest);
        }
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

    fn write_spill(&mut self, rest: &[u8]) {
        let Some(wanted) = &self.capture.spill else {
            return;
        };
        let outcome = match &mut self.spill {
            Spill::Failed(_) => return,
            Spill::Writing { file, bytes, .. } => append(file, bytes, wanted.cap_bytes, rest),
            // The first loss: head and tail still hold everything before `rest`.
            Spill::NotYet => create(wanted).and_then(|mut file| {
                let mut bytes = 0;
                for part in [&self.head[..], &self.tail[..], rest] {
                    append(&mut file, &mut bytes, wanted.cap_bytes, part)?;
                }
                let path = wanted.path.clone();
                self.spill = Spill::Writing { file, path, bytes };
                Ok(())
            }),
        };
        if let Err(error) = outcome {
            // Half a file helps nobody, least of all on a full disk. A file that was there before us is
            // not ours to remove.
            if error.kind() != io::ErrorKind::AlreadyExists {
                let _ = std::fs::remove_file(&wanted.path);
            }
            self.spill = Spill::Failed(format!("{}: {error}", wanted.path.display()));
        }
    }

    pub fn finish(mut self) -> Captured {
        let surplus = self.tail.len().saturating_sub(self.capture.tail_bytes);
        self.tail.drain(..surplus);
        let (spill, spill_error) = match self.spill {
            Spill::NotYet => (None, None),
            Spill::Writing { path, bytes, .. } => (Some(Spilled { path, bytes }), None),
            Spill::Failed(why) => (None, Some(why)),
        };
        Captured { head: self.head, tail: self.tail, total_bytes: self.total, spill, spill_error }
    }
}

fn create(wanted: &SpillFile) -> io::Result<File> {
    if let Some(directory) = wanted.path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&wanted.path)
}

fn append(file: &mut File, written: &mut u64, cap: u64, part: &[u8]) -> io::Result<()> {
    let room = usize::try_from(cap.saturating_sub(*written)).unwrap_or(usize::MAX);
    let part = &part[..room.min(part.len())];
    file.write_all(part)?;
    *written += part.len() as u64;
    Ok(())
}

#[cfg(test)]
mod tests;
