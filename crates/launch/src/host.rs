//! Time and ids of the real world, and the way out of a session's log.
#![allow(clippy::disallowed_methods, reason = "this is where wall time and fresh ids come from")]

use std::time::{SystemTime, UNIX_EPOCH};

use lathe_agent::ProcessHost;

use crate::warning::{LaunchWarning, WarningSink};

/// The machine we run on.
pub struct RealHost {
    process_id: Option<u32>,
    /// Gets the lines of the log.
    warnings: WarningSink,
}

impl RealHost {
    /// A host in this process, whose log goes to `warnings`.
    pub fn new(process_id: Option<u32>, warnings: WarningSink) -> Self {
        Self { process_id, warnings }
    }
}

/// A new UUID, as text.
pub fn fresh_uuid() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Wall time, milliseconds since the Unix epoch.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

impl ProcessHost for RealHost {
    fn uuid(&self) -> String {
        fresh_uuid()
    }

    fn now_ms(&self) -> u64 {
        now_ms()
    }

    fn random(&self) -> f64 {
        let (high, _) = uuid::Uuid::new_v4().as_u64_pair();
        // The top bits of a v4 UUID are all random; 32 of them are plenty for jitter.
        (high >> 32) as f64 / f64::from(u32::MAX)
    }

    fn process_id(&self) -> Option<u32> {
        self.process_id
    }

    fn log(&self, line: &str) {
        (self.warnings)(LaunchWarning::Running(line.to_owned()));
    }
}
