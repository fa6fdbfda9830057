//! Tools that read the web: WebFetch gets a page and has a small model answer a question about it, WebSearch has the
//! API of the model search.
//!
//! What both need of the session (its HTTP client, its rules, its model) are the [`WebActions`](actions::WebActions);
//! what the agents of a session share between their calls is the [`WebState`](state::WebState). Which hosts may be
//! reached is judged in `reach.rs`, for every request anew.

pub(crate) mod actions;
mod body;
mod cache;
pub(crate) mod fetch;
mod markdown;
mod page;
mod reach;
pub(crate) mod search;
pub(crate) mod state;
