//! Where is a value of a primary key on a line of whole numbers, and which value is at a place of it? Pure.
//!
//! The search for the bounds of a table's pieces counts in whole numbers (`cut`). A scale need not be exact: the first and the last
//! piece are open, and between two bounds is whatever the server finds there. But bounds must rise in the column's own order.

use crate::catalog::columns::Column;
use crate::client::quote::name;

/// How many characters of a text, and bytes of a binary string, decide about a bound.
const PREFIX: u32 = 8;

/// Letters in the order of nearly every collation. The server is asked whether it is that of the column's.
const LETTERS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// The same where a collation compares bytes.
const BYTES: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Days before 1000-01-01, as `TO_DAYS` counts. Earlier dates are in the first piece.
const FIRST_DAY: i128 = 365_243;

const SECONDS: i128 = 86_400;

/// The line on which the values of a column are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Whole numbers, and the whole parts of decimal ones.
    Number,
    /// Days.
    Date,
    /// Seconds.
    Moment,
    /// The first bytes of a binary string.
    Binary,
    /// The first letters of a text, of a character set and a collation.
    Text { charset: String, collation: String },
}

impl Scale {
    /// `None`: values of the column aren't cut.
    pub(crate) fn of(column: &Column) -> Option<Self> {
        let is_word = |word: &String| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        Some(match column.r#type.as_str() {
            "tinyint" | "smallint" | "mediumint" | "int" | "integer" | "bigint" | "decimal" => Self::Number,
            "date" => Self::Date,
            "datetime" | "timestamp" => Self::Moment,
            "binary" | "varbinary" => Self::Binary,
            "char" | "varchar" => Self::Text {
                charset: column.charset.clone().filter(is_word)?,
                collation: column.collation.clone().filter(is_word)?,
            },
            _ => return None,
        })
    }

    /// The question for the places of the least and the largest value of a table.
    pub(crate) fn question(&self, column: &str, table: &str) -> String {
        let column = name(column);
        let from = format!("FROM {table} FORCE INDEX (`PRIMARY`)");
        match self {
            Self::Number => format!("SELECT FLOOR(MIN({column})), CEILING(MAX({column})) {from}"),
            Self::Date => {
                format!("SELECT TO_DAYS(MIN({column})), TO_DAYS(MAX({column})) {from} WHERE {column} >= '1000-01-01'")
            }
            Self::Moment => {
                format!(
                    "SELECT TO_SECONDS(MIN({column})), TO_SECONDS(MAX({column})) {from} WHERE {column} >= '1000-01-01'"
                )
            }
            Self::Binary => format!("SELECT HEX(LEFT(MIN({column}), 8)), HEX(LEFT(MAX({column}), 8)) {from}"),
            Self::Text { .. } => {
                let left = |of: &str| format!("HEX(CONVERT(LEFT({of}({column}), 8) USING ascii))");
                format!("SELECT {}, {} {from}", left("MIN"), left("MAX"))
            }
        }
    }

    /// The place of a value as the question has told it.
    pub(crate) fn place(&self, told: &str) -> Option<i128> {
        match self {
            Self::Number | Self::Date | Self::Moment => told.parse().ok(),
            Self::Binary => {
                let bytes = hex(told)?;
                Some(
                    (0..PREFIX as usize)
                        .fold(0, |sum, at| sum * 256 + bytes.get(at).map_or(0, |byte| i128::from(*byte))),
                )
            }
            Self::Text { .. } => {
                let (bytes, letters) = (hex(told)?, self.letters());
                let base = letters.len() as i128;
                let digit = |byte: u8| {
                    // A letter between two others is at the place of the next one.
                    let byte = if letters == LETTERS { byte.to_ascii_lowercase() } else { byte };
                    letters.iter().position(|letter| *letter >= byte).unwrap_or(letters.len() - 1) as i128
                };
                Some((0..PREFIX as usize).fold(0, |sum, at| sum * base + bytes.get(at).map_or(0, |byte| digit(*byte))))
            }
        }
    }

    fn letters(&self) -> &'static [u8] {
        match self {
            Self::Text { collation, .. } if collation.ends_with("_bin") => BYTES,
            _ => LETTERS,
        }
    }

    /// The value at a place, as SQL.
    pub(crate) fn value(&self, place: i128) -> String {
        match self {
            Self::Number => place.to_string(),
            Self::Date => format!("'{}'", date(place)),
            Self::Moment => {
                let second = place.rem_euclid(SECONDS);
                let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
                format!("'{} {hour:02}:{minute:02}:{second:02}'", date(place.div_euclid(SECONDS)))
            }
            Self::Binary => format!("_binary 0x{place:016X}"),
            Self::Text { charset, .. } => {
                let letters = self.letters();
                let (mut rest, base) = (place.max(0), letters.len() as i128);
                let mut text = Vec::new();
                for _ in 0..PREFIX {
                    text.push(
                        usize::try_from(rest % base).ok().and_then(|at| letters.get(at)).copied().unwrap_or(b'0'),
                    );
                    rest /= base;
                }
                text.reverse();
                let letter = |byte: &u8| match charset.as_str() {
                    "ucs2" | "utf16" => format!("00{byte:02X}"),
                    "utf16le" => format!("{byte:02X}00"),
                    "utf32" => format!("000000{byte:02X}"),
                    _ => format!("{byte:02X}"),
                };
                // A value of the column's character set is compared by the column's collation.
                format!("_{charset} 0x{}", text.iter().map(letter).collect::<String>())
            }
        }
    }

    /// The condition that a value is at a place from `first` to `last`.
    pub(crate) fn between(&self, column: &str, first: i128, last: i128) -> String {
        let column = name(column);
        match self {
            Self::Number => format!("{column} >= {first} AND {column} <= {last}"),
            _ => format!("{column} >= {} AND {column} < {}", self.value(first), self.value(last + 1)),
        }
    }

    /// The question whether some values rise in the column's own order; none if they do by themselves.
    pub(crate) fn do_rise(&self, values: &[String]) -> Option<String> {
        let Self::Text { collation, .. } = self else { return None };
        let rises = |pair: &[String]| match pair {
            [first, second] => format!("{first} COLLATE {collation} < {second}"),
            _ => "TRUE".to_owned(),
        };
        let all: Vec<String> = values.windows(2).map(rises).collect();
        (!all.is_empty()).then(|| format!("SELECT {}", all.join(" AND ")))
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

/// The date of a day as `TO_DAYS` counts, from the year 1000 to the year 9999.
fn date(day: i128) -> String {
    // Eras of 400 years that begin with March, so that a leap day is the last of its year.
    let day = day.clamp(FIRST_DAY, 3_652_424) - 60;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i128::from(month <= 2);
    format!("{year:04}-{month:02}-{:02}", of_year - (153 * from_march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(collation: &str) -> Scale {
        Scale::Text { charset: "latin1".into(), collation: collation.into() }
    }

    #[test]
    fn places_and_values() {
        for (scale, told, place, value) in [
            (Scale::Number, "-7", -7, "-7"),
            (Scale::Date, "740340", 740_340, "'2026-12-25'"),
            (Scale::Date, "365243", 365_243, "'1000-01-01'"),
            (Scale::Date, "3652424", 3_652_424, "'9999-12-31'"),
            (Scale::Date, "730544", 730_544, "'2000-02-29'"),
            (Scale::Moment, "63965462399", 63_965_462_399, "'2026-12-25 23:59:59'"),
            (Scale::Binary, "00FF", 0x00FF_0000_0000_0000, "_binary 0x00FF000000000000"),
            (text("latin1_bin"), "", 0, "_latin1 0x3030303030303030"),
            (text("latin1_general_ci"), "7A5A7A5A7A7A7A7A", 36_i128.pow(8) - 1, "_latin1 0x7A7A7A7A7A7A7A7A"),
        ] {
            assert_eq!(scale.place(told), Some(place), "{scale:?} {told}");
            assert_eq!(scale.value(place), value, "{scale:?} {place}");
        }
        for (scale, told) in [(Scale::Number, "x"), (Scale::Binary, "0"), (Scale::Binary, "zz"), (Scale::Date, "")] {
            assert_eq!(scale.place(told), None, "{told}");
        }
    }

    #[test]
    fn columns_that_have_a_scale() {
        let of = |kind: &str, collation: Option<&str>| {
            let charset = collation.and_then(|collation| collation.split('_').next()).map(str::to_owned);
            let collation = collation.map(str::to_owned);
            Scale::of(&Column { name: "a".into(), r#type: kind.into(), charset, collation, ..Column::default() })
        };
        assert_eq!((of("bigint", None), of("decimal", None)), (Some(Scale::Number), Some(Scale::Number)));
        assert_eq!(of("varchar", Some("latin1_bin")), Some(text("latin1_bin")));
        for (kind, collation) in [("uuid", None), ("enum", Some("latin1_bin")), ("char", None), ("char", Some("x; y"))]
        {
            assert_eq!(of(kind, collation), None, "{kind}");
        }
    }

    #[test]
    fn the_server_is_asked_whether_texts_rise() {
        let values = ["x".to_owned(), "y".to_owned(), "z".to_owned()];
        let question = text("c_ci").do_rise(&values);
        assert_eq!(question.as_deref(), Some("SELECT x COLLATE c_ci < y AND y COLLATE c_ci < z"));
        assert_eq!((text("c_ci").do_rise(&values[..1]), Scale::Binary.do_rise(&values)), (None, None));
    }

    proptest! {
        #[test]
        fn values_are_at_their_places(place in 0_i128..36_i128.pow(8), day in FIRST_DAY..3_652_424_i128) {
            for scale in [text("a_ci"), text("a_bin"), Scale::Binary] {
                let value = scale.value(place);
                let hex = value.split("0x").nth(1).and_then(|rest| rest.split(' ').next()).expect("hex");
                prop_assert_eq!(scale.place(hex), Some(place), "{}", value);
            }
            prop_assert!(date(day) < date(day + 1), "{}", date(day));
        }
    }
}
