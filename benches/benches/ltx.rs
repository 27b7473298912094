//! The LTX crate, piece by piece, on a database that SQLite made. `ltx.py` times the same work as whole commands.
//!
//! `cargo bench -p seawall-benches --bench ltx`. Beside the peer: `python3 benches/ltx.py --a 'seawall ltx' --b ltx`.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]
#![allow(missing_docs, clippy::unwrap_used, reason = "criterion's macros, and a bench reports by panicking")]

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::Path;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use seawall_ltx::file::{
    ApplyOptions, EncodeOptions, Work, apply, checksum, compact, decode, encode, page_checksums, verify,
};
use seawall_ltx::{Batcher, PageHasher, PageNo, PageSize};

const OPTIONS: EncodeOptions = EncodeOptions { timestamp_ms: 0, no_checksum: false };

/// A database of text, an index and some noise: about half of it compresses away.
fn build(path: &Path, page_size: u32) {
    let db = rusqlite::Connection::open(path).unwrap();
    db.pragma_update(None, "page_size", page_size).unwrap();
    db.execute_batch(
        "PRAGMA journal_mode = off; PRAGMA synchronous = off;
         CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT, v TEXT, b BLOB); CREATE INDEX t_k ON t(k);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)
         INSERT INTO t(k, v, b) SELECT 'key-' || hex(randomblob(5)),
             'the quick brown fox ' || i || ' jumps over the lazy dog ' || (i * 7919 % 1000) || ' and again', randomblob(60)
         FROM n;",
    )
    .unwrap();
}

fn files(c: &mut Criterion) {
    for page_size in [4096, 1024] {
        let folder = tempfile::tempdir().unwrap();
        let (db, ltx) = (folder.path().join("x.db"), folder.path().join("x.ltx"));
        build(&db, page_size);
        encode(&db, &ltx, OPTIONS, Work::new()).unwrap();
        let mut group = c.benchmark_group(format!("file/{page_size}"));
        group.throughput(Throughput::Bytes(std::fs::metadata(&db).unwrap().len())).sample_size(10);
        for jobs in [1, 2, 4, 8, 16, 32, 64, 128] {
            let work = Work::new().with_jobs(NonZeroUsize::new(jobs).unwrap());
            group.bench_function(BenchmarkId::new("checksum", jobs), |b| {
                b.iter(|| checksum(&db, false, work).unwrap());
            });
        }
        let work = Work::new();
        let (out, back) = (folder.path().join("out"), folder.path().join("back.db"));
        group.bench_function("page_checksums", |b| {
            b.iter(|| {
                page_checksums(&db, work, |page, sum| {
                    black_box((page, sum));
                })
                .unwrap()
            });
        });
        group.bench_function("encode", |b| b.iter(|| encode(&db, &out, OPTIONS, work).unwrap()));
        group.bench_function("verify", |b| b.iter(|| verify(&ltx, work).unwrap()));
        group.bench_function("decode", |b| b.iter(|| decode(&ltx, &out, work).unwrap()));
        group.bench_function("apply", |b| {
            b.iter(|| apply(&back, std::slice::from_ref(&ltx), ApplyOptions::default(), work).unwrap());
        });
        group.bench_function("compact", |b| {
            b.iter(|| compact(std::slice::from_ref(&ltx), &out, work).unwrap());
        });
        group.finish();
    }
}

fn memory(c: &mut Criterion) {
    for bytes in [1024_u32, 4096, 65536] {
        let size = PageSize::new(bytes).unwrap();
        let page: Vec<u8> = (0..bytes).map(|i| ((i * i) >> 5) as u8 & 0x3f).collect();
        let mut group = c.benchmark_group(format!("memory/{bytes}"));
        group.throughput(Throughput::Bytes(bytes.into()));
        let hasher = PageHasher::new(size);
        group.bench_function("hash", |b| b.iter(|| hasher.checksum(PageNo(7), hasher.hash(black_box(&page)))));
        let mut batcher = Batcher::new(size);
        let mut used = None;
        group.bench_function("compress", |b| {
            b.iter(|| {
                batcher.push(PageNo(7), black_box(&page)).unwrap();
                used = Some(batcher.take(used.take()));
            });
        });
        group.finish();
    }
}

criterion_group!(benches, files, memory);
criterion_main!(benches);
