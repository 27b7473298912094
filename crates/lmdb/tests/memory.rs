//! Memory of a snapshot and of a merge: bounded by settings, not by the environment (I5). A process of its own, because it counts
//! all of its allocations. What liblmdb allocates isn't among them: that is the pages of a write transaction, which a slice bounds.
//!
//! `SEAWALL_RECORDS=600000` runs it with as many records (minutes).

#![allow(clippy::disallowed_methods, reason = "tests are an edge")]
#![allow(missing_docs, reason = "tests speak by their names")]

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seawall_lmdb::{Author, Dumped, EnvOptions, Flags, Local, Pace, Schema, Settings, Stamp, Stretch};
use seawall_testing::counting::{Counting, take_peak};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most at once, whatever is done.
const MOST: usize = 24 << 20;

/// What two runs may differ by: how many pieces, of up to 2 MiB, are compressed at one moment.
const SLACK: usize = 8 << 20;

/// A snapshot, read from where it was made.
struct Object {
    file: Arc<File>,
    stretches: Vec<Stretch>,
}

impl Object {
    fn of(dumped: &Dumped) -> Self {
        Self { file: Arc::clone(&dumped.file), stretches: dumped.stretches.iter().rev().copied().collect() }
    }
}

impl Read for Object {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let Some(stretch) = self.stretches.last_mut() else { return Ok(0) };
        let length = buffer.len().min(usize::try_from(stretch.length).unwrap_or(usize::MAX));
        self.file.read_exact_at(&mut buffer[..length], stretch.at)?;
        stretch.at += length as u64;
        stretch.length -= length as u64;
        if stretch.length == 0 {
            self.stretches.pop();
        }
        Ok(length)
    }
}

fn open(folder: &Path, native: bool) -> Local {
    let schema = Schema { native, dupsort_hack: false, padding: false, create_flags: Default::default() };
    // Few commits, however slow the disk.
    let pace = Pace { slice: Duration::from_secs(5), whole: false };
    let options = EnvOptions { create: true, map_size: Some(4 << 30), ..EnvOptions::default() };
    Local::open(folder, &options, Settings { pace, ..Settings::new(schema) }).expect("opened")
}

/// Writes records as an application does: keys of 9 bytes and values of some 750, so that few make much.
fn write(local: &Local, native: bool, records: std::ops::Range<u32>, stamp: u64) {
    let mut txn = local.env().write().expect("a transaction");
    let dbi = txn.create(b"records", Flags::default()).expect("a DBI");
    for n in records {
        let noise = (u64::from(n) + stamp).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let header = [&stamp.to_be_bytes()[..], &[0; 16]].concat();
        let line =
            |part: u64| format!("{:016x} ns{}.dns-host.example.net v=spf1 -all\n", noise.rotate_left(7) ^ part, n % 50);
        let text: String = (0..14).map(|part| line(noise.wrapping_mul(part))).collect();
        let value = [if native { &header[..] } else { &[] }, text.as_bytes()].concat();
        txn.put(dbi, &[&n.to_be_bytes()[..], b"www\0\x01"].concat(), &value).expect("put");
    }
    txn.commit().expect("committed");
}

/// The most bytes that were allocated at once, by step.
fn peaks(native: bool, records: u32) -> Vec<(&'static str, usize)> {
    let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let [mut sender, mut receiver] = [&folders[0], &folders[1]].map(|folder| open(folder.path(), native));
    let author = Author { instance: "a".into(), hostname: "h".into(), database: "main".into() };
    let mut peaks = Vec::new();
    let mut measured = |step| peaks.push((step, take_peak()));
    write(&sender, native, 0..records, 7);
    sender.begin(Stamp(8)).expect("begun");
    measured("the first look");
    let first = Object::of(sender.snapshot(&author, &|| Stamp(10)).expect("taken"));
    measured("the first snapshot");
    let loaded = receiver.load("first", first, Stamp(0), Stamp(11)).expect("merged");
    assert_eq!(loaded.applied.entries, u64::from(records));
    measured("a merge into nothing");
    write(&sender, native, 0..1, 20);
    let second = sender.snapshot(&author, &|| Stamp(21)).expect("taken");
    assert!(second.kept * 2 > second.bytes);
    let second = Object::of(second);
    measured("a snapshot of one change");
    let loaded = receiver.load("second", second, Stamp(0), Stamp(22)).expect("merged");
    assert_eq!((loaded.entries, loaded.applied.entries), (u64::from(records), 1));
    measured("a merge of one change, read whole");
    peaks
}

#[test]
fn memory_does_not_grow_with_the_environment() {
    // So many that buffers of a fixed size are full.
    const FEW: u32 = 8_000;
    let records = std::env::var("SEAWALL_RECORDS").map_or(24_000, |records| records.parse().expect("a number"));
    for native in [true, false] {
        let (few, many) = (peaks(native, FEW), peaks(native, records));
        eprintln!("{few:?}\n{many:?}");
        for ((step, few), (_, many)) in few.into_iter().zip(many) {
            assert!(many <= MOST, "{step}: {many} bytes");
            assert!(many <= few + SLACK, "{step}: {few} bytes, and {many} with three times as many records");
        }
    }
}
