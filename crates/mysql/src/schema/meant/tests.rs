use super::*;

const MYSQL: Server = Server { mariadb: false, version: 80_036 };
const MARIADB: Server = Server { mariadb: true, version: 101_119 };

/// What a statement does, alike without a server, on MySQL and on MariaDB.
fn meant(sql: &str) -> Meant {
    let of = |server| Judge::new(server).judge(sql.as_bytes());
    let found = of(None);
    let kind = |meant: &Meant| std::mem::discriminant(meant);
    for server in [Some(MYSQL), Some(MARIADB)] {
        let here = of(server);
        assert!(kind(&here) == kind(&found) || here == Meant::Skipped, "{sql}: {found:?}, on {server:?} {here:?}");
    }
    found
}

fn is_refused(sql: &str) -> bool {
    matches!(meant(sql), Meant::Unknown(_))
}

#[test]
fn statements_of_scripts() {
    let object = |what: &str| Meant::Object(what.to_owned());
    let database = |name: &str| Meant::Database(name.to_owned());
    let session = |settings: &[&str]| Meant::Session(settings.iter().map(|name| (*name).to_owned()).collect());
    let alter = |name: &str, sql: &str| Meant::Alter(name.to_owned(), sql.to_owned());
    let position = || Meant::Server("positions in the binary log");
    for (statement, expected) in [
        // Of both, at the beginning and the end.
        ("/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */", session(&[])),
        ("/*!40101 SET @OLD_COLLATION_CONNECTION=@@COLLATION_CONNECTION */", session(&[])),
        ("/*!40101 SET NAMES utf8 */", session(&["character_set_client"])),
        ("/*!50503 SET NAMES utf8mb4 */", session(&["character_set_client"])),
        ("SET NAMES utf8mb4", session(&["character_set_client"])),
        ("/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */", session(&[])),
        ("/*!40103 SET TIME_ZONE='+00:00' */", session(&["time_zone"])),
        ("/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */", session(&["unique_checks"])),
        ("/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */", session(&["sql_mode"])),
        ("/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO,ANSI' */", session(&["sql_mode"])),
        ("/*M!100616 SET @OLD_NOTE_VERBOSITY=@@NOTE_VERBOSITY, NOTE_VERBOSITY=0 */", session(&["note_verbosity"])),
        ("/*!40101 SET SQL_MODE=@OLD_SQL_MODE */", session(&["sql_mode"])),
        ("SET @OLD_AUTOCOMMIT=@@AUTOCOMMIT, @@AUTOCOMMIT=0", session(&["autocommit"])),
        ("set autocommit=0", session(&["autocommit"])),
        ("SET SESSION foreign_key_checks = 0", session(&["foreign_key_checks"])),
        ("SET @@SESSION.unique_checks = OFF", session(&["unique_checks"])),
        ("/*!50003 SET @saved_sql_mode       = @@sql_mode */", session(&[])),
        ("/*!50003 SET sql_mode              = '' */", session(&["sql_mode"])),
        ("/*!50003 SET time_zone             = 'SYSTEM' */", session(&["time_zone"])),
        ("/*!50106 SET @save_time_zone= @@TIME_ZONE */", session(&[])),
        (
            "/*M!101100 SET @old_system_versioning_insert_history=@@session.system_versioning_insert_history, @@session.system_versioning_insert_history=1 */",
            session(&["system_versioning_insert_history"]),
        ),
        ("SET @@SESSION.SQL_LOG_BIN= 0", position()),
        ("SET @MYSQLDUMP_TEMP_LOG_BIN = @@SESSION.SQL_LOG_BIN", position()),
        ("SET @@SESSION.SQL_LOG_BIN = @MYSQLDUMP_TEMP_LOG_BIN", position()),
        ("SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'x:1-5,\ny:1'", position()),
        ("SET GLOBAL gtid_slave_pos='0-3-51'", position()),
        ("CHANGE MASTER TO MASTER_LOG_FILE='x', MASTER_LOG_POS=4", Meant::Server("a position in the binary log")),
        ("CHANGE MASTER TO MASTER_USE_GTID=slave_pos", Meant::Server("a position in the binary log")),
        ("CHANGE REPLICATION SOURCE TO SOURCE_LOG_POS=4", Meant::Server("a position in the binary log")),
        ("STOP ALL SLAVES", Meant::Server("the beginning and end of replication")),
        ("START SLAVE", Meant::Server("the beginning and end of replication")),
        // Tables.
        ("DROP TABLE IF EXISTS `t`", Meant::Table),
        ("/*!50001 DROP TABLE IF EXISTS `v`*/", Meant::Table),
        ("CREATE TABLE `t` (\n `view` int,\n `a` text)", Meant::Table),
        ("CREATE TABLE IF NOT EXISTS `t` (a int)", Meant::Table),
        ("/*!50001 CREATE TABLE `v` (\n  `a` tinyint NOT NULL\n) ENGINE=MyISAM */", Meant::Table),
        (
            "CREATE TABLE `t` (\n  `id` int unsigned NOT NULL AUTO_INCREMENT,\n  `d` decimal(10,2) DEFAULT 1.50,\n  `e` double DEFAULT 1.5e10,\n  `g` int GENERATED ALWAYS AS ((`id` + .5)) STORED,\n  `x` text COLLATE utf8mb4_bin COMMENT 'a.b; it''s \\' -- /* select */',\n  `j` json DEFAULT (json_array()),\n  `my_row_id` bigint unsigned NOT NULL AUTO_INCREMENT /*!80023 INVISIBLE */,\n  PRIMARY KEY (`id`),\n  KEY `k` (`x`(20)) /*!80000 INVISIBLE */,\n  FULLTEXT KEY `f` (`x`) /*!50100 WITH PARSER `ngram` */ ,\n  CONSTRAINT `c` CHECK ((`id` > 1.5)) /*!80016 NOT ENFORCED */,\n  CONSTRAINT `f` FOREIGN KEY (`id`) REFERENCES `p` (`id`) ON DELETE CASCADE\n) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci ROW_FORMAT=DYNAMIC KEY_BLOCK_SIZE=8 STATS_PERSISTENT=1 COMMENT='x' /*!80016 ENCRYPTION='Y' */\n/*!50100 PARTITION BY RANGE (year(`d`))\nSUBPARTITION BY HASH (`id`)\n(PARTITION p0 VALUES LESS THAN (2000) COMMENT = 'z' ENGINE = InnoDB,\n PARTITION p1 VALUES LESS THAN MAXVALUE ENGINE = InnoDB) */",
            Meant::Table,
        ),
        (
            "CREATE TABLE `p` (`id` int) ENGINE=InnoDB\n/*!50100 PARTITION BY KEY */ /*!50611 ALGORITHM = 1 */ /*!50100 (id)\nPARTITIONS 3 */",
            Meant::Table,
        ),
        ("CREATE TABLE `t` (`a` int) /*!50100 TABLESPACE `ts` STORAGE DISK */ ENGINE=ndbcluster", Meant::Table),
        ("CREATE TABLE `m` (`a` int) ENGINE=MRG_MyISAM INSERT_METHOD=LAST UNION=(`m1`,`m2`)", Meant::Table),
        ("CREATE TABLE `c` (`a` int) ENGINE=InnoDB `page_compressed`='1' `ENCRYPTED`=YES", Meant::Table),
        ("CREATE TABLE `c` (`a` int) ENGINE=InnoDB /* `x`='1' */", Meant::Table),
        (
            "CREATE TABLE `v` (`rs` timestamp(6) GENERATED ALWAYS AS ROW START, PERIOD FOR SYSTEM_TIME (`rs`, `re`)) ENGINE=InnoDB WITH SYSTEM VERSIONING\n PARTITION BY SYSTEM_TIME INTERVAL 1 DAY STARTS TIMESTAMP'2020-01-01 00:00:00' AUTO\nPARTITIONS 3",
            Meant::Table,
        ),
        (
            "CREATE TABLE `p` (`a` int) PARTITION BY LIST  COLUMNS(`a`)\nSUBPARTITION BY LINEAR KEY ALGORITHM = 2 (`a`)\n(PARTITION `x` VALUES IN ((1,'b'),(2,'c')) TABLESPACE = `ts` MAX_ROWS = 5\n (SUBPARTITION s0 ENGINE = InnoDB,\n  SUBPARTITION s1 COMMENT = 'x' ENGINE = InnoDB),\n PARTITION `y` DEFAULT ENGINE = InnoDB)",
            Meant::Table,
        ),
        (
            "CREATE TABLE `p` (`a` int) PARTITION BY SYSTEM_TIME LIMIT 5\n(PARTITION `p0` HISTORY ENGINE = InnoDB, PARTITION `pn` CURRENT ENGINE = InnoDB)",
            Meant::Table,
        ),
        ("/*!40000 ALTER TABLE `t` DISABLE KEYS */", Meant::Table),
        ("/*!40000 ALTER TABLE `t` ENABLE KEYS */", Meant::Table),
        (
            "ALTER TABLE `t` ADD KEY `k` (`a`,`b`(10)), ADD CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `p` (`a`)",
            Meant::Table,
        ),
        (
            "CREATE SEQUENCE `s` start with -5 minvalue -100 maxvalue -1 increment by -2 cache 1000 cycle ENGINE=InnoDB",
            Meant::Table,
        ),
        ("DROP SEQUENCE IF EXISTS `s`", Meant::Table),
        ("DO SETVAL(`s`, -101, 0)", Meant::Table),
        ("SELECT SETVAL(`s`, 1, 0)", Meant::Table),
        ("/*!80002 ANALYZE TABLE `t` UPDATE HISTOGRAM ON `a`, `b` WITH 100 BUCKETS */", object("histogram of t")),
        ("LOCK TABLES `t` WRITE", Meant::Skipped),
        ("UNLOCK TABLES", Meant::Skipped),
        ("COMMIT", session(&[])),
        ("START TRANSACTION /*!40100 WITH CONSISTENT SNAPSHOT */", session(&[])),
        // Rows.
        ("INSERT INTO `t` VALUES (1,'a'),(NULL,'it''s \\' LOAD_FILE('),\n(-1.5e-10,_binary '\\0')", Meant::Rows),
        ("INSERT  IGNORE INTO `t` (`a`, `b`) VALUES (0x00FF,b'101'),(.5,X'00')", Meant::Rows),
        ("INSERT DELAYED IGNORE INTO t (a,b) VALUES (1,DEFAULT);".trim_end_matches(';'), Meant::Rows),
        ("REPLACE INTO `t` VALUES (1, TRUE)", Meant::Rows),
        // What isn't tables.
        ("/*!50001 CREATE VIEW `v` AS SELECT\n 1 AS `a`*/", object("view v")),
        (
            "/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`root`@`localhost` SQL SECURITY DEFINER */\n/*!50001 VIEW `v` (`a`) AS select 1 from `x`.`y` */\n/*!50002 WITH CASCADED CHECK OPTION */",
            object("view v"),
        ),
        ("/*!50001 DROP VIEW IF EXISTS `v`*/", object("view v")),
        (
            "/*!50003 CREATE*/ /*!50017 DEFINER=`a`@`%`*/ /*!50003 TRIGGER t BEFORE INSERT ON x FOR EACH ROW BEGIN SET @a='/* \\' */'; END \n*/",
            object("trigger t"),
        ),
        ("/*!50032 DROP TRIGGER IF EXISTS `t` */", object("trigger t")),
        ("CREATE DEFINER=`a`@`%` PROCEDURE `p`(a int)\nBEGIN\n -- it's\n DROP DATABASE x; END", object("procedure p")),
        (
            "/*!50003 CREATE*/ /*!50020 DEFINER=`root`@`localhost`*/ /*!50003 FUNCTION `f`() RETURNS int RETURN 1 */",
            object("function f"),
        ),
        ("CREATE DEFINER='a'@'%' AGGREGATE FUNCTION f(x int) RETURNS int BEGIN END", object("function f")),
        ("/*!50003 DROP FUNCTION IF EXISTS `f` */", object("function f")),
        (
            "/*!50106 CREATE*/ /*!50117 DEFINER=`a`@`%`*/ /*!50106 EVENT `e` ON SCHEDULE EVERY 1 DAY DO SELECT 1 */",
            object("event e"),
        ),
        ("/*!50106 DROP EVENT IF EXISTS `e` */", object("event e")),
        (
            "CREATE DEFINER=CURRENT_USER() PACKAGE BODY `p` AS FUNCTION f RETURN INT AS BEGIN RETURN 1; END; END",
            object("package body p"),
        ),
        // Databases.
        (
            "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET utf8mb4 */ /*!80016 DEFAULT ENCRYPTION='N' */",
            database("shop"),
        ),
        ("/*!40000 DROP DATABASE IF EXISTS `shop`*/", database("shop")),
        ("USE `shop`", database("shop")),
        (
            "ALTER DATABASE `shop` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            alter("shop", "ALTER DATABASE CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
        ),
        // Percona's question for RocksDB: nothing of it is run.
        (
            "/*!50717 SELECT COUNT(*) INTO @rocksdb_has_p_s_session_variables FROM INFORMATION_SCHEMA.TABLES */",
            Meant::Skipped,
        ),
        (
            "/*!50717 SET @rocksdb_get_is_supported = IF (@rocksdb_has_p_s_session_variables, 'SELECT COUNT(*) INTO @rocksdb_is_supported FROM performance_schema.session_variables WHERE VARIABLE_NAME=\\'rocksdb_bulk_load\\'', 'SELECT 0') */",
            Meant::Skipped,
        ),
        ("/*!50717 PREPARE s FROM @rocksdb_get_is_supported */", Meant::Skipped),
        ("/*!50717 EXECUTE s */", Meant::Skipped),
        ("/*!50717 DEALLOCATE PREPARE s */", Meant::Skipped),
    ] {
        assert_eq!(meant(statement), expected, "{statement}");
    }
}

