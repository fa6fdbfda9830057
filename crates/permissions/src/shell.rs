//! Shell analysis: from the bytes of a command to a list of everything it would run, and what that does.
//!
//! [`parse`] reads a script into a tree ([`ast`]), [`walk`] lists what the tree runs, looking through commands
//! that run others ([`unwrap`]), [`value`] says what a word becomes, [`commands`] knows what single programs do,
//! and [`texts`] is the form in which rules see a command. Nothing here knows rules or modes.

pub(crate) mod ast;
pub(crate) mod commands;
mod compound;
mod expansion;
pub(crate) mod parse;
mod redirect;
pub(crate) mod texts;
pub(crate) mod unwrap;
pub(crate) mod value;
pub(crate) mod walk;
mod word;

#[cfg(test)]
mod tests;
