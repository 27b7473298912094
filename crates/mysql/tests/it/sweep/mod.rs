//! A server's catalog, swept: each thing that can be set is set to another value than the default, backed up and restored into a
//! fresh server. The yardstick is the source, and where something differs, the vendor's own dump of the same and its load.

mod facts;
mod mariadb;
mod mysql;
mod settings;

use std::collections::BTreeSet;

use seawall_vault::memory::MemoryStore;

use crate::restoring::{backup, options, recover, unfinished};
use crate::server::Server;
use crate::support::vault;

use facts::Catalog;
pub(crate) use facts::globals;

/// Fills a server.
pub(crate) fn fill(server: &Server, databases: &[(&str, &str)]) {
    for (database, statements) in databases {
        server.script(&format!("CREATE DATABASE `{database}`; USE `{database}`;\n{statements}\n"));
    }
}

/// The lines of each database that the source has, and another server hasn't.
pub(crate) fn lost(source: &Server, other: &Server, databases: &[(&str, &str)]) -> Vec<(String, String)> {
    let (source, other) = (Catalog::of(source), Catalog::of(other));
    let of = |database: &str| {
        let (expected, found) = (source.facts(database), other.facts(database));
        let difference: Vec<_> = expected.difference(&found).map(|line| (database.to_owned(), line.clone())).collect();
        // What is there and wasn't is as wrong; a difference in one direction has another in the other.
        let more: Vec<_> = found.difference(&expected).collect();
        assert!(more.is_empty() || !difference.is_empty(), "{database}: {more:?}");
        difference
    };
    databases.iter().flat_map(|(database, _)| of(database)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_of_mariadbs_catalog_comes_back() {
    let options_of_server = ["--plugin-load-add=ha_archive", "--plugin-load-add=ha_blackhole"];
    let [source, target, stock] = [(); 3].map(|()| Server::start_with(&options_of_server));
    fill(&source, mariadb::DATABASES);
    let vault = vault(&MemoryStore::default());
    backup(&source.url(""), &vault).await.expect("a backup");
    let restored = recover(&vault, &target.url(""), &options()).await.expect("a restore");
    let refused: Vec<&str> = restored.refused.iter().map(|(what, _)| what.as_str()).collect();
    assert_eq!(refused, ["event events.e4", "event events.e5"], "their last moments have passed");
    let lost_here = lost(&source, &target, mariadb::DATABASES);
    let databases: BTreeSet<&str> = lost_here.iter().map(|(database, _)| database.as_str()).collect();
    // Two events that a server drops at once, and a history that counts the source's transactions.
    assert_eq!(databases, BTreeSet::from(["events", "versions"]), "{lost_here:#?}");
    assert!(
        lost_here.iter().all(|(_, line)| ["e4", "e5", "trx"].iter().any(|named| line.contains(named))),
        "{lost_here:#?}"
    );

    let names: Vec<&str> = mariadb::DATABASES.iter().map(|(name, _)| *name).collect();
    stock.load_by_vendor(&source.dump_by_vendor(&names));
    let lost_there: BTreeSet<(String, String)> = lost(&source, &stock, mariadb::DATABASES).into_iter().collect();
    for line in &lost_here {
        assert!(lost_there.contains(line), "the vendor's own dump keeps it: {line:?}");
    }
    assert!(lost_there.len() > lost_here.len(), "the yardstick is read");
    let gathered = "SELECT db_name, table_name, column_name, hist_size FROM mysql.column_stats ORDER BY 1, 2, 3";
    assert_eq!((target.sql(gathered), unfinished(&target)), (source.sql(gathered), String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_of_mysqls_catalog_comes_back() {
    let start = || crate::mysql8::start_with(&["--event-scheduler=OFF", "--log-bin-trust-function-creators=1"]);
    let (Some(source), Some(target)) = (start(), start()) else { return };
    fill(&source, mysql::DATABASES);
    let vault = vault(&MemoryStore::default());
    backup(&source.url(""), &vault).await.expect("a backup");
    let failure = recover(&vault, &target.url(""), &options()).await.expect_err("a tablespace is missing");
    assert_eq!(failure.code, "mysql.not-ready");
    let mend = "CREATE TABLESPACE `ts1` ADD DATAFILE 'ts1.ibd';";
    assert!(failure.next.contains(mend), "{failure:?}");
    target.sql(mend);
    let restored = recover(&vault, &target.url(""), &options()).await.expect("a restore");
    assert!(restored.refused.is_empty(), "{:?}", restored.refused);
    let lost = lost(&source, &target, mysql::DATABASES);
    assert!(lost.is_empty(), "{lost:#?}");
    let gathered = "SELECT schema_name, table_name, column_name, histogram->'$.\"number-of-buckets-specified\"' \
                    FROM information_schema.column_statistics ORDER BY 1, 2, 3";
    let gathered = |server: &Server| server.sql(gathered);
    assert_eq!((gathered(&target), unfinished(&target)), (gathered(&source), String::new()));
    assert!(gathered(&source).contains("histograms\tt\ta\t12"), "{}", gathered(&source));
}

/// Accounts of MariaDB: everything that CREATE USER, CREATE ROLE and GRANT can say.
const OF_MARIADB: &str = r#"
CREATE DATABASE d; CREATE TABLE d.t (a int, b int); CREATE PROCEDURE d.p() SELECT 1; CREATE FUNCTION d.f() RETURNS int RETURN 1;
CREATE DATABASE `d_%`; CREATE DATABASE `db ``x`; CREATE TABLE `db ``x`.`t ``t` (`c ``c` int);
CREATE ROLE r1; CREATE ROLE `r 2`; CREATE ROLE r3 WITH ADMIN r1; GRANT r1 TO `r 2` WITH ADMIN OPTION;
GRANT SELECT ON d.* TO r1 WITH GRANT OPTION; GRANT INSERT (a), UPDATE (a, b) ON d.t TO `r 2`; GRANT SELECT ON d.t TO PUBLIC;
CREATE USER u1@localhost IDENTIFIED VIA mysql_native_password USING PASSWORD('x') OR ed25519 USING PASSWORD('y') OR unix_socket
  REQUIRE SUBJECT '/CN=it''s' AND ISSUER '/CN=ca' AND CIPHER 'AES' WITH MAX_QUERIES_PER_HOUR 1 MAX_UPDATES_PER_HOUR 2
  MAX_CONNECTIONS_PER_HOUR 3 MAX_USER_CONNECTIONS 4 MAX_STATEMENT_TIME 5.5 ACCOUNT LOCK PASSWORD EXPIRE INTERVAL 9 DAY;
CREATE USER 'u`2'@'10.0.0.0/255.0.0.0' IDENTIFIED BY 'p''w' REQUIRE X509 PASSWORD EXPIRE NEVER; CREATE USER u3@'%.x_' REQUIRE SSL;
CREATE USER ''@'anon'; CREATE USER 'U3'@'%' PASSWORD EXPIRE; CREATE USER 'ü"\'s'@'%' IDENTIFIED BY '';
CREATE USER nologin IDENTIFIED VIA unix_socket; CREATE USER inv IDENTIFIED VIA mysql_native_password USING 'invalid';
GRANT EXECUTE ON PROCEDURE d.p TO u1@localhost WITH GRANT OPTION; GRANT ALTER ROUTINE ON FUNCTION d.f TO u1@localhost;
GRANT PROXY ON u3@'%.x_' TO u1@localhost WITH GRANT OPTION; GRANT PROXY ON 'noone'@'%' TO u1@localhost;
GRANT ALL ON `d\_\%`.* TO u1@localhost; GRANT SELECT, INSERT ON `d%`.* TO u1@localhost;
GRANT UPDATE (`c ``c`) ON `db ``x`.`t ``t` TO u1@localhost; GRANT SELECT ON d.t TO ''@'anon'; GRANT r1 TO u1@localhost;
GRANT `r 2` TO u1@localhost WITH ADMIN OPTION; SET DEFAULT ROLE `r 2` FOR u1@localhost;
GRANT SUPER, RELOAD, BINLOG MONITOR, READ_ONLY ADMIN ON *.* TO u3@'%.x_' WITH MAX_USER_CONNECTIONS 7;
GRANT ALL ON *.* TO 'ü"\'s'@'%' WITH GRANT OPTION;
CREATE SERVER s1 FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'h', DATABASE 'd''b', USER 'u', PASSWORD 'p\\w''', PORT 3306, SOCKET '/s', OWNER 'o');
CREATE SERVER `s 2` FOREIGN DATA WRAPPER `my``sql` OPTIONS (HOST 'h');
INSTALL PLUGIN BLACKHOLE SONAME 'ha_blackhole.so';
INSERT INTO mysql.time_zone VALUES (1, 'N'); INSERT INTO mysql.time_zone_name VALUES ('Europe/Berlin', 1);
"#;

#[tokio::test(flavor = "multi_thread")]
async fn accounts_and_servers_of_mariadb_come_back() {
    let (source, target) = (Server::start(), Server::start());
    source.script(OF_MARIADB);
    let vault = vault(&MemoryStore::default());
    backup(&source.url(""), &vault).await.expect("a backup");
    let restored = recover(&vault, &target.url(""), &options()).await.expect("a restore");
    assert!(restored.refused.is_empty(), "{:?}", restored.refused);
    assert!(restored.kept.iter().all(|(what, _)| what.starts_with("account root@")), "{:?}", restored.kept);
    for named in ["INSTALL PLUGIN `BLACKHOLE` SONAME 'ha_blackhole.so'", "1 time zones"] {
        assert!(restored.doubts.iter().any(|doubt| doubt.contains(named)), "{named}: {:?}", restored.doubts);
    }
    let (expected, found) = (globals(&source), globals(&target));
    let lost: Vec<_> = expected.difference(&found).collect();
    assert!(lost.is_empty() && expected.len() > 30, "{lost:#?}");
    // Who makes a role gets it as well.
    let more: Vec<_> = found.difference(&expected).collect();
    assert!(more.iter().all(|line| line.ends_with("`root`@`localhost` WITH ADMIN OPTION")), "{more:#?}");
}

/// Accounts of MySQL.
const OF_MYSQL: &str = r#"
CREATE DATABASE d; CREATE TABLE d.t (a int, b int); CREATE PROCEDURE d.p() SELECT 1; CREATE FUNCTION d.f() RETURNS int DETERMINISTIC RETURN 1;
CREATE DATABASE `d_%`; CREATE DATABASE `db ``x`; CREATE TABLE `db ``x`.`t ``t` (`c ``c` int);
CREATE ROLE zr1, `r 2`@'h', r3; GRANT zr1 TO `r 2`@h WITH ADMIN OPTION; GRANT SELECT ON d.* TO zr1 WITH GRANT OPTION;
GRANT INSERT (a), UPDATE (a, b) ON d.t TO `r 2`@h;
CREATE USER u1@localhost IDENTIFIED WITH sha256_password BY 'x' REQUIRE SUBJECT '/CN=its' AND ISSUER '/CN=ca' AND CIPHER 'AES'
  WITH MAX_QUERIES_PER_HOUR 1 MAX_UPDATES_PER_HOUR 2 MAX_CONNECTIONS_PER_HOUR 3 MAX_USER_CONNECTIONS 4 PASSWORD EXPIRE INTERVAL 9 DAY
  PASSWORD HISTORY 5 PASSWORD REUSE INTERVAL 3 DAY PASSWORD REQUIRE CURRENT OPTIONAL ACCOUNT LOCK;
CREATE USER a1 IDENTIFIED BY 'x'; GRANT zr1 TO a1 WITH ADMIN OPTION; GRANT r3 TO a1; SET DEFAULT ROLE zr1, r3 TO a1;
CREATE USER a0 IDENTIFIED BY 'y' DEFAULT ROLE zr1;
CREATE USER 'u`2'@'10.0.0.0/255.0.0.0' IDENTIFIED WITH mysql_native_password BY 'p''w' REQUIRE X509 PASSWORD EXPIRE NEVER;
CREATE USER u3@'%.x_' IDENTIFIED BY '' REQUIRE SSL; CREATE USER 'U3'@'%' PASSWORD EXPIRE;
GRANT EXECUTE ON PROCEDURE d.p TO u1@localhost WITH GRANT OPTION; GRANT ALTER ROUTINE ON FUNCTION d.f TO u1@localhost;
GRANT PROXY ON u3@'%.x_' TO u1@localhost WITH GRANT OPTION; GRANT ALL ON `d\_\%`.* TO u1@localhost;
GRANT SELECT, INSERT ON `d%`.* TO u1@localhost; GRANT UPDATE (`c ``c`) ON `db ``x`.`t ``t` TO u1@localhost;
GRANT BACKUP_ADMIN, SYSTEM_VARIABLES_ADMIN ON *.* TO u3@'%.x_' WITH GRANT OPTION; GRANT ALL ON *.* TO 'U3'@'%' WITH GRANT OPTION;
CREATE SERVER s1 FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'h', DATABASE 'd''b', USER 'u', PASSWORD 'p\\w', PORT 3306, SOCKET '/s', OWNER 'o');
"#;

#[tokio::test(flavor = "multi_thread")]
async fn accounts_and_servers_of_mysql_come_back() {
    let start = || crate::mysql8::start_with(&["--log-bin-trust-function-creators=1"]);
    let (Some(source), Some(target)) = (start(), start()) else { return };
    source.script(OF_MYSQL);
    let vault = vault(&MemoryStore::default());
    backup(&source.url(""), &vault).await.expect("a backup");
    let restored = recover(&vault, &target.url(""), &options()).await.expect("a restore");
    assert!(restored.refused.is_empty(), "{:?}", restored.refused);
    let (expected, found) = (globals(&source), globals(&target));
    assert_eq!(expected, found);
    assert!(expected.len() > 25, "{expected:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_can_not_be_made_is_not_made_without_a_password() {
    let Some(source) = crate::mysql8::start() else { return };
    source.sql(
        "CREATE DATABASE d CHARACTER SET latin1; CREATE USER app IDENTIFIED BY 'secret'; GRANT ALL ON d.* TO app WITH GRANT OPTION; \
         CREATE USER boss IDENTIFIED BY 'secret'; GRANT ALL ON *.* TO boss",
    );
    let vault = vault(&MemoryStore::default());
    backup(&source.url(""), &vault).await.expect("a backup");
    let target = Server::start();
    let restored = recover(&vault, &target.url(""), &options()).await.expect("a restore");
    let refused: Vec<&str> = restored.refused.iter().map(|(what, _)| what.as_str()).collect();
    assert_eq!(refused, ["account app@%", "account boss@%"]);
    assert_eq!(target.sql("SELECT user FROM mysql.user WHERE user IN ('app', 'boss')"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_character_that_the_server_does_not_tell_costs_no_row() {
    let (server, other) = (Server::start(), Server::start());
    server.sql(
        "CREATE DATABASE d CHARACTER SET utf8mb4; CREATE TABLE d.t (id int PRIMARY KEY, e enum('\u{1f600}', 'b')); \
         INSERT INTO d.t VALUES (1, '\u{1f600}'), (2, 'b'); CREATE TABLE d.u (a varchar(9) DEFAULT 'what?', b varchar(9) COMMENT 'what?')",
    );
    let vault = vault(&MemoryStore::default());
    let dumped = backup(&server.url("d"), &vault).await.expect("a backup");
    let detail: seawall_mysql::SetDetail = serde_json::from_value(dumped.manifest.detail).expect("a detail");
    let notes = detail.taken.notes;
    assert!(
        notes.len() == 2 && notes[0].starts_with("d.t: the definition of column e has a question mark"),
        "{notes:?}"
    );
    assert!(notes[1].starts_with("d.u: the definition of column a has a question mark"), "{notes:?}");
    let failure = recover(&vault, &other.url("d"), &options()).await.expect_err("a row would lose its value");
    assert_eq!(failure.code, "mysql.different", "{failure:?}");
    assert!(failure.cause.contains("column 'e'"), "{failure:?}");
}
