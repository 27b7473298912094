//! The chain of a server's backups, by the command line: somebody deletes past Seawall, and says that he knows.

use std::path::PathBuf;

use seawall_tests::{Place, Stand};
use serde_json::Value;

use crate::postgres::{CONTENT, shop};

/// A stand whose configuration keeps only two sets of a database, and the names of its sets.
fn stand() -> (Stand, crate::postgres::server::Server, String, PathBuf, Vec<String>) {
    let (stand, server) = (Stand::folder(9), shop(100));
    let config = stand.path("seawall.yml");
    let text = format!(
        "databases:\n  - url: '{}'\n    vault: {}\n    schedule: '0 3 * * *'\n    \
         retention: {{ keep: 1ms, minimum: 2, grace: 1ms }}\n    backup: {{ memory: 32MiB }}\n",
        server.url("shop"),
        stand.place.url()
    );
    std::fs::write(&config, text).unwrap();
    let Place::Folder(folder) = &stand.place else { unreachable!("it is a folder") };
    let folder = folder.clone();
    let source = server.url("shop");
    let formats = ["native", "custom", "directory", "plain"];
    let backup = |format: &str| {
        let made = stand.seawall(&["backup", &source, &stand.place.url(), "--format", format, "--json"]).ok().json();
        made["id"].as_str().unwrap().to_owned()
    };
    let ids = formats.iter().map(|format| backup(format)).collect();
    (stand, server, config.to_str().unwrap().to_owned(), folder, ids)
}

#[test]
fn postgres_a_set_that_somebody_deleted_is_an_alarm_until_it_is_acknowledged() {
    let (stand, server, config, folder, ids) = stand();
    let vault = stand.place.url();
    let run = |arguments: &[&str]| stand.seawall(&[arguments, &["--config", &config]].concat());
    stand.seawall(&["verify", &vault]).ok();

    // Everything: the link and the objects that it names.
    std::fs::remove_dir_all(folder.join("sets").join(&ids[1])).unwrap();
    let missing = stand.seawall(&["verify", &vault]).exits(1);
    assert!(missing.stdout.contains(&ids[1]), "a chunk is missing: {missing}");
    std::fs::remove_file(folder.join("chain/00000002.json")).unwrap();
    let alarm = stand.seawall(&["verify", &vault, "--json"]).exits(1).json();
    let codes: Vec<&str> = alarm["findings"].as_array().unwrap().iter().filter_map(|f| f["code"].as_str()).collect();
    assert_eq!(codes, ["archive.missing-link"], "{alarm}");
    for maintain in [&["maintain", "shop"][..], &["maintain", "shop", "--dry-run"]] {
        let refused = run(maintain).exits(1);
        assert!(refused.stderr.contains("error[archive.alarm]") && refused.stderr.contains("\nnext: "), "{refused}");
    }
    let hole = stand.seawall(&["timeline", &vault, "--json"]).ok().json();
    assert_eq!(hole["holes"].as_array().map(Vec::len), Some(1), "{hole}");

    for number in ["1", "9"] {
        let refused = run(&["maintain", "shop", "--acknowledge", number]).exits(1);
        assert!(refused.stderr.contains("error[archive.not-missing]"), "{refused}");
    }
    let said = run(&["maintain", "shop", "--acknowledge", "2", "--json"]).ok().json();
    assert_eq!(said["acknowledged"], Value::from(vec![2]), "{said}");
    let link = std::fs::read_to_string(folder.join("chain/00000005.json")).unwrap();
    let link: Value = serde_json::from_str(link.lines().next().unwrap()).unwrap();
    assert_eq!((&link["kind"], &link["number"]), (&Value::from("acknowledgement"), &Value::from(5)), "{link}");
    assert_eq!(link["missing"][0]["number"], Value::from(2), "{link}");
    stand.seawall(&["verify", &vault]).ok();
    let hole = stand.seawall(&["timeline", &vault, "--json"]).ok().json();
    let reason = hole["holes"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("which was acknowledged at "), "it stays a hole: {hole}");

    run(&["maintain", "shop"]).ok();
    let left = stand.seawall(&["timeline", &vault, "--json"]).ok().json();
    assert_eq!(left["spans"].as_array().map(Vec::len), Some(2), "retention goes on: {left}");
    stand.seawall(&["verify", &vault]).ok();
    stand.seawall(&["restore", &vault, "--to", &server.url("copy")]).ok();
    assert_eq!(server.sql("copy", CONTENT), server.sql("shop", CONTENT));
}

