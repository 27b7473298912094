//! Databases with very many tables, very many large objects, or one very large value.

use std::time::Duration;

use seawall_tests::{Process, Stand};

use crate::postgres::server::{Server, output};

/// More than a busy machine needs.
const LONG: Duration = Duration::from_secs(240);

/// The most memory that is taken by default, and by what isn't buffers.
const MEMORY: u64 = 200 << 10;

/// A server with a database `shop`.
fn server(settings: &str) -> Server {
    let server = Server::start_with(15, settings);
    server.sql("postgres", "CREATE DATABASE shop");
    server
}

/// Runs a command to its end; returns the most memory that it took, in KiB.
fn peak(stand: &Stand, arguments: &[&str]) -> u64 {
    let mut process = Process::spawn("seawall", stand.command().args(arguments));
    let status = format!("/proc/{}/status", process.pid().as_raw_nonzero());
    let (mut peak, started) = (0, std::time::Instant::now());
    while process.running() {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let now = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        peak = peak.max(now.unwrap_or(0));
        assert!(started.elapsed() < LONG, "{arguments:?} takes too long");
        std::thread::sleep(Duration::from_millis(10));
    }
    process.wait(LONG).ok();
    peak
}

/// There and back into `copy`; returns the most memory that either way took, in KiB.
fn there_and_back(stand: &Stand, server: &Server, how: &[&str]) -> u64 {
    let place = stand.place.url();
    let there = peak(stand, &[&["backup", &server.url("shop"), &place, "--jobs", "2"], how].concat());
    there.max(peak(stand, &["restore", &place, "--to", &server.url("copy"), "--jobs", "2"]))
}

#[test]
fn postgres_ten_thousand_tables_come_back() {
    let (stand, server) = (Stand::folder(1), server("max_locks_per_transaction = 1024"));
    let make = "DO $$ BEGIN FOR i IN 1..10000 LOOP \
                EXECUTE format('CREATE TABLE t_%s (id int PRIMARY KEY, t text)', i); \
                EXECUTE format('INSERT INTO t_%s VALUES (%1$s, md5(''%1$s''))', i); \
                IF i % 500 = 0 THEN COMMIT; END IF; END LOOP; END $$";
    server.sql("shop", make);
    there_and_back(&stand, &server, &[]);
    // All rows of all tables at once would need as many locks again.
    let rows = "SELECT format('SELECT id, t FROM t_%s', i) FROM generate_series(1, 10000) i";
    let keys = "SELECT count(*), sum(hashtextextended(conrelid::regclass || pg_get_constraintdef(oid), 0)) FROM pg_constraint \
                WHERE contype = 'p' AND connamespace = 'public'::regnamespace";
    assert!(server.generated("copy", rows) == server.generated("shop", rows), "rows differ");
    assert_eq!(server.sql("copy", keys), server.sql("shop", keys));
}

#[test]
fn postgres_two_hundred_thousand_large_objects_come_back() {
    let (stand, server) = (Stand::folder(2), server(""));
    server.sql("postgres", "CREATE ROLE reader");
    server.sql(
        "shop",
        "SELECT count(lo_from_bytea(0, convert_to('object ' || i, 'UTF8'))) FROM generate_series(1, 200000) i",
    );
    // Each takes a lock.
    server.generated("shop", "SELECT format('GRANT SELECT ON LARGE OBJECT %s TO reader', oid) FROM pg_largeobject_metadata WHERE oid::bigint % 100 = 0");
    there_and_back(&stand, &server, &[]);
    let all = "SELECT count(*), sum(hashtextextended(oid || encode(lo_get(oid), 'hex') || lomowner || coalesce(lomacl::text, ''), 0)), \
               count(lomacl) > 1000 FROM pg_largeobject_metadata";
    let source = server.sql("shop", all);
    assert!(source.starts_with("200000|") && source.ends_with("|t"), "{source}");
    assert_eq!(server.sql("copy", all), source);
}

/// A value as large as PostgreSQL takes one, and others around it.
#[test]
fn postgres_a_value_of_a_gigabyte_comes_back_in_the_usual_memory() {
    let (stand, server) = (Stand::folder(3), server(""));
    let make = "CREATE TABLE files (id int PRIMARY KEY, body text); INSERT INTO files VALUES (1, 'before'); \
                INSERT INTO files SELECT 2, repeat('0123456789 and some more text to fill the line', 22000000); INSERT INTO files VALUES (3, 'behind')";
    server.sql("shop", make);
    let content = "SELECT string_agg(id || ' ' || length(body) || ' ' || md5(body), ';' ORDER BY id) FROM files";
    let source = server.sql("shop", content);
    assert!(source.contains("2 1012000000 "), "{source}");
    let peak = there_and_back(&stand, &server, &[]);
    assert!(peak < MEMORY, "{peak} KiB");
    assert_eq!(server.sql("copy", content), source);
}

/// As text it would be larger than PostgreSQL can make one. `pg_dump` can't take it either.
#[test]
fn postgres_a_value_whose_text_is_too_large_is_named() {
    let (stand, server) = (Stand::folder(4), server(""));
    server.sql(
        "shop",
        "CREATE TABLE files (id int, body bytea); INSERT INTO files SELECT i, 'x' FROM generate_series(1, 300) i; \
                        UPDATE files SET body = convert_to(repeat('0123456789abcdef', 37500000), 'UTF8') WHERE id = 7",
    );
    let place = stand.place.url();
    let refused = stand.seawall(&["backup", &server.url("shop"), &place]).exits(1);
    assert!(refused.stderr.contains("error[postgres.too-large]: public.files: "), "{refused}");
    let mut row = server.tool("psql");
    row.args(["-XqAtd", "shop", "-c", "SELECT ctid FROM files WHERE id = 7"]);
    assert!(refused.stderr.contains(&output(row)), "{refused}");
    assert!(refused.stderr.contains("next: give --copy binary"), "{refused}");
    stand.seawall(&["timeline", &place]).exits(4);
    // In binary it is small enough.
    let peak = there_and_back(&stand, &server, &["--copy", "binary"]);
    assert!(peak < MEMORY, "{peak} KiB");
    let content = "SELECT count(*), sum(octet_length(body)), md5(string_agg(md5(body), ' ' ORDER BY id)) FROM files";
    assert_eq!(server.sql("copy", content), server.sql("shop", content));
}
