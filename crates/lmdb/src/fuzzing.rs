//! The crate's parsers of foreign bytes, for the fuzz target `lmdb_parsers`. Not part of the interface.

use std::ops::Range;

use crate::Flags;
use crate::schema::dupsort;
use crate::schema::header::Stored;
use crate::snapshot::{Codec, Limits, SnapshotName, SnapshotReader, encode, index};

/// Parses `bytes` in each format that comes from a vault or an environment. No parser may panic, whatever the bytes
/// are.
pub fn parse(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(name) = SnapshotName::parse(&text) {
        assert_eq!(name.to_string(), text, "a name is printed as it was read");
    }
    let _flags = Flags::from_text(&text);
    let _stored = Stored::parse(bytes).map(|stored| stored.value.len());
    let _key = dupsort::split(bytes).map(|key| dupsort::fits(bytes, key));
    if let Some(range) = index::find(bytes, bytes.len() as u64) {
        let _index = usize::try_from(range.start).ok().and_then(|at| index::parse(bytes.get(at..)?, range.start));
    }
    let _index = index::parse(&wrapped(bytes), bytes.len() as u64);
    read(bytes);
    // Compressed here, because random bytes would hardly ever pass the checksums of gzip.
    read(&wrapped(bytes));
    let mut frame = Vec::new();
    crate::snapshot::Compressor::new(Codec::Zstd).member(bytes, &mut frame);
    read(&frame);
}

/// Reads a snapshot to its end or to its first error.
pub fn read(bytes: &[u8]) {
    let mut reader = SnapshotReader::new(bytes, Limits { entry: 1 << 20 });
    while let Ok(Some(_)) = reader.next() {}
}

/// A gzip stream of `raw`.
pub fn wrapped(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    crate::snapshot::Compressor::new(Codec::Gzip).member(raw, &mut out);
    out
}

/// A snapshot of one DBI with entries, uncompressed: something to damage, and something to measure.
pub fn sample(entries: &[crate::snapshot::Entry<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    encode::put_preamble(&crate::snapshot::Meta { database: "main".to_owned(), ..Default::default() }, 1, &mut out);
    let bytes = entries.iter().map(encode::entry_size).sum();
    encode::put_database(b"records", 0, "", bytes, &mut out);
    entries.iter().for_each(|entry| encode::put_entry(entry, &mut out));
    out
}

/// A snapshot whose index misstates its pieces: each begins with `first` and holds `content`.
pub fn reindexed(object: &[u8], first: &[u8], content: u8) -> Vec<u8> {
    let Some(range) = index::find(object, object.len() as u64) else { return Vec::new() };
    let within = |range: Range<u64>| {
        let (start, end) = (usize::try_from(range.start).unwrap_or(0), usize::try_from(range.end).unwrap_or(0));
        object.get(start..end).unwrap_or_default()
    };
    let mut index = index::parse(within(range.clone()), range.start).unwrap_or_default();
    for piece in index.sections.iter_mut().flat_map(|section| &mut section.pieces) {
        piece.first = first.to_vec();
        piece.content = [content; 16];
    }
    let mut out = within(0..range.start).to_vec();
    index::put(&index, range.start, Codec::Gzip, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stamp;
    use crate::snapshot::{Entry, Item, Rule};

    fn entries() -> Vec<Entry<'static>> {
        let plain = Entry { key: b"key", value: b"value", stamp: Stamp(7), deleted: false };
        vec![plain, Entry { key: b"other", value: b"", stamp: Stamp(u64::MAX), deleted: true }]
    }

    /// The target itself, for as long as a test may take.
    #[test]
    fn no_bytes_panic() {
        let mut random = fastrand::Rng::with_seed(5);
        let raw = sample(&entries());
        for sample in [wrapped(&raw), raw, b"main__b__20250615-150640-000000000__GX.pb.gz".to_vec()] {
            parse(&sample);
            for _ in 0..2000 {
                let mut damaged = sample.clone();
                for _ in 0..random.usize(1..6) {
                    let at = random.usize(..damaged.len());
                    damaged[at] = random.u8(..);
                }
                damaged.truncate(random.usize(..=damaged.len()));
                parse(&damaged);
            }
        }
    }

    #[test]
    fn a_snapshot_that_ends_early_is_never_taken_for_whole() {
        let raw = sample(&entries());
        // One member, and one for each field: a cut between two of them leaves a sound stream.
        let cut = raw.len() - entries().iter().map(encode::entry_size).sum::<u64>() as usize - 11;
        let split = [wrapped(&raw[..cut]), wrapped(&raw[cut..])].concat();
        for (whole, length) in [wrapped(&raw), split].iter().flat_map(|w| (0..w.len()).map(move |length| (w, length))) {
            let mut reader = SnapshotReader::new(&whole[..length], Limits::default());
            let end = loop {
                match reader.next() {
                    Ok(Some(_)) => {}
                    Ok(None) => break true,
                    Err(_) => break false,
                }
            };
            assert!(!end, "{length} of {}", whole.len());
        }
    }

    #[test]
    fn an_entry_has_a_limit_and_may_be_split_anywhere() {
        let value = vec![9; 300_000];
        let large = [Entry { key: b"key", value: &value, stamp: Stamp(7), deleted: false }, entries()[0]];
        let bytes = wrapped(&sample(&large));
        // A source that gives one byte at a time.
        struct Slow<'a>(&'a [u8]);
        impl std::io::Read for Slow<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                std::io::Read::read(&mut self.0, buffer.get_mut(..1).unwrap_or_default())
            }
        }
        let mut reader = SnapshotReader::new(Slow(&bytes), Limits::default());
        let mut found = Vec::new();
        while let Some(item) = reader.next().unwrap() {
            if let Item::Entry(_, entry) = item {
                found.push((entry.key.to_vec(), entry.value.len()));
            }
        }
        assert_eq!(found, [(b"key".to_vec(), 300_000), (b"key".to_vec(), 5)]);
        let mut reader = SnapshotReader::new(&bytes[..], Limits { entry: 200_000 });
        let fault = loop {
            match reader.next() {
                Ok(Some(_)) => {}
                Err(crate::snapshot::Problem::Fault(fault)) => break fault.rule,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(fault, Rule::EntrySize);
    }
}
