//! Numbers of the log, and the names of its files and objects, in both directions. Each name is read only in the one
//! spelling in which it is written.

use std::fmt;
use std::str::FromStr;

use seawall_vault::{ObjectKey, Prefix};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::LogError;

/// The smallest and the largest segment that PostgreSQL makes, in bytes.
const SIZES: (u32, u32) = (1 << 20, 1 << 30);

/// The number that `initdb` gives a cluster, and that its copies share. In text it is decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SystemId(u64);

impl SystemId {
    /// The identifier with this number.
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for SystemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for SystemId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let id = Self(text.parse().map_err(drop)?);
        if id.to_string() == text { Ok(id) } else { Err(()) }
    }
}

/// The number of a timeline, from 1. In text it has eight hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TimelineId(u32);

impl TimelineId {
    /// The timeline with this number; there is none with the number 0.
    pub fn new(number: u32) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The timeline with the next number; `None` after the last one.
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }
}

impl fmt::Display for TimelineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08X}", self.0)
    }
}

/// A position in the log, in bytes from its begin. In text it is `16/B374D848`, in names of objects `00000016B374D848`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(u64);

impl Lsn {
    /// The position of this byte.
    pub fn new(byte: u64) -> Self {
        Self(byte)
    }

    /// The number of its byte.
    pub fn byte(self) -> u64 {
        self.0
    }

    /// The position so many bytes later; `None` past the last one.
    pub fn after(self, bytes: u64) -> Option<Self> {
        self.0.checked_add(bytes).map(Self)
    }

    /// The begin of the segment that it is in.
    #[must_use]
    pub fn segment_start(self, size: SegmentSize) -> Self {
        Self(self.0 & !(u64::from(size.bytes()) - 1))
    }

    fn in_name(self) -> String {
        format!("{:016X}", self.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

impl FromStr for Lsn {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (high, low) = text.split_once('/').ok_or(())?;
        let part = |text: &str| match (1..=8).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit()) {
            true => u32::from_str_radix(text, 16).map_err(drop),
            false => Err(()),
        };
        Ok(Self(u64::from(part(high)?) << 32 | u64::from(part(low)?)))
    }
}

impl Serialize for Lsn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Lsn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|()| serde::de::Error::custom("this is no position in the log"))
    }
}

impl Serialize for SystemId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A number of 64 bits isn't exact in every reader of JSON.
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SystemId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|()| serde::de::Error::custom("this is no system identifier"))
    }
}

/// The size of a cluster's segments: a power of two from 1 MiB to 1 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct SegmentSize(u32);

impl SegmentSize {
    /// This size in bytes; `None` if PostgreSQL has no such segments.
    pub fn new(bytes: u32) -> Option<Self> {
        ((SIZES.0..=SIZES.1).contains(&bytes) && bytes.is_power_of_two()).then_some(Self(bytes))
    }

    /// Its bytes.
    pub fn bytes(self) -> u32 {
        self.0
    }

    /// How many segments have the same upper half of the position.
    fn in_a_log(self) -> u32 {
        // The smallest size is 1 MiB, so this is at most 4096.
        u32::try_from((1_u64 << 32) / u64::from(self.0)).unwrap_or(u32::MAX)
    }
}

impl TryFrom<u32> for SegmentSize {
    type Error = &'static str;

    fn try_from(bytes: u32) -> Result<Self, Self::Error> {
        Self::new(bytes).ok_or("this is no size of segments")
    }
}

impl From<SegmentSize> for u32 {
    fn from(size: SegmentSize) -> Self {
        size.bytes()
    }
}

/// The name of a segment: its timeline, the upper half of its position, and its number among those with this half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentName {
    /// Its timeline.
    pub timeline: TimelineId,
    high: u32,
    low: u32,
}

impl SegmentName {
    /// The segment with this position in it.
    pub fn of(timeline: TimelineId, position: Lsn, size: SegmentSize) -> Self {
        let halves = |number: u64| u32::try_from(number & 0xffff_ffff).unwrap_or_default();
        let high = halves(position.byte() >> 32);
        Self { timeline, high, low: halves(position.byte()) / size.bytes() }
    }

    /// Its first position; `None` if a cluster with segments of this size has no such segment.
    pub fn start(self, size: SegmentSize) -> Option<Lsn> {
        let start = u64::from(self.low) * u64::from(size.bytes());
        (self.low < size.in_a_log()).then(|| Lsn(u64::from(self.high) << 32 | start))
    }