#[test]
fn statements_that_no_script_of_one_database_has() {
    let long = format!("SET @a='{}', GLOBAL general_log_file='/var/www/x.php'", "x".repeat(4096));
    let many = format!("SET {} GLOBAL general_log=1", "@a=@b, ".repeat(40));
    let library = format!("CREATE FUNCTION f /*{} */ RETURNS STRING SONAME 'x.so'", "x".repeat(4096));
    let options = format!("CREATE TABLE t (a int /*{} */) ENGINE=FEDERATED", "x".repeat(4096));
    let large = format!("SET @a='{}'", "x".repeat(65 << 10));
    let versions: String = (0..40).map(|number| format!("/*!{} x */", 60_000 + number)).collect();
    for statement in [
        // More than one name.
        "DROP TABLE IF EXISTS t, prod.users",
        "DROP TABLE t, u",
        "DROP VIEW v, prod.v",
        "DROP VIEW IF EXISTS v RESTRICT",
        "DROP PROCEDURE IF EXISTS p, q",
        // Tables that are moved, exchanged, or are elsewhere.
        "ALTER TABLE t RENAME TO prod.x",
        "ALTER TABLE t DISABLE KEYS, RENAME prod.x",
        "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE prod.t",
        "ALTER TABLE t DISCARD TABLESPACE",
        "ALTER TABLE t IMPORT TABLESPACE",
        "ALTER TABLE t ADD KEY (a), RENAME TO x",
        "ALTER TABLE t ADD CONSTRAINT FOREIGN KEY (a) REFERENCES prod.t (a)",
        "ALTER TABLE t ADD PARTITION (PARTITION p DATA DIRECTORY '/x')",
        "CREATE TABLE t (a int) ENGINE=MERGE UNION=(prod.t) INSERT_METHOD=LAST",
        "CREATE TABLE t (a int) UNION=(u, prod.t)",
        "CREATE TABLE t (a int) ENGINE=FEDERATED CONNECTION='mysql://x'",
        "CREATE TABLE t (a int) ENGINE=CONNECT TABLE_TYPE=DOS FILE_NAME='/etc/passwd'",
        "CREATE TABLE t (a int) ENGINE SPIDER",
        "CREATE TABLE t (a int) ENGINE=`CONNECT`",
        "CREATE TABLE t (a int) ENGINE='CONNECT'",
        "CREATE TABLE t (a int) DEFAULT ENGINE=CONNECT",
        "CREATE TABLE t (a int) ENGINE=S3",
        "CREATE TABLE t (a int) CONNECTION='mysql://x'",
        "CREATE TABLE t (a int) DATA DIRECTORY='/var/www'",
        "CREATE TABLE t (a int) INDEX DIRECTORY='/var/www'",
        "CREATE TABLE t (a int) PARTITION BY HASH (a) (PARTITION p DATA DIRECTORY = '/x')",
        "CREATE TABLE t (a int) PARTITION BY HASH (a) (PARTITION p ENGINE = FEDERATED)",
        "CREATE TABLE t (a int) PARTITION BY HASH (a) (PARTITION p ENGINE SPIDER)",
        "CREATE TABLE t (a int) PARTITION BY HASH (a) (PARTITION p INDEX DIRECTORY '/x' ENGINE = InnoDB)",
        "CREATE TABLE t (a int) PARTITION BY HASH (a) PARTITIONS 2 DATA DIRECTORY '/x'",
        "CREATE TABLE t (a int) PARTITION BY SYSTEM_TIME (PARTITION p HISTORY DATA DIRECTORY '/x', PARTITION c CURRENT)",
        "CREATE TABLE t (a int) PARTITION BY RANGE (prod.f(a)) (PARTITION p VALUES LESS THAN (1))",
        "CREATE TABLE t (a int) PARTITION BY RANGE (a) SUBPARTITION BY HASH (a) (PARTITION p VALUES LESS THAN (1) (SUBPARTITION s ENGINE = CONNECT))",
        "CREATE TABLE t (a int) PARTITION BY HASH (a) SELECT * FROM prod.t",
        "CREATE TABLE t SELECT * FROM u",
        "CREATE TABLE t (a text) AS SELECT LOAD_FILE('/etc/shadow')",
        "CREATE TABLE t (a text) VALUES ROW(1)",
        "CREATE TABLE t (a text) TABLE u",
        "CREATE TABLE t LIKE prod.x",
        "CREATE TABLE t (LIKE prod.x)",
        "CREATE TABLE t (VALUES (sleep(1)))",
        "CREATE TABLE t (values row(f()))",
        "CREATE TABLE t (TABLE u)",
        "CREATE TABLE t ((SELECT 1))",
        "CREATE TABLE t ((VALUES ROW(1)))",
        "CREATE TABLE t (WITH a AS (VALUES ROW(1)) TABLE a)",
        "CREATE TABLE t (a int REFERENCES prod.x (a))",
        "CREATE TABLE t (a int, FOREIGN KEY (a) REFERENCES `prod` . `x` (a))",
        "CREATE TABLE t (a int DEFAULT nextval(`prod`.`s`))",
        "CREATE TABLE t (a int DEFAULT (SELECT 1))",
        "CREATE TABLE t (a int DEFAULT (load_file('/etc/shadow')))",
        "CREATE TABLE t (a int CHECK (1.x > 1))",
        "CREATE TABLE t (a int CHECK (1 .x > 1))",
        "CREATE TABLE t (a int CHECK (x.5 > 1))",
        "CREATE TABLE t (a int); DROP DATABASE prod",
        "CREATE TABLE other . `t` (a int)",
        "CREATE TEMPORARY TABLE t (a int)",
        "DROP TABLE IF EXISTS `other`.`t`",
        "DROP TABLE IF EXISTS `#mysql50#t`",
        &options,
        // Blocks.
        "BEGIN NOT ATOMIC DROP DATABASE prod; END",
        "BEGIN DROP DATABASE prod; END",
        "COMMIT AND CHAIN",
        "COMMIT; DROP DATABASE prod",
        "START TRANSACTION; DROP DATABASE prod",
        "EXECUTE IMMEDIATE 'DROP DATABASE prod'",
        "PREPARE s FROM 'DROP DATABASE prod'",
        "PREPARE s FROM @x",
        "EXECUTE t",
        "IF 1 THEN DROP DATABASE prod; END IF",
        "CALL p()",
        // Comments that some servers run.
        "DROP /*!999999 TABLE t, */ DATABASE prod",
        "DROP /*!999999 TABLE t */ /*!80000 DATABASE prod */",
        "CREATE /*!999999 TABLE t (a int) */ USER eve IDENTIFIED BY ''",
        "CREATE TABLE t (a int) /*!50701 ENGINE=FEDERATED */",
        "CREATE TABLE t (a int) /*M!100300 ENGINE=CONNECT */",
        "/*!50700 CREATE TABLE t (a int) */ /*!100000 DROP DATABASE prod */",
        "INSERT /*!999999 INTO t VALUES (1) */ INTO mysql.user VALUES (1)",
        "INSERT INTO t /*!50700 SELECT * FROM prod.t */",
        "/*!50700 SET @a=1 */ /*M!100000 , GLOBAL general_log=1 */",
        "/*M!100000 SET GLOBAL general_log=1 */",
        "/*!SET GLOBAL general_log=1 */",
        "/*!123 SET GLOBAL general_log=1 */",
        "SET @a=1 /*!999999 , GLOBAL general_log=1 */",
        "SET @a=1 /*!100000 , GLOBAL general_log=1 */",
        "SET @a=1 /*!50750 , GLOBAL general_log=1 */",
        "USE a /*!50800 b */",
        "USE /*!50800 a */ /*!999999 , */",
        "SET sql_mode=/*!50800 'ANSI_QUOTES' */ /*M!100000 'x' */",
        "/*!60000 SET sql_mode='ANSI_QUOTES' */",
        "/*! /* */ DROP DATABASE prod */",
        "/*!999999 /* */ DROP DATABASE prod */",
        "SET @a=1 /*!50000 , GLOBAL general_log=1",
        &versions,
        // Long ones.
        &long,
        &many,
        &library,
        &large,
        // Comments up to the end of a line.
        "SET @a=1 -- '\n/*!50000 , GLOBAL general_log=1 */",
        "SET @a=1 # '\n, GLOBAL general_log=1",
        "SET @a=1 --\t'\n, GLOBAL general_log=1 -- '",
        "DROP TABLE t -- x\n, prod.u",
        // Settings.
        "SET GLOBAL general_log_file = '/tmp/x'",
        "SET @@global.general_log = 1",
        "SET @@GLOBAL . general_log = 1",
        "SET sql_mode='', GLOBAL general_log=1",
        "SET SESSION sql_mode='', @@global.general_log=1",
        "/*!50003 SET @@PERSIST.x = 1 */",
        "SET PERSIST_ONLY x = 1",
        "SET PASSWORD = 'x'",
        "SET @a=1, PASSWORD = PASSWORD('x')",
        "SET @a=@b, ROLE admin",
        "SET ROLE admin",
        "SET DEFAULT ROLE ALL TO x",
        "SET RESOURCE GROUP g",
        "SET STATEMENT max_statement_time = 1 FOR DROP DATABASE x",
        "SET sql_log_off = 1",
        "SET default_storage_engine = CONNECT",
        "SET @a = (SELECT 1)",
        "SET @a = LOAD_FILE('/etc/shadow')",
        "SET @a = f()",
        "SET @a = prod.f()",
        "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
        "SET GLOBAL gtid_slave_pos='', GLOBAL general_log=1",
        "SET @@SESSION.SQL_LOG_BIN= (SELECT 1)",
        "SET sql_mode = 4",
        "SET sql_mode = CONCAT('ANSI', '_QUOTES')",
        "SET sql_mode = 'ANSI' '_QUOTES'",
        "SET sql_mode = 'ANSI\\_QUOTES'",
        "SET sql_mode = DEFAULT",
        "SET sql_mode = @@GLOBAL.sql_mode",
        "SET @a = 4",
        "SET @a = 0x414E5349",
        "SET @a = @@max_allowed_packet",
        "SET @a='ANSI', sql_mode=@a",
        "SET sql_mode='ANSI', @a=@@sql_mode",
        // Databases.
        "ALTER DATABASE a prod CHARACTER SET x",
        "ALTER DATABASE a UPGRADE DATA DIRECTORY NAME",
        "ALTER DATABASE a READ ONLY = 1",
        "ALTER DATABASE a",
        "DROP DATABASE shop",
        "DROP DATABASE IF EXISTS shop, prod",
        "USE a; DROP DATABASE prod",
        // Sequences, files, rows.
        "SELECT SETVAL(s, 1, 0), '<?php' INTO OUTFILE '/var/www/x'",
        "SELECT SETVAL(s, 1, 0) INTO OUTFILE '/var/www/x'",
        "SELECT SETVAL(prod.s, 1, 0)",
        "SELECT SETVAL(s, f(), 0)",
        "DO SETVAL(`s`, 1, 0), SLEEP(1)",
        "DO SLEEP(1)",
        "CREATE SEQUENCE prod.s",
        "CREATE SEQUENCE s START WITH (SELECT 1)",
        "SELECT 1",
        "SELECT * FROM t INTO OUTFILE '/tmp/x'",
        "SELECT COUNT(*) INTO OUTFILE '/tmp/x' FROM t",
        "INSERT INTO `mysql`.`user` VALUES (1)",
        "INSERT INTO /* x */ mysql.user VALUES (1)",
        "INSERT INTO t VALUES (LOAD_FILE('/etc/shadow'))",
        "INSERT INTO t VALUES ((SELECT 1))",
        "INSERT INTO t VALUES (1), (f())",
        "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = LOAD_FILE('x')",
        "INSERT INTO t VALUES (1) RETURNING LOAD_FILE('x')",
        "INSERT INTO t VALUES (@a)",
        "INSERT INTO t VALUES (prod.f())",
        "INSERT INTO t VALUES (1.f())",
        "INSERT INTO t VALUES (1 /*!50000 , LOAD_FILE('x') */)",
        "INSERT INTO t VALUES (1 -- '\n, LOAD_FILE('x') -- '\n)",
        "INSERT INTO t VALUES (1 # '\n, LOAD_FILE('x') # '\n)",
        "INSERT INTO t SELECT * FROM prod.t",
        "INSERT INTO t TABLE u",
        "INSERT INTO t SET a = LOAD_FILE('x')",
        "INSERT INTO t (a) SELECT 1",
        "INSERT INTO t PARTITION (p) VALUES (1)",
        "INSERT INTO t VALUES",
        "INSERT INTO t VALUES (1",
        "REPLACE INTO prod.t VALUES (1)",
        "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE t",
        "UPDATE t SET a = 1",
        "DELETE FROM t",
        "TRUNCATE t",
        // Objects elsewhere, and libraries.
        "CREATE FUNCTION `mysql`.`f`() RETURNS int RETURN 1",
        "CREATE FUNCTION f RETURNS STRING SONAME 'evil.so'",
        "CREATE AGGREGATE FUNCTION f RETURNS STRING SONAME 'evil.so'",
        "CREATE TRIGGER t BEFORE INSERT ON prod.x FOR EACH ROW SET @a=1",
        "CREATE TRIGGER prod.t BEFORE INSERT ON x FOR EACH ROW SET @a=1",
        "CREATE VIEW prod.v AS SELECT 1",
        "CREATE EVENT prod.e ON SCHEDULE EVERY 1 DAY DO SELECT 1",
        "CREATE OR REPLACE DEFINER=a@b PROCEDURE prod.p() SELECT 1",
        "CREATE DEFINER=a@b USER eve",
        "DROP FUNCTION prod.f",
        "ANALYZE TABLE prod.t UPDATE HISTOGRAM ON a",
        "ANALYZE TABLE t, prod.t",
        // The server.
        "GRANT ALL ON *.* TO x",
        "CREATE USER x",
        "CREATE ROLE x",
        "CREATE INDEX i ON prod.t (a)",
        "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'x')",
        "CREATE TABLESPACE ts ADD DATAFILE '/x'",
        "CREATE LOGFILE GROUP g ADD UNDOFILE 'x'",
        "INSTALL PLUGIN x SONAME 'y'",
        "/*! FLUSH PRIVILEGES */",
        "/*!50606 SET GLOBAL INNODB_STATS_AUTO_RECALC=OFF */",
        "RENAME TABLE t TO prod.t",
        "KILL 1",
        "SHUTDOWN",
        "HANDLER t OPEN",
        "'x'",
        "SET",
        "CREATE",
        "CREATE TABLE",
        "\u{a0}",
        "SET @a='x",
        "SET @a=\\g",
        "DROP TABLE `t",
        "DROP\u{b}TABLE t",
    ] {
        assert!(is_refused(statement), "{statement}: {:?}", meant(statement));
    }
    for nothing in ["", "/* x */", "/*!999999 DROP DATABASE prod */ /* */"] {
        let first = Judge::default().judge(nothing.as_bytes());
        assert!(matches!(first, Meant::Skipped | Meant::Unknown(_)), "{nothing}");
    }
}