#[test]
fn postgres_sets_of_every_format_are_retired_by_a_record_then_deleted_and_the_last_good_one_stays() {
    let (stand, server, config, folder, ids) = stand();
    let vault = stand.place.url();
    let run = |arguments: &[&str]| stand.seawall(&[arguments, &["--config", &config]].concat());
    let there =
        |id: &String| std::fs::read_dir(folder.join("sets").join(id)).is_ok_and(|mut files| files.next().is_some());
    let links = || std::fs::read_dir(folder.join("chain")).unwrap().count();
    // A pin keeps the oldest set, which is in our own format. The newest lost a chunk and doesn't count among the sets
    // to keep.
    run(&["pin", "shop", "--at", &ids[0]]).ok();
    std::fs::remove_file(folder.join("sets").join(&ids[3]).join("00000000.zst")).unwrap();
    let dry = run(&["maintain", "shop", "--dry-run", "--json"]).ok().json();
    assert_eq!((dry["retired"].as_array().map(Vec::len), links()), (Some(0), 4), "two whole ones stay: {dry}");
    let newest = ["custom", "plain"].map(|format| {
        let made = stand.seawall(&["backup", &server.url("shop"), &vault, "--format", format, "--json"]).ok().json();
        made["id"].as_str().unwrap().to_owned()
    });
    let dry = run(&["maintain", "shop", "--dry-run", "--json"]).ok().json();
    let mut keys: Vec<&str> =
        dry["retired"].as_array().unwrap().iter().filter_map(|gone| gone["key"].as_str()).collect();
    keys.sort_unstable();
    let mut expected = [&ids[1], &ids[2], &ids[3]].map(|id| format!("sets/{id}/"));
    expected.sort_unstable();
    assert_eq!((keys, links()), (expected.iter().map(String::as_str).collect(), 6), "a dry run writes nothing: {dry}");
    assert!(ids.iter().all(there), "and deletes nothing");

    run(&["maintain", "shop"]).ok();
    let record = std::fs::read_to_string(folder.join("chain/00000007.json")).unwrap();
    let record: Value = serde_json::from_str(record.lines().next().unwrap()).unwrap();
    let named: Vec<&str> = record["retired"].as_array().unwrap().iter().filter_map(|one| one["id"].as_str()).collect();
    assert_eq!((&record["kind"], named), (&Value::from("retirement"), vec![&*ids[1], &*ids[2], &*ids[3]]), "{record}");
    seawall_tests::wait::until("the grace to be over", seawall_tests::wait::SOON, || {
        run(&["maintain", "shop"]).ok();
        (!ids[1..].iter().any(there)).then_some(())
    });
    assert!(there(&ids[0]) && newest.iter().all(there), "the pinned one, and the newest two");
    stand.seawall(&["verify", &vault]).ok();
    run(&["pin", "shop", "--at", &ids[0], "--remove"]).ok();
    seawall_tests::wait::until("what was pinned to go", seawall_tests::wait::SOON, || {
        run(&["maintain", "shop"]).ok();
        (!there(&ids[0])).then_some(())
    });
    assert!(newest.iter().all(there));
    stand.seawall(&["verify", &vault]).ok();
    for id in &newest {
        stand.seawall(&["restore", &vault, "--to", &server.url("copy"), "--at", id, "--clean"]).ok();
        assert_eq!(server.sql("copy", CONTENT), server.sql("shop", CONTENT));
    }
}
