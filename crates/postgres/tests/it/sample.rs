//! Samples: a part of the rows in which every foreign key holds, and which is never mistaken for a backup.

use std::path::Path;
use std::sync::Arc;

use seawall_archive::{Catalog, timeline};
use seawall_core::{Failure, NoProgress, When};
use seawall_postgres::{DumpOptions, Dumped, Format, Limits, ProveOptions, World, dump, prove};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;

use crate::changes::again_and_again;
use crate::server::Server;
use crate::support::{backup, content, environment, limits, nothing_stays, options, recover, schema, target, vault};

/// The references that a sample must keep, from the row `c` to the row `p`, written down independently.
const REFERENCES: [&str; 17] = [
    "customers c JOIN countries p ON p.code = c.country",
    "customers c JOIN customers p ON p.id = c.referred_by",
    "customers c JOIN \"my \"\"shop\"\"\".products p ON p.sku = c.favourite COLLATE \"C\"",
    "\"my \"\"shop\"\"\".products c JOIN colours p USING (colour)",
    "\"my \"\"shop\"\"\".products c JOIN customers p ON p.id = c.suggested_by",
    "orders c JOIN customers p ON p.id = c.customer",
    "lines c JOIN \"my \"\"shop\"\"\".products p ON p.sku = c.product",
    "lines c JOIN orders p ON (p.id, p.at) = (c.order_id, c.at)",
    "simple c JOIN pairs p ON (p.a, p.b) = (c.a, c.b)",
    "complete c JOIN pairs p ON (p.a, p.b) = (c.a, c.b)",
    "unsure c JOIN customers p ON p.id = c.a",
    "ONLY events c JOIN customers p ON p.id = c.customer",
    "visitors c JOIN ONLY events p ON p.id = c.event",
    "labels c JOIN \"my \"\"shop\"\"\".products p ON p.sku = c.product",
    "models c JOIN brands p ON lower(p.name::text) = lower(c.brand::text)",
    // Of version 18 alone.
    "bookings c JOIN rooms p ON p.room = c.room AND p.during && c.during",
    "hopes c JOIN customers p ON p.id = c.customer",
];

/// The tables with few rows.
const WHOLE: [&str; 4] = ["countries", "colours", "nothing", "empty"];

