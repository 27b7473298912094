//! When is the next backup due? A cron expression, in UTC unless it names a time zone.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions, parse_crontab_with};
use seawall_core::Moment;

/// How long to wait after a backup that failed: doubled from the first to the last.
const RETRY: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));

/// Moments at which a backup is due.
#[derive(Debug, Clone)]
pub struct Schedule {
    text: String,
    crontab: Crontab,
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Schedule {}

impl Schedule {
    /// Reads `0 3 * * *`, or with a time zone `0 3 * * * Europe/Vienna`. `H` stands for a number that `name` decides, so
    /// that many databases with one expression have different minutes.
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
        let schedule = Self { text: text.to_owned(), crontab };
        // Some days never come: the 31st of February.
        match schedule.after(Moment::from_millis(0)) {
            Some(_) => Ok(schedule),
            None => Err("it never comes".to_owned()),
        }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first moment behind `moment`.
    pub fn after(&self, moment: Moment) -> Option<Moment> {
        let moment = MakeTimestamp::from_millisecond(moment.as_millis()).ok()?;
        let next = self.crontab.find_next(moment).ok()?;
        Some(Moment::from_millis(next.timestamp().as_millisecond()))
    }

    /// When the next backup is due: the present where none was ever made, or where one was missed because nobody was
    /// there to make it.
    pub fn due(&self, last: Option<Moment>, now: Moment) -> Moment {
        match last {
            // A clock that was set back doesn't put it off.
            Some(last) if last <= now => self.after(last).unwrap_or(now).max(now),
            Some(_) => self.after(now).unwrap_or(now),
            None => now,
        }
    }
}

/// How long to wait after the `failures`-th failure in a row.
pub fn retry_after(failures: u32) -> Duration {
    RETRY.0.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(RETRY.1)
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
