//! Databases beyond 1 GiB, where SQLite's lock page is never stored.

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
