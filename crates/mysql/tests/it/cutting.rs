//! Tables in pieces: no row is missing and none comes twice, whatever the key.

use std::collections::BTreeMap;

use seawall_mysql::testing::{Purpose, pieces};

use crate::client::lines;
use crate::server::Server;

/// Keys of every kind that is cut, and under collations of several orders. `{n}` are the numbers up to 6000.
fn tables(mysql: bool) -> Vec<(&'static str, &'static str, &'static str)> {
    let mut tables = vec![
        ("uuid_binary", "id binary(16) PRIMARY KEY", "UNHEX(MD5(n))"),
        ("short_binary", "id varbinary(3) PRIMARY KEY", "CHAR(n DIV 4096, n DIV 64 % 64, n % 64)"),
        ("uuid_text", "id char(36) CHARACTER SET ascii PRIMARY KEY", "INSERT(INSERT(MD5(n), 9, 0, '-'), 14, 0, '-')"),
        (
            "names",
            "id varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci PRIMARY KEY",
            "CONCAT(ELT(1 + n % 5, 'Äpfel', 'zoë', '0', '_', 'ß'), SUBSTR(MD5(n), 1, 9))",
        ),
        (
            "of_bytes",
            "id varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY",
            "IF(n % 2, UPPER(MD5(n)), MD5(n))",
        ),
        (
            "latin",
            "id varchar(40) CHARACTER SET latin1 COLLATE latin1_german2_ci PRIMARY KEY",
            "CONCAT(ELT(1 + n % 3, 'ö', 'Oe', 'o'), n)",
        ),
        (
            "czech",
            "id varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_czech_ci PRIMARY KEY",
            "CONCAT(ELT(1 + n % 4, 'ch', 'c', 'h', 'i'), n)",
        ),
        (
            "estonian",
            "id varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_estonian_ci PRIMARY KEY",
            "CONCAT(ELT(1 + n % 4, 's', 'z', 't', 'y'), n)",
        ),
        ("wide", "id varchar(40) CHARACTER SET ucs2 PRIMARY KEY", "CONCAT('k', MD5(n))"),
        ("money", "id decimal(30,4) PRIMARY KEY", "n * 1.2345 - 9999"),
        (
            "days",
            "id date, x int, PRIMARY KEY (id, x)",
            "IF(n % 100 = 0, '0000-00-00', '1999-12-01' + INTERVAL n DIV 3 DAY), n",
        ),
        (
            "moments",
            "id datetime(6) PRIMARY KEY",
            "'2026-01-01 00:00:00' + INTERVAL n * 7919 MICROSECOND + INTERVAL n % 50 DAY",
        ),
        (
            "stamps",
            "id timestamp(3) NOT NULL DEFAULT '2026-01-01', x int, PRIMARY KEY (id, x)",
            "FROM_UNIXTIME(1000000000 + n DIV 2), n",
        ),
        ("ties", "id char(1) CHARACTER SET latin1, x int, PRIMARY KEY (id, x)", "IF(n % 2, 'a', 'b'), n"),
        ("numbers", "id bigint unsigned PRIMARY KEY", "n * 900000000000000"),
        ("kinds", "id enum('b','a'), x int, PRIMARY KEY (id, x)", "1 + n % 2, n"),
        ("doubles", "id double PRIMARY KEY", "n / 7"),
    ];
    if mysql {
        tables.push(("modern", "id varchar(40) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY", "CONCAT('é', MD5(n))"));
        tables.push((
            "accents",
            "id varchar(40) COLLATE utf8mb4_0900_as_cs PRIMARY KEY",
            "IF(n % 2, UPPER(MD5(n)), MD5(n))",
        ));
    }
    tables
}

async fn every_row_is_in_one_piece_of(server: &Server, mysql: bool) {
    server.sql(
        "CREATE DATABASE help; CREATE TABLE help.numbers (n int PRIMARY KEY); INSERT INTO help.numbers VALUES (1)",
    );
    while server.sql("SELECT COUNT(*) FROM help.numbers") != "6000" {
        server.sql("INSERT IGNORE INTO help.numbers SELECT m + n FROM help.numbers, (SELECT MAX(n) AS m FROM help.numbers) AS x WHERE m + n <= 6000");
    }
    server.sql("CREATE DATABASE shop");
    for (table, columns, values) in tables(mysql) {
        server.sql(&format!(
            "SET SESSION sql_mode = ''; SET SESSION time_zone = '+00:00'; CREATE TABLE shop.{table} ({columns}) ENGINE=InnoDB; \
             INSERT INTO shop.{table} SELECT {values} FROM help.numbers; ANALYZE TABLE shop.{table}"
        ));
    }
    let mut connection = server.connect(Purpose::Rows).await;
    let all: BTreeMap<String, Vec<String>> =
        pieces(&mut connection, "shop", 256 << 20).await.expect("cut").into_iter().collect();
    let mut counts = BTreeMap::new();
    for (table, statements) in &all {
        let mut rows: Vec<String> = Vec::new();
        let mut fullest = 0;
        for sql in statements {
            let (text, count) = lines(&mut connection, sql, 1 << 20).await;
            rows.extend(
                text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(|line| format!("{line:?}")),
            );
            fullest = fullest.max(count);
        }
        let whole = format!("SELECT * FROM shop.{table}");
        let (text, _) = lines(&mut connection, &whole, 1 << 20).await;
        let mut expected: Vec<String> =
            text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(|line| format!("{line:?}")).collect();
        if table != "doubles" {
            rows.sort();
            expected.sort();
            assert!(
                rows == expected,
                "{table}: {} rows in {} pieces, and {} without",
                rows.len(),
                statements.len(),
                expected.len()
            );
        }
        counts.insert(table.as_str(), (statements.len(), fullest));
    }
    // Pieces are worth it where the server's estimates are.
    for table in ["uuid_binary", "uuid_text", "of_bytes", "money", "days", "moments", "stamps", "numbers", "wide"] {
        let (pieces, fullest) = counts[table];
        assert!(
            pieces >= 4 && fullest <= 10_000,
            "{table}: {pieces} pieces, the fullest of {fullest}: {:?}",
            all[table]
        );
    }
    assert_eq!((counts["kinds"].0, counts["doubles"].0), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_is_in_one_piece() {
    every_row_is_in_one_piece_of(&Server::start(), false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_is_in_one_piece_of_mysql_8() {
    let Some(server) = crate::mysql8::start() else { return };
    every_row_is_in_one_piece_of(&server, true).await;
}