#[test]
fn each_server_reads_its_own_versions() {
    let of = |mariadb, version| Server { mariadb, version };
    let runs = |sql: &str, server| match one(sql.as_bytes(), Dialect::of(server), &State::default()) {
        Ok((Meant::Session(_), _)) => true,
        Ok((Meant::Skipped, _)) => false,
        other => panic!("{sql}: {other:?}"),
    };
    for (sql, server, expected) in [
        ("/*!50003 SET @a=@b */", of(false, 50_744), true),
        ("/*!50800 SET @a=@b */", of(false, 80_036), true),
        ("/*!50800 SET @a=@b */", of(true, 101_119), false),
        ("/*!80011 SET @a=@b */", of(true, 101_119), false),
        ("/*!080011 SET @a=@b */", of(true, 101_119), false),
        ("/*!100100 SET @a=@b */", of(true, 101_119), true),
        ("/*!999999 SET @a=@b */", of(true, 101_119), false),
        ("/*!50699 SET @a=@b */", of(true, 101_119), true),
        ("/*M!50800 SET @a=@b */", of(true, 101_119), true),
        ("/*M!50800 SET @a=@b */", of(false, 80_036), false),
        ("/*!80037 SET @a=@b */", of(false, 80_036), false),
        ("/*!80036 SET @a=@b */", of(false, 80_036), true),
        ("/*! SET @a=@b */", of(false, 80_036), true),
    ] {
        assert_eq!(runs(sql, server), expected, "{sql} {server:?}");
    }
    // Each server that reads the digits or the numbers otherwise is asked, too.
    for sql in ["SET @a=1 /*!51000 , GLOBAL x=1 */", "SET @a=1 /*!80011 , GLOBAL x=1 */", "/*!100100 DROP TABLE t */"] {
        assert!(is_refused(sql), "{sql}");
    }
}

