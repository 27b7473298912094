//! What is in a set: every kind of object, and every value as it is.

use seawall_mysql::{Globals, ItemDetail, ServerDetail, SetDetail, StoredKind};
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{Set, back_up};

/// A database with every kind of object.
pub(crate) const OBJECTS: &str = r#"
CREATE DATABASE shop CHARACTER SET latin1 COLLATE latin1_german1_ci COMMENT 'a shop';
USE shop;
CREATE SEQUENCE numbers START WITH 100 INCREMENT BY 5;
DO NEXTVAL(numbers);
CREATE TABLE parents (id int AUTO_INCREMENT PRIMARY KEY, child int, name varchar(20)) AUTO_INCREMENT=4711;
CREATE TABLE children (id int PRIMARY KEY, parent int, CONSTRAINT up FOREIGN KEY (parent) REFERENCES parents (id));
ALTER TABLE parents ADD CONSTRAINT down FOREIGN KEY (child) REFERENCES children (id);
CREATE TABLE made (id int PRIMARY KEY DEFAULT NEXTVAL(numbers), a int GENERATED ALWAYS AS (id + 1) VIRTUAL, b int AS (id + 2) STORED,
  hidden int INVISIBLE DEFAULT 7, f float, d double, x decimal(20,10), bits bit(9), g geometry, j json, u uuid, i6 inet6,
  y year, t timestamp(6) NULL, z date, e enum('a','b''c'), s set('x','y'), bin varbinary(20), txt text CHARACTER SET utf8mb4,
  l text CHARACTER SET latin1, w varchar(9) CHARACTER SET utf16);
