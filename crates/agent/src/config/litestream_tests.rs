//! Every key of a `litestream.yml`: what it does here, or why it is refused.

use std::path::Path;
use std::time::Duration;

use seawall_vault::VaultUrl;

use crate::config::{Config, ConfigError, Surroundings};

fn parse_with(text: &str, variables: &[(&str, &str)], expand: bool) -> Result<Config, ConfigError> {
    let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let surroundings = Surroundings { environment: &environment, directory: Path::new("/srv"), pid: 42 };
    Config::parse(Path::new("/etc/litestream.yml"), text, &surroundings, expand)
}

fn parse(text: &str) -> Result<Config, ConfigError> {
    parse_with(text, &[("HOME", "/home/me")], true)
}

/// What a key at one of the three places leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It is taken, silently.
    Taken,
    /// It is taken with a warning.
    Warned,
    /// It is refused with this code.
    Refused(&'static str),
}
use Verdict::{Refused, Taken, Warned};

const UNSUPPORTED: Verdict = Refused("config.unsupported");
const VALUE: Verdict = Refused("config.value");
const CONTRADICTION: Verdict = Refused("config.contradiction");

#[track_caller]
fn judge(text: &str, expected: Verdict) {
    let verdict = match parse(text) {
        Ok(config) if config.warnings.is_empty() => Taken,
        Ok(_) => Warned,
        Err(error) => Refused(seawall_core::Failure::from(error).code),
    };
    assert_eq!(verdict, expected, "{text}");
}

#[test]
fn keys_at_the_top() {
    for (key, verdict) in [
        ("addr: ':9090'", Taken),
        ("addr: 'x'", VALUE),
        ("addr: ''", Taken),
        ("addr:", Taken),
        ("socket: { enabled: false, path: /s, permissions: 0600 }", Taken),
        ("socket: { enabled: true }", Taken),
        ("socket: { enabled: true, mode: 0600 }", Refused("config.unknown-key")),
        ("socket: { path: /s }", Taken),
        ("levels: [{ interval: 5m }]", Taken),
        ("levels: [{ interval: 0s }]", VALUE),
        ("snapshot: { interval: 24h }", Taken),
        ("snapshot: { retention: 24h }", Taken),
        ("snapshot: { retention: 0s }", VALUE),
        ("validation: { interval: 1h }", Taken),
        ("validation: { interval: 0s }", Taken),
        ("l0-retention: 5m", Taken),
        ("l0-retention: 0", Taken),
        ("l0-retention-check-interval: 15s", Taken),
        ("verify-compaction: true", Taken),
        ("verify-compaction: false", Taken),
        ("retention: { enabled: false }", Taken),
        ("retention: { enabled: true }", Taken),
        ("heartbeat-url: https://beat.example", Taken),
        ("heartbeat-url: beat.example", VALUE),
        ("heartbeat-url: ''", Taken),
        ("heartbeat-interval: 5m", Taken),
        ("exec: myserver", Taken),
        ("logging: { level: DEBUG, type: json, stderr: true, source: false }", Taken),
        ("logging: { type: text }", Taken),
        ("logging: { type: pretty }", Taken),
        ("logging: { type: loud }", VALUE),
        ("logging: { stderr: false }", Warned),
        ("logging: { source: true }", UNSUPPORTED),
        ("logging: { colour: red }", Warned),
        ("mcp-addr: ':3001'", Refused("config.unsafe")),
        ("mcp-addr: ''", Taken),
        ("shutdown-sync-timeout: 10s", Taken),
        ("shutdown-sync-interval: 500ms", Taken),
        ("shutdown-timeout: 10s", Taken),
        ("access-key-id: a\nsecret-access-key: b", Taken),
        ("sync-interval: 5s", Taken),
        ("colour: red", Warned),
    ] {
        judge(&format!("{key}\ndbs:\n  - path: /a.db\n    replica: {{ path: /r }}\n"), verdict);
    }
}

