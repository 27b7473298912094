//! Continuous protection beside servers and vaults that are harder than the usual ones: a server that takes only encrypted
//! connections, ICU collations, a server that is killed while a base is made, a bucket. Every test ends in a recovered server whose
//! rows are compared with what was recorded.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use seawall_tests::{S3Server, wait};

use crate::continuous::{CONTINUOUS, Site};
use crate::postgres::server::{Server, is_root};
use crate::postgres_cluster::FUNCTIONS;
use crate::wal::{LATE, SUMS, VERSIONS};

const BOUNDED: &str = "max_slot_wal_keep_size = '1GB'\n";

/// What the test itself uses goes by the socket. The network is for encrypted connections with a password alone.
const HBA: &str = "local all all trust\nlocal replication all trust\nhostnossl all all all reject\nhostnossl replication all all reject\n\
                   hostssl all all all scram-sha-256\nhostssl replication all all scram-sha-256\n";

/// Writes a file of the server's user, which only that user can read.
fn private(file: &Path, content: &[u8]) {
    std::fs::write(file, content).expect("written");
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).expect("private");
    if is_root() {
        assert!(Command::new("chown").arg("nobody:nogroup").arg(file).status().expect("chown").success());
    }
}

#[test]
fn a_server_that_takes_only_encrypted_connections() {
    let golden = S3Server::authority();
    let golden = golden.parent().expect("a folder");
    let prepare = |folder: &Path| {
        for (name, own) in [("server.pem", "server.crt"), ("server.key", "server.key")] {
            private(&folder.join("data").join(own), &std::fs::read(golden.join(name)).expect("read"));
        }
        private(&folder.join("data/pg_hba.conf"), HBA.as_bytes());
        format!("wal_level = replica\nmax_wal_senders = 4\nlisten_addresses = '127.0.0.1'\nssl = on\n{BOUNDED}")
    };
    // Between the question for a free port and the start another process may take it. The version 18 of the tests has no TLS.
    let free = || TcpListener::bind("127.0.0.1:0").expect("bound").local_addr().expect("bound").port();
    let mut started = Err(String::new());
    for _ in 0..10 {
        started = started.or_else(|_| Server::start_on(15, free(), prepare));
    }
    let server = started.expect("the server starts");
    server.sql(
        "postgres",
        "CREATE TABLE t (tx int, n int, filler text); CREATE ROLE seawall LOGIN REPLICATION PASSWORD 'over tls'",
    );
    server.sql("postgres", &format!("GRANT EXECUTE ON FUNCTION {} TO seawall", FUNCTIONS.join(", ")));
    let authority = server.folder().join("authority.pem");
    private(&authority, &std::fs::read(S3Server::authority()).expect("read"));
    let root = authority.display().to_string().replace('/', "%2F");
    let url = |mode: &str| {
        format!("postgresql://seawall@127.0.0.1:{}/postgres?sslmode={mode}&sslrootcert={root}", server.port)
    };
    let (sound, plain) = (url("verify-ca"), url("disable"));
    let vault = server.folder_of_its_own("vault");
    let mut site = Site::at(server, &sound, &vault, CONTINUOUS, &[("PGPASSWORD", "over tls".to_owned())]);
    site.commit(3);
    let mut process = site.protect();
    let status = site.until_protected();
    assert!(status["error"].is_null(), "{status}");
    // Every connection is encrypted, that of the log too.
    let open = "SELECT count(*) FILTER (WHERE s.ssl), count(*) FILTER (WHERE NOT s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a \
                USING (pid) WHERE a.usename = 'seawall'";
    assert_eq!(site.server.sql("postgres", open), "1|0");
    site.commit(20);
    site.seawall(&["sync", "shop", "--wait"]).ok();
    let sums = site.sums();
    process.stop().ok();
    // Without encryption the server refuses, and that is told.
    let text = std::fs::read_to_string(&site.config).expect("a configuration");
    std::fs::write(&site.config, text.replace(&sound, &plain)).expect("written");
    let mut process = site.protect();
    let refused = || site.status().filter(|status| status["error"]["code"] == "postgres.login");
    wait::until("the refusal", LATE, refused);
    process.stop();
    std::fs::write(&site.config, text).expect("written");
    site.server.kill();
    assert_eq!(site.recovered(&[]).sql("postgres", SUMS), sums);
}

