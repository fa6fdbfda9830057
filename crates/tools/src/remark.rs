//! What a tool tells people besides its result.

use futures_util::future::BoxFuture;

/// The way from a tool to the people who follow a session. The model hears nothing of it.
pub trait SessionRemarks: Send + Sync {
    /// Tells the host and the log of a problem that stops nothing. Programs look for the tag.
    fn remark<'a>(&'a self, tag: &'a str, text: &'a str) -> BoxFuture<'a, ()>;
}

/// Keeps nothing, for a tool that is called without a session.
impl SessionRemarks for crate::DetachedSession {
    fn remark<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}
