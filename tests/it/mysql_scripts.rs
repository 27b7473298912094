//! Scripts of `mysqldump` and `mariadb-dump` by the command line, on real servers: what they may do, and what a server may refuse of them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use seawall_testing::from_template;
use seawall_tests::{Output, Process, Stand, wait};

use crate::mysql::server::Server;

fn restore(stand: &Stand, file: &Path, to: &str, more: &[&str]) -> Output {
    stand.seawall(&[&["restore", file.to_str().unwrap(), "--to", to], more].concat())
}

fn verify(stand: &Stand, file: &Path) -> Output {
    stand.seawall(&["verify", file.to_str().unwrap()])
}

/// A script as a dump has it: with its first and its last line.
fn script(stand: &Stand, name: &str, statements: &str) -> PathBuf {
    let file = stand.path(name);
    let text = format!(
        "-- MySQL dump 10.13  Distrib 8.0.36, for Linux (x86_64)\n--\n-- Host: localhost    Database: shop\n\
         /*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;\n{statements}\n\
         /*!40101 SET SQL_MODE=@OLD_SQL_MODE */;\n-- Dump completed on 2026-11-28 12:00:00\n"
    );
    std::fs::write(&file, text).unwrap();
    file
}

/// The databases of unfinished restores.
fn unfinished(server: &Server) -> String {
    server.sql("SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE 'seawall-%'")
}

/// MySQL 8, where the tests of the engine find it.
fn mysql8() -> Option<Server> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools");
    let base = std::env::var_os("CARGO_TARGET_DIR")
        .map_or(tools, |target| PathBuf::from(target).join("tools"))
        .join("mysql-8");
    let program = base.join("bin/mysqld");
    let runs = Command::new(&program).args(["--no-defaults", "--version"]).output();
    if !runs.is_ok_and(|output| output.status.success()) {
        eprintln!("MySQL 8 isn't in {}, or can't run here: its tests did nothing", base.display());
        return None;
    }
    let folder = tempfile::Builder::new().prefix("my").tempdir().unwrap();
    let options =
        [format!("--basedir={}", base.display()), format!("--lc-messages-dir={}", base.join("share").display())];
    from_template("mysql", &program, &folder.path().join("data"), |data| {
        let mut install = Command::new(&program);
        install.args(["--no-defaults", "--initialize-insecure", "--user=root"]).args(&options);
        install.arg(format!("--datadir={}", data.display())).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(install.status().unwrap().success());
    });
    let _ = std::fs::remove_file(folder.path().join("data/auto.cnf"));
    let more = ["--mysqlx=OFF", "--bind-address=127.0.0.1"].map(str::to_owned);
    let client = vec!["mariadb".to_owned(), "--no-defaults".to_owned()];
    Some(Server::run(folder, &program, &[&options[..], &more].concat(), client))
}

/// Statements that reach out of their database, in the ways that a judge of first words doesn't see.
const HOSTILE: [&str; 24] = [
    "DROP TABLE IF EXISTS t, prod.users;",
    "DROP VIEW IF EXISTS v, prod.v;",
    "CREATE TABLE t (a int);\nALTER TABLE t RENAME TO prod.x;",
    "CREATE TABLE t (a int) ENGINE=MERGE UNION=(prod.mine) INSERT_METHOD=LAST;\nINSERT INTO t VALUES (2);",
    "CREATE TABLE t (a int) ENGINE=InnoDB DATA DIRECTORY='/tmp';",
    "DELIMITER ;;\nBEGIN NOT ATOMIC DROP DATABASE prod; END;;\nDELIMITER ;",
    "DROP /*!999999 TABLE t, */ DATABASE prod;",
    "CREATE /*!999999 TABLE t (a int) */ USER eve IDENTIFIED BY '';",
    "INSERT /*!999999 INTO t VALUES (1) */ INTO prod.users VALUES (2);",
    "/*!50700 CREATE TABLE t (a int) */ /*M!100000 DROP DATABASE prod */;",
    "SET @a='LONG', GLOBAL general_log_file='/tmp/x.php', GLOBAL general_log=1;",
    "CREATE TABLE s (a int);\nSELECT SETVAL(s, 1, 0), '<?php' INTO OUTFILE '/tmp/seawall-x';",
    "SET @a=1 -- '\n/*!50000 , GLOBAL general_log=1 */;",
    "SET sql_mode='NO_BACKSLASH_ESCAPES';\nSET @a='\\', GLOBAL general_log=1, @b='';",
    "SET @m='NO_BACKSLASH_ESCAPES';\nSET sql_mode=@m;\nSET @a='\\', GLOBAL general_log=1, @b='';",
    "ALTER DATABASE a prod CHARACTER SET latin1;",
    "SET @a=1, PASSWORD = PASSWORD('x');",
    "CREATE TABLE t (a text);\nINSERT INTO t VALUES (LOAD_FILE('/etc/passwd'));",
    "CREATE TABLE t (a text) AS SELECT LOAD_FILE('/etc/passwd') AS a;",
    "SET @a = LOAD_FILE('/etc/passwd');",
    "CREATE TABLE t (a int, FOREIGN KEY (a) REFERENCES prod.users (id));",
    "CREATE FUNCTION f RETURNS STRING SONAME 'x.so';",
    "CREATE TRIGGER t BEFORE INSERT ON prod.users FOR EACH ROW SET @a=1;",
    "SET NAMES gbk;\nCREATE TABLE t (a text);\nINSERT INTO t VALUES ('\u{e4}');",
];