#[test]
fn a_cluster_with_icu_collations() {
    // The version 18 of the tests has no ICU.
    let mut site = Site::start(15, BOUNDED, CONTINUOUS);
    let words = "CREATE DATABASE words TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'de-u-kn' LOCALE 'C.UTF-8' ENCODING 'UTF8'";
    site.server.sql("postgres", words);
    let made = "CREATE COLLATION numbers (provider = icu, locale = 'en-u-kn-ks-level2', deterministic = false);
                CREATE TABLE w (a text, b text COLLATE numbers UNIQUE);
                INSERT INTO w SELECT 'ä' || n, 'Item ' || n FROM generate_series(1, 3000) n; CREATE INDEX w_a ON w(a)";
    site.server.sql("words", made);
    let mut process = site.protect();
    site.until_protected();
    site.server.sql("words", "INSERT INTO w SELECT 'z' || n, 'item x' || n FROM generate_series(1, 500) n");
    site.commit(5);
    site.seawall(&["sync", "shop", "--wait"]).ok();
    // The order is that of the indexes, and a text that differs in case alone is found.
    let content = "SET enable_seqscan = off; SET enable_sort = off; SELECT md5(string_agg(a, ',' ORDER BY a)), \
                   md5(string_agg(b, ',' ORDER BY b)), count(*) FILTER (WHERE b = 'ITEM 77') FROM w";
    let (sums, words) = (site.sums(), site.server.sql("words", content));
    assert!(words.ends_with("|1"), "{words}");
    process.kill_9();
    site.server.kill();
    let recovered = site.recovered(&[]);
    assert_eq!((recovered.sql("postgres", SUMS), recovered.sql("words", content)), (sums, words));
    let other = "SELECT count(*) FROM pg_collation WHERE collversion <> pg_collation_actual_version(oid)";
    assert_eq!(recovered.sql("words", other), "0");
    recovered.sql("words", "CREATE EXTENSION amcheck");
    let check = "SELECT bt_index_check(oid, true) FROM pg_class WHERE relname IN ('w_a', 'w_b_key')";
    recovered.sql("words", check);
}

#[test]
fn a_server_that_is_killed_during_a_base_gets_a_whole_one_when_it_is_back() {
    let mut site =
        Site::start(15, BOUNDED, "    continuous: { base: \"0 2 * * SUN\" }\n    backup: { jobs: 1, memory: 64MiB }\n");
    let text = std::fs::read_to_string(&site.config).expect("a configuration");
    // Slow enough to be met in the middle.
    std::fs::write(&site.config, format!("upload-limit: 2MiB\n{text}")).expect("written");
    site.server.sql(
        "postgres",
        "CREATE TABLE big AS SELECT i, string_agg(md5(random()::text || j), '') f FROM generate_series(1, 20000) i, \
         generate_series(1, 30) j GROUP BY i; CHECKPOINT",
    );
    site.commit(3);
    let mut process = site.protect();
    let packs = || {
        let all = crate::wal_receive::objects(&site.vault, ".zst");
        // A segment has 24 digits, a range a hyphen, and a pack eight digits.
        all.into_iter().filter(|name| name.len() == "00000000.zst".len()).count()
    };
    wait::until("the first packs", LATE, || (packs() > 0).then_some(()));
    site.server.kill_9();
    assert_eq!(site.bases(), 0);
    let told = || site.status().filter(|status| status["phase"] == "failing");
    wait::until("the failure", LATE, told);
    site.server.start_again();
    site.commit(3);
    // The backup that was begun is forgotten with its server, and another base is made by itself.
    wait::until("a whole base", LATE, || (site.bases() == 1).then_some(()));
    site.until_protected();
    site.commit(3);
    site.seawall(&["sync", "shop", "--wait"]).ok();
    let big = "SELECT count(*), sum(hashtextextended(big::text, 0)) FROM big";
    let (sums, rows) = (site.sums(), site.server.sql("postgres", big));
    process.kill_9();
    site.server.kill();
    let recovered = site.recovered(&[]);
    assert_eq!((recovered.sql("postgres", SUMS), recovered.sql("postgres", big)), (sums, rows));
}

