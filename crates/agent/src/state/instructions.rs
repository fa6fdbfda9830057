//! The memory files of a conversation, as values. `changes/memory_files.rs` reads them again and tells hooks about
//! them.

use lathe_protocol::reminder::system_reminder;
use lathe_settings::memory::{LoadReason, Memory, MemoryFile, ReadCheck};

/// The memory of a conversation; none if it has no files.
#[derive(Debug, Default)]
pub struct MemoryInstructions {
    pub memory: Option<Memory>,
}

impl MemoryInstructions {
    /// Keeps the memory files that were read at the start; `None` if the session reads none.
    pub fn new(memory: Option<Memory>) -> Self {
        Self { memory }
    }

    /// Reads the memory files again, for a conversation that may begin anew, and returns them; `self` stays as it is.
    /// `None` if the session has none. Only files that `may_read` permits are read.
    pub fn read_again(&self, reason: LoadReason, may_read: ReadCheck) -> Option<Memory> {
        self.memory.as_ref().map(|memory| memory.read_again(reason, may_read))
    }

    /// Returns the text of the memory files that apply from the start, as the reminder that a conversation begins with;
    /// `None` without such text.
    pub fn preamble(&self) -> Option<String> {
        self.memory.as_ref().and_then(preamble_of)
    }

    /// Returns the memory files that the model has been given in this conversation; empty if the session reads none.
    pub fn told(&self) -> &[MemoryFile] {
        self.memory.as_ref().map(Memory::files).unwrap_or_default()
    }
}

/// Returns the text of the memory files that apply from the start, as the reminder that a conversation begins with;
/// `None` without such text.
pub(crate) fn preamble_of(memory: &Memory) -> Option<String> {
    memory.text().map(|text| system_reminder(&text))
}
