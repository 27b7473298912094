//! Lightning Stream's output, for scripts that read it. Used only when the program is called by its name.

use std::io::{self, BufWriter, Stdout, Write};

use seawall_core::{Clock as _, Moment, SystemClock};
use seawall_lmdb::snapshot::Preamble;
use seawall_lmdb::view::{Age, Viewer};
use seawall_lmdb::{EnvStatus, Flags, Stamp};
use serde_json::json;

use super::tools::moment;

/// Milliseconds of the year 2022's begin: an older time at the head of a value is taken for something else.
const RECENT: i64 = 1_640_995_200_000;

/// And one that is more than a month ahead.
const AHEAD: i64 = 30 * 24 * 3600 * 1000;

/// The page size, if no DBI has one.
const PAGE: u64 = 4096;

/// Prints to standard output as Lightning Stream does.
pub(super) struct Faithful {
    out: BufWriter<Stdout>,
    now: Moment,
    /// The environment whose DBIs are printed; none of a snapshot.
    environment: Option<String>,
}

impl Faithful {
    pub(super) fn new() -> Self {
        Self { out: BufWriter::with_capacity(1 << 16, io::stdout()), now: SystemClock.now(), environment: None }
    }

    /// The DBIs of an environment follow.
    pub(super) fn environment(&mut self, name: &str) {
        self.environment = Some(name.to_owned());
    }
}

impl Viewer for Faithful {
    fn begin(&mut self, preamble: &Preamble) -> io::Result<()> {
        let meta = &preamble.meta;
        // In this order, which a map would lose.
        let text = |value: &str| json!(value).to_string();
        write!(
            self.out,
            "{{\n  \"FormatVersion\": {},\n  \"CompatVersion\": {},\n  \"Meta\": {{\n    \"GenerationID\": {},\n    \
             \"InstanceID\": {},\n    \"Hostname\": {},\n    \"LmdbTxnID\": {},\n    \"TimestampNano\": {},\n    \
             \"DatabaseName\": {},\n    \"FromLmdbTxnID\": {}\n  }}\n}}\n",
            preamble.format,
            preamble.compat,
            text(&meta.generation),
            text(&meta.instance),
            text(&meta.hostname),
            meta.transaction,
            meta.stamp.0,
            text(&meta.database),
            meta.from_transaction
        )
    }

    fn database(&mut self, name: &[u8], flags: Flags, transform: &str) -> io::Result<()> {
        let name = String::from_utf8_lossy(name);
        match &self.environment {
            Some(environment) => write!(self.out, "\n### {environment} :: {name}\n\n"),
            None => {
                let flags = names(flags);
                write!(self.out, "\n### {name} (transform={transform:?}, flags={flags:?})\n\n")
            }
        }
    }