#[test]
fn a_cluster_whose_vault_is_a_bucket() {
    for major in VERSIONS {
        let store = S3Server::start();
        let vault = format!("s3://{}/main?endpoint={}&region=us-east-1", S3Server::BUCKET, store.endpoint());
        let server = Site::server(major, BOUNDED);
        let url = server.url_as("seawall", "postgres");
        let environment =
            [("AWS_ACCESS_KEY_ID", S3Server::ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", S3Server::SECRET_KEY)];
        let environment = environment.map(|(name, value)| (name, value.to_owned()));
        let mut site = Site::at(server, &url, &vault, CONTINUOUS, &environment);
        site.commit(3);
        let mut process = site.protect();
        let status = site.until_protected();
        assert!(status["error"].is_null(), "{status}");
        site.commit(10);
        // Segments and ranges, and a second base that refers to the first.
        for _ in 0..3 {
            site.server.sql("postgres", "SELECT pg_switch_wal()");
            site.commit(2);
        }
        let made = site.seawall(&["backup", "shop"]).ok();
        assert!(made.stdout.contains("changed since"), "{}", made.stdout);
        site.commit(5);
        site.seawall(&["sync", "shop", "--wait"]).ok();
        let sums = site.sums();
        let timeline = site.seawall(&["timeline", "shop", "--json"]).ok().json();
        assert_eq!(timeline["spans"].as_array().map(Vec::len), Some(1), "{timeline}");
        process.kill_9();
        site.server.kill();
        // The server that recovers gets the log from the bucket, with the keys that the restore handed over.
        assert_eq!(site.recovered(&[]).sql("postgres", SUMS), sums, "{major}");
        site.seawall(&["verify", "shop"]).ok();
    }
}

/// A subscription of the copy would confirm at the publisher what the original never gets.
#[test]
fn a_restored_subscriber_takes_nothing_from_the_publisher() {
    let publisher = Server::start_with(18, "wal_level = logical\n");
    publisher.sql("postgres", "CREATE TABLE news (n int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE news");
    publisher.sql("postgres", "INSERT INTO news SELECT generate_series(1, 10)");
    let mut site = Site::start(18, "max_slot_wal_keep_size = '1GB'\n", CONTINUOUS);
    site.server.sql("postgres", "CREATE TABLE news (n int PRIMARY KEY)");
    // Its own statement: a slot can't be made in a transaction.
    site.server
        .sql("postgres", &format!("CREATE SUBSCRIPTION s CONNECTION '{}' PUBLICATION p", publisher.url("postgres")));
    let news = |server: &Server| server.sql("postgres", "SELECT count(*) FROM news");
    let until = |count: &str| wait::until(count, LATE, || (news(&site.server) == count).then_some(()));
    until("10");
    let mut process = site.protect();
    site.until_protected();
    site.seawall(&["sync", "shop", "--wait"]).ok();
    process.stop().ok();
    site.server.stop();
    publisher.sql("postgres", "INSERT INTO news SELECT generate_series(11, 40)");
    let confirmed = || publisher.sql("postgres", "SELECT confirmed_flush_lsn FROM pg_replication_slots");
    let before = confirmed();
    let programs = site.server.bin().display().to_string();
    let mut restored = site.recovered(&["--start", "--pg-bindir", &programs]);
    assert_eq!(news(&restored), "10");
    assert_eq!(restored.sql("postgres", "SHOW max_logical_replication_workers"), "0");
    assert_eq!((confirmed(), news(&restored)), (before, "10".to_owned()));
    restored.stop();
    site.server.start_again();
    let until = |count: &str| wait::until(count, LATE, || (news(&site.server) == count).then_some(()));
    until("40");
}

/// The base has the lower setting. Queries beside the replay would need the higher one; the recovery itself doesn't.
#[test]
fn a_setting_that_is_raised_after_the_base_does_not_stop_a_recovery() {
    let mut site = Site::start(18, BOUNDED, CONTINUOUS);
    let mut process = site.protect();
    site.until_protected();
    site.server.sql("postgres", "ALTER SYSTEM SET max_connections = 150");
    site.server.stop();
    site.server.start_again();
    site.until_protected();
    site.commit(3);
    site.seawall(&["sync", "shop", "--wait"]).ok();
    assert_eq!(site.server.sql("postgres", "SHOW max_connections"), "150");
    let sums = site.sums();
    process.stop().ok();
    let programs = site.server.bin().display().to_string();
    assert_eq!(site.recovered(&["--start", "--pg-bindir", &programs]).sql("postgres", SUMS), sums);
}
