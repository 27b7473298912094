//! From one family of servers into the other, with rows of every type that both have.

use std::collections::BTreeSet;
use std::sync::Arc;

use seawall_archive::server::Prove as _;
use seawall_core::{NoProgress, When};
use seawall_mysql::{Limits, Prover, World};
use seawall_vault::memory::MemoryStore;

use crate::restoring::{backup, environment, limits, options, recover, unfinished};
use crate::server::Server;
use crate::support::vault;

/// What both families have.
const PORTABLE: &str = r#"
CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci; USE d;
SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', SESSION time_zone = '+00:00';
CREATE TABLE kinds (id bigint unsigned NOT NULL AUTO_INCREMENT, a tinyint, b smallint unsigned zerofill, c mediumint, d decimal(65,30), e float, f double,
  fm float(9,2), g bit(17), h date, i datetime(6), j timestamp(6) NULL, ts timestamp NOT NULL DEFAULT current_timestamp ON UPDATE current_timestamp,
  k time(6), l year, m char(5) CHARACTER SET latin1, n varchar(20) CHARACTER SET utf8 COLLATE utf8_bin, n4 varchar(20) COLLATE utf8mb4_unicode_520_ci,
  o binary(4), p varbinary(30), q tinyblob, r longtext CHARACTER SET ucs2, s enum('a','b''c','ä') CHARACTER SET latin1, t set('x','y'), v geometry, w point,
  aa text CHARACTER SET sjis, bb bool, cc varchar(10) CHARACTER SET utf16, gen int GENERATED ALWAYS AS (a + 1) VIRTUAL,
  gs int GENERATED ALWAYS AS (length(p)) STORED, def int DEFAULT 5, dstr varchar(10) DEFAULT 'x''y\\z', bin varbinary(5) DEFAULT x'00ff',
  PRIMARY KEY (id), UNIQUE KEY u1 (p), KEY k1 (a, b), KEY k2 (n(3)), KEY ig (gen), FULLTEXT KEY f2 (n)) ENGINE=InnoDB COMMENT='(all), `kinds`';
