//! When is the next backup due? A cron expression, in UTC unless it names a time zone.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions, parse_crontab_with};
use seawall_core::{Backoff, LastError, Moment};
use serde::{Deserialize, Serialize};

/// How long to wait after a failed backup: doubled with each failure, from one minute to one hour.
const RETRY: Backoff = Backoff::new(Duration::from_secs(60), Duration::from_secs(3600));

/// By how much clocks are set back when summer time ends.
const HOUR: Duration = Duration::from_secs(3600);

/// A schedule: the moments at which a backup is due.
#[derive(Debug, Clone)]
pub struct Schedule {
    text: String,
    /// What `H` is derived from.
    name: String,
    crontab: Crontab,
    /// Whether the hours are `*`: then the expression means intervals and not times of day.
    every_hour: bool,
}

/// A schedule as a set records it, so that a vault alone tells when the next backup was due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timetable {
    /// The cron expression, as it was written.
    pub expression: String,
    /// The name of the database, from which `H` is derived.
    pub name: String,
}

impl Timetable {
    /// The schedule; `None` if it is none, for it comes from a vault.
    pub fn schedule(&self) -> Option<Schedule> {
        /// No expression that a person writes has more bytes.
        const LONGEST: usize = 256;
        (self.expression.len() <= LONGEST).then(|| Schedule::parse(&self.expression, &self.name).ok()).flatten()
    }
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Schedule {}

impl Schedule {
    /// Reads `0 3 * * *`, or with a time zone `0 3 * * * Europe/Vienna`. `H` stands for a number derived from `name`,
    /// so that many databases with one expression have different minutes.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, name: &str) -> Result<Self, String> {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        options.hashed_value = Some(hasher.finish());
        let crontab = parse_crontab_with(text, options).map_err(|error| error.to_string())?;
        let every_hour = text.split_whitespace().nth(1).is_some_and(|hours| hours.starts_with('*'));
        let schedule = Self { text: text.to_owned(), name: name.to_owned(), crontab, every_hour };
        // Some days never come: the 31st of February.
        match schedule.after(Moment::from_millis(0)) {
            Some(_) => Ok(schedule),
            None => Err("it never comes".to_owned()),
        }
    }