#[test]
fn mysql_scripts_reach_no_other_database() {
    let stand = Stand::folder(1);
    let mut servers = vec![Server::start()];
    servers.extend(mysql8());
    for server in &servers {
        server.sql(
            "CREATE DATABASE prod; CREATE TABLE prod.users (id int PRIMARY KEY); INSERT INTO prod.users VALUES (1)",
        );
        server.sql("CREATE TABLE prod.mine (a int) ENGINE=MyISAM; CREATE VIEW prod.v AS SELECT 1 AS a");
    }
    for (number, statement) in HOSTILE.into_iter().enumerate() {
        let file = script(&stand, &format!("{number}.sql"), &statement.replace("LONG", &"x".repeat(4096)));
        let read = verify(&stand, &file).exits(1);
        assert!(read.stderr.contains("error[mysql.statement]: line "), "{statement}: {read}");
        for server in &servers {
            let said = restore(&stand, &file, &server.url("copy"), &[]).exits(1);
            assert!(said.stderr.contains("error[mysql.statement]: line "), "{statement}: {said}");
            let there = "SELECT (SELECT count(*) FROM prod.users) + (SELECT count(*) FROM prod.mine) * 10 + (SELECT a FROM prod.v), \
                         @@GLOBAL.general_log, (SELECT count(*) FROM mysql.user WHERE user = 'eve')";
            assert_eq!(server.sql(there), "2\t0\t0", "{statement}");
            assert_eq!(unfinished(server), "", "{statement}");
        }
    }
    // The commonest form of a failed backup.
    let empty = stand.path("empty.sql");
    std::fs::write(&empty, "-- MySQL dump 10.13\n-- Dump completed\n").unwrap();
    for said in [verify(&stand, &empty), restore(&stand, &empty, &servers[0].url("copy"), &[])] {
        let said = said.exits(1);
        assert!(said.stderr.contains("error[dump.cut-off]"), "{said}");
    }
}

