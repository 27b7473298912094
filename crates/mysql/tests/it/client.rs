//! Statements, rows and loads.

use seawall_core::Failure;
use seawall_mysql::testing::{Connection, Filled, Purpose, Row, quote};

use crate::server::Server;

/// All lines of a statement, through buffers of so many bytes, and the number of rows.
pub(crate) async fn lines(connection: &mut Connection, sql: &str, capacity: usize) -> (Vec<u8>, u64) {
    let mut rows = connection.rows(sql).await.expect("rows");
    let (mut all, mut count) = (Vec::new(), 0);
    loop {
        let mut buffer = Vec::with_capacity(capacity);
        let (filled, more) = rows.fill(&mut buffer).await.expect("filled");
        assert!(!buffer.is_empty() || filled == Filled::Done, "a fill gets on");
        assert!(buffer.len() <= capacity.max(64), "{} of {capacity}", buffer.len());
        all.extend_from_slice(&buffer);
        count += more;
        if filled == Filled::Done {
            assert_eq!(rows.done().map(|done| done.warnings), Some(0));
            return (all, count);
        }
    }
}

pub(crate) const LOAD: &str = "LOAD DATA LOCAL INFILE 'seawall' INTO TABLE";
pub(crate) const FORMAT: &str =
    "CHARACTER SET binary FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n'";

/// Loads lines into a table.
pub(crate) async fn load(connection: &mut Connection, table: &str, lines: &[u8]) -> u64 {
    load_by(connection, &format!("{LOAD} {table} {FORMAT}"), lines).await
}

/// Loads lines by a statement.
pub(crate) async fn load_by(connection: &mut Connection, sql: &str, lines: &[u8]) -> u64 {
    connection.execute("START TRANSACTION").await.expect("begun");
    let mut load = connection.load(sql).await.expect("begun");
    for part in lines.chunks(1 << 20) {
        load.send(part.to_vec()).await.expect("sent");
    }
    let done = load.finish().await.expect("loaded");
    connection.execute("COMMIT").await.expect("committed");
    let warnings = connection.warnings().await.expect("asked");
    assert_eq!((done.warnings, warnings.len()), (0, 0), "{done:?} {warnings:?}");
    done.affected
}

#[tokio::test]
async fn statements_return_values_as_bytes_and_errors_by_number() {
    let server = Server::start();
    let mut connection = server.connect(Purpose::Statements).await;
    let row = connection.one("SELECT 1, NULL, '', 'ä€🐘', x'00ff', 1.50, TRUE").await.expect("a row");
    assert_eq!((row.width(), row.number(0), row.optional(1), row.bytes(1)), (7, 1, None, None));
    assert_eq!((row.bytes(2), row.text(3), row.bytes(4)), (Some(&b""[..]), "ä€🐘", Some(&b"\0\xff"[..])));
    assert_eq!((row.text(4), row.lossy(4), row.text(5)), ("", "\0\u{fffd}".to_owned(), "1.50"));
    assert!(row.flag(6) && row.text(99).is_empty());
    assert_eq!(connection.query("SELECT 1 FROM DUAL WHERE FALSE").await.expect("no rows"), Vec::<Row>::new());
    connection.execute("CREATE DATABASE d").await.expect("made");
    connection.execute("CREATE TABLE d.t (i int PRIMARY KEY, x text)").await.expect("made");
    let done = connection.execute("INSERT INTO d.t VALUES (1, 'a'), (2, 'b')").await.expect("inserted");
    assert_eq!((done.affected, done.warnings), (2, 0));
    assert!(done.message.starts_with("Records: 2"), "{done:?}");
    assert_eq!(connection.execute("SELECT * FROM d.t").await.expect("rows are ignored").affected, 0);
    for (sql, number, code) in [
        ("SELECT * FROM d.nothing", 1146, "mysql.refused"),
        ("INSERT INTO d.t VALUES (1, 'a')", 1062, "mysql.constraint"),
        ("SELEC", 1064, "mysql.refused"),
        // A second statement can't be hidden in the text.
        ("SELECT 1; DROP TABLE d.t", 1064, "mysql.refused"),
    ] {
        let error = connection.execute(sql).await.expect_err(sql);
        assert_eq!(error.number(), Some(number), "{sql}: {error}");
        assert_eq!(Failure::from(error).code, code, "{sql}");
    }
    assert_eq!(connection.execute("DO CAST('x' AS SIGNED)").await.expect("done").warnings, 1);
    assert_eq!(connection.warnings().await.expect("asked")[0].number(1), 1292);
    let large = format!("SELECT '{}'", "x".repeat(65 << 20));
    let error = connection.query(&large).await.expect_err("too large");
    assert_eq!(Failure::from(error).code, "mysql.packet");
    assert_eq!(connection.one("SELECT COUNT(*) FROM d.t").await.expect("it goes on").number(0), 2);
}

