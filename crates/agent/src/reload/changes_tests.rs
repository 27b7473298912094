//! Tables of what a new configuration changes.

use std::path::PathBuf;
use std::time::Duration;

use seawall_vault::{Environment, VaultUrl};

use super::*;
use crate::config::{Config, Pattern, Surroundings};

/// A configuration as it is read from a file, with these environment variables.
fn config(text: &str, variables: &[(&str, &str)]) -> Config {
    let environment: Environment =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let surroundings = Surroundings { environment: &environment, directory: Path::new("/srv"), pid: 1 };
    Config::parse(Path::new("/etc/seawall.yml"), text, &surroundings, true).expect(text)
}

fn held(config: &Config) -> Vec<Held> {
    let held = |config: &DatabaseConfig| Held { config: config.clone(), origin: Origin::Configured };
    config.databases.iter().map(held).collect()
}

fn wanted<'a>(config: &'a Config, registered: &'a [DatabaseConfig]) -> Wanted<'a> {
    Wanted { configured: &config.databases, registered, directories: &config.directories }
}

fn names<'a>(all: impl IntoIterator<Item = &'a Held>) -> String {
    all.into_iter().map(|one| one.config.name.as_str()).collect::<Vec<_>>().join(" ")
}

/// The names of what was added, removed, changed and left alone.
fn told(changes: &Changes) -> [String; 4] {
    let removed: Vec<_> = changes.removed.iter().map(|config| config.name.as_str()).collect();
    [names(&changes.added), removed.join(" "), names(&changes.changed), names(&changes.same)]
}

#[test]
fn what_comes_goes_changes_and_stays() {
    const TWO: &str = "vault: /v\ndatabases:\n  - path: /a.db\n  - path: /b.db\n";
    for (new, variables, expected) in [
        (TWO, &[][..], ["", "", "", "a b"]),
        // The place in the file, comments and the order say nothing.
        ("# new\n\ndatabases:\n  - path: /b.db\n  - path: /a.db\nvault: /v\n", &[], ["", "", "", "a b"]),
        // The same in other words.
        (
            "databases: [{ path: /a.db, vault: /v/a }, { path: /./b.db, vault: 'file:///v/b' }]",
            &[],
            ["", "", "", "a b"],
        ),
        ("vault: /v\ndatabases: [{ path: /a.db }]", &[], ["", "b", "", "a"]),
        ("vault: /v\ndatabases: [{ path: /a.db }, { path: /b.db }, { path: /c.db }]", &[], ["c", "", "", "a b"]),
        ("vault: /v\ndatabases: [{ path: /a.db }, { path: /b.db, sync-interval: 5s }]", &[], ["", "", "b", "a"]),
        ("vault: /v\ndatabases: [{ path: /a.db }, { path: /b.db, state-dir: /s }]", &[], ["", "", "b", "a"]),
        ("vault: /v\ndatabases: [{ path: /a.db }, { path: /b.db, name: c }]", &[], ["", "", "c", "a"]),
        ("vault: /v\ndatabases: [{ path: /a.db }, { path: /b.db, lease: {} }]", &[], ["", "", "b", "a"]),
        // Another file is another database, whatever its name.
        ("vault: /v\ndatabases: [{ path: /a.db }, { path: /new/b.db, name: b }]", &[], ["b", "b", "", "a"]),
        // What is said for all counts for each that says nothing of it.
        ("vault: /w\ndatabases: [{ path: /a.db, vault: /v/a }, { path: /b.db }]", &[], ["", "", "b", "a"]),
        ("vault: /v\nretention: { keep: 3d }\ndatabases: [{ path: /a.db }, { path: /b.db }]", &[], ["", "", "a b", ""]),
        (
            "vault: /v\nretention: { keep: 3d }\ndatabases: [{ path: /a.db, retention: { keep: 7d } }, { path: /b.db }]",
            &[],
            ["", "", "b", "a"],
        ),
        ("vault: /v\nshutdown-timeout: 9s\ndatabases: [{ path: /a.db }, { path: /b.db }]", &[], ["", "", "a b", ""]),
        // What is of the process alone touches no database.
        (
            "vault: /v\nmetrics-addr: ':9'\nlogging: { level: debug }\ndatabases: [{ path: /a.db }, { path: /b.db }]",
            &[],
            ["", "", "", "a b"],
        ),
        ("vault: '${V}'\ndatabases: [{ path: /a.db }, { path: /b.db }]", &[("V", "/v")], ["", "", "", "a b"]),
        ("vault: '${V}'\ndatabases: [{ path: /a.db }, { path: /b.db }]", &[("V", "/w")], ["", "", "a b", ""]),
    ] {
        let (old, new_config) = (config(TWO, &[]), config(new, variables));
        assert_eq!(told(&changes(&held(&old), &wanted(&new_config, &[]))), expected, "{new}");
    }
}

#[test]
fn settings_of_vaults_and_secrets_count() {
    let text = |more: &str| {
        format!("databases: [{{ path: /a.db, vault: 's3://b/a', s3: {{ region: eu, access-key-id: k{more} }} }}]")
    };
    let old = config(&text(", secret-access-key: hush"), &[]);
    for (more, changed) in [
        (", secret-access-key: hush", false),
        (", secret-access-key: other", true),
        (", secret-access-key: hush, part-size: 8MiB", true),
    ] {
        let new = config(&text(more), &[]);
        assert_eq!(!changes(&held(&old), &wanted(&new, &[])).is_empty(), changed, "{more}");
    }
}