    /// Reads 24 hex digits.
    fn parse(text: &str) -> Option<Self> {
        let part = |from: usize| hex32(text.get(from..from + 8)?);
        if text.len() != 24 {
            return None;
        }
        Some(Self { timeline: TimelineId::new(part(0)?)?, high: part(8)?, low: part(16)? })
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:08X}{:08X}", self.timeline, self.high, self.low)
    }
}

/// Exactly eight digits, as PostgreSQL writes them.
fn hex32(text: &str) -> Option<u32> {
    let ours = text.len() == 8 && text.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b));
    ours.then(|| u32::from_str_radix(text, 16).ok()).flatten()
}

/// A file that PostgreSQL archives, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFile {
    /// A complete segment.
    Segment(SegmentName),
    /// The last segment of a timeline that ended in the middle of it: `….partial`.
    Partial(SegmentName),
    /// What a base backup notes of itself: `….00000028.backup`. The number is the offset in the segment at which it began.
    Backup(SegmentName, u32),
    /// The history of a timeline: `00000002.history`.
    History(TimelineId),
}

impl LogFile {
    /// The timeline that it belongs to.
    pub fn timeline(self) -> TimelineId {
        match self {
            Self::Segment(name) | Self::Partial(name) | Self::Backup(name, _) => name.timeline,
            Self::History(timeline) => timeline,
        }
    }
}

impl fmt::Display for LogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segment(name) => write!(f, "{name}"),
            Self::Partial(name) => write!(f, "{name}.partial"),
            Self::Backup(name, offset) => write!(f, "{name}.{offset:08X}.backup"),
            Self::History(timeline) => write!(f, "{timeline}.history"),
        }
    }
}

impl FromStr for LogFile {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let parts: Vec<&str> = text.split('.').collect();
        match parts[..] {
            [segment] => SegmentName::parse(segment).map(Self::Segment),
            [segment, "partial"] => SegmentName::parse(segment).map(Self::Partial),
            [timeline, "history"] => hex32(timeline).and_then(TimelineId::new).map(Self::History),
            [segment, offset, "backup"] => {
                SegmentName::parse(segment).zip(hex32(offset)).map(|(name, offset)| Self::Backup(name, offset))
            }
            _ => None,
        }
        .ok_or(())
    }
}

/// An object of the log, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogObject {
    /// A file that PostgreSQL archives.
    File(LogFile),
    /// A range that was shipped before its segment was complete.
    Range {
        /// Its timeline.
        timeline: TimelineId,
        /// Its first position.
        start: Lsn,
        /// The position after its last byte.
        end: Lsn,
    },
    /// The record that a range is lost.
    Hole {
        /// Its timeline.
        timeline: TimelineId,
        /// Its first position.
        start: Lsn,
        /// The position after its last byte.
        end: Lsn,
    },
    /// The record that retention deleted log before a position.
    Trimmed {
        /// Its timeline.
        timeline: TimelineId,
        /// The position.
        end: Lsn,
    },
}

impl LogObject {
    /// The timeline that it belongs to.
    pub fn timeline(self) -> TimelineId {
        match self {
            Self::File(file) => file.timeline(),
            Self::Range { timeline, .. } | Self::Hole { timeline, .. } | Self::Trimmed { timeline, .. } => timeline,
        }
    }

    /// Its key in the vault of a cluster.
    pub(super) fn key(self, system: SystemId) -> Result<ObjectKey, LogError> {
        let timeline = self.timeline();
        let below = match self {
            Self::File(file @ LogFile::History(_)) => file.to_string(),
            Self::File(file @ LogFile::Backup(..)) => format!("{timeline}/{file}"),
            Self::File(file) => format!("{timeline}/{file}.zst"),
            Self::Range { start, end, .. } => format!("{timeline}/{}-{}.zst", start.in_name(), end.in_name()),
            Self::Hole { start, end, .. } => format!("{timeline}/{}-{}.hole", start.in_name(), end.in_name()),
            Self::Trimmed { end, .. } => format!("{timeline}/{}.trimmed", end.in_name()),
        };
        Ok(ObjectKey::new(format!("{PHYSICAL}{system}/log/{below}"))?)
    }

