//! The real [`ProcessHost`]: wall time, fresh ids, and the log of a session as warnings.
#![allow(clippy::disallowed_methods, reason = "this is where wall time and fresh ids come from")]

use std::time::{SystemTime, UNIX_EPOCH};

use lathe_agent::ProcessHost;

use crate::warning::{LaunchWarning, WarningSink};

/// The host of sessions in a real process.
pub struct RealHost {
    process_id: Option<u32>,
    /// Receives the lines of the log.
    warnings: WarningSink,
}

impl RealHost {
    /// Creates a host whose log goes to `warnings`.
    pub fn new(process_id: Option<u32>, warnings: WarningSink) -> Self {
        Self { process_id, warnings }
    }
}

/// Returns a new UUID as text.
pub fn fresh_uuid() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Returns the wall time in milliseconds since the Unix epoch; 0 for a clock before 1970.
pub fn now_ms() -> u64 {
    // A clock before 1970 counts as 1970.
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
        // The top bits of a v4 UUID are all random, and 32 of them are enough for jitter.
        (high >> 32) as f64 / f64::from(u32::MAX)
    }

    fn process_id(&self) -> Option<u32> {
        self.process_id
    }

    fn log(&self, line: &str) {
        (self.warnings)(LaunchWarning::Running(line.to_owned()));
    }
}
