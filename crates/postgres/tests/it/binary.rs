//! Rows in binary: which tables are read in binary, and the errors for rows that differ from the set.

use std::path::Path;
use std::sync::Arc;

use seawall_archive::{Budget, Catalog, Codec, Content, Facts, Item, Record, SetId, SetReader, SetWriter};
use seawall_core::{Failure, Kind, Moment, NoProgress, When};
use seawall_postgres::{CopyFormat, ProveOptions, World, prove};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{FORMATS, backup_as, content, environment, limits, options, recover, target, vault};

/// Columns that binary sets hold as text: they contain object ids, or their binary form differs between servers.
const AS_TEXT: [&str; 18] = [
    "public.of_domains a public.pos[]",
    "public.of_enums a public.st[]",
    "public.of_int2vector v int2vector",
    "public.of_oidvector v oidvector",
    "public.of_pairs a public.pair",
    "public.of_regclass v regclass",
    "public.of_regcollation v regcollation",
    "public.of_regconfig v regconfig",
    "public.of_regdictionary v regdictionary",
    "public.of_regnamespace v regnamespace",
    "public.of_regoper v regoper",
    "public.of_regoperator v regoperator",
    "public.of_regproc v regproc",
    "public.of_regprocedure v regprocedure",
    "public.of_regrole v regrole",
    "public.of_regtype v regtype",
    "public.of_rows a public.of_users",
    "public.of_xml v xml",
];

