//! Locks that aren't free, and definitions that change.

use std::time::Duration;

use seawall_core::Kind;
use seawall_mysql::testing::Purpose;
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{Set, back_up};

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_isnt_free_is_given_up_and_its_holder_named() {
    let server = Server::start();
    server.sql("CREATE DATABASE shop; USE shop; CREATE TABLE t (id int) ENGINE=MyISAM; CREATE USER report; GRANT ALL ON shop.* TO report");
    let mut report = seawall_mysql::testing::Connection::open_for(
        &crate::server::target(&server.socket("report", "shop")),
        Purpose::Statements,
    )
    .await
    .expect("connected");
    let busy = tokio::spawn(async move { report.execute("INSERT INTO t SELECT SLEEP(60)").await });
    server
        .wait("SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'INSERT%SLEEP%' AND time > 0", "1");
    let store = MemoryStore::new();
    let failure = back_up(&server.url("shop"), &store).await.expect_err("blocked");
    assert_eq!((failure.kind, failure.code), (Kind::Unavailable, "mysql.blocked"));
    assert!(failure.cause.contains("user report") && failure.cause.contains("SELECT SLEEP(60)"), "{failure:?}");
    assert!(failure.next.contains("KILL"), "{failure:?}");
    // Nothing stays locked.
    server.sql("CREATE TABLE shop.other (id int); INSERT INTO shop.other VALUES (1)");
    server.wait("SELECT COUNT(*) FROM information_schema.processlist WHERE command <> 'Daemon'", "2");
    busy.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_is_dropped_leaves_no_lock() {
    let server = Server::start();
    server.sql("CREATE DATABASE shop; USE shop; CREATE TABLE t (id int) ENGINE=MyISAM; INSERT INTO t VALUES (1); LOCK TABLES t WRITE");
    let mut holder = server.connect(Purpose::Statements).await;
    holder.execute("LOCK TABLES shop.t WRITE").await.expect("locked");
    let (url, store) = (server.url("shop"), MemoryStore::new());
    let backup = tokio::spawn(async move { back_up(&url, &store).await.map(|_| ()) });
    server.wait("SELECT COUNT(*) > 0 FROM information_schema.processlist WHERE info LIKE 'BACKUP STAGE%'", "1");
    backup.abort();
    let _ = backup.await;
    holder.execute("UNLOCK TABLES").await.expect("unlocked");
    server.sql("INSERT INTO shop.t VALUES (2); CREATE TABLE shop.u (id int)");
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_that_change_begin_it_anew_and_in_the_end_fail_it() {
    let server = Server::start();
    server.sql(
        "CREATE DATABASE shop; USE shop; CREATE TABLE t (id int PRIMARY KEY, filler varchar(2000)); \
         INSERT INTO t SELECT seq, REPEAT(MD5(seq), 60) FROM seq_1_to_20000; CREATE TABLE z (id int)",
    );
    // One change comes into the first attempt.
    let store = MemoryStore::new();
    let (url, of) = (server.url("shop"), store.clone());
    let backup = tokio::spawn(async move { back_up(&url, &of).await });
    tokio::time::sleep(Duration::from_millis(60)).await;
    server.sql(
        "ALTER TABLE shop.z ADD COLUMN b int, ADD COLUMN c int NOT NULL DEFAULT 5; INSERT INTO shop.z VALUES (1, 2, 3)",
    );
    let dumped = backup.await.expect("ended").expect("backed up");
    let set = Set::of(&store, &dumped).await;
    let schema = set.schema(None).await;
    let z = schema.tables.iter().find(|table| table.name == "z").expect("z");
    let rows = set.lines("shop.z").await;
    // Whichever state it is, rows and definition belong together.
    let columns = if z.statement.text().contains("`c`") { 3 } else { 1 };
    assert!(rows.iter().all(|row| row.split('\t').count() == columns), "{columns} {rows:?}");

    // Tables come and go all the time.
    let mut connection = server.connect(Purpose::Statements).await;
    let changes = tokio::spawn(async move {
        for n in 0_u64.. {
            let sql = format!("CREATE OR REPLACE TABLE shop.`n{}` (id int)", n % 7);
            if connection.execute(&sql).await.is_err() {
                break;
            }
        }
    });
    let failure = back_up(&server.url("shop"), &MemoryStore::new()).await;
    changes.abort();
    if let Err(failure) = failure {
        assert!(matches!(failure.code, "mysql.changing" | "mysql.conflict" | "mysql.refused"), "{failure:?}");
    }
}
