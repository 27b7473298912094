//! Records of proofs that aren't of this database, and proofs whose objects are gone since.

use std::fs;
use std::path::PathBuf;

use seawall_tests::{App, Output, Random, Stand, model, run};
use serde_json::Value;

/// A database with a vault and a proof of it.
fn proved(seed: u64) -> (Stand, App) {
    let stand = Stand::folder(seed);
    let mut app = stand.app();
    app.commit(50);
    stand.replicate_once();
    app.commit(5);
    stand.replicate_once();
    prove(&stand).ok();
    (stand, app)
}

fn prove(stand: &Stand) -> Output {
    stand.seawall(&["verify", "--restore", &stand.place.url(), "--json"])
}

fn records(stand: &Stand) -> Vec<PathBuf> {
    let folder = stand.place.root().join("seawall/proofs");
    let mut all: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

fn timeline(stand: &Stand) -> Value {
    stand.seawall(&["timeline", &stand.place.url(), "--json"]).ok().json()
}

fn fleet_check(stand: &Stand) -> Output {
    run("seawall", stand.command().args(["fleet", "--check"]).arg(stand.path("")))
}

/// The row that `fleet` has of the stand's vault.
fn row(stand: &Stand) -> Value {
    let all = run("seawall", stand.command().args(["fleet", "--json"]).arg(stand.path(""))).json();
    let rows = all["databases"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == "vault").unwrap_or_else(|| panic!("{all:#}")).clone()
}

/// Somebody copied the record of another database's proof. That database is further on, and this vault never held that point.
#[test]
fn a_record_of_another_databases_proof_is_told_where_it_reaches_further() {
    let mut random = Random::from_env();
    let [(one, app), (other, mut its_app)] = [random.draw(), random.draw()].map(proved);
    fleet_check(&one).ok();
    its_app.commit(5);
    other.replicate_once();
    prove(&other).ok();
    let later = records(&other).pop().unwrap();
    let planted = one.place.root().join("seawall/proofs").join(later.file_name().unwrap());
    fs::copy(&later, &planted).unwrap();
    let further = format!("{:016x}", other.place.newest());
    let shown = timeline(&one);
    assert!(shown["doubts"].to_string().contains(&further), "{shown:#}");
    let told = fleet_check(&one).exits(1);
    assert!(told.stdout.contains("alarm.unsafe"), "{told}");
    // Without it, all is well. Everything is there.
    fs::remove_file(planted).unwrap();
    fleet_check(&one).ok();
    assert_eq!(model::check(&one.restore(), one.seed), app.committed());
}

/// The objects that a proof restored are gone. The record stays, and says nothing about the objects that are left.
#[test]
fn a_proof_whose_objects_are_gone_is_no_proof_of_what_is_left() {
    let (stand, app) = proved(Random::from_env().seed());
    let before = row(&stand);
    assert_eq!(before["proof"]["faults"], serde_json::json!([]), "{before:#}");
    let newest = stand.place.newest();
    stand.place.remove_merged();
    fs::remove_file(stand.place.object(0, newest, newest)).unwrap();
    let after = row(&stand);
    let proved = after["proof"]["point"]["position"].as_str().unwrap();
    let alarm = &after["alarms"][0];
    assert_eq!(alarm["code"], "alarm.unsafe", "{after:#}");
    let cause = alarm["cause"].as_str().unwrap();
    assert!(cause.contains(proved) && cause.contains("proof.beyond"), "{after:#}");
    fleet_check(&stand).exits(1);
    let tells = || timeline(&stand)["doubts"].to_string().contains(proved);
    assert!(tells());
    // A proof that can't be made hides nothing, and neither does one of what is left.
    stand.seawall(&["verify", "--restore", &stand.place.url(), "--within", "1ms"]).exits(1);
    assert!(tells() && fleet_check(&stand).exits(1).stdout.contains("alarm.unsafe"));
    let proved_again = prove(&stand).ok().json();
    assert!(proved_again["record"]["doubts"].to_string().contains("(proof.beyond)"), "{proved_again}");
    assert!(tells() && fleet_check(&stand).exits(1).stdout.contains("alarm.unsafe"));
    let back = stand.restore();
    assert!(model::check(&back, stand.seed) < app.committed());
}

/// A base that was proved is damaged afterwards: the next proof and `verify` say so, and the newest proof is the one that failed.
#[test]
fn a_proof_that_fails_later_outweighs_the_one_before() {
    let (stand, _app) = proved(Random::from_env().seed());
    let base = stand.place.object(9, 1, 1);
    let mut bytes = fs::read(&base).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&base, bytes).unwrap();
    let failed = prove(&stand).exits(1).json();
    let (shown, row) = (timeline(&stand), row(&stand));
    assert_eq!((&shown["proofs"][0], &row["proof"]), (&failed["record"], &failed["record"]), "{row:#}");
    assert!(row["alarms"].to_string().contains("alarm.proof-failed"), "{row:#}");
    // The failed record is deleted, so that the good one is the newest again: the objects themselves are asked.
    fs::remove_file(records(&stand).pop().unwrap()).unwrap();
    stand.seawall(&["verify", &stand.place.url()]).exits(1);
    prove(&stand).exits(1);
}
