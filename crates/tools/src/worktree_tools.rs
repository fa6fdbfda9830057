//! Worktrees: further checkouts of a repository, in which an agent works without touching the files of the folder it
//! was started in.
//!
//! [`git`] runs git so that an untrusted repository starts no program. [`create`] and [`remove`] work on a
//! [`Worktree`](create::Worktree), a plain value; they know no session, so that the main agent and its subagents use
//! them alike. [`enter`] and [`exit`] are the tools; they act through [`actions::WorktreeActions`], because which
//! folder an agent works in is the session's.

pub mod actions;
pub mod create;
pub mod enter;
pub mod exit;
mod facts;
pub mod git;
pub mod name;
mod place;
pub mod refusal;
pub mod remove;
#[cfg(test)]
mod tests;
