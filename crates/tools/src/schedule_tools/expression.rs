//! Cron expressions of five fields: minute, hour, day of the month, month, day of the week, in the local time zone.
//!
//! A field is `*`, a number, a range `a-b` or a list of these with commas, each range and `*` with an optional step
//! `/n`. Names of months and days are refused: the file of lasting jobs is shared with programs that do not know them.
//! As in every cron, a day has to suit both day fields, unless both name days: then it has to suit one of them.
//!
//! The surprising part is a change of the clocks. A time that the clock skips counts for the moment as far behind the
//! gap (02:30 becomes 03:30). A time that comes twice counts the first time only, unless the expression is for every
//! hour or every so many: such a job would otherwise pause for an hour.

use std::fmt;

use jiff::civil::{Date, DateTime};
use jiff::tz::AmbiguousOffset;
use jiff::{Unit, Zoned};

/// Days that are searched for the next time. 29 February comes at least every eight years.
const SEARCH_DAYS: usize = 8 * 366 + 2;

/// When a cron job is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronExpression {
    /// As it was written, with single blanks.
    text: String,
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    /// 0 is Sunday.
    weekdays: Field,
}

/// The values that one field names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    /// A bit for each value.
    bits: u64,
    /// Whether it begins with `*`, with a step or without one: it then does not restrict days.
    is_star: bool,
    /// Whether it is `*`, or says the same with a step of 1.
    is_plain_star: bool,
}

/// A text that is not a cron expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid cron expression '{0}'. Expected 5 fields: M H DoM Mon DoW.")]
pub struct InvalidCron(pub String);

impl CronExpression {
    /// Reads an expression of five fields; the error repeats the text if it is not valid.
    pub fn parse(text: &str) -> Result<Self, InvalidCron> {
        Self::read(text).ok_or_else(|| InvalidCron(text.to_owned()))
    }

    /// Parses the five fields of an expression; `None` if one is not valid. 7 counts as Sunday, like 0.
    fn read(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else { return None };
        // 7 is Sunday as well.
        let mut weekdays = Field::parse(weekday, 0, 7)?;
        weekdays.bits = (weekdays.bits | (weekdays.bits >> 7)) & 0x7f;
        Some(Self {
            text: fields.join(" "),
            minutes: Field::parse(minute, 0, 59)?,
            hours: Field::parse(hour, 0, 23)?,
            days: Field::parse(day, 1, 31)?,
            months: Field::parse(month, 1, 12)?,
            weekdays,
        })
    }

    /// Returns the expression as it was written, with one space between its fields.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the first time after `after`, in the time zone of `after`; `None` if no date within the days that are
    /// searched fits.
    pub fn next_after(&self, after: &Zoned) -> Option<Zoned> {
        // A gap in the clock moves times of one day into the next, so the search begins a day early and, where it finds
        // a time, also looks at the day behind it.
        let mut date = after.date().yesterday().ok()?;
        for _ in 0..SEARCH_DAYS {
            let following = date.tomorrow().ok()?;
            if let Some(found) = self.first_of(date, after) {
                let later = self.first_of(following, after);
                return Some(later.map_or_else(|| found.clone(), |later| later.min(found.clone())));
            }
            date = following;
        }
        None
    }

    /// Returns the minute of the hour if the expression names one and only one; otherwise `None`.
    pub fn fixed_minute(&self) -> Option<u32> {
        self.minutes.only()
    }

    /// Returns the schedule in words, where there are short ones, otherwise the expression.
    pub fn in_words(&self) -> String {
        self.words().unwrap_or_else(|| self.text.clone())
    }

    /// Describes the expression in words, such as "Every day at 9:00 AM"; `None` if it is not one of the common
    /// forms.
    fn words(&self) -> Option<String> {
        if !(self.days.is_plain_star && self.months.is_plain_star) {
            return None;
        }
        let every_day = self.weekdays.is_plain_star;
        match (self.minutes.only(), self.hours.only()) {
            (None, None) if every_day && self.hours.is_plain_star => match self.step(0) {
                _ if self.minutes.is_plain_star => Some("Every minute".to_owned()),
                step => Some(format!("Every {} minutes", step?)),
            },
            (Some(0), None) if every_day && self.hours.is_plain_star => Some("Every hour".to_owned()),
            (Some(minute), None) if every_day && self.hours.is_plain_star => {
                Some(format!("Every hour at :{minute:02}"))
            }
            (Some(0), None) if every_day => Some(format!("Every {} hours", self.step(1)?)),
            (Some(minute), Some(hour)) => {
                let half = if hour < 12 { "AM" } else { "PM" };
                let at = format!("{}:{minute:02} {half}", (hour + 11) % 12 + 1);
                match self.weekdays {
                    _ if every_day => Some(format!("Every day at {at}")),
                    Field { bits: WORKDAYS, .. } => Some(format!("Weekdays at {at}")),
                    weekdays => Some(format!("Every {} at {at}", DAYS[weekdays.only()? as usize])),
                }
            }
            (_, _) => None,
        }
    }