#[test]
fn keys_of_a_database() {
    for (key, verdict) in [
        ("dir: /data", CONTRADICTION),
        ("pattern: '*.db'", CONTRADICTION),
        ("recursive: true", CONTRADICTION),
        ("watch: true", CONTRADICTION),
        ("meta-dir: /m", CONTRADICTION),
        ("meta-path: /m", Taken),
        ("monitor-interval: 1s", Taken),
        ("monitor-interval: often", VALUE),
        ("checkpoint-interval: 1m", Warned),
        ("checkpoint-interval: 0s", Taken),
        ("busy-timeout: 1s", Taken),
        ("min-checkpoint-page-count: 1000", Taken),
        ("min-checkpoint-page-count: 0", VALUE),
        ("truncate-page-n: 500000", Warned),
        ("max-sync-wal-bytes: 67108864", Taken),
        ("snapshot: { interval: 24h }", Taken),
        ("restore-if-db-not-exists: true", Taken),
        ("replicas: [{ path: /other }]", Refused("config.contradiction")),
        ("colour: red", Warned),
    ] {
        judge(&format!("dbs:\n  - path: /a.db\n    replica: {{ path: /r }}\n    {key}\n"), verdict);
    }
}

#[test]
fn keys_of_a_folder() {
    for (keys, verdict) in [
        ("dir: /data\n    pattern: '*.db'", Taken),
        ("dir: /data\n    pattern: '*.db'\n    recursive: true\n    watch: true\n    meta-dir: /m", Taken),
        ("dir: /data\n    pattern: '*.db'\n    meta-path: /m", Taken),
        ("dir: /data\n    pattern: '*.db'\n    meta-path: /m\n    meta-dir: /n", CONTRADICTION),
        ("dir: /data\n    pattern: '*.db'\n    restore-if-db-not-exists: true", Warned),
        ("dir: /data\n    pattern: '[a'", VALUE),
        ("dir: /data\n    watch: true", Refused("config.missing-key")),
    ] {
        judge(&format!("dbs:\n  - {keys}\n    replica: {{ path: /r }}\n"), verdict);
    }
}

#[test]
fn a_folder_gives_each_database_what_litestream_gives_it() {
    let config = parse(
        "dbs:\n  - dir: ~/data\n    pattern: '*.db'\n    recursive: true\n    meta-dir: ~/meta\n    busy-timeout: 3s\n    \
         replica: { url: 's3://b/p', sync-interval: 2s }\n",
    );
    let config = config.expect("a configuration");
    let [folder] = config.directories.as_slice() else { panic!("{config:?}") };
    assert!(!folder.watch && config.databases.is_empty());
    let database = folder.database(Path::new("eu/a.db")).expect("a database");
    assert_eq!(database.name, "/home/me/data/eu/a.db");
    assert_eq!(database.vault.to_string(), "s3://b/p/eu/a.db");
    assert_eq!(
        database.sqlite().expect("a file").state_dir.as_deref(),
        Some(Path::new("/home/me/meta/eu/a.db-litestream/seawall"))
    );
    assert_eq!(database.sqlite().expect("a file").busy_timeout, Some(Duration::from_secs(3)));
    assert_eq!(database.sqlite().expect("a file").sync_interval, Some(Duration::from_secs(2)));
    assert_eq!(config.find("/home/me/data/eu/a.db", Path::new("/srv")), Some(database));
    assert_eq!(config.find("/home/me/data/eu/a.txt", Path::new("/srv")), None);
}

#[test]
fn services_have_litestreams_meaning() {
    let text =
        "addr: ':9090'\nsocket: { enabled: true }\nmcp-addr: ':3001'\nheartbeat-url: https://h.example/x\ndbs: []\n";
    let config = parse_with(text, &[("SEAWALL_MCP_TOKEN", "0123456789abcdef")], true).expect("a configuration");
    let services = config.services;
    assert_eq!(services.metrics.map(|address| address.to_string()).as_deref(), Some("[::]:9090"));
    assert_eq!(
        services.socket.map(|socket| (socket.path, socket.permissions)),
        Some(("/var/run/litestream.sock".into(), 0o600))
    );
    assert_eq!(services.mcp.map(|mcp| mcp.actions), Some(false));
    assert_eq!(services.heartbeat.map(|beat| beat.interval), Some(Duration::from_secs(300)));
}

