//! What all sessions of a process share. The program that starts sessions makes it once and hands it to each of them,
//! so that a thousand sessions have one clock, one list of models and one limit of commands. Nothing here belongs to a
//! conversation.

use std::sync::Arc;
use std::time::Duration;

use lathe_exec::ProcessLimits;
use lathe_models::catalog::Catalog;
use lathe_models::retry::RetryPolicy;

use crate::state::host::ProcessHost;

/// The services of a process, shared by its sessions.
pub struct ProcessServices {
    /// Clock, ids and log.
    pub host: Arc<dyn ProcessHost>,
    /// The models that names stand for.
    pub catalog: Catalog,
    /// When a failed request is sent again.
    pub retry: RetryPolicy,
    /// How many commands, searches and hooks run at the same time.
    pub limits: ProcessLimits,
}

/// The wait before another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryWait {
    /// Which retry follows; the first is 1.
    pub attempt: u32,
    pub max_retries: u32,
    pub delay: Duration,
}
