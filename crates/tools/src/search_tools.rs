//! The tools that find files, lines of files and tools, one file each.

pub(crate) mod glob;
pub(crate) mod grep;
pub(crate) mod search;
pub(crate) mod tool_search;
