//! Reads an output again, by offset: each reader keeps its own offset, so that any number of them can follow a command
//! at their own pace.
//!
//! `capture.rs` says where the bytes are; this module fetches them. A file is read without a lock on the output, so
//! that a slow disk does not hold up the command.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// A piece of an output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputPart {
    /// Where it begins. Later than requested if the bytes between were not kept.
    pub offset: u64,
    /// The bytes; empty if there are none from there on yet. The next piece begins at [`OutputPart::next_offset`].
    pub bytes: Vec<u8>,
    /// The size of the whole output at the time of reading.
    pub total_bytes: u64,
}

impl OutputPart {
    /// Returns the offset behind the last byte of this part, from which the next part is read.
    pub fn next_offset(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// One of the outputs of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// Stdout; with [`OutputMode::Merged`](crate::OutputMode::Merged) stderr too.
    Stdout,
    /// Stderr; empty if it is merged.
    Stderr,
    /// Both in the order in which they were read, if [`RunLimits::both`](crate::RunLimits::both) asked for it.
    Both,
}

/// The place of a piece.
pub(crate) enum Located {
    Memory(OutputPart),
    InFile { path: PathBuf, at: u64, len: usize, offset: u64, total_bytes: u64 },
}

impl Located {
    /// Returns the part, read from the file if it is not in memory; it is shorter than planned if the file ends before.
    /// `None` if the file cannot be read or has no byte there. Blocks on the disk, so no lock of the output may be
    /// held.
    pub fn fetch(self) -> Option<OutputPart> {
        match self {
            Self::Memory(part) => Some(part),
            Self::InFile { path, at, len, offset, total_bytes } => {
                let mut bytes = vec![0; len];
                let mut filled = 0;
                let file = File::open(path).ok()?;
                while filled < len {
                    match file.read_at(&mut bytes[filled..], at + filled as u64) {
                        Ok(0) => break,
                        Ok(count) => filled += count,
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(_) => return None,
                    }
                }
                bytes.truncate(filled);
                (filled > 0).then_some(OutputPart { offset, bytes, total_bytes })
            }
        }
    }
}
