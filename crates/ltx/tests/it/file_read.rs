//! Files by their paths say what the same bytes in memory say.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use seawall_ltx::file::{FileError, Work, decode, describe, read_pages, verify};
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

/// What is wrong with a file is told the same way, whether it was read by its index or from its first byte.
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
