//! Shell analysis.

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
