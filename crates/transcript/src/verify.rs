//! Checks a session file for damage, without changing it.

use std::path::Path;

use serde::Serialize;

use crate::error::Result;
use crate::index::Index;
use crate::resume::{self, ResumeAt};

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Records that could be parsed.
    pub records: u64,
    /// Those of them that are part of a conversation.
    pub chain_records: u64,
    /// Messages that the model would get after a resume.
    pub messages: u64,
    /// Lines that could not be parsed, or only in part.
    pub bad_lines: u64,
    /// The number of the first of them, counted from 1.
    pub first_bad_line: Option<u64>,
    /// Lines with more than one record.
    pub joined_lines: u64,
    /// Lines too long to read.
    pub oversized_lines: u64,
    /// Whether the file ends inside a record.
    pub torn_tail: bool,
    /// Records whose uuid occurred before.
    pub duplicate_uuids: u64,
    /// Records whose parent is not in the file.
    pub missing_parents: u64,
    /// Tool calls of the current conversation without a result.
    pub dangling_calls: u64,
    /// Whether a resume would load at least one message.
    pub is_resumable: bool,
}

impl Report {
    /// Returns whether the file is intact and can be resumed. A dangling call is not damage: it comes from a session
    /// that was interrupted.
    pub fn is_sound(&self) -> bool {
        self.bad_lines == 0
            && self.joined_lines == 0
            && self.duplicate_uuids == 0
            && self.missing_parents == 0
            && self.is_resumable
    }
}

/// Checks the session file at `path` and reports what is damaged, after loading it as a resume would. Changes nothing.
pub fn verify(path: &Path) -> Result<Report> {
    let index = Index::open(path)?;
    let missing = (0..index.entries.len()).filter(|at| index.is_bridged(*at)).count();
    let resumed = resume::load(&index, path, ResumeAt::Latest)?;
    Ok(Report {
        records: index.records,
        chain_records: index.entries.len() as u64,
        messages: resumed.messages.len() as u64,
        bad_lines: index.damage.bad_lines,
        first_bad_line: index.damage.first_bad_line,
        joined_lines: index.damage.joined_lines,
        oversized_lines: index.damage.oversized_lines,
        torn_tail: index.damage.torn_tail,
        duplicate_uuids: index.duplicates,
        missing_parents: missing as u64,
        dangling_calls: resumed.dangling.len() as u64,
        is_resumable: !resumed.messages.is_empty(),
    })
}
