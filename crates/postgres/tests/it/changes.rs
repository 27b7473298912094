//! Definitions that change while a database is read: a set has one state, or the backup fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{backup, content, options, recover, schema, vault};

/// Runs SQL repeatedly until it is told to stop. Failed runs are repeated too.
pub(crate) fn again_and_again(
    server: &Arc<Server>,
    sql: &'static str,
) -> (Arc<AtomicBool>, std::thread::JoinHandle<u32>) {
    let (stop, server) = (Arc::new(AtomicBool::new(false)), Arc::clone(server));
    let stopped = Arc::clone(&stop);
    let runs = std::thread::spawn(move || {
        let mut runs = 0;
        while !stopped.load(Ordering::Relaxed) {
            let mut psql = server.tool("psql");
            psql.args(["-Xqd", "shop", "-c", sql]).stdout(std::process::Stdio::null());
            psql.stderr(std::process::Stdio::null());
            runs += u32::from(psql.status().is_ok_and(|status| status.success()));
            std::thread::sleep(std::time::Duration::from_millis(150));
        }
        runs
    });
    (stop, runs)
}

/// Backs up while `change` goes on, and checks that `always` holds in every restored database.
async fn one_state(change: &'static str, always: &str) {
    let server = Arc::new(Server::start(15));
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE TABLE steady AS SELECT i, repeat(md5(i::text), 4) AS t FROM generate_series(1, 50000) i; \
         CREATE TABLE moving (a int, b int DEFAULT 2); INSERT INTO moving SELECT i FROM generate_series(1, 1000) i",
    );
    let vault = vault(&MemoryStore::new());
    let (stop, changing) = again_and_again(&server, change);
    let (mut made, mut refused) = (0, Vec::new());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while made < 3 && std::time::Instant::now() < deadline {
        match backup(&server, &server.url("shop"), &vault).await {
            Ok(_) => made += 1,
            Err(failure) => refused.push(failure),
        }
    }
    stop.store(true, Ordering::Relaxed);
    assert!(changing.join().expect("no panic") > 0, "nothing changed");
    assert_eq!(made, 3, "{refused:?}");
    for failure in refused {
        let known = ["postgres.changing", "postgres.tool-failed", "postgres.locked", "postgres.refused"];
        assert!(known.contains(&failure.code), "{failure:?}");
    }
    recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
    assert_eq!(server.sql("copy", always), "t");
    assert_eq!(
        server.sql("copy", "SELECT count(*), sum(hashtext(t)) FROM steady"),
        server.sql("shop", "SELECT count(*), sum(hashtext(t)) FROM steady")
    );
    backup(&server, &server.url("shop"), &vault).await.expect("in peace");
    recover(&vault, &server.url("peace"), &options(&server)).await.expect("restored");
    assert_eq!(content(&server, "peace"), content(&server, "shop"));
    assert_eq!(schema(&server, &server, "peace").replace("peace", "shop"), schema(&server, &server, "shop"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_truncated_and_filled_never_reads_as_empty() {
    let change = "BEGIN; TRUNCATE moving; INSERT INTO moving SELECT i FROM generate_series(1, 1000) i; COMMIT";
    one_state(change, "SELECT count(*) = 1000 FROM moving").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_altered_has_rows_that_fit() {
    let change = "ALTER TABLE moving DROP COLUMN b; ALTER TABLE moving ADD COLUMN b int DEFAULT 2";
    one_state(change, "SELECT count(*) = 1000 FROM moving").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_come_and_go_are_whole_or_not_there() {
    let change = "BEGIN; DROP TABLE IF EXISTS fleeting; CREATE TABLE fleeting AS SELECT i FROM generate_series(1, 500) i; COMMIT";
    let always = "SELECT coalesce((SELECT (xpath('/row/c/text()', query_to_xml('SELECT count(*) AS c FROM fleeting', false, true, '')))[1]::text::int \
                  FROM pg_class WHERE relname = 'fleeting'), 500) = 500";
    one_state(change, always).await;
}
