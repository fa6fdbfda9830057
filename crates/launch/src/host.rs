//! The real [`ProcessHost`]: wall time, fresh ids, and the log of a session as warnings.
#![allow(clippy::disallowed_methods, reason = "this is where wall time and fresh ids come from")]

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;
use lathe_agent::ProcessHost;

use crate::env::LaunchEnvironment;
use crate::warning::{LaunchWarning, WarningSink};

/// The host of sessions in a real process.
pub struct RealHost {
    process_id: Option<u32>,
    /// `TZ` of the environment.
    zone_name: Option<String>,
    /// Set when a session first asks: most do not, and it may mean reading a file.
    zone: OnceLock<TimeZone>,
    /// Receives the lines of the log.
    warnings: WarningSink,
}

impl RealHost {
    /// Creates a host with the process id and the `TZ` of `env`, whose log goes to `warnings`.
    pub fn new(env: &LaunchEnvironment, warnings: WarningSink) -> Self {
        let zone_name = env.get("TZ").map(str::to_owned);
        Self { process_id: env.pid, zone_name, zone: OnceLock::new(), warnings }
    }
}

/// The zone of the machine.
const LOCAL_TIME: &str = "/etc/localtime";

/// Returns the zone that `named` (the value of `TZ`) names, or that of the machine if it is `None`; UTC if the zone is
/// not known. May read a file.
fn time_zone(named: Option<&str>) -> TimeZone {
    let Some(name) = named else {
        // Not `TimeZone::system`, which reads the variable of the process itself.
        let file = std::fs::read(LOCAL_TIME).ok();
        return file.and_then(|bytes| TimeZone::tzif("", &bytes).ok()).unwrap_or(TimeZone::UTC);
    };
    // As the C library reads it: `:Europe/Berlin` is a name too, and any other text may be a rule.
    let name = name.strip_prefix(':').unwrap_or(name);
    TimeZone::get(name).or_else(|_| TimeZone::posix(name)).unwrap_or(TimeZone::UTC)
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

    fn time_zone(&self) -> TimeZone {
        self.zone.get_or_init(|| time_zone(self.zone_name.as_deref())).clone()
    }

    fn random(&self) -> f64 {
        let (high, _) = uuid::Uuid::new_v4().as_u64_pair();
        // The top bits of a v4 UUID are all random, and 32 of them are enough for jitter.
        (high >> 32) as f64 / (f64::from(u32::MAX) + 1.0)
    }

    fn process_id(&self) -> Option<u32> {
        self.process_id
    }

    fn log(&self, line: &str) {
        (self.warnings)(LaunchWarning::Running(line.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn the_zone_is_that_of_the_environment() {
        let summer = Timestamp::from_second(1_782_000_000).unwrap();
        let offset = |named| time_zone(named).to_offset(summer).to_string();
        assert_eq!(offset(Some("CET-1CEST,M3.5.0,M10.5.0/3")), "+02");
        assert_eq!(offset(Some("UTC")), "+00");
        assert_eq!(offset(Some("no such zone")), "+00");
        assert_eq!(offset(Some(":/../etc/passwd")), "+00");
    }
}
