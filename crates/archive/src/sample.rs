//! Which share of a database's rows is in a sample, and in which order are tables looked at? A share is a percentage, as people
//! write it. Pure.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Parts of a whole.
const WHOLE: u32 = 1_000_000;

/// What is allowed, for messages.
const ALLOWED: &str = "a sample is a percentage from 0.0001% to 100%, such as 1% or 0.5%";

/// A share of rows: from one of a million to all of them. Equal shares are equal however they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sample(u32);

impl Sample {
    /// Rows of a million.
    pub fn per_million(self) -> u32 {
        self.0
    }

    /// Whether that is every row.
    pub fn is_all(self) -> bool {
        self.0 == WHOLE
    }

    /// The share as a number, without a unit: `0.5` of `0.5%`.
    pub fn percent(self) -> String {
        let (whole, rest) = (self.0 / 10_000, self.0 % 10_000);
        let text = format!("{whole}.{rest:04}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }

    /// The identity of this sample's sets, for a database's `identity`. The two differ, so that a sample is never taken
    /// for a backup of the database, nor for a sample of another share.
    pub fn identity(self, identity: &str) -> String {
        format!("sample {self} of {identity}")
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.percent())
    }
}

impl FromStr for Sample {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |cause: &str| Err(format!("\"{text}\" {cause}: {ALLOWED}"));
        let Some(number) = text.strip_suffix('%') else { return wrong("has no %") };
        let (whole, rest) = number.split_once('.').map_or((number, None), |(whole, rest)| (whole, Some(rest)));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !rest.is_none_or(digits) {
            return wrong("is no number");
        }
        let rest = rest.unwrap_or_default().trim_end_matches('0');
        if rest.len() > 4 {
            return wrong("is too exact");
        }
        let parts = format!("{whole}{rest:0<4}").parse::<u32>();
        match parts {
            Ok(0) => wrong("is nothing"),
            Ok(parts @ 1..=WHOLE) => Ok(Self(parts)),
            _ => wrong("is more than everything"),
        }
    }
}

impl TryFrom<String> for Sample {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Sample> for String {
    fn from(sample: Sample) -> Self {
        sample.to_string()
    }
}

/// The tables of a list, referring tables before referenced ones, except in cycles. So when a table's turn comes, most of the rows
/// that others need of it are known. `needs` are the tables that each refers to, by their places.
pub fn referring_first(needs: &[Vec<usize>]) -> Vec<usize> {
    let needed = |table: usize| needs[table].iter().copied().filter(move |to| *to != table);
    let mut referring = vec![0_usize; needs.len()];
    (0..needs.len()).flat_map(&needed).for_each(|table| referring[table] += 1);
    let mut free: Vec<usize> = (0..needs.len()).filter(|table| referring[*table] == 0).collect();
    let (mut order, mut done, mut first) = (Vec::with_capacity(needs.len()), vec![false; needs.len()], 0);
    while order.len() < needs.len() {
        let table = free.pop().unwrap_or_else(|| {
            // The rest are cycles and the tables that they refer to: one of them must be first.
            while done[first] {
                first += 1;
            }
            first
        });
        if std::mem::replace(&mut done[table], true) {
            continue;
        }
        order.push(table);
        for other in needed(table) {
            referring[other] -= 1;
            if referring[other] == 0 {
                free.push(other);
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shares_are_equal_however_they_are_written() {
        for (text, parts, shown) in [
            ("1%", 10_000, "1%"),
            ("1.0%", 10_000, "1%"),
            ("01.00000000%", 10_000, "1%"),
            ("0.5%", 5_000, "0.5%"),
            ("12.34%", 123_400, "12.34%"),
            ("0.0001%", 1, "0.0001%"),
            ("10%", 100_000, "10%"),
            ("100%", 1_000_000, "100%"),
        ] {
            let sample: Sample = text.parse().expect(text);
            assert_eq!((sample.per_million(), sample.to_string().as_str()), (parts, shown), "{text}");
            assert_eq!(sample.is_all(), text == "100%");
            let json = serde_json::to_string(&sample).expect("written");
            assert_eq!(serde_json::from_str::<Sample>(&json).expect("read"), sample);
        }
    }

    #[test]
    fn what_is_no_share_is_refused_with_what_is_allowed() {
        for text in [
            "",
            "%",
            "1",
            "0.01",
            "0%",
            "0.0%",
            "0.00001%",
            "100.0001%",
            "101%",
            "99999999999999999999%",
            "-1%",
            "+1%",
            "1 %",
            "1e0%",
            ".5%",
            "1.%",
            "1.2.3%",
            "1%%",
            "NaN%",
            "one%",
            "\u{661}%",
        ] {
            let refused = text.parse::<Sample>().expect_err(text);
            assert!(refused.contains("0.0001% to 100%"), "{refused}");
        }
    }

    #[test]
    fn a_sample_is_never_taken_for_the_database_or_for_another_share() {
        let of = |text: &str| text.parse::<Sample>().expect(text).identity("7/shop");
        assert_eq!(of("1.0%"), "sample 1% of 7/shop");
        assert_ne!(of("1%"), of("2%"));
        // No system identifier is a word.
        assert_ne!(of("100%"), "7/shop");
    }
}
