//! Replicas of Litestream before 0.5, from golden files of v0.3.13: Seawall restores every state that v0.3.13 restores,
//! byte by byte.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use seawall_tests::{Stand, digest, model};
use serde_json::Value;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/litestream-0.3")
}

fn manifest() -> Value {
    serde_json::from_str(&fs::read_to_string(golden().join("manifest.json")).unwrap()).unwrap()
}

/// Copies the replica to the stand's vault, with its times.
fn replica(stand: &Stand) {
    for (name, at) in manifest()["objects"].as_object().unwrap() {
        let file = stand.path("vault").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::copy(golden().join("replica").join(name), &file).unwrap();
        let modified = UNIX_EPOCH + Duration::from_millis(at.as_u64().unwrap());
        fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
    }
}

#[test]
fn every_state_that_it_restores_we_restore() {
    let stand = Stand::folder(1);
    replica(&stand);
    let expected = manifest()["restores"].as_array().unwrap().clone();
    assert!(expected.len() >= 8);
    for (number, state) in expected.iter().enumerate() {
        let (file, at) = (format!("back-{number}.db"), state["at"].as_str().unwrap_or("latest"));
        stand.seawall(&["restore", "./vault", "-o", &file, "--at", at, "--integrity", "full"]).ok();
        assert_eq!(digest::of_file(&stand.path(&file)), state["sha256"].as_str().unwrap(), "{at}");
    }
    stand.seawall(&["verify", "./vault"]).ok();
    // It kept no digests, so there is nothing to compare, which isn't the same as sound.
    let strong = stand.seawall(&["verify", "./vault", "--strong", "--json"]).exits(3).json();
    assert_eq!(
        (&strong["compared"], strong["without_digest"].as_array().map(Vec::len)),
        (&0.into(), Some(32)),
        "{strong}"
    );
}

#[test]
fn its_timeline_says_what_can_be_restored() {
    let stand = Stand::folder(1);
    replica(&stand);
    let timeline = stand.seawall(&["timeline", "./vault", "--json"]).ok().json();
    let spans = timeline["spans"].as_array().unwrap();
    assert_eq!(spans.len(), 2, "{timeline}");
    assert_eq!(timeline["levels"][0]["level"], "generations", "{timeline}");
    assert_eq!(timeline["levels"][0]["objects"], 32, "{timeline}");
    // It isn't known what was written between the two generations.
    let end = spans[0]["to"]["moment"].as_str().unwrap();
    let output = stand.seawall(&["restore", "./vault", "-o", "x.db", "--at", "2026-11-22T02:02:26.380Z"]);
    assert!(output.code() == 1 && output.stderr.contains("two generations"), "{output}");
    stand.seawall(&["restore", "./vault", "-o", "end.db", "--at", end]).ok();
    let early = stand.seawall(&["restore", "./vault", "-o", "x.db", "--at", "2020-01-01T00:00:00Z"]);
    assert!(early.code() == 4 && !stand.path("x.db").exists(), "{early}");
}

#[test]
fn a_damaged_segment_is_no_state() {
    let stand = Stand::folder(1);
    replica(&stand);
    let wal = stand.path("vault/generations/09f9af0445edbbcd/wal");
    let mut names: Vec<PathBuf> = fs::read_dir(&wal).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    for (change, code) in [(0, "sqlite.corrupt"), (1, "sqlite.corrupt"), (2, "sqlite.corrupt")] {
        let segment = &names[1];
        let (bytes, modified) = (fs::read(segment).unwrap(), fs::metadata(segment).unwrap().modified().unwrap());
        match change {
            0 => fs::write(segment, &bytes[..bytes.len() / 2]).unwrap(),
            1 => {
                let mut damaged = bytes.clone();
                let middle = damaged.len() / 2;
                damaged[middle] ^= 1;
                fs::write(segment, damaged).unwrap();
            }
            _ => fs::remove_file(segment).unwrap(),
        }
        if segment.exists() {
            fs::File::options().write(true).open(segment).unwrap().set_modified(modified).unwrap();
        }
        let output = stand.seawall(&["restore", "./vault", "-o", "x.db"]).exits(1);
        assert!(output.stderr.contains(code), "{change}: {output}");
        assert!(!stand.path("x.db").exists());
        stand.seawall(&["verify", "./vault"]).exits(1);
        fs::write(segment, bytes).unwrap();
        fs::File::options().write(true).open(segment).unwrap().set_modified(modified).unwrap();
    }
    stand.seawall(&["verify", "./vault"]).ok();
}

#[test]
fn going_over_from_it_begins_anew_in_the_same_place() {
    let stand = Stand::folder(3);
    replica(&stand);
    // A lost database comes back from the old replica, and continues in the new format beside it.
    let mut command = stand.command();
    command.args(["replicate", "--once", "--restore-if-missing"]).arg(stand.db()).arg("./vault");
    seawall_tests::run("seawall", &mut command).ok();
    let newest = manifest()["restores"][0]["sha256"].as_str().unwrap().to_owned();
    stand.seawall(&["restore", "./vault", "-o", "old.db", "--at", &last_moment(&stand)]).ok();
    assert_eq!(digest::of_file(&stand.path("old.db")), newest);
    let mut app = stand.app();
    let committed = app.commit(5);
    stand.replicate_once();
    assert_eq!(model::check(&stand.restore(), stand.seed), committed);
    assert!(stand.path("vault/generations").exists());
}

/// The moment of the newest state of the old replica.
fn last_moment(stand: &Stand) -> String {
    let timeline = stand.seawall(&["timeline", "./vault", "--json"]).ok().json();
    timeline["spans"][1]["to"]["moment"].as_str().unwrap().to_owned()
}
