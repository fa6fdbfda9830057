//! Session files: `<config>/projects/<project>/<session id>.jsonl`, one JSON record per line.
//!
//! The file is a log. One writer appends ([`writer`]); readers load every record that is intact ([`resume`],
//! [`sessions`]). Nothing is ever rewritten: a rewind is a new branch, a compaction is a boundary before which the old
//! records stay, a title is one more record. Other programs read and append to the same files, so the names and the
//! order of fields are given by that format.
//!
//! This crate reads no environment and no clock: the caller passes directories, ids and times. It calls no model and
//! knows no tools; messages pass through as JSON.

pub mod error;
pub mod export;
pub mod fork;
mod head;
pub mod history;
mod index;
pub mod lines;
mod mend;
mod message;
mod names;
pub mod paths;
mod peek;
mod raw;
pub mod reader;
pub mod record;
pub mod resume;
pub mod retention;
pub mod sessions;
pub mod subagents;
pub mod tasks;
pub mod verify;
pub mod writer;

pub use error::{Result, TranscriptError};
pub use export::{ExportFormat, export};
pub use fork::{ForkIds, ForkPlan, fork};
pub use history::{DanglingCall, DeferredCall, HistoryMessage};
pub use names::Names;
pub use paths::{SessionPaths, is_session_id, project_key};
pub use peek::SessionInfo;
pub use reader::{MessageRow, each_message, records_of, session_messages};
pub use record::{CostState, Line, Record, SideRecord};
pub use resume::{PromptIds, ResumeAt, Resumed, Warning, load_for_resume};
pub use retention::{Swept, shell_snapshot, sweep, sweep_outputs};
pub use sessions::{Page, SessionScope, Sessions};
pub use subagents::{AgentMeta, list_subagents, read_agent_meta, subagent_messages, write_agent_meta};
pub use tasks::{RecordedTask, RecordedTasks, UntoldEnd, recorded_tasks};
pub use verify::{Report, verify};
pub use writer::{Appended, Durability, TranscriptWriter};
