//! What the file tools share: safe opening, atomic replacing, text with its line endings, patches, and the record of
//! what has been read. Nothing here knows a tool or a permission.

pub(crate) mod error;
pub mod keep;
pub(crate) mod open;
pub(crate) mod patch;
pub(crate) mod real;
pub(crate) mod replace;
pub(crate) mod seen;
pub(crate) mod text;

pub(crate) use error::FileError;
