//! Every line that crosses the standard streams of a session, as types that keep what they do not know.

pub mod usage;
pub use usage::Usage;
