//! Backups by a schedule, as the agent runs them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use seawall_archive::{Catalog, RetentionPolicy, Schedule, Scheduled, Sets};
use seawall_core::abilities::*;
use seawall_core::{Phase, Shutdown, Status, SystemClock, Thinning, When};
use seawall_postgres::{DumpOptions, Source, World};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{environment, limits, options, recover, target, vault};

fn engine(server: &Server, vault: &Vault, database: &str, schedule: &str) -> Arc<Scheduled> {
    let options = DumpOptions { limits: limits(server), ..DumpOptions::default() };
    let schedule = Schedule::parse(schedule, "shop").expect("a schedule");
    let source = Source { target: target(&server.url(database)), options, world: World::real(environment()) };
    let policy = RetentionPolicy {
        enabled: true,
        window: Some(Duration::ZERO),
        thinning: Thinning { minimum: 2, ..Thinning::default() },
        grace: Duration::ZERO,
    };
    let sets = Sets::new(vault.clone(), Some(policy), Arc::new(SystemClock), 1, 2);
    Arc::new(Scheduled::new("shop".to_owned(), Arc::new(source), schedule, sets, Arc::new(SystemClock)))
}

async fn until(engine: &Scheduled, what: &str, is_so: impl Fn(&Status) -> bool) -> Status {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let status = engine.known_status().await.expect("a status");
        if is_so(&status) {
            return status;
        }
        assert!(Instant::now() < deadline, "it doesn't come to {what}: {status:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn the_first_backup_is_made_at_once_and_others_when_they_are_asked_for_and_old_ones_go() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", "CREATE TABLE t AS SELECT 1 AS a");
    let store = MemoryStore::new();
    let vault = vault(&store);
    let (engine, shutdown) = (engine(&server, &vault, "shop", "0 0 1 1 *"), Shutdown::new());
    assert_eq!(engine.sync().await.expect_err("nobody runs").code, "postgres.not-running");
    let running = {
        let (engine, shutdown) = (Arc::clone(&engine), shutdown.clone());
        tokio::spawn(async move { engine.run(&shutdown).await })
    };
    let first = until(&engine, "a backup", |status| status.protected.is_some()).await;
    assert_eq!((first.phase, first.lag_ms, first.error), (Phase::Protecting, 0, None));
    let mut last = first.protected;
    for a in 2..=4 {
        server.sql("shop", &format!("UPDATE t SET a = {a}"));
        let point = engine.sync().await.expect("backed up");
        assert!(Some(&point) != last.as_ref(), "another one");
        last = Some(point);
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    while Catalog::read(&vault).await.expect("read").sets().len() > 2 {
        assert!(Instant::now() < deadline, "two stay");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    shutdown.begin();
    running.await.expect("it ends").expect("it ends well");
    assert_eq!(engine.status().await.expect("from the vault").protected, last);
    assert_eq!(engine.status().await.expect("from the vault").phase, Phase::Stopped);
    recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
    assert_eq!(server.sql("copy", "SELECT a FROM t"), "4");
    assert_eq!(engine.history().timeline().await.expect("read").spans.len(), 2);
    let pins = engine.history().pins().expect("points can be pinned");
    assert!(
        pins.pin(&When::Latest, true).await.is_ok_and(|position| Some(position) == last.map(|point| point.position))
    );
}

#[tokio::test]
async fn a_backup_that_fails_is_told_and_made_when_it_can_be() {
    let server = Server::start(15);
    let vault = vault(&MemoryStore::new());
    let (engine, shutdown) = (engine(&server, &vault, "shop", "* * * * *"), Shutdown::new());
    let running = {
        let (engine, shutdown) = (Arc::clone(&engine), shutdown.clone());
        tokio::spawn(async move { engine.run(&shutdown).await })
    };
    let failing = until(&engine, "a failure", |status| status.error.is_some() && status.phase == Phase::Failing).await;
    assert_eq!(failing.error.map(|error| error.code), Some("postgres.no-database".to_owned()));
    server.sql("postgres", "CREATE DATABASE shop");
    // Whoever mended it needn't wait.
    engine.sync().await.expect("backed up");
    let well = until(&engine, "protecting", |status| status.phase == Phase::Protecting).await;
    assert_eq!(well.error, None);
    shutdown.begin();
    running.await.expect("it ends").expect("it ends well");
}
