//! When a cron job starts its turn: the time of its expression, moved a little.
//!
//! Jobs are moved so that those of many sessions, which people schedule for round times, do not all ask the model at
//! once. How far is a fraction that follows from the id of the job, so it is the same after every start. A recurring job
//! comes later by that fraction of the time to its next turn, by half an hour at most. A job that comes once, at a full
//! or half hour that its expression names, comes up to 90 s earlier. Every other job comes when it says.

use jiff::{SignedDuration, Zoned};
use lathe_tools::{CronExpression, CronRecurrence};

/// The most that a recurring job comes late.
const LATEST: SignedDuration = SignedDuration::from_mins(30);

/// The most that a job which comes once is early.
const EARLIEST_SECS: f64 = 90.0;

/// After this time a recurring job is removed.
pub const LIFETIME_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// Returns when a job next starts a turn, with the shift that the module describes; `None` if never. `after` is when
/// the job was created or last started a turn. For the same arguments the time is always the same.
pub fn next_fire(
    cron: &CronExpression,
    recurrence: CronRecurrence,
    id: &str,
    after: &Zoned,
) -> Option<Zoned> {
    let due = cron.next_after(after)?;
    match recurrence {
        CronRecurrence::Recurring => {
            let Some(next) = cron.next_after(&due) else { return Some(due) };
            let period = due.duration_until(&next);
            let late = SignedDuration::try_from_secs_f64(period.as_secs_f64() * fraction(id)).ok()?;
            due.checked_add(late.min(LATEST)).ok()
        }
        CronRecurrence::Once => {
            if !matches!(cron.fixed_minute(), Some(0 | 30)) {
                return Some(due);
            }
            let early = SignedDuration::try_from_secs_f64(EARLIEST_SECS * fraction(id)).ok()?;
            let moved = due.checked_sub(early).ok()?;
            Some(moved.max(after.clone()))
        }
    }
}

/// Returns a number from 0 up to but not including 1 that follows from the first eight characters of the id, read as
/// hexadecimal digits; 0 if they are none.
fn fraction(id: &str) -> f64 {
    let digits = id.get(..8).unwrap_or(id);
    u32::from_str_radix(digits, 16).map_or(0.0, |number| f64::from(number) / 4_294_967_296.0)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use jiff::tz::TimeZone;

    use super::*;

    fn fire(cron: &str, recurrence: CronRecurrence, id: &str, after: &str) -> String {
        let after = after.parse::<Timestamp>().unwrap().to_zoned(TimeZone::UTC);
        let cron = CronExpression::parse(cron).unwrap();
        next_fire(&cron, recurrence, id, &after).unwrap().timestamp().to_string()
    }

    #[test]
    fn recurring_jobs_come_late_and_single_ones_at_round_times_early() {
        use CronRecurrence::{Once, Recurring};
        let cases = [
            // Known from the reference: 4:05 becomes 4:35, and midnight 00:30.
            ("5 4 * * *", Recurring, "2261c182", "2026-11-18T02:00:00Z", "2026-11-18T04:35:00Z"),
            ("0 0 1 1 *", Recurring, "5f644303", "2026-11-16T00:08:07Z", "2027-01-01T00:30:00Z"),
            // 14.67 s early, as there.
            ("0 0 1 1 *", Once, "29bdff78", "2026-11-16T00:04:13Z", "2026-12-31T23:59:45.325015057Z"),
            ("* * * * *", Once, "ffffffff", "2026-11-16T00:29:13Z", "2026-11-16T00:30:00Z"),
            ("7 * * * *", Once, "ffffffff", "2026-11-16T00:04:13Z", "2026-11-16T00:07:00Z"),
            ("*/5 * * * *", Recurring, "00000000", "2026-11-16T00:04:13Z", "2026-11-16T00:05:00Z"),
            ("*/5 * * * *", Recurring, "80000000", "2026-11-16T00:04:13Z", "2026-11-16T00:07:30Z"),
            // Never before it was asked for.
            ("30 * * * *", Once, "ffffffff", "2026-11-16T00:29:40Z", "2026-11-16T00:29:40Z"),
            // Of another program, with an id of another form.
            ("*/5 * * * *", Recurring, "mine", "2026-11-16T00:04:13Z", "2026-11-16T00:05:00Z"),
            ("*/5 * * * *", Recurring, "größer", "2026-11-16T00:04:13Z", "2026-11-16T00:05:00Z"),
        ];
        for (cron, recurrence, id, after, expected) in cases {
            assert_eq!(fire(cron, recurrence, id, after), expected, "{cron} {id}");
        }
    }

    #[test]
    fn a_recurring_job_never_overtakes_its_next_turn() {
        for id in ["00000000", "7fffffff", "ffffffff"] {
            let mut now = "2026-11-16T00:04:13Z".to_owned();
            for minute in 5..15 {
                let next = fire("* * * * *", CronRecurrence::Recurring, id, &now);
                assert!(next.starts_with(&format!("2026-11-16T00:{minute:02}:")), "{id}: {now}, {next}");
                now = next;
            }
        }
    }
}