#[test]
fn keys_of_a_replica() {
    const MISSING: Verdict = Refused("config.missing-key");
    for (replica, verdict) in [
        ("{ path: /r }", Taken),
        ("{ type: file, path: /r }", Taken),
        ("{ url: 'file:///r' }", Taken),
        ("{ url: 's3://b/p' }", Taken),
        ("{ type: s3, bucket: b, path: p }", Taken),
        ("{ type: s3, bucket: b, path: p, name: old, sync-interval: 5s, validation-interval: 1h }", Taken),
        ("{ type: s3, bucket: b, path: p, max-sync-ltx-files: 256, auto-recover: true }", Taken),
        ("{ url: 's3://b/p', region: eu-1, endpoint: 'https://h', force-path-style: true }", Taken),
        ("{ url: 's3://b/p', access-key-id: a, secret-access-key: b, skip-verify: false }", Taken),
        ("{ url: 's3://b/p', sign-payload: true, sign-accept-encoding: true, require-content-md5: true }", Taken),
        ("{ url: 's3://b/p', put-object-content-md5: true, storage-class: X, part-size: 5MiB, concurrency: 5 }", Taken),
        ("{ url: 's3://b/p', sse-kms-key-id: k }", Taken),
        ("{ url: 's3://b/p', part-size: 1KB }", Refused("config.vault")),
        ("{ url: 's3://b/p', access-key-id: a }", Refused("config.vault")),
        ("{ url: 's3://b' }", Refused("config.vault")),
        ("{ sync-interval: 0s, path: /r }", VALUE),
        ("{ url: 'elsewhere' }", VALUE),
        ("{ type: tape, path: /r }", VALUE),
        ("{}", MISSING),
        ("{ type: s3, path: p }", MISSING),
        ("{ url: 's3://b/p', path: p }", CONTRADICTION),
        ("{ url: 's3://b/p', bucket: b }", CONTRADICTION),
        ("{ type: file, url: 's3://b/p' }", CONTRADICTION),
        ("{ url: 'gs://b/p' }", Taken),
        ("{ url: 'gs://b' }", Taken),
        ("{ url: 'abs://acct@c/p' }", Taken),
        ("{ url: 'abs://c/p', account-name: acct, account-key: eA==, endpoint: 'https://h' }", Taken),
        ("{ type: abs, bucket: c, path: p, account-name: acct, sas-token: 'sv=1' }", Taken),
        ("{ type: abs, bucket: C, path: p }", Refused("config.vault")),
        ("{ url: 'sftp://me:pw@h:2222/p' }", Taken),
        ("{ url: 'sftp://h/p', user: me, key-path: /k, concurrent-writes: false }", Taken),
        ("{ type: sftp, host: 'h:2222', user: me, password: pw, path: p }", Taken),
        ("{ type: sftp, host: h, user: me, path: /p, host-key: 'no key' }", Refused("config.vault")),
        ("{ type: sftp, host: h, path: /p }", MISSING),
        ("{ type: sftp, user: me, path: /p }", MISSING),
        ("{ type: sftp, host: h, user: me }", MISSING),
        ("{ url: 'sftp://me@h/p', host: g }", CONTRADICTION),
        ("{ url: 'sftp://me@h/p', path: q }", CONTRADICTION),
        ("{ url: 'oss://bkt/p' }", Taken),
        ("{ url: 'oss://bkt.oss-cn-beijing.aliyuncs.com/p' }", Taken),
        ("{ url: 'oss://bkt' }", Refused("config.vault")),
        ("{ type: oss, bucket: bkt, path: p, region: cn-beijing, access-key-id: a, secret-access-key: b }", Taken),
        ("{ type: oss, bucket: bkt, path: p, endpoint: 'https://h', part-size: 5MiB, concurrency: 3 }", Taken),
        ("{ type: gs, bucket: b }", Taken),
        ("{ type: gs, bucket: b, path: p }", Taken),
        ("{ url: 'b2://b/p' }", VALUE),
        ("{ url: 'webdavs://u:p@h/p' }", Taken),
        ("{ url: 'webdav://h/p', webdav-username: u, webdav-password: p }", Taken),
        (
            "{ type: webdav, webdav-url: 'https://h.example/dav', webdav-username: u, webdav-password: p, path: p }",
            Taken,
        ),
        ("{ type: webdav, webdav-url: 'https://h.example/dav' }", Taken),
        ("{ type: webdav, path: p }", MISSING),
        ("{ type: webdav, webdav-url: 'http://h.example', path: p, webdav-username: u }", Taken),
        ("{ url: 'webdav://h/p', webdav-url: 'https://other' }", Refused("config.vault")),
        ("{ url: 'nats://h/b' }", Taken),
        ("{ url: 'nats://h:4222', bucket: b, username: u, password: p, tls: true, timeout: 10s }", Taken),
        ("{ type: nats, bucket: b, jwt: j, seed: s, root-cas: [/a.pem, /b.pem] }", Taken),
        (
            "{ url: 'nats://h/b', max-reconnects: -1, reconnect-wait: 2s, client-cert: c, client-key: k, creds: c }",
            Taken,
        ),
        ("{ url: 'nats://h/b', client-cert: c }", Refused("config.vault")),
        ("{ url: 'nats://h/b', bucket: b }", CONTRADICTION),
        ("{ type: nats, path: p }", MISSING),
        ("{ path: /r, age: { identities: [x] } }", UNSUPPORTED),
        ("{ path: /r, colour: red }", Warned),
    ] {
        judge(&format!("dbs:\n  - path: /a.db\n    replica: {replica}\n"), verdict);
    }
}