#[tokio::test]
async fn names_and_texts_stay_in_their_quotes_under_every_sql_mode() {
    let server = Server::start();
    let mut connection = server.connect(Purpose::Statements).await;
    connection.execute("CREATE DATABASE d").await.expect("made");
    let texts = ["", "plain", "it's", "a\\", "\"", "\\'; DROP", "line\nfeed", "ä€🐘", "a`b", "\0x", "%_"];
    for mode in ["''", "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'", "'ORACLE'"] {
        for charset in ["utf8mb4", "latin1", "binary"] {
            connection.execute(&format!("SET NAMES {charset}")).await.expect("set");
            connection.execute(&format!("SET sql_mode = {mode}")).await.expect("set");
            for text in texts {
                let sql = format!("SELECT HEX(CONVERT({} USING utf8mb4))", quote::text(text));
                let hex: String = text.bytes().map(|byte| format!("{byte:02X}")).collect();
                assert_eq!(connection.one(&sql).await.expect(&sql).text(0), hex, "{mode} {charset} {text:?}");
            }
            let (name, table) = (quote::name("a`b \"c\\"), quote::qualified("d", "t`1"));
            connection.execute(&format!("CREATE TABLE {table} ({name} int)")).await.expect("made");
            connection.execute(&format!("DROP TABLE {table}")).await.expect("dropped");
        }
    }
}

#[tokio::test]
async fn rows_are_loaded_as_they_were_read() {
    let server = Server::start();
    let all: String = (0..=255).map(|byte| format!("{byte:02x}")).collect();
    server.sql(&format!(
        "CREATE DATABASE d; USE d; \
         CREATE TABLE a (i int PRIMARY KEY, v varbinary(600), t text CHARACTER SET latin1, u varchar(50) CHARACTER SET utf8mb4, \
           d decimal(30,10), b bit(10), dt datetime(6), p blob, g point); \
         INSERT INTO a VALUES (1, x'{all}', x'e4', 'ä🐘', -1.5, b'1000000001', '2024-02-29 23:59:59.123456', x'5c4e', point(1,2)), \
           (2, NULL, '', NULL, NULL, NULL, '0000-00-00', '', NULL), (3, x'5c', '\\t\\n\\\\', 'N', 0, 0, NULL, x'0000', NULL); \
         INSERT INTO a SELECT seq, REPEAT(CHAR(seq MOD 256), seq MOD 500), REPEAT('x\\ty', seq MOD 100), CONCAT('r', seq), seq / 3, \
           seq MOD 1024, FROM_UNIXTIME(seq), REPEAT('\\n\\\\', seq MOD 70), NULL FROM seq_10_to_5000; \
         CREATE TABLE b LIKE a; CREATE TABLE c LIKE a; CREATE TABLE n (x text); CREATE TABLE m LIKE n; \
         INSERT INTO n VALUES (''), (NULL), ('N'), ('\\\\N'), ('NULL')"
    ));
    let (mut reader, mut loader) = (server.connect(Purpose::Rows).await, server.connect(Purpose::Load).await);
    let (small, count) = lines(&mut reader, "SELECT * FROM d.a ORDER BY i", 64).await;
    assert_eq!(count, 4994);
    assert_eq!(lines(&mut reader, "SELECT * FROM d.a ORDER BY i", 1 << 20).await, (small.clone(), count));
    assert_eq!(small.iter().filter(|byte| **byte == b'\n').count() as u64, count, "every newline ends a row");
    assert_eq!(load(&mut loader, "d.b", &small).await, count);
    let sum = |table: &str| {
        server.sql(&format!("CHECKSUM TABLE d.{table} EXTENDED")).split_once('\t').expect("two").1.to_owned()
    };
    assert_eq!(sum("a"), sum("b"));
    // Rows without any byte are rows.
    let (text, count) = lines(&mut reader, "SELECT * FROM d.n", 1 << 20).await;
    assert_eq!((text.as_slice(), count), (&b"\n\\N\nN\n\\\\N\nNULL\n"[..], 5));
    assert_eq!(load(&mut loader, "d.m", &text).await, 5);
    assert_eq!(server.sql("SELECT COUNT(*) FROM d.n JOIN d.m ON d.n.x <=> d.m.x"), "5");
    assert_eq!(lines(&mut reader, "SELECT * FROM d.c", 1 << 20).await, (Vec::new(), 0));
    assert_eq!(load(&mut loader, "d.c", b"").await, 0);
}

