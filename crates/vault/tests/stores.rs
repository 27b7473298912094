//! A kind of store is a folder. This test counts the other places that know the kind, so that adding one stays small.

#![allow(clippy::disallowed_methods, reason = "tests are an edge")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use seawall_vault::Scheme;

/// The crates whose code a store is below. Configurations have keys for each kind, and are above.
const CRATES: [&str; 8] = ["archive", "core", "host", "lmdb", "ltx", "postgres", "sqlite", "vault"];

/// Text by which code says that it knows S3.
const OF_S3: [&str; 8] =
    ["Scheme::S3", "VaultUrl::S3", "Self::S3", "S3Settings", "S3Store", "s3::", "mod s3;", "S3 = \"s3\""];

/// All files outside S3's own folder that know it. `docs/design.md` ("To add a store") shows this list.
const PLACES: [&str; 6] = [
    "sqlite/src/history/layout.rs",
    "vault/src/lib.rs",
    "vault/src/scheme.rs",
    "vault/src/stores/memory/mod.rs",
    "vault/src/stores/mod.rs",
    "vault/src/url.rs",
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn each_kind_has_a_folder_with_the_same_rooms() {
    for scheme in Scheme::ALL {
        let folder = crates().join("vault/src/stores").join(scheme.as_str());
        for room in ["mod.rs", "url.rs"] {
            assert!(folder.join(room).is_file(), "{} has no {room}", folder.display());
        }
    }
}

#[test]
fn outside_its_folder_s3_is_known_in_these_places_alone() {
    let mut found = BTreeSet::new();
    for name in CRATES {
        let mut files = Vec::new();
        sources(&crates().join(name).join("src"), &mut files);
        for file in files {
            let place = file.strip_prefix(crates()).expect("below the crates").display().to_string();
            let text = fs::read_to_string(&file).expect("a source file");
            let is_test = place.ends_with("tests.rs") || place == "vault/src/testing.rs";
            // B2 is a place of S3 under another name.
            let is_of_it = place.starts_with("vault/src/stores/s3/") || place.starts_with("vault/src/stores/b2/");
            if !is_test && !is_of_it && OF_S3.iter().any(|word| text.contains(word)) {
                found.insert(place);
            }
        }
    }
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(found, PLACES, "a place more to think of for each kind of store, or one less");
}
