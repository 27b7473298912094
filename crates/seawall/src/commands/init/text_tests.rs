use std::path::{Path, PathBuf};

use seawall_agent::Environment;
use seawall_agent::config::{Config, EngineConfig, Surroundings};

use super::*;

fn sqlite(path: &str) -> What {
    What::Sqlite { path: path.to_owned(), wal: true }
}

fn things(all: impl IntoIterator<Item = What>) -> Vec<Thing> {
    let programs = || BTreeSet::from(["app".to_owned(), "a\nvault: /tmp/evil # ${X}".to_owned()]);
    all.into_iter().map(|what| Thing { what, programs: programs() }).collect()
}

fn answers(taken: impl IntoIterator<Item = usize>) -> Answers {
    Answers { taken: taken.into_iter().collect(), vault: "/srv/vault".to_owned(), keep: "30d".to_owned() }
}

fn read(text: &str) -> Config {
    let environment = Environment::default();
    let surroundings = Surroundings { environment: &environment, directory: Path::new("/"), pid: 1 };
    Config::parse(Path::new("/srv/seawall.yml"), text, &surroundings, true)
        .unwrap_or_else(|error| panic!("{error:?}\n{text}"))
}

fn paths(config: &Config) -> Vec<PathBuf> {
    config.databases.iter().filter_map(|database| database.path().map(Path::to_owned)).collect()
}

#[test]
fn a_plain_one_as_it_is_written() {
    let found = things([sqlite("/srv/app.db")]);
    let found = [Thing { programs: BTreeSet::from(["gunicorn".to_owned()]), ..found[0].clone() }];
    let expected = "# Written by `seawall init`. `seawall config check` shows how this file is understood;\n\
        # docs/configuration.md has every setting.\n\
        \n\
        # Everything is kept here, each database below its name.\n\
        # A folder on this machine is lost with the machine. s3://bucket/prefix or sftp://host/path isn't.\n\
        vault: /srv/vault\n\
        \n\
        # You can restore to every moment of this time back.\n\
        retention:\n  keep: 30d\n\
        \n\
        databases:\n\
        \x20 # SQLite, open in gunicorn.\n\
        \x20 - path: /srv/app.db\n\
        \x20   name: app\n";
    assert_eq!(text(&found, &answers([0])), expected);
}

#[test]
fn hostile_names_are_read_back_as_they_were() {
    let names = [
        "/d/with \"quotes\" and 'others'.db",
        "/d/new\nline: x\n- y.db",
        "/d/ leading and trailing ",
        "/d/colon: value # comment.db",
        "/d/${HOME} $HOME $${X} ${.db",
        "/d/tab\t and \u{1b}[2J and \u{7f}\u{85}.db",
        "/d/back\\slash\\n.db",
        "/d/\u{feff}bom\u{2028}\u{202e}rtl\u{200b}.db",
        "/d/\u{1f418}\u{10ffff}\u{fffe}.db",
        "/d/{a: b}, [c], &x *y !z %w `v` @u |t >s",
        "/d/- item",
        "/d/.db",
        "/d/---",
        "/d/null",
        "/d/\u{e4}\u{f6}\u{fc}.db",
        "/d/it's \"${both}\"\r\n.db",
    ];
    let found = things(names.map(sqlite));
    let text = text(&found, &answers(0..names.len()));
    let config = read(&text);
    assert_eq!(paths(&config), names.map(PathBuf::from), "{text}");
    assert_eq!(config.databases.len(), names.len());
    assert!(config.databases.iter().all(|database| database.vault.to_string().starts_with("file:///srv/vault/")));

    // A vault with such a name, and an environment. No vault has a control character in its name.
    for name in names.into_iter().filter(|name| !name.contains(char::is_control)) {
        let found = things([What::Lmdb { path: name.to_owned(), folder: false }]);
        let vault = format!("/v{name}");
        let config = read(&super::text(&found, &Answers { vault: vault.clone(), ..answers([0]) }));
        assert_eq!(paths(&config), [PathBuf::from(name)]);
        let name = &config.databases[0].name;
        assert_eq!(config.databases[0].vault.to_string(), format!("file://{vault}/{name}"));
    }
}

#[test]
fn what_is_not_taken_can_be_taken_later() {
    let found = things([
        sqlite("/srv/app.db"),
        What::Sqlite { path: "/srv/\nold.db".to_owned(), wal: false },
        What::Lmdb { path: "/srv/env".to_owned(), folder: true },
        What::Postgres { folder: "/var/run/postgresql".to_owned(), port: 5433 },
        What::Postgres { folder: "/tmp/a b".to_owned(), port: 5433 },
        What::Mysql { socket: "/run/mysqld/mysqld.sock".to_owned() },
    ]);
    let only = text(&found, &answers([0]));
    assert_eq!(paths(&read(&only)), [PathBuf::from("/srv/app.db")]);
    let all = only.replace("\n  #-", "\n  -").replace("\n  #  ", "\n    ");
    let all = read(&all);
    let taken = read(&text(&found, &answers(0..found.len())));
    for config in [&all, &taken] {
        let sources: Vec<String> = config.databases.iter().map(|database| database.source().to_string()).collect();
        assert_eq!(
            sources,
            [
                "/srv/app.db",
                "/srv/\nold.db",
                "/srv/env",
                "postgresql://backup@%2Fvar%2Frun%2Fpostgresql:5433/",
                "postgresql://backup@%2Ftmp%2Fa%20b:5433/",
                "mysql://backup@localhost/?socket=/run/mysqld/mysqld.sock",
            ]
        );
        assert!(matches!(config.databases[2].engine, EngineConfig::Lmdb(_)));
    }
    let names: Vec<&str> = taken.databases.iter().map(|database| database.name.as_str()).collect();
    assert_eq!(names, ["app", "old", "env", "postgres-5433", "postgres-5433-2", "mysql"]);
}

#[test]
fn each_has_a_name_of_its_own() {
    let long = format!("/d/{}.db", "\u{1f}\u{e4}".repeat(200));
    let lmdb = |path: &str| What::Lmdb { path: path.to_owned(), folder: true };
    let mut names = BTreeSet::new();
    for (what, expected) in [
        (sqlite("/srv/shop/app.db"), "app"),
        (sqlite("/srv/blog/app.db"), "blog-app"),
        (sqlite("/old/blog/app.db"), "blog-app-2"),
        (sqlite("/app.sqlite3"), "app-2"),
        (sqlite("/srv/.hidden.db"), "hidden"),
        (sqlite("/srv/..."), "sqlite"),
        (sqlite("/srv/a b/c?d.db"), "c-d"),
        (sqlite("/srv/no-extension"), "no-extension"),
        (sqlite("/srv/v1.2.db"), "v1.2"),
        (lmdb("/srv/pdns.d__x"), "pdns-d--x"),
        (lmdb("/"), "lmdb"),
    ] {
        assert_eq!(name(&what, &mut names), expected, "{what:?}");
    }
    assert!(name(&sqlite(&long), &mut names).len() <= LONGEST_NAME);
}
