//! What a conversation leaves behind: the messages the model gets back (`history.rs`), the records of the session's
//! files (`journal.rs`), copies of files before they change (`checkpoints.rs`), what was spent (`totals.rs`), and the
//! forms these take on the way. Knows nothing of sessions and agents.

pub mod bound;
pub mod checkpoints;
pub mod estimate;
pub mod history;
pub mod journal;
pub mod response;
pub mod tool_call;
pub mod tool_result;
pub mod totals;
