//! What a tool may do to the session that calls it. The tools that need it are declared here like all others, with
//! name, schema and subject; what happens in the session is the business of whoever implements the trait.

use futures_util::future::BoxFuture;

/// The session as its tools can change it.
pub trait SessionActions: Send + Sync {
    /// Planning begins: nothing may be changed until a plan is approved. Nothing happens where it has begun.
    fn enter_plan_mode(&self) -> BoxFuture<'_, ()>;

    /// Planning is over: the mode from before it holds again. Nothing happens where another mode is in force, as
    /// after a host that chose one while it agreed to the plan.
    fn leave_plan_mode(&self) -> BoxFuture<'_, ()>;
}

/// No session: calls of a tool alone, as tests make them.
pub struct DetachedSession;

impl SessionActions for DetachedSession {
    fn enter_plan_mode(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn leave_plan_mode(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
