//! The server is killed while it is read or written. It starts again, and the same command ends in the same content.

use std::sync::Arc;

use seawall_archive::Catalog;
use seawall_testing::Gate;
use seawall_vault::memory::MemoryStore;
use seawall_vault::{Policy, Vault};

use crate::link::broke;
use crate::restoring::{backup, everything, is_the_same, options, recover, unfinished};
use crate::server::Server;

/// Makes a database with rows in many chunks, of engines with transactions, without, and in memory alone.
fn make_large(server: &Server) {
    let rows = "(SELECT 0 AS n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7)";
    server.sql(&format!(
        "CREATE DATABASE shop; USE shop; CREATE TABLE n (id int PRIMARY KEY); \
         INSERT INTO n SELECT a.n + 8 * b.n + 64 * c.n + 512 * d.n + 4096 * e.n FROM {rows} a, {rows} b, {rows} c, {rows} d, {rows} e; \
         CREATE TABLE big (id int PRIMARY KEY, filler varchar(600), KEY (filler(9))); INSERT INTO big SELECT id, REPEAT(SHA2(id, 512), 4) FROM n; \
         CREATE TABLE no_key (id int, filler varchar(600)); INSERT INTO no_key SELECT * FROM big; \
         CREATE TABLE plain (id int PRIMARY KEY, filler varchar(600), KEY (filler(9))) ENGINE=MyISAM; INSERT INTO plain SELECT * FROM big; \
         CREATE TABLE fleeting (id int PRIMARY KEY) ENGINE=MEMORY; INSERT INTO fleeting SELECT * FROM n WHERE id < 1000; \
         CREATE TABLE small (id int AUTO_INCREMENT PRIMARY KEY, big int, FOREIGN KEY (big) REFERENCES big (id)); \
         INSERT INTO small SELECT id + 1, id FROM big WHERE id < 100; CREATE VIEW v AS SELECT * FROM small; \
         CREATE TRIGGER t BEFORE INSERT ON small FOR EACH ROW SET NEW.big = 1"
    ));
}

/// A vault behind a gate.
fn gated() -> (Gate, Vault) {
    let gate = Gate::before(&MemoryStore::new());
    let vault = Vault::new(Arc::new(gate.clone()), Policy { seed: 1, ..Policy::default() });
    (gate, vault)
}

async fn killed_while_it_is_backed_up(mut server: Server) {
    make_large(&server);
    let before = everything(&server, "shop");
    let (gate, vault) = gated();
    for _ in 0..2 {
        gate.set(false);
        let run = tokio::spawn({
            let (vault, url) = (vault.clone(), server.url("shop"));
            async move { backup(&url, &vault).await.map(drop) }
        });
        // Its snapshots are open, and it reads until all buffers are full.
        server.wait("SELECT COUNT(*) > 0 FROM information_schema.innodb_trx", "1");
        server.kill_9();
        gate.set(true);
        let failure = run.await.expect("no panic").expect_err("the server is gone");
        assert!(broke(&failure), "{failure:?}");
        assert_eq!(Catalog::read(&vault).await.expect("read").sets().len(), 0);
        server.start_again();
        server.sql("REPLACE INTO shop.fleeting SELECT id FROM shop.n WHERE id < 1000");
    }
    backup(&server.url("shop"), &vault).await.expect("backed up");
    recover(&vault, &server.url("copy"), &options()).await.expect("restored");
    is_the_same(&everything(&server, "copy"), &before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_while_it_is_backed_up_leaves_no_set_and_the_next_one_is_whole() {
    killed_while_it_is_backed_up(Server::start()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_8_that_is_killed_while_it_is_backed_up_leaves_no_set_and_the_next_one_is_whole() {
    let Some(server) = crate::mysql8::start() else { return };
    killed_while_it_is_backed_up(server).await;
}

/// Restores, and kills the server each time when so many more chunks were read.
async fn killed_while_it_is_written(mut server: Server) {
    make_large(&server);
    let before = everything(&server, "shop");
    let (gate, vault) = gated();
    let dumped = backup(&server.url("shop"), &vault).await.expect("backed up");
    let chunks = usize::try_from(dumped.manifest.totals.chunks).expect("few");
    assert!(chunks > 10, "{chunks}");
    let (mut kills, mut resumed) = (0, false);
    for jobs in [3, 1, 2].into_iter().cycle() {
        let mut options = options();
        options.limits.jobs = jobs;
        gate.allow(chunks / 4 + 2 * kills);
        let mut run = tokio::spawn({
            let (vault, url) = (vault.clone(), server.url("copy"));
            async move { recover(&vault, &url, &options).await }
        });
        let stopped = tokio::select! {
            () = gate.stopped() => true,
            done = &mut run => {
                resumed = done.expect("no panic").expect("restored").resumed;
                false
            }
        };
        if !stopped {
            break;
        }
        server.kill_9();
        gate.free();
        let failure = run.await.expect("no panic").expect_err("the server is gone");
        assert!(broke(&failure) && failure.next.contains("the same command goes on"), "{failure:?}");
        server.start_again();
        assert_eq!(server.sql("SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'copy'"), "0");
        kills += 1;
        assert!(kills < 30, "no chunk counts as loaded");
    }
    assert!(kills > 2 && resumed, "{kills} {resumed}");
    server.sql("REPLACE INTO shop.fleeting SELECT id FROM shop.n WHERE id < 1000");
    is_the_same(&everything(&server, "copy"), &before);
    assert_eq!(unfinished(&server), "");
}

/// Each transaction that counts is on the disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_while_it_is_restored_has_each_row_once_in_the_end() {
    killed_while_it_is_written(Server::start_with(&["--innodb-flush-log-at-trx-commit=1"])).await;
}

/// The server forgets transactions of the last second, with their notes.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forgets_what_it_had_committed_has_each_row_once_in_the_end() {
    killed_while_it_is_written(Server::start()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_8_that_is_killed_while_it_is_restored_has_each_row_once_in_the_end() {
    let Some(server) = crate::mysql8::start() else { return };
    killed_while_it_is_written(server).await;
}
