//! Databases in other encodings than UTF-8 are restored byte by byte, also bytes without a counterpart in UTF-8.

use std::sync::Arc;

use seawall_archive::Sample;
use seawall_core::{NoProgress, When};
use seawall_postgres::{CopyFormat, DumpOptions, Format, ProveOptions, World, dump, prove};
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{backup, backup_as, backup_in, environment, limits, options, recover, target, vault};

/// Encodings of databases, letters that UTF-8 has too, and bytes that have no counterpart in UTF-8.
const ENCODINGS: [(&str, &[u8], &[u8]); 4] = [
    ("WIN1252", b"Stra\xdfe", b"x\x81y"),
    ("EUC_JP", b"\xc6\xfc\xcb\xdc", b"x\xa9\xa1y"),
    ("WIN1257", b"\xd0al\xe8ia", b"x\xa5y"),
    ("SQL_ASCII", b"\xdf", b"x\xff\xfey"),
];

/// Every kind of object that has a name, a comment or a text. `@` stands for a name with letters, `#` for a name with
/// bytes that have no counterpart.
const CONTENT: &str = r##"
CREATE SCHEMA "s #"; CREATE TYPE "s #".mood AS ENUM ('glad', '#', '@');
CREATE TABLE "@" (id serial PRIMARY KEY, "col #" text DEFAULT '#' CHECK ("col #" <> 'not #'), mood "s #".mood, doc json, tags text[]);
CREATE TABLE "s #"."t #" (a int REFERENCES "@", "@" text); CREATE INDEX "i #" ON "@" ("col #") WHERE "col #" <> '#';
CREATE INDEX "@ i" ON "@" (lower("col #"));
COMMENT ON TABLE "@" IS 'of @, #'; COMMENT ON COLUMN "@"."col #" IS '#';
CREATE VIEW "v #" AS SELECT id, "col #" || '#' AS "@" FROM "@" WHERE "col #" LIKE '%@%' OR true;
CREATE FUNCTION f() RETURNS text LANGUAGE sql AS $$ SELECT '#@' $$; COMMENT ON FUNCTION f() IS '@#';
CREATE SEQUENCE "q #"; SELECT setval('"q #"', 7);
INSERT INTO "@" ("col #", mood, doc, tags) SELECT '#@' || i, '#', '{"#": "@"}', ARRAY['#', '@', NULL] FROM generate_series(1, 3000) i;
INSERT INTO "@" DEFAULT VALUES; INSERT INTO "s #"."t #" SELECT id, '@#' FROM "@";
CREATE MATERIALIZED VIEW "m #" AS SELECT "@" FROM "v #" WHERE id < 10;
SELECT lo_from_bytea(4711, 'x'); COMMENT ON LARGE OBJECT 4711 IS '#@';
CREATE ROLE "r @" LOGIN; ALTER TABLE "s #"."t #" OWNER TO "r @"; GRANT SELECT ON "@" TO "r @";
CREATE POLICY "p #" ON "@" TO "r @" USING ("col #" <> '#');
COMMENT ON DATABASE shop IS '#@'; ALTER DATABASE shop SET my.word TO '#';
"##;

/// A statement in the bytes of an encoding.
fn spelled(text: &str, (_, letters, bytes): (&str, &[u8], &[u8])) -> Vec<u8> {
    let spell = |byte: u8| match byte {
        b'@' => letters.to_vec(),
        b'#' => bytes.to_vec(),
        byte => vec![byte],
    };
    text.bytes().flat_map(spell).collect()
}

fn run(server: &Server, encoding: &str, database: &str, sql: &[u8]) {
    let file = server.folder().join("bytes.sql");
    std::fs::write(&file, sql).expect("written");
    let mut psql = server.tool("psql");
    psql.env("PGCLIENTENCODING", encoding)
        .args(["-Xq", "-o", "/dev/null", "-v", "ON_ERROR_STOP=1", "-d", database, "-f"])
        .arg(file);
    crate::server::output(psql);
}