fn filled(major: u32) -> Server {
    let server = Server::start(major);
    server.sql("postgres", "CREATE DATABASE shop");
    server.script("shop", &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/types.sql"));
    server
}

/// The number of rows and a hash of their binary form, for the table with columns of PostgreSQL's own types.
fn bits(server: &Server, database: &str) -> String {
    let sql = "SELECT count(*), sum(hashtextextended(encode(record_send(t), 'hex'), 0)) FROM of_all t";
    server.sql(database, sql)
}

/// Tests each built-in type and each kind of user-defined type: from 15 to 15, from 18 to 18, and from 15 to 18.
#[tokio::test(flavor = "multi_thread")]
async fn values_of_every_type_come_back_in_binary_to_the_bit() {
    let (old, new) = (filled(15), filled(18));
    for (from, to) in [(&old, &old), (&new, &new), (&old, &new)] {
        let vault = vault(&MemoryStore::new());
        let dumped = backup_as(CopyFormat::Binary, from, &from.url("shop"), &vault).await.expect("backed up");
        let mut as_text: Vec<_> =
            dumped.as_text.iter().map(|table| format!("{} {} {}", table.table, table.column, table.r#type)).collect();
        as_text.sort();
        assert_eq!(as_text, AS_TEXT);
        assert!(dumped.as_text.iter().all(|table| table.database == "shop"));
        recover(&vault, &to.url("copy"), &options(from)).await.expect("restored");
        assert_eq!(content(to, "copy"), content(from, "shop"));
        assert_eq!(bits(to, "copy"), bits(from, "shop"));
        to.sql("postgres", "DROP DATABASE copy");
        let options = ProveOptions { when: When::Latest, to: Some(target(&to.url("postgres"))), limits: limits(to) };
        let proved = prove(&vault, &options, &World::real(environment()), Arc::new(NoProgress)).await;
        assert_eq!(proved.map_err(Failure::from).expect("proved").findings, vec![]);
        let verified = seawall_archive::verify(&vault, Moment::default(), Arc::new(NoProgress), 2).await;
        assert_eq!(verified.expect("verified").findings, vec![]);
    }
}

/// The server alone would accept the eight bytes of a `bigint` as a `double precision`.
#[tokio::test]
async fn rows_alone_come_into_columns_of_their_type_or_into_none() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", "CREATE TABLE t (a int8, b varchar(9), c int); INSERT INTO t VALUES (5, 'x', 1), (6, 'y', 2)");
    let vault = vault(&MemoryStore::new());
    backup_as(CopyFormat::Binary, &server, &server.url("shop"), &vault).await.expect("backed up");
    let mut rows = options(&server);
    rows.data_only = true;
    for (columns, cause) in [
        ("a float8, b text, c int", "its column a is float8, and the set has it in binary as int8"),
        ("a timestamptz, b text, c int", "its column a is timestamptz"),
        ("a int4, b text, c int", "its column a is int4"),
        ("a int8, b bytea, c int", "its column b is bytea"),
        ("a int8, b xml, c int", "its column b is of a type without such a form"),
        ("a int8, b text", "it has no column c that takes values"),
        ("a int8, b text, c int GENERATED ALWAYS AS (1) STORED", "it has no column c that takes values"),
    ] {
        server.sql("shop", &format!("DROP TABLE t; CREATE TABLE t ({columns})"));
        for dry_run in [true, false] {
            rows.dry_run = dry_run;
            let failure = recover(&vault, &server.url("shop"), &rows).await.expect_err(columns);
            assert_eq!((failure.kind, failure.code), (Kind::Refused, "postgres.other-types"), "{failure:?}");
            assert_eq!(failure.object, "public.t");
            assert!(failure.cause.starts_with(cause), "{}", failure.cause);
        }
        assert_eq!(server.sql("shop", "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'seawall%'"), "0");
    }
    server.sql(
        "shop",
        "DROP TABLE t; CREATE VIEW t AS SELECT (1 / (random() * 0)::int)::int8 AS a, 'x'::text AS b, 1 AS c",
    );
    // A view is its owner's code: it is refused, and not read.
    let failure = recover(&vault, &server.url("shop"), &rows).await.expect_err("a view");
    let cause = "--data-only needs tables that are there, and there is no public.t";
    assert_eq!((failure.code, failure.cause.as_str()), ("postgres.not-ready", cause));
    // In another order, with another length, and a domain over the same.
    server.sql("shop", "DROP VIEW t; CREATE DOMAIN big AS int8; CREATE TABLE t (z int, c int, b text, a big)");
    recover(&vault, &server.url("shop"), &rows).await.expect("restored");
    assert_eq!(server.sql("shop", "SELECT string_agg(t::text, ' ' ORDER BY a) FROM t"), "(,1,x,5) (,2,y,6)");
}

/// Copies the newest set of a vault into another vault, with the item and the bytes of its rows changed.
async fn forged(vault: &Vault, item: impl Fn(Item) -> Item, bytes: impl Fn(Vec<u8>) -> Vec<u8>) -> Vault {
    let manifest = Catalog::read(vault).await.expect("read").find(&When::Latest).expect("a set").clone();
    let reader = Arc::new(SetReader::open(vault.clone(), manifest.clone()).await.expect("opened"));
    let other = crate::support::vault(&MemoryStore::new());
    let id = SetId::new(Moment::from_millis(1_000), 1);
    let budget = Budget::new(32 << 20, 1).expect("a budget");
    let writer = SetWriter::begin(other.clone(), id, Codec::default(), budget, Arc::new(NoProgress));
    let mut lane = writer.lane();
    for (number, found) in (0..).zip(&reader.index().items) {
        let is_ours = found.name == "public.t";
        let item = if is_ours { item(found.clone()) } else { found.clone() };
        let place = writer.item(item.name, item.content, item.detail);
        for chunk in 0..u32::try_from(reader.index().chunks.len()).expect("few") {
            let (of, stored) = reader.chunk(chunk).await.expect("a chunk");
            for (frame, stored) in SetReader::frames(of, &stored).filter(|(frame, _)| frame.item == number) {
                let mut raw = Vec::new();
                reader.decode(chunk, frame, &stored, &mut raw).expect("decoded");
                lane.push(place, frame.rows, if is_ours { bytes(raw) } else { raw }).await.expect("pushed");
            }
        }
    }
    lane.finish().await.expect("written");
    let (tool, point) = (manifest.tool, manifest.point);
    let facts = Facts {
        engine: "postgres",
        identity: manifest.identity,
        tool,
        point,
        artefact: None,
        sample: None,
        schedule: None,
        detail: manifest.detail,
    };
    let made = writer.finish(facts, &seawall_core::SystemClock).await.expect("a set");
    let mut catalog = Catalog::read(&other).await.expect("read");
    catalog.add(Record::Set(Box::new(made))).await.expect("it counts");
    other
}

/// The sets claim a wrong form for their rows. The restore reports the server's error with the table's name, and the
/// database doesn't get its final name.
#[tokio::test]
async fn rows_that_are_not_in_the_form_that_the_set_says_are_refused_by_name() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", "CREATE TABLE t AS SELECT i::int8 AS a, md5(i::text) AS b FROM generate_series(1, 900) i");
    let [text, binary] = FORMATS.map(|_| vault(&MemoryStore::new()));
    for (copy, vault) in FORMATS.into_iter().zip([&text, &binary]) {
        backup_as(copy, &server, &server.url("shop"), vault).await.expect("backed up");
    }
    let says = |forms: &'static [&'static str], content| {
        move |mut item: Item| {
            item.detail["binary"] = forms.iter().copied().collect();
            item.content = content;
            item
        }
    };
    let as_it_is = |bytes: Vec<u8>| bytes;
    let right: &[&str] = &["int8", "text"];
    let in_binary = || says(right, Content::File);
    let ended = |rows: Vec<u8>| [&rows, &[0xff, 0xff][..], &rows].concat();
    let (different, others) = ("postgres.different", "postgres.other-types");
    let cases: [(&str, Vault, &str, &str); 7] = [
        ("text", forged(&text, says(right, Content::Lines), as_it_is).await, different, "[SQLSTATE 22P04]"),
        ("no rows", forged(&binary, in_binary(), |_| vec![7; 900]).await, different, "[SQLSTATE 22P04]"),
        ("an end", forged(&binary, in_binary(), ended).await, different, "[SQLSTATE 22P04]"),
        (
            "half",
            forged(&binary, in_binary(), |rows| rows[..rows.len() - 5].to_vec()).await,
            different,
            "SQLSTATE 22P04",
        ),
        ("a row twice", forged(&binary, in_binary(), |rows| rows.repeat(2)).await, different, "took 1800 rows"),
        (
            "others",
            forged(&binary, says(&["float8", "text"], Content::Tuples), as_it_is).await,
            others,
            "column a is int8",
        ),
        ("too few", forged(&binary, says(&["int8"], Content::Tuples), as_it_is).await, others, "has 2 columns"),
    ];
    for (what, vault, code, cause) in cases {
        let failure = recover(&vault, &server.url("copy"), &options(&server)).await.expect_err(what);
        assert_eq!((failure.code, failure.object.as_str()), (code, "public.t"), "{what}: {failure:?}");
        assert!(failure.cause.contains(cause), "{what}: {}", failure.cause);
        assert_eq!(server.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname = 'copy'"), "0");
    }
    // What says that it is text is taken as text.
    let plain = |mut item: Item| {
        item.detail.as_object_mut().expect("an object").remove("binary");
        item
    };
    let vault = forged(&binary, plain, as_it_is).await;
    let failure = recover(&vault, &server.url("copy"), &options(&server)).await.expect_err("no text");
    assert_eq!(failure.object, "public.t in database copy", "{failure:?}");
}
