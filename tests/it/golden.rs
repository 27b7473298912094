//! Replicas that Litestream wrote, kept in this repository with the hash of the database after each transaction.

use std::fs;
use std::path::Path;

use seawall_tests::{Stand, digest, file_name, golden};
use serde_json::Value;

fn manifest() -> Value {
    serde_json::from_str(&fs::read_to_string(golden().join("manifest.json")).unwrap()).unwrap()
}

fn named<'a>(list: &'a Value, key: &str, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|entry| entry[key] == name).expect("the manifest lists it")
}

/// A stand whose vault holds these golden files, each at its level under the right name.
fn vault_of<'a>(files: impl Iterator<Item = (u8, String, &'a str)>) -> Stand {
    let stand = Stand::folder(0);
    for (level, name, file) in files {
        fs::create_dir_all(stand.place.level(level)).unwrap();
        fs::copy(golden().join(file), stand.place.level(level).join(name)).unwrap();
    }
    stand
}

fn litestream_1024(levels: &[&str]) -> (Stand, Value) {
    let chain = named(&manifest()["chains"], "name", "litestream-1024").clone();
    let stand = vault_of(levels.iter().flat_map(|level| {
        chain["levels"][*level].as_array().unwrap().iter().map(|file| {
            let file = file.as_str().unwrap();
            (level.parse().unwrap(), Path::new(file).file_name().unwrap().to_str().unwrap().to_owned(), file)
        })
    }));
    (stand, chain)
}

fn sha256_at(stand: &Stand, txid: &str) -> String {
    digest::of_file(&stand.restore_with(&["--at", txid]))
}

#[test]
fn every_transaction_of_the_golden_replica_restores_to_the_recorded_bytes() {
    let (stand, chain) = litestream_1024(&["0", "1", "2", "3", "9"]);
    let states = chain["state_after"].as_object().unwrap();
    assert!(!states.is_empty());
    for (txid, sha256) in states {
        assert_eq!(sha256_at(&stand, txid), *sha256, "after {txid}");
    }
    assert_eq!(digest::of_file(&stand.restore()), chain["final_db_sha256"]);
}

#[test]
fn the_ends_of_the_golden_replicas_files_are_enough_without_level_0() {
    for levels in [&["1"][..], &["2"], &["3"], &["9"], &["1", "2", "3"], &["3", "9"]] {
        let (stand, chain) = litestream_1024(levels);
        let mut ends: Vec<_> = (0..=9).flat_map(|level| stand.place.files(level)).map(|(_, max)| max).collect();
        ends.dedup();
        for end in ends {
            let txid = format!("{end:016x}");
            assert_eq!(sha256_at(&stand, &txid), chain["state_after"][&txid], "levels {levels:?} after {txid}");
        }
    }
}

#[test]
fn a_transaction_that_is_inside_a_compacted_file_is_refused_by_name() {
    let (stand, _) = litestream_1024(&["3", "9"]);
    let file = stand.new_file();
    let target = file.to_str().unwrap();
    let output = stand.seawall(&["restore", &stand.place.url(), "-o", target, "--at", "0000000000000008"]);
    assert!(output.code() != 0, "{output}");
    assert!(output.stderr.contains("0000000000000008"), "{output}");
    assert!(!file.exists());
}

#[test]
fn replicas_in_the_frame_form_of_litestream_0_5_0_to_0_5_15() {
    let manifest = manifest();
    for size in [512, 4096] {
        for kind in ["v3-frame-nochk", "v3-frame"] {
            let file = format!("legacy/{kind}-{size}.ltx");
            let snapshot = named(&manifest["files"], "file", &file);
            for level in [0, 1, 9] {
                let stand = vault_of([(level, file_name(1, 1), file.as_str())].into_iter());
                assert_eq!(digest::of_file(&stand.restore()), snapshot["db_sha256"], "{file} at level {level}");
            }
        }
        increment_in_frame_form(&manifest, size);
    }
}

/// A snapshot and an increment after it: the increment's pages come from the increment, all others from the snapshot.
fn increment_in_frame_form(manifest: &Value, size: usize) {
    let snapshot = format!("legacy/v3-frame-nochk-{size}.ltx");
    let increment = format!("legacy/v3-frame-inc-nochk-{size}.ltx");
    let files = [(9, file_name(1, 1), snapshot.as_str()), (1, file_name(2, 3), increment.as_str())];
    let stand = vault_of(files.into_iter());
    let (before, after) = (fs::read(stand.restore_txid(1)).unwrap(), fs::read(stand.restore()).unwrap());
    assert_eq!(after, fs::read(stand.restore_txid(3)).unwrap());
    let entry = named(&manifest["files"], "file", &increment);
    assert_eq!(after.len() as u64, size as u64 * entry["commit"].as_u64().unwrap());
    let changed: Vec<usize> =
        entry["pages"].as_array().unwrap().iter().map(|page| page.as_u64().unwrap() as usize).collect();
    let mut pages = Vec::new();
    for (index, (old, new)) in before.chunks(size).zip(after.chunks(size)).enumerate() {
        if changed.contains(&(index + 1)) {
            pages.extend_from_slice(new);
        } else {
            assert_eq!(old, new, "page {} was not in the increment", index + 1);
        }
    }
    let joined = stand.path("pages");
    fs::write(&joined, pages).unwrap();
    assert_eq!(digest::of_file(&joined), entry["pages_sha256"], "{increment}");
}
