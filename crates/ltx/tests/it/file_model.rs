//! Random histories against a model: applied one by one, all at once, and compacted in any grouping, they make the same
//! database.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use seawall_ltx::file::{ApplyOptions, Difference, Work, apply, compact, diff, verify};
use seawall_ltx::{Checksum, Header, Txid};
use tempfile::TempDir;

use crate::support::{page, rolling, size, write};

/// One transaction: the size after it, and which pages it writes.
#[derive(Debug, Clone)]
struct Change {
    commit: u32,
    written: Vec<u32>,
}

fn history() -> impl Strategy<Value = (bool, Vec<Change>, Vec<usize>)> {
    let commit = prop_oneof![4 => 1..40_u32, 1 => Just(0_u32)];
    let change = (commit, prop::collection::vec(1..40_u32, 0..12));
    let change = change.prop_map(|(commit, written)| Change { commit, written });
    (any::<bool>(), prop::collection::vec(change, 2..12), prop::collection::vec(1..4_usize, 12))
}

type Database = Vec<Vec<u8>>;

fn content(number: u32, salt: u64) -> Vec<u8> {
    let mut page = page(size(512), number, salt);
    if number == 1 {
        page[..16].copy_from_slice(b"SQLite format 3\0");
        page[16..18].copy_from_slice(&512_u16.to_be_bytes());
    }
    page
}

fn checksum(database: &Database) -> Checksum {
    rolling(&(1..).zip(database.iter().cloned()).collect::<Vec<_>>())
}

/// The database after a transaction, and its file. Growth that isn't written is zeros.
fn step(database: &mut Database, change: &Change, txid: u64, checked: bool) -> Vec<u8> {
    let (before, commit) = (checksum(database), change.commit);
    let old = database.len();
    database.resize(commit as usize, vec![0; 512]);
    let snapshot = txid == 1;
    let mut written: Vec<u32> = change.written.iter().copied().filter(|page| *page <= commit).collect();
    // Page 1 says what the file is, so it is there whenever the database begins.
    written.extend((commit > 0 && old == 0).then_some(1));
    written.sort_unstable();
    written.dedup();
    for number in &written {
        database[*number as usize - 1] = content(*number, txid);
    }
    if snapshot {
        written = (1..=commit).collect();
    }
    let pages: Vec<_> = written.iter().map(|number| (*number, database[*number as usize - 1].clone())).collect();
    let pre_apply = if snapshot || !checked { Checksum::NONE } else { before };
    let header = Header { no_checksum: !checked, pre_apply, ..Header::new(size(512), commit, Txid(txid), Txid(txid)) };
    write(header, &pages, if checked { checksum(database) } else { Checksum::NONE }).unwrap()
}

fn apply_all(path: &Path, files: &[PathBuf]) {
    apply(path, files, ApplyOptions::default(), Work::new()).unwrap_or_else(|error| panic!("{error}"));
}

/// Merges neighbours in groups of these sizes.
fn grouped(files: &[PathBuf], groups: &[usize], folder: &Path, round: usize) -> Vec<PathBuf> {
    let (mut rest, mut merged) = (files, Vec::new());
    for (at, group) in groups.iter().enumerate() {
        let (here, behind) = rest.split_at((*group).min(rest.len()));
        rest = behind;
        if here.is_empty() {
            break;
        }
        let path = folder.join(format!("merged-{round}-{at}"));
        compact(here, &path, Work::new()).unwrap_or_else(|error| panic!("{error}"));
        verify(&path, Work::new()).unwrap_or_else(|error| panic!("{error}"));
        merged.push(path);
    }
    assert!(rest.is_empty());
    merged
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_grouping_comes_to_the_same_database((checked, changes, groups) in history()) {
        let folder = TempDir::new().unwrap();
        let (mut database, mut files) = (Database::new(), Vec::new());
        let one_by_one = folder.path().join("one-by-one.db");
        for (change, txid) in changes.iter().zip(1..) {
            // A deletion can't be written without checksums, and a history begins with something.
            let commit = if checked && txid > 1 { change.commit } else { change.commit.max(1) };
            let change = Change { commit, ..change.clone() };
            let file = folder.path().join(format!("{txid}"));
            fs::write(&file, step(&mut database, &change, txid, checked)).unwrap();
            apply_all(&one_by_one, std::slice::from_ref(&file));
            prop_assert!(fs::read(&one_by_one).unwrap() == database.concat(), "after {}", txid);
            files.push(file);
        }
        let at_once = folder.path().join("at-once.db");
        apply_all(&at_once, &files);
        prop_assert!(fs::read(&at_once).unwrap() == database.concat());

        let once = grouped(&files, &groups, folder.path(), 1);
        let compacted = folder.path().join("compacted.db");
        apply_all(&compacted, &once);
        prop_assert!(fs::read(&compacted).unwrap() == database.concat());

        let twice = grouped(&once, &[once.len()], folder.path(), 2);
        fs::remove_file(&compacted).unwrap();
        apply_all(&compacted, &twice);
        prop_assert!(fs::read(&compacted).unwrap() == database.concat());
        if !database.is_empty() {
            diff(&twice[0], &compacted, Work::new(), |page, how| panic!("{page} {how:?}")).unwrap();
        }
    }

    #[test]
    fn differences_are_those_that_were_made(changed in prop::collection::btree_set(2..200_u32, 0..20), longer in 0..5_u32) {
        let folder = TempDir::new().unwrap();
        let (a, b) = (folder.path().join("a.db"), folder.path().join("b.db"));
        let mut database: Database = (1..=200).map(|number| content(number, 3)).collect();
        fs::write(&a, database.concat()).unwrap();
        changed.iter().for_each(|number| database[*number as usize - 1][77] ^= 1);
        database.extend((201..=200 + longer).map(|number| content(number, 4)));
        fs::write(&b, database.concat()).unwrap();
        let mut found = Vec::new();
        diff(&a, &b, Work::new(), |page, how| found.push((page.0, how))).unwrap();
        let expected: Vec<_> = changed.iter().map(|number| (*number, Difference::Content))
            .chain((201..=200 + longer).map(|number| (number, Difference::Second))).collect();
        prop_assert_eq!(found, expected);
    }
}