    /// Returns the step of the field with this position (0 is the minute) if it is `*/step`, otherwise `None`.
    fn step(&self, field: usize) -> Option<u32> {
        number(self.text.split(' ').nth(field)?.strip_prefix("*/")?)
    }

    /// Returns the first time of a day that is after `after`; `None` if the day has none.
    fn first_of(&self, date: Date, after: &Zoned) -> Option<Zoned> {
        if !self.suits_day(date) {
            return None;
        }
        let zone = after.time_zone();
        let times =
            self.hours.values().flat_map(|hour| self.minutes.values().map(move |minute| (hour, minute)));
        let mut earliest: Option<Zoned> = None;
        for (hour, minute) in times {
            let local: DateTime = date.at(hour as i8, minute as i8, 0, 0);
            let ambiguous = zone.to_ambiguous_zoned(local);
            let repeats = matches!(ambiguous.offset(), AmbiguousOffset::Fold { .. }) && self.hours.is_star;
            let second = if repeats { ambiguous.clone().later().ok() } else { None };
            // The first of two, and in a gap the time that is as far behind it.
            let first = ambiguous.compatible().ok();
            for time in [first, second].into_iter().flatten().filter(|time| time > after) {
                if earliest.as_ref().is_none_or(|earliest| time < *earliest) {
                    earliest = Some(time);
                }
            }
        }
        earliest
    }

    /// Returns whether the expression fits a day. If both day fields name days, one of them is enough, as in cron; the
    /// month has to fit in any case.
    fn suits_day(&self, date: Date) -> bool {
        let day = self.days.has(date.day() as u32);
        let weekday = self.weekdays.has(date.weekday().to_sunday_zero_offset() as u32);
        let suits = if self.days.is_star || self.weekdays.is_star { day && weekday } else { day || weekday };
        suits && self.months.has(date.month() as u32)
    }
}

/// Monday to Friday.
const WORKDAYS: u64 = 0b011_1110;

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl fmt::Display for CronExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Field {
    /// Reads a field whose values go from `low` to `high`; `None` if it is not valid or names a value outside of them.
    /// A single value with a step stands for all from it on.
    fn parse(text: &str, low: u32, high: u32) -> Option<Self> {
        let mut bits = 0;
        for part in text.split(',') {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => (range, Some(number(step).filter(|step| *step > 0)?)),
                None => (part, None),
            };
            let (first, last) = match (range, range.split_once('-')) {
                ("*", _) => (low, high),
                (_, Some((first, last))) => (number(first)?, number(last)?),
                // `5/10` is from 5 on, as in other crons; a value without a step is itself.
                (_, None) => (number(range)?, if step.is_some() { high } else { number(range)? }),
            };
            if first < low || last > high || first > last {
                return None;
            }
            let mut value = first;
            while value <= last {
                bits |= 1_u64 << value;
                value += step.unwrap_or(1);
            }
        }
        Some(Self { bits, is_star: text.starts_with('*'), is_plain_star: matches!(text, "*" | "*/1") })
    }

    /// Returns whether the field contains a value.
    fn has(self, value: u32) -> bool {
        self.bits >> value & 1 == 1
    }

    /// Returns the values of the field, ascending.
    fn values(self) -> impl Iterator<Item = u32> + Clone {
        (0..64).filter(move |value| self.has(*value))
    }

    /// Returns the value of the field if it has one and only one, otherwise `None`.
    fn only(self) -> Option<u32> {
        (self.bits.count_ones() == 1).then(|| self.bits.trailing_zeros())
    }
}

/// Returns a number of one or two digits without a sign; `None` for any other text.
fn number(text: &str) -> Option<u32> {
    let plain = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// Returns a time for people, to the nearest minute: `Nov 16 12:09am`.
pub(crate) fn shown(time: &Zoned) -> String {
    let rounded = time.round(Unit::Minute).unwrap_or_else(|_| time.clone());
    rounded.strftime("%b %-d %-I:%M%P").to_string()
}

#[cfg(test)]
mod tests;
