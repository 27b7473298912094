//! Settings of a server, swept: under each of them a set is made and a set is restored, and both are what they are without it.

use std::collections::BTreeSet;

use seawall_vault::memory::MemoryStore;

use super::facts::Catalog;
use crate::restoring::{backup, options, recover};
use crate::server::Server;
use crate::support::vault;

/// A variable of a server, and a value as a statement takes it.
type Setting = (&'static str, &'static str);

/// A database whose texts, dates and statements some settings would change.
const SOURCE: &str = r#"CREATE DATABASE d CHARACTER SET utf8mb4; USE d;
SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', SESSION time_zone = '+00:00';
CREATE TABLE t (id int NOT NULL AUTO_INCREMENT PRIMARY KEY, c char(9), v varchar(30) DEFAULT 'a\\b"c', t timestamp NULL,
  t2 timestamp(6) NOT NULL DEFAULT current_timestamp(6), f float, e enum('a','b') NOT NULL, x varbinary(9), dt datetime(6), KEY (c), KEY (v(3))) COMMENT='x\\y"';
INSERT INTO t VALUES (0, 'a  ', 'b\\c"''', '2024-01-01 00:00:00', '2024-03-31 01:30:00.123456', 0.1, 'a', x'5c27', '2020-02-31'),
  (5, '', '', NULL, '2024-03-31 02:30:00', 1e10, 'b', '', '0000-00-00');
CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES parent (id));
INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1, 1);
CREATE TABLE no_key (a int, b text); INSERT INTO no_key VALUES (1, REPEAT('x', 1000)), (2, ''), (2, '');
CREATE TABLE old (a int, b text, KEY (a)) ENGINE=MyISAM; INSERT INTO old VALUES (1, 'x'), (2, 'y');
CREATE VIEW v AS SELECT id, concat(c, '"') AS x FROM t WHERE c <> 'a''b';
CREATE FUNCTION f1(a int) RETURNS varchar(20) DETERMINISTIC RETURN concat('x"\\', a);
CREATE PROCEDURE pr() SELECT "q", 'a' || 'b';
CREATE TRIGGER tr BEFORE INSERT ON parent FOR EACH ROW SET @x = "a";
CREATE EVENT ev ON SCHEDULE EVERY 1 DAY STARTS '2031-01-01 00:00:00' DISABLE DO SELECT "q";
"#;

/// Settings that both families have, each with a value that may change what is read or written.
const OF_BOTH: &[Setting] = &[
    ("sql_mode", "'ANSI_QUOTES,PIPES_AS_CONCAT,IGNORE_SPACE,HIGH_NOT_PRECEDENCE'"),
    ("sql_mode", "'NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'"),
    ("sql_mode", "'TRADITIONAL'"),
    ("character_set_connection", "utf16"),
    ("character_set_results", "ucs2"),
    ("character_set_client", "latin1"),
    ("collation_server", "utf8mb4_bin"),
    ("time_zone", "'+07:00'"),
    ("explicit_defaults_for_timestamp", "0"),
    ("group_concat_max_len", "4"),
    ("sql_select_limit", "1"),
    ("sql_safe_updates", "1"),
    ("max_join_size", "1"),
    ("init_connect", "'SET autocommit = 0, sql_mode = ''ANSI_QUOTES''; START TRANSACTION'"),
    ("autocommit", "0"),
    ("completion_type", "2"),
    ("default_storage_engine", "MyISAM"),
    ("innodb_strict_mode", "0"),
    ("foreign_key_checks", "0"),
    ("unique_checks", "0"),
    ("div_precision_increment", "0"),
    ("net_write_timeout", "1"),
    ("wait_timeout", "1"),
    ("transaction_isolation", "'READ-UNCOMMITTED'"),
    ("local_infile", "0"),
    ("max_error_count", "0"),
    ("sql_notes", "0"),
    ("sql_auto_is_null", "1"),
    ("sql_quote_show_create", "0"),
    ("auto_increment_increment", "7"),
    ("max_allowed_packet", "1048576"),
    ("old_alter_table", "1"),
    ("big_tables", "1"),
];

