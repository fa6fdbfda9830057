//! The records of a conversation: the messages that go back to the model (`history.rs`), the records of the session's
//! files (`journal.rs`), copies of files before they change (`checkpoints.rs`), what was spent (`totals.rs`), and the
//! types for all of these. Depends on no other folder of this crate.

pub mod bound;
pub mod checkpoints;
pub mod estimate;
pub mod history;
pub mod journal;
pub mod response;
pub mod tool_call;
pub mod tool_result;
pub mod totals;