SET time_zone = '+03:00', sql_mode = '';
INSERT INTO made (id, f, d, x, bits, g, j, u, i6, y, t, z, e, s, bin, txt, l, w) VALUES
  (1, 1.1, 0.1, 1234567890.0123456789, b'101010101', POINT(1,2), '{"a": 1}', '123e4567-e89b-12d3-a456-426614174000', '::1',
   2024, '2024-02-29 03:00:00.000001', '0000-00-00', 'b''c', 'x,y', 0x005C090A0DFF, 'é😀\\t', 'é', 'é😀'),
  (2, 3.4028234e38, -1e-300, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2024-00-00', '', '', '', '', '', '');
CREATE TABLE versions (id int PRIMARY KEY, v int) WITH SYSTEM VERSIONING;
INSERT INTO versions VALUES (1, 1); UPDATE versions SET v = 2; INSERT INTO versions VALUES (2, 1); DELETE FROM versions WHERE id = 2;
CREATE TABLE declared (id int PRIMARY KEY, since timestamp(6) GENERATED ALWAYS AS ROW START,
  until timestamp(6) GENERATED ALWAYS AS ROW END INVISIBLE, PERIOD FOR SYSTEM_TIME (since, until)) WITH SYSTEM VERSIONING;
INSERT INTO declared (id) VALUES (1); DELETE FROM declared;
CREATE TABLE booked (room int, begins date, ends date, PERIOD FOR stay (begins, ends), UNIQUE (room, stay WITHOUT OVERLAPS));
CREATE TABLE parts (id int PRIMARY KEY, v int) PARTITION BY RANGE (id) (PARTITION low VALUES LESS THAN (10), PARTITION high VALUES LESS THAN MAXVALUE);
INSERT INTO parts VALUES (1, 1), (100, 2);
CREATE TABLE old (id int) ENGINE=MyISAM; INSERT INTO old VALUES (1);
CREATE TABLE crash (id int) ENGINE=Aria; INSERT INTO crash VALUES (1);
CREATE TABLE quick (id int) ENGINE=MEMORY; INSERT INTO quick VALUES (1);
CREATE TABLE merged (id int) ENGINE=MERGE UNION=(old);
CREATE FUNCTION twice(a int) RETURNS int DETERMINISTIC RETURN 2 * a;
CREATE PROCEDURE nothing() SELECT 'é';
CREATE VIEW zero AS SELECT id, twice(id) AS v FROM parts;
CREATE VIEW first AS SELECT * FROM zero;
CREATE VIEW broken AS SELECT * FROM quick; RENAME TABLE quick TO quicker;
CREATE TRIGGER two BEFORE INSERT ON parts FOR EACH ROW SET NEW.v = 2;
CREATE TRIGGER one BEFORE INSERT ON parts FOR EACH ROW PRECEDES two SET NEW.v = 1;
SET time_zone = '+05:00';
CREATE EVENT daily ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01 00:00:00' DO DELETE FROM parts;
"#;

#[tokio::test]
async fn every_kind_of_object_is_in_the_set() {
    let server = Server::start_with(&["--log-bin", "--server-id=3"]);
    server.sql(OBJECTS);
    let store = MemoryStore::new();
    let dumped = back_up(&server.url("shop"), &store).await.expect("backed up");
    assert_eq!((dumped.whole, &*dumped.databases), (false, &["shop".to_owned()][..]));
    let set = Set::of(&store, &dumped).await;
    let detail: SetDetail = set.detail();
    assert_eq!((&*detail.database.name, &*detail.database.charset), ("shop", "latin1"));
    assert_eq!((&*detail.server.family, detail.server.version / 100), ("mariadb", 1011));
    assert!(detail.taken.not_consistent.is_empty(), "{:?}", detail.taken);
    let merged = "shop.merged: only the definition, because MRG_MyISAM keeps no rows of its own";
    assert_eq!(detail.taken.notes, [merged]);
    let position = detail.taken.position.expect("a position");
    let status = server.sql("SHOW MASTER STATUS");
    let binlog = position.binlog.expect("a place");
    assert!(status.starts_with(&format!("{}\t{}", binlog.file, binlog.offset)), "{status} {binlog:?}");
    assert_eq!(position.gtid, Some(server.sql("SELECT @@gtid_binlog_pos")));
    assert_eq!(dumped.manifest.identity, format!("{}/shop", server.sql("SELECT @@server_uid")));

    let schema = set.schema(None).await;
    assert!(schema.database.text().contains("latin1_german1_ci") && schema.database.text().contains("a shop"));
    let numbers = &schema.sequences[0];
    assert!(numbers.next > 100 && numbers.statement.text().contains("increment by 5"));
    let tables: Vec<&str> = schema.tables.iter().map(|table| &*table.name).collect();
    let expected =
        ["booked", "children", "crash", "declared", "made", "merged", "old", "parents", "parts", "quicker", "versions"];
    assert_eq!(tables, expected);
    assert!(schema.tables[7].statement.text().contains("AUTO_INCREMENT=4711"));
    assert!(schema.tables[0].statement.text().contains("WITHOUT OVERLAPS"));
    let kinds: Vec<_> = schema.routines.iter().map(|routine| (routine.kind, &*routine.name)).collect();
    assert_eq!(kinds, [(StoredKind::Function, "twice"), (StoredKind::Procedure, "nothing")]);
    let views: Vec<_> = schema.views.iter().map(|view| (&*view.name, view.broken.is_some())).collect();
    assert_eq!(views, [("broken", true), ("zero", false), ("first", false)]);
    assert_eq!(schema.views[2].needs, ["zero"]);
    let triggers: Vec<&str> = schema.triggers.iter().map(|trigger| &*trigger.name).collect();
    assert_eq!(triggers, ["one", "two"], "in the order in which they run");
    assert_eq!(schema.triggers[0].table.as_deref(), Some("parts"));
    let daily = &schema.events[0];
    assert_eq!((daily.time_zone.as_deref(), &*daily.definer), (Some("+05:00"), "root@localhost"));

    let (rows, made) = set.rows(None, "shop.made").await;
    let ItemDetail::Table { columns, history: false, .. } = made else { panic!("{made:?}") };
    let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
    assert_eq!(&names[..4], ["id", "hidden", "f", "d"], "without what is generated");
    let escaped = |text: &str| text.as_bytes().to_vec();
    let cells = |row: &[u8]| -> Vec<Vec<u8>> {
        row.strip_suffix(b"\n").expect("a line").split(|byte| *byte == b'\t').map(<[u8]>::to_vec).collect()
    };
    let first = cells(&rows[0]);
    for (name, value) in [
        ("id", escaped("1")),
        ("hidden", escaped("7")),
        ("f", escaped("1.100000023841858")),
        ("d", escaped("0.1")),
        ("x", escaped("1234567890.0123456789")),
        ("bits", b"\x01\x55".to_vec()),
        ("t", escaped("2024-02-29 00:00:00.000001")),
        ("z", escaped("0000-00-00")),
        ("e", escaped("b'c")),
        ("s", escaped("x,y")),
        ("bin", b"\\0\\\\\\t\\n\r\xff".to_vec()),
        ("txt", escaped("é😀\\\\t")),
        ("l", b"\xe9".to_vec()),
        ("w", b"\\0\xe9\xd8\x3d\xde\\0".to_vec()),
        ("i6", [b"\\0".repeat(15), b"\x01".to_vec()].concat()),
    ] {
        let place = names.iter().position(|column| *column == name).expect("a column");
        assert_eq!(first[place], value, "{name}: {}", String::from_utf8_lossy(&first[place]));
    }
    let second = cells(&rows[1]);
    assert_eq!((&second[2][..], &second[4][..]), (&b"3.4028234663852886e38"[..], &b"\\N"[..]));

    let (rows, detail) = set.rows(None, "shop.versions").await;
    assert!(matches!(detail, ItemDetail::Table { history: true, ref columns, .. } if columns[3].name == "row_end"));
    assert_eq!(rows.len(), 3, "with rows that were valid once");
    let (rows, _) = set.rows(None, "shop.declared").await;
    assert_eq!(rows.len(), 1);
    for table in ["old", "crash", "quicker"] {
        assert_eq!(set.lines(&format!("shop.{table}")).await, ["1"], "{table}");
    }
    assert_eq!(set.lines("shop.parts").await, ["1\t1", "100\t2"]);
}

#[tokio::test]
async fn a_whole_server_with_its_users() {
    let server = Server::start();
    server.sql(OBJECTS);
    server.sql(
        "CREATE DATABASE other; CREATE TABLE other.t (a int); INSERT INTO other.t VALUES (1); CREATE DATABASE gone; \
         CREATE ROLE clerk; GRANT SELECT ON shop.* TO clerk; CREATE USER 'o`h'@'%' IDENTIFIED BY 'x' REQUIRE SSL; \
         GRANT clerk TO 'o`h'@'%' WITH ADMIN OPTION; SET DEFAULT ROLE clerk FOR 'o`h'@'%'; \
         GRANT UPDATE (a) ON other.t TO 'o`h'@'%'",
    );
    let store = MemoryStore::new();
    let mut options = crate::support::options();
    options.excluded = vec!["gone".to_owned()];
    let dumped = crate::support::back_up_with(&server.url(""), &store, &options).await.expect("backed up");
    assert_eq!((dumped.whole, dumped.databases.join(" ")), (true, "other shop".to_owned()));
    let set = Set::of(&store, &dumped).await;
    let detail: ServerDetail = set.detail();
    assert_eq!(detail.databases, ["other", "shop"]);
    assert_eq!(set.rows(Some("other"), "other.t").await.0, [b"1\n"]);
    assert_eq!(set.schema(Some("shop")).await.tables.len(), 11);
    let globals: Globals = set.document(None, "globals.json").await;
    let account = |name: &str| globals.accounts.iter().find(|account| account.name == name).expect("an account");
    let user = account("o`h");
    assert!(user.create.as_ref().is_some_and(|sql| sql.text().contains("REQUIRE SSL")));
    let grants: Vec<String> = user.grants.iter().map(|sql| sql.text().into_owned()).collect();
    for part in ["`clerk`", "WITH ADMIN OPTION", "UPDATE (`a`)", "SET DEFAULT ROLE"] {
        assert!(grants.iter().any(|grant| grant.contains(part)), "{part}: {grants:?}");
    }
    assert!(account("clerk").role && account("clerk").host.is_none());
    assert!(globals.accounts.iter().all(|account| account.name != "mariadb.sys"));
}

#[tokio::test]
async fn rows_larger_than_a_frame() {
    let server = Server::start();
    server.sql(
        "CREATE DATABASE shop; CREATE TABLE shop.t (id int PRIMARY KEY, a longblob, b longtext); \
         INSERT INTO shop.t VALUES (1, 'x', 'y'), (2, REPEAT(UNHEX('00095C'), 6000000), REPEAT('z', 20000000)), (3, '', NULL)",
    );
    let store = MemoryStore::new();
    let dumped = back_up(&server.url("shop"), &store).await.expect("backed up");
    assert_eq!(dumped.manifest.totals.rows, 3);
    let (rows, _) = Set::of(&store, &dumped).await.rows(None, "shop.t").await;
    assert_eq!((&rows[0][..], &rows[2][..]), (&b"1\tx\ty\n"[..], &b"3\t\t\\N\n"[..]));
    let expected = [b"2\t".to_vec(), b"\\0\\t\\\\".repeat(6_000_000), b"\t".to_vec(), b"z".repeat(20_000_000)].concat();
    assert!(rows[1].strip_suffix(b"\n") == Some(&expected), "the large row");
}
