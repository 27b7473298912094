//! Text forms of a database's position in its history, and of a moment.

use core::fmt;
use core::str::FromStr;

use crate::checksum::Checksum;
use crate::text::TextError;
use crate::types::Txid;

/// A transaction and the database checksum after it: `<txid>/<checksum>`, 33 characters.
///
/// ```
/// use seawall_ltx::{Checksum, Position, Txid};
///
/// let position: Position = "000000000000000c/b0d936f6516ee6a7".parse()?;
/// assert_eq!(position, Position { txid: Txid(12), checksum: Checksum(0xb0d936f6516ee6a7) });
/// assert_eq!(position.to_string(), "000000000000000c/b0d936f6516ee6a7");
/// assert!("000000000000000c-b0d936f6516ee6a7".parse::<Position>().is_err());
/// # Ok::<(), seawall_ltx::TextError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The last transaction.
    pub txid: Txid,
    /// The database checksum after it.
    pub checksum: Checksum,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.txid, self.checksum)
    }
}

impl FromStr for Position {
    type Err = TextError;

    /// Reads two numbers of 16 hexadecimal digits with a slash between them. (Other programs accept any character
    /// there.)
    fn from_str(text: &str) -> Result<Self, TextError> {
        let (txid, checksum) = text.split_once('/').ok_or(TextError::Position)?;
        let (txid, checksum) = (txid.parse(), checksum.parse());
        let (Ok(txid), Ok(checksum)) = (txid, checksum) else { return Err(TextError::Position) };
        Ok(Position { txid, checksum })
    }
}

/// A moment in milliseconds since 1970-01-01 UTC, as in a [`Header`](crate::Header). Its text form is RFC 3339 in UTC
/// with exactly three decimals, which sorts as the moments do.
///
/// ```
/// use seawall_ltx::Timestamp;
///
/// let time: Timestamp = "2023-01-02T03:04:05.6+02:00".parse()?;
/// assert_eq!(time.to_string(), "2023-01-02T01:04:05.600Z");
/// assert_eq!(Timestamp(-1).to_string(), "1969-12-31T23:59:59.999Z");
/// # Ok::<(), seawall_ltx::TextError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

const DAY: i64 = 86_400_000;
/// The days of 400 years, after which the calendar repeats.
const ERA: i64 = 146_097;
/// From the first day of March of year 0, where counting is easiest, to 1970.
const TO_1970: i64 = 719_468;

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, millis) = (self.0.div_euclid(DAY), self.0.rem_euclid(DAY));
        let (year, month, day) = date(days);
        let (seconds, millis) = (millis / 1000, millis % 1000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}

impl FromStr for Timestamp {
    type Err = TextError;

    /// Reads RFC 3339 with up to nine decimals, cut to milliseconds, and any offset.
    fn from_str(text: &str) -> Result<Self, TextError> {
        parse(text).map(Timestamp).ok_or(TextError::Timestamp)
    }
}

/// Year, month and day of a day counted from 1970-01-01. The year begins in March here, so that the day that comes and
/// goes is its last.
fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + TO_1970;
    let (era, day) = (shifted.div_euclid(ERA), shifted.rem_euclid(ERA));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let civil = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(civil <= 2), civil, day)
}

/// The day, counted from 1970-01-01, of a date; `None` where there is no such date.
fn day(year: i64, month: i64, day: i64) -> Option<i64> {
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let shifted = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    let days = era * ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - TO_1970;
    // A 31st of June comes out as another date.
    ((1..=12).contains(&month) && date(days) == (year, month, day)).then_some(days)
}

fn parse(text: &str) -> Option<i64> {
    let digits = |part: Option<&str>| {
        let part = part.filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))?;
        part.parse::<i64>().ok()
    };
    let is = |at: usize, byte: u8| text.as_bytes().get(at) == Some(&byte);
    if !(is(4, b'-') && is(7, b'-') && is(10, b'T') && is(13, b':') && is(16, b':')) {
        return None;
    }
    let [hour, minute, second] = [digits(text.get(11..13))?, digits(text.get(14..16))?, digits(text.get(17..19))?];
    let days = day(digits(text.get(..4))?, digits(text.get(5..7))?, digits(text.get(8..10))?)?;
    let rest = text.get(19..)?;
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count()),
        None => ("000", rest),
    };
    if hour > 23 || minute > 59 || second > 59 || !(1..=9).contains(&fraction.len()) {
        return None;
    }
    let millis = fraction.bytes().chain(*b"00").take(3).fold(0, |value, byte| value * 10 + i64::from(byte - b'0'));
    let offset = match zone.as_bytes() {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let (hours, minutes) = (digits(zone.get(1..3))?, digits(zone.get(4..6))?);
            let offset = (hours * 60 + minutes) * 60_000;
            if hours > 23 || minutes > 59 {
                return None;
            }
            if *sign == b'-' { -offset } else { offset }
        }
        _ => return None,
    };
    Some(days * DAY + ((hour * 60 + minute) * 60 + second) * 1000 + millis - offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn moments_come_back(millis in -62_135_596_800_000..253_402_300_800_000_i64) {
            let time = Timestamp(millis);
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }

        #[test]
        fn any_text_is_an_error_at_most(text in "\\PC{0,40}", number in any::<i64>()) {
            let _ = (text.parse::<Timestamp>(), text.parse::<Position>());
            let _ = Timestamp(number).to_string();
        }
    }

    #[test]
    fn what_is_no_moment() {
        for text in [
            "2023-02-29T00:00:00Z",
            "2023-06-31T00:00:00Z",
            "2023-00-01T00:00:00Z",
            "2023-01-00T00:00:00Z",
            "2023-01-01T24:00:00Z",
            "2023-01-01T00:60:00Z",
            "2023-01-01T00:00:00",
            "2023-01-01T00:00:00.Z",
            "2023-01-01T00:00:00.1234567890Z",
            "2023-01-01T00:00:00+0200",
            "2023-01-01T00:00:00+24:00",
            "2023-01-01t00:00:00Z",
            "+023-01-01T00:00:00Z",
            "2023-01-01T00:00:00Z ",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(TextError::Timestamp), "{text}");
        }
        assert_eq!("2024-02-29T00:00:00Z".parse(), Ok(Timestamp(1_709_164_800_000)));
    }
}