/// MariaDB's own.
const OF_MARIADB: &[Setting] = &[
    ("sql_mode", "'ORACLE'"),
    ("sql_mode", "'EMPTY_STRING_IS_NULL,SIMULTANEOUS_ASSIGNMENT,TIME_ROUND_FRACTIONAL'"),
    ("old_mode", "''"),
    ("old_mode", "'NO_DUP_KEY_WARNINGS_WITH_IGNORE,ZERO_DATE_TIME_CAST,COMPAT_5_1_CHECKSUM'"),
    ("max_statement_time", "0.001"),
    ("tx_read_only", "1"),
    ("alter_algorithm", "'INSTANT'"),
    ("enforce_storage_engine", "Aria"),
    ("sql_if_exists", "1"),
    ("system_versioning_asof", "'2001-01-01'"),
    ("idle_transaction_timeout", "1"),
    ("innodb_compression_default", "1"),
    ("lc_messages", "'de_DE'"),
];

/// MySQL's own.
const OF_MYSQL: &[Setting] = &[
    ("sql_mode", "'TIME_TRUNCATE_FRACTIONAL'"),
    ("max_execution_time", "1"),
    ("transaction_read_only", "1"),
    ("show_create_table_verbosity", "1"),
    ("sql_require_primary_key", "1"),
    ("sql_generate_invisible_primary_key", "1"),
    ("default_collation_for_utf8mb4", "utf8mb4_general_ci"),
    ("show_old_temporals", "1"),
    ("information_schema_stats_expiry", "86400"),
];

/// Sets a variable of the server; false where it can't be set. A limit of a millisecond may end the statement that lifts it.
fn set(server: &Server, name: &str, value: &str) -> bool {
    (0..100).any(|_| server.try_sql(&format!("SET GLOBAL {name} = {value}")).is_some())
}

/// In how many rounds settings are swept.
const ROUNDS: usize = 5;

/// The settings of each round: none twice in one.
fn rounds(settings: &[&[Setting]]) -> Vec<Vec<Setting>> {
    let mut rounds: Vec<Vec<Setting>> = vec![Vec::new(); ROUNDS];
    for (place, setting) in settings.iter().copied().flatten().enumerate() {
        let mut places = (0..ROUNDS).map(|more| (place + more) % ROUNDS);
        let round = places.find(|round| rounds[*round].iter().all(|(name, _)| *name != setting.0));
        rounds[round.expect("a round without it")].push(*setting);
    }
    rounds
}

async fn sweep(server: &Server, settings: &[&[Setting]]) {
    server.script(SOURCE);
    let catalog = Catalog::of(server);
    let expected = catalog.facts("d");
    let clean = vault(&MemoryStore::default());
    backup(&server.url("d"), &clean).await.expect("a backup");
    let mut swept = 0;
    for round in rounds(settings) {
        let mut before = Vec::new();
        for (name, value) in &round {
            let Some(was) = server.try_sql(&format!("SELECT @@GLOBAL.{name}")) else { continue };
            if set(server, name, value) {
                let is_word = matches!(&*was, "NULL" | "DEFAULT") || was.parse::<f64>().is_ok();
                before.push((name, if is_word { was } else { format!("'{was}'") }));
            }
        }
        let under = vault(&MemoryStore::default());
        let made = backup(&server.url("d"), &under).await;
        let restored = recover(&clean, &server.url("copy"), &options()).await;
        for (name, was) in before.iter().rev() {
            assert!(set(server, name, was), "{name} is {was} again");
        }
        made.unwrap_or_else(|failure| panic!("a backup under {round:?}: {failure:?}"));
        restored.unwrap_or_else(|failure| panic!("a restore under {round:?}: {failure:?}"));
        recover(&under, &server.url("again"), &options()).await.expect("a restore");
        for copy in ["copy", "again"] {
            let found: BTreeSet<String> = catalog.facts(copy).iter().map(|line| line.replace(copy, "d")).collect();
            let lost: Vec<_> = expected.difference(&found).collect();
            assert!(lost.is_empty() && expected.len() == found.len(), "{copy} under {round:?}: {lost:#?}");
            server.sql(&format!("DROP DATABASE {copy}"));
        }
        swept += before.len();
    }
    assert!(swept > 35, "{swept} settings were swept");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_setting_of_mariadb_changes_what_is_kept() {
    let options = ["--event-scheduler=OFF", "--log-bin-trust-function-creators=1"];
    sweep(&Server::start_with(&options), &[OF_BOTH, OF_MARIADB]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_setting_of_mysql_changes_what_is_kept() {
    let options = ["--event-scheduler=OFF", "--log-bin-trust-function-creators=1"];
    let Some(server) = crate::mysql8::start_with(&options) else { return };
    sweep(&server, &[OF_BOTH, OF_MYSQL]).await;
}
