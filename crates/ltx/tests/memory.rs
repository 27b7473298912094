//! Memory of making files: a fixed amount for any number of pages, because the index moves to disk past a bound. The
//! test is a process of its own, because it counts all allocations.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]
#![allow(missing_docs, reason = "tests speak by their names")]

use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::Path;

use seawall_ltx::file::{EncodeOptions, Work, compact, encode, verify};
use seawall_testing::counting::{Counting, peak_of};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PAGES: u32 = 400_000;
/// For a thread's buffers, and pieces of indexes.
const FIXED: usize = 2 << 20;
const BOUND: usize = 100_000;

/// A database of empty pages, which take no room on the disk.
fn database(path: &Path) {
    let file = File::create(path).expect("a file");
    let mut head = [0; 100];
    head[..16].copy_from_slice(b"SQLite format 3\0");
    head[16..18].copy_from_slice(&512_u16.to_be_bytes());
    file.write_all_at(&head, 0).expect("written");
    file.set_len(u64::from(PAGES) * 512).expect("grown");
}

#[test]
fn an_index_past_the_bound_is_put_aside() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    database(&path("x.db"));
    let options = EncodeOptions { timestamp_ms: 0, no_checksum: false };
    let all = Work { index: usize::MAX, ..Work::new() }.with_jobs(NonZeroUsize::MIN);
    let bounded = Work { index: BOUND, ..all };

    let kept = peak_of(|| encode(&path("x.db"), &path("kept.ltx"), options, all).expect("encoded"));
    let spilled = peak_of(|| encode(&path("x.db"), &path("spilled.ltx"), options, bounded).expect("encoded"));
    assert!(kept > spilled + PAGES as usize, "{kept} bytes: without a bound the index is in memory");
    assert!(kept < FIXED + 16 * PAGES as usize, "{kept} bytes: at most 16 for each page");
    assert!(spilled < FIXED + 4 * BOUND, "{spilled} bytes");
    assert!(fs::read(path("kept.ltx")).ok() == fs::read(path("spilled.ltx")).ok(), "the files differ");

    let inputs = [path("kept.ltx")];
    let merged = peak_of(|| compact(&inputs, &path("merged.ltx"), bounded).expect("merged"));
    assert!(merged < FIXED + 4 * BOUND, "{merged} bytes");
    let found = verify(&path("merged.ltx"), all).expect("a whole file");
    assert_eq!(found.summary.pages, u64::from(PAGES));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 4, "something is left behind");
}
