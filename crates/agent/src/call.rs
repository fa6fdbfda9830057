//! One tool call, from the block that asks for it to its result. `toolrun.rs` is the only way to a tool and sets the
//! order of the steps; `permit.rs` decides whether the call may run, `decision.rs` names the decision; `planning.rs`,
//! `tool_loading.rs`, `web.rs` and `work_lists.rs` hold what tools may do to the session.

pub mod decision;
pub mod permit;
pub mod planning;
pub mod siblings;
mod tool_loading;
pub mod toolrun;
pub mod web;
pub mod work_lists;