    /// What a set records of it.
    pub fn timetable(&self) -> Timetable {
        Timetable { expression: self.text.clone(), name: self.name.clone() }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first due moment after `moment`. A time of day that occurs twice, because summer time ends, counts the first
    /// time only.
    pub fn after(&self, moment: Moment) -> Option<Moment> {
        let mut moment = moment;
        loop {
            let next = self.crontab.find_next(MakeTimestamp::from_millisecond(moment.as_millis()).ok()?).ok()?;
            moment = Moment::from_millis(next.timestamp().as_millisecond());
            let before = next.timestamp().checked_sub(HOUR).ok()?;
            if self.every_hour || next.time_zone().to_datetime(before) != next.datetime() {
                return Some(moment);
            }
        }
    }

    /// When the next backup is due. It is due now if there never was a backup, or if a due moment passed while Seawall
    /// wasn't running.
    pub fn due(&self, last: Option<Moment>, now: Moment) -> Moment {
        match last {
            // A clock that was set back doesn't delay the backup.
            Some(last) if last <= now => self.after(last).unwrap_or(now).max(now),
            Some(_) => self.after(now).unwrap_or(now),
            None => now,
        }
    }
}

/// How long to wait after the `failures`-th failure in a row.
pub fn retry_after(failures: u32) -> Duration {
    RETRY.after(failures)
}

/// When work is tried again that failed last at `now`, as often in a row as its error counts.
pub fn retry_at(error: &LastError, now: Moment) -> Moment {
    now.after(retry_after(u32::try_from(error.count).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Moment {
        text.parse().expect("RFC 3339")
    }

    #[test]
    fn when_it_is_due() {
        let daily = Schedule::parse("0 3 * * *", "a").expect("a schedule");
        let vienna = Schedule::parse("30 2 * * * Europe/Vienna", "a").expect("a schedule");
        for (schedule, last, now, due) in [
            (&daily, None, "2026-11-22T12:00:00Z", "2026-11-22T12:00:00Z"),
            (&daily, Some("2026-11-22T03:00:02Z"), "2026-11-22T12:00:00Z", "2026-11-23T03:00:00Z"),
            (&daily, Some("2026-11-20T03:00:02Z"), "2026-11-22T12:00:00Z", "2026-11-22T12:00:00Z"),
            (&daily, Some("2026-11-22T03:00:00Z"), "2026-11-22T03:00:00Z", "2026-11-23T03:00:00Z"),
            (&daily, Some("2036-01-01T00:00:00Z"), "2026-11-22T12:00:00Z", "2026-11-23T03:00:00Z"),
            (&vienna, Some("2026-11-22T12:00:00Z"), "2026-11-22T12:00:00Z", "2026-11-23T01:30:00Z"),
            // The hour that summer time takes away never comes.
            (&vienna, Some("2026-03-28T12:00:00Z"), "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"),
        ] {
            let due_at = schedule.due(last.map(at), at(now));
            assert_eq!(due_at, at(due), "{} {last:?} {now}", schedule.text());
        }
    }

    #[test]
    fn a_timetable_gives_the_same_schedule_back() {
        let schedule = Schedule::parse("H H * * * Europe/Vienna", "shop").expect("a schedule");
        let again = schedule.timetable().schedule().expect("a schedule");
        let from = at("2026-11-22T12:00:00Z");
        assert_eq!((again.after(from), again.text()), (schedule.after(from), schedule.text()));
        for expression in ["often", "0 0 31 2 *", &"0 ".repeat(200)] {
            assert_eq!(
                Timetable { expression: expression.to_owned(), name: "a".into() }.schedule(),
                None,
                "{expression}"
            );
        }
    }

    /// The moments behind a moment, one behind another.
    fn next(text: &str, from: &str, count: usize) -> Vec<String> {
        let schedule = Schedule::parse(text, "a").expect("a schedule");
        let mut moment = at(from);
        let mut found = Vec::new();
        for _ in 0..count {
            moment = schedule.after(moment).expect("there is always a next one");
            found.push(moment.to_string());
        }
        found
    }

    #[test]
    fn an_hour_that_comes_twice_has_what_is_due_once_in_it_once() {
        // 02:30 is 00:30 UTC in summer time, and once more 01:30 UTC in winter time.
        assert_eq!(
            next("30 2 * * * Europe/Vienna", "2026-10-24T12:00:00Z", 2),
            ["2026-10-25T00:30:00.000Z", "2026-10-26T01:30:00.000Z"]
        );
        // What is due in every hour is due in both.
        assert_eq!(
            next("30 * * * * Europe/Vienna", "2026-10-24T23:45:00Z", 3),
            ["2026-10-25T00:30:00.000Z", "2026-10-25T01:30:00.000Z", "2026-10-25T02:30:00.000Z"]
        );
    }

    #[test]
    fn months_without_the_day_are_passed_over() {
        assert_eq!(
            next("0 3 31 * *", "2026-01-31T03:00:00Z", 3),
            ["2026-03-31T03:00:00.000Z", "2026-05-31T03:00:00.000Z", "2026-07-31T03:00:00.000Z"]
        );
        assert_eq!(next("0 3 29 2 *", "2026-01-01T00:00:00Z", 1), ["2028-02-29T03:00:00.000Z"]);
        // The last day of each month.
        assert_eq!(
            next("0 3 L * *", "2026-01-31T03:00:00Z", 2),
            ["2026-02-28T03:00:00.000Z", "2026-03-31T03:00:00.000Z"]
        );
    }

    #[test]
    fn what_is_a_schedule() {
        for (text, good) in [
            ("*/15 * * * *", true),
            ("0 0 * * MON UTC", true),
            ("H 3 * * *", true),
            ("0 3 * *", false),
            ("61 * * * *", false),
            ("0 3 * * * Nowhere/Else", false),
            ("0 0 31 2 *", false),
            ("", false),
        ] {
            assert_eq!(Schedule::parse(text, "a").is_ok(), good, "{text}");
        }
        let minutes =
            ["a", "b", "c", "d"].map(|name| Schedule::parse("H 3 * * *", name).expect(name).after(Moment::default()));
        assert!(minutes.iter().any(|minute| *minute != minutes[0]), "names decide the minute: {minutes:?}");
    }

    #[test]
    fn failures_are_repeated_ever_more_slowly() {
        assert_eq!([1, 2, 3, 7, 99].map(|n| retry_after(n).as_secs()), [60, 120, 240, 3600, 3600]);
    }
}
