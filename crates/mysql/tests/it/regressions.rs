//! Defects that were seen in other tools for MySQL and MariaDB, each as a test.

use seawall_core::Kind;
use seawall_mysql::RestoreOptions;
use seawall_vault::memory::MemoryStore;

use crate::restoring::{backup, everything, is_the_same, options, recover};
use crate::server::Server;
use crate::support::vault;

/// The server's estimate of rows says that a table is empty. A tool that believes it leaves the table out.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_whose_estimated_number_of_rows_is_zero_is_read() {
    let mut server = Server::start_with(&["--innodb-flush-log-at-trx-commit=1"]);
    server.sql(
        "CREATE DATABASE shop; CREATE TABLE shop.t (id int PRIMARY KEY) STATS_PERSISTENT=1 STATS_AUTO_RECALC=0; ANALYZE TABLE shop.t; \
         INSERT INTO shop.t VALUES (1), (2), (3)",
    );
    let estimate = "SELECT table_rows FROM information_schema.tables WHERE table_schema = 'shop'";
    server.sql("UPDATE mysql.innodb_table_stats SET n_rows = 0");
    // A server reads them when it opens the table for the first time.
    server.kill_9();
    server.start_again();
    assert_eq!(server.sql(estimate), "0");
    assert_eq!(server.sql("SELECT COUNT(*) FROM shop.t"), "3");
    let vault = vault(&MemoryStore::new());
    let dumped = backup(&server.url("shop"), &vault).await.expect("backed up");
    assert_eq!(dumped.manifest.totals.rows, 3);
    recover(&vault, &server.url("copy"), &options()).await.expect("restored");
    assert_eq!(server.sql("SELECT GROUP_CONCAT(id) FROM copy.t"), "1,2,3");
}

/// A count of rows reads each table twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_reads_each_row_once() {
    let server = Server::start();
    crate::link::make_small(&server);
    server.sql("SET GLOBAL log_output = 'TABLE', general_log = 1");
    let vault = vault(&MemoryStore::new());
    backup(&server.url("shop"), &vault).await.expect("backed up");
    server.sql("SET GLOBAL general_log = 0");
    let of = |what: &str| {
        server.sql(&format!(
            "SELECT COUNT(*) FROM mysql.general_log WHERE command_type = 'Query' AND argument LIKE '{what}'"
        ))
    };
    assert_eq!(
        (of("%COUNT(%"), of("SELECT%FROM `shop`.`a`%"), of("SELECT%FROM `shop`.`no_key`%")),
        ("0".into(), "1".into(), "1".into())
    );
    recover(&vault, &server.url("copy"), &options()).await.expect("restored");
    is_the_same(&everything(&server, "copy"), &everything(&server, "shop"));
}

/// A name is neither guessed from a file's, nor cut at a dot, nor put into a statement as it is.
#[tokio::test(flavor = "multi_thread")]
async fn databases_and_tables_keep_their_names_whatever_these_are() {
    let server = Server::start();
    for database in ["9.10.3_prod", "-dash", "a b", "100%", "it's", "表", "select", "b`tick", "new\nline", "x.sql.gz"]
    {
        let quoted = format!("`{}`", database.replace('`', "``"));
        server.sql(&format!(
            "CREATE DATABASE {quoted}; CREATE TABLE {quoted}.{quoted} ({quoted} int PRIMARY KEY); INSERT INTO {quoted}.{quoted} VALUES (1), (2)"
        ));
        let escaped: String = database.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let vault = vault(&MemoryStore::new());
        let dumped = backup(&server.url(&escaped), &vault).await.expect("backed up");
        assert_eq!((dumped.databases, dumped.manifest.totals.rows), (vec![database.to_owned()], 2));
        server.sql(&format!("DROP DATABASE {quoted}"));
        recover(&vault, &server.url(&escaped), &options()).await.expect("restored");
        assert_eq!(server.sql(&format!("SELECT SUM({quoted}) FROM {quoted}.{quoted}")), "3", "{database}");
    }
}

/// A set counts what is there, and says how long it took.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_and_a_restore_tell_their_own_numbers() {
    let server = Server::start();
    server.sql("CREATE DATABASE shop; USE shop; CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT seq, REPEAT('x', 500) FROM seq_1_to_20000");
    let vault = vault(&MemoryStore::new());
    let started = std::time::Instant::now();
    let dumped = backup(&server.url("shop"), &vault).await.expect("backed up");
    let took = started.elapsed();
    assert_eq!(dumped.manifest.totals.rows, 20_000);
    assert!(dumped.manifest.totals.raw > 20_000 * 500 && dumped.manifest.totals.chunks > 0);
    assert!(dumped.duration_ms > 0 && u128::from(dumped.duration_ms) <= took.as_millis());
    let restored = recover(&vault, &server.url("copy"), &options()).await.expect("restored");
    assert_eq!(restored.manifest.totals.rows, 20_000);
    is_the_same(&everything(&server, "copy"), &everything(&server, "shop"));
}

/// Each value that the target changes or refuses ends the restore; a table is never left empty with success.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_the_target_changes_or_refuses_end_the_restore_with_an_error() {
    let server = Server::start();
    server.sql(
        "CREATE DATABASE shop; CREATE TABLE shop.t (id int PRIMARY KEY, v varchar(20), d decimal(20,10), g geometry, b bit(20)); \
         INSERT INTO shop.t VALUES (1, 'short', 1.5, POINT(1, 2), b'1'), (2, 'longer than ten', 1234567890.0123456789, NULL, b'10000000000000000001')",
    );
    let vault = vault(&MemoryStore::new());
    backup(&server.url("shop"), &vault).await.expect("backed up");
    let rows = RestoreOptions { data_only: true, ..options() };
    for (number, column) in
        ["v varchar(10)", "d decimal(10,2)", "g geometry NOT NULL", "b bit(3)", "id tinyint(1) CHECK (id < 2)"]
            .iter()
            .enumerate()
    {
        let name = column.split(' ').next().expect("a name");
        let to = format!("copy_{number}");
        server.sql(&format!(
            "CREATE DATABASE {to}; CREATE TABLE {to}.t LIKE shop.t; ALTER TABLE {to}.t MODIFY {name} {}",
            &column[name.len()..]
        ));
        let done = recover(&vault, &server.url(&to), &rows).await;
        if name == "id" {
            // Checks of the target aren't asked, because the source has checked its own: but each row is there.
            done.expect("restored");
            assert_eq!(server.sql(&format!("SELECT COUNT(*) FROM {to}.t")), "2");
            continue;
        }
        let failure = done.expect_err(column);
        assert!(matches!(failure.kind, Kind::Refused | Kind::Corrupt), "{column}: {failure:?}");
        assert_eq!(server.sql(&format!("SELECT COUNT(*) FROM {to}.t")), "0", "{column}");
    }
    recover(&vault, &server.url("whole"), &options()).await.expect("restored");
    is_the_same(&everything(&server, "whole"), &everything(&server, "shop"));
}