INSERT INTO kinds (id,a,b,c,d,e,f,fm,g,h,i,j,ts,k,l,m,n,n4,o,p,q,r,s,t,v,w,aa,bb,cc) VALUES
 (0, -128, 7, 8388607, 12345678901234567890123456789012345.123456789012345678901234567890, 1.1754943e-38, 1e308, 9999999.99, b'10000000000000001',
  '0000-00-00', '2026-02-31 23:59:59.999999', '1970-01-01 00:00:01.000001', '2020-01-01 00:00:00', '-838:59:59.000000', 1901, 'äöü', '漢字', '😀', 'a\0',
  0x00090A0D5C27221AFF, '', '𝄞\n\t\\', 'b''c', 'x,y', ST_GeomFromText('LINESTRING(0 0,1 1)'), ST_GeomFromText('POINT(1.5 -2)'), '表示', 1, 'é𝄞'),
 (18446744073709551614, NULL, NULL, NULL, NULL, 3.4028235e38, -0.0, NULL, NULL, NULL, NULL, NULL, '2020-01-01 00:00:00', NULL, NULL, NULL, NULL, NULL,
  NULL, '\\N', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
 (3, 0, 0, 0, 0, 0.1, 0.1, 0.01, b'0', '2026-01-01', '1000-01-01', '2038-01-19 03:14:07', '2020-01-01 00:00:00', '00:00:00.5', 0, '', 'NULL', '', '',
  'x', 'y', '', 'a', '', NULL, NULL, '', 0, '');
INSERT IGNORE INTO kinds (id, s, p) VALUES (4, 'not one', 'z');
CREATE TABLE parent (id int PRIMARY KEY, other int, KEY (other));
CREATE TABLE child (id int AUTO_INCREMENT PRIMARY KEY, parent int, KEY (parent), CONSTRAINT c1 FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE)
  AUTO_INCREMENT=500;
INSERT INTO parent VALUES (1, 10); INSERT INTO child VALUES (10, 1);
CREATE TABLE old (a int, b text, KEY (a), FULLTEXT (b)) ENGINE=MyISAM; INSERT INTO old VALUES (1, 'x'), (2, 'y');
CREATE TABLE fleeting (a int PRIMARY KEY) ENGINE=MEMORY; INSERT INTO fleeting VALUES (1);
CREATE TABLE plain (a int NOT NULL) ENGINE=CSV; INSERT INTO plain VALUES (7);
CREATE TABLE parts (a int, b date, PRIMARY KEY (a, b)) PARTITION BY RANGE (YEAR(b)) SUBPARTITION BY HASH (a) SUBPARTITIONS 2
  (PARTITION p0 VALUES LESS THAN (2020), PARTITION `p max` VALUES LESS THAN MAXVALUE);
INSERT INTO parts VALUES (1, '2019-01-01'), (2, '2026-01-01');
CREATE TABLE documents (id int PRIMARY KEY, j json); INSERT INTO documents VALUES (1, '{"a": [1, 2.5, "ä\\n", null]}'), (2, NULL);
CREATE TABLE `tablé 表` (`spältę` text); INSERT INTO `tablé 表` VALUES ('ä');
CREATE FUNCTION twice(x int) RETURNS int DETERMINISTIC RETURN x * 2;
CREATE VIEW joined AS SELECT p.id, concat(c.id, 'x') AS y FROM parent p JOIN child c ON c.parent = p.id;
CREATE PROCEDURE calls(OUT b int) SQL SECURITY INVOKER SELECT twice(3) INTO b;
CREATE TRIGGER fills BEFORE INSERT ON parent FOR EACH ROW SET NEW.other = twice(NEW.id);
CREATE EVENT daily ON SCHEDULE EVERY 1 DAY STARTS '2031-01-01 00:00:00' DO SELECT 1;
"#;

/// Each value of each row, and what is known of columns and keys in words that both families have.
fn portable(server: &Server, database: &str) -> BTreeSet<String> {
    let mut sql = String::from("SET SESSION group_concat_max_len = 1000000, SESSION time_zone = '+00:00';\n");
    let tables = format!(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = '{database}' AND table_type = 'BASE TABLE'"
    );
    for table in server.sql(&tables).lines() {
        // HEX of a number is another one in each family.
        let values = format!(
            "SELECT GROUP_CONCAT(CONCAT('IFNULL(HEX(', IF(data_type IN ('decimal', 'float', 'double', 'bit'), CONCAT('CONCAT(`', column_name, '`)'), \
             CONCAT('`', column_name, '`')), '), ''-'')') ORDER BY ordinal_position SEPARATOR ', ') FROM information_schema.columns \
             WHERE table_schema = '{database}' AND table_name = '{table}'"
        );
        let values = server.sql(&format!("SET SESSION group_concat_max_len = 1000000; {values}"));
        sql += &format!("SELECT 'row of', '{table}', {values} FROM `{database}`.`{table}`;\n");
    }
    sql += &format!(
        "SELECT 'column', table_name, column_name, \
         IF(data_type LIKE '%int' OR data_type = 'year', CONCAT(data_type, column_type LIKE '%unsigned%', column_type LIKE '%zerofill'), column_type), \
         REPLACE(character_set_name, 'utf8mb3', 'utf8'), \
         REPLACE(collation_name, 'utf8mb3', 'utf8'), is_nullable FROM information_schema.columns WHERE table_schema = '{database}' \
         AND data_type NOT IN ('json', 'longtext') AND table_name <> 'joined';\n\
         SELECT 'index', table_name, index_name, seq_in_index, column_name, non_unique, sub_part, index_type FROM information_schema.statistics \
         WHERE table_schema = '{database}';\n\
         SELECT 'key', constraint_name, table_name, referenced_table_name, delete_rule FROM information_schema.referential_constraints \
         WHERE constraint_schema = '{database}';\n\
         SELECT 'next', table_name, auto_increment FROM information_schema.tables WHERE table_schema = '{database}' AND table_name = 'child';\n\
         SELECT 'object', routine_name, routine_type, security_type FROM information_schema.routines WHERE routine_schema = '{database}' \
         UNION ALL SELECT 'object', trigger_name, event_object_table, action_statement FROM information_schema.triggers WHERE trigger_schema = '{database}' \
         UNION ALL SELECT 'object', event_name, starts, status FROM information_schema.events WHERE event_schema = '{database}';\n\
         USE `{database}`; SELECT 'joined', id, y FROM joined; CALL calls(@b); SELECT 'called', @b;\n\
         SELECT 'default', HEX(DEFAULT(bin)), DEFAULT(dstr), DEFAULT(def) FROM kinds;\n"
    );
    server.script(&sql).lines().map(str::to_owned).collect()
}

/// Brings everything that both have from one server to another. Newer servers tell no width of an integer.
pub(crate) async fn cross(source: &Server, target: &Server) {
    source.script(&format!("DROP DATABASE IF EXISTS d; {PORTABLE}"));
    target.sql("DROP DATABASE IF EXISTS copy");
    let vault = vault(&MemoryStore::default());
    backup(&source.url("d"), &vault).await.expect("a backup");
    let restored = recover(&vault, &target.url("copy"), &options()).await.expect("a restore");
    assert!(restored.refused.is_empty() && restored.left_out.is_empty(), "{restored:?}");
    let (expected, found) = (portable(source, "d"), portable(target, "copy"));
    let lost: Vec<_> = expected.difference(&found).collect();
    assert!(lost.is_empty() && expected.len() > 80 && expected.len() == found.len(), "{lost:#?}");
    assert_eq!(unfinished(target), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_both_families_have_crosses_in_both_directions() {
    let maria = Server::start();
    let Some(mysql) = crate::mysql8::start_with(&["--event-scheduler=OFF", "--log-bin-trust-function-creators=1"])
    else {
        return;
    };
    cross(&maria, &mysql).await;
    cross(&mysql, &maria).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_of_mysql_is_proved_on_a_mysql_of_its_own() {
    let Some(server) = crate::mysql8::start_with(&["--log-bin-trust-function-creators=1"]) else { return };
    server.script(PORTABLE);
    server.sql(
        "CREATE TABLESPACE ts1 ADD DATAFILE 'ts1.ibd' ENGINE=InnoDB; CREATE TABLE d.apart (a int PRIMARY KEY) TABLESPACE ts1; \
         INSERT INTO d.apart VALUES (1)",
    );
    let vault = vault(&MemoryStore::default());
    backup(&server.url("d"), &vault).await.expect("a backup");
    let bindir = crate::mysql8::bindir();
    let prover = Prover { to: None, world: World::real(environment()) };
    let limits = Limits { bindir, ..limits() };
    let proved = prover.prove(&vault, &When::Latest, &limits, Arc::new(NoProgress)).await.expect("a proof");
    assert!(proved.findings.is_empty(), "{:?}", proved.findings);
    assert!(proved.server.starts_with("MySQL 8.0") && proved.tables == 10 && proved.rows > 14, "{proved:?}");
}
