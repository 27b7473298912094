//! Thinning: which complete copies to keep. The rules keep the newest copy of each calendar period, in UTC, and the
//! newest copies of all. Pure, and the same for every engine.

use std::collections::BTreeSet;

use crate::Moment;

/// How many complete copies to keep, whatever their age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Thinning {
    /// Keep this many of the newest copies; at least one.
    pub minimum: u32,
    /// Keep the newest copy of each of this many hours that have a copy.
    pub hourly: u32,
    /// The same for days.
    pub daily: u32,
    /// The same for weeks, which begin on Monday.
    pub weekly: u32,
    /// The same for months.
    pub monthly: u32,
    /// The same for years.
    pub yearly: u32,
}

impl Thinning {
    /// The indexes of the copies to keep. `moments` are the moments of all copies, oldest first.
    pub fn chosen(&self, moments: &[Moment]) -> BTreeSet<usize> {
        let newest_first = || (0..moments.len()).rev();
        let number = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        let mut chosen: BTreeSet<usize> = newest_first().take(number(self.minimum.max(1))).collect();
        for (period, count) in [
            (Period::Hour, self.hourly),
            (Period::Day, self.daily),
            (Period::Week, self.weekly),
            (Period::Month, self.monthly),
            (Period::Year, self.yearly),
        ] {
            let mut last = None;
            let newest_of_each = newest_first().filter(|place| {
                let this = Some(period.of(moments[*place]));
                std::mem::replace(&mut last, this) != this
            });
            chosen.extend(newest_of_each.take(number(count)));
        }
        chosen
    }
}

/// A kind of period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Period {
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
    fn of(self, moment: Moment) -> i64 {
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

    #[test]
    fn the_newest_of_each_period_and_the_newest_of_all_stay() {
        let at = |day: i64, hour: i64| Moment::from_millis((day * 24 + hour) * 3_600_000);
        let moments = [at(0, 1), at(0, 9), at(1, 3), at(3, 1), at(3, 2), at(3, 2)];
        let none = Thinning::default();
        for (thinning, chosen) in [
            (none, vec![5]),
            (Thinning { minimum: 2, ..none }, vec![4, 5]),
            (Thinning { minimum: 99, ..none }, vec![0, 1, 2, 3, 4, 5]),
            (Thinning { daily: 2, ..none }, vec![2, 5]),
            (Thinning { daily: 9, ..none }, vec![1, 2, 5]),
            (Thinning { hourly: 3, ..none }, vec![2, 3, 5]),
            (Thinning { yearly: u32::MAX, ..none }, vec![5]),
        ] {
            assert_eq!(thinning.chosen(&moments), chosen.into_iter().collect(), "{thinning:?}");
        }
        assert!(none.chosen(&[]).is_empty());
    }

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
