//! What a session sees of the world: time, fresh ids, and a log. The program that runs sessions (the CLI, a test)
//! provides it, so that a session given the same script and the same host writes the same bytes.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Time and ids. Cheap calls, no I/O that can fail.
pub trait ProcessHost: Send + Sync {
    /// Returns a new UUID as text. Tests return the same ones every time.
    fn uuid(&self) -> String;

    /// Returns the wall time in milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;

    /// Returns the zone that people here mean when they name a time: UTC, unless the program knows better.
    fn time_zone(&self) -> TimeZone {
        TimeZone::UTC
    }

    /// Returns a number from 0 up to but not including 1, for delays and ids that are not secret.
    fn random(&self) -> f64;

    /// Returns the id of the process that the session runs in, or `None` if hosts must not know it.
    fn process_id(&self) -> Option<u32>;

    /// Writes a line for the operator of the program (stderr of the CLI) about something that went wrong. A clean
    /// run logs nothing.
    fn log(&self, line: &str);
}

/// Formats milliseconds since the epoch as `2026-01-31T12:00:00.000Z`. A time beyond the year 9999 becomes the last one
/// that can be written.
pub fn iso_time(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    // A clock beyond the year 9999 is broken, but a time stamp must not fail because of it.
    format!("{:.3}", time.unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_iso_utc() {
        assert_eq!(iso_time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso_time(951_782_399_999), "2000-02-28T23:59:59.999Z");
        assert_eq!(iso_time(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(iso_time(1_794_787_500_186), "2026-11-16T00:05:00.186Z");
        assert_eq!(iso_time(1_794_787_500_000), "2026-11-16T00:05:00.000Z");
        assert!(iso_time(u64::MAX).starts_with("9999-12-3"), "{}", iso_time(u64::MAX));
    }
}
