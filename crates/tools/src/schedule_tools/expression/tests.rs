//! The next time of an expression, against a search that looks at every minute.

use jiff::civil::date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::*;

fn zone(name: &str) -> TimeZone {
    // Written out, because the machine of the test may have no data base of zones.
    TimeZone::posix(match name {
        "berlin" => "CET-1CEST,M3.5.0,M10.5.0/3",
        "new york" => "EST5EDT,M3.2.0,M11.1.0",
        // A gap of half an hour.
        "lord howe" => "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
        // A gap at midnight.
        "havana" => "CST5CDT,M3.2.0/0,M11.1.0/1",
        _ => "UTC0",
    })
    .unwrap()
}

const ZONES: [&str; 5] = ["utc", "berlin", "new york", "lord howe", "havana"];

fn next(expression: &str, after: &str, zone_name: &str) -> Option<String> {
    let after = after.parse::<DateTime>().unwrap().to_zoned(zone(zone_name)).unwrap();
    let found = CronExpression::parse(expression).unwrap().next_after(&after)?;
    Some(found.strftime("%Y-%m-%d %H:%M %:z").to_string())
}

#[test]
fn the_next_time_is_found() {
    let cases = [
        ("* * * * *", "2026-11-16T00:04:13", Some("2026-11-16 00:05 +00:00")),
        ("* * * * *", "2026-11-16T00:05:00", Some("2026-11-16 00:06 +00:00")),
        ("*/5 * * * *", "2026-11-16T00:04:13", Some("2026-11-16 00:05 +00:00")),
        ("5 4 * * *", "2026-11-18T04:05:00", Some("2026-11-19 04:05 +00:00")),
        ("0 0 1 1 *", "2026-11-16T00:04:13", Some("2027-01-01 00:00 +00:00")),
        ("0 0 29 2 *", "2096-02-29T00:00:00", Some("2104-02-29 00:00 +00:00")),
        ("0 0 30 2 *", "2026-11-16T00:04:13", None),
        ("0 0 31 4,6,9,11 *", "2026-11-16T00:04:13", None),
        // Either day field, if both name days; 7 is Sunday.
        ("0 0 13 * 5", "2026-11-09T00:00:00", Some("2026-11-13 00:00 +00:00")),
        ("0 0 14 * 7", "2026-11-14T00:00:00", Some("2026-11-15 00:00 +00:00")),
        // A star with a step names no day, so both have to suit.
        ("0 0 */2 * 1", "2026-11-16T00:00:00", Some("2026-11-23 00:00 +00:00")),
        ("10-20/5,58 6 * * 1-5", "2026-11-20T06:20:00", Some("2026-11-20 06:58 +00:00")),
        ("50/5 * * * *", "2026-11-20T06:51:00", Some("2026-11-20 06:55 +00:00")),
    ];
    for (expression, after, expected) in cases {
        assert_eq!(next(expression, after, "utc").as_deref(), expected, "{expression}");
    }
}

#[test]
fn a_change_of_the_clocks_neither_drops_nor_repeats_a_daily_job() {
    let cases = [
        // 02:30 does not come on this day.
        ("30 2 * * *", "2026-03-28T02:30:00", Some("2026-03-29 03:30 +02:00")),
        ("30 2 * * *", "2026-03-29T03:30:00", Some("2026-03-30 02:30 +02:00")),
        // 02:30 comes twice.
        ("30 2 * * *", "2026-10-24T02:30:00", Some("2026-10-25 02:30 +02:00")),
        ("*/30 * * * *", "2026-03-29T01:30:00", Some("2026-03-29 03:00 +02:00")),
    ];
    for (expression, after, expected) in cases {
        assert_eq!(next(expression, after, "berlin").as_deref(), expected, "{expression} {after}");
    }
    let zone = zone("berlin");
    let first = date(2026, 10, 25).at(2, 30, 0, 0).to_zoned(zone).unwrap();
    let after = |expression: &str| CronExpression::parse(expression).unwrap().next_after(&first).unwrap();
    assert_eq!(after("30 2 * * *").strftime("%d %H:%M %:z").to_string(), "26 02:30 +01:00");
    assert_eq!(after("*/30 * * * *").strftime("%d %H:%M %:z").to_string(), "25 02:00 +01:00");
}

#[test]
fn what_is_no_expression_is_refused() {
    let long = "1,".repeat(100) + "1 * * * *";
    assert!(CronExpression::parse(&long).is_ok());
    for text in [
        "bad",
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 0 *",
        "* * * 13 *",
        "* * * * 8",
        "*/0 * * * *",
        "5-1 * * * *",
        "1- * * * *",
        "-1 * * * *",
        "+1 * * * *",
        ", * * * *",
        "1, * * * *",
        "* * * jan *",
        "* * * * mon",
        "? * * * *",
        "1/ * * * *",
        "001 * * * *",
        "1-2-3 * * * *",
        "*-5 * * * *",
        "@daily",
        "٣ * * * *",
    ] {
        let refused = CronExpression::parse(text).unwrap_err().to_string();
        assert_eq!(refused, format!("Invalid cron expression '{text}'. Expected 5 fields: M H DoM Mon DoW."));
    }
}

#[test]
fn short_schedules_have_words() {
    let cases = [
        ("* * * * *", "Every minute"),
        ("*/5 * * * *", "Every 5 minutes"),
        ("0 * * * *", "Every hour"),
        ("7 * * * *", "Every hour at :07"),
        ("0 */2 * * *", "Every 2 hours"),
        ("5 4 * * *", "Every day at 4:05 AM"),
        ("30 0 * * *", "Every day at 12:30 AM"),
        ("0 12 * * *", "Every day at 12:00 PM"),
        ("0 9 * * 1-5", "Weekdays at 9:00 AM"),
        ("0 9 * * 7", "Every Sunday at 9:00 AM"),
        ("0 0 1 1 *", "0 0 1 1 *"),
        ("*/5 9-17 * * *", "*/5 9-17 * * *"),
        ("5 */2 * * *", "5 */2 * * *"),
        ("1,2  3 * * 2,4", "1,2 3 * * 2,4"),
        ("*/60 * * * *", "Every hour"),
    ];
    for (expression, words) in cases {
        assert_eq!(CronExpression::parse(expression).unwrap().in_words(), words, "{expression}");
    }
}