/// Runs SQL whose text is in UTF-8, and returns what it prints.
fn sql(server: &Server, database: &str, sql: &str) -> String {
    let mut psql = server.tool("psql");
    psql.env("PGCLIENTENCODING", "UTF8").args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", sql]);
    crate::server::output(psql)
}

/// An empty database of an encoding.
fn empty(server: &Server, database: &str, encoding: &str) {
    server.sql(
        "postgres",
        &format!("CREATE DATABASE {database} TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' LOCALE_PROVIDER libc"),
    );
}

fn make(server: &Server, (encoding, letters, bytes): (&'static str, &'static [u8], &'static [u8])) {
    empty(server, "shop", encoding);
    run(server, encoding, "shop", &spelled(CONTENT, (encoding, letters, bytes)));
}

/// The output of `pg_dump` for a database, in the database's own encoding.
fn bytes(server: &Server, encoding: &str, database: &str) -> String {
    let mut dump = server.tool("pg_dump");
    dump.args(["-d", database, "--encoding", encoding, "--create"]);
    let output = dump.output().expect("pg_dump runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = output.stdout.escape_ascii().to_string().replace("\\n", "\n").replace(database, "DATABASE");
    let is_said = |line: &&str| !line.starts_with("\\\\restrict") && !line.starts_with("\\\\unrestrict");
    shown.lines().filter(is_said).map(|line| format!("{line}\n")).collect()
}

fn insist(found: &str, wanted: &str, what: &str) {
    let first = wanted.lines().zip(found.lines()).find(|(wanted, found)| wanted != found);
    assert!(found == wanted, "{what}: {first:?}, {} and {} bytes", wanted.len(), found.len());
}

async fn proved(server: &Server, vault: &seawall_vault::Vault, to: bool, what: &str) {
    let to = to.then(|| target(&server.url("postgres")));
    let proving = ProveOptions { when: When::Latest, to, limits: limits(server) };
    let proved = prove(vault, &proving, &World::real(environment()), Arc::new(NoProgress)).await.expect("proved");
    assert_eq!(proved.findings, Vec::new(), "{what}");
    assert!(proved.rows > 0 && proved.objects > 0, "{what}: {proved:?}");
}

async fn there_and_back(major: u32) {
    let all = [
        (Format::Native, CopyFormat::Text),
        (Format::Native, CopyFormat::Binary),
        (Format::Custom, CopyFormat::Text),
        (Format::Plain, CopyFormat::Text),
        (Format::Directory, CopyFormat::Text),
    ];
    let server = Server::start(major);
    for (place, of) in ENCODINGS.into_iter().enumerate() {
        let (encoding, ..) = of;
        make(&server, of);
        let wanted = bytes(&server, encoding, "shop");
        // Whatever an encoding does to one format, it does to the others as well.
        for (format, copy) in all.into_iter().take(if place < 2 { all.len() } else { 1 }) {
            let what = format!("{major} {encoding} {format:?} {copy:?}");
            let vault = vault(&MemoryStore::new());
            match format {
                Format::Native => backup_as(copy, &server, &server.url("shop"), &vault).await,
                format => backup_in(format, &server, &server.url("shop"), &vault).await,
            }
            .expect("backed up");
            recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
            insist(&bytes(&server, encoding, "copy"), &wanted, &what);
            let here = place == 0 && copy == CopyFormat::Text && format != Format::Directory;
            proved(&server, &vault, !here, &what).await;
            server.sql("postgres", "DROP DATABASE copy");
        }
        server.sql("postgres", &format!("ALTER DATABASE shop RENAME TO done_{place}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_without_a_counterpart_in_utf_8_come_back_in_version_15() {
    there_and_back(15).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_without_a_counterpart_in_utf_8_come_back_in_version_18() {
    there_and_back(18).await;
}

/// `--table` and a sample work with names in the database's own letters, and restore the same bytes.
#[tokio::test]
async fn tables_rows_and_samples_of_another_encoding_come_back() {
    let of = ENCODINGS[0];
    let server = Server::start(15);
    make(&server, of);
    let all = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &all).await.expect("backed up");
    let rows = |database: &str| {
        let sql = "SELECT string_agg(encode(convert_to(t::text, getdatabaseencoding()), 'hex'), ' ' ORDER BY id) FROM public.\"Straße\" t";
        self::sql(&server, database, sql)
    };
    let wanted = rows("shop");
    let mut some = options(&server);
    some.tables = vec!["public.Straße".to_owned()];
    empty(&server, "part", "WIN1252");
    run(
        &server,
        of.0,
        "part",
        &spelled("CREATE SCHEMA \"s #\"; CREATE TYPE \"s #\".mood AS ENUM ('glad', '#', '@')", of),
    );
    recover(&all, &server.url("part"), &some).await.expect("one table");
    assert_eq!(rows("part"), wanted);
    // Rows alone, into what is there.
    run(&server, of.0, "part", &spelled("TRUNCATE \"@\"", of));
    some.data_only = true;
    recover(&all, &server.url("part"), &some).await.expect("rows alone");
    assert_eq!(rows("part"), wanted);
    // A sample that is all of it.
    let sampled = vault(&MemoryStore::new());
    let sample = DumpOptions {
        limits: limits(&server),
        sample: Some("50%".parse::<Sample>().expect("a share")),
        ..DumpOptions::default()
    };
    dump(&target(&server.url("shop")), &sampled, &sample, &World::real(environment()), Arc::new(NoProgress))
        .await
        .expect("a sample");
    recover(&sampled, &server.url("sampled"), &options(&server)).await.expect("restored");
    let (few, all) = (rows("sampled"), rows("shop"));
    let all: std::collections::BTreeSet<&str> = all.split(' ').collect();
    let few: Vec<&str> = few.split(' ').collect();
    assert!(few.len() > 1000 && few.len() < 2500, "{}", few.len());
    assert!(few.iter().all(|row| all.contains(row)));
}

/// A database in UTF-8 refuses bytes without a counterpart. They never become another text.
#[tokio::test]
async fn a_database_in_utf_8_takes_what_it_has_letters_for() {
    let server = Server::start(15);
    empty(&server, "shop", "WIN1252");
    sql(&server, "shop", "CREATE TABLE \"Straße\" (a text); INSERT INTO \"Straße\" VALUES ('grün €')");
    for database in ["takes", "refuses"] {
        server.sql("postgres", &format!("CREATE DATABASE {database}"));
    }
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    recover(&vault, &server.url("takes"), &options(&server)).await.expect("restored");
    assert_eq!(server.sql("takes", "SELECT a FROM \"Straße\""), "grün €");
    sql(&server, "shop", "INSERT INTO \"Straße\" VALUES (convert_from('\\x81', 'WIN1252'))");
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let failure = recover(&vault, &server.url("refuses"), &options(&server)).await.expect_err("it has no such letter");
    assert!(failure.cause.contains("has no equivalent in encoding \"UTF8\""), "{failure:?}");
    assert!(failure.object.contains("Straße"), "{failure:?}");
}

/// Each database reads a role's name in its own encoding, so a restore must keep the bytes of the name.
#[tokio::test]
async fn names_of_roles_are_bytes_that_all_databases_share() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE ROLE \"müller\"");
    empty(&server, "shop", "WIN1252");
    // That role, as a database in WIN1252 reads it.
    sql(&server, "shop", "CREATE TABLE t AS SELECT 1 AS a; ALTER TABLE t OWNER TO \"mÃ¼ller\"");
    let alone = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &alone).await.expect("backed up");
    recover(&alone, &server.url("copy"), &options(&server)).await.expect("restored");
    let owner =
        "SELECT encode(convert_to(tableowner, getdatabaseencoding()), 'hex') FROM pg_tables WHERE tablename = 't'";
    assert_eq!(server.sql("copy", owner), "6dc3bc6c6c6572");
    proved(&server, &alone, false, "here").await;
    let whole = vault(&MemoryStore::new());
    backup(&server, &server.url(""), &whole).await.expect("backed up");
    let other = Server::start(15);
    let failure = recover(&alone, &other.url("copy"), &options(&other)).await.expect_err("there is no such role");
    assert!(failure.next.contains("CREATE ROLE \"müller\""), "{failure:?}");
    recover(&whole, &other.url(""), &options(&other)).await.expect("restored");
    assert_eq!(other.sql("shop", owner), "6dc3bc6c6c6572");
    // One whose bytes are no UTF-8 is named: a database in UTF-8 couldn't make it.
    sql(&server, "shop", "CREATE ROLE \"jürgen\"; ALTER TABLE t OWNER TO \"jürgen\"");
    backup(&server, &server.url("shop"), &alone).await.expect("backed up");
    recover(&alone, &server.url("again"), &options(&server)).await.expect("restored");
    assert_eq!(server.sql("again", owner), "6afc7267656e");
    proved(&server, &alone, false, "here").await;
    let failure = backup(&server, &server.url(""), &whole).await.expect_err("it can't be restored");
    assert_eq!((failure.code, failure.cause.contains("j\\xfcrgen")), ("postgres.other-encoding", true), "{failure:?}");
}

/// The bytes of the comment and of the owner's name, as the database itself reads them.
const OF_THE_DATABASE: &str = "SELECT encode(convert_to(shobj_description(oid, 'pg_database'), getdatabaseencoding()), 'hex'), \
     encode(convert_to(pg_get_userbyid(datdba), getdatabaseencoding()), 'hex') FROM pg_database WHERE datname = current_database()";

/// A database whose comment and owner have letters in its own encoding, and one whose name alone has such letters.
fn make_two(server: &Server) {
    server.sql("postgres", "CREATE ROLE \"müller\"");
    for name in ["shop", "\"größe\""] {
        empty(server, name, "WIN1252");
    }
    sql(server, "shop", "CREATE TABLE t AS SELECT 1 AS a; COMMENT ON DATABASE shop IS 'grün'");
    sql(server, "shop", "ALTER DATABASE shop OWNER TO \"mÃ¼ller\"");
    sql(server, "größe", "CREATE TABLE t AS SELECT 1 AS a");
    let found = ["shop", "größe"].map(|name| server.sql(name, OF_THE_DATABASE));
    assert_eq!(found, [WITH_LETTERS, WITHOUT_LETTERS]);
}

/// The comment and the owner of the two databases.
const WITH_LETTERS: &str = "6772fc6e|6dc3bc6c6c6572";
const WITHOUT_LETTERS: &str = "|706f737467726573";

/// The server keeps a database's comment in the encoding of the session that writes it, and its name in that of the
/// session that renames it.
#[tokio::test]
async fn comments_of_databases_come_back_to_the_byte_under_names_with_other_letters() {
    let server = Server::start(15);
    make_two(&server);
    for (set, name, shown, wanted) in [
        ("shop", "copy", "copy", WITH_LETTERS),
        ("shop", "stra%C3%9Fe", "straße", WITH_LETTERS),
        ("gr%C3%B6%C3%9Fe", "stra%C3%9Fe%202", "straße 2", WITHOUT_LETTERS),
    ] {
        let vault = vault(&MemoryStore::new());
        backup(&server, &server.url(set), &vault).await.expect("backed up");
        recover(&vault, &server.url(name), &options(&server)).await.expect("restored");
        assert_eq!(server.sql(shown, OF_THE_DATABASE), wanted, "{shown}");
    }
}

#[tokio::test]
async fn comments_of_a_whole_servers_databases_come_back_to_the_byte() {
    let (from, to) = (Server::start(15), Server::start(15));
    make_two(&from);
    let vault = vault(&MemoryStore::new());
    backup(&from, &from.url(""), &vault).await.expect("backed up");
    let replacing = seawall_postgres::RestoreOptions { clean: true, ..options(&to) };
    for options in [options(&to), replacing] {
        recover(&vault, &to.url(""), &options).await.expect("restored");
        let found = ["shop", "größe"].map(|name| to.sql(name, OF_THE_DATABASE));
        assert_eq!(found, [WITH_LETTERS, WITHOUT_LETTERS]);
        let left = "SELECT count(*) FROM pg_database WHERE datname ~ 'seawall|replaced'";
        assert_eq!(to.sql("postgres", left), "0");
    }
}
