//! The memory files of a conversation, as values. When they are read again and who is told is
//! `changes/memory_files.rs`.

use lathe_protocol::reminder::system_reminder;
use lathe_settings::memory::{LoadReason, Memory, MemoryFile, ReadCheck};

/// The memory of a conversation; none where it has no files.
#[derive(Debug, Default)]
pub struct MemoryInstructions {
    pub memory: Option<Memory>,
}

impl MemoryInstructions {
    pub fn new(memory: Option<Memory>) -> Self {
        Self { memory }
    }

    /// The files as they are now, for a conversation that may begin anew.
    pub fn read_again(&self, reason: LoadReason, may_read: ReadCheck) -> Option<Memory> {
        self.memory.as_ref().map(|memory| memory.read_again(reason, may_read))
    }

    /// What a conversation begins with: the files that count from the start.
    pub fn preamble(&self) -> Option<String> {
        self.memory.as_ref().and_then(preamble_of)
    }

    /// The files that were told so far.
    pub fn told(&self) -> &[MemoryFile] {
        self.memory.as_ref().map(Memory::files).unwrap_or_default()
    }
}

/// What a conversation begins with: the files that count from the start.
pub(crate) fn preamble_of(memory: &Memory) -> Option<String> {
    memory.text().map(|text| system_reminder(&text))
}
