//! The crate's parsers of foreign bytes, for the fuzz target `sqlite_parsers`. Not part of the interface.

use seawall_core::Moment;

use crate::ahead;
use crate::catalog::{Catalog, Dated};
use crate::compaction::{self, Schedule};
use crate::generations;
use crate::holes::HoleRecord;
use crate::layout::{Layout, PINS, Stored, parse_key, parse_mark};
use crate::mark::FollowRecord;
use crate::options::Upkeep;
use crate::places::{Place, Stack};
use crate::plan::{latest, stretches};
use crate::retention::{self, Question, StoreLocks};
use crate::sealed::Sealed;
use crate::state::Record;
use crate::sums::Sum;
use crate::wal::{HEADER_SIZE, IndexHeader, Scan, WalHeader};

/// Reads `bytes` as everything that comes from disk or vault; none of it may panic, whatever they are.
pub fn parse(bytes: &[u8]) {
    if let Some(header) = WalHeader::parse(bytes) {
        let mut scan = Scan::new(HEADER_SIZE, header.chain);
        scan.take(&header, bytes.get(HEADER_SIZE as usize..).unwrap_or_default(), u64::MAX);
        scan.newest();
    }
    places(bytes);
    let _header = IndexHeader::parse(bytes);
    let _list = Sealed::parse(bytes);
    let _record = serde_json::from_slice::<Record>(bytes).map(|record| record.remembered("file:///vault").is_some());
    let _place = FollowRecord::parse(bytes).map(|record| record.find(0).is_some());
    let _hole = serde_json::from_slice::<HoleRecord>(bytes).map(|hole| hole.to_txid());
    let _sum = Sum::parse(bytes);
    let text = String::from_utf8_lossy(bytes);
    let old: Vec<_> = text.lines().filter_map(generations::parse_key).collect();
    drop(old);
    for layout in [Layout::Files, Layout::Objects] {
        let files: Vec<_> = text.lines().filter_map(|line| parse_key(layout, line, 1)).collect();
        stretches(&files);
        let _chain = latest(&files);
        upkeep(&files);
    }
    for line in text.lines() {
        let _pin = parse_mark(PINS, line);
    }
}

/// Finds the pages of an object whose index lies in any way, and which of them come with one request.
fn places(bytes: &[u8]) {
    let Ok(index) = seawall_ltx::Index::parse(bytes, bytes.len() as u64) else { return };
    let places: Option<Vec<_>> = index.entries().iter().map(|entry| Place::new(0, entry)).collect();
    let mut stack = Stack::new(u32::MAX);
    stack.put_below(&places.unwrap_or_default(), 7);
    let places = stack.finish();
    for first in 0..places.len() {
        let batch = ahead::batch(&places, first, ahead::FIRST, 16);
        assert!(batch.is_some_and(|batch| batch.bytes.end <= bytes.len() as u64), "a frame beyond the object");
    }
}

/// Plans merges and deletions in a vault with these files, at several moments. A base must remain.
fn upkeep(files: &[Stored]) {
    let moments = [i64::MIN, -1, 0, 1_800_000_000_000, i64::MAX].map(Moment::from_millis);
    let dated = files.iter().zip(moments.iter().cycle());
    let catalog = Catalog::new(dated.map(|(file, moment)| Dated { file: *file, moment: *moment, written: *moment }));
    let Upkeep { levels, base_interval, retention, .. } = Upkeep::default();
    let schedule = Schedule { levels: &levels, bases: base_interval, phase: 12_345 };
    let pins: Vec<_> = files.iter().map(|file| file.max).take(3).collect();
    let locks = StoreLocks::default();
    let question = Question { catalog: &catalog, policy: &retention, levels: &levels, pins: &pins, locks: &locks };
    for now in moments {
        let _job = (compaction::due(&catalog, &schedule, now), compaction::next(&catalog, &schedule));
        let gone = retention::removals(&question, now);
        let _next = retention::next(&question, now);
        let newest = catalog.bases().next_back().map(|base| base.file);
        assert!(!gone.iter().any(|removal| Some(removal.file) == newest), "the newest base stays");
    }
}

#[cfg(test)]
mod tests {
    use seawall_ltx::Txid;

    use super::parse;

    /// A log of SQLite's own making.
    #[expect(clippy::disallowed_methods, reason = "a test is an edge")]
    fn wal() -> Vec<u8> {
        let folder = tempfile::tempdir().expect("a folder");
        let database = rusqlite::Connection::open(folder.path().join("a.db")).expect("a database");
        let made = "PRAGMA page_size = 512; PRAGMA journal_mode = wal; CREATE TABLE t(x); INSERT INTO t VALUES (1)";
        database.execute_batch(made).expect("a commit");
        std::fs::read(folder.path().join("a.db-wal")).expect("its log")
    }

    /// An LTX file.
    fn object() -> Vec<u8> {
        let size = seawall_ltx::PageSize::new(512).expect("a page size");
        let mut file = Vec::new();
        let header = seawall_ltx::Header::new(size, 9, Txid(2), Txid(2));
        let mut encoder = seawall_ltx::Encoder::new(header, &mut file).expect("begun");
        for page in [2, 3, 5, 9] {
            encoder.push(seawall_ltx::PageNo(page), &[3; 512], &mut file).expect("written");
        }
        encoder.finish(seawall_ltx::Checksum::NONE, &mut file).expect("finished");
        file
    }

    /// The target itself, for as long as a test may take: whole files with random damage, and noise.
    #[test]
    fn no_bytes_panic() {
        let mut random = fastrand::Rng::with_seed(11);
        let key =
            b"ltx/0/ffffffffffffffff-ffffffffffffffff.ltx\nltx/9/0000000000000001-ffffffffffffffff.ltx\n".to_vec();
        let record = br#"{"format":1,"from":null,"to":"ffffffffffffffff","reason":"","writer":{"lineage":"0000000000000001","nonce":1}}"#;
        let listing: String = [(9, 1, 1), (0, 2, 2), (0, 3, 3), (1, 2, 3), (9, 1, 3), (2, 2, 3)]
            .map(|(level, min, max)| format!("{level:04x}/{min:016x}-{max:016x}.ltx\n"))
            .concat();
        for sample in [wal(), key, record.to_vec(), listing.into_bytes(), object()] {
            parse(&sample);
            for _ in 0..2000 {
                let mut damaged = sample.clone();
                for _ in 0..random.usize(1..8) {
                    let at = random.usize(..damaged.len());
                    damaged[at] = random.u8(..);
                }
                damaged.truncate(random.usize(..=damaged.len()));
                parse(&damaged);
            }
        }
    }
}
