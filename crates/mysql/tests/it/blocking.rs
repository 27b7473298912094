//! Statements that hold up a global lock, and locks whose holder vanished.

use std::time::Duration;

use seawall_core::Kind;
use seawall_mysql::testing::{Connection, Purpose};
use seawall_mysql::{Method, SetDetail};
use seawall_vault::memory::MemoryStore;

use crate::link::{Link, make_small, nothing_is_held};
use crate::restoring::{backup, everything, is_the_same, options as how, recover};
use crate::server::{Server, target};
use crate::support::{Set, back_up_with, options, vault};

async fn comes_back(server: &Server, vault: &seawall_vault::Vault) {
    recover(vault, &server.url("copy"), &how()).await.expect("restored");
    is_the_same(&everything(server, "copy"), &everything(server, "shop"));
}

/// The network is gone while the global lock is held, and the server isn't told.
async fn a_vanished_machine_gives_its_lock_back(server: Server) {
    make_small(&server);
    let (link, vault) = (Link::to(&server), vault(&MemoryStore::new()));
    link.cable.stall_at("START TRANSACTION WITH CONSISTENT SNAPSHOT");
    let run = tokio::spawn({
        let (vault, url) = (vault.clone(), link.url("shop"));
        async move { backup(&url, &vault).await.map(drop) }
    });
    let cable = link.cable.clone();
    let stalled = tokio::task::spawn_blocking(move || cable.wait_for_trouble(Duration::from_secs(60))).await;
    assert!(stalled.expect("no panic"));
    run.abort();
    let writer = {
        let mut writer = server.connect(Purpose::Statements).await;
        tokio::spawn(async move { writer.execute("INSERT INTO shop.b VALUES (9, 1)").await.map(drop) })
    };
    server.wait(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'INSERT%' AND state LIKE 'Waiting%'",
        "1",
    );
    writer.await.expect("no panic").expect("written before its own limit, which is longer");
    link.cable.cut();
    nothing_is_held(&server);
    backup(&server.url("shop"), &vault).await.expect("backed up");
    comes_back(&server, &vault).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_vanishes_with_the_lock_of_commits_holds_writers_up_for_seconds_only() {
    a_vanished_machine_gives_its_lock_back(Server::start()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_vanishes_with_the_global_read_lock_holds_writers_up_for_seconds_only() {
    let Some(server) = crate::mysql8::start() else { return };
    server.sql("SET GLOBAL log_bin_trust_function_creators = 1");
    a_vanished_machine_gives_its_lock_back(server).await;
}

/// Statements of the log, in their order.
const LOG: &str = "SELECT CASE WHEN argument LIKE 'FLUSH%' THEN 'lock' ELSE 'write' END FROM mysql.general_log \
                   WHERE argument LIKE 'FLUSH TABLES WITH%' OR argument LIKE 'UPDATE shop.b%' ORDER BY event_time";

/// A session that reads a table for long.
async fn read_for_long(server: &Server) -> tokio::task::JoinHandle<()> {
    let mut report = Connection::open(&target(&server.socket("report", "shop"))).await.expect("connected");
    let reading = tokio::spawn(async move { drop(report.query("SELECT SLEEP(600) FROM a").await) });
    server.wait("SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '%SLEEP(600)%' AND user = 'report' AND time > 3", "1");
    reading
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_query_is_named_and_nobody_waits_for_the_global_read_lock_longer_than_one_request() {
    let Some(server) = crate::mysql8::start() else { return };
    server.sql("SET GLOBAL log_bin_trust_function_creators = 1");
    make_small(&server);
    server.sql(
        "SET GLOBAL log_output = 'TABLE', general_log = 1; CREATE USER report, blind; GRANT ALL ON shop.* TO report; \
         GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, RELOAD, LOCK TABLES, REPLICATION CLIENT ON *.* TO blind",
    );
    let reading = read_for_long(&server).await;
    let store = MemoryStore::new();
    let patient = seawall_mysql::DumpOptions { lock_wait: Duration::from_secs(12), ..options() };
    // An account that sees the statement doesn't even ask for the lock.
    let failure = back_up_with(&server.url("shop"), &store, &options()).await.expect_err("blocked");
    assert_eq!((failure.kind, failure.code), (Kind::Unavailable, "mysql.blocked"));
    for named in ["user report", "SLEEP(600)"] {
        assert!(failure.cause.contains(named), "{failure:?}");
    }
    assert_eq!(server.sql(LOG), "");
    // One that doesn't see it asks several times, and others write in between.
    let mut writer = server.connect(Purpose::Statements).await;
    let writing = tokio::spawn(async move { while writer.execute("UPDATE shop.b SET a = a").await.is_ok() {} });
    let failure = back_up_with(&server.socket("blind", "shop"), &store, &patient).await.expect_err("blocked");
    writing.abort();
    assert_eq!((failure.kind, failure.code), (Kind::Unavailable, "mysql.blocked"));
    assert!(
        failure.cause.contains("no session that this account sees") && failure.next.contains("PROCESS"),
        "{failure:?}"
    );
    let log = server.sql(LOG);
    let between: Vec<usize> = log.split("lock").map(|part| part.matches("write").count()).collect();
    // The parts before the first request and after the last one depend on when the writer began and was stopped.
    assert!(between.len() > 2 && between[1..between.len() - 1].iter().all(|writes| *writes > 1), "{between:?}");
    reading.abort();
    server.wait("SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'report'", "0");
    let vault = vault(&MemoryStore::new());
    backup(&server.url("shop"), &vault).await.expect("backed up");
    comes_back(&server, &vault).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_query_doesnt_hold_up_the_stages_of_mariadb() {
    let server = Server::start();
    make_small(&server);
    server.sql("CREATE USER report; GRANT ALL ON shop.* TO report");
    let reading = read_for_long(&server).await;
    let store = MemoryStore::new();
    let dumped = back_up_with(&server.url("shop"), &store, &options()).await.expect("backed up");
    let detail: SetDetail = Set::of(&store, &dumped).await.detail();
    assert_eq!(detail.taken.method, Method::BackupStage);
    comes_back(&server, &vault(&store)).await;
    reading.abort();
}

/// The table that is being altered is locked for readers, too, from the moment at which the ALTER waits for its last lock.
#[tokio::test(flavor = "multi_thread")]
async fn an_alter_that_waits_ends_no_backup_and_both_its_states_are_whole() {
    let server = Server::start();
    make_small(&server);
    let before = everything(&server, "shop");
    let mut reader = server.connect(Purpose::Statements).await;
    reader.execute("START TRANSACTION").await.expect("begun");
    reader.query("SELECT * FROM shop.a").await.expect("read");
    let mut changer = server.connect(Purpose::Statements).await;
    let changing =
        tokio::spawn(
            async move { changer.execute("ALTER TABLE shop.a ADD COLUMN more int DEFAULT 4").await.map(drop) },
        );
    server.wait(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'ALTER%' AND state LIKE 'Waiting%'",
        "1",
    );
    let vault = vault(&MemoryStore::new());
    let run = tokio::spawn({
        let (vault, url) = (vault.clone(), server.url("shop"));
        async move { backup(&url, &vault).await.map(drop) }
    });
    // Our own query of the table waits behind it, and an application's doesn't wait for us.
    server.wait("SELECT COUNT(*) > 0 FROM information_schema.processlist WHERE info LIKE 'SELECT%FROM `shop`.`a`%' AND state LIKE 'Waiting%'", "1");
    server.sql("UPDATE shop.plain SET v = v; INSERT INTO shop.b VALUES (10, 1)");
    reader.execute("COMMIT").await.expect("ended");
    changing.await.expect("no panic").expect("changed");
    run.await.expect("no panic").expect("backed up");
    recover(&vault, &server.url("copy"), &how()).await.expect("restored");
    let copy = everything(&server, "copy");
    if copy != before {
        is_the_same(&copy, &everything(&server, "shop"));
    }
}
