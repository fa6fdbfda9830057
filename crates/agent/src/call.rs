//! One tool call, from the block that asks for it to its result. `toolrun.rs` is the only way to a tool and says in
//! which order things happen; `permit.rs` decides whether the call may run, `decision.rs` names what came out;
//! `planning.rs` is what tools may do to the session.

pub mod decision;
pub mod permit;
pub mod planning;
pub mod siblings;
pub mod toolrun;
