//! A merged file does what its inputs do one after the other.

use proptest::prelude::*;
use seawall_ltx::{Checksum, Error, Header, Merge, MergeError, PageSize, Txid, decode_all, merge_all};

use crate::support::{Pages, golden, golden_json, page, read, rolling, sha256, size, text, write};

fn merge(files: &[Vec<u8>]) -> seawall_ltx::Result<Vec<u8>> {
    let mut out = Vec::new();
    merge_all(&files.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut out)?;
    Ok(out)
}

/// The database after a file.
fn apply(database: &mut Vec<u8>, file: &[u8]) {
    let header = Header::parse(file).unwrap();
    let size = header.page_size.bytes();
    decode_all(file, |page, data| {
        let at = (page.0 as usize - 1) * size;
        database.resize(database.len().max(at + size), 0);
        database[at..at + size].copy_from_slice(data);
    })
    .unwrap();
    database.resize(header.commit as usize * size, 0);
}

#[test]
fn the_peers_compactions() {
    let manifest = golden_json("manifest.json");
    let compactions = manifest["compactions"].as_array().unwrap();
    assert!(compactions.len() > 20);
    for facts in compactions {
        let name = text(facts, "out");
        let inputs: Vec<_> =
            facts["inputs"].as_array().unwrap().iter().map(|input| golden(input.as_str().unwrap())).collect();
        let merged = merge(&inputs).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (theirs, their_pages) = read(&golden(name), usize::MAX, 1).unwrap();
        let (ours, pages) = read(&merged, usize::MAX, 1).unwrap();
        assert_eq!((ours.header, ours.trailer.post_apply), (theirs.header, theirs.trailer.post_apply), "{name}");
        assert!(pages == their_pages, "{name}");
    }
}

#[test]
fn chains_lead_to_the_recorded_databases() {
    let manifest = golden_json("manifest.json");
    for chain in manifest["chains"].as_array().unwrap().iter().filter(|chain| chain["after"].is_array()) {
        let mut files = Vec::new();
        for after in chain["after"].as_array().unwrap() {
            files.push(golden(text(after, "file")));
            let mut database = Vec::new();
            apply(&mut database, &merge(&files).unwrap());
            assert_eq!(sha256(&database), text(after, "db_sha256"), "{}", text(after, "file"));
        }
    }
}

#[test]
fn a_page_that_was_cut_off_does_not_come_back() {
    let file = |commit, txid, numbers: &[u32]| {
        let pages: Pages = numbers.iter().map(|number| (*number, page(size(512), *number, txid))).collect();
        write(Header::new(size(512), commit, Txid(txid), Txid(txid)), &pages, Checksum::NONE).unwrap()
    };
    let files = [file(4, 1, &[1, 2, 3, 4]), file(2, 2, &[1]), file(4, 3, &[4])];
    let (_, pages) = read(&merge(&files).unwrap(), usize::MAX, 1).unwrap();
    assert_eq!(pages.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(pages[2].1, vec![0; 512]);
    let (_, pages) = read(&merge(&files[1..]).unwrap(), usize::MAX, 1).unwrap();
    assert_eq!(pages.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 3, 4]);
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let header = |page_size, min, max| Header::new(size(page_size), 9, Txid(min), Txid(max));
    let refused = |inputs: &[Header], error: MergeError| {
        assert_eq!(Merge::new(inputs).map(|_| ()), Err(Error::Merge(error)));
    };
    refused(&[], MergeError::NoInput);
    refused(&[header(512, 2, 2), header(1024, 3, 3)], MergeError::PageSize { input: 1 });
    let gap = MergeError::Gap { after: Txid(3), min: Txid(5), max: Txid(6) };
    refused(&[header(512, 2, 3), header(512, 5, 6)], gap);
    let inside = MergeError::Gap { after: Txid(8), min: Txid(3), max: Txid(8) };
    refused(&[header(512, 2, 8), header(512, 3, 8)], inside);
    assert!(Merge::new(&[header(512, 2, 8), header(512, 3, 9)]).is_ok());

    let checked = |min, pre_apply| {
        let header = Header { no_checksum: false, pre_apply, ..header(512, min, min) };
        write(header, &[], Checksum(Checksum::FLAG | min)).unwrap()
    };
    let files = [checked(2, Checksum::EMPTY), checked(3, Checksum::EMPTY)];
    assert!(matches!(merge(&files), Err(Error::Merge(MergeError::Chain { input: 1, .. }))));
    assert!(merge(&[checked(2, Checksum::EMPTY), checked(3, Checksum(Checksum::FLAG | 2))]).is_ok());
}

