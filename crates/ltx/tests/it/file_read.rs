//! Reading a file by its path gives the same result as reading its bytes in memory.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use seawall_ltx::file::{FileError, Work, compact, decode, describe, diff, read_pages, verify};
use seawall_ltx::{Generation, Summary, decode_any};
use tempfile::TempDir;

use crate::support::{golden, golden_json, sha256, text};

fn golden_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/ltx").join(name)
}

fn jobs(count: usize) -> Work<'static> {
    Work::new().with_jobs(NonZeroUsize::new(count).unwrap())
}

#[test]
fn every_golden_file_verifies_and_reads() {
    for facts in golden_json("manifest.json")["files"].as_array().unwrap() {
        let name = text(facts, "file");
        let (path, bytes) = (golden_path(name), golden(name));
        let mut pages = Vec::new();
        let expected: Summary = decode_any(&bytes, |page, data| pages.push((page, data.to_vec()))).unwrap();
        for count in [1, 3] {
            let found = verify(&path, jobs(count)).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((found.summary, found.len), (expected, bytes.len() as u64), "{name}");
            assert_eq!(found.generation, Generation::detect(&bytes).unwrap(), "{name}");
        }
        assert_eq!(describe(&path).unwrap().summary, expected, "{name}");
        let mut read = Vec::new();
        read_pages(
            &path,
            |_, _| Ok(()),
            |page, data| {
                read.push((page, data.to_vec()));
                Ok(())
            },
        )
        .unwrap();
        assert!(read == pages, "{name}");
    }
}

#[test]
fn every_golden_snapshot_becomes_its_database() {
    let folder = TempDir::new().unwrap();
    let mut snapshots = 0;
    for facts in golden_json("manifest.json")["files"].as_array().unwrap() {
        if facts["snapshot"] != true || facts["commit"] == 0 {
            continue;
        }
        let (path, output) = (golden_path(text(facts, "file")), folder.path().join(format!("{snapshots}.db")));
        decode(&path, &output, jobs(2)).unwrap();
        assert_eq!(sha256(&std::fs::read(&output).unwrap()), text(facts, "db_sha256"), "{}", path.display());
        snapshots += 1;
    }
    assert!(snapshots > 30);
}

/// A defect of a file is reported in the same way, whether it was read by its index or from its first byte.
#[test]
fn defects_are_told_as_they_are_in_memory() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("bad.ltx");
    let check = |bytes: &[u8], what: &str| {
        std::fs::write(&path, bytes).unwrap();
        let expected = decode_any(bytes, |_, _| ());
        match (verify(&path, jobs(2)), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found.summary, expected, "{what}"),
            (Err(FileError::Format { source, .. }), Err(expected)) => assert_eq!(source, expected, "{what}"),
            (found, expected) => panic!("{what}: {found:?} instead of {expected:?}"),
        }
    };
    for facts in golden_json("manifest.json")["corrupted"].as_array().unwrap() {
        check(&golden(text(facts, "file")), text(facts, "file"));
    }
    for name in ["edge/nochk-inc.ltx", "legacy/v1-lz4-inc-4096.ltx", "legacy/v2-frame-inc-512.ltx"] {
        let file = golden(name);
        for end in (0..file.len()).step_by(7) {
            check(&file[..end], name);
        }
        for bit in (0..file.len() * 8).step_by(61) {
            let mut flipped = file.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            check(&flipped, name);
        }
    }
}

#[test]
fn what_is_not_there_is_an_error_of_the_file_system() {
    let error = verify(&golden_path("not-there.ltx"), jobs(1)).unwrap_err();
    assert!(matches!(error, FileError::Io { .. }), "{error}");
    assert!(error.to_string().contains("not-there.ltx"));
}

/// Every file of an older generation, with its generation.
fn older_files() -> Vec<PathBuf> {
    let manifest = golden_json("manifest.json");
    let files = manifest["files"].as_array().unwrap().iter();
    let older = files.filter(|facts| ["v1", "v1lz4", "v2"].contains(&text(facts, "format")));
    older.map(|facts| golden_path(text(facts, "file"))).collect()
}

fn pages(path: &std::path::Path) -> (Summary, Vec<(u32, Vec<u8>)>) {
    let mut pages = Vec::new();
    let keep = |page: seawall_ltx::PageNo, data: &[u8]| {
        pages.push((page.0, data.to_vec()));
        Ok(())
    };
    let found = read_pages(path, |_, _| Ok(()), keep).unwrap_or_else(|error| panic!("{error}"));
    (found.summary, pages)
}

#[test]
fn files_of_older_generations_are_compacted_and_compared() {
    let folder = TempDir::new().unwrap();
    let (new, database) = (folder.path().join("new.ltx"), folder.path().join("a.db"));
    let files = older_files();
    assert!(files.len() >= 14);
    for path in files {
        let made = compact(std::slice::from_ref(&path), &new, jobs(2)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((made.generation, verify(&new, jobs(2)).unwrap()), (None, made));
        let ((old, before), (rewritten, after)) = (pages(&path), pages(&new));
        assert!(before == after, "{}", path.display());
        assert_eq!(rewritten.trailer.post_apply, old.trailer.post_apply);
        assert_eq!(rewritten.header.pre_apply, old.header.pre_apply);
        let unequal = |page, how| panic!("{}: {page} {how:?}", path.display());
        diff(&path, &new, jobs(2), unequal).unwrap();
        if old.header.is_snapshot() {
            decode(&path, &database, jobs(2)).unwrap();
            diff(&database, &path, jobs(2), unequal).unwrap();
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
}

#[test]
fn generations_mix_in_one_compaction() {
    let folder = TempDir::new().unwrap();
    let new = folder.path().join("new.ltx");
    for snapshot in ["legacy/v1-lz4-nochk-512.ltx", "legacy/v3-frame-nochk-512.ltx"] {
        for increment in
            ["legacy/v1-raw-inc-512.ltx", "legacy/v2-frame-inc-512.ltx", "legacy/v3-frame-inc-nochk-512.ltx"]
        {
            let files = [golden_path(snapshot), golden_path(increment)];
            compact(&files, &new, jobs(2)).unwrap_or_else(|error| panic!("{error}"));
            let (_, mut expected) = pages(&files[0]);
            for (number, data) in pages(&files[1]).1 {
                expected[number as usize - 1].1 = data;
            }
            assert!(pages(&new).1 == expected, "{snapshot} and {increment}");
        }
    }
}
