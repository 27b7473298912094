//! Calendar periods in UTC, for keeping one base of each.

use seawall_core::Moment;

/// A kind of period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Period {
    /// From full hour to full hour.
    Hour,
    /// From midnight to midnight.
    Day,
    /// From Monday to Sunday.
    Week,
    /// A month of the Gregorian calendar.
    Month,
    /// A year of the Gregorian calendar.
    Year,
}

impl Period {
    /// A number that two moments share if, and only if, they are in the same period.
    pub(crate) fn of(self, moment: Moment) -> i64 {
        let days = moment.as_millis().div_euclid(86_400_000);
        match self {
            Self::Hour => moment.as_millis().div_euclid(3_600_000),
            Self::Day => days,
            // 1970-01-01 was a Thursday.
            Self::Week => (days + 3).div_euclid(7),
            Self::Month => {
                let (year, month) = year_and_month(days);
                year * 12 + month
            }
            Self::Year => year_and_month(days).0,
        }
    }
}

/// Year and month (0 to 11) of a day counted from 1970-01-01, by years that begin in March, so that the leap day is
/// their last (Howard Hinnant's "civil from days").
fn year_and_month(days: i64) -> (i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day = shifted.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let month = if march_month < 10 { march_month + 2 } else { march_month - 10 };
    (era * 400 + year + i64::from(month < 2), month)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(period: Period, text: &str) -> i64 {
        period.of(text.parse().expect("RFC 3339"))
    }

    #[test]
    fn periods_begin_and_end() {
        for (period, last, first) in [
            (Period::Hour, "2026-11-22T00:59:59.999Z", "2026-11-22T01:00:00Z"),
            (Period::Day, "2024-02-28T23:59:59.999Z", "2024-02-29T00:00:00Z"),
            (Period::Week, "2026-11-22T23:59:59.999Z", "2026-11-23T00:00:00Z"),
            (Period::Week, "1969-12-28T23:59:59.999Z", "1969-12-29T00:00:00Z"),
            (Period::Month, "2024-02-29T23:59:59.999Z", "2024-03-01T00:00:00Z"),
            (Period::Month, "2026-12-31T23:59:59.999Z", "2027-01-01T00:00:00Z"),
            (Period::Month, "1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00Z"),
            (Period::Year, "2000-12-31T23:59:59.999Z", "2001-01-01T00:00:00Z"),
        ] {
            assert_eq!(of(period, last) + 1, of(period, first), "{period:?} {first}");
        }
        assert_eq!(of(Period::Week, "2026-11-16T00:00:00Z"), of(Period::Week, "2026-11-22T23:59:59Z"));
        assert_eq!(of(Period::Month, "2026-11-01T00:00:00Z"), 2026 * 12 + 10);
        assert_eq!(of(Period::Year, "2026-11-01T00:00:00Z"), 2026);
    }

    /// Every day for a thousand years: a month never ends before 28 days or after 31, and each year has twelve.
    #[test]
    fn months_have_their_days() {
        let (mut month, mut days, mut year) = (year_and_month(-200_000), 0, 0);
        for day in -199_999..200_000_i64 {
            days += 1;
            let now = year_and_month(day);
            if now != month {
                assert!(day < -199_900 || (28..=31).contains(&days), "{month:?} has {days} days");
                assert_eq!(now.0 * 12 + now.1, month.0 * 12 + month.1 + 1);
                (month, days, year) = (now, 0, now.0);
            }
        }
        assert_eq!(year, 2517);
    }
}
