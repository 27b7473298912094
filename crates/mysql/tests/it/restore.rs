//! A set back into a server.

use std::sync::Arc;
use std::time::Duration;

use seawall_archive::server::Prove as _;
use seawall_core::{Kind, NoProgress, When};
use seawall_mysql::{Prover, RestoreOptions, World};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;

use crate::restoring::{
    backup, backup_as_script, environment, everything, is_the_same, limits, options, recover, unfinished,
};
use crate::server::{Server, target};
use crate::support::vault;

/// A database with every kind of object, type and corner.
const EVERYTHING: &str = r#"
CREATE DATABASE shop CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci COMMENT 'the shop''s';
USE shop;
SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO';
CREATE USER 'owner'@'%';
CREATE SEQUENCE numbers START WITH 5 INCREMENT BY 3 MAXVALUE 1000 CACHE 10 CYCLE;
DO NEXTVAL(numbers);
CREATE TABLE numbered (id int NOT NULL DEFAULT NEXTVAL(shop.numbers) PRIMARY KEY, x int);
INSERT INTO numbered (x) VALUES (1), (2);
CREATE TABLE kinds (
  id bigint unsigned NOT NULL AUTO_INCREMENT, a tinyint, b smallint unsigned zerofill, c mediumint, d decimal(65,30), e float, f double,
  g bit(17), h date, i datetime(6), j timestamp(6) NULL, k time(6), l year, m char(5) CHARACTER SET latin1, n varchar(20) CHARACTER SET utf8mb3 COLLATE utf8mb3_bin,
  o binary(4), p varbinary(30), q tinyblob, r longtext CHARACTER SET ucs2, s enum('a','b''c','ä') CHARACTER SET latin1, t set('x','y'), u json,
  v geometry, w point, x uuid, y inet6, z inet4, aa text CHARACTER SET sjis, bb bool, cc varchar(10) CHARACTER SET utf16,
  PRIMARY KEY (id), UNIQUE KEY u1 (p), KEY k1 (a, b), KEY k2 (n(3)), FULLTEXT KEY f1 (aa), FULLTEXT KEY f2 (n)
) ENGINE=InnoDB COMMENT='(all), `kinds`' ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8;
INSERT INTO kinds VALUES
 (0, -128, 7, 8388607, 12345678901234567890123456789012345.123456789012345678901234567890, 1.1754943e-38, 1e308, b'10000000000000001', '0000-00-00', '2026-02-31 23:59:59.999999',
  '1970-01-01 00:00:01.000001', '-838:59:59.000000', 1901, 'äöü', '漢字', 'a\0', 0x00090A0D5C27221AFF, '', '𝄞\n\t\\', 'b''c', 'x,y', '{"a": "ä\\n"}',
  ST_GeomFromText('LINESTRING(0 0,1 1)', 4326), POINT(1.5, -2), '123e4567-e89b-12d3-a456-426655440000', '2001:db8::1', '10.1.2.3', '表示', 1, 'é𝄞'),
 (18446744073709551615, NULL, NULL, NULL, NULL, 3.4028235e38, -0.0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '\\N', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
 (3, 0, 0, 0, 0, 0.1, 0.1, b'0', '2026-01-01', '1000-01-01', '2038-01-19 03:14:07', '00:00:00.5', 0, '', 'NULL', '', 'x', 'y', '', 'a', '', 'null', NULL, NULL, NULL, '::', '0.0.0.0', '', 0, '');
INSERT IGNORE INTO kinds (id, s, p) VALUES (4, 'not one', 'z');
CREATE TABLE `odd ``names` (`a``b` int, `c d` int GENERATED ALWAYS AS (`a``b` * 2) VIRTUAL, `e,)` int AS (`a``b` + 1) PERSISTENT, `f` int INVISIBLE DEFAULT 3,
  `select` varchar(10) DEFAULT 'x'',(', CONSTRAINT `pos` CHECK (`a``b` > -5), KEY `k``1` (`c d`), UNIQUE KEY (`e,)`)) COMMENT='it''s\n\\ `x`';
INSERT INTO `odd ``names` (`a``b`, f) VALUES (1, 7), (2, 8), (NULL, 9);
CREATE TABLE only_generated (g int AS (1 + 1) VIRTUAL);
INSERT INTO only_generated VALUES (), ();
CREATE TABLE parent (id int PRIMARY KEY, other int, KEY (other)) ENGINE=InnoDB;
CREATE TABLE child (id int AUTO_INCREMENT PRIMARY KEY, parent int, KEY (parent), CONSTRAINT circle_1 FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE) ENGINE=InnoDB AUTO_INCREMENT=500;
ALTER TABLE parent ADD CONSTRAINT circle_2 FOREIGN KEY (other) REFERENCES child (id) ON UPDATE SET NULL;
SET foreign_key_checks = 0; INSERT INTO parent VALUES (1, 10), (2, NULL); INSERT INTO child VALUES (10, 1), (11, 2); SET foreign_key_checks = 1;
CREATE TABLE no_primary (a int, b int NOT NULL, UNIQUE KEY ub (b), KEY ka (a)) ENGINE=InnoDB;
INSERT INTO no_primary VALUES (1, 1), (1, 2);
CREATE TABLE counts_elsewhere (a int PRIMARY KEY, n int NOT NULL AUTO_INCREMENT, KEY (n)) ENGINE=InnoDB; INSERT INTO counts_elsewhere VALUES (1, 0), (2, 5);
CREATE TABLE old (a int, b text, KEY (a), FULLTEXT (b)) ENGINE=MyISAM; INSERT INTO old VALUES (1, 'x'), (2, 'y');
CREATE TABLE crash_safe (a int PRIMARY KEY) ENGINE=Aria PAGE_CHECKSUM=1; INSERT INTO crash_safe VALUES (1), (2);
CREATE TABLE fleeting (a int PRIMARY KEY) ENGINE=MEMORY; INSERT INTO fleeting VALUES (1);
CREATE TABLE m1 (a int, KEY (a)) ENGINE=MyISAM; CREATE TABLE m2 LIKE m1; INSERT INTO m1 VALUES (1); INSERT INTO m2 VALUES (2);
CREATE TABLE merged (a int, KEY (a)) ENGINE=MERGE UNION=(m1, m2) INSERT_METHOD=LAST;
CREATE TABLE parts (a int, b date, PRIMARY KEY (a, b)) PARTITION BY RANGE (YEAR(b)) SUBPARTITION BY HASH (a) SUBPARTITIONS 2
  (PARTITION p0 VALUES LESS THAN (2020), PARTITION `p max` VALUES LESS THAN MAXVALUE);
INSERT INTO parts VALUES (1, '2019-01-01'), (2, '2026-01-01');
CREATE TABLE versioned (id int PRIMARY KEY, v text) WITH SYSTEM VERSIONING; INSERT INTO versioned VALUES (1, 'a'), (2, 'b');
UPDATE versioned SET v = 'c' WHERE id = 1; DELETE FROM versioned WHERE id = 2;
CREATE TABLE spans (id int, since date, until date, PERIOD FOR valid (since, until), UNIQUE KEY (id, valid WITHOUT OVERLAPS)); INSERT INTO spans VALUES (1, '2026-01-01', '2026-02-01');
CREATE TABLE nothing (a int);
CREATE TABLE `tablé 表` (`spältę` text, `zwei` int AS (1)); INSERT INTO `tablé 表` (`spältę`) VALUES ('ä');
CREATE TABLE log (what varchar(100));
DELIMITER //
CREATE DEFINER='owner'@'%' TRIGGER first_one BEFORE INSERT ON parent FOR EACH ROW INSERT INTO log VALUES ('first')//
CREATE TRIGGER shop.`second one` BEFORE INSERT ON shop.parent FOR EACH ROW FOLLOWS first_one BEGIN INSERT INTO shop.log VALUES (CONCAT('second; ', NEW.id)); END//
CREATE FUNCTION double_it(x int) RETURNS int DETERMINISTIC COMMENT 'it''s' RETURN x * 2//
CREATE DEFINER='owner'@'%' PROCEDURE p(IN a varchar(10), OUT b text) SQL SECURITY INVOKER READS SQL DATA BEGIN SELECT 'ä;' INTO b; END//
SET NAMES latin1//
CREATE FUNCTION in_latin1() RETURNS varchar(10) DETERMINISTIC RETURN 'abc'//
SET NAMES utf8mb4//
SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES'//
CREATE PROCEDURE "ansi one"() SELECT 'a\' || "x".id FROM parent "x"//
CREATE TRIGGER ansi AFTER DELETE ON "child" FOR EACH ROW INSERT INTO log VALUES ('\')//
SET SESSION sql_mode = ''//
DELIMITER ;
CREATE VIEW z AS SELECT p.id, double_it(p.id) AS twice FROM parent p;
CREATE ALGORITHM=MERGE DEFINER='owner'@'%' SQL SECURITY INVOKER VIEW a AS SELECT * FROM z WHERE id > 0 WITH CASCADED CHECK OPTION;
SET SESSION time_zone = '+03:00';
CREATE EVENT sometimes ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01 00:00:00' ON COMPLETION PRESERVE COMMENT 'ENABLE' DO INSERT INTO log VALUES ('event');
CREATE DEFINER='owner'@'%' EVENT never ON SCHEDULE EVERY 1 HOUR DISABLE DO DELETE FROM log;
"#;

pub(crate) fn source() -> Server {
    let server = Server::start();
    let script = server.file("script.sql");
    std::fs::write(&script, EVERYTHING).expect("written");
    let loaded = server.load_file("mysql", script.as_ref(), &["--default-character-set=utf8mb4"]);
    assert_eq!(loaded, Ok(()));
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_with_everything_comes_back_as_it_was() {
    let server = source();
    let vault = vault(&MemoryStore::default());
    backup(&server.url("shop"), &vault).await.expect("a backup");
    let restored = recover(&vault, &server.url("copy"), &options()).await.expect("a restore");
    assert!(restored.refused.is_empty(), "{:?}", restored.refused);
    let before = everything(&server, "shop");
    is_the_same(&everything(&server, "copy"), &before);
    assert_eq!(unfinished(&server), "");
    // Restored again it has content, which is in the way unless it is to be replaced.
    let failure = recover(&vault, &server.url("copy"), &options()).await.expect_err("it isn't empty");
    assert_eq!((failure.kind, failure.code), (Kind::Refused, "mysql.not-ready"));
    server.sql("DROP TABLE copy.nothing; CREATE TABLE copy.extra (a int)");
    let clean = RestoreOptions { clean: true, ..options() };
    recover(&vault, &server.url("copy"), &clean).await.expect("it is replaced");
    is_the_same(&everything(&server, "copy"), &before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_allows_no_local_files_takes_the_same_rows() {
    let server = source();
    let vault = vault(&MemoryStore::default());
    backup(&server.url("shop"), &vault).await.expect("a backup");
    server.sql("SET GLOBAL local_infile = OFF");
    let plan =
        recover(&vault, &server.url("copy"), &RestoreOptions { dry_run: true, ..options() }).await.expect("a plan");
    assert!(plan.doubts.iter().any(|doubt| doubt.contains("local_infile")), "{:?}", plan.doubts);
    assert_eq!(server.sql("SHOW DATABASES LIKE 'copy'"), "", "a plan writes nothing");
    recover(&vault, &server.url("copy"), &options()).await.expect("a restore");
    is_the_same(&everything(&server, "copy"), &everything(&server, "shop"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_with_everything_is_proved_on_a_server_of_its_own_and_on_a_named_one() {
    let server = source();
    let vault = vault(&MemoryStore::default());
    backup(&server.url("shop"), &vault).await.expect("a backup");
    for to in [None, Some(target(&server.url("")))] {
        let prover = Prover { to, world: World::real(environment()) };
        let proved = prover.prove(&vault, &When::Latest, &limits(), Arc::new(NoProgress)).await.expect("a proof");
        assert!(proved.findings.is_empty(), "{:?}", proved.findings);
        assert!(proved.tables > 15 && proved.rows > 20 && proved.objects > 25, "{proved:?}");
        assert!(proved.server.starts_with("MariaDB 10.11"), "{}", proved.server);
    }
    assert_eq!(server.sql("SHOW DATABASES LIKE 'seawall%'"), "");
}

/// A database with rows in many chunks, in tables of an engine with transactions and of one without.
fn large() -> Server {
    let server = Server::start();
    server.sql(
        "CREATE DATABASE shop; USE shop; \
         CREATE TABLE big (id int PRIMARY KEY, filler varchar(600), KEY (filler)); \
         INSERT INTO big SELECT seq, REPEAT(SHA2(seq, 512), 4) FROM seq_1_to_40000; \
         CREATE TABLE plain (id int PRIMARY KEY, filler varchar(600)) ENGINE=MyISAM; INSERT INTO plain SELECT * FROM big LIMIT 20000; \
         CREATE TABLE small (id int AUTO_INCREMENT PRIMARY KEY, big int, FOREIGN KEY (big) REFERENCES big (id)); \
         INSERT INTO small (big) SELECT id FROM big LIMIT 100; \
         CREATE TRIGGER t BEFORE INSERT ON small FOR EACH ROW SET NEW.big = NEW.big + 0; CREATE VIEW v AS SELECT * FROM small",
    );
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_restore_goes_on_with_other_jobs_and_what_it_replaces_stays_until_the_end() {
    let server = large();
    let vault = vault(&MemoryStore::default());
    backup(&server.url("shop"), &vault).await.expect("a backup");
    goes_on(&server, &vault).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_restore_of_a_script_goes_on_with_the_next_table() {
    let server = large();
    let vault = vault(&MemoryStore::default());
    backup_as_script(&server.url("shop"), &vault).await.expect("a backup");
    goes_on(&server, &vault).await;
}

/// Interrupts a restore of the set that a vault has, and repeats it.
async fn goes_on(server: &Server, vault: &Vault) {
    server.sql("CREATE DATABASE copy; CREATE TABLE copy.precious (a int); INSERT INTO copy.precious VALUES (7)");
    let clean = |jobs| {
        let mut options = RestoreOptions { clean: true, ..options() };
        options.limits.jobs = jobs;
        options
    };
    let (url, copied, first) = (server.url("copy"), vault.clone(), clean(4));
    let restoring = tokio::spawn(async move { recover(&copied, &url, &first).await });
    let journal = "SELECT CONCAT('`', table_schema, '`.`', table_name, '`') FROM information_schema.tables \
                   WHERE table_name LIKE 'seawall-journal-%'";
    let noted = loop {
        let found = server.sql(journal);
        let steps = if found.is_empty() { String::new() } else { server.sql(&format!("SELECT step FROM {found}")) };
        if steps.contains("chunk ") || restoring.is_finished() {
            break steps;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    restoring.abort();
    let ended = restoring.await;
    assert!(noted.contains("chunk ") && !noted.contains("moved"), "{noted}");
    assert!(ended.is_err(), "it was to be interrupted: {ended:?}");
    assert_eq!(server.sql("SELECT a FROM copy.precious"), "7");
    // Killed sessions are gone when the server has noticed.
    server
        .wait("SELECT COUNT(*) FROM information_schema.processlist WHERE command = 'Query' AND info LIKE 'LOAD%'", "0");
    let failure = recover(vault, &server.url("copy"), &options()).await.expect_err("without --clean it is in the way");
    assert_eq!(failure.code, "mysql.not-ready");
    assert_eq!(server.sql("SELECT a FROM copy.precious"), "7");
    let mut attempts = 0;
    let restored = loop {
        // The lock of the interrupted session may be held for another moment.
        match recover(vault, &server.url("copy"), &clean(1)).await {
            Ok(restored) => break restored,
            Err(failure) if failure.code == "mysql.restore-running" && attempts < 100 => attempts += 1,
            Err(failure) => panic!("{failure:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert!(restored.resumed && restored.refused.is_empty());
    is_the_same(&everything(server, "copy"), &everything(server, "shop"));
    assert_eq!(unfinished(server), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_alone_and_rows_alone() {
    let server = large();
    let vault = vault(&MemoryStore::default());
    backup(&server.url("shop"), &vault).await.expect("a backup");
    server.sql("CREATE DATABASE copy; CREATE TABLE copy.other (a int)");
    let small = RestoreOptions { tables: vec!["shop.small".to_owned()], ..options() };
    let restored = recover(&vault, &server.url("copy"), &small).await.expect("a restore");
    assert_eq!(restored.left_out, [("foreign key small.small_ibfk_1".to_owned(), "it needs table big".to_owned())]);
    assert_eq!(server.sql("SELECT COUNT(*) FROM copy.small"), "100");
    assert_eq!(server.sql("SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = 'copy'"), "t");
    let failure = recover(&vault, &server.url("copy"), &small).await.expect_err("it is there");
    assert_eq!(failure.code, "mysql.not-ready");
    let wrong = RestoreOptions { tables: vec!["smal".to_owned()], ..options() };
    let failure = recover(&vault, &server.url("copy"), &wrong).await.expect_err("there is no such");
    assert_eq!(failure.code, "mysql.no-table");

    let rows = RestoreOptions { data_only: true, ..options() };
    server.sql("CREATE DATABASE rows_only; USE rows_only; CREATE TABLE big LIKE shop.big; CREATE TABLE plain LIKE shop.plain; \
                CREATE TABLE small LIKE shop.small; CREATE TRIGGER fires BEFORE INSERT ON small FOR EACH ROW SET NEW.big = 1");
    let failure = recover(&vault, &server.url("rows_only"), &rows).await.expect_err("a trigger would run");
    assert!(failure.next.contains("DROP TRIGGER `rows_only`.`fires`"), "{failure:?}");
    server.sql("DROP TRIGGER rows_only.fires");
    recover(&vault, &server.url("rows_only"), &rows).await.expect("a restore");
    for table in ["big", "plain", "small"] {
        let sum = |database: &str| {
            server.sql(&format!("CHECKSUM TABLE {database}.{table}")).split_once('\t').map(|sum| sum.1.to_owned())
        };
        assert_eq!(sum("rows_only"), sum("shop"), "{table}");
    }
    let failure = recover(&vault, &server.url("rows_only"), &rows).await.expect_err("they have rows");
    assert!(failure.cause.contains("has rows already"), "{failure:?}");
    assert_eq!(unfinished(&server), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_alone_that_refer_to_none_are_told_by_their_key() {
    let server = Server::start();
    server.sql(
        "CREATE DATABASE d; USE d; CREATE TABLE p (a int, b varchar(9), PRIMARY KEY (a, b)); \
         CREATE TABLE c (id int PRIMARY KEY, a int, b varchar(9), up int, CONSTRAINT pair FOREIGN KEY (a, b) REFERENCES p (a, b), \
         CONSTRAINT itself FOREIGN KEY (up) REFERENCES c (id)); \
         INSERT INTO p VALUES (1, 'x'), (2, 'y'); INSERT INTO c VALUES (1, 1, 'X', 1), (2, NULL, 'q', NULL), (3, 2, 'y', 1)",
    );
    let vault = vault(&MemoryStore::default());
    backup(&server.url("d"), &vault).await.expect("a backup");
    server.sql("CREATE DATABASE new; CREATE TABLE new.p LIKE d.p; INSERT INTO new.p VALUES (1, 'x')");
    let shown = server.sql("USE d; SHOW CREATE TABLE c");
    server.sql(&format!("USE new; {}", shown.split_once('\t').expect("two columns").1.replace("\\n", " ")));
    let child = RestoreOptions { tables: vec!["c".to_owned()], data_only: true, ..options() };
    let failure = recover(&vault, &server.url("new"), &child).await.expect_err("(2, 'y') is missing");
    assert_eq!(failure.code, "mysql.constraint", "{failure:?}");
    assert!(failure.object.contains("foreign key pair of new.c"), "{failure:?}");
    // The same restore goes on when the row is there.
    server.sql("INSERT INTO new.p VALUES (2, 'y')");
    let restored = recover(&vault, &server.url("new"), &child).await.expect("a restore");
    assert!(restored.resumed && unfinished(&server).is_empty());
    let rows = |database: &str| server.sql(&format!("SELECT * FROM {database}.c ORDER BY id"));
    assert_eq!(rows("new"), rows("d"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_server_comes_back_with_its_users() {
    let (server, other) = (source(), Server::start());
    server.sql(
        "CREATE DATABASE second; CREATE TABLE second.t (a int PRIMARY KEY, b int, FOREIGN KEY (b) REFERENCES shop.parent (id)); \
         CREATE VIEW second.v AS SELECT * FROM shop.a; CREATE ROLE clerk; GRANT SELECT ON shop.* TO clerk; \
         CREATE USER app@localhost IDENTIFIED BY 'x'; GRANT clerk TO app@localhost; GRANT UPDATE (b) ON second.t TO app@localhost",
    );
    let vault = vault(&MemoryStore::default());
    backup(&server.url(""), &vault).await.expect("a backup");
    other.sql("CREATE USER 'owner'@'%' IDENTIFIED BY 'its own'");
    let restored = recover(&vault, &other.url(""), &options()).await.expect("a restore");
    assert!(restored.refused.is_empty(), "{:?}", restored.refused);
    assert_eq!(restored.databases, ["second", "shop"]);
    assert!(restored.kept.iter().any(|(what, _)| what == "account owner@%"), "{:?}", restored.kept);
    for database in ["shop", "second"] {
        is_the_same(&everything(&other, database), &everything(&server, database));
    }
    for account in ["clerk", "app@localhost"] {
        let grants = format!("SHOW GRANTS FOR {account}");
        assert_eq!(other.sql(&grants), server.sql(&grants));
    }
    assert_eq!(unfinished(&other), "");
    let one =
        recover(&vault, &other.url("again"), &RestoreOptions { database: Some("shop".to_owned()), ..options() }).await;
    assert_eq!(one.expect("one of them").databases, ["shop"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_account_lacks_is_named_before_anything_is_written() {
    let server = source();
    let vault = vault(&MemoryStore::default());
    backup(&server.url("shop"), &vault).await.expect("a backup");
    server.sql("CREATE USER plain@localhost; GRANT ALL ON `copy`.* TO plain@localhost");
    let url = server.socket("plain", "copy");
    let plan = recover(&vault, &url, &RestoreOptions { dry_run: true, ..options() }).await.expect("a plan");
    let mends: Vec<&str> = plan.lacks.iter().map(|lack| lack.mend.as_str()).collect();
    assert!(mends.iter().any(|mend| mend.contains("ON `seawall-%`.* TO `plain`@`localhost`")), "{mends:?}");
    assert!(mends.iter().any(|mend| mend.starts_with("GRANT SET USER")), "{mends:?}");
    let failure = recover(&vault, &url, &options()).await.expect_err("it lacks rights");
    assert_eq!((failure.code, unfinished(&server)), ("mysql.not-ready", String::new()));
    server.sql("GRANT ALL ON `seawall-%`.* TO plain@localhost");
    let stripped = RestoreOptions { owners: false, ..options() };
    let restored = recover(&vault, &url, &stripped).await.expect("a restore");
    assert!(restored.refused.is_empty(), "{:?}", restored.refused);
    let definers = "SELECT DISTINCT definer FROM information_schema.views WHERE table_schema = 'copy' UNION \
                    SELECT definer FROM information_schema.triggers WHERE trigger_schema = 'copy' UNION \
                    SELECT definer FROM information_schema.routines WHERE routine_schema = 'copy'";
    assert_eq!(server.sql(definers), "plain@localhost");
    let rights = "SELECT DISTINCT security_type FROM information_schema.views WHERE table_schema = 'copy' UNION \
                  SELECT DISTINCT security_type FROM information_schema.routines WHERE routine_schema = 'copy'";
    assert_eq!(server.sql(rights), "INVOKER");
    assert_eq!(
        server.sql("SELECT DISTINCT status FROM information_schema.events WHERE event_schema = 'copy'"),
        "DISABLED"
    );
}

/// What only MySQL has.
pub(crate) const OF_MYSQL: &str = r#"
CREATE DATABASE shop CHARACTER SET utf8mb4; USE shop; SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO';
CREATE TABLE kinds (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, j json, b bit(9), g geometry NOT NULL SRID 4326, d date, f float,
  e enum('a','b'), v varchar(20) COLLATE utf8mb4_0900_ai_ci, n int GENERATED ALWAYS AS (LENGTH(v) + 1) STORED, x varchar(40) DEFAULT (uuid()),
  KEY x ((f + 1)), KEY y (v DESC) INVISIBLE, SPATIAL KEY s (g));
INSERT INTO kinds (id, j, b, g, d, f, e, v) VALUES (0, '{"a": ["ä", 1.50, null]}', b'100000001', ST_GeomFromText('POINT(1 2)', 4326), '2026-02-31', 0.1, 'b', 'x'),
  (7, NULL, NULL, ST_GeomFromText('LINESTRING(0 0,1 1)', 4326), '0000-00-00', 3.4028235e38, NULL, 'ß');
CREATE TABLE `tablé` (`spältę` text, g point NOT NULL); INSERT INTO `tablé` VALUES ('ä', POINT(1, 2));
CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES parent (id));
INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1, 1);
CREATE TRIGGER t BEFORE INSERT ON parent FOR EACH ROW SET NEW.id = NEW.id;
CREATE FUNCTION f() RETURNS int DETERMINISTIC RETURN 1; CREATE VIEW v AS SELECT f() AS f, id FROM parent;
CREATE EVENT e ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01 00:00:00' DO DO 1
"#;

/// Insists that a database has the rows and the objects of `shop` in [`OF_MYSQL`].
pub(crate) fn is_as_shop(server: &Server, name: &str) {
    for table in ["kinds", "tablé", "parent", "child"] {
        let sum = |database: &str| {
            server.sql(&format!("CHECKSUM TABLE {database}.{table}")).split_once('\t').map(|sum| sum.1.to_owned())
        };
        assert_eq!(sum(name), sum("shop"), "{table}");
    }
    for kind in ["TABLE kinds", "TABLE child", "VIEW v", "FUNCTION f", "TRIGGER t", "EVENT e"] {
        let shown = |database: &str| {
            let shown = server.sql(&format!("USE {database}; SHOW CREATE {kind}"));
            // The moment at which a trigger was made is told as well.
            shown.split('\t').take(4).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(name), shown("shop"), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_mysql_8_comes_back_as_it_was() {
    let Some(server) = crate::mysql8::start() else { return };
    server.sql("SET GLOBAL log_bin_trust_function_creators = 1");
    server.sql(OF_MYSQL);
    let vault = vault(&MemoryStore::default());
    backup(&server.url("shop"), &vault).await.expect("a backup");
    for (infile, name) in [("ON", "copy"), ("OFF", "again")] {
        server.sql(&format!("SET GLOBAL local_infile = {infile}"));
        let restored = recover(&vault, &server.url(name), &options()).await.expect("a restore");
        assert!(restored.refused.is_empty(), "{:?}", restored.refused);
        is_as_shop(&server, name);
    }
    // What MariaDB has nothing for is named before anything is written.
    let other = Server::start();
    let failure = recover(&vault, &other.url("copy"), &options()).await.expect_err("it can't cross");
    for named in ["utf8mb4_0900_ai_ci", "indexes of expressions", "INVISIBLE"] {
        assert!(failure.cause.contains(named), "{named}: {failure:?}");
    }
    assert_eq!((failure.code, other.sql("SHOW DATABASES LIKE 'copy'")), ("mysql.not-ready", String::new()));
}
