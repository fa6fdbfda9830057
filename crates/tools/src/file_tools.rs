//! The tools that read and change files, one file each.

pub(crate) mod edit;
pub(crate) mod multi_edit;
pub(crate) mod notebook;
pub(crate) mod notebook_edit;
pub(crate) mod read;
pub(crate) mod write;
