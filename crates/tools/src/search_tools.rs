//! The tools that find files and lines of files, one file each.

pub(crate) mod glob;
pub(crate) mod grep;
pub(crate) mod search;
