//! A source whose owner, names or settings want something else than a backup.

use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{Set, back_up};

const NAMES: [&str; 9] = [
    "a`b",
    "with space",
    "new\nline",
    "100%",
    "under_score",
    "quo'te",
    "dou\"ble",
    "back\\slash",
    "ünï-😀; DROP TABLE x",
];

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names() {
    let server = Server::start();
    let quote = |name: &str| format!("`{}`", name.replace('`', "``"));
    // A name has no character beyond the basic plane.
    let names: Vec<String> = NAMES.iter().map(|name| name.replace('😀', "")).collect();
    for database in &names {
        server.sql(&format!("CREATE DATABASE {}", quote(database)));
    }
    let database = &names[0];
    let of = quote(database);
    for name in &names {
        let name = quote(name);
        server.sql(&format!(
            "SET sql_mode = ''; CREATE TABLE {of}.{name} ({name} int PRIMARY KEY, b float) PARTITION BY HASH ({name}) (PARTITION {name}); \
             INSERT INTO {of}.{name} VALUES (1, 2)"
        ));
        server.sql(&format!(
            "USE {of}; CREATE VIEW {} AS SELECT * FROM {name}",
            quote(&format!("v {}", &name[1..name.len() - 1]))
        ));
    }
    let store = MemoryStore::new();
    let dumped = back_up(&server.url(""), &store).await.expect("backed up");
    assert_eq!(dumped.databases.len(), names.len());
    let set = Set::of(&store, &dumped).await;
    let schema = set.schema(Some(database)).await;
    assert_eq!((schema.tables.len(), schema.views.len()), (names.len(), names.len()));
    for name in &names {
        let (rows, _) = set.rows(Some(database), &format!("{database}.{name}")).await;
        assert_eq!(rows, [b"1\t2\n"], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_settings() {
    for mode in
        ["ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES", "ORACLE", "PAD_CHAR_TO_FULL_LENGTH,HIGH_NOT_PRECEDENCE"]
    {
        let server = Server::start_with(&["--completion-type=RELEASE"]);
        server.sql(
            "CREATE DATABASE shop; CREATE TABLE shop.t (a char(9), b varchar(20), c timestamp NULL); \
             INSERT INTO shop.t VALUES ('a', 'b\\\\c', '2024-01-01 00:00:00'), ('b', NULL, NULL), ('c', '', NULL); \
             CREATE TABLE shop.v (id int) WITH SYSTEM VERSIONING; INSERT INTO shop.v VALUES (1); \
             CREATE FUNCTION shop.f() RETURNS text RETURN 'x'; CREATE USER app; GRANT ALL ON *.* TO app; \
             CREATE TABLE shop.seen (who text)",
        );
        // What an owner can set for everybody, and what an administrator sets by mistake.
        server.sql(&format!(
            "SET GLOBAL sql_mode = '{mode}'; SET GLOBAL sql_select_limit = 1; SET GLOBAL max_statement_time = 0.3; \
             SET GLOBAL system_versioning_asof = '2001-01-01 00:00:00'; SET GLOBAL time_zone = '+07:00'; \
             SET GLOBAL sql_quote_show_create = 0; SET GLOBAL wait_timeout = 1; SET GLOBAL autocommit = 0; \
             SET GLOBAL init_connect = 'SET SESSION sql_select_limit = 2, time_zone = ''-03:00''; START TRANSACTION; SELECT * FROM shop.t'"
        ));
        let store = MemoryStore::new();
        let dumped = back_up(&server.socket("app", "shop"), &store).await.expect("backed up");
        let set = Set::of(&store, &dumped).await;
        let at = "2024-01-01 00:00:00";
        let rows = set.lines("shop.t").await;
        assert_eq!(rows, [&format!("a\tb\\\\c\t{at}"), "b\t\\N\t\\N", "c\t\t\\N"], "{mode}");
        assert_eq!(set.rows(None, "shop.v").await.0.len(), 1);
        let schema = set.schema(None).await;
        assert!(schema.tables.iter().all(|table| table.statement.text().starts_with("CREATE TABLE `")), "{mode}");
        assert_eq!(schema.routines.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_has_become_a_view_runs_nothing() {
    let server = Server::start();
    server.sql("CREATE DATABASE shop; CREATE TABLE shop.trap (who text)");
    let body = "BEGIN INSERT INTO shop.trap VALUES (CURRENT_USER()); RETURN 1; END";
    let function = format!("CREATE FUNCTION shop.f() RETURNS int MODIFIES SQL DATA SQL SECURITY INVOKER {body}");
    server.connect(seawall_mysql::testing::Purpose::Statements).await.execute(&function).await.expect("made");
    server.sql("CREATE SQL SECURITY INVOKER VIEW shop.t AS SELECT shop.f() AS id");
    // The statement that reads a table, on what is now a view.
    let mut connection = server.connect(seawall_mysql::testing::Purpose::Rows).await;
    for hint in ["USE INDEX ()", "FORCE INDEX (`PRIMARY`)"] {
        let refused = connection.query(&format!("SELECT `id` FROM shop.t {hint}")).await.expect_err("refused");
        assert_eq!(refused.number(), Some(1176), "{refused}");
    }
    let store = MemoryStore::new();
    back_up(&server.url("shop"), &store).await.expect("backed up");
    assert_eq!(server.sql("SELECT COUNT(*) FROM shop.trap"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_owners_runs_in_a_backup_a_restore_or_a_proof() {
    let server = Server::start();
    // What a session would do as the account that backs up or restores, if it ran any of it.
    let trap = "BEGIN INSERT INTO shop.trap VALUES (CURRENT_USER()); RETURN 1; END";
    let mut script = "CREATE DATABASE shop; CREATE TABLE shop.trap (who text);\nDELIMITER //\n".to_owned();
    for name in ["f", "version", "database", "get_lock", "count", "convert_tz", "setval", "json_valid", "concat"] {
        script +=
            &format!("CREATE FUNCTION shop.`{name}` () RETURNS int MODIFIES SQL DATA SQL SECURITY INVOKER {trap}//\n");
    }
    script += "DELIMITER ;\nUSE shop; CREATE SQL SECURITY INVOKER VIEW a AS SELECT shop.f() AS x, shop.`count`() AS y; \
               CREATE VIEW endless AS SELECT SLEEP(100000) AS x FROM trap; CREATE VIEW held AS SELECT GET_LOCK('x', 100000) AS x, BENCHMARK(1000000000000, 1) AS y; \
               CREATE TABLE `information_schema` (a int); CREATE TABLE `mysql.user` (a int DEFAULT (1 + 1), `@seawall_0` int, `*/ DROP` int CHECK (`*/ DROP` > 0)) \
               COMMENT='*/ /*M! DROP TABLE trap */; -- '; INSERT INTO `mysql.user` VALUES (1, 2, 3); \
               CREATE TABLE t (a int, KEY (a)); INSERT INTO t VALUES (1); CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.a = shop.f(); \
               CREATE TRIGGER td AFTER DELETE ON t FOR EACH ROW SET @x = shop.f(); DELETE FROM trap;";
    server.script(&script);
    let vault = crate::support::vault(&MemoryStore::default());
    crate::restoring::backup(&server.url("shop"), &vault).await.expect("a backup");
    crate::restoring::recover(&vault, &server.url("copy"), &crate::restoring::options()).await.expect("a restore");
    for database in ["shop", "copy"] {
        assert_eq!(server.sql(&format!("SELECT COUNT(*) FROM {database}.trap")), "0", "{database}");
        assert_eq!(server.sql(&format!("SELECT * FROM {database}.`mysql.user`")), "1\t2\t3");
        assert_eq!(server.sql(&format!("SELECT a FROM {database}.t")), "1");
    }
    let shown = |database: &str| server.sql(&format!("USE {database}; SHOW CREATE TABLE `mysql.user`"));
    assert_eq!(shown("copy"), shown("shop"));
}
