//! A database as a script of SQL, which the vendor's client loads as well.

use std::path::PathBuf;
use std::sync::Arc;

use seawall_archive::server::Prove as _;
use seawall_archive::{RetentionPolicy, Sets};
use seawall_core::{IntegrityCheck, NoProgress, RestoreRequest, SystemClock, When};
use seawall_mysql::{Prover, RestoreOptions, World};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;

use crate::restore::{OF_MYSQL, is_as_shop, source};
use crate::restoring::{
    backup, backup_as_script, environment, everything, is_the_same, limits, options, recover, unfinished,
};
use crate::server::{Server, target};
use crate::support::vault;

/// As the script itself says that it is loaded.
const CLIENT: [&str; 3] = ["--default-character-set=utf8mb4", "--binary-mode", "--comments"];

/// Exports the script of the newest set.
async fn export(vault: &Vault, server: &Server) -> PathBuf {
    let output = PathBuf::from(server.file("export.sql"));
    let request = RestoreRequest {
        when: When::Latest,
        output: output.clone(),
        integrity: IntegrityCheck::None,
        dry_run: false,
        force: true,
    };
    let sets = Sets::new(vault.clone(), None::<RetentionPolicy>, Arc::new(SystemClock), 0, 2);
    let exported = sets.export(&request, Arc::new(NoProgress)).await.expect("exported");
    assert!(exported.is_some(), "a script");
    output
}

#[tokio::test(flavor = "multi_thread")]
async fn the_vendors_client_loads_everything_from_a_script() {
    let server = source();
    let vault = vault(&MemoryStore::default());
    let dumped = backup_as_script(&server.url("shop"), &vault).await.expect("a backup");
    assert_eq!(dumped.manifest.artefact.as_deref(), Some("plain"));
    let script = export(&vault, &server).await;
    server.sql("CREATE DATABASE loaded CHARACTER SET latin1 COMMENT 'the shop''s'");
    assert_eq!(server.load_file("loaded", &script, &CLIENT), Ok(()));
    is_the_same(&everything(&server, "loaded"), &everything(&server, "shop"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_is_restored_like_any_other_set() {
    let server = source();
    let vault = vault(&MemoryStore::default());
    backup_as_script(&server.url("shop"), &vault).await.expect("a backup");
    let before = everything(&server, "shop");
    for (infile, name) in [("ON", "copy"), ("OFF", "again")] {
        server.sql(&format!("SET GLOBAL local_infile = {infile}"));
        let restored = recover(&vault, &server.url(name), &options()).await.expect("a restore");
        assert!(restored.refused.is_empty(), "{:?}", restored.refused);
        is_the_same(&everything(&server, name), &before);
    }
    let one = RestoreOptions { tables: vec!["kinds".to_owned()], ..options() };
    recover(&vault, &server.url("one"), &one).await.expect("a table");
    assert_eq!(server.sql("SELECT table_name FROM information_schema.tables WHERE table_schema = 'one'"), "kinds");
    let sum = |database: &str| {
        server.sql(&format!("CHECKSUM TABLE {database}.kinds")).split_once('\t').map(|sum| sum.1.to_owned())
    };
    assert_eq!(sum("one"), sum("shop"));
    server.sql("TRUNCATE TABLE one.kinds");
    let rows = RestoreOptions { data_only: true, ..one };
    recover(&vault, &server.url("one"), &rows).await.expect("its rows");
    assert_eq!(sum("one"), sum("shop"));
    assert_eq!(unfinished(&server), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_is_proved() {
    let server = source();
    let vault = vault(&MemoryStore::default());
    let dumped = backup_as_script(&server.url("shop"), &vault).await.expect("a backup");
    let prover = Prover { to: Some(target(&server.url(""))), world: World::real(environment()) };
    let when = When::Position(dumped.manifest.id.to_string());
    let proved = prover.prove(&vault, &when, &limits(), Arc::new(NoProgress)).await.expect("a proof");
    assert!(proved.findings.is_empty(), "{:?}", proved.findings);
    let rows =
        "SELECT SUM(n) FROM (SELECT COUNT(*) AS n FROM shop.kinds UNION ALL SELECT COUNT(*) FROM shop.parent) AS t";
    assert!(proved.rows >= server.sql(rows).parse().expect("a number"), "{proved:?}");
    assert_eq!(proved.not_compared, Some("the statements of the script around its rows"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_of_a_whole_server_or_with_a_command_for_the_client_is_refused() {
    let server = Server::start();
    let store = MemoryStore::default();
    server.sql("CREATE DATABASE d");
    let failure = backup_as_script(&server.url(""), &vault(&store)).await.expect_err("a whole server");
    assert_eq!(failure.code, "mysql.vendor-format");
    server.sql(r"CREATE PROCEDURE d.q() SELECT '\\! id'");
    backup_as_script(&server.url("d"), &vault(&store)).await.expect("within quotes it is no command");
    // The client takes the backslash of a name for an escape, and then finds itself outside of quotes.
    let hostile = PathBuf::from(server.file("hostile.sql"));
    let sql = "SET sql_mode = 'ANSI_QUOTES';\nCREATE PROCEDURE p() SELECT 1 AS \"a\\\", 2 AS \" \\! touch x \";\n";
    std::fs::write(&hostile, sql).expect("written");
    let made = server.load_file("d", &hostile, &["--binary-mode"]);
    assert!(made.is_ok(), "{made:?}");
    let failure = backup_as_script(&server.url("d"), &vault(&store)).await.expect_err("a command");
    assert_eq!((failure.code, failure.object.as_str()), ("mysql.vendor-format", "procedure d.p"));
    backup(&server.url("d"), &vault(&MemoryStore::default())).await.expect("Seawall's own format has it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_of_mysql_8_is_loaded_by_a_client() {
    let Some(server) = crate::mysql8::start() else { return };
    server.sql("SET GLOBAL log_bin_trust_function_creators = 1");
    server.sql(OF_MYSQL);
    let vault = vault(&MemoryStore::default());
    backup_as_script(&server.url("shop"), &vault).await.expect("a backup");
    let script = export(&vault, &server).await;
    let text = std::fs::read(&script).expect("read");
    assert!(!text.windows(8).any(|part| part == b"M!999999"), "MySQL's client refuses the sandbox line");
    server.sql("CREATE DATABASE loaded CHARACTER SET latin1");
    assert_eq!(server.load_file("loaded", &script, &CLIENT), Ok(()));
    let restored = recover(&vault, &server.url("copy"), &options()).await.expect("a restore");
    assert!(restored.refused.is_empty(), "{:?}", restored.refused);
    for name in ["loaded", "copy"] {
        is_as_shop(&server, name);
    }
}
