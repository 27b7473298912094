//! Parts of a set: single tables, and rows alone.

use seawall_core::Kind;
use seawall_postgres::RestoreOptions;
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{backup, nothing_stays, options, recover, vault, without_statistics};

/// A server whose database has tables that refer to each other.
fn shop() -> Server {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE TYPE state AS ENUM ('new', 'paid'); CREATE SCHEMA \"Ein Schema\"; \
         CREATE TABLE orders (id serial PRIMARY KEY, st state DEFAULT 'new', note text); \
         INSERT INTO orders (st, note) SELECT 'paid', repeat(md5(i::text), 8) FROM generate_series(1, 60000) i; \
         CREATE INDEX orders_st ON orders (st); COMMENT ON INDEX orders_st IS 'by state'; \
         CREATE TABLE \"Ein Schema\".lines (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \"order\" int REFERENCES orders); \
         INSERT INTO \"Ein Schema\".lines (\"order\") SELECT id FROM orders WHERE id % 100 = 0; \
         CREATE TABLE seen (at timestamptz DEFAULT now(), n int); \
         CREATE FUNCTION count_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.seen (n) VALUES (1); RETURN NEW; END $$; \
         CREATE TRIGGER counting BEFORE INSERT ON \"Ein Schema\".lines FOR EACH ROW EXECUTE FUNCTION count_it(); \
         CREATE TABLE parts (id int, at date) PARTITION BY RANGE (at); \
         CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2024-01-01') TO ('2025-01-01'); \
         INSERT INTO parts SELECT i, '2024-01-01'::date + i FROM generate_series(1, 300) i; \
         CREATE MATERIALIZED VIEW totals AS SELECT st, count(*) FROM orders GROUP BY st; SELECT lo_from_bytea(77, 'x')",
    );
    server
}

const ORDERS: &str =
    "SELECT count(*), sum(hashtextextended(o::text, 0)), (SELECT last_value FROM orders_id_seq) FROM orders o";

#[tokio::test]
async fn a_table_comes_into_a_new_database_with_what_it_needs() {
    let server = shop();
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let mut only = options(&server);
    only.tables = vec!["orders".into(), "parts".into()];
    let restored = recover(&vault, &server.url("copy"), &only).await.expect("restored");
    assert_eq!(restored.left_out, Vec::new());
    assert_eq!(restored.manifest.totals.rows, 60_300, "what was restored, not what the set holds");
    assert_eq!(server.sql("copy", ORDERS), server.sql("shop", ORDERS));
    assert_eq!(server.sql("copy", "SELECT count(*) FROM parts"), "300");
    let there =
        "SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relnamespace = 'public'::regnamespace";
    assert_eq!(server.sql("copy", there), "orders orders_id_seq orders_pkey orders_st parts parts_1");
    assert_eq!(
        server.sql("copy", "SELECT obj_description('orders_st'::regclass), count(*) FROM pg_largeobject_metadata"),
        "by state|0"
    );
    assert_eq!(server.sql("copy", &without_statistics("c.relnamespace = 'public'::regnamespace")), "");
    server.sql("copy", "INSERT INTO orders DEFAULT VALUES");
    only.tables = vec!["parts_1".into()];
    recover(&vault, &server.url("part"), &only).await.expect("restored");
    assert_eq!(server.sql("part", &without_statistics("c.relname LIKE 'parts_%'")), "");
}

