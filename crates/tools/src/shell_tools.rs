//! The tools that run commands and look after those that run in the background, one file each.

pub(crate) mod bash;