#[test]
fn a_damaged_input_is_refused_even_where_nothing_is_taken_from_it() {
    let pages = |salt| vec![(1, page(size(512), 1, salt))];
    let mut old = write(Header::new(size(512), 1, Txid(2), Txid(2)), &pages(1), Checksum::NONE).unwrap();
    let new = write(Header::new(size(512), 1, Txid(3), Txid(3)), &pages(2), Checksum::NONE).unwrap();
    assert!(merge(&[old.clone(), new.clone()]).is_ok());
    let last = old.len() - 1;
    old[last] ^= 1;
    assert!(matches!(merge(&[old, new]), Err(Error::FileChecksum { .. })));
}

/// A history: for each transaction the size of the database and the pages that it wrote.
fn history() -> impl Strategy<Value = Vec<(u32, Vec<u32>)>> {
    let transaction = (1_u32..9, prop::collection::btree_set(1_u32..9, 0..6))
        .prop_map(|(commit, pages)| (commit, pages.into_iter().filter(|page| *page <= commit).collect()));
    prop::collection::vec(transaction, 1..7)
}

/// The files of a history on top of a database of 6 pages, or of none.
fn files(page_size: PageSize, history: &[(u32, Vec<u32>)], snapshot: bool, checked: bool) -> Vec<Vec<u8>> {
    let number = |page: &u32, data: &[u8]| (*page, data.to_vec());
    let mut database: Pages =
        if snapshot { Vec::new() } else { (1..=6).map(|page_no| (page_no, page(page_size, page_no, 99))).collect() };
    let mut files = Vec::new();
    for (at, (commit, numbers)) in history.iter().enumerate() {
        let txid = Txid(at as u64 + if snapshot { 1 } else { 2 });
        let pre_apply = rolling(&database);
        // A snapshot is complete.
        let all: Vec<u32> = (1..=*commit).collect();
        let numbers = if txid == Txid(1) { &all } else { numbers };
        let pages: Pages = numbers.iter().map(|page_no| number(page_no, &page(page_size, *page_no, txid.0))).collect();
        database.truncate(*commit as usize);
        for page_no in database.len() as u32 + 1..=*commit {
            database.push((page_no, vec![0; page_size.bytes()]));
        }
        pages.iter().for_each(|(page_no, data)| database[*page_no as usize - 1].1.clone_from(data));
        let header = Header::new(page_size, *commit, txid, txid);
        let (header, post_apply) = if checked {
            let pre_apply = if header.is_snapshot() { Checksum::NONE } else { pre_apply };
            (Header { no_checksum: false, pre_apply, ..header }, rolling(&database))
        } else {
            (header, Checksum::NONE)
        };
        files.push(write(header, &pages, post_apply).unwrap());
    }
    files
}

proptest! {
    #[test]
    fn merged_equals_applied(history in history(), snapshot: bool, checked: bool, cut in 0_usize..7) {
        let files = files(size(512), &history, snapshot, checked);
        let mut before = Vec::new();
        if !snapshot {
            (1..=6).for_each(|number| before.extend(page(size(512), number, 99)));
        }
        let mut expected = before.clone();
        files.iter().for_each(|file| apply(&mut expected, file));

        let mut database = before.clone();
        apply(&mut database, &merge(&files).unwrap());
        prop_assert_eq!(&database, &expected);

        // Two levels are as one.
        let (left, right) = files.split_at(cut.min(files.len()));
        let parts: Vec<_> = [left, right].into_iter().filter(|part| !part.is_empty()).map(|part| merge(part).unwrap()).collect();
        apply(&mut before, &merge(&parts).unwrap());
        prop_assert_eq!(before, expected);
    }
}