fn shop(major: u32) -> Server {
    let server = Server::start(major);
    server.sql("postgres", "CREATE DATABASE shop");
    server.script("shop", &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/sample.sql"));
    if major >= 18 {
        server.sql(
            "shop",
            "CREATE TABLE rooms (room int4range, during daterange, PRIMARY KEY (room, during WITHOUT OVERLAPS)); \
             INSERT INTO rooms SELECT int4range(i, i + 1), daterange('2024-01-01'::date + 10 * j, '2024-01-01'::date + 10 * (j + 1)) \
             FROM generate_series(1, 200) i, generate_series(0, 9) j; \
             CREATE TABLE bookings (room int4range, during daterange, FOREIGN KEY (room, PERIOD during) REFERENCES rooms); \
             INSERT INTO bookings SELECT int4range(i, i + 1), daterange('2024-01-05'::date + 10 * j, '2024-01-19'::date + 10 * j) \
             FROM generate_series(1, 200) i, generate_series(0, 7) j; \
             CREATE TABLE hopes (customer bigint REFERENCES customers NOT ENFORCED); \
             INSERT INTO hopes SELECT i FROM generate_series(1, 9000) i",
        );
    }
    server
}

/// Takes a sample of the database at a URL.
async fn sample(server: &Server, url: &str, share: &str, vault: &Vault) -> Result<Dumped, Failure> {
    let options =
        DumpOptions { limits: limits(server), sample: Some(share.parse().expect("a share")), ..DumpOptions::default() };
    Ok(dump(&target(url), vault, &options, &World::real(environment()), Arc::new(NoProgress)).await?)
}

/// The number of rows and their hash that a sample must have, for each table, in the form of [`content`]. They are
/// computed on the source by SQL alone.
fn expected(server: &Server, major: u32, percent: &str) -> String {
    let tables = "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                  WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND n.nspname NOT IN ('pg_catalog', 'information_schema')";
    let mut sql =
        "CREATE TEMP TABLE taken (rel oid, place tid, PRIMARY KEY (rel, place));\nSET search_path TO public;\n"
            .to_owned();
    for table in server.sql("shop", tables).lines() {
        let share = match WHOLE.contains(&table) {
            true => String::new(),
            false => format!("TABLESAMPLE BERNOULLI ({percent}) REPEATABLE (0)"),
        };
        sql.push_str(&format!("INSERT INTO taken SELECT tableoid, ctid FROM ONLY {table} {share};\n"));
    }
    let known = if major >= 18 { REFERENCES.len() } else { REFERENCES.len() - 2 };
    let steps = REFERENCES[..known].iter().map(|reference| {
        format!(
            "INSERT INTO taken SELECT DISTINCT p.tableoid, p.ctid FROM {reference} \
             JOIN taken t ON (t.rel, t.place) = (c.tableoid, c.ctid) ON CONFLICT DO NOTHING; \
             GET DIAGNOSTICS added = ROW_COUNT; more := more + added;"
        )
    });
    let steps: String = steps.collect();
    sql.push_str(&format!(
        "DO $$ DECLARE more bigint; added bigint; BEGIN LOOP more := 0; {steps} EXIT WHEN more = 0; END LOOP; END $$;\n"
    ));
    sql.push_str(
        "SELECT format('SELECT %L, count(*), coalesce(sum(hashtextextended(t::text, 0)), 0) FROM ONLY %s t \
         JOIN taken ON (rel, place) = (t.tableoid, t.ctid)', c.oid::regclass, c.oid::regclass) \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND c.relpersistence <> 't' \
         AND n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY c.oid::regclass::text",
    );
    server.generated("shop", &sql)
}

/// The number of rows of a table, from the output of [`content`].
fn rows(content: &str, table: &str) -> u64 {
    let line = content.lines().find_map(|line| line.strip_prefix(table)?.strip_prefix('|'));
    line.and_then(|rest| rest.split('|').next()?.parse().ok()).unwrap_or_else(|| panic!("{table} in {content}"))
}

const FOREIGN_KEYS: &str = "SELECT conrelid::regclass::text, conname, convalidated, pg_get_constraintdef(oid) FROM pg_constraint \
                            WHERE contype = 'f' ORDER BY 1, 2";

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_has_its_share_and_whatever_that_needs_and_nothing_else() {
    for major in [15, 18] {
        let server = shop(major);
        let store = MemoryStore::new();
        let vault = vault(&store);
        let dumped = sample(&server, &server.url("shop"), "5%", &vault).await.expect("taken");
        nothing_stays(&server, "shop");
        assert_eq!(dumped.manifest.sample.map(|sample| sample.to_string()).as_deref(), Some("5%"));
        recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
        let (found, whole) = (content(&server, "copy"), content(&server, "shop"));
        let expected = expected(&server, major, "5");
        assert_eq!(found[0], expected, "version {major}");
        // What is told is plausible: nothing needs a line of the log, and everything needs many a customer.
        for (table, least, most) in [
            ("log", 150, 350),
            ("lines_other", 300, 700),
            ("customers", 1000, 5000),
            ("orders_2026_0", 80, 1000),
            ("events", 150, 500),
            ("special_events", 60, 140),
            ("countries", 50, 50),
            ("nothing", 1, 1),
            ("empty", 0, 0),
        ] {
            let rows = rows(&expected, table);
            assert!((least..=most).contains(&rows), "{table} has {rows}");
        }
        let days: u64 = (1..=20).map(|day| rows(&expected, &format!("days_{day}"))).sum();
        assert!((120..280).contains(&days), "{days}");
        // All else is as in a backup.
        assert_eq!(found[3..5], whole[3..5], "sequences and large objects");
        let view = "SELECT count(*), sum(count) FROM by_country";
        assert_eq!(
            server.sql("copy", view),
            server.sql("copy", "SELECT count(DISTINCT country), count(*) FROM customers")
        );
        assert_eq!(server.sql("copy", FOREIGN_KEYS), server.sql("shop", FOREIGN_KEYS));
        assert_eq!(schema(&server, &server, "copy").replace("copy", "shop"), schema(&server, &server, "shop"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_state_gives_the_same_sample_and_a_larger_one_holds_it() {
    let server = shop(15);
    let mut counts = Vec::new();
    for (name, share) in [("one", "1%"), ("again", "1.00%"), ("more", "30%"), ("all", "100%")] {
        let vault = vault(&MemoryStore::new());
        sample(&server, &server.url("shop"), share, &vault).await.expect("taken");
        recover(&vault, &server.url(name), &options(&server)).await.expect("restored");
        counts.push(content(&server, name)[0].clone());
    }
    assert_eq!(counts[0], counts[1]);
    assert_eq!(counts[2], expected(&server, 15, "30"));
    assert_eq!(counts[3], content(&server, "shop")[0]);
    let rows = |count: &String| rows(count, "log");
    assert!(rows(&counts[0]) < 100 && (1200..1800).contains(&rows(&counts[2])) && rows(&counts[3]) == 5000);
    let list = |database: &str| server.sql(database, "SELECT line FROM log ORDER BY 1");
    let (one, more) = (list("one"), list("more"));
    assert!(!one.is_empty() && one.lines().all(|line| more.lines().any(|other| other == line)));
}

/// The sample holds the rows as they were when they were chosen, although other sessions commit meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn every_key_holds_in_a_sample_that_is_taken_while_others_write() {
    let server = Arc::new(shop(15));
    let change = "BEGIN; \
        INSERT INTO customers SELECT i, 'AA', i - 1 FROM generate_series((SELECT max(id) + 1 FROM customers), (SELECT max(id) + 200 FROM customers)) i; \
        INSERT INTO orders SELECT '2026-12-01', i, (SELECT max(id) FROM customers) - i % 200 \
          FROM generate_series((SELECT max(id) + 1 FROM orders), (SELECT max(id) + 300 FROM orders)) i; \
        INSERT INTO lines SELECT id, 1, at, 'p7', 7 FROM orders WHERE id > (SELECT max(id) - 300 FROM orders); \
        DELETE FROM lines USING (SELECT id FROM orders WHERE id <= (SELECT min(id) + 100 FROM orders)) o WHERE order_id = o.id; \
        DELETE FROM orders WHERE id <= (SELECT min(id) + 100 FROM orders); \
        UPDATE customers SET filler = filler || '.' WHERE id % 17 = 0; COMMIT";
    let (stop, changing) = again_and_again(&server, change);
    for share in ["3%", "20%", "60%"] {
        let vault = vault(&MemoryStore::new());
        sample(&server, &server.url("shop"), share, &vault).await.expect("taken");
        let options =
            ProveOptions { when: When::Latest, to: Some(target(&server.url("postgres"))), limits: limits(&server) };
        let proved = prove(&vault, &options, &World::real(environment()), Arc::new(NoProgress)).await.expect("proved");
        assert_eq!(proved.findings, Vec::new());
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(changing.join().expect("no panic") > 0, "nothing was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_and_a_backup_are_never_kept_in_one_place() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", "CREATE TABLE t AS SELECT i FROM generate_series(1, 5000) i");
    let url = server.url("shop");
    let (backups, samples) = (vault(&MemoryStore::new()), vault(&MemoryStore::new()));
    backup(&server, &url, &backups).await.expect("backed up");
    sample(&server, &url, "1%", &samples).await.expect("taken");
    let failures = [
        sample(&server, &url, "1%", &backups).await.expect_err("a sample among backups"),
        backup(&server, &url, &samples).await.expect_err("a backup among samples"),
        sample(&server, &url, "2%", &samples).await.expect_err("another share"),
        sample(&server, &server.url(""), "1%", &samples).await.expect_err("of everything"),
    ];
    for (failure, (theirs, ours)) in failures.iter().zip([
        ("backups of 7", "not of sample 1% of 7"),
        ("backups of sample 1% of 7", "not of 7"),
        ("backups of sample 1% of 7", "not of sample 2% of 7"),
        ("/shop", "not of sample 1% of 7"),
    ]) {
        assert_eq!(failure.code, "archive.other-database");
        assert!(failure.cause.contains(theirs) && failure.cause.contains(ours), "{failure:?}");
        assert!(failure.next.contains("each sample"), "{failure:?}");
    }
    sample(&server, &url, "1.0%", &samples).await.expect("the same share once more");
    let notes = |catalog: &Catalog| timeline(catalog).notes.into_iter().map(|note| note.note).collect::<Vec<_>>();
    let (of_samples, of_backups) = (Catalog::read(&samples).await, Catalog::read(&backups).await);
    assert_eq!(notes(&of_samples.expect("read")), ["no backup: a sample of 1% of the rows"; 2]);
    assert_eq!(notes(&of_backups.expect("read")), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn more_rows_than_can_be_remembered_are_refused_by_name() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE TABLE owners (id int PRIMARY KEY); INSERT INTO owners SELECT i FROM generate_series(1, 2000) i; \
         CREATE TABLE large AS SELECT i % 2000 + 1 AS owner FROM generate_series(1, 750000) i; \
         ALTER TABLE large ADD FOREIGN KEY (owner) REFERENCES owners",
    );
    let take = async |share: &str, memory: u64| {
        let limits = Limits { jobs: 1, memory, ..limits(&server) };
        let options = DumpOptions { limits, sample: Some(share.parse().expect("a share")), ..DumpOptions::default() };
        let store = MemoryStore::new();
        let vault = vault(&store);
        dump(&target(&server.url("shop")), &vault, &options, &World::real(environment()), Arc::new(NoProgress)).await
    };
    let failure = Failure::from(take("90%", 23 << 20).await.expect_err("too large"));
    assert_eq!((failure.code, failure.object.as_str()), ("postgres.sample-too-large", "public.large"));
    assert!(failure.cause.contains("rows of the sample") && failure.next.contains("--memory"), "{failure:?}");
    take("10%", 23 << 20).await.expect("a smaller share");
    take("90%", 40 << 20).await.expect("more memory");
    let failure = Failure::from(take("1%", 22 << 20).await.expect_err("too little for both halves"));
    assert_eq!(
        (failure.code, failure.next.as_str()),
        ("archive.memory", "give at least 24117248 bytes, or fewer --jobs")
    );
    nothing_stays(&server, "shop");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_of_nothing_and_one_of_a_whole_server_come_back() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    let nothing = vault(&MemoryStore::new());
    let dumped = sample(&server, &server.url("shop"), "1%", &nothing).await.expect("taken");
    assert_eq!(dumped.manifest.totals.rows, 0);
    recover(&nothing, &server.url("copy"), &options(&server)).await.expect("restored");
    assert_eq!(content(&server, "copy"), content(&server, "shop"));

    server.sql("postgres", "DROP DATABASE copy; ");
    server.sql(
        "shop",
        "CREATE TABLE owners (id int PRIMARY KEY); INSERT INTO owners SELECT i FROM generate_series(1, 5000) i; \
                        CREATE TABLE things (owner int REFERENCES owners); INSERT INTO things SELECT id FROM owners",
    );
    server.sql("postgres", "CREATE TABLE note AS SELECT 'all of it'");
    let vault = vault(&MemoryStore::new());
    let dumped = sample(&server, &server.url(""), "10%", &vault).await.expect("taken");
    assert!(dumped.manifest.identity.starts_with("sample 10% of ") && dumped.manifest.identity.ends_with('/'));
    let options = ProveOptions { when: When::Latest, to: None, limits: limits(&server) };
    let proved = prove(&vault, &options, &World::real(environment()), Arc::new(NoProgress)).await.expect("proved");
    assert_eq!((proved.findings, proved.databases), (Vec::new(), 3));
    let rows = dumped.manifest.totals.rows;
    assert!((700..1700).contains(&rows), "things, and the owners of those, and a note: {rows}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_pg_dump_writes_is_no_sample() {
    let server = Server::start(15);
    let options = DumpOptions {
        limits: limits(&server),
        format: Format::Custom,
        sample: Some("1%".parse().expect("a share")),
        ..DumpOptions::default()
    };
    let store = MemoryStore::new();
    let (url, vault) = (target(&server.url("postgres")), vault(&store));
    let failure = dump(&url, &vault, &options, &World::real(environment()), Arc::new(NoProgress)).await;
    assert_eq!(Failure::from(failure.expect_err("every row")).code, "postgres.vendor-format");
    assert!(!Catalog::is_here(&vault).await.expect("asked"));
}