#[tokio::test]
async fn values_of_20_mb_pass_in_both_directions() {
    let server = Server::start();
    let size = 20 << 20;
    server.sql("CREATE DATABASE d; CREATE TABLE d.a (i int PRIMARY KEY, b longblob, s int); CREATE TABLE d.b LIKE d.a");
    let mut loader = server.connect(Purpose::Load).await;
    // Every byte, so that many are escaped; then lengths around the limits of packets.
    let mut random = fastrand::Rng::with_seed(7);
    let value: Vec<u8> = (0..size).map(|_| random.u8(..)).collect();
    let sql = format!("INSERT INTO d.a VALUES (1, {}, 1)", quote::bytes(&value));
    loader.execute(&sql).await.expect("a statement of 40 MB");
    let limit = (1 << 24) - 1;
    // A row is: 1 byte and the first value, 4 bytes and the blob, 1 byte and the last value.
    for (i, length) in [limit - 8, limit - 9, limit - 7, limit, 1 << 24, 2 * limit - 17].into_iter().enumerate() {
        let sql = format!("INSERT INTO d.a VALUES ({}, REPEAT('a', {length}), 2)", i + 2);
        loader.execute(&sql).await.expect("inserted");
    }
    let mut reader = server.connect(Purpose::Rows).await;
    let row = reader.one("SELECT b FROM d.a WHERE i = 1").await.expect("a row");
    assert!(row.bytes(0) == Some(&value[..]), "the same bytes");
    for capacity in [64 << 10, 8 << 20, 64 << 20] {
        server.sql("TRUNCATE d.b");
        let (text, count) = lines(&mut reader, "SELECT * FROM d.a ORDER BY i", capacity).await;
        assert_eq!(count, 7);
        assert_eq!(load(&mut loader, "d.b", &text).await, 7);
        let sum = |table: &str| server.sql(&format!("SELECT i, MD5(b), LENGTH(b), s FROM d.{table} ORDER BY i"));
        assert_eq!(sum("a"), sum("b"), "{capacity}");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_read_to_its_end_ends_the_connection() {
    let server = Server::start();
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (i int); INSERT INTO d.t VALUES (1), (2)");
    let mut connection = server.connect(Purpose::Load).await;
    drop(connection.rows("SELECT * FROM d.t").await.expect("rows"));
    let error = connection.query("SELECT 1").await.expect_err("in an answer");
    assert_eq!(Failure::from(error).code, "mysql.internal");
    connection.close().await;
    let mut reader = server.connect(Purpose::Rows).await;
    let error = reader.load("LOAD DATA LOCAL INFILE 'seawall' INTO TABLE d.t").await.map(drop);
    assert_eq!(Failure::from(error.expect_err("not for loads")).code, "mysql.internal");
    // A refused statement doesn't.
    for sql in ["SELECT * FROM d.nothing", "SET @x = 1"] {
        assert!(reader.rows(sql).await.is_err());
    }
    server.sql("SET GLOBAL local_infile = 0");
    let mut loader = server.connect(Purpose::Load).await;
    let error = loader.load("LOAD DATA LOCAL INFILE 'seawall' INTO TABLE d.t").await.map(drop);
    assert_eq!(Failure::from(error.expect_err("turned off")).code, "mysql.local-infile");
    assert_eq!(loader.one("SELECT COUNT(*) FROM d.t").await.expect("it goes on").number(0), 2);
}
