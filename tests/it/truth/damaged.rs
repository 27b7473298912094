//! A damaged complete copy: a start detects it, reports it, and acts on it.

use std::fs;

use seawall_tests::{Random, Stand, model, wait};

/// Cut, empty and misnamed copies are seen by a start from a listing and two small reads.
#[test]
fn a_damaged_base_is_seen_at_a_start_and_replaced() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(60);
    stand.replicate_once();
    for spoil in ["cut", "empty", "gone", "other bytes in its header", "misnamed"] {
        let (min, max) = *stand.place.files(9).last().unwrap();
        let path = stand.place.object(9, min, max);
        let whole = fs::read(&path).unwrap();
        match spoil {
            "cut" => fs::write(&path, &whole[..whole.len() - 9]).unwrap(),
            "empty" => fs::write(&path, b"").unwrap(),
            "misnamed" => {
                fs::rename(&path, path.with_file_name(seawall_tests::file_name(1, max + 100))).unwrap();
            }
            "gone" => fs::remove_file(&path).unwrap(),
            _ => fs::write(&path, [&b"LTX2"[..], &whole[4..]].concat()).unwrap(),
        }
        app.commit(1);
        let before = stand.place.newest();
        let output = stand.replicate_with(&["--once"]).wait(wait::SOON * 4).ok();
        let newest = stand.place.newest();
        assert!(newest > before, "{spoil}: {output}");
        assert_eq!(stand.place.files(9).last(), Some(&(1, newest)), "{spoil}: no base was taken: {output}");
        assert!(output.stderr.contains("taking a new base"), "{spoil}: {output}");
        assert_eq!(model::check(&stand.restore(), stand.seed), app.committed(), "{spoil}");
        if spoil == "misnamed" {
            // The timeline can't show the moment of the point that the object is named after.
            continue;
        }
        let timeline = stand.seawall(&["timeline", &stand.place.url(), "--json"]).ok().json();
        let holes = timeline["holes"].as_array().unwrap();
        assert!(holes.iter().any(|hole| hole["to"]["position"] == format!("{newest:016x}")), "{spoil}: {timeline}");
    }
}

/// The state record knows the acknowledged position. A vault that ends before it isn't in order, and its end isn't "the
/// newest".
#[test]
fn a_vault_that_ends_before_what_was_acknowledged() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    let mut kept = 0;
    for turn in 0..5 {
        let committed = app.commit(10);
        stand.replicate_once();
        if turn == 2 {
            kept = committed;
        }
    }
    let name = stand.path("seawall.yml");
    let text = format!("databases:\n  - path: {}\n    vault: {}\n", stand.db().display(), stand.place.url());
    fs::write(&name, text).unwrap();
    let config = ["--config", name.to_str().unwrap()];
    let (db, newest) = (stand.db(), stand.place.newest());
    let db = db.to_str().unwrap();
    stand.seawall(&[&["verify", db][..], &config].concat()).ok();
    stand.place.remove_merged();
    for txid in newest - 1..=newest {
        fs::remove_file(stand.place.object(0, txid, txid)).unwrap();
    }
    let found = stand.seawall(&[&["verify", db, "--json"][..], &config].concat()).exits(1).json();
    assert_eq!(found["findings"][0]["code"], "sqlite.ends-early", "{found}");
    let restore = ["restore", db, "-o", "x.db"];
    let output = stand.seawall(&[&restore[..], &config].concat()).exits(1);
    assert!(output.stderr.contains("[sqlite.ends-early]"), "{output}");
    let at = format!("{:016x}", newest - 2);
    assert!(output.stderr.contains(&at), "{output}");
    stand.seawall(&[&restore[..], &["--at", &at], &config].concat()).ok();
    assert_eq!(model::check(&stand.path("x.db"), stand.seed), kept);
}

/// Writes of an application to a file that was replaced under it are lost silently.
#[test]
fn a_database_that_is_open_is_not_replaced() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    let committed = app.commit(20);
    stand.replicate_once();
    let (url, db) = (stand.place.url(), stand.db());
    let restore = ["restore", &url, "-o", db.to_str().unwrap(), "--force"];
    let output = stand.seawall(&restore).exits(1);
    assert!(output.stderr.contains("[sqlite.target-open]"), "{output}");
    app.commit(5);
    app.close();
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    let output = stand.seawall(&restore).exits(1);
    assert!(output.stderr.contains("[sqlite.target-open]"), "{output}");
    drop(seawall);
    stand.seawall(&[&restore[..], &["--at", "0000000000000002"]].concat()).ok();
    assert_eq!(model::check(&db, stand.seed), committed);
}

/// A place of many databases is no database: each of them is read.
#[test]
fn verify_of_a_prefix_reads_each_database_below_it() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(20);
    for name in ["one", "two"] {
        let mut command = stand.command();
        command.args(["replicate", "--once"]).arg(stand.db()).arg(stand.path(&format!("all/{name}")));
        seawall_tests::run("seawall", &mut command).ok();
        fs::remove_dir_all(stand.state()).unwrap();
    }
    let all = stand.path("all");
    let all = all.to_str().unwrap();
    let output = stand.seawall(&["verify", all]).ok();
    assert!(output.stdout.contains("all/one: ") && output.stdout.contains("all/two: "), "{output}");
    fs::write(stand.path(&format!("all/two/ltx/9/{}", seawall_tests::file_name(1, 1))), b"LTX1").unwrap();
    let output = stand.seawall(&["verify", all]).exits(1);
    assert!(output.stdout.contains("all/one: ") && output.stdout.contains("sqlite.corrupt-object"), "{output}");
    let json = stand.seawall(&["verify", all, "--json"]).exits(1).json();
    assert_eq!(json["databases"].as_array().unwrap().len(), 2, "{json}");
}
