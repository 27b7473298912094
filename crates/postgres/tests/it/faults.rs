//! Failures between a server and a vault: incomplete results don't count, and repeated commands reach the same result.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use seawall_archive::Catalog;
use seawall_core::{Kind, Moment, NoProgress};
use seawall_postgres::CopyFormat;
use seawall_vault::memory::MemoryStore;
use seawall_vault::{ObjectKey, Prefix, Store as _};

use crate::server::Server;
use crate::support::{
    FORMATS, backup, backup_as, content, journal, limits, no_session_stays, options, recover, shop, vault,
};

/// A server whose database has many chunks, keys and a foreign key.
fn filled() -> Server {
    shop(150_000, 2_500)
}

async fn sets(vault: &seawall_vault::Vault) -> usize {
    Catalog::read(vault).await.expect("read").sets().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_was_interrupted_anywhere_goes_on_and_does_each_step_once() {
    let server = filled();
    for copy in FORMATS {
        interrupted(copy, &server).await;
        server.sql("postgres", "DROP DATABASE copy");
    }
}

async fn interrupted(copy: CopyFormat, server: &Server) {
    let vault = vault(&MemoryStore::new());
    backup_as(copy, server, &server.url("shop"), &vault).await.expect("backed up");
    let mut interrupted = 0;
    let mut milliseconds = 20;
    loop {
        let url = server.url("copy");
        let options = options(server);
        let run = recover(&vault, &url, &options);
        match tokio::time::timeout(Duration::from_millis(milliseconds), run).await {
            Err(_) => {
                interrupted += 1;
                milliseconds += 60;
                no_session_stays(server);
                // It may have been interrupted when everything was done, and its name given.
                if server.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname = 'copy'") == "1" {
                    break;
                }
            }
            Ok(restored) => {
                assert!(restored.expect("restored").resumed, "it was interrupted before");
                break;
            }
        }
        assert!(interrupted < 200, "it never ends");
    }
    assert!(interrupted > 2, "{interrupted}");
    assert_eq!(content(server, "copy"), content(server, "shop"));
    assert_eq!(
        server.sql("copy", "SELECT count(*), bool_and(convalidated) FROM pg_constraint WHERE contype IN ('p', 'f') AND connamespace = 'public'::regnamespace"),
        "3|t"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_while_it_is_read_leaves_nothing_that_counts() {
    let mut server = filled();
    let store = MemoryStore::new();
    let vault = vault(&store);
    let run = {
        let (vault, url, limits) = (vault.clone(), server.url("shop"), limits(&server));
        tokio::spawn(async move {
            let options = seawall_postgres::DumpOptions { limits, ..Default::default() };
            let world = seawall_postgres::World::real(crate::support::environment());
            seawall_postgres::dump(&crate::support::target(&url), &vault, &options, &world, Arc::new(NoProgress)).await
        })
    };
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while store.list(&Prefix::all(), None, 10).await.expect("memory").entries.is_empty() && !run.is_finished() {
        assert!(std::time::Instant::now() < deadline, "nothing is written");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.kill();
    if let Err(error) = run.await.expect("no panic") {
        let failure = seawall_core::Failure::from(error);
        assert!(matches!(failure.kind, Kind::Unavailable), "{failure:?}");
        assert_eq!(sets(&vault).await, 0);
    }
}

#[tokio::test]
async fn a_damaged_chunk_is_refused_by_name_and_nothing_gets_the_wanted_name() {
    let server = filled();
    for copy in FORMATS {
        damaged(copy, &server).await;
    }
}

async fn damaged(copy: CopyFormat, server: &Server) {
    let store = MemoryStore::new();
    let vault = vault(&store);
    backup_as(copy, server, &server.url("shop"), &vault).await.expect("backed up");
    let page = store.list(&Prefix::all(), None, 1000).await.expect("memory");
    let key: ObjectKey = page
        .entries
        .iter()
        .map(|entry| &entry.key)
        .filter(|key| key.as_str().ends_with(".zst"))
        .max()
        .expect("chunks")
        .clone();
    let body = store.get(&key, None).await.expect("memory");
    let mut bytes = body.stream.try_collect::<Vec<_>>().await.expect("memory").concat();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    vault.put(&key, bytes.into(), None).await.expect("put");
    let failure = recover(&vault, &server.url("copy"), &options(server)).await.expect_err("damaged");
    assert_eq!((failure.kind, failure.code), (Kind::Corrupt, "archive.corrupt"));
    assert!(failure.object.ends_with(key.as_str()), "{}", failure.object);
    assert_eq!(server.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname = 'copy'"), "0");
    let found = seawall_archive::verify(&vault, Moment::default(), Arc::new(NoProgress), 2).await.expect("verified");
    assert_eq!((found.findings.len(), found.newest), (1, None));
}

#[tokio::test]
async fn the_least_privileged_role_is_enough_and_less_is_refused_with_the_grant() {
    let server = filled();
    server.sql("postgres", "CREATE ROLE backup LOGIN; CREATE ROLE nobody LOGIN");
    server.sql("shop", "CREATE TABLE secret AS SELECT 1 AS a; ALTER TABLE secret ENABLE ROW LEVEL SECURITY");
    let vault = vault(&MemoryStore::new());
    let failure = backup(&server, &server.url_as("nobody", "shop"), &vault).await.expect_err("no rights");
    assert_eq!((failure.kind, failure.code), (Kind::Denied, "postgres.permission"));
    assert!(failure.next.contains("GRANT pg_read_all_data"), "{}", failure.next);
    server.sql("postgres", "GRANT pg_read_all_data TO backup");
    let failure = backup(&server, &server.url_as("backup", "shop"), &vault).await.expect_err("row security");
    assert_eq!((failure.kind, failure.code), (Kind::Denied, "postgres.permission"));
    assert!(failure.next.contains("BYPASSRLS") && sets(&vault).await == 0, "{failure:?}");
    server.sql("postgres", "ALTER ROLE backup BYPASSRLS");
    backup(&server, &server.url_as("backup", "shop"), &vault).await.expect("backed up");
    recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
}

#[tokio::test]
async fn what_doesnt_exist_or_doesnt_answer_is_named() {
    let server = Server::start(15);
    let vault = vault(&MemoryStore::new());
    let failure = backup(&server, &server.url("nothing"), &vault).await.expect_err("no database");
    assert_eq!((failure.kind, failure.code), (Kind::NotFound, "postgres.no-database"));
    let failure = backup(&server, "postgresql://postgres@%2Fnowhere/shop", &vault).await.expect_err("no server");
    assert_eq!((failure.kind, failure.code), (Kind::Unavailable, "postgres.connection"));
    let failure = recover(&vault, &server.url("copy"), &options(&server)).await.expect_err("no set");
    assert_eq!((failure.kind, failure.code), (Kind::NotFound, "archive.no-set"));
}

/// The server reports that its disk is full. With space again, the same restore continues.
#[tokio::test]
async fn a_full_disk_under_the_target_is_told_and_the_restore_goes_on_behind_it() {
    let (from, to) = (filled(), Server::start(15));
    let vault = vault(&MemoryStore::new());
    backup(&from, &from.url("shop"), &vault).await.expect("backed up");
    // No file of its may get larger than this, in the middle of a page: the write that reaches it is cut, as on a full disk.
    to.limit_files(Some((20 << 20) + 4096));
    let failure = recover(&vault, &to.url("copy"), &options(&to)).await.expect_err("full");
    assert_eq!((failure.kind, failure.code), (Kind::Unavailable, "postgres.disk-full"), "{failure:?}");
    assert_eq!(to.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname = 'copy'"), "0");
    to.limit_files(None);
    let restored = recover(&vault, &to.url("copy"), &options(&to)).await.expect("restored");
    assert!(restored.resumed);
    assert_eq!(content(&to, "copy"), content(&from, "shop"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_without_owners_is_not_gone_on_with_by_one_with_them() {
    let server = filled();
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    server.sql("postgres", "CREATE DATABASE copy");
    let mut plainly = options(&server);
    plainly.owners = false;
    let run = {
        let (vault, url, options) = (vault.clone(), server.url("copy"), plainly.clone());
        tokio::spawn(async move { recover(&vault, &url, &options).await })
    };
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while journal(&server, "copy").is_none() {
        assert!(std::time::Instant::now() < deadline && !run.is_finished(), "it was never seen under way");
    }
    run.abort();
    let refused = recover(&vault, &server.url("copy"), &options(&server)).await.expect_err("another restore");
    assert_eq!(refused.code, "postgres.other-restore");
    let restored = recover(&vault, &server.url("copy"), &plainly).await.expect("restored");
    assert_eq!(content(&server, "copy"), content(&server, "shop"), "{restored:?}");
}
