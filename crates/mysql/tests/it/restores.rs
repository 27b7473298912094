//! Restores that end anywhere: at any statement, and at any byte. The same command goes on, and each row is there once.

use std::time::Duration;

use seawall_core::Failure;
use seawall_mysql::{RestoreOptions, Restored};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;

use crate::link::{Link, broke, make_small, nothing_is_held, random};
use crate::restoring::{backup, everything, is_the_same, options, recover, unfinished};
use crate::server::Server;
use crate::support::vault;

/// Restores until it is done. While the server hasn't noticed that an earlier session is gone, it waits.
async fn until_done(vault: &Vault, url: &str, options: &RestoreOptions) -> Result<Restored, Failure> {
    for _ in 0..200 {
        match recover(vault, url, options).await {
            Err(failure) if failure.code == "mysql.restore-running" => {}
            done => return done,
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the session of an earlier restore stays")
}

/// Restores into a database, and ends it at the statement of this number. `None`: there are fewer.
async fn end_at(
    link: &Link,
    database: &str,
    vault: &Vault,
    statement: u64,
    is_killed: bool,
    options: &RestoreOptions,
) -> Option<Result<Restored, Failure>> {
    link.cable.mend();
    match statement % 2 {
        0 => link.cable.cut_before(statement),
        _ => link.cable.cut_behind(statement),
    }
    let (vault, url, options, cable) = (vault.clone(), link.url(database), options.clone(), link.cable.clone());
    let mut run = tokio::spawn(async move { recover(&vault, &url, &options).await });
    if is_killed {
        let trouble = tokio::task::spawn_blocking(move || cable.wait_for_trouble(Duration::from_secs(60)));
        tokio::select! {
            _ = trouble => run.abort(),
            done = &mut run => return Some(done.expect("no panic")),
        }
    }
    run.await.ok()
}

/// Ends restores at one of `step` statements.
async fn end_everywhere(server: &Server, step: u64) {
    make_small(server);
    let before = everything(server, "shop");
    let (link, vault) = (Link::to(server), vault(&MemoryStore::new()));
    backup(&server.url("shop"), &vault).await.expect("backed up");
    let clean = RestoreOptions { clean: true, ..options() };
    let (mut ended, mut resumed) = (0, 0);
    let mut random = random();
    for number in (random.u64(0..step)..).step_by(usize::try_from(step).expect("few")) {
        server.sql("CREATE DATABASE IF NOT EXISTS copy; CREATE TABLE IF NOT EXISTS copy.precious (a int)");
        let first = end_at(&link, "copy", &vault, number, random.bool(), &clean).await;
        let is_done = matches!(first, Some(Ok(_)));
        if let Some(Err(failure)) = &first {
            assert!(broke(failure), "{number}: {failure:?}");
        }
        if !is_done {
            // It may end once more on its way.
            let restored = match end_at(&link, "copy", &vault, number / 2, random.bool(), &clean).await {
                Some(Ok(restored)) => restored,
                second => {
                    let is_expected = |failure: &Failure| broke(failure) || failure.code == "mysql.restore-running";
                    assert!(second.as_ref().is_none_or(|done| done.as_ref().is_err_and(is_expected)), "{second:?}");
                    link.cable.mend();
                    until_done(&vault, &link.url("copy"), &clean).await.expect("restored")
                }
            };
            resumed += u32::from(restored.resumed);
            ended += 1;
        }
        nothing_is_held(server);
        is_the_same(&everything(server, "copy"), &before);
        assert_eq!(unfinished(server), "", "{number}");
        if is_done {
            break;
        }
    }
    assert!(ended > 5 && resumed > ended / 2, "{ended} {resumed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_ends_at_any_statement_goes_on_and_does_each_step_once() {
    end_everywhere(&Server::start(), 11).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_into_mysql_8_that_ends_at_any_statement_goes_on_and_does_each_step_once() {
    let Some(server) = crate::mysql8::start() else { return };
    server.sql("SET GLOBAL log_bin_trust_function_creators = 1");
    end_everywhere(&server, 17).await;
}

/// Every account and database comes back once, with its rights, and none of them counts as one that was there before.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_of_a_whole_server_that_ends_at_any_statement_goes_on() {
    let (server, other) = (Server::start(), Server::start());
    make_small(&server);
    server.sql(
        "CREATE DATABASE second; CREATE TABLE second.t (a int PRIMARY KEY); INSERT INTO second.t VALUES (1), (2); \
         CREATE VIEW second.v AS SELECT * FROM second.t; CREATE USER app@localhost IDENTIFIED BY 'x'; \
         GRANT SELECT ON shop.* TO app@localhost; GRANT UPDATE (a) ON second.t TO app@localhost",
    );
    let grants = "SHOW GRANTS FOR app@localhost";
    let before = (everything(&server, "shop"), everything(&server, "second"), server.sql(grants));
    let (link, vault) = (Link::to(&other), vault(&MemoryStore::new()));
    backup(&server.url(""), &vault).await.expect("backed up");
    let mut random = random();
    let (mut ended, step) = (0, 17);
    for number in (random.u64(0..step)..).step_by(17) {
        let first = end_at(&link, "", &vault, number, random.bool(), &options()).await;
        let is_done = matches!(first, Some(Ok(_)));
        if !is_done {
            link.cable.mend();
            // A run that ended behind its last statement has left nothing to go on with: then everything is there already.
            let restored = until_done(&vault, &link.url(""), &options()).await;
            match restored {
                Ok(restored) => {
                    let is_taken_for_anothers = restored.kept.iter().any(|(what, _)| what == "account app@localhost");
                    assert!(!is_taken_for_anothers, "{number}: {:?}", restored.kept);
                }
                Err(failure) => assert_eq!((failure.code, unfinished(&other).as_str()), ("mysql.not-ready", "")),
            }
            ended += 1;
        }
        nothing_is_held(&other);
        is_the_same(&everything(&other, "shop"), &before.0);
        is_the_same(&everything(&other, "second"), &before.1);
        assert_eq!(other.sql(grants), before.2, "{number}");
        assert_eq!(unfinished(&other), "", "{number}");
        other.sql("DROP DATABASE shop; DROP DATABASE second; DROP USER app@localhost");
        if is_done {
            break;
        }
    }
    assert!(ended > 5, "{ended}");
}
