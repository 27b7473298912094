//! What our own format takes and refuses.

use std::path::Path;
use std::time::Duration;

use super::*;
use crate::config::{ConfigError, Surroundings};
use seawall_engines::ServerSource;
use seawall_engines::sqlite::{Retention, Upkeep};

fn parse(text: &str) -> Result<Config, ConfigError> {
    let variables = [("DATA", "/data"), ("KEY", "hush")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let environment = variables.into_iter().collect();
    let surroundings = Surroundings { environment: &environment, directory: Path::new("/srv"), pid: 42 };
    Config::parse(Path::new("/etc/seawall.yml"), text, &surroundings, true)
}

#[test]
fn leases_for_all_and_for_one() {
    let leases = |text: &str| {
        let text = format!("vault: /v\n{text}databases:\n  - path: /a\n  - {{ path: /b, lease: {{ ttl: 2m }} }}\n");
        parse(&text).map(|config| {
            let seconds = |database: &DatabaseConfig| database.lease.map(|ttl| ttl.as_secs());
            (
                config.databases.iter().map(seconds).collect::<Vec<_>>(),
                config.registering.lease.map(|ttl| ttl.as_secs()),
            )
        })
    };
    assert_eq!(leases("").ok(), Some((vec![None, Some(120)], None)));
    assert_eq!(leases("lease: {}\n").ok(), Some((vec![Some(30), Some(120)], Some(30))));
    assert_eq!(leases("lease: { ttl: 10s }\n").ok(), Some((vec![Some(10), Some(120)], Some(10))));
    assert_eq!(leases("lease: { enabled: false }\n").ok(), Some((vec![None, Some(120)], None)));
    for wrong in ["lease: { ttl: 2s }\n", "lease: { ttl: 30 }\n", "lease: { time: 30s }\n", "lease: 30s\n"] {
        assert!(leases(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn proofs_for_all_and_for_one() {
    let proofs = |top: &str, own: &str| {
        let server = "postgresql://me@db/shop";
        let text = format!(
            "vault: /v\n{top}databases:\n  - path: /a\n  - {{ path: /b, prove: {{ schedule: 0 6 * * *, level: bytes }} }}\n  \
             - {{ path: /c, prove: false }}\n  - {{ url: '{server}', schedule: 0 3 * * *{own} }}\n"
        );
        parse(&text).map(|config| {
            let shown = |database: &DatabaseConfig| {
                let prove = database.prove.as_ref();
                prove.map(|prove| format!("{} {}", prove.schedule(&database.name).text(), prove.level.name()))
            };
            let all: Vec<_> = config.databases.iter().map(|one| shown(one).unwrap_or_default()).collect();
            (all, config.registering.prove.is_some())
        })
    };
    let own = "0 6 * * * bytes";
    for (top, of_server, expected) in [
        ("", "", (["", own, "", ""], false)),
        ("prove: { schedule: 0 5 * * * }\n", "", (["0 5 * * * content", own, "", "0 5 * * * content"], true)),
        // What only files have is no mistake at the top.
        (
            "prove: { schedule: 0 5 * * *, level: engine, scratch: /big }\n",
            ", prove: { schedule: 0 7 * * *, level: content }",
            (["0 5 * * * engine", own, "", "0 7 * * * content"], true),
        ),
        ("prove: false\n", "", (["", own, "", ""], false)),
    ] {
        let found = proofs(top, of_server).map_err(|error| error.to_string());
        assert_eq!(found, Ok((expected.0.map(str::to_owned).to_vec(), expected.1)), "{top}{of_server}");
    }
    for (top, of_server) in [
        ("prove: { level: engine }\n", ""),
        ("prove: { schedule: never }\n", ""),
        ("", ", prove: { schedule: 0 7 * * *, level: engine }"),
        ("", ", prove: { schedule: 0 7 * * *, fresh: 30d }"),
    ] {
        assert!(proofs(top, of_server).is_err(), "{top}{of_server}");
    }
}

#[test]
fn everything_there_is() {
    let config = parse(
        "vault: s3://bucket/all
s3:
  endpoint: https://minio.example
  region: eu-1
  access-key-id: ${KEY}
  secret-access-key: ${KEY}
shutdown-timeout: 10s
sweep-interval: 2m
upload-limit: 5MiB
logging: { level: debug, type: json }
exec: myserver --port 80
databases:
  - path: ${DATA}/app.db
  - path: other.db
    name: second
    vault: file:///backup/second
    state-dir: state
    sync-interval: 500ms
    busy-timeout: 2s
    checkpoint-pages: 500
    wal-limit: 64MiB
    restore-if-missing: true
  - path: /third.db
    vault: s3://elsewhere/third
    s3: { region: us-2 }
",
    )
    .expect("a configuration");
    assert_eq!(config.shutdown_timeout.as_secs(), 10);
    assert_eq!(config.sweep_interval.map(|span| span.as_secs()), Some(120));
    assert_eq!(config.upload_limit, Some(5 << 20));
    assert_eq!(config.log_level, Some(crate::Level::Debug));
    assert_eq!(config.log_format, Some(crate::LogFormat::Json));
    assert!(config.exec.is_some() && config.warnings.is_empty());

    let [first, second, third] = config.databases.as_slice() else { panic!("{config:?}") };
    assert_eq!((first.name.as_str(), first.path()), ("app", Some(Path::new("/data/app.db"))));
    assert_eq!(first.vault.to_string(), "s3://bucket/all/app?endpoint=https://minio.example");
    assert_eq!(
        (first.sqlite().expect("a file").sync_interval, first.sqlite().expect("a file").state_dir.as_ref()),
        (None, None)
    );
    assert_eq!((second.name.as_str(), second.path()), ("second", Some(Path::new("/etc/other.db"))));
    assert_eq!(second.vault.to_string(), "file:///backup/second");
    assert_eq!(second.sqlite().expect("a file").state_dir.as_deref(), Some(Path::new("/etc/state")));
    assert_eq!(second.sqlite().expect("a file").sync_interval.map(|span| span.as_millis()), Some(500));
    assert_eq!(second.sqlite().expect("a file").busy_timeout.map(|span| span.as_secs()), Some(2));
    assert_eq!(
        (second.sqlite().expect("a file").checkpoint_pages, second.sqlite().expect("a file").wal_limit),
        (Some(500), Some(64 << 20))
    );
    assert!(second.restore_if_missing && !first.restore_if_missing);
    let VaultUrl::S3(s3) = &third.vault else { panic!("{third:?}") };
    assert_eq!(s3.region.as_deref(), Some("us-2"), "its own setting wins");
    assert_eq!(s3.endpoint.as_deref(), Some("https://minio.example"), "the rest is common");
    assert!(!format!("{config:?}").contains("hush"), "secrets are not shown");
}

#[test]
fn what_is_wrong_has_a_code_and_a_line() {
    for (text, code, line) in [
        ("databases: [\n", "config.syntax", 2),
        ("databases:\n  - path: /a.db\n    vault: /v\n    vault: /w\n", "config.syntax", 4),
        ("", "config.missing-key", 1),
        ("databases:\n  - path: /a.db\n", "config.missing-key", 2),
        ("vault: /v\ndatabases:\n  - name: a\n", "config.missing-key", 3),
        ("vault: /v\ndatabases:\n  - path: /a.db\n    pth: x\n", "config.unknown-key", 4),
        ("vault: /v\ndatabases: []\nexpiry: 5d\n", "config.unknown-key", 3),
        ("vault: /v\ndatabases: []\nlogging:\n  colour: red\n", "config.unknown-key", 4),
        ("vault: /v\ndatabases: []\nlogging: { level: loud }\n", "config.value", 3),
        ("vault: /v\ndatabases: { path: /a.db }\n", "config.value", 2),
        ("vault: /v\ndatabases:\n  - path: /a.db\n    sync-interval: 5\n", "config.value", 4),
        ("vault: /v\ndatabases:\n  - path: /a.db\n    sync-interval: 0s\n", "config.value", 4),
        ("vault: /v\ndatabases:\n  - path: /a.db\n    wal-limit: 64\n", "config.value", 4),
        ("vault: /v\ndatabases:\n  - path: /a.db\n    checkpoint-pages: -1\n", "config.value", 4),
        ("vault: /v\ndatabases:\n  - path: /a.db\n    name: a/b\n", "config.value", 4),
        ("vault: /v\ndatabases:\n  - path: /a.db\n  - path: /x/../a.db\n    name: b\n", "config.duplicate", 4),
        ("vault: /v\ndatabases:\n  - path: /a.db\n  - path: /b/a.db\n", "config.duplicate", 4),
        ("databases:\n  - {path: /a.db, vault: /v}\n  - {path: /b.db, vault: /v}\n", "config.duplicate", 3),
        ("vault: ${NOWHERE}/v\ndatabases: []\n", "config.undefined-variable", 1),
        ("databases:\n  - path: /a.db\n    vault: gopher://x\n", "config.vault", 3),
        ("databases:\n  - path: /a.db\n    vault: s3://b/a\n    s3: { region: x, part-size: 1B }\n", "config.vault", 4),
        ("databases:\n  - path: /a.db\n    vault: /v\n    s3: { region: x }\n", "config.contradiction", 4),
        ("databases:\n  - path: /a.db\n    vault: /v\n    sftp: { user: x }\n", "config.contradiction", 4),
        ("databases:\n  - path: /a.db\n    vault: sftp://h/v\n    sftp: { usr: x }\n", "config.unknown-key", 4),
        ("databases:\n  - path: /a.db\n    vault: s3://b/a\n    s3: { regoin: x }\n", "config.unknown-key", 4),
        ("vault: /v\ndatabases: []\nexec: \"open 'quote\"\n", "config.value", 3),
    ] {
        let failure = seawall_core::Failure::from(parse(text).expect_err(text));
        assert_eq!(failure.code, code, "{text}: {failure}");
        assert_eq!(failure.object, format!("/etc/seawall.yml:{line}"), "{text}: {failure}");
        assert!(!failure.next.is_empty());
    }
}

#[test]
fn an_unknown_key_is_told_with_the_nearest_known_one() {
    let text = "vault: /v\ndatabases:\n  - path: /a.db\n    sync-intervall: 2s\n";
    let failure = seawall_core::Failure::from(parse(text).expect_err("an unknown key"));
    assert!(failure.cause.contains("\"sync-intervall\""), "{failure}");
    assert_eq!(failure.next, "did you mean \"sync-interval\"?");
}

#[test]
fn a_folder_of_databases() {
    let config = parse(
        "vault: s3://bucket/all\ndatabases:\n  - dir: /data/tenants\n  - dir: more\n    name: others\n    pattern: '*.sqlite'\n    \
         recursive: true\n    watch: false\n    state-dir: /state\n    vault: s3://bucket/elsewhere\n",
    );
    let config = config.expect("a configuration");
    let [first, second] = config.directories.as_slice() else { panic!("{config:?}") };
    assert!(first.watch && !first.recursive && !second.watch && second.recursive);
    let database = first.database(Path::new("a.db")).expect("a database");
    assert_eq!(database.name, "tenants/a.db");
    assert_eq!(database.vault.to_string(), "s3://bucket/all/tenants/a.db");
    assert_eq!(config.find("tenants/a.db", Path::new("/")), Some(database));
    let database = second.database(Path::new("x/b.sqlite")).expect("a database");
    assert_eq!(database.path(), Some(Path::new("/etc/more/x/b.sqlite")));
    assert_eq!(database.vault.to_string(), "s3://bucket/elsewhere/x/b.sqlite");
    assert_eq!(database.sqlite().expect("a file").state_dir.as_deref(), Some(Path::new("/state/x/b.sqlite-seawall")));
}

#[test]
fn what_is_wrong_with_a_folder() {
    for (text, code, line) in [
        ("vault: /v\ndatabases:\n  - dir: /d\n    path: /a.db\n", "config.contradiction", 3),
        ("vault: /v\ndatabases:\n  - path: /a.db\n    watch: true\n", "config.contradiction", 4),
        ("vault: /v\ndatabases:\n  - dir: /d\n    restore-if-missing: true\n", "config.contradiction", 3),
        ("vault: /v\ndatabases:\n  - dir: /d\n    pattern: '['\n", "config.value", 4),
        ("vault: /v\ndatabases:\n  - dir: /d\n  - dir: /d\n    name: e\n", "config.duplicate", 4),
        ("vault: /v\ndatabases:\n  - dir: /d\n  - dir: /e/d\n", "config.duplicate", 4),
        ("vault: /v\ndatabases: []\nmcp-addr: :9091\n", "config.unsafe", 3),
        ("vault: /v\ndatabases: []\nsocket: { pth: /s }\n", "config.unknown-key", 3),
    ] {
        let failure = seawall_core::Failure::from(parse(text).expect_err(text));
        assert_eq!((failure.code, failure.object), (code, format!("/etc/seawall.yml:{line}")), "{text}");
    }
}

#[test]
fn levels_and_retention() {
    let text = |top: &str, own: &str| format!("vault: /v\n{top}\ndatabases:\n  - path: /a.db\n{own}");
    let upkeep = |top: &str, own: &str| {
        parse(&text(top, own)).map(|config| Upkeep::clone(&config.databases[0].sqlite().expect("a file").upkeep))
    };
    assert_eq!(upkeep("", ""), Ok(Upkeep::default()));
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    let all = "levels: [{ interval: 1m, keep: 2h }, { interval: 1h, keep: forever }]\nsnapshot: { interval: 1h }\n\
               l0-retention: 10m\nverify-compaction: true\nvalidation: { interval: 6h, active: off }\n\
               retention: { enabled: true, keep: 30d, minimum: 2, hourly: 24, daily: 7, weekly: 4, monthly: 12, \
               yearly: 3, grace: 1h }\n";
    let set = upkeep(all, "").expect("a configuration");
    let registering = parse(&text(all, "")).expect("a configuration").registering;
    let registered = registering.database(Path::new("/later.db"), None, None).expect("a database");
    assert_eq!(*registered.sqlite().expect("a file").upkeep, set, "what is registered later is kept as what is listed");
    assert_eq!(set.levels.iter().map(|level| level.keep).collect::<Vec<_>>(), [Some(hours(2)), None]);
    assert_eq!((set.base_interval, set.validation_interval), (Some(hours(1)), Some(hours(6))));
    assert_eq!(set.sight_interval, None);
    let expected = Retention {
        enabled: true,
        l0: Some(Duration::from_secs(600)),
        window: Some(hours(720)),
        minimum: 2,
        hourly: 24,
        daily: 7,
        weekly: 4,
        monthly: 12,
        yearly: 3,
        grace: hours(1),
        ..Retention::default()
    };
    assert_eq!((set.retention, set.verify_compaction), (expected, true));
    let own = upkeep(all, "    retention: { keep: forever }\n").expect("a configuration").retention;
    assert_eq!((own.window, own.minimum), (None, 2), "what isn't said is as at the top");
    for (wrong, code) in [
        ("levels: []", "config.contradiction"),
        ("levels: [{ interval: 1m }, { interval: 1m }]", "config.contradiction"),
        ("levels: [{ keep: 1m }]", "config.missing-key"),
        ("levels: [{ interval: 0s }]", "config.value"),
        ("snapshot: { interval: 2h }\nretention: { hourly: 3 }", "config.contradiction"),
        ("snapshot: { interval: off }\nretention: { yearly: 3 }", "config.contradiction"),
        ("retention: { minimum: 0 }", "config.value"),
        ("retention: { kept: 1d }", "config.unknown-key"),
        ("validation: { interval: often }", "config.value"),
    ] {
        let refused = upkeep(wrong, "").map_err(|error| seawall_core::Failure::from(error).code);
        assert_eq!(refused.err(), Some(code), "{wrong}");
    }
    assert!(upkeep("levels: []\nsnapshot: { interval: off }", "").is_ok());
}

#[test]
fn a_database_of_a_server() {
    let text = "vault: s3://bucket/all\nretention: { keep: 30d, daily: 7 }\ndatabases:\n  - url: postgresql://app@db/shop\n    \
        schedule: 0 3 * * *\n    backup: { jobs: 4, memory: 64MiB, compression: lz4, copy: binary, passfile: secret/pgpass }\n  \
        - { name: cluster, url: 'postgresql://app@db/', schedule: 'H 4 * * 7 Europe/Vienna', retention: { minimum: 3 }, \
            backup: { role-passwords: true, exclude-databases: [a, 'b c'] } }\n";
    let config = parse(text).expect("a configuration");
    let [shop, cluster] = &config.databases[..] else { panic!("{config:?}") };
    assert_eq!(
        (shop.name.as_str(), shop.engine.name(), shop.vault.to_string().as_str()),
        ("shop", "postgres", "s3://bucket/all/shop")
    );
    let EngineConfig::Server(server) = &shop.engine else { panic!("{shop:?}") };
    let ServerSource::Postgres(target, options) = &server.source else { panic!("{shop:?}") };
    assert_eq!((target.to_string().as_str(), server.schedule.text()), ("postgresql://app@db:5432/shop", "0 3 * * *"));
    assert_eq!((options.limits.jobs, options.limits.memory, options.codec.to_string().as_str()), (4, 64 << 20, "lz4"));
    assert_eq!(options.copy, "binary".parse().expect("a format"));
    assert_eq!(
        config.find("postgresql://app@db:5432/shop", Path::new("/")).map(|found| found.name),
        Some("shop".into())
    );
    let EngineConfig::Server(server) = &cluster.engine else { panic!("{cluster:?}") };
    let ServerSource::Postgres(target, options) = &server.source else { panic!("{cluster:?}") };
    assert!(options.role_passwords && target.database.is_empty());
    assert_eq!(options.excluded, ["a", "b c"]);
    assert_eq!((server.retention.thinning.minimum, server.retention.thinning.daily), (3, 7));
    let item = |more: &str| format!("vault: /v\ndatabases:\n  - url: postgresql://app@db/shop\n{more}");
    let daily = |more: &str| item(&format!("    schedule: 0 3 * * *\n{more}"));
    for (text, code) in [
        (item(""), "config.missing-key"),
        (item("    schedule: often\n"), "config.value"),
        (item("    schedule: 0 0 31 2 *\n"), "config.value"),
        (daily("    path: /a.db\n"), "config.contradiction"),
        (daily("    dir: /d\n"), "config.contradiction"),
        (daily("    wal-limit: 1GiB\n"), "config.contradiction"),
        (daily("    restore-if-missing: true\n"), "config.contradiction"),
        (daily("    lease: {}\n"), "config.contradiction"),
        (daily("    lmdb: {}\n"), "config.contradiction"),
        (daily("    levels: [{ interval: 1h }]\n"), "config.contradiction"),
        (daily("    l0-retention: 1h\n"), "config.contradiction"),
        (daily("    backup: { jobs: 0 }\n"), "config.value"),
        (daily("    backup: { profile: fast }\n"), "config.value"),
        (daily("    backup: { jobs: 64, memory: 32MiB }\n"), "config.contradiction"),
        (daily("    backup: { profile: turbo, jobs: 64, memory: 32MiB }\n"), "config.contradiction"),
        (daily("    backup: { role-passwords: true }\n"), "config.contradiction"),
        (daily("    backup: { copy: csv }\n"), "config.value"),
        (daily("    backup: { format: custom, copy: binary }\n"), "config.contradiction"),
        (daily("    backup: { job: 1 }\n"), "config.unknown-key"),
        (daily("  - { name: other, url: 'postgresql://app@db/shop', schedule: 0 3 * * * }\n"), "config.duplicate"),
        (
            "vault: /v\ndatabases:\n  - { url: 'postgresql://app@db/', schedule: 0 3 * * * }\n".to_owned(),
            "config.value",
        ),
        ("vault: /v\ndatabases:\n  - { url: 'oracle://app@db/x', schedule: 0 3 * * * }\n".to_owned(), "config.vault"),
        ("vault: /v\ndatabases:\n  - { path: /a.db, schedule: 0 3 * * * }\n".to_owned(), "config.unknown-key"),
    ] {
        let error = parse(&text).expect_err(&text);
        assert_eq!(seawall_core::Failure::from(error.clone()).code, code, "{text}: {error}");
    }
}

#[test]
fn an_lmdb_environment() {
    let text = "vault: s3://bucket/all\ndatabases:\n  - path: /d/shard\n    vault: s3://bucket/lmdb\n    lmdb:\n      \
        instance: ns1\n      schema-tracks-changes: true\n      no-subdir: true\n      map-size: 1GiB\n      max-map-size: 8GiB\n      \
        one-transaction: true\n      snapshot-interval: 0\n      keep-deletions: 100d\n      cleanup: { must-keep: 7d }\n  \
        - { path: /d/other, vault: s3://bucket/lmdb, lmdb: {} }\n  - { path: /d/third, lmdb: {} }\n";
    let config = parse(text).expect("a configuration");
    let [shard, other, third] = &config.databases[..] else { panic!("{config:?}") };
    let EngineConfig::Lmdb(lmdb) = &shard.engine else { panic!("{shard:?}") };
    assert_eq!((lmdb.instance.as_deref(), lmdb.schema.native, lmdb.pace.whole), (Some("ns1"), true, true));
    assert_eq!((lmdb.options.map_size, lmdb.options.largest_map), (Some(1 << 30), Some(8 << 30)));
    assert_eq!(lmdb.force, Some(std::time::Duration::ZERO));
    assert_eq!(lmdb.sweep.map(|sweep| sweep.retention.as_secs()), Some(100 * 86_400));
    assert_eq!(lmdb.clean.map(|rules| rules.keep.as_secs()), Some(7 * 86_400));
    assert_eq!((shard.engine.name(), shard.data_file()), ("lmdb", Some("/d/shard".into())));
    assert_eq!(other.data_file(), Some("/d/other/data.mdb".into()));
    assert_eq!(
        (other.vault.to_string().as_str(), third.vault.to_string().as_str()),
        ("s3://bucket/lmdb", "s3://bucket/all/third")
    );
    let item = |more: &str| format!("databases:\n  - path: /d/shard\n    vault: /v\n{more}");
    for (text, code) in [
        (item("    lmdb: {}\n    wal-limit: 1GiB\n"), "config.contradiction"),
        (item("    lmdb: {}\n    retention: { keep: 3d }\n"), "config.contradiction"),
        (item("    name: a.b\n    lmdb: {}\n"), "config.value"),
        (item("    lmdb: { map_size: 1GiB }\n"), "config.unknown-key"),
        (item("    lmdb: { schema-tracks-changes: true, dupsort-hack: true }\n"), "config.contradiction"),
        (item("    lmdb: {}\n  - { path: /e/shard, vault: /v, lmdb: {} }\n"), "config.duplicate"),
    ] {
        let error = parse(&text).expect_err(&text);
        assert_eq!(seawall_core::Failure::from(error.clone()).code, code, "{text}: {error}");
    }
}

#[test]
fn several_vaults_for_all_and_for_one() {
    let places = |text: &str| {
        parse(text).map(|config| {
            let shown = |database: &DatabaseConfig| {
                let beside = database.beside.iter().map(|beside| (beside.url.to_string(), beside.retention.is_some()));
                (database.vault.to_string(), beside.collect::<Vec<_>>())
            };
            config.databases.iter().map(shown).collect::<Vec<_>>()
        })
    };
    let of = |first: &str, beside: &[(&str, bool)]| {
        (first.to_owned(), beside.iter().map(|(url, own)| ((*url).to_owned(), *own)).collect::<Vec<_>>())
    };
    let all = "vaults: [/v, { url: s3://bucket/all, s3: { region: eu-1 }, retention: { keep: 90d } }]\ndatabases:\n";
    let found = places(&format!(
        "{all}  - path: /a.db\n  - {{ path: /b.db, vaults: [/w, /x] }}\n  - {{ path: /c.db, vault: /y }}\n"
    ));
    assert_eq!(
        found.expect("a configuration"),
        [
            of("file:///v/a", &[("s3://bucket/all/a", true)]),
            of("file:///w", &[("file:///x", false)]),
            of("file:///y", &[]),
        ]
    );
    for wrong in [
        "vault: /v\nvaults: [/w]\ndatabases: [{ path: /a.db }]\n",
        "databases: [{ path: /a.db, vault: /v, vaults: [/w] }]\n",
        "databases: [{ path: /a.db, vaults: [] }]\n",
        "databases: [{ path: /a.db, vaults: [{ s3: {} }] }]\n",
        "databases: [{ path: /a.db, vaults: [/v, /v] }]\n",
        "databases: [{ path: /a.db, vaults: [/v, { url: /w, s3: { region: x } }] }]\n",
        "databases: [{ path: /a.db, vaults: [{ url: /v, retention: { keep: 1d } }, /w] }]\n",
        "databases: [{ path: /a, vaults: [/v, /w], lmdb: {} }]\n",
    ] {
        assert!(places(wrong).is_err(), "{wrong}");
    }
}
