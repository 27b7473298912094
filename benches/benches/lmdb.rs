//! LMDB on records shaped like a name server's: the codec of snapshots, merging them, and finding what changed.
//! `lmdb_sync.py` times whole processes.
//!
//! `cargo bench -p seawall-benches --bench lmdb`.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]
#![allow(missing_docs, clippy::unwrap_used, reason = "criterion's macros, and a bench reports by panicking")]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use seawall_lmdb::fuzzing::{sample, wrapped};
use seawall_lmdb::snapshot::{Entry, Limits, SnapshotReader};
use seawall_lmdb::{Author, EnvOptions, Flags, Local, Schema, Settings, Stamp};
use tempfile::TempDir;

const COUNT: u32 = 100_000;

/// When the records were made.
const MADE: Stamp = Stamp(1_780_000_000_000_000_000);

/// Keys and values of about 9 and 75 bytes, half of them text.
fn records(count: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let record = |n: u32| {
        let noise = (u64::from(n) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let value = format!("{noise:016x} ns{}.dns-host.example.net v=spf1 include:_spf.example.org -all", n % 50);
        ([&n.to_be_bytes()[..], b"www\0\0\x01"].concat(), value.into_bytes())
    };
    (0..count).map(record).collect()
}

fn entries(records: &[(Vec<u8>, Vec<u8>)]) -> Vec<Entry<'_>> {
    records.iter().map(|(key, value)| Entry { key, value, stamp: MADE, deleted: false }).collect()
}

/// An empty environment.
fn environment(native: bool) -> (TempDir, Local) {
    let folder = tempfile::tempdir().unwrap();
    let schema = Schema { native, dupsort_hack: false, padding: false, create_flags: Default::default() };
    let options = EnvOptions { create: true, map_size: Some(256 << 20), ..EnvOptions::default() };
    let local = Local::open(folder.path(), &options, Settings::new(schema)).unwrap();
    (folder, local)
}

/// Changes one record as the application would.
fn change(local: &Local, native: bool, round: u64) {
    let mut txn = local.env().write().unwrap();
    let dbi = txn.create(b"records", Flags::default()).unwrap();
    let stamp = MADE.0 + round;
    let header = [&stamp.to_be_bytes()[..], &txn.id().to_be_bytes(), &[0; 8]].concat();
    let value = [if native { &header[..] } else { &[] }, &stamp.to_be_bytes()].concat();
    let (key, _) = &records(1)[0];
    txn.put(dbi, key, &value).unwrap();
    txn.commit().unwrap();
}

fn codec(c: &mut Criterion) {
    let records = records(COUNT);
    let entries = entries(&records);
    let raw = sample(&entries);
    let object = wrapped(&raw);
    let mut group = c.benchmark_group("snapshot");
    group.throughput(Throughput::Elements(COUNT.into())).sample_size(20);
    group.bench_function("encode", |b| b.iter(|| sample(black_box(&entries)).len()));
    group.bench_function("compress", |b| b.iter(|| wrapped(black_box(&raw)).len()));
    group.bench_function("read", |b| {
        b.iter(|| {
            let mut reader = SnapshotReader::new(black_box(&object[..]), Limits::default());
            let mut count = 0;
            while let Some(item) = reader.next().unwrap() {
                black_box(&item);
                count += 1;
            }
            assert_eq!(count, COUNT + 1);
        });
    });
    group.finish();
}

fn merge(c: &mut Criterion) {
    let records = records(COUNT);
    let object = wrapped(&sample(&entries(&records)));
    for (name, native) in [("merge/native", true), ("merge/shadow", false)] {
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Elements(COUNT.into())).sample_size(10);
        group.bench_function("into nothing", |b| {
            b.iter_batched_ref(
                || environment(native),
                |(_, local)| {
                    assert_eq!(local.load("x", &object[..], Stamp(0), MADE).unwrap().applied.entries, u64::from(COUNT));
                },
                BatchSize::PerIteration,
            );
        });
        let (_folder, mut local) = environment(native);
        local.load("x", &object[..], Stamp(0), MADE).unwrap();
        group.bench_function("of what is there", |b| {
            b.iter(|| assert_eq!(local.load("x", &object[..], Stamp(0), MADE).unwrap().applied.entries, 0));
        });
        group.finish();
    }
}

fn changes(c: &mut Criterion) {
    let records = records(COUNT);
    let object = wrapped(&sample(&entries(&records)));
    let author = Author { instance: "a".into(), hostname: "h".into(), database: "main".into() };
    for (name, native) in [("one change/native", true), ("one change/shadow", false)] {
        let (_folder, mut local) = environment(native);
        local.load("x", &object[..], Stamp(0), MADE).unwrap();
        local.snapshot(&author, &|| MADE).unwrap();
        let mut round = 0;
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Elements(COUNT.into())).sample_size(20);
        group.bench_function("found and in a snapshot", |b| {
            b.iter(|| {
                round += 1;
                change(&local, native, round);
                let dumped = local.snapshot(&author, &|| Stamp(MADE.0 + round)).unwrap();
                assert!(dumped.kept > 0 && dumped.entries == u64::from(COUNT));
            });
        });
        group.finish();
    }
}

criterion_group!(benches, codec, merge, changes);
criterion_main!(benches);
