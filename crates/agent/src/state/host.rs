//! The world, as far as a session may see it: time, fresh ids, and somebody who reads a log. Handed in by whoever runs sessions
//! (the CLI, a test), so that a session given the same script and the same host writes the same bytes.

/// Time and ids. Cheap calls, no I/O that can fail.
pub trait Host: Send + Sync {
    /// A new UUID, as text.
    fn uuid(&self) -> String;

    /// Wall time, milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;

    /// A number in `0.0..1.0`, for jitter.
    fn random(&self) -> f64;

    /// The process that the session runs in, where that may be known.
    fn process_id(&self) -> Option<u32>;

    /// A line for whoever looks after the program (stderr of the CLI): something went wrong that the
    /// conversation itself may not show. A clean run logs nothing.
    fn log(&self, line: &str);
}

/// `2026-01-31T12:00:00.000Z` for a time in milliseconds since the epoch.
pub fn iso_time(ms: u64) -> String {
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = civil_from_days(days as i64);
    let (hours, minutes) = (rest / 3_600_000, rest / 60_000 % 60);
    let (seconds, millis) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z")
}

/// Year, month and day of a day number counted from 1970-01-01 (proleptic Gregorian calendar).
/// The year is taken to begin in March, so that the leap day is its last day and months have a fixed
/// pattern; eras of 400 years repeat exactly.
fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u32, day as u32)
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
    }
}
