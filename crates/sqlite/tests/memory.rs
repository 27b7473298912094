//! Memory of merging and of bases: a fixed amount, and a few bytes for each page (I5). A process of its own, because it
//! reads the process's own peak.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]
#![allow(missing_docs, reason = "tests speak by their names")]

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seawall_core::{Clock, Engine, Moment};
use seawall_ltx::{Batcher, Checksum, Encoder, FileName, Header, PageNo, PageSize, Txid};
use seawall_sqlite::{LevelPolicy, Options, Retention, Sqlite, Upkeep, World};
use seawall_vault::{FileStore, Policy, Vault};

/// What merging may take whatever the size, and for each page of the database: 130 GB are 34 million pages of 4 KiB.
const FIXED: u64 = 64 << 20;
const EACH_PAGE: u64 = 16;

#[derive(Debug)]
struct Later;

impl Clock for Later {
    fn now(&self) -> Moment {
        "2031-01-01T00:00:00Z".parse().expect("RFC 3339")
    }
}

/// Writes an LTX file with every page of a database, each of them almost empty.
fn write(vault: &Path, level: u8, min: u64, max: u64, pages: u32) {
    let folder = vault.join(format!("ltx/{level}"));
    fs::create_dir_all(&folder).expect("a folder");
    let name = FileName { min: Txid(min), max: Txid(max) };
    let mut file = File::create(folder.join(name.to_string())).expect("a file");
    let size = PageSize::new(512).expect("a page size");
    let header = Header { timestamp_ms: 1_700_000_000_000, ..Header::new(size, pages, name.min, name.max) };
    let mut out = Vec::new();
    let mut encoder = Encoder::new(header, &mut out).expect("a header");
    let (mut batcher, mut page, mut used) = (Batcher::new(size), [0; 512], None);
    let mut random = fastrand::Rng::with_seed(max);
    for number in 1..=pages {
        // Some of it doesn't compress, so that objects have many parts.
        page.iter_mut().take(100).for_each(|byte| *byte = random.u8(..));
        batcher.push(PageNo(number), &page).expect("a page");
        if number % 1000 == 0 || number == pages {
            let batch = batcher.take(used.take());
            encoder.append(&batch, &mut out).expect("in order");
            used = Some(batch);
            file.write_all(&out).expect("written");
            out.clear();
        }
    }
    encoder.finish(Checksum::NONE, &mut out).expect("finished");
    file.write_all(&out).expect("written");
    let modified = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    file.set_modified(modified).expect("dated");
}

/// The most memory that the process had at a time since the last call, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    let kilobytes: u64 = line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number");
    fs::write("/proc/self/clear_refs", "5").expect("the peak can be reset");
    kilobytes << 10
}

/// Merges a complete copy of `pages` pages, and a capture that holds every page again, into a level and a base. Gives
/// the memory that this took beyond what the process had before.
async fn peak_of_merging(pages: u32) -> u64 {
    let directory = tempfile::tempdir().expect("a folder");
    let vault = directory.path().join("vault");
    write(&vault, 9, 1, 1, pages);
    write(&vault, 0, 2, 2, pages);
    let level = LevelPolicy { interval: Duration::from_secs(30), keep: None };
    let upkeep = Upkeep {
        levels: vec![level],
        base_interval: Some(Duration::from_secs(3600)),
        retention: Retention { enabled: false, ..Retention::default() },
        ..Upkeep::default()
    };
    let world = World { clock: Arc::new(Later), ..World::real(None, Default::default()) };
    let options = Options { upkeep: Arc::new(upkeep), ..Options::default() };
    let engine = Sqlite::new(Vault::new(Arc::new(FileStore::new(&vault)), Policy::default()), options, world);
    peak();
    let before = peak();
    let made = engine.maintain(false).await.expect("merged").made;
    let peak = peak().saturating_sub(before);
    let keys: Vec<&str> = made.iter().map(|made| made.object.key.as_str()).collect();
    let names = ["ltx/1/0000000000000002-0000000000000002.ltx", "ltx/9/0000000000000001-0000000000000002.ltx"];
    assert_eq!(keys, names);
    peak
}

#[tokio::test]
async fn merging_takes_a_fixed_amount_and_a_few_bytes_a_page() {
    let (few, many) = (400_000, 1_000_000);
    let small = peak_of_merging(few).await;
    let large = peak_of_merging(many).await;
    let each = large.saturating_sub(small) as f64 / f64::from(many - few);
    println!("{} MiB with {few} pages, {} MiB with {many}: {each:.1} bytes a page", small >> 20, large >> 20);
    assert!(large <= FIXED + EACH_PAGE * u64::from(many), "{} MiB", large >> 20);
    assert!(each <= EACH_PAGE as f64, "{each:.1} bytes a page");
}
