//! Locks: statements that wait for a backup, and more locks than a server has room for.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use seawall_archive::Catalog;
use seawall_core::Kind;
use seawall_testing::Gate;
use seawall_vault::memory::MemoryStore;
use seawall_vault::{Policy, Vault};

use crate::server::Server;
use crate::support::{backup, content, nothing_stays, options, recover, schema, start_backup, vault};

fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !ready() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// An ALTER that waits for the backup makes later sessions wait for the ALTER. If one of our connections were among
/// them, neither would go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_goes_on_when_an_alter_waits_in_the_middle_of_it() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    // As many large tables as connections, each more than a shut gate lets into the buffers before it.
    for number in 1..=3 {
        let (large, moving) = (format!("large_{number}"), format!("moving_{number}"));
        server.sql(
            "shop",
            &format!(
                "CREATE TABLE {large} AS SELECT i, md5(i::text) || md5(i + 0.5 || '') || md5(-i || '') AS t FROM generate_series(1, 150000) i; \
                 CREATE TABLE {moving} AS SELECT i AS a, -i AS b FROM generate_series(1, 1000) i"
            ),
        );
    }
    let before = (content(&server, "shop"), schema(&server, &server, "shop"));
    let gate = Gate::before(&MemoryStore::new());
    let vault = Vault::new(Arc::new(gate.clone()), Policy { seed: 1, ..Policy::default() });
    gate.set(false);
    let run = start_backup(&server, &vault);
    let stand_still = "SELECT count(*), count(*) FILTER (WHERE query LIKE 'COPY \"public\".\"large%' AND wait_event = 'ClientWrite') \
                       FROM pg_stat_activity WHERE application_name = 'seawall'";
    until("the backup to stand still", || server.sql("postgres", stand_still) == "3|3");
    let alters: Vec<_> = (1..=3)
        .map(|number| {
            let mut psql = server.tool("psql");
            let sql = format!("ALTER TABLE moving_{number} DROP COLUMN b, ADD COLUMN c int DEFAULT 7");
            psql.args(["-Xqd", "shop", "-c", &sql]).stdout(Stdio::null()).spawn().expect("psql runs")
        })
        .collect();
    until("all to wait", || server.sql("shop", "SELECT count(*) FROM pg_locks WHERE NOT granted") == "3");
    gate.set(true);
    run.await.expect("no panic").expect("backed up");
    for mut alter in alters {
        assert!(alter.wait().expect("psql ends").success(), "whoever waited goes on");
    }
    recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
    let restored = (content(&server, "copy"), schema(&server, &server, "copy"));
    assert_eq!(restored, before, "all of it is of the state before");
    nothing_stays(&server, "copy");
}

/// A server with room for few locks, and with a database of many tables.
fn many(tables: u32, locks: u32) -> Server {
    let server = Server::start_with(
        15,
        &format!("max_locks_per_transaction = {locks}\nmax_connections = 20\nmax_worker_processes = 2"),
    );
    server.sql("postgres", "CREATE DATABASE shop");
    // Not in one transaction, which would need as many.
    let made = format!(
        "SELECT format('CREATE TABLE t_%s (id int PRIMARY KEY, t text)', i) FROM generate_series(1, {tables}) i"
    );
    server.generated("shop", &made);
    server.generated(
        "shop",
        &format!(
            "SELECT format('INSERT INTO t_%s VALUES (%1$s, md5(''%1$s''))', i) FROM generate_series(1, {tables}) i"
        ),
    );
    server
}

#[tokio::test]
async fn more_tables_than_a_server_has_locks_for_are_refused_with_the_setting() {
    let (tight, roomy) = (many(1200, 10), many(1200, 200));
    let vault = vault(&MemoryStore::new());
    let failure = backup(&tight, &tight.url("shop"), &vault).await.expect_err("there is no room");
    assert_eq!((failure.kind, failure.code), (Kind::Refused, "postgres.not-ready"), "{failure:?}");
    assert!(failure.cause.contains("about 1200 locks"), "{failure:?}");
    assert!(failure.next.starts_with("max_locks_per_transaction = "), "{failure:?}");
    assert_eq!(Catalog::read(&vault).await.expect("read").sets().len(), 0);
    backup(&roomy, &roomy.url("shop"), &vault).await.expect("backed up");
    let failure = recover(&vault, &tight.url("copy"), &options(&tight)).await.expect_err("there is no room");
    assert_eq!((failure.kind, failure.code), (Kind::Refused, "postgres.not-ready"), "{failure:?}");
    assert_eq!(tight.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname = 'copy'"), "0");
    nothing_stays(&tight, "shop");
    recover(&vault, &roomy.url("copy"), &options(&roomy)).await.expect("restored");
    assert_eq!(content(&roomy, "copy"), content(&roomy, "shop"));
    // What is advised is enough.
    let advised = failure.next.trim_start_matches("max_locks_per_transaction = ");
    let advised: u32 = advised.split(' ').next().and_then(|number| number.parse().ok()).expect("a number");
    let mended = many(1, advised);
    recover(&vault, &mended.url("copy"), &options(&mended)).await.expect("restored");
    assert_eq!(content(&mended, "copy"), content(&roomy, "shop"));
}