    /// What the part of a key after `log/` stands for; `None` when it isn't one of Seawall's names.
    fn parse_below(below: &str) -> Option<Self> {
        let Some((folder, file)) = below.split_once('/') else {
            return below.parse().ok().filter(|file| matches!(file, LogFile::History(_))).map(Self::File);
        };
        let timeline = hex32(folder).and_then(TimelineId::new)?;
        let found = match file.strip_suffix(".zst") {
            None => match file.rsplit_once('.')? {
                (name, "hole") => {
                    let (start, end) = name.split_once('-')?;
                    Self::Hole { timeline, start: hex64(start)?, end: hex64(end)? }
                }
                (name, "trimmed") => Self::Trimmed { timeline, end: hex64(name)? },
                _ => Self::File(file.parse().ok().filter(|file| matches!(file, LogFile::Backup(..)))?),
            },
            Some(name) => match name.split_once('-') {
                Some((start, end)) => Self::Range { timeline, start: hex64(start)?, end: hex64(end)? },
                None => {
                    let file = name.parse().ok();
                    Self::File(file.filter(|file| matches!(file, LogFile::Segment(_) | LogFile::Partial(_)))?)
                }
            },
        };
        let forward = !matches!(found, Self::Range { start, end, .. } | Self::Hole { start, end, .. } if start >= end);
        (forward && found.timeline() == timeline).then_some(found)
    }

    /// The cluster and the object that `key` stands for; `None` when it isn't one of Seawall's names.
    pub fn parse(key: &ObjectKey) -> Option<(SystemId, Self)> {
        let (system, below) = key.as_str().strip_prefix(PHYSICAL)?.split_once("/log/")?;
        Some((system.parse().ok()?, Self::parse_below(below)?))
    }
}

fn hex64(text: &str) -> Option<Lsn> {
    let halves = text.get(..8).and_then(hex32).zip(text.get(8..).and_then(hex32))?;
    Some(Lsn(u64::from(halves.0) << 32 | u64::from(halves.1)))
}

/// Where everything of a cluster's files and log is.
const PHYSICAL: &str = "physical/";

/// The object that says whose log a vault holds.
const CLUSTER: &str = "physical/cluster.json";

pub(super) fn cluster() -> Result<ObjectKey, LogError> {
    Ok(ObjectKey::new(CLUSTER)?)
}

/// Where the log of a cluster is.
pub(super) fn log_of(system: SystemId) -> Result<Prefix, LogError> {
    Ok(Prefix::new(format!("{PHYSICAL}{system}/log/"))?)
}

/// Where the segments and ranges of a timeline are.
pub(super) fn log_on(system: SystemId, timeline: TimelineId) -> Result<Prefix, LogError> {
    Ok(Prefix::new(format!("{PHYSICAL}{system}/log/{timeline}/"))?)
}

/// A key that sorts behind every range that begins before `start`, and before all other ranges.
pub(super) fn before_ranges(system: SystemId, timeline: TimelineId, start: Lsn) -> Result<ObjectKey, LogError> {
    Ok(ObjectKey::new(format!("{PHYSICAL}{system}/log/{timeline}/{}", start.in_name()))?)
}

/// A key that sorts before everything of this timeline and the later ones, its history file included.
pub(super) fn before_timeline(system: SystemId, timeline: TimelineId) -> Result<ObjectKey, LogError> {
    Ok(ObjectKey::new(format!("{PHYSICAL}{system}/log/{timeline}"))?)
}

/// Whether an object of this name belongs to a log. Such an object shows that a vault holds one.
pub fn is_of_log(key: &ObjectKey) -> bool {
    key.as_str() == CLUSTER || LogObject::parse(key).is_some()
}

