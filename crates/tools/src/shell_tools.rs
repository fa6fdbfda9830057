//! The tools that run commands and look after those that run in the background, one file each.

pub(crate) mod bash;
pub(crate) mod monitor;
pub(crate) mod startup;
pub(crate) mod task_output;
pub(crate) mod task_stop;
