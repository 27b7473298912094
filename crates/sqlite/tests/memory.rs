//! Memory of a first copy, a capture, a merge and a restore of a large database: it grows by at most 16 bytes for each
//! page (I5). The test is a process of its own, because it counts all allocations.
//!
//! The database is a sparse file: the pages after its table are empty, and take no room on the disk. The bound is the
//! same for every number of pages. `SEAWALL_PAGES=31738281` runs the test with a database of 130 GB and pages of 4096
//! bytes (minutes, and 16 GB of disk for the restored file).

#![allow(clippy::disallowed_methods, reason = "tests are an edge")]
#![allow(missing_docs, reason = "tests speak by their names")]

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use seawall_core::abilities::*;
use seawall_core::{IntegrityCheck, NoProgress, RestoreRequest, Shutdown, When};
use seawall_sqlite::{Admission, Options, Retention, Sqlite, Upkeep, World};
use seawall_testing::counting::{Counting, take_peak};
use seawall_vault::{FileStore, Policy, Vault};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FIXED: usize = 64 << 20;
const A_PAGE: usize = 16;

/// What threads and the runtime make a difference by between two runs.
const SLACK: usize = 4 << 20;

/// A database of `pages` pages, nearly all of them empty.
fn database(path: &Path, pages: u32) {
    let app = Connection::open(path).expect("opened");
    app.execute_batch("PRAGMA page_size=512; PRAGMA journal_mode=wal; CREATE TABLE t(v); INSERT INTO t VALUES(0)")
        .expect("made");
    drop(app);
    let file = OpenOptions::new().write(true).open(path).expect("opened");
    file.set_len(u64::from(pages) * 512).expect("grown");
    file.write_all_at(&pages.to_be_bytes(), 28).expect("written");
}

/// The most bytes that protecting and restoring a database of `pages` pages had allocated at once, by step.
async fn peaks(pages: u32) -> Vec<(&'static str, usize)> {
    let directory = tempfile::tempdir().expect("a folder");
    let path = directory.path().join("app.db");
    database(&path, pages);
    let vault = || Vault::new(Arc::new(FileStore::new(directory.path().join("vault"))), Policy::default());
    let retention = Retention { enabled: false, ..Retention::default() };
    // A base is due at every look.
    let base_interval = Some(Duration::from_millis(1));
    let upkeep = Arc::new(Upkeep { levels: Vec::new(), base_interval, retention, ..Upkeep::default() });
    let options = Options { path: Some(path.clone()), upkeep, ..Options::default() };
    let engine = || Sqlite::new(vault(), options.clone(), World::real(None, Admission::default()));
    let mut peaks = Vec::new();
    let mut measured = |step| peaks.push((step, take_peak()));
    measured("nothing");
    engine().take_point(&Shutdown::new()).await.expect("a first copy");
    measured("a first copy");
    Connection::open(&path).expect("opened").execute_batch("INSERT INTO t VALUES(1)").expect("committed");
    engine().take_point(&Shutdown::new()).await.expect("a capture");
    engine().maintain(false).await.expect("merged");
    measured("a capture and a merged base");
    let output = directory.path().join("restored.db");
    let request = RestoreRequest {
        output: output.clone(),
        when: When::Latest,
        force: false,
        dry_run: false,
        integrity: IntegrityCheck::None,
    };
    engine().restore(&request, Arc::new(NoProgress)).await.expect("restored");
    measured("a restore");
    let restored = Connection::open(&output).expect("opened");
    let rows: u32 = restored.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).expect("read");
    assert_eq!((rows, std::fs::metadata(&output).expect("there").len()), (2, u64::from(pages) * 512));
    peaks
}

#[tokio::test]
async fn what_grows_with_the_database_is_16_bytes_a_page() {
    // So many that buffers of a fixed size are full.
    const FEW: u32 = 200_000;
    let pages = std::env::var("SEAWALL_PAGES").map_or(1_000_000, |pages| pages.parse().expect("a number of pages"));
    let few = peaks(FEW).await;
    let many = peaks(pages).await;
    eprintln!("{few:?}\n{many:?}");
    for ((step, few), (_, many)) in few.into_iter().zip(many).skip(1) {
        assert!(many <= FIXED + A_PAGE * pages as usize, "{step}: {many} bytes");
        let grown = many.saturating_sub(few);
        assert!(
            grown <= SLACK + A_PAGE * (pages - FEW) as usize,
            "{step}: {grown} bytes more for {} pages",
            pages - FEW
        );
    }
}