/// Tables and objects of all kinds that MariaDB has.
const KINDS: &str = "CREATE DATABASE kinds CHARACTER SET utf8mb4;\nUSE kinds;\n\
    CREATE TABLE a (id int AUTO_INCREMENT PRIMARY KEY, n varchar(20) DEFAULT 'x''y\\\\', d decimal(10,2) DEFAULT 1.50, \
     g int AS (id + 1) VIRTUAL, s int GENERATED ALWAYS AS (length(n)) STORED, j json, c int CHECK (c > 1.5), inv int INVISIBLE DEFAULT 4, \
     b bit(3) DEFAULT b'101', e enum('a','b;c'), geo geometry, bl blob, UNIQUE KEY k (n), FULLTEXT KEY ft (n)) COMMENT='it''s; /* x */ -- y';\n\
    INSERT INTO a (n, c, b, geo, bl) VALUES ('a;''\\\\\"`', 2, b'1', point(1, 2), 0x00ff27), (NULL, NULL, NULL, NULL, NULL);\n\
    CREATE TABLE p (id int, y date, PRIMARY KEY (id, y)) PARTITION BY RANGE (year(y)) SUBPARTITION BY HASH (id) SUBPARTITIONS 2 \
     (PARTITION p0 VALUES LESS THAN (2000), PARTITION p1 VALUES LESS THAN MAXVALUE COMMENT='z');\n\
    CREATE TABLE l (id int, r varchar(5)) PARTITION BY LIST COLUMNS (r) (PARTITION x VALUES IN ('a', 'b'), PARTITION y DEFAULT);\n\
    CREATE TABLE v (id int) WITH SYSTEM VERSIONING PARTITION BY SYSTEM_TIME LIMIT 5 (PARTITION h HISTORY, PARTITION n CURRENT);\n\
    CREATE TABLE per (id int, d1 date, d2 date, PERIOD FOR p(d1, d2), UNIQUE (id, p WITHOUT OVERLAPS));\n\
    CREATE TABLE m1 (a int) ENGINE=MyISAM; CREATE TABLE m (a int) ENGINE=MERGE UNION=(m1);\n\
    CREATE TABLE ar (a int) ENGINE=Aria TRANSACTIONAL=0 PAGE_CHECKSUM=1; CREATE TABLE cs (a int NOT NULL) ENGINE=CSV;\n\
    CREATE TABLE pc (a int) PAGE_COMPRESSED=1 PAGE_COMPRESSION_LEVEL=3;\n\
    CREATE TABLE fk (a int, CONSTRAINT f FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE);\n\
    CREATE SEQUENCE s1 START WITH -5 INCREMENT BY -2 MINVALUE -100 CYCLE;\nDO NEXTVAL(s1);\n\
    CREATE FUNCTION tw(a int) RETURNS int DETERMINISTIC RETURN a * 2;\n\
    CREATE ALGORITHM=MERGE SQL SECURITY INVOKER VIEW vw (q) AS SELECT tw(id) FROM a WITH CHECK OPTION;\n\
    CREATE EVENT ev ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01' ON COMPLETION PRESERVE COMMENT 'c' DO DELETE FROM a WHERE id < 0;\n\
    DELIMITER //\nCREATE TRIGGER tr BEFORE INSERT ON a FOR EACH ROW BEGIN SET NEW.c = 3; SET @x = 'a;b'; END//\n\
    CREATE PROCEDURE pr(IN x int, OUT y text) COMMENT 'x' BEGIN SELECT ';'; DROP TABLE IF EXISTS zz; END//\n\
    SET sql_mode=ORACLE//\nCREATE PACKAGE pkg AS FUNCTION f RETURN INT; END//\n\
    CREATE PACKAGE BODY pkg AS FUNCTION f RETURN INT AS BEGIN RETURN 1; END; END//\n\
    SET sql_mode='ANSI_QUOTES,NO_BACKSLASH_ESCAPES'//\nCREATE PROCEDURE an() BEGIN SELECT '\\' AS \"x\"; END//\nDELIMITER ;\n";

/// All that there is in a database, and the bytes of its largest table.
fn content(server: &Server, database: &str) -> String {
    let tables = server.sql(&format!(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = '{database}' AND table_type <> 'VIEW' ORDER BY 1"
    ));
    let told: Vec<String> = tables.lines().map(|table| format!("SHOW CREATE TABLE {database}.{table};")).collect();
    let sql = format!(
        "{} SELECT id, n, d, g, s, c, inv, b + 0, st_astext(geo), hex(bl) FROM {database}.a; SELECT * FROM {database}.vw; \
         SELECT trigger_name, action_statement, sql_mode FROM information_schema.triggers WHERE trigger_schema = '{database}'; \
         SELECT routine_name, routine_type, routine_definition, sql_mode FROM information_schema.routines WHERE routine_schema = '{database}' ORDER BY 1, 2; \
         SELECT event_name, event_definition, starts FROM information_schema.events WHERE event_schema = '{database}'; \
         SELECT next_not_cached_value, cycle_option FROM {database}.s1",
        told.concat()
    );
    server.sql(&sql).replace(&format!("`{database}`"), "`kinds`")
}

