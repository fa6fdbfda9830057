//! The tools that start turns later: cron jobs and wake-ups, one file each.

pub(crate) mod cron;
pub(crate) mod expression;
pub(crate) mod wakeup;