#[test]
fn times_are_shown_to_the_nearest_minute() {
    for (ms, text) in [
        (1_794_787_738_655, "Nov 16 12:09am"),
        (1_798_761_585_325, "Jan 1 12:00am"),
        (1_794_787_700_000 + 12 * 3_600_000, "Nov 16 12:08pm"),
    ] {
        assert_eq!(shown(&Timestamp::from_millisecond(ms).unwrap().to_zoned(TimeZone::UTC)), text);
    }
}

/// The next time by looking at every minute of the clock on the wall, in a field written out as a set.
fn by_search(fields: &[Vec<u32>; 5], stars: [bool; 3], after: &Zoned) -> Option<Zoned> {
    let mut local = after.date().yesterday().unwrap().at(0, 0, 0, 0);
    let mut found: Option<Zoned> = None;
    for _ in 0..40 * 24 * 60 {
        let values = [local.minute() as u32, local.hour() as u32, local.day() as u32, local.month() as u32];
        let [minute, hour, day, month] = [0, 1, 2, 3].map(|field| fields[field].contains(&values[field]));
        let weekday = fields[4].contains(&(local.weekday().to_sunday_zero_offset() as u32));
        let days = if stars[1] || stars[2] { day && weekday } else { day || weekday };
        if minute && hour && month && days {
            let times = after.time_zone().to_ambiguous_zoned(local);
            let repeats = stars[0] && matches!(times.offset(), AmbiguousOffset::Fold { .. });
            let both = [Some(times.clone().compatible().unwrap()), repeats.then(|| times.later().unwrap())];
            for time in both.into_iter().flatten().filter(|time| time > after) {
                found = Some(found.map_or_else(|| time.clone(), |found| found.min(time.clone())));
            }
        }
        local += SignedDuration::from_mins(1);
        // A time two days behind what was found cannot come before it.
        if found.as_ref().is_some_and(|found| local > found.datetime() + SignedDuration::from_hours(48)) {
            return found;
        }
    }
    found
}

/// A field as text, its values, and whether it begins with a star.
fn field(low: u32, high: u32) -> impl Strategy<Value = (String, Vec<u32>, bool)> {
    let part = (low..=high, low..=high, prop::option::of(1..=high)).prop_map(|(a, b, step)| {
        let (first, last) = (a.min(b), a.max(b));
        let text = match step {
            Some(step) => format!("{first}-{last}/{step}"),
            None if first == last => first.to_string(),
            None => format!("{first}-{last}"),
        };
        (text, (first..=last).step_by(step.unwrap_or(1) as usize).collect::<Vec<_>>())
    });
    let list = prop::collection::vec(part, 1..4).prop_map(|parts| {
        let texts: Vec<String> = parts.iter().map(|(text, _)| text.clone()).collect();
        (texts.join(","), parts.into_iter().flat_map(|(_, values)| values).collect(), false)
    });
    let star = (1..=high).prop_map(move |step| {
        let text = if step == 1 { "*".to_owned() } else { format!("*/{step}") };
        (text, (low..=high).step_by(step as usize).collect(), true)
    });
    prop_oneof![2 => Just(("*".to_owned(), (low..=high).collect(), true)), 1 => star, 3 => list]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn the_next_time_is_the_one_that_a_search_finds(
        minute in field(0, 59), hour in field(0, 23), day in field(1, 31), weekday in field(0, 7),
        zone_name in prop::sample::select(&ZONES[..]), season in 0..3_i64, second in 0..20 * 86_400_i64,
    ) {
        let weekdays = weekday.1.iter().map(|day| day % 7).collect();
        // Around the changes of the clocks in spring and autumn, and in between.
        let begin = [date(2026, 3, 5), date(2026, 10, 20), date(2027, 2, 20)][season as usize];
        let after = begin.at(0, 0, 0, 0).to_zoned(zone(zone_name)).unwrap();
        let after = after.checked_add(SignedDuration::from_secs(second)).unwrap();
        let text = format!("{} {} {} * {}", minute.0, hour.0, day.0, weekday.0);
        let fields = [minute.1, hour.1, day.1, (1..=12).collect(), weekdays];
        let expected = by_search(&fields, [hour.2, day.2, weekday.2], &after);
        let found = CronExpression::parse(&text).unwrap().next_after(&after);
        match (expected, found) {
            // Beyond what the search looks at.
            (None, found) => prop_assert!(
                found.is_none_or(|found| found.date() > after.date() + SignedDuration::from_hours(24 * 37)), "{text}"
            ),
            (expected, found) => prop_assert_eq!(expected, found, "{} after {}", text, after),
        }
    }

    #[test]
    fn nothing_makes_the_parser_panic(text in "[ */,0-9a-z-]{0,40}") {
        if let Ok(expression) = CronExpression::parse(&text) {
            prop_assert_eq!(CronExpression::parse(expression.as_str()), Ok(expression.clone()));
            let after = date(2026, 11, 16).at(0, 0, 0, 0).to_zoned(TimeZone::UTC).unwrap();
            if let Some(next) = expression.next_after(&after) {
                prop_assert!(next > after);
            }
            prop_assert!(!expression.in_words().is_empty());
        }
    }
}