#[test]
fn mysql_scripts_of_all_kinds_of_objects_come_back() {
    let (stand, server) = (Stand::folder(2), Server::start_with(&["--log-bin=log", "--server-id=3"]));
    server.script(KINDS);
    let expected = content(&server, "kinds");
    for (number, options) in [
        &[][..],
        &["--databases", "--add-drop-database", "--master-data=1", "--gtid"],
        &[
            "--skip-quote-names",
            "--complete-insert",
            "--replace",
            "--no-autocommit",
            "--skip-extended-insert",
            "--hex-blob",
        ],
        &["--insert-ignore", "--add-drop-trigger", "--dump-history", "--default-character-set=latin1"],
    ]
    .into_iter()
    .enumerate()
    {
        let file = stand.path(&format!("{number}.sql"));
        let mut command = Command::new("mariadb-dump");
        command.arg("--no-defaults").arg(format!("--socket={}", server.file("s.sock"))).arg("--user=root");
        command.args(["--routines", "--triggers", "--events"]).args(options).arg("kinds");
        let dumped = command.output().unwrap();
        assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
        std::fs::write(&file, dumped.stdout).unwrap();
        verify(&stand, &file).ok();
        let name = format!("copy{number}");
        let back = restore(&stand, &file, &server.url(&name), &[]).ok();
        assert_eq!(content(&server, &name), expected, "{options:?}");
        // The position of the source is no loss.
        assert_eq!(back.stdout.contains("note: left out: "), options.contains(&"--gtid"), "{back}");
    }
}

#[test]
fn mysql_positions_in_the_log_are_left_out_and_no_loss() {
    let (stand, server) = (Stand::folder(3), Server::start());
    let file = script(
        &stand,
        "gtid.sql",
        "SET @MYSQLDUMP_TEMP_LOG_BIN = @@SESSION.SQL_LOG_BIN;\nSET @@SESSION.SQL_LOG_BIN= 0;\n\
         SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'ee7ad7ab-0000-11ee-8c99-0242ac120002:1-5';\n\
         CREATE TABLE t (a int);\nINSERT INTO t VALUES (1),(2);\nSET @@SESSION.SQL_LOG_BIN = @MYSQLDUMP_TEMP_LOG_BIN;",
    );
    let back = restore(&stand, &file, &server.url("copy"), &[]).ok();
    assert!(
        back.stdout.contains("note: left out: positions in the binary log") && !back.stdout.contains("refused"),
        "{back}"
    );
    assert_eq!(server.sql("SELECT sum(a) FROM copy.t"), "3");
    let back = restore(&stand, &file, &server.url("other"), &["--json"]).ok().json();
    assert!(back["databases"][0]["notes"].to_string().contains("positions in the binary log"), "{back}");
}

#[test]
fn mysql_settings_that_a_server_refuses_keep_back_their_object_alone() {
    let stand = Stand::folder(4);
    let statements = "CREATE TABLE t (a int);\nINSERT INTO t VALUES (1);\n\
        /*!50003 SET @saved_sql_mode       = @@sql_mode */ ;\n\
        /*!50003 SET sql_mode              = 'STRICT_TRANS_TABLES,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION' */ ;\nDELIMITER ;;\n\
        /*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 5 */;;\n\
        DELIMITER ;\n/*!50003 SET sql_mode              = @saved_sql_mode */ ;\n\
        /*!50106 SET @save_time_zone= @@TIME_ZONE */ ;\n/*!50003 SET time_zone = 'No/Where' */ ;\n\
        /*!50106 CREATE EVENT ev ON SCHEDULE EVERY 1 DAY DO DELETE FROM t WHERE a < 0 */ ;\n\
        /*!50106 SET TIME_ZONE= @save_time_zone */ ;\n\
        /*!50001 CREATE VIEW v AS SELECT a FROM t */;";
    let file = script(&stand, "old.sql", statements);
    // A setting for rows isn't passed over.
    let rows = script(&stand, "rows.sql", "SET time_zone = 'No/Where';\nCREATE TABLE t (a int);");
    for server in [Some(Server::start()), mysql8()].into_iter().flatten() {
        let back = restore(&stand, &file, &server.url("copy"), &[]).exits(3);
        assert!(back.stdout.contains("refused by the server: event ev: the script sets time_zone for it"), "{back}");
        assert!(!back.stdout.contains("trigger"), "{back}");
        let mode = "SELECT sql_mode LIKE 'STRICT_TRANS_TABLES%' FROM information_schema.triggers WHERE trigger_schema = 'copy'";
        assert_eq!(server.sql(mode), "1", "{back}");
        assert_eq!(server.sql("SELECT sum(a) FROM copy.v"), "1");
        let said = restore(&stand, &rows, &server.url("other"), &[]).exits(1);
        assert!(said.stderr.contains("error[mysql.refused]") && said.stderr.contains("time_zone"), "{said}");
        assert_eq!(unfinished(&server), "");
    }
}