/// The last statement's meaning, behind others that are taken.
fn behind(statements: &[&str]) -> Meant {
    let mut judge = Judge::default();
    let mut last = Meant::Skipped;
    for statement in statements {
        assert!(!matches!(last, Meant::Unknown(_)), "{statements:?}");
        last = judge.judge(statement.as_bytes());
    }
    last
}

#[test]
fn the_scripts_own_modes_are_followed() {
    const HIDDEN: &str = "SET @a='\\', GLOBAL general_log=1, @b='";
    const NAMED: &str = "DROP TABLE \"t\"";
    for (statements, is_refused) in [
        (&["SET sql_mode='NO_BACKSLASH_ESCAPES'", HIDDEN][..], true),
        (&["SET sql_mode='no_backslash_escapes'", HIDDEN], true),
        (&["/*!50003 SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES' */", HIDDEN], true),
        (&["SET @m='NO_BACKSLASH_ESCAPES'", "SET sql_mode=@m", HIDDEN], true),
        (&["SET sql_mode='NO_BACKSLASH_ESCAPES'", "INSERT INTO t VALUES ('\\', LOAD_FILE('x'), '')"], true),
        (&["SET sql_mode='NO_BACKSLASH_ESCAPES'", "INSERT INTO t VALUES ('\\')"], false),
        (&["INSERT INTO t VALUES ('\\')"], true),
        (&[NAMED], true),
        (&["SET sql_mode='ANSI_QUOTES'", NAMED], false),
        (&["SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO,ANSI'", NAMED], false),
        (&["SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='ANSI'", "SET SQL_MODE=@OLD_SQL_MODE", NAMED], true),
        (&["SET sql_mode='ANSI'", "SET @s=@@sql_mode", "SET sql_mode=''", "SET sql_mode=@s", NAMED], false),
        (&["SET sql_mode='ANSI'", "DROP TABLE \"t\\\""], false),
        (&["SET sql_mode='ANSI'", "DROP TABLE \"t\\\", prod.\"u\""], true),
        (&["SET sql_mode='ANSI'", "INSERT INTO t VALUES (\"a\")"], true),
        (&["SET sql_mode='ANSI'", "CREATE DEFINER=\"root\"@\"localhost\" PROCEDURE \"an\"()\nBEGIN END"], false),
        (&["SET NAMES gbk", "INSERT INTO t VALUES ('a')"], false),
        (&["SET NAMES gbk", "INSERT INTO t VALUES ('\u{e4}')"], true),
        (&["SET NAMES 'SJIS'", "INSERT INTO t VALUES ('\u{e4}')"], true),
        (&["SET character_set_client = big5", "DROP TABLE `\u{e4}`"], true),
        (
            &[
                "SET NAMES gbk",
                "SET @c=@@character_set_client",
                "SET NAMES utf8",
                "SET character_set_client=@c",
                "DROP TABLE `\u{e4}`",
            ],
            true,
        ),
        (&["SET NAMES gbk", "SET NAMES utf8mb4", "INSERT INTO t VALUES ('\u{e4}')"], false),
    ] {
        assert_eq!(matches!(behind(statements), Meant::Unknown(_)), is_refused, "{statements:?}");
    }
}
