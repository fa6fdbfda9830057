//! The tools whose result is for the person or the program behind the session, one file each.

pub mod ask_user;
pub mod plan;
pub(crate) mod plan_in_call;
pub(crate) mod report_findings;
pub(crate) mod structured;
