//! Rows of every size: rows larger than any buffer, and rows that a table takes frozen.

use seawall_archive::{Catalog, SetReader};
use seawall_core::When;
use seawall_postgres::CopyFormat;
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{FORMATS, backup_as, content, options, recover, vault};

#[tokio::test]
async fn rows_that_no_buffer_holds_come_back() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE TABLE files (id int PRIMARY KEY, body text, at timestamptz DEFAULT now()); \
         INSERT INTO files (id, body) SELECT f, (SELECT string_agg(md5(f * 1e7 + i || ''), chr(92) || E'\n') \
         FROM generate_series(1, f * 60000) i) FROM unnest(ARRAY[0, 1, 4, 2]) f; \
         INSERT INTO files (id, body) SELECT -i, md5(i::text) FROM generate_series(1, 50000) i",
    );
    for copy in FORMATS {
        large_rows(copy, &server).await;
        server.sql("postgres", "DROP DATABASE copy");
    }
}

async fn large_rows(copy: CopyFormat, server: &Server) {
    let vault = vault(&MemoryStore::new());
    let dumped = backup_as(copy, server, &server.url("shop"), &vault).await.expect("backed up");
    assert_eq!((dumped.manifest.totals.rows, dumped.as_text), (50_004, vec![]));
    let manifest = Catalog::read(&vault).await.expect("read").find(&When::Latest).expect("a set").clone();
    let reader = SetReader::open(vault.clone(), manifest).await.expect("opened");
    let largest = reader.index().chunks.iter().flat_map(|chunk| &chunk.frames).map(|frame| frame.raw).max();
    assert!(largest.is_some_and(|bytes| bytes <= 1 << 20), "no frame holds a row of 8 MB: {largest:?}");
    assert!(reader.index().continuations().len() > 3, "{:?}", reader.index().continuations());
    recover(&vault, &server.url("copy"), &options(server)).await.expect("restored");
    assert_eq!(content(server, "copy"), content(server, "shop"));
    let mut rows = options(server);
    rows.data_only = true;
    server.sql("copy", "TRUNCATE files");
    recover(&vault, &server.url("copy"), &rows).await.expect("restored");
    assert_eq!(content(server, "copy"), content(server, "shop"));
    let found = seawall_archive::verify(
        &vault,
        seawall_core::Moment::default(),
        std::sync::Arc::new(seawall_core::NoProgress),
        2,
    );
    assert_eq!(found.await.expect("verified").findings, Vec::new());
}

#[tokio::test]
async fn tables_of_middling_size_are_loaded_frozen() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE TABLE large AS SELECT i, repeat(md5(i::text), 20) AS t FROM generate_series(1, 60000) i; \
         CREATE TABLE middling AS SELECT i, md5(i::text) AS t FROM generate_series(1, 50000) i; \
         CREATE TABLE \"a small \"\"one\" AS SELECT 1 AS a; CREATE TABLE nothing (a int); \
         CREATE TABLE parts (i int, t text) PARTITION BY HASH (i); \
         CREATE TABLE part PARTITION OF parts FOR VALUES WITH (MODULUS 1, REMAINDER 0); \
         INSERT INTO parts SELECT i, md5(i::text) FROM generate_series(1, 50000) i; \
         CREATE TABLE parent (i int, t text); CREATE TABLE child () INHERITS (parent); \
         INSERT INTO parent SELECT i, md5(i::text) FROM generate_series(1, 50000) i; INSERT INTO child VALUES (1, 'x')",
    );
    for copy in FORMATS {
        let vault = vault(&MemoryStore::new());
        backup_as(copy, &server, &server.url("shop"), &vault).await.expect("backed up");
        recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
        assert_eq!(content(&server, "copy"), content(&server, "shop"));
        // ANALYZE has counted the pages that everybody sees all of, which without VACUUM only frozen rows give.
        let frozen = "SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class \
                      WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relallvisible = relpages AND relpages > 0";
        assert_eq!(server.sql("copy", frozen), "middling parent part");
        server.sql("postgres", "DROP DATABASE copy");
    }
}
