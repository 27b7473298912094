//! `seawall explain`: what a code means.

use std::fs;

use seawall_tests::{Stand, run};
use serde_json::{Value, json};

fn explain(stand: &Stand, args: &[&str]) -> seawall_tests::Output {
    run("seawall", stand.command().arg("explain").args(args))
}

#[test]
fn one_code() {
    let stand = Stand::folder(0);
    let text = explain(&stand, &["sqlite.two-writers"]).ok().stdout;
    for part in
        ["sqlite.two-writers (SQLite)\n", "\nmeans: ", "\nnext: ", "\nkind: conflict, exit code 1\n", "\nretry: "]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let item = explain(&stand, &["error[vault.timeout]:", "--json"]).ok().json();
    assert_eq!((&item["code"], &item["part"]), (&json!("vault.timeout"), &json!("Vaults")));
    assert_eq!(item["kinds"], json!([{ "kind": "unavailable", "exit_code": 1, "retry": true }]));
    let item = explain(&stand, &["alarm.disk", "--json"]).ok().json();
    let severity = |name| json!({ "kind": name, "exit_code": null, "retry": null });
    assert_eq!(item["kinds"], json!([severity("critical"), severity("warning")]));
    let item = explain(&stand, &["command.timeout", "--json"]).ok().json();
    assert_eq!(item["kinds"], json!([{ "kind": "interrupted", "exit_code": 75, "retry": true }]));
}

#[test]
fn many_codes_and_none() {
    let stand = Stand::folder(0);
    let all = explain(&stand, &["--json"]).ok().json();
    let all = all.as_array().unwrap();
    let filled = |item: &Value, key: &str| item[key].as_str().is_some_and(|text| !text.is_empty());
    assert!(all.iter().all(|item| ["code", "part", "means", "next"].iter().all(|key| filled(item, key))));
    let of_vaults = all.iter().filter(|item| item["code"].as_str().unwrap().starts_with("vault.")).count();
    let listed = explain(&stand, &["vault."]).ok().stdout;
    assert_eq!(listed.lines().count(), 1 + of_vaults, "{listed}");
    assert!(of_vaults > 20 && all.len() > 380, "{of_vaults} of {}", all.len());

    let output = explain(&stand, &["sqlite.two-wirters"]).exits(4);
    assert!(
        output.stderr.contains("[command.unknown-code]") && output.stderr.contains("sqlite.two-writers"),
        "{output}"
    );
    let output = explain(&stand, &["no such thing", "--json"]).exits(4);
    assert_eq!(output.json()["error"]["code"], "command.unknown-code");
}

/// The code, kind and exit code that a failing command has are those that are explained.
#[test]
fn what_is_explained_is_what_happens() {
    let stand = Stand::folder(0);
    fs::write(
        stand.path("text.db"),
        "not a database, and long enough to have a header of one hundred bytes. ".repeat(9),
    )
    .unwrap();
    fs::write(stand.path("seawall.yml"), "databases: [").unwrap();
    fs::create_dir(stand.path("empty")).unwrap();
    for line in [
        "restore ./missing -o back.db",
        "restore ./empty -o back.db",
        "restore ./empty --config none.yml -o back.db",
        "replicate text.db ./vault --once",
        "replicate app.db gopher://host/vault --once",
        "config check --config seawall.yml",
        "config check --config missing.yml",
        "timeline ./empty --as-stored-at yesterday-ish",
        "vault probe gopher://host",
        "ltx info missing.ltx",
        "explain no.code",
        "sync app --socket missing.sock",
        "frobnicate",
    ] {
        let output = run("seawall", stand.command().args(line.split(' ')).arg("--json"));
        let document = output.json();
        // `replicate` tells the error of each database.
        let error = document["error"].as_object().or_else(|| document["databases"][0]["error"].as_object());
        let error = error.unwrap_or_else(|| panic!("{line}: {output}"));
        let item = explain(&stand, &[error["code"].as_str().unwrap(), "--json"]).ok().json();
        let kinds = item["kinds"].as_array().unwrap();
        let kind = kinds.iter().find(|kind| kind["kind"] == error["kind"]);
        let exit = kind.and_then(|kind| kind["exit_code"].as_i64());
        assert_eq!(exit, Some(output.code().into()), "{line}: {output}{item:#}");
    }
}
