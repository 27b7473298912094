//! Samples: a part of the rows in which every foreign key holds.

use std::sync::Arc;

use seawall_archive::server::Prove as _;
use seawall_core::{Failure, NoProgress, When};
use seawall_mysql::{DumpOptions, Dumped, Format, Limits, Prover, World, dump};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;

use crate::restoring::{backup, environment, limits, options, recover, unfinished};
use crate::server::{Server, target};
use crate::support::vault;

/// Circles, a table that refers to itself, keys of several columns, keys with NULL, keys of text that is compared without case, a
/// key to a unique column, a table without a primary key, and one with few rows. `{numbers}` are the numbers up to 5000.
const SHOP: &str = "
CREATE DATABASE shop CHARACTER SET utf8mb4; USE shop; SET SESSION sql_mode = '';
CREATE TABLE few (id int PRIMARY KEY, t text); INSERT INTO few SELECT n, 'x' FROM {numbers} WHERE n <= 50;
CREATE TABLE parent (id int PRIMARY KEY, boss int, other bigint unsigned, code varchar(20) COLLATE utf8mb4_general_ci NOT NULL, few int,
  UNIQUE KEY by_code (code), CONSTRAINT self FOREIGN KEY (boss) REFERENCES parent (id), CONSTRAINT known FOREIGN KEY (few) REFERENCES few (id));
CREATE TABLE child (a int, b varchar(10) COLLATE utf8mb4_general_ci, c bigint unsigned NOT NULL, parent int NOT NULL, code varchar(20) COLLATE utf8mb4_general_ci,
  PRIMARY KEY (a, b), UNIQUE KEY c (c), CONSTRAINT up FOREIGN KEY (parent) REFERENCES parent (id), CONSTRAINT text FOREIGN KEY (code) REFERENCES parent (code));
CREATE TABLE grandchild (id binary(4) PRIMARY KEY, a int, b varchar(10) COLLATE utf8mb4_general_ci,
  CONSTRAINT both_of_them FOREIGN KEY (a, b) REFERENCES child (a, b));
CREATE TABLE no_key (c bigint unsigned, CONSTRAINT by_unique FOREIGN KEY (c) REFERENCES child (c));
CREATE TABLE moments (at datetime(3), d decimal(10,2), PRIMARY KEY (at, d)) ENGINE=InnoDB;
SET foreign_key_checks = 0;
INSERT INTO parent SELECT n, IF(n % 3 > 0, NULL, 1 + n DIV 2), IF(n % 10 > 0, NULL, 1 + (n * 13) % 5000), CONCAT('code-', n), 1 + n % 50 FROM {numbers};
INSERT INTO child SELECT n, CONCAT('b', n), n, 1 + (n * 7) % 5000, IF(n % 10 > 0, NULL, CONCAT('CODE-', 1 + (n * 11) % 5000)) FROM {numbers};
INSERT INTO grandchild SELECT UNHEX(LPAD(HEX(n), 8, '0')), 1 + n % 5000, IF(n % 6 = 0, NULL, CONCAT('B', 1 + n % 5000)) FROM {numbers};
INSERT INTO no_key SELECT 1 + (n * 17) % 5000 FROM {numbers} WHERE n <= 20;
INSERT INTO moments SELECT '2026-01-01 00:00:00' + INTERVAL n SECOND, n / 4 FROM {numbers};
ALTER TABLE parent ADD CONSTRAINT circle FOREIGN KEY (other) REFERENCES child (c);
ANALYZE TABLE parent, child, grandchild, moments
";

/// Each foreign key as a question for rows that refer to nothing.
const ORPHANS: [&str; 7] = [
    "parent f WHERE f.boss IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {}.parent p WHERE p.id = f.boss)",
    "parent f WHERE f.other IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {}.child p WHERE p.c = f.other)",
    "parent f WHERE f.few IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {}.few p WHERE p.id = f.few)",
    "child f WHERE NOT EXISTS (SELECT 1 FROM {}.parent p WHERE p.id = f.parent)",
    "child f WHERE f.code IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {}.parent p WHERE p.code = f.code)",
    "grandchild f WHERE f.a IS NOT NULL AND f.b IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {}.child p WHERE p.a = f.a AND p.b = f.b)",
    "no_key f WHERE f.c IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {}.child p WHERE p.c = f.c)",
];

