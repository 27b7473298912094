//! Names of snapshots: they hold the database, the instance and the moment.
//!
//! `<database>__<instance>__<YYYYMMDD-HHMMSS-nnnnnnnnn>__<generation>[__<extra>…].pb.gz`, or `.pb.zstd` for snapshots
//! that only Seawall can read. The newest snapshot of an instance has the name that sorts last. Objects with other
//! names don't belong to Seawall or Lightning Stream, and are left alone.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::Codec;
use crate::Stamp;

/// The generation in every name that Seawall writes, as in Lightning Stream's.
pub const GENERATION: &str = "GX";

/// The name of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotName {
    /// The database's name in the configuration.
    pub database: String,
    /// The instance that wrote it.
    pub instance: String,
    /// When the transaction that it shows was read.
    pub stamp: Stamp,
    /// The generation; [`GENERATION`] in every name that Seawall writes.
    pub generation: String,
    /// Parts after the generation: a capital letter and a value each. Seawall doesn't interpret them.
    pub extra: Vec<String>,
    /// How it is compressed.
    pub codec: Codec,
}

impl SnapshotName {
    /// Parses a name; `None` if it isn't a snapshot name.
    pub fn parse(name: &str) -> Option<Self> {
        let (stem, suffix) = name.split_once('.')?;
        let codec = Codec::of_suffix(suffix).filter(|_| !name.contains('/'))?;
        let mut parts = stem.split("__");
        let mut next = || parts.next().filter(|part| !part.is_empty()).map(str::to_owned);
        let (database, instance) = (next()?, next()?);
        let stamp = parse_stamp(&next()?)?;
        let generation = next()?;
        Some(Self { database, instance, stamp, generation, extra: parts.map(str::to_owned).collect(), codec })
    }

    /// The prefix of every snapshot name of a database.
    pub fn prefix(database: &str) -> String {
        format!("{database}__")
    }

    /// Whether a name made with this word can be parsed again: it has no dot and no `__`, and leads to no other folder.
    pub fn is_word(word: &str) -> bool {
        let plain = |c: char| !c.is_control() && !matches!(c, '.' | '/' | '\\');
        // An underscore at an end would move the border to the next part.
        !word.is_empty() && word.chars().all(plain) && !word.contains("__") && !word.ends_with('_') && word.len() <= 100
    }

    /// An instance's name in the form for snapshot names: every character except letters, digits and `-` becomes `-`.
    pub fn clean_instance(name: &str) -> String {
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).collect()
    }
}

impl fmt::Display for SnapshotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}__{}__{}__{}", self.database, self.instance, stamp_text(self.stamp), self.generation)?;
        self.extra.iter().try_for_each(|part| write!(f, "__{part}"))?;
        write!(f, ".{}", self.codec.suffix())
    }
}

/// `YYYYMMDD-HHMMSS-nnnnnnnnn` in UTC.
fn stamp_text(stamp: Stamp) -> String {
    match Timestamp::from_nanosecond(stamp.0.into()) {
        Ok(time) => format!("{}-{:09}", time.strftime("%Y%m%d-%H%M%S"), time.subsec_nanosecond()),
        // 2^64 nanoseconds end in the year 2554, long before the calendar does.
        Err(_) => String::new(),
    }
}

fn parse_stamp(text: &str) -> Option<Stamp> {
    let bytes = text.as_bytes();
    let digits = |(at, byte): (usize, &u8)| if at == 8 || at == 15 { *byte == b'-' } else { byte.is_ascii_digit() };
    if bytes.len() != 25 || !bytes.iter().enumerate().all(digits) {
        return None;
    }
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i32>().ok();
    let small = |range| number(range).and_then(|n| i8::try_from(n).ok());
    let year = i16::try_from(number(0..4)?).ok()?;
    let civil =
        DateTime::new(year, small(4..6)?, small(6..8)?, small(9..11)?, small(11..13)?, small(13..15)?, number(16..25)?);
    let time = civil.ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp();
    u64::try_from(time.as_nanosecond()).ok().map(Stamp)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_says_whose_and_when() {
        let text = "main__b__20250615-150640-000000001__GX__X123__Y456.pb.gz";
        let name = SnapshotName::parse(text).expect("a name");
        assert_eq!((name.database.as_str(), name.instance.as_str()), ("main", "b"));
        assert_eq!(name.stamp, Stamp(1_750_000_000_000_000_001));
        assert_eq!(name.extra, ["X123", "Y456"]);
        assert_eq!((name.to_string().as_str(), name.codec), (text, Codec::Gzip));
        let text = text.replace(".pb.gz", ".pb.zstd");
        let name = SnapshotName::parse(&text).expect("a name");
        assert_eq!((name.to_string(), name.codec), (text, Codec::Zstd));
    }

    #[test]
    fn foreign_names_are_left_alone() {
        for name in [
            "",
            "update-marker",
            "main__b.pb.gz",
            "main__b__20250101-000000__GX.pb.gz",
            "main__b__20990101-000000-000000000__GX.pb.zst",
            "main__b__20250615-150640-000000000__GX.pb.gz.tmp",
            "main__b__20250615-150640-000000000.pb.gz",
            "main__b__20251315-150640-000000000__GX.pb.gz",
            "main__b__20250615-246640-000000000__GX.pb.gz",
            "main__b__20250615-150640-00000000x__GX.pb.gz",
            "main__b__2025061é-150640-00000000__GX.pb.gz",
            "ma.in__b__20250615-150640-000000000__GX.pb.gz",
            "__b__20250615-150640-000000000__GX.pb.gz",
            "main____20250615-150640-000000000__GX.pb.gz",
            "x/main__b__20250615-150640-000000000__GX.pb.gz",
            "main__b__19690615-150640-000000000__GX.pb.gz",
            "main__b__99990615-150640-000000000__GX.pb.gz",
        ] {
            assert_eq!(SnapshotName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn words_that_names_can_be_made_of() {
        for (word, good) in
            [("main", true), ("a_b", true), ("a__b", false), ("a.b", false), ("", false), ("a_", false), ("a/b", false)]
        {
            assert_eq!(SnapshotName::is_word(word), good, "{word}");
        }
        assert_eq!(SnapshotName::clean_instance("ns1.example_net"), "ns1-example-net");
    }

    proptest! {
        #[test]
        fn what_we_print_we_read(stamp: u64, database in "[a-z][a-z0-9-]{0,8}", instance in "[A-Za-z0-9-]{1,9}") {
            let name = SnapshotName {
                database, instance, stamp: Stamp(stamp), generation: GENERATION.into(), extra: vec![], codec: Codec::default(),
            };
            prop_assert_eq!(SnapshotName::parse(&name.to_string()), Some(name));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            if let Some(name) = SnapshotName::parse(&text) {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }
}