#[test]
fn mysql_advice_to_drop_a_database_needs_a_proof() {
    let (stand, server) = (Stand::folder(5), Server::start());
    let rows: String = (0..60_000).map(|row| format!("INSERT INTO t VALUES ({row});\n")).collect();
    let file = script(&stand, "shop.sql", &format!("CREATE TABLE t (a int);\n{rows}"));
    let target = server.url("copy");
    let mut process =
        Process::spawn("seawall", stand.command().args(["restore", file.to_str().unwrap(), "--to", &target]));
    wait::until("an unfinished database with a table", wait::SOON, || {
        let tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema LIKE 'seawall-%'";
        (server.sql(tables) != "0").then_some(())
    });
    process.kill_9();
    drop(process);
    let made = unfinished(&server);
    wait::until("the session has ended", wait::SOON, || {
        (server.sql("SELECT count(*) FROM information_schema.processlist WHERE user = 'root'") == "1").then_some(())
    });
    // As if it had been killed behind CREATE DATABASE. Then the application begins.
    server.sql(&format!(
        "DROP TABLE `{made}`.t; CREATE DATABASE copy; CREATE TABLE copy.mine (a int); INSERT INTO copy.mine VALUES (7)"
    ));
    let said = restore(&stand, &file, &target, &[]).exits(1);
    assert!(said.stderr.contains("error[mysql.not-ready]") && !said.stderr.contains("has moved its tables"), "{said}");
    // As if it had been killed behind RENAME.
    server.sql(&format!("CREATE TABLE `{made}`.`seawall-moved` (a int)"));
    let said = restore(&stand, &file, &target, &[]).exits(1);
    assert!(said.stderr.contains("has moved its tables"), "{said}");
    server.sql("DROP DATABASE copy");
    restore(&stand, &file, &target, &[]).ok();
    assert_eq!(server.sql("SELECT count(*) FROM copy.t"), "60000");
    assert_eq!(unfinished(&server), "", "the mark has gone with its database");
}

#[test]
fn mysql_names_in_lower_case_collide_before_anything_is_done() {
    let (stand, server) = (Stand::folder(6), Server::start_with(&["--lower-case-table-names=1"]));
    server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (a int)");
    let folder = stand.path("cluster");
    std::fs::create_dir_all(folder.join("dumps")).unwrap();
    for name in ["aaa", "Shop"] {
        let file = script(&stand, "x.sql", "CREATE TABLE t (a int);");
        std::fs::rename(file, folder.join(format!("dumps/{name}.sql"))).unwrap();
    }
    let said = restore(&stand, &folder, &server.url(""), &[]).exits(1);
    assert!(said.stderr.contains("error[mysql.not-ready]") && said.stderr.contains("shop.t"), "{said}");
    assert_eq!(server.sql("SELECT count(*) FROM information_schema.schemata WHERE schema_name = 'aaa'"), "0");
}

#[test]
fn mysql_statements_are_bounded_by_what_the_server_takes() {
    let (stand, server) = (Stand::folder(7), Server::start_with(&["--max-allowed-packet=1M"]));
    let large = "x".repeat(2 << 20);
    let file = script(&stand, "large.sql", &format!("CREATE TABLE t (a longtext);\nINSERT INTO t VALUES ('{large}');"));
    verify(&stand, &file).ok();
    let said = restore(&stand, &file, &server.url("copy"), &[]).exits(1);
    assert!(said.stderr.contains("error[mysql.packet]") && said.stderr.contains("line "), "{said}");
    assert_eq!(unfinished(&server), "");
}