#[test]
fn one_replica_each() {
    judge("dbs:\n  - path: /a.db\n", Refused("config.missing-key"));
    judge("dbs:\n  - path: /a.db\n    replicas: []\n", Refused("config.missing-key"));
    judge("dbs:\n  - path: /a.db\n    replicas: [{ path: /r }]\n", Taken);
    judge("dbs:\n  - path: /a.db\n    replicas: [{ path: /r }, { path: /s }]\n", Taken);
    judge("dbs:\n  - replica: { path: /r }\n", Refused("config.missing-key"));
    let two = |other: &str| format!("dbs:\n  - {{path: /a.db, replica: {{path: /r}}}}\n  - {{{other}}}\n");
    judge(&two("path: /./a.db, replica: {path: /s}"), Refused("config.duplicate"));
    judge(&two("path: /b.db, replica: {path: /r}"), Refused("config.duplicate"));
    judge(&two("path: /b.db, replica: {path: /s}"), Taken);
    judge("dbs:\n", Taken);
}

#[test]
fn what_is_taken_has_its_effect() {
    let config = parse(
        "access-key-id: $ID\nsecret-access-key: ${SECRET}\nregion: eu-1\nsync-interval: 9s\nshutdown-timeout: 20s\n\
         shutdown-sync-timeout: 7s\nlogging: { level: WARN, type: json }\nexec: server\ndbs:\n  \
         - path: sqlite3://app.db\n    meta-path: ~/meta\n    busy-timeout: 3s\n    min-checkpoint-page-count: 50\n    \
         restore-if-db-not-exists: true\n    replica: { url: 's3://b/p', sync-interval: 2s }\n  \
         - path: ~/b.db\n    replica: { type: s3, bucket: c, path: /q/, region: us-2 }\n  \
         - path: /c.db\n    replica: { path: ~/r }\n",
    );
    // The variables are not set: half of a pair of credentials would be an error, none is not.
    let config = config.expect("a configuration");
    assert_eq!(config.shutdown_timeout, Duration::from_secs(20));
    assert_eq!(config.log_level, Some(crate::Level::Warn));
    assert_eq!(config.log_format, Some(crate::LogFormat::Json));
    assert!(config.exec.is_some());
    let [first, second, third] = config.databases.as_slice() else { panic!("{config:?}") };
    assert_eq!(first.path(), Some(Path::new("/srv/app.db")));
    assert_eq!(first.sqlite().expect("a file").state_dir.as_deref(), Some(Path::new("/home/me/meta/seawall")));
    assert_eq!(first.sqlite().expect("a file").busy_timeout, Some(Duration::from_secs(3)));
    assert_eq!(first.sqlite().expect("a file").checkpoint_pages, Some(50));
    assert_eq!(first.sqlite().expect("a file").sync_interval, Some(Duration::from_secs(2)));
    assert_eq!(first.shutdown_timeout, Some(Duration::from_secs(7)));
    assert!(first.restore_if_missing);
    assert_eq!(second.path(), Some(Path::new("/home/me/b.db")));
    assert_eq!(second.sqlite().expect("a file").sync_interval, Some(Duration::from_secs(9)), "the default for all");
    assert_eq!(second.vault.to_string(), "s3://c/q");
    let region = |vault: &VaultUrl| match vault {
        VaultUrl::S3(s3) => s3.region.clone(),
        _ => None,
    };
    assert_eq!(region(&first.vault).as_deref(), Some("eu-1"));
    assert_eq!(region(&second.vault).as_deref(), Some("us-2"));
    assert_eq!(third.vault.to_string(), "file:///home/me/r");
}

