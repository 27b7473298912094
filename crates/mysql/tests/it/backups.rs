//! Backups that end anywhere: our process, its connections, or the server. Nothing is held afterwards, nothing counts, and the
//! next backup is whole.

use std::time::Duration;

use seawall_archive::Catalog;
use seawall_core::Failure;
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;

use crate::link::{Link, broke, make_small, nothing_is_held, random};
use crate::restoring::{backup, everything, is_the_same, options, recover, unfinished};
use crate::server::Server;
use crate::support::vault;

async fn sets(vault: &Vault) -> usize {
    Catalog::read(vault).await.expect("read").sets().len()
}

/// Restores the newest set, and insists that it is the database as it was.
async fn comes_back(server: &Server, vault: &Vault, before: &[String]) {
    recover(vault, &server.url("copy"), &options()).await.expect("restored");
    is_the_same(&everything(server, "copy"), before);
    assert_eq!(unfinished(server), "");
}

/// How a backup ends at a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Its connections are cut, and it says so.
    Network,
    /// It is gone at once, as behind `kill -9`.
    Process,
}

/// Backs up, and ends it at the statement of this number; `None`: there are fewer.
async fn end_at(link: &Link, vault: &Vault, statement: u64, end: End) -> Option<Failure> {
    link.cable.mend();
    match statement % 2 {
        0 => link.cable.cut_before(statement),
        _ => link.cable.cut_behind(statement),
    }
    let (vault, url) = (vault.clone(), link.url("shop"));
    let mut run = tokio::spawn(async move { backup(&url, &vault).await });
    if end == End::Process {
        let cable = link.cable.clone();
        let trouble = tokio::task::spawn_blocking(move || cable.wait_for_trouble(Duration::from_secs(60)));
        tokio::select! {
            _ = trouble => run.abort(),
            done = &mut run => return done.expect("no panic").err(),
        }
    }
    match run.await {
        Ok(done) => done.err(),
        Err(_) => Some(Failure::new(seawall_core::Kind::Unavailable, "mysql.away", "", "killed", "")),
    }
}

async fn end_everywhere(server: &Server) {
    make_small(server);
    let before = everything(server, "shop");
    let (link, vault) = (Link::to(server), vault(&MemoryStore::new()));
    let mut ended = 0;
    let mut random = random();
    // Each run of the test takes a third of the statements.
    for statement in (random.u64(0..3)..).step_by(3) {
        let end = if random.bool() { End::Network } else { End::Process };
        let Some(failure) = end_at(&link, &vault, statement, end).await else { break };
        assert!(broke(&failure), "{statement} {end:?}: {failure:?}");
        assert_eq!(sets(&vault).await, 0, "{statement} {end:?}");
        nothing_is_held(server);
        ended += 1;
    }
    assert!(ended > 20, "{ended}");
    assert_eq!(sets(&vault).await, 1);
    nothing_is_held(server);
    comes_back(server, &vault, &before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_ends_at_any_statement_holds_nothing_and_the_next_one_is_whole() {
    end_everywhere(&Server::start_with(&["--log-bin", "--server-id=3"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_mysql_8_that_ends_at_any_statement_holds_nothing_and_the_next_one_is_whole() {
    let Some(server) = crate::mysql8::start() else { return };
    server.sql("SET GLOBAL log_bin_trust_function_creators = 1");
    end_everywhere(&server).await;
}