fn database(path: &str, vault: &str) -> DatabaseConfig {
    DatabaseConfig::new(path.trim_start_matches('/').to_owned(), path.into(), VaultUrl::parse(vault).expect("a place"))
}

fn folder(dir: &str, pattern: &str, recursive: bool) -> DirectoryConfig {
    DirectoryConfig {
        dir: PathBuf::from(dir),
        pattern: Pattern::parse(pattern).expect("a pattern"),
        recursive,
        watch: true,
        prefix: Some("t".into()),
        state: None,
        template: database("/t", "/v/t"),
    }
}

#[test]
fn what_was_registered_or_found_is_not_lost() {
    let found = |config: DatabaseConfig| Held { config, origin: Origin::Found };
    let in_folder = folder("/t", "*.db", false);
    let one = found(in_folder.database(Path::new("a.db")).expect("a database"));
    let registered = Held { config: database("/r.db", "/v/r"), origin: Origin::Registered };
    let held = [one.clone(), registered.clone()];
    let slower = DatabaseConfig { lease: Some(Duration::from_secs(9)), ..registered.config.clone() };
    let own = database("/t/a.db", "/v/own");
    let (same, slower, own) = (vec![registered.config.clone()], vec![slower], vec![own]);
    let all = vec![in_folder];
    let by = |dir: &str, pattern: &str, recursive: bool| vec![folder(dir, pattern, recursive)];
    for (configured, registered, directories, expected) in [
        (vec![], same.clone(), all.clone(), ["", "", "", "t/a.db r.db"]),
        // Nothing names the folder any more, or its pattern means others.
        (vec![], same.clone(), vec![], ["", "t/a.db", "", "r.db"]),
        (vec![], same.clone(), by("/t", "*.sqlite", false), ["", "t/a.db", "", "r.db"]),
        (vec![], same.clone(), by("/", "*.db", false), ["", "t/a.db", "", "r.db"]),
        // Another folder holds it.
        (vec![], same.clone(), by("/", "*.db", true), ["", "", "t/t/a.db", "r.db"]),
        // A registered one gets what the configuration says of all.
        (vec![], slower.clone(), all.clone(), ["", "", "r.db", "t/a.db"]),
        // An item of its own wins over the folder and over the registration.
        (own, same.clone(), all.clone(), ["", "", "t/a.db", "r.db"]),
        (same, slower, all.clone(), ["", "", "", "t/a.db r.db"]),
        // Unregistered: the registry doesn't have it any more.
        (vec![], vec![], all, ["", "r.db", "", "t/a.db"]),
    ] {
        let wanted = Wanted { configured: &configured, registered: &registered, directories: &directories };
        assert_eq!(told(&changes(&held, &wanted)), expected, "{configured:?} {registered:?} {directories:?}");
    }
    let configured = [registered.config.clone()];
    let wanted = Wanted { configured: &configured, registered: &[], directories: &[] };
    let origins: Vec<_> = changes(&held, &wanted).same.into_iter().map(|one| one.origin).collect();
    assert_eq!(origins, [Origin::Configured]);
}

#[test]
fn an_unregistered_one_that_is_still_named_comes_back() {
    let new = config("vault: /v\ndatabases: [{ path: /a.db }]", &[]);
    assert_eq!(told(&changes(&[], &wanted(&new, &[]))), ["a", "", "", ""]);
}

#[test]
fn what_must_go_before_another_comes() {
    let pair = |first: &str, second: &str| {
        let item = |path: &str, name: &str| format!("{{ path: {path}, name: {name} }}");
        config(&format!("vault: /v\ndatabases: [{}, {}]", item("/a.db", first), item("/b.db", second)), &[])
    };
    let old = held(&pair("a", "b"));
    for (first, second, alone, together) in [
        ("c", "b", "c", ""),
        ("c", "d", "c d", ""),
        // An exchange, and a name that becomes free at the same time.
        ("b", "a", "", "b a"),
        ("b", "c", "c", "b"),
    ] {
        let changes = changes(&old, &wanted(&pair(first, second), &[]));
        let (one_by_one, all_at_once) = changes.split(&old);
        assert_eq!((names(&one_by_one), names(&all_at_once)), (alone.into(), together.into()), "{first} {second}");
        assert_eq!(changes.clash(), None);
    }
}

#[test]
fn two_with_one_name_or_place_are_refused() {
    let new = config("vault: /v\ndatabases: [{ path: /a.db }]", &[]);
    let registered = |name: &str, vault: &str| DatabaseConfig { name: name.into(), ..database("/r.db", vault) };
    for (other, clashes) in [
        (registered("r", "/v/r"), None),
        (registered("a", "/v/r"), Some("the name is already that of a")),
        (registered("r", "/v/a"), Some("the place in a vault is already that of r")),
    ] {
        let held = [Held { config: other.clone(), origin: Origin::Registered }];
        let others = [other];
        let failure = changes(&held, &wanted(&new, &others)).clash();
        let told = failure.as_ref().map(|failure| failure.cause.as_str());
        assert_eq!(told, clashes.map(str::to_owned).as_deref());
        assert!(failure.is_none_or(|failure| failure.code == "agent.duplicate"));
    }
}
