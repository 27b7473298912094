//! Databases beyond 1 GiB, where SQLite's lock page is never stored.

use std::fs::{self, File};
use std::io::{self, BufRead};
use std::os::unix::fs::FileExt;
use std::path::Path;

use lz4_flex::frame::FrameEncoder;
use seawall_tests::{App, Process, Random, Stand, digest, model, wait};

/// Fills the database with zeros to just below the lock page, quickly and without a WAL.
fn fill_to_the_brink(app: &mut App, page_size: u64) {
    app.sql("PRAGMA journal_mode = off");
    app.sql("PRAGMA synchronous = off");
    app.sql("CREATE TABLE ballast(id INTEGER PRIMARY KEY, zeros BLOB, noise BLOB)");
    app.sql(
        "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 254) \
         INSERT INTO ballast SELECT i, zeroblob(4200000), randomblob(100) FROM n",
    );
    app.sql("PRAGMA journal_mode = wal");
    app.sql("PRAGMA synchronous = normal");
    let pages: u64 = app.sql("PRAGMA page_count").parse().unwrap();
    assert!((1_060_000_000..1 << 30).contains(&(pages * page_size)), "{pages} pages");
}

/// Grows past the lock page under replication, then shrinks to next to nothing; each state is compared.
fn grow_and_shrink(page_size: u32, replicate: impl Fn(&Stand) -> Process) {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = App::with_page_size(&stand.db(), stand.seed, page_size);
    app.commit(10);
    fill_to_the_brink(&mut app, page_size.into());
    let mut process = replicate(&stand);
    let base = wait::until("the base", wait::SOON * 3, || {
        assert!(process.running(), "it ended by itself");
        Some(stand.place.newest()).filter(|txid| *txid > 0)
    });
    for id in 1000..1012 {
        app.sql(&format!("INSERT INTO ballast VALUES ({id}, zeroblob(3000000), randomblob(1000000))"));
        app.commit(2);
    }
    let pages: u64 = app.sql("PRAGMA page_count").parse().unwrap();
    assert!(pages * u64::from(page_size) > (1 << 30) + 2 * u64::from(page_size), "{pages} pages are too few");
    process.stop().ok();
    let grown = stand.place.newest();
    assert!(grown > base, "the growth is replicated in transactions of its own");
    let source = digest::without_litestream_tables(&stand.db());
    let committed = app.committed();
    restores(&stand, grown, &source, committed);

    process = replicate(&stand);
    app.sql("DELETE FROM ballast");
    app.sql("VACUUM");
    app.commit(3);
    // A process that is stopped before its first look ships nothing.
    wait::until("something new", wait::SOON * 3, || {
        assert!(process.running(), "it ended by itself");
        Some(()).filter(|()| stand.place.newest() > grown)
    });
    process.stop().ok();
    let source = digest::without_litestream_tables(&stand.db());
    let (_, last) = stand.place.unbroken();
    assert!(last > grown);
    restores(&stand, last, &source, app.committed());
    restores(&stand, grown, "", committed);
}

/// Both programs restore the transaction: to the same bytes, the writer's commits, and the source's content if known.
fn restores(stand: &Stand, txid: u64, source: &str, committed: u64) {
    let (ours, theirs) = (stand.restore_txid(txid), stand.litestream_restore_txid(txid));
    assert_eq!(digest::of_file(&ours), digest::of_file(&theirs), "transaction {txid}");
    assert_eq!(model::check(&ours, stand.seed), committed, "transaction {txid}");
    if !source.is_empty() {
        assert_eq!(digest::without_litestream_tables(&ours), source, "transaction {txid}");
    }
    std::fs::remove_file(ours).unwrap();
    std::fs::remove_file(theirs).unwrap();
}

#[test]
fn we_replicate_past_the_lock_page_with_large_pages_and_litestream_restores() {
    grow_and_shrink(65536, Stand::replicate);
}

#[test]
fn we_replicate_past_the_lock_page_with_pages_of_4096_and_litestream_restores() {
    grow_and_shrink(4096, Stand::replicate);
}

#[test]
fn litestream_replicates_past_the_lock_page_and_we_restore() {
    grow_and_shrink(65536, |stand| stand.litestream(""));
}

/// An object of a replica as v0.3 wrote them: an LZ4 frame.
fn pack(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let mut encoder = FrameEncoder::new(io::BufWriter::new(File::create(to).unwrap()));
    io::copy(&mut io::BufReader::with_capacity(1 << 20, File::open(from).unwrap()), &mut encoder).unwrap();
    encoder.finish().unwrap().into_inner().unwrap();
}

/// Offsets of 32 bits end at 4 GiB. Beyond them, a snapshot continues and the WAL has pages (#1442).
#[test]
fn what_0_3_left_of_more_than_4_gib() {
    const PAGE: u64 = 65536;
    const PAGES: u32 = (1 << 16) + 40;
    let stand = Stand::folder(7);
    let mut app = App::with_page_size(&stand.db(), stand.seed, 65536);
    app.commit(3);
    app.sql("PRAGMA journal_mode = delete");
    // Empty pages follow the used ones. They take no room on the disk.
    let file = File::options().write(true).open(stand.db()).unwrap();
    file.set_len(u64::from(PAGES) * PAGE).unwrap();
    file.write_all_at(&PAGES.to_be_bytes(), 28).unwrap();
    drop(file);
    app.sql("PRAGMA journal_mode = wal");
    app.sql("PRAGMA wal_autocheckpoint = 0");
    let generation = stand.path("vault/generations/00000000000000aa");
    pack(&stand.db(), &generation.join("snapshots/00000001.snapshot.lz4"));
    app.commit(30);
    app.sql("CREATE TABLE far(v)");
    app.sql("INSERT INTO far VALUES (randomblob(100000))");
    pack(&stand.path("app.db-wal"), &generation.join("wal/00000001_00000000.wal.lz4"));
    let pages: u64 = app.sql("PRAGMA page_count").parse().unwrap();
    assert!(pages > u64::from(PAGES), "what is new stands behind 4 GiB");
    let back = stand.restore();
    app.sql("PRAGMA wal_checkpoint(TRUNCATE)");
    assert_eq!(fs::metadata(&back).unwrap().len(), pages * PAGE);
    assert!(same_bytes(&back, &stand.db()), "the restored file is another one");
    fs::remove_file(back).unwrap();
}

fn same_bytes(one: &Path, two: &Path) -> bool {
    let open = |path| io::BufReader::with_capacity(1 << 20, File::open(path).unwrap());
    let (mut one, mut two) = (open(one), open(two));
    loop {
        let (a, b) = (one.fill_buf().unwrap(), two.fill_buf().unwrap());
        let length = a.len().min(b.len());
        if length == 0 || a[..length] != b[..length] {
            return a.is_empty() && b.is_empty();
        }
        one.consume(length);
        two.consume(length);
    }
}