#[tokio::test]
async fn a_dropped_table_comes_back_beside_the_others() {
    let server = shop();
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    server.sql("shop", "INSERT INTO orders (note) VALUES ('since then'); DROP TABLE \"Ein Schema\".lines");
    let mut only = options(&server);
    only.tables = vec!["Ein Schema.lines".into()];
    let restored = recover(&vault, &server.url("shop"), &only).await.expect("restored");
    let [(what, needs)] = &restored.left_out[..] else { panic!("{:?}", restored.left_out) };
    assert!(what.contains("lines_order_fkey") && needs.contains("orders"), "{what} {needs}");
    assert_eq!(server.sql("shop", "SELECT count(*), sum(\"order\") FROM \"Ein Schema\".lines"), "600|18030000");
    assert_eq!(server.sql("shop", "SELECT count(*) FROM orders"), "60001", "the others are as they were");
    assert_eq!(server.sql("shop", "SELECT count(*) FROM seen"), "0", "no trigger fired");
    assert_eq!(server.sql("shop", "INSERT INTO \"Ein Schema\".lines DEFAULT VALUES RETURNING id"), "601");
    let left = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'seawall%'";
    assert_eq!(server.sql("shop", left), "0");
    // What is there isn't touched, and what isn't in the set is named.
    let failure = recover(&vault, &server.url("shop"), &only).await.expect_err("it is there");
    assert_eq!(failure.code, "postgres.not-empty");
    assert!(failure.cause.contains("\"Ein Schema\".\"lines\" is there already"), "{}", failure.cause);
    only.tables = vec!["nothing".into()];
    let failure = recover(&vault, &server.url("shop"), &only).await.expect_err("no such table");
    assert_eq!((failure.kind, failure.code), (Kind::Refused, "postgres.no-table"));
}

#[tokio::test]
async fn rows_come_back_into_tables_that_are_there_and_contradict_nothing() {
    let server = shop();
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let mut rows = options(&server);
    rows.data_only = true;
    let failure = recover(&vault, &server.url("copy"), &rows).await.expect_err("no database");
    assert_eq!(failure.code, "postgres.no-database");
    let failure = recover(&vault, &server.url("shop"), &rows).await.expect_err("it has rows");
    assert_eq!(failure.code, "postgres.not-empty");
    assert!(failure.cause.ends_with("has rows already"), "{}", failure.cause);
    let all = "SELECT (SELECT count(*) || ' ' || sum(hashtextextended(o::text, 0)) FROM orders o), \
               (SELECT count(*) || ' ' || sum(hashtextextended(l::text, 0)) FROM \"Ein Schema\".lines l), \
               (SELECT count(*) FROM parts), (SELECT count(*) FROM seen), (SELECT last_value FROM orders_id_seq), \
               (SELECT string_agg(t::text, ' ') FROM totals t), (SELECT string_agg(lo_get(oid)::text, ' ') FROM pg_largeobject_metadata)";
    let before = server.sql("shop", all);
    server.sql("shop", "TRUNCATE orders, \"Ein Schema\".lines, parts, seen RESTART IDENTITY; REFRESH MATERIALIZED VIEW totals; SELECT lo_unlink(77)");
    recover(&vault, &server.url("shop"), &rows).await.expect("restored");
    assert_eq!(server.sql("shop", all), before, "no trigger fired, and everything is there");
    // Lines alone would refer to nothing: with triggers off nobody but us looks.
    server.sql("shop", "TRUNCATE orders, \"Ein Schema\".lines");
    rows.tables = vec!["lines".into()];
    let failure = recover(&vault, &server.url("shop"), &rows).await.expect_err("orphans");
    assert_eq!((failure.kind, failure.code), (Kind::Refused, "postgres.constraint"));
    assert!(failure.object.contains("foreign key lines_order_fkey"), "{}", failure.object);
}

/// Several rows together cover a period, so a row with a period refers to no single row.
#[tokio::test]
async fn rows_with_periods_are_checked_against_the_periods_that_cover_them() {
    let server = Server::start(18);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE TABLE rooms (id int4range, valid daterange, PRIMARY KEY (id, valid WITHOUT OVERLAPS)); \
         CREATE TABLE stays (id int4range, room int4range, during daterange, \
         CONSTRAINT in_a_room FOREIGN KEY (room, PERIOD during) REFERENCES rooms (id, PERIOD valid)); \
         INSERT INTO rooms VALUES ('[1,2)', '[2024-01-01,2024-02-01)'), ('[1,2)', '[2024-02-01,2024-03-01)'); \
         INSERT INTO stays VALUES ('[1,2)', '[1,2)', '[2024-01-20,2024-02-10)'), ('[2,3)', NULL, '[2024-05-01,2024-05-02)')",
    );
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let mut rows = options(&server);
    rows.data_only = true;
    server.sql("shop", "TRUNCATE rooms, stays");
    recover(&vault, &server.url("shop"), &rows).await.expect("two rooms cover the stay");
    assert_eq!(server.sql("shop", "SELECT (SELECT count(*) FROM rooms), (SELECT count(*) FROM stays)"), "2|2");
    server.sql("shop", "TRUNCATE stays; DELETE FROM rooms WHERE lower(valid) = '2024-02-01'");
    rows.tables = vec!["stays".into()];
    let failure = recover(&vault, &server.url("shop"), &rows).await.expect_err("half of it is not covered");
    assert_eq!((failure.kind, failure.code), (Kind::Refused, "postgres.constraint"));
    assert!(failure.object.contains("foreign key in_a_room"), "{}", failure.object);
}