#[test]
fn variables() {
    let text = "dbs:\n  - path: $DB\n    replica:\n      url: s3://b/${DB}-$PID\n";
    let config = parse_with(text, &[("DB", "x")], true).expect("a configuration");
    assert_eq!(config.databases[0].path(), Some(Path::new("/srv/x")));
    assert_eq!(config.databases[0].vault.to_string(), "s3://b/x-42");
    let config = parse_with(text, &[("DB", "x")], false).expect("a configuration");
    assert_eq!(config.databases[0].path(), Some(Path::new("/srv/$DB")));
    // A variable may hold a whole value with what YAML needs around it, as with Litestream.
    let text = "dbs:\n  - path: /a.db\n    replica: $REPLICA\n";
    let config = parse_with(text, &[("REPLICA", "{ path: /r }")], true).expect("a configuration");
    assert_eq!(config.databases[0].vault.to_string(), "file:///r");
}

#[test]
fn litestreams_own_variables_fill_in() {
    let text = "dbs:\n  - path: /a.db\n    replica: { url: 's3://b/p' }\n";
    let ours = [
        ("LITESTREAM_ACCESS_KEY_ID", "id"),
        ("LITESTREAM_SECRET_ACCESS_KEY", "hush"),
        ("LITESTREAM_S3_ENDPOINT", "https://h"),
    ];
    for (more, keys) in [(None, true), (Some(("AWS_ACCESS_KEY_ID", "x")), false)] {
        let variables: Vec<_> = ours.into_iter().chain(more).collect();
        let config = parse_with(text, &variables, true).expect("a configuration");
        let VaultUrl::S3(s3) = &config.databases[0].vault else { panic!("{config:?}") };
        assert_eq!(
            s3.access_key_id.is_some() && s3.secret_access_key.is_some(),
            keys,
            "AWS's own variables come first"
        );
        assert_eq!(s3.endpoint.as_deref(), Some("https://h"));
        assert!(!format!("{config:?}").contains("hush"));
    }
}

#[test]
fn unknown_keys_are_warnings_with_line_and_nearest_key() {
    let config = parse("dbs:\n  - path: /a.db\n    replica:\n      path: /r\n      sync-intervall: 1s\n");
    let warnings = config.expect("a configuration").warnings;
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert_eq!(warning.line, 5);
    assert!(warning.text.contains("sync-intervall") && warning.text.contains("\"sync-interval\""), "{warning:?}");
}

#[test]
fn levels_and_retention_as_litestream_has_them() {
    let database = "dbs:\n  - path: /a.db\n    replica: { path: /r }\n";
    let upkeep = |top: &str| {
        parse(&format!("{top}\n{database}")).expect("a configuration").databases[0]
            .sqlite()
            .expect("a file")
            .upkeep
            .clone()
    };
    let seconds = |spans: &[u64]| spans.iter().map(|span| Duration::from_secs(*span)).collect::<Vec<_>>();
    let intervals = |top: &str| upkeep(top).levels.iter().map(|level| level.interval).collect::<Vec<_>>();
    let day = Duration::from_secs(24 * 3600);
    assert_eq!(intervals(""), seconds(&[30, 300, 3600]));
    assert_eq!(intervals("levels: [{ interval: 1m }, { interval: 10m }]"), seconds(&[60, 600]));
    let plain = upkeep("");
    assert_eq!((plain.base_interval, plain.retention.window), (Some(day), Some(day)));
    assert_eq!((plain.retention.l0, plain.retention.enabled), (Some(Duration::from_secs(300)), true));
    assert_eq!((plain.verify_compaction, plain.validation_interval), (false, Some(day)));
    assert_eq!(upkeep("validation: { interval: 0s }").validation_interval, None);
    let set = upkeep(
        "snapshot: { interval: 6h, retention: 72h }\nl0-retention: 0\nl0-retention-check-interval: 30s\n\
         verify-compaction: true\nvalidation: { interval: 1h }\nretention: { enabled: false }",
    );
    assert_eq!((set.base_interval, set.retention.window), (Some(day / 4), Some(3 * day)));
    assert_eq!((set.retention.l0, set.retention.enabled), (None, false));
    assert_eq!(set.retention.check_interval, Duration::from_secs(30));
    assert_eq!((set.verify_compaction, set.validation_interval), (true, Some(day / 24)));
    let own = parse("dbs:\n  - path: /a.db\n    snapshot: { retention: 48h }\n    replica: { path: /r }\n");
    assert_eq!(
        own.expect("a configuration").databases[0].sqlite().expect("a file").upkeep.retention.window,
        Some(2 * day)
    );
}
