//! `seawall compare`: what changed between two points, from the vault alone.

use std::fs;

use seawall_tests::{Output, Random, Stand, run};
use serde_json::{Value, json};

use crate::environment::put;
use crate::postgres::shop;

fn compare(stand: &Stand, arguments: &[&str]) -> Output {
    run("seawall", stand.command().arg("compare").args(arguments))
}

fn part<'a>(document: &'a Value, name: &str) -> &'a Value {
    let parts = document["parts"].as_array().unwrap();
    parts.iter().find(|part| part["name"] == name).unwrap_or_else(|| panic!("{name} isn't in {document:#}"))
}

/// The points of `compare` are arguments: it has no `--at`.
#[test]
fn a_point_that_is_not_there_is_told_in_the_words_of_the_command() {
    let stand = Stand::folder(Random::from_env().seed());
    stand.app().commit(5);
    stand.replicate_once();
    let vault = stand.place.url();
    for (arguments, exit, object) in [
        (["nosuch", "latest"], 2, "error[usage.when]: FROM: "),
        (["latest", "nosuch"], 2, "error[usage.when]: TO: "),
        (["00000000000000ff", "latest"], 1, "FROM: "),
        (["latest", "00000000000000ff"], 1, "TO: "),
    ] {
        let said = compare(&stand, &[&[vault.as_str()], &arguments[..]].concat()).exits(exit);
        assert!(said.stderr.contains(object) && !said.stderr.contains("--at"), "{said}");
    }
}

#[test]
fn two_points_of_sqlite() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(5);
    let mut process = stand.replicate();
    stand.until_protected(&mut process);
    let first = stand.seawall(&["timeline", &stand.place.url(), "--json"]).ok().json();
    let position = first["spans"][0]["to"]["position"].as_str().unwrap().to_owned();
    app.commit(300);
    stand.until_protected(&mut process);
    process.stop().ok();
    let found = compare(&stand, &[&stand.place.url(), &position, "--json"]).ok().json();
    assert_eq!(found["from"]["point"]["position"], position, "{found:#}");
    let size = |at: &str| found[at]["bytes"].as_u64().unwrap();
    assert!(size("from") > 0 && size("to") > size("from"), "{found:#}");
    let back = stand.path("back.db");
    stand.seawall(&["restore", &stand.place.url(), "-o", back.to_str().unwrap()]).ok();
    assert_eq!(size("to"), fs::metadata(back).unwrap().len(), "{found:#}");
    assert_eq!(found["parts"], Value::Null);
    let text = compare(&stand, &[&stand.place.url(), &position]).ok().stdout;
    assert!(text.contains("+") && text.contains("aren't compared"), "{text}");
    let unknown = compare(&stand, &[&stand.place.url(), "2001-01-01T00:00:00Z", "--json"]);
    assert_ne!(unknown.json()["error"]["code"], Value::Null, "{unknown}");
}

#[test]
fn two_points_of_lmdb() {
    let stand = Stand::folder(Random::from_env().seed());
    let (config, environment) = (stand.path("seawall.yml"), stand.path("shard"));
    let text = format!(
        "databases:\n  - path: {}\n    name: shard\n    vault: {}\n    lmdb: {{ instance: a, create: true, map-size: 64MiB }}\n",
        environment.display(),
        stand.path("store").display()
    );
    fs::write(&config, text).unwrap();
    let once = || run("seawall", stand.command().args(["replicate", "--once", "--config"]).arg(&config)).ok();
    put(&environment, "one", "1");
    once();
    let store = stand.path("store");
    let before = run("seawall", stand.command().args(["timeline", "--json"]).arg(&store)).ok().json();
    let position = before["spans"][0]["to"]["position"].as_str().unwrap().to_owned();
    let same = compare(&stand, &[store.to_str().unwrap(), &position, "--json"]).ok().json();
    assert!(same["parts"].as_array().unwrap().iter().all(|part| part["change"] == "same"), "{same:#}");
    put(&environment, "two", &"2".repeat(1000));
    once();
    let found = compare(&stand, &[store.to_str().unwrap(), &position, "--json"]).ok().json();
    let changed: Vec<_> =
        found["parts"].as_array().unwrap().iter().filter(|part| part["change"] == "changed").collect();
    assert_eq!(changed.len(), 1, "{found:#}");
    let size = |at: &str| changed[0][at]["bytes"].as_u64().unwrap();
    assert!(size("after") >= size("before") + 1000, "{found:#}");
}

#[test]
fn postgres_two_sets() {
    let stand = Stand::folder(Random::from_env().seed());
    let server = shop(200);
    let (from, to) = (server.url("shop"), stand.place.url());
    let set = || stand.seawall(&["backup", &from, &to, "--json"]).ok().json()["id"].clone();
    let first = set().as_str().unwrap().to_owned();
    server.sql("shop", "INSERT INTO small (big) SELECT 1 FROM generate_series(1, 7); CREATE TABLE late (id int)");
    server.sql("shop", "CREATE TABLE other AS SELECT 1 AS one");
    let second = set().as_str().unwrap().to_owned();
    let found = compare(&stand, &[&to, &first, &second, "--json"]).ok().json();
    let small = part(&found, "public.small");
    assert_eq!((&small["change"], &small["before"]["rows"]), (&json!("changed"), &json!(100)), "{small:#}");
    assert_eq!(small["after"]["rows"], 107);
    assert_eq!(part(&found, "public.big")["change"], "same-size");
    let other = part(&found, "public.other");
    assert_eq!(
        (&other["change"], &other["after"]["rows"], &other["before"]),
        (&json!("added"), &json!(1), &Value::Null)
    );
    let text = compare(&stand, &[&to, &first]).ok().stdout;
    assert!(text.contains("+7") && !text.contains("public.big"), "{text}");
    let back = compare(&stand, &[&to, &second, &first, "--json"]).ok().json();
    assert_eq!(part(&back, "public.other")["change"], "removed");
}
