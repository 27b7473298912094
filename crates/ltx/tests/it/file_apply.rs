//! Applying to a database: a refused file changes nothing.

use std::fs;
use std::path::{Path, PathBuf};

use seawall_ltx::file::{ApplyOptions, FileError, Work, apply};
use seawall_ltx::{Checksum, Header, Txid};
use tempfile::TempDir;

use crate::support::{golden, golden_json, page, rolling, sha256, size, text, write};

const WHOLE: ApplyOptions = ApplyOptions { touched_only: false };
const TOUCHED: ApplyOptions = ApplyOptions { touched_only: true };

fn chain(name: &str) -> Vec<(PathBuf, serde_json::Value)> {
    let manifest = golden_json("manifest.json");
    let chain = manifest["chains"].as_array().unwrap().iter().find(|chain| chain["name"] == name).unwrap();
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/ltx");
    let after = chain["after"].as_array().unwrap();
    after.iter().map(|after| (root.join(text(after, "file")), after.clone())).collect()
}

fn state(path: &Path) -> String {
    sha256(&fs::read(path).unwrap())
}

#[test]
fn chains_lead_to_the_recorded_databases_one_by_one_and_at_once() {
    for name in ["chain-512", "chain-4096"] {
        let chain = chain(name);
        let folder = TempDir::new().unwrap();
        let one_by_one = folder.path().join("a.db");
        for (count, (file, after)) in chain.iter().enumerate() {
            let options = if count % 2 == 0 { WHOLE } else { TOUCHED };
            let applied = apply(&one_by_one, std::slice::from_ref(file), options, Work::new())
                .unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(state(&one_by_one), text(after, "db_sha256"), "{}", file.display());
            assert_eq!(applied.checksum.unwrap().to_string(), text(after, "post_apply"));
            let at_once = folder.path().join(format!("{count}.db"));
            let files: Vec<_> = chain[..=count].iter().map(|(file, _)| file.clone()).collect();
            assert_eq!(apply(&at_once, &files, WHOLE, Work::new()).unwrap(), applied);
            assert_eq!(state(&at_once), text(after, "db_sha256"));
            if count > 0 && fs::metadata(folder.path().join("0.db")).unwrap().len() > 0 {
                apply(&folder.path().join("0.db"), &files[..1], WHOLE, Work::new()).unwrap();
                apply(&folder.path().join("0.db"), &files[1..], WHOLE, Work::new()).unwrap();
                assert_eq!(state(&folder.path().join("0.db")), text(after, "db_sha256"));
            }
        }
        let leftovers = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(leftovers, 1 + chain.len(), "neither journals nor temporary files are left");
    }
}

#[test]
fn what_is_refused_leaves_the_database_as_it_was() {
    let chain = chain("chain-512");
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.db");
    let file = |at: usize| chain[at].0.clone();
    apply(&path, &[file(0), file(1), file(2)], WHOLE, Work::new()).unwrap();
    let before = state(&path);
    let bad = folder.path().join("bad.ltx");
    let mut bytes = fs::read(file(4)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&bad, bytes).unwrap();
    type Expected = fn(&FileError) -> bool;
    let cases: [(Vec<PathBuf>, Expected); 6] = [
        (vec![file(4)], |error| matches!(error, FileError::PreApply { .. })),
        (vec![file(4), file(3)], |error| matches!(error, FileError::Gap { .. })),
        (vec![file(3), file(5)], |error| matches!(error, FileError::Gap { .. })),
        (vec![file(3), bad.clone()], |error| matches!(error, FileError::Format { .. })),
        (vec![file(3), folder.path().join("none")], |error| matches!(error, FileError::Io { .. })),
        (vec![path.clone()], |error| matches!(error, FileError::SameFile { .. })),
    ];
    for (files, expected) in cases {
        for options in [WHOLE, TOUCHED] {
            if options == TOUCHED && files.len() == 1 && files[0] == file(4) {
                continue;
            }
            let error = apply(&path, &files, options, Work::new()).unwrap_err();
            assert!(expected(&error), "{error:?}");
            assert_eq!(state(&path), before, "{error}");
        }
    }
    let other = folder.path().join("other.db");
    fs::write(&other, golden("snapshot/encode-db-512.ltx")).unwrap();
    assert!(matches!(apply(&other, &[file(3)], WHOLE, Work::new()).unwrap_err(), FileError::Database { .. }));
    assert!(matches!(
        apply(&folder.path().join("new.db"), &[file(3)], WHOLE, Work::new()).unwrap_err(),
        FileError::NoBase { .. }
    ));
}

/// A file whose end lies is found out when its pages are in place already: the journal puts everything back.
#[test]
fn a_lie_that_shows_only_at_the_end_is_undone() {
    let folder = TempDir::new().unwrap();
    let (path, first, second) = (folder.path().join("a.db"), folder.path().join("1"), folder.path().join("2"));
    let mut pages: Vec<_> = (1..=9).map(|number| (number, page(size(512), number, 1))).collect();
    pages[0].1[..16].copy_from_slice(b"SQLite format 3\0");
    pages[0].1[16..18].copy_from_slice(&512_u16.to_be_bytes());
    let sum = rolling(&pages);
    let snapshot = Header { no_checksum: false, ..Header::new(size(512), 9, Txid(1), Txid(1)) };
    fs::write(&first, write(snapshot, &pages, sum).unwrap()).unwrap();
    apply(&path, std::slice::from_ref(&first), WHOLE, Work::new()).unwrap();
    let before = fs::read(&path).unwrap();
    let changed = [(2, page(size(512), 2, 5)), (4, page(size(512), 4, 5))];
    for commit in [4, 9, 12] {
        let header = Header { no_checksum: false, pre_apply: sum, ..Header::new(size(512), commit, Txid(2), Txid(2)) };
        fs::write(&second, write(header, &changed, Checksum(sum.0 ^ 5)).unwrap()).unwrap();
        for options in [WHOLE, TOUCHED] {
            let error = apply(&path, std::slice::from_ref(&second), options, Work::new()).unwrap_err();
            assert!(matches!(error, FileError::PostApply { .. }), "{error}");
            assert!(fs::read(&path).unwrap() == before, "{commit}");
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "no journal is left");
}

#[test]
fn other_page_sizes_and_side_files_are_refused() {
    let folder = TempDir::new().unwrap();
    let (path, inc) = (folder.path().join("a.db"), folder.path().join("2"));
    apply(&path, &[chain("chain-4096")[0].0.clone()], WHOLE, Work::new()).unwrap();
    let header = Header::new(size(512), 9, Txid(2), Txid(2));
    fs::write(&inc, write(header, &[(2, page(size(512), 2, 5))], Checksum::NONE).unwrap()).unwrap();
    let error = apply(&path, std::slice::from_ref(&inc), WHOLE, Work::new()).unwrap_err();
    assert!(matches!(error, FileError::PageSize { .. }), "{error}");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.query_row("PRAGMA journal_mode=wal", [], |_| Ok(())).unwrap();
    connection.execute_batch("CREATE TABLE in_the_wal(x)").unwrap();
    let error = apply(&path, &[chain("chain-4096")[0].0.clone()], WHOLE, Work::new()).unwrap_err();
    assert!(matches!(error, FileError::Beside { .. }), "{error}");
}
