//! Golden files, changed as a fuzzer changes them: nothing panics, the verdict on a file equals the verdict on its
//! bytes in memory, and all functions refuse the same files.
//!
//! The targets in `fuzz/` go further. These tests run everywhere, and always in the same way.

use std::num::NonZeroUsize;
use std::path::Path;

use seawall_ltx::file::{ApplyOptions, FileError, Work, apply, compact, decode, describe, verify};
use seawall_ltx::{Header, Index, PageSize, Result, Summary, decode_all, decode_any, decode_frame, merge_all};
use tempfile::TempDir;

use crate::support::{golden, golden_json, read, text};

/// How often each file is changed.
const ROUNDS: u64 = 40;
/// Larger files take the time of many small ones, and have no other parts.
const LARGEST: usize = 20_000;

/// Numbers that decide where something ends, and the beginnings of parts.
const TELLING: [&[u8]; 10] = [
    &[0],
    &[0xff],
    &[0x80, 0x80, 0x80, 0x80, 0x10],
    &[0, 0, 0, 0, 0, 0],
    &[0xff, 0xff, 0xff, 0xff],
    &[0x80, 0, 0, 0, 0, 0, 0, 0],
    &[0, 1],
    &[0x04, 0x22, 0x4d, 0x18],
    b"LTX1",
    &[0xff, 0x7f],
];

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }

    /// Changes a file in one to three places.
    fn mutate(&mut self, file: &mut Vec<u8>, other: &[u8]) {
        for _ in 0..=self.below(3) {
            // Headers, indexes and trailers have the most to get wrong.
            let near_end = self.below(2) == 0;
            let at = if near_end { file.len().saturating_sub(1 + self.below(80)) } else { self.below(file.len()) };
            let len = (1 + self.below(40)).min(file.len() - at);
            match self.below(7) {
                0 if !file.is_empty() => file[at] ^= 1 << self.below(8),
                1 if !file.is_empty() => file[at] = file[at].wrapping_add([1, 255, 16][self.below(3)]),
                2 => file.truncate(at),
                3 => drop(file.drain(at..at + len)),
                4 => drop(file.splice(at..at, file[at..at + len].to_vec())),
                5 => {
                    let telling = TELLING[self.below(TELLING.len())];
                    let end = (at + telling.len()).min(file.len());
                    drop(file.splice(at..end, telling.iter().copied()));
                }
                _ => {
                    let from = self.below(other.len());
                    let piece = &other[from..(from + len).min(other.len())];
                    drop(file.splice(at..at + len, piece.iter().copied()));
                }
            }
        }
    }
}

/// The verdict on the bytes, after all that can be asked of them was asked.
fn in_memory(file: &[u8]) -> Result<Summary> {
    let verdict = decode_any(file, |_, _| ());
    let current = decode_all(file, |_, _| ());
    assert!(current.is_err() || current == verdict);
    let pieces = read(file, 7, 1).map(|(summary, _)| summary);
    assert_eq!(pieces, current, "the verdict depends on the pieces");
    if let Ok(index) = Index::parse(file, file.len() as u64) {
        for entry in index.entries() {
            let (start, end) = (entry.offset as usize, entry.offset as usize + entry.size as usize);
            let size = Header::parse(file).map_or(PageSize::MAX, |header| header.page_size.get());
            let _ = PageSize::new(size).map(|size| decode_frame(size, file.get(start..end).unwrap()));
        }
    }
    let mut merged = Vec::new();
    assert!(merge_all(&[file], &mut merged).is_err() || verdict.is_ok());
    verdict
}

/// Asks all of the same of a file by its path.
fn by_path(path: &Path, folder: &Path, expected: &Result<Summary>, what: &str) {
    let work = Work::new().with_jobs(NonZeroUsize::new(2).unwrap());
    match (verify(path, work), expected) {
        (Ok(found), Ok(expected)) => assert_eq!(found.summary, *expected, "{what}"),
        (Err(FileError::Format { source, .. }), Err(expected)) => assert_eq!(source, *expected, "{what}"),
        (found, expected) => panic!("{what}: {found:?} instead of {expected:?}"),
    }
    let _ = describe(path);
    let (output, database) = (folder.join("output"), folder.join("database"));
    let made = [
        decode(path, &output, work).map(drop),
        compact(&[path.to_owned()], &output, work).map(drop),
        apply(&database, &[path.to_owned()], ApplyOptions::default(), work).map(drop),
    ];
    assert!(expected.is_ok() || made.iter().all(std::result::Result::is_err), "{what}: {made:?}");
    let _ = (std::fs::remove_file(&output), std::fs::remove_file(&database));
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1, "{what} leaves something behind");
}

#[test]
fn changed_files_have_one_verdict_and_leave_nothing_behind() {
    let manifest = golden_json("manifest.json");
    let names = ["files", "corrupted"].map(|list| manifest[list].as_array().unwrap().clone()).concat();
    let files: Vec<(String, Vec<u8>)> = names
        .iter()
        .map(|facts| (text(facts, "file").to_owned(), golden(text(facts, "file"))))
        .filter(|(_, file)| !file.is_empty() && file.len() < LARGEST)
        .collect();
    assert!(files.len() > 150);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.ltx");
    let mut refused = 0;
    for (seed, (name, file)) in (1..).zip(&files) {
        let mut random = Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        for round in 0..ROUNDS {
            let mut changed = file.clone();
            let other = random.below(files.len());
            random.mutate(&mut changed, &files[other].1);
            let verdict = in_memory(&changed);
            refused += u32::from(verdict.is_err());
            if round % 8 == 0 {
                std::fs::write(&path, &changed).unwrap();
                by_path(&path, folder.path(), &verdict, &format!("{name}, round {round}"));
            }
        }
    }
    // The rest are changes that cancel each other out.
    assert!(refused > files.len() as u32 * ROUNDS as u32 * 9 / 10, "{refused} are refused");
}

/// A frame that the index has behind the end of the file was once taken for a failing disk.
#[test]
fn an_index_that_leads_behind_the_file_is_a_defect_of_the_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.ltx");
    let mut file = golden("snapshot/encode-db-512.ltx");
    let index = file.len() - 24 - u64::from_be_bytes(*file[file.len() - 24..].first_chunk().unwrap()) as usize;
    // Page 1, at offset 100, two bytes of size.
    assert_eq!(
        (file[index..index + 2].to_vec(), file[index + 2] & 0x80, file[index + 3] & 0x80),
        (vec![1, 100], 0x80, 0)
    );
    file[index + 2..index + 4].copy_from_slice(&[0xff, 0x7f]);
    std::fs::write(&path, &file).unwrap();
    let verdict = in_memory(&file);
    assert!(verdict.is_err());
    by_path(&path, folder.path(), &verdict, "an index that leads behind the file");
}