#[tokio::test]
async fn a_published_table_comes_back_without_its_publication_and_a_child_not_without_its_parent() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("postgres", "CREATE DATABASE elsewhere");
    server.sql(
        "shop",
        "CREATE TABLE orders (id int PRIMARY KEY); INSERT INTO orders VALUES (1), (2); CREATE PUBLICATION pub FOR TABLE orders; \
         CREATE TABLE parent (a int); CREATE TABLE child (b int) INHERITS (parent); INSERT INTO child VALUES (1, 2)",
    );
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let only = |name: &str| RestoreOptions { tables: vec![name.to_owned()], ..options(&server) };
    let restored = recover(&vault, &server.url("elsewhere"), &only("orders")).await.expect("restored");
    let left = ("publication table pub orders".to_owned(), "publication pub".to_owned());
    assert_eq!(restored.left_out, [left]);
    assert_eq!(server.sql("elsewhere", "SELECT count(*), sum(id) FROM orders"), "2|3");
    nothing_stays(&server, "elsewhere");
    for database in ["elsewhere", "new"] {
        let failure = recover(&vault, &server.url(database), &only("child")).await.expect_err("no parent");
        assert_eq!((failure.code, failure.object.as_str()), ("postgres.needs-table", "public.child"), "{failure:?}");
        assert!(failure.next.contains("--table public.parent"), "{failure:?}");
        assert_eq!(server.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname ~ 'new|seawall'"), "0");
    }
    nothing_stays(&server, "elsewhere");
    server.sql("elsewhere", "CREATE TABLE parent (a int)");
    recover(&vault, &server.url("elsewhere"), &only("child")).await.expect("the parent is there");
    assert_eq!(server.sql("elsewhere", "SELECT a, b FROM child"), "1|2");
}

/// Before version 18 a key to a partitioned table must be checked with all its partitions at once. Otherwise the parts
/// in the partitions stay unchecked.
#[tokio::test]
async fn keys_to_partitioned_tables_are_checked_with_all_their_parts() {
    for major in [15, 18] {
        let server = Server::start(major);
        server.sql("postgres", "CREATE DATABASE shop");
        server.sql(
            "shop",
            "CREATE TABLE pk (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE pk1 PARTITION OF pk DEFAULT; \
             CREATE TABLE fk (id int REFERENCES pk); CREATE TABLE parts (id int REFERENCES pk) PARTITION BY RANGE (id); \
             CREATE TABLE parts1 PARTITION OF parts DEFAULT; CREATE TABLE plain (id int PRIMARY KEY); \
             CREATE TABLE refers (id int REFERENCES plain); CREATE TABLE loose (id int); INSERT INTO loose VALUES (7); \
             ALTER TABLE loose ADD CONSTRAINT loose FOREIGN KEY (id) REFERENCES plain NOT VALID; \
             INSERT INTO pk VALUES (1); INSERT INTO fk VALUES (1); INSERT INTO parts VALUES (1)",
        );
        let vault = vault(&MemoryStore::new());
        backup(&server, &server.url("shop"), &vault).await.expect("backed up");
        recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
        let keys = "SELECT conrelid::regclass, confrelid::regclass, convalidated, conparentid <> 0 FROM pg_constraint \
                    WHERE contype = 'f' ORDER BY conrelid::regclass::text, confrelid::regclass::text";
        assert_eq!(server.sql("copy", keys), server.sql("shop", keys), "{major}");
    }
}
