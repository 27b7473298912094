//! Networks that break or stall at any byte.

use std::sync::Arc;
use std::time::Duration;

use seawall_archive::Catalog;
use seawall_core::NoProgress;
use seawall_mysql::{World, dump};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;

use crate::link::{Link, broke, random};
use crate::restoring::{backup, environment, everything, is_the_same, options, recover, unfinished};
use crate::server::{Server, target};
use crate::support::vault;

/// A server whose database has several frames for each connection.
fn filled() -> Server {
    let server = Server::start();
    server.sql(
        "CREATE DATABASE shop; USE shop; CREATE TABLE big (id int PRIMARY KEY, filler blob, KEY (filler(9))); \
         INSERT INTO big SELECT seq, RANDOM_BYTES(900) FROM seq_1_to_20000; \
         CREATE TABLE plain (id int, filler blob) ENGINE=MyISAM; INSERT INTO plain SELECT * FROM big LIMIT 9000; \
         CREATE TABLE small (id int PRIMARY KEY, big int, FOREIGN KEY (big) REFERENCES big (id)); \
         INSERT INTO small SELECT id, id FROM big LIMIT 100; CREATE VIEW v AS SELECT id FROM small",
    );
    server
}

async fn sets(vault: &Vault) -> usize {
    Catalog::read(vault).await.expect("read").sets().len()
}

async fn comes_back(server: &Server, vault: &Vault) {
    recover(vault, &server.url("copy"), &options()).await.expect("restored");
    is_the_same(&everything(server, "copy"), &everything(server, "shop"));
    assert_eq!(unfinished(server), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_whose_connections_break_anywhere_fails_by_name_and_doesnt_count() {
    let (mut random, server) = (random(), filled());
    let link = Link::to(&server);
    backup(&link.url("shop"), &vault(&MemoryStore::new())).await.expect("backed up");
    let whole = link.cable.passed();
    let vault = vault(&MemoryStore::new());
    // The last bytes are farewells, which nothing hangs on.
    for part in [0.001, 0.5, random.f64(), random.f64(), random.f64(), random.f64()] {
        link.cable.cut_after((whole as f64 * part * 0.99) as u64 + 1);
        let failure = backup(&link.url("shop"), &vault).await.expect_err("it broke");
        assert!(broke(&failure), "{failure:?}");
        assert_eq!(sets(&vault).await, 0);
        link.cable.mend();
    }
    backup(&link.url("shop"), &vault).await.expect("backed up");
    comes_back(&server, &vault).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_whose_connections_break_anywhere_goes_on() {
    let (mut random, from) = (random(), filled());
    let (vault, to) = (vault(&MemoryStore::new()), Server::start());
    backup(&from.url("shop"), &vault).await.expect("backed up");
    let link = Link::to(&to);
    recover(&vault, &link.url("first"), &options()).await.expect("restored");
    let whole = link.cable.passed();
    let (mut resumed, mut broken) = (false, 0);
    for part in [0.4, random.f64(), random.f64(), random.f64(), random.f64()] {
        link.cable.cut_after((whole as f64 * part * 0.5) as u64 + 1);
        match recover(&vault, &link.url("copy"), &options()).await {
            // The server hasn't noticed yet that the last one is gone.
            Err(failure) if failure.code == "mysql.restore-running" => {}
            Err(failure) => {
                assert!(broke(&failure), "{failure:?}");
                assert_eq!(to.sql("SHOW DATABASES LIKE 'copy'"), "");
                resumed |= part > 0.1;
                broken += 1;
            }
            // What was left was less than that.
            Ok(_) => break,
        }
        link.cable.mend();
        to.wait("SELECT COUNT(*) FROM information_schema.processlist WHERE command <> 'Daemon'", "1");
    }
    link.cable.mend();
    assert!(broken > 1 && resumed);
    if to.sql("SHOW DATABASES LIKE 'copy'").is_empty() {
        assert!(recover(&vault, &link.url("copy"), &options()).await.expect("restored").resumed);
    }
    is_the_same(&everything(&to, "copy"), &everything(&from, "shop"));
    assert_eq!(unfinished(&to), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_stalls_ends_nothing_and_one_that_breaks_behind_that_is_named() {
    let server = filled();
    let (link, store) = (Link::to(&server), vault(&MemoryStore::new()));
    for cut in [true, false] {
        link.cable.stall_at("FROM `shop`.`big`");
        let (vault, url) = (store.clone(), link.url("shop"));
        let run = tokio::spawn(async move {
            let options = seawall_mysql::DumpOptions { limits: crate::restoring::limits(), ..Default::default() };
            let world = World::real(environment());
            dump(&target(&url), &vault, &options, &world, Arc::new(NoProgress)).await.map(drop)
        });
        let cable = link.cable.clone();
        let stalled = tokio::task::spawn_blocking(move || cable.wait_for_trouble(Duration::from_secs(60)));
        assert!(stalled.await.expect("no panic") && !run.is_finished());
        if cut {
            link.cable.cut();
            let failure = run.await.expect("no panic").expect_err("it broke").into();
            assert!(broke(&failure), "{failure:?}");
            link.cable.mend();
        } else {
            link.cable.mend();
            run.await.expect("no panic").expect("backed up");
        }
        assert_eq!(sets(&store).await, usize::from(!cut));
    }
    for cut in [true, false] {
        link.cable.stall_at("LOAD DATA");
        let (vault, url) = (store.clone(), link.url("copy"));
        let run = tokio::spawn(async move { recover(&vault, &url, &options()).await });
        let cable = link.cable.clone();
        let stalled = tokio::task::spawn_blocking(move || cable.wait_for_trouble(Duration::from_secs(60)));
        assert!(stalled.await.expect("no panic") && !run.is_finished());
        if cut {
            link.cable.cut();
            let failure = run.await.expect("no panic").expect_err("it broke");
            assert!(broke(&failure), "{failure:?}");
            server.wait("SELECT COUNT(*) FROM information_schema.processlist WHERE command <> 'Daemon'", "1");
        } else {
            link.cable.mend();
            assert!(run.await.expect("no panic").expect("restored").resumed);
        }
        link.cable.mend();
    }
    is_the_same(&everything(&server, "copy"), &everything(&server, "shop"));
}
