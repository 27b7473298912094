//! `seawall bench`: figures of a real server and a store, and nothing that stays.

use seawall_tests::{Random, Stand, run};

use crate::postgres::{nothing_stays, shop};

#[test]
fn a_postgres_server_and_a_folder_are_measured_and_left_as_they_were() {
    let (stand, server) = (Stand::folder(Random::from_env().seed()), shop(3_000));
    let vault = stand.path("vault");
    let (source, place) = (server.url("shop"), vault.to_str().unwrap());
    std::fs::create_dir(&vault).unwrap();
    let found = stand.seawall(&["bench", &source, place, "--jobs", "2", "--json"]).ok().json();
    assert_eq!(
        (&found["jobs"], &found["backup"]["rows"], &found["backup"]["in_vault"]),
        (&2.into(), &3_150.into(), &true.into())
    );
    for figure in [
        &found["read"],
        &found["codec"]["figure"],
        &found["store"]["up"],
        &found["store"]["down"],
        &found["backup"]["figure"],
    ] {
        assert!(figure["bytes"].as_u64() > Some(0) && figure["bytes_per_second"].as_u64() > Some(0), "{found:#}");
    }
    assert_eq!(found["read"]["bytes"], found["backup"]["figure"]["bytes"], "{found:#}");
    assert!(found["codec"]["per_mille"].as_u64() < Some(1000), "{found:#}");
    // A backup that is clearly faster than each part, as small ones may be, is bounded by none of them.
    let bound = &found["bound"];
    assert!(bound.is_null() || ["source", "codec", "store"].iter().any(|stage| bound == stage), "{found:#}");
    let stored = found["backup"]["stored"].as_u64().unwrap();
    assert!(stored > 0 && stored < found["read"]["bytes"].as_u64().unwrap(), "{found:#}");
    let files = || walk(&vault);
    assert_eq!(files(), Vec::<String>::new());
    nothing_stays(&server, "shop");

    // For people; without a vault the backup goes into nothing, and a vault is measured alone.
    let told = stand.seawall(&["bench", &source, "--compression", "lz4"]).ok().stdout;
    for part in [
        "source: rows read into nothing",
        "codec: lz4 to ",
        "a whole backup, into nothing",
        " of rows a second. The backup of 3150 rows ",
    ] {
        assert!(told.contains(part), "{part} isn't in {told}");
    }
    let told = stand.seawall(&["bench", place]).ok().stdout;
    assert!(told.contains("store: written, ") && told.contains("store: a small read"), "{told}");
    assert_eq!(files(), Vec::<String>::new());
    stand.seawall(&["bench", place, place]).exits(2);
    stand.seawall(&["bench", &source, "--compression", "brotli"]).exits(2);

    // Rows of an encrypted vault's database don't lie there in the clear, not even for a minute.
    let key = stand.path("owner.key");
    let init = ["vault", "init", place, "--generate", "-o", key.to_str().unwrap(), "--json"];
    let made = run("seawall", stand.command().args(init)).ok().json();
    let recipient = made["recipients"][0].as_str().unwrap();
    let before = files();
    let refused = stand.seawall(&["bench", &source, place]).exits(2);
    assert!(refused.stderr.contains("bench.unencrypted"), "{refused}");
    let sealed = stand.seawall(&["bench", &source, place, "--recipient", recipient, "--json"]).ok().json();
    assert_eq!(sealed["store"]["encrypted"], true, "{sealed:#}");
    assert_eq!(files(), before);
    nothing_stays(&server, "shop");
}

/// The files below a folder.
fn walk(folder: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => found.push(entry.path().display().to_string()),
            }
        }
    }
    found.sort();
    found
}
