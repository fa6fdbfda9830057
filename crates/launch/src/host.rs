//! Time and ids of the real world, and the log.
#![allow(clippy::disallowed_methods, reason = "this is where wall time and fresh ids come from")]
#![allow(clippy::disallowed_macros, reason = "the log of a run is stderr")]

use std::time::{SystemTime, UNIX_EPOCH};

use lathe_agent::host::Host;

/// The machine we run on.
pub struct RealHost;

impl Host for RealHost {
    fn uuid(&self) -> String {
        uuid::Uuid::new_v4().to_string()
    }

    fn now_ms(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
    }

    fn random(&self) -> f64 {
        let (high, _) = uuid::Uuid::new_v4().as_u64_pair();
        // The top bits of a v4 UUID are all random; 32 of them are plenty for jitter.
        (high >> 32) as f64 / f64::from(u32::MAX)
    }

    fn log(&self, line: &str) {
        eprintln!("lathe: {line}");
    }
}