/// Rows that neither chance nor a key has brought.
const UNNEEDED: [&str; 3] = [
    "copy.grandchild WHERE CRC32(CONCAT_WS(',', HEX(id))) % 1000000 >= 10000",
    "copy.child f WHERE CRC32(CONCAT_WS(',', HEX(a), HEX(b))) % 1000000 >= 10000 \
     AND NOT EXISTS (SELECT 1 FROM copy.grandchild g WHERE g.a = f.a AND g.b = f.b) \
     AND NOT EXISTS (SELECT 1 FROM copy.no_key n WHERE n.c = f.c) AND NOT EXISTS (SELECT 1 FROM copy.parent p WHERE p.other = f.c)",
    "copy.parent f WHERE CRC32(CONCAT_WS(',', HEX(id))) % 1000000 >= 10000 \
     AND NOT EXISTS (SELECT 1 FROM copy.parent p WHERE p.boss = f.id) \
     AND NOT EXISTS (SELECT 1 FROM copy.child c WHERE c.parent = f.id OR c.code = f.code)",
];

const TABLES: [&str; 6] = ["few", "parent", "child", "grandchild", "no_key", "moments"];

fn fill(server: &Server) {
    server.sql(
        "CREATE DATABASE help; CREATE TABLE help.numbers (n int PRIMARY KEY); INSERT INTO help.numbers VALUES (1)",
    );
    for _ in 0..13 {
        server.sql("INSERT IGNORE INTO help.numbers SELECT m + n FROM help.numbers, (SELECT MAX(n) AS m FROM help.numbers) AS x WHERE m + n <= 5000");
    }
    assert_eq!(server.sql("SELECT COUNT(*) FROM help.numbers"), "5000");
    server.sql(&SHOP.replace("{numbers}", "help.numbers"));
}

async fn sample(url: &str, vault: &Vault, share: &str, limits: Limits) -> Result<Dumped, Failure> {
    let options = DumpOptions { limits, sample: Some(share.parse().expect("a share")), ..DumpOptions::default() };
    Ok(dump(&target(url), vault, &options, &World::real(environment()), Arc::new(NoProgress)).await?)
}

fn count(server: &Server, table: &str) -> u64 {
    server.sql(&format!("SELECT COUNT(*) FROM {table}")).parse().expect("a number")
}

fn is_whole(server: &Server, database: &str) {
    for orphan in ORPHANS {
        let sql = format!("{database}.{}", orphan.replace("{}", database));
        assert_eq!(count(server, &sql), 0, "{sql}");
    }
}

fn sums(server: &Server, database: &str) -> Vec<String> {
    let sum = |table: &&str| server.sql(&format!("CHECKSUM TABLE {database}.{table}")).replace(database, "");
    TABLES.iter().map(sum).collect()
}

