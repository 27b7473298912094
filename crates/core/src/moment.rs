//! Moments in time, the clock that tells them, and the ways in which a user names a moment.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Steady;

/// A moment, in milliseconds since the Unix epoch: the precision of every format that Seawall writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(i64);

impl Moment {
    /// A moment from milliseconds since the Unix epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero when the clock was set back in between.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The moment `duration` before this one.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// The moment `duration` after this one.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// The moment as RFC 3339 text with nanoseconds, as Litestream writes it into object metadata.
    pub fn to_rfc3339_nanos(self) -> String {
        match Timestamp::from_millisecond(self.0) {
            Ok(t) => format!("{t:.9}"),
            Err(_) => self.0.to_string(),
        }
    }
}

impl fmt::Display for Moment {
    /// RFC 3339 in UTC with exactly three decimals, so that text sorts as time does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_millisecond(self.0) {
            Ok(t) => write!(f, "{t:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

/// The error for a text that names no moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseMomentError(String);

impl fmt::Display for ParseMomentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is no moment: give RFC 3339 (2026-11-21T10:00:00Z), a relative time (\"10 minutes ago\"), \
             a transaction id of 16 hex digits, or \"latest\"",
            self.0
        )
    }
}

impl std::error::Error for ParseMomentError {}

impl FromStr for Moment {
    type Err = ParseMomentError;

    /// Reads RFC 3339, truncated to milliseconds.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let timestamp: Timestamp = text.parse().map_err(|_| ParseMomentError(text.to_owned()))?;
        Ok(Self(timestamp.as_millisecond()))
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Tells the time. Callers pass a clock in, so that tests and simulations control it.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present moment. It may step in both directions, as wall clocks do.
    fn now(&self) -> Moment;

    /// How much time has passed, by the machine's steady clock.
    fn steady(&self) -> Steady;
}

/// The machine's wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        #[expect(clippy::disallowed_methods, reason = "this is the edge where wall time enters")]
        let now = std::time::SystemTime::now();
        let millis = match now.duration_since(std::time::UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
        };
        Moment(millis)
    }

    fn steady(&self) -> Steady {
        Steady::of_this_machine()
    }
}

/// Which moment of a database's history a user asks for (`--at`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// The newest point there is.
    Latest,
    /// The last point at or before this moment.
    Moment(Moment),
    /// Exactly this position, in the engine's own notation (a TXID of 16 hex digits for SQLite).
    Position(String),
}

impl When {
    /// Reads what a user typed: `latest`, RFC 3339, a relative time (`10 minutes ago`, `90s ago`, `-2h`), or a
    /// position of 16 hex digits. `now` anchors relative times.
    pub fn parse(text: &str, now: Moment) -> Result<Self, ParseMomentError> {
        let text = text.trim();
        let lower = text.to_ascii_lowercase();
        if lower == "latest" || lower == "now" {
            return Ok(Self::Latest);
        }
        if text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Ok(Self::Position(lower));
        }
        let relative = lower.strip_suffix("ago").or_else(|| lower.strip_prefix('-'));
        if let Some(span) = relative.and_then(parse_duration) {
            let moment = now.before(span);
            // A span of more than all years that a calendar has.
            return match Timestamp::from_millisecond(moment.0) {
                Ok(_) => Ok(Self::Moment(moment)),
                Err(_) => Err(ParseMomentError(text.to_owned())),
            };
        }
        text.parse().map(Self::Moment)
    }
}

/// Reads a duration such as `90s`, `10 minutes`, `1h30m` or `2 days 4 hours`; `None` when the text is no duration.
///
/// Command lines and configurations use this one parser. It refuses a bare number, which has no unit.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let tail = tail.trim_start();
        let end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let seconds = match unit.to_ascii_lowercase().as_str() {
            "ms" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            "w" | "week" | "weeks" => 604_800.0,
            _ => return None,
        };
        let number: f64 = number.parse().ok()?;
        total = total.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
        rest = tail.trim_start();
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let moment: Moment = "2026-11-21T10:00:00.1239Z".parse().expect("RFC 3339");
        assert_eq!(moment.to_string(), "2026-11-21T10:00:00.123Z");
        assert_eq!(moment.to_rfc3339_nanos(), "2026-11-21T10:00:00.123000000Z");
        assert_eq!(moment.to_string().parse::<Moment>(), Ok(moment));
        let zoned: Moment = "2026-11-21T11:00:00.123+01:00".parse().expect("RFC 3339 with an offset");
        assert_eq!(zoned, moment);
    }

    #[test]
    fn a_clock_set_back_gives_no_negative_span() {
        let (early, late) = (Moment::from_millis(1_000), Moment::from_millis(3_500));
        assert_eq!(late.since(early), Duration::from_millis(2_500));
        assert_eq!(early.since(late), Duration::ZERO);
    }

    #[test]
    fn what_users_type() {
        let now: Moment = "2026-11-21T10:00:00Z".parse().expect("RFC 3339");
        let at = |text: &str| When::parse(text, now);
        let moment = |text: &str| Ok(When::Moment(text.parse().expect("RFC 3339")));
        for (text, expected) in [
            ("latest", Ok(When::Latest)),
            ("10 minutes ago", moment("2026-11-21T09:50:00Z")),
            ("90s ago", moment("2026-11-21T09:58:30Z")),
            ("1h30m ago", moment("2026-11-21T08:30:00Z")),
            ("-2h", moment("2026-11-21T08:00:00Z")),
            ("2026-11-21T09:00:00Z", moment("2026-11-21T09:00:00Z")),
            ("00000000000000AF", Ok(When::Position("00000000000000af".into()))),
        ] {
            assert_eq!(at(text), expected, "{text}");
        }
        for text in [
            "",
            "yesterday",
            "10 minutes",
            "10 fortnights ago",
            "2026-11-21",
            "af",
            "-",
            "99999999999999999999d ago",
            "99999999999d ago",
        ] {
            assert!(at(text).is_err(), "{text} was taken");
        }
    }

    #[test]
    fn spans() {
        for (text, seconds) in [("1s", 1.0), ("500ms", 0.5), ("1.5h", 5400.0), ("2 days 4 hours", 187_200.0)] {
            assert_eq!(parse_duration(text), Some(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["", "5", "s", "1x", "1h30", "1..5s"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