/// Whether a host reads the object of this name as long as it exists: it holds no content of a database.
pub fn is_lasting(key: &ObjectKey) -> bool {
    key.as_str() == CLUSTER
        || matches!(
            LogObject::parse(key),
            Some((_, LogObject::File(LogFile::History(_)) | LogObject::Hole { .. } | LogObject::Trimmed { .. }))
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: SystemId = SystemId(7_212_345_678_901_234_567);

    fn size(mib: u32) -> SegmentSize {
        SegmentSize::new(mib << 20).expect("a size")
    }

    #[test]
    fn positions_and_segments() {
        let one = TimelineId::new(1).expect("a timeline");
        for (position, mib, name, start) in [
            (0x16_b374_d848, 16, "0000000100000016000000B3", 0x16_b300_0000_u64),
            (0x0100_0000, 16, "000000010000000000000001", 0x0100_0000),
            (0x1_0000_0000, 16, "000000010000000100000000", 0x1_0000_0000),
            (0xffff_ffff, 1, "000000010000000000000FFF", 0xfff0_0000),
            (0xffff_ffff, 1024, "000000010000000000000003", 0xc000_0000),
            (0x0500_0000, 64, "000000010000000000000001", 0x0400_0000),
        ] {
            let found = SegmentName::of(one, Lsn(position), size(mib));
            assert_eq!(found.to_string(), name);
            assert_eq!(found.start(size(mib)), Some(Lsn(start)), "{name}");
            assert_eq!(Lsn(position).segment_start(size(mib)), Lsn(start), "{name}");
            assert_eq!(SegmentName::parse(name), Some(found));
        }
        let no_such = SegmentName::parse("000000010000000000000100").expect("a name");
        assert_eq!(no_such.start(size(16)), None, "there are 256 segments of 16 MiB in a log");
        for text in ["16/B374D848", "0/0", "FFFFFFFF/FFFFFFFF"] {
            assert_eq!(text.parse::<Lsn>().expect("a position").to_string(), text);
        }
        for text in ["", "/", "1/", "+1/0", "1/123456789", "1", "g/0"] {
            assert_eq!(text.parse::<Lsn>(), Err(()), "{text}");
        }
    }

    #[test]
    fn files_of_the_archive() {
        for text in [
            "000000010000000000000001",
            "000000010000000000000001.partial",
            "000000010000000000000001.00000028.backup",
            "00000002.history",
        ] {
            assert_eq!(text.parse::<LogFile>().expect("a file").to_string(), text);
        }
        for text in [
            "",
            "00000000.history",
            "000000000000000000000001",
            "00000001000000000000000a",
            "00000001000000000000000",
            "000000010000000000000001.partial.partial",
            "000000010000000000000001.28.backup",
            "2.history",
            "+0000002.history",
            "RECOVERYXLOG",
            "../000000010000000000000001",
        ] {
            assert_eq!(text.parse::<LogFile>(), Err(()), "{text}");
        }
    }

    #[test]
    fn objects_and_back() {
        let file = |text: &str| LogObject::File(text.parse().expect("a file"));
        let two = TimelineId::new(2).expect("a timeline");
        for (object, below) in [
            (file("000000020000000000000003"), "00000002/000000020000000000000003.zst"),
            (file("000000020000000000000003.partial"), "00000002/000000020000000000000003.partial.zst"),
            (file("000000020000000000000003.00000028.backup"), "00000002/000000020000000000000003.00000028.backup"),
            (file("00000002.history"), "00000002.history"),
            (
                LogObject::Range { timeline: two, start: Lsn(0x300_0000), end: Lsn(0x300_0150) },
                "00000002/0000000003000000-0000000003000150.zst",
            ),
            (
                LogObject::Hole { timeline: two, start: Lsn(0x300_0000), end: Lsn(0x500_0000) },
                "00000002/0000000003000000-0000000005000000.hole",
            ),
            (LogObject::Trimmed { timeline: two, end: Lsn(0x500_0000) }, "00000002/0000000005000000.trimmed"),
        ] {
            let key = object.key(SYSTEM).expect("a key");
            assert_eq!(key.as_str(), format!("physical/{SYSTEM}/log/{below}"));
            assert_eq!(LogObject::parse(&key), Some((SYSTEM, object)), "{key}");
            assert!(is_of_log(&key));
        }
        for below in [
            "00000001/000000020000000000000003.zst",
            "00000002/000000020000000000000003",
            "00000002/00000002.history",
            "00000002/0000000003000000-0000000003000000.zst",
            "00000002/0000000003000000.zst",
            "00000002/0000000003000000-0000000005000000.trimmed",
            "000000020000000000000003.zst",
            "00000000.history",
        ] {
            let key = ObjectKey::new(format!("physical/{SYSTEM}/log/{below}")).expect("a key");
            assert_eq!(LogObject::parse(&key), None, "{below}");
        }
        assert!(is_lasting(&cluster().expect("a key")));
    }

    #[test]
    fn keys_that_lists_begin_after() {
        let two = TimelineId::new(2).expect("a timeline");
        let key = |object: LogObject| object.key(SYSTEM).expect("a key");
        let file = |text: &str| key(LogObject::File(text.parse().expect("a file")));
        let before = before_timeline(SYSTEM, two).expect("a key");
        assert!(file("00000001.history") < before && file("0000000100000000000000FF") < before);
        assert!(before < file("00000002.history") && before < file("000000020000000000000001"));
        let range = |start, end| key(LogObject::Range { timeline: two, start: Lsn(start), end: Lsn(end) });
        let before = before_ranges(SYSTEM, two, Lsn(0x300_0000)).expect("a key");
        assert!(range(0x2ff_ffff, 0x300_0000) < before && before < range(0x300_0000, 0x300_0001));
    }
}