async fn every_key_holds_in_a_sample_of(server: &Server) {
    fill(server);
    is_whole(server, "shop");
    let store = MemoryStore::default();
    let vault = vault(&store);
    let dumped = sample(&server.url("shop"), &vault, "1%", limits()).await.expect("a sample");
    assert!(dumped.manifest.sample.is_some() && dumped.manifest.identity.starts_with("sample 1% of "));
    recover(&vault, &server.url("copy"), &options()).await.expect("a restore");
    is_whole(server, "copy");
    assert_eq!((count(server, "copy.few"), count(server, "copy.no_key")), (50, 20));
    for (table, most) in [("grandchild", 120), ("moments", 120), ("child", 300), ("parent", 600)] {
        let rows = count(server, &format!("copy.{table}"));
        assert!((20..most).contains(&rows), "{table} has {rows} rows");
    }
    for unneeded in UNNEEDED {
        assert_eq!(count(server, unneeded), 0, "{unneeded}");
    }
    // Each row is one of the source's, unchanged.
    let same = "copy.child JOIN shop.child s USING (a, b) WHERE child.c = s.c AND child.parent = s.parent AND child.code <=> s.code";
    assert_eq!(count(server, same), count(server, "copy.child"));
    // The same rows again, by other connections.
    let again = crate::support::vault(&MemoryStore::default());
    sample(&server.url("shop"), &again, "1.0%", Limits { jobs: 1, ..limits() }).await.expect("a sample");
    recover(&again, &server.url("again"), &options()).await.expect("a restore");
    assert_eq!(sums(server, "again"), sums(server, "copy"));
    let prover = Prover { to: Some(target(&server.url(""))), world: World::real(environment()) };
    let when = When::Position(dumped.manifest.id.to_string());
    let proved = prover.prove(&vault, &when, &limits(), Arc::new(NoProgress)).await.expect("a proof");
    assert!(proved.findings.is_empty(), "{:?}", proved.findings);
    // It is never taken for a backup, or for another share.
    let failure = backup(&server.url("shop"), &vault).await.expect_err("it is a vault of samples");
    assert_eq!(failure.code, "archive.other-database");
    let failure = sample(&server.url("shop"), &vault, "2%", limits()).await.expect_err("of 1%");
    assert_eq!(failure.code, "archive.other-database");
    let all = crate::support::vault(&MemoryStore::default());
    sample(&server.url("shop"), &all, "100%", limits()).await.expect("all of it");
    recover(&all, &server.url("whole"), &options()).await.expect("a restore");
    assert_eq!(sums(server, "whole"), sums(server, "shop"));
    assert_eq!(unfinished(server), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_holds_in_a_sample() {
    every_key_holds_in_a_sample_of(&Server::start()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_holds_in_a_sample_of_mysql_8() {
    let Some(server) = crate::mysql8::start() else { return };
    every_key_holds_in_a_sample_of(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_of_a_whole_server_follows_keys_into_other_databases() {
    let (server, other) = (Server::start(), Server::start());
    fill(&server);
    server.sql(
        "CREATE DATABASE apart; CREATE TABLE apart.orders (id int PRIMARY KEY, parent int, FOREIGN KEY (parent) REFERENCES shop.parent (id)); \
         INSERT INTO apart.orders SELECT n, 1 + (n * 19) % 5000 FROM help.numbers",
    );
    let vault = vault(&MemoryStore::default());
    sample(&server.url(""), &vault, "1%", limits()).await.expect("a sample");
    recover(&vault, &other.url(""), &options()).await.expect("a restore");
    is_whole(&other, "shop");
    let orders = count(&other, "apart.orders");
    assert!((20..120).contains(&orders), "{orders}");
    let orphans = "apart.orders o WHERE NOT EXISTS (SELECT 1 FROM shop.parent p WHERE p.id = o.parent)";
    assert_eq!(count(&other, orphans), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_as_a_script_is_refused() {
    let server = Server::start();
    fill(&server);
    let store = MemoryStore::default();
    let both =
        DumpOptions { sample: Some("1%".parse().expect("a share")), format: Format::Plain, ..DumpOptions::default() };
    let world = World::real(environment());
    let failed = dump(&target(&server.url("shop")), &vault(&store), &both, &world, Arc::new(NoProgress)).await;
    assert_eq!(Failure::from(failed.expect_err("a script has every row")).code, "mysql.vendor-format");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_whose_keys_need_too_much_memory_is_refused() {
    let server = Server::start();
    server.sql(
        "CREATE DATABASE d; USE d; CREATE TABLE parent (k char(250) CHARACTER SET ascii PRIMARY KEY); \
         INSERT INTO parent SELECT RPAD(seq, 250, 'x') FROM seq_1_to_6000; \
         CREATE TABLE child (k char(250) CHARACTER SET ascii, FOREIGN KEY (k) REFERENCES parent (k)); \
         INSERT INTO child SELECT k FROM parent",
    );
    let store = MemoryStore::default();
    let small = Limits { jobs: 1, memory: 24 << 20, ..limits() };
    let failure = sample(&server.url("d"), &vault(&store), "0.1%", small.clone()).await.expect_err("too many keys");
    assert_eq!((failure.code, failure.object.as_str()), ("mysql.sample-too-large", "d.parent"));
    sample(&server.url("d"), &vault(&store), "0.1%", Limits { memory: 128 << 20, ..small }).await.expect("enough");
}