    fn entry(&mut self, key: &[u8], value: &[u8], age: Option<Age>) -> io::Result<()> {
        write!(self.out, "{}  =  {}", ascii(key, self.now), ascii(value, self.now))?;
        if let Some(age) = age.filter(|_| self.environment.is_none()) {
            let seconds = (self.now.as_millis() - moment(age.stamp).as_millis() + 500).div_euclid(1000);
            let flags = u8::from(age.deleted);
            write!(self.out, "  ({}, {} ago; flags={flags:02x})", time(age.stamp, ' '), span(seconds))?;
        }
        writeln!(self.out)
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn wants_headers(&self) -> bool {
        true
    }
}

/// The figures of an environment.
pub(super) fn stats(name: &str, status: &EnvStatus) -> String {
    let info = status.info;
    let page = |(_, _, stat): &(String, Flags, seawall_lmdb::DbiStat)| {
        let (branch, leaf, overflow) = stat.pages;
        stat.bytes.checked_div(branch + leaf + overflow)
    };
    let page = status.dbis.iter().find_map(page).unwrap_or(PAGE);
    let mut text = format!(
        "{name}: Env info: {{MapSize:{} LastPNO:{} LastTxnID:{} MaxReaders:{} NumReaders:{}}}\n",
        info.map_size,
        (info.used / page.max(1)).saturating_sub(1),
        info.last_transaction,
        info.readers.1,
        info.readers.0
    );
    let mut used = 0;
    for (dbi, _, stat) in &status.dbis {
        let (branch, leaf, overflow) = stat.pages;
        used += stat.bytes;
        text.push_str(&format!(
            "{name}: dbi {dbi}: {{PSize:{page} Depth:{} BranchPages:{branch} LeafPages:{leaf} OverflowPages:{overflow} \
             Entries:{}}} ({})\n",
            stat.depth,
            stat.entries,
            size(stat.bytes)
        ));
    }
    let part = if info.map_size > 0 { 100.0 * used as f64 / info.map_size as f64 } else { 0.0 };
    text.push_str(&format!("{name}: Total Used: {} / {} (~ {part:.1} %)\n", size(used), size(info.map_size)));
    text
}

/// Bytes for people.
fn size(bytes: u64) -> String {
    let units = [("EB", 60), ("PB", 50), ("TB", 40), ("GB", 30), ("MB", 20), ("KB", 10)];
    match units.iter().find(|(_, shift)| bytes > 1 << shift) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

/// Flags by the names of LMDB's constants.
fn names(flags: Flags) -> String {
    let text = flags.to_string();
    let words =
        text.split('|').filter(|word| !word.is_empty()).map(|word| format!("MDB_{}", word.trim_start_matches("MDB_")));
    words.collect::<Vec<_>>().join("|")
}

/// Bytes as ASCII; with their hexadecimal digits where they are few or something else, and with the time that they begin
/// with.
fn ascii(bytes: &[u8], now: Moment) -> String {
    let is_plain = |byte: &u8| (32..=126).contains(byte);
    let text: String = bytes.iter().map(|byte| if is_plain(byte) { char::from(*byte) } else { '.' }).collect();
    let stamp = bytes.first_chunk::<8>().map(|head| Stamp(u64::from_be_bytes(*head)));
    let is_recent = |stamp: &Stamp| {
        let at = i64::try_from(stamp.0 / 1_000_000).unwrap_or(i64::MAX);
        stamp.0 <= i64::MAX.unsigned_abs() && at >= RECENT && at < now.as_millis() + AHEAD
    };
    let stamp = stamp.filter(is_recent);
    if bytes.len() > 8 && bytes.iter().all(is_plain) && stamp.is_none() {
        return text;
    }
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let time = stamp.map(|stamp| format!(" ({})", time(stamp, 'T'))).unwrap_or_default();
    format!("{text} [{}]{time}", hex.join(" "))
}

/// A time as Go prints it: with a `T` in between as RFC 3339, else as text.
fn time(stamp: Stamp, between: char) -> String {
    let seconds = moment(stamp).to_string();
    let seconds = seconds.get(..19).unwrap_or(&seconds).replace('T', &between.to_string());
    let nanoseconds = stamp.0 % 1_000_000_000;
    let fraction = format!(".{nanoseconds:09}");
    let fraction = if nanoseconds == 0 { "" } else { fraction.trim_end_matches('0') };
    format!("{seconds}{fraction}{}", if between == 'T' { "Z" } else { " +0000 UTC" })
}

/// A span as Go prints it.
fn span(seconds: i64) -> String {
    let sign = if seconds < 0 { "-" } else { "" };
    let all = seconds.unsigned_abs();
    let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, _) => format!("{sign}{minutes}m{seconds}s"),
        _ => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_times_and_sizes_are_as_the_original_prints_them() {
        let now = Moment::from_millis(1_800_000_000_000);
        let stamp = 1_750_000_000_120_000_000_u64;
        for (bytes, expected) in [
            (&b"example.com"[..], "example.com".to_owned()),
            (b"short", "short [73 68 6f 72 74]".to_owned()),
            (b"", " []".to_owned()),
            (b"\x03com\x07example\x00", ".com.example. [03 63 6f 6d 07 65 78 61 6d 70 6c 65 00]".to_owned()),
            (
                &stamp.to_be_bytes()[..],
                format!(
                    "{} [{}] (2025-06-15T15:06:40.12Z)",
                    stamp
                        .to_be_bytes()
                        .map(|byte| if (32..=126).contains(&byte) { char::from(byte) } else { '.' })
                        .iter()
                        .collect::<String>(),
                    stamp.to_be_bytes().map(|byte| format!("{byte:02x}")).join(" ")
                ),
            ),
        ] {
            assert_eq!(ascii(bytes, now), expected);
        }
        assert_eq!(time(Stamp(stamp), ' '), "2025-06-15 15:06:40.12 +0000 UTC");
        assert_eq!(time(Stamp(1_750_000_000_000_000_000), 'T'), "2025-06-15T15:06:40Z");
        for (seconds, expected) in [(0, "0s"), (61, "1m1s"), (3600, "1h0m0s"), (90_061, "25h1m1s"), (-5, "-5s")] {
            assert_eq!(span(seconds), expected);
        }
        for (bytes, expected) in
            [(0, "0 B"), (1024, "1024 B"), (1025, "1.0 KB"), (3 << 19, "1.5 MB"), (64 << 20, "64.0 MB")]
        {
            assert_eq!(size(bytes), expected);
        }
        assert_eq!(names(Flags::DUPSORT), "MDB_DUPSORT");
        assert_eq!(names(Flags::default()), "");
    }
}
