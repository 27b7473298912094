//! `pg_dump`'s own formats, kept unchanged: restored to the byte, and restored into a server.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seawall_archive::{Catalog, Sets};
use seawall_core::abilities::*;
use seawall_core::{Failure, IntegrityCheck, Kind, Moment, NoProgress, RestoreRequest, SystemClock, When};
use seawall_postgres::{DumpOptions, Dumped, Format, Limits, ProveOptions, Proved, World, dump, prove};
use seawall_vault::Vault;
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{
    content, environment, limits, no_session_stays, nothing_stays, options, recover, roles, schema, target, vault,
};

const FORMATS: [Format; 3] = [Format::Custom, Format::Directory, Format::Plain];

pub(crate) fn filled(major: u32) -> Server {
    let server = Server::start(major);
    roles(&server);
    server.sql("postgres", "CREATE DATABASE shop OWNER alice");
    server.script("shop", &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/everything.sql"));
    server
}

/// A server with a table of several megabytes, and a table with a foreign key to it.
pub(crate) fn small() -> Server {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE TABLE big (id int PRIMARY KEY, filler text); \
         INSERT INTO big SELECT i, repeat(md5(i::text), 8) FROM generate_series(1, 40000) i; \
         CREATE TABLE small (id serial PRIMARY KEY, big int REFERENCES big); INSERT INTO small (big) SELECT id FROM big LIMIT 100; \
         CREATE INDEX big_filler ON big (md5(filler)); SELECT lo_from_bytea(0, 'x') FROM generate_series(1, 5)",
    );
    server
}

pub(crate) async fn backup(url: &str, vault: &Vault, limits: Limits, format: Format) -> Result<Dumped, Failure> {
    let options = DumpOptions { limits, format, ..DumpOptions::default() };
    Ok(dump(&target(url), vault, &options, &World::real(environment()), Arc::new(NoProgress)).await?)
}

/// A folder of programs in which `pg_dump` is this script. In the script `$REAL` is the server's own `pg_dump`.
pub(crate) fn programs(server: &Server, pg_dump: &str) -> (tempfile::TempDir, Limits) {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["pg_dump", "pg_restore"] {
        let real = server.bin().join(name);
        let text = match name {
            "pg_dump" => {
                format!("#!/bin/sh\nREAL={0}\n[ $1 = --version ] && exec $REAL --version\n{pg_dump}\n", real.display())
            }
            _ => format!("#!/bin/sh\nexec {} \"$@\"\n", real.display()),
        };
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("made a program");
    }
    let limits = Limits { bindir: Some(folder.path().to_owned()), ..limits(server) };
    (folder, limits)
}

pub(crate) fn sets(vault: &Vault) -> Sets {
    Sets::new(vault.clone(), None, Arc::new(SystemClock), 0, 2)
}

pub(crate) fn request(output: PathBuf) -> RestoreRequest {
    RestoreRequest { output, when: When::Latest, force: false, dry_run: false, integrity: IntegrityCheck::None }
}

/// The databases of a server, without those that every new server has.
pub(crate) fn databases(server: &Server) -> String {
    let sql = "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database WHERE datname !~ '^(postgres|template[01])$'";
    server.sql("postgres", sql)
}

#[tokio::test]
async fn the_file_comes_back_to_the_byte() {
    let server = filled(15);
    for format in [Format::Custom, Format::Plain] {
        let (folder, limits) = programs(&server, "$REAL \"$@\" > \"${0%/*}/made\" && cat \"${0%/*}/made\"");
        let vault = vault(&MemoryStore::new());
        let dumped = backup(&server.url("shop"), &vault, limits, format).await.expect("backed up");
        let made = std::fs::read(folder.path().join("made")).expect("what pg_dump wrote");
        assert!(dumped.manifest.totals.raw > made.len() as u64 && made.len() > 1_000_000, "{}", made.len());
        let timeline = sets(&vault).timeline().await.expect("a timeline");
        assert_eq!(timeline.notes[0].position, dumped.manifest.id.to_string());
        assert!(timeline.notes[0].note.ends_with(format.name()), "{timeline:?}");

        let output = folder.path().join("back");
        let planned = RestoreRequest { dry_run: true, ..request(output.clone()) };
        let plan = sets(&vault).restore(&planned, Arc::new(NoProgress)).await.expect("planned");
        assert!(!output.exists() && !plan.objects.is_empty());
        let restored = sets(&vault).restore(&request(output.clone()), Arc::new(NoProgress)).await.expect("restored");
        assert_eq!((restored.bytes, restored.objects), (made.len() as u64, plan.objects));
        assert!(std::fs::read(&output).expect("the file") == made, "every byte");

        std::fs::write(&output, "mine").expect("written");
        let failure = sets(&vault).restore(&request(output.clone()), Arc::new(NoProgress)).await.expect_err("there");
        assert_eq!((failure.kind, failure.code), (Kind::Refused, "archive.target-exists"));
        assert_eq!(std::fs::read(&output).expect("the file"), b"mine");
        let force = RestoreRequest { force: true, ..request(output.clone()) };
        sets(&vault).restore(&force, Arc::new(NoProgress)).await.expect("replaced");
        assert!(std::fs::read(&output).expect("the file") == made, "every byte");
        let nowhere = request(folder.path().join("nowhere/back"));
        let failure = sets(&vault).restore(&nowhere, Arc::new(NoProgress)).await.expect_err("no folder");
        assert_eq!(failure.code, "archive.io");
        let checked = RestoreRequest { integrity: IntegrityCheck::Full, ..force };
        let failure = sets(&vault).restore(&checked, Arc::new(NoProgress)).await.expect_err("nothing to check");
        assert_eq!((failure.kind, failure.code), (Kind::Usage, "archive.no-integrity"));
    }
}

/// Backs up `shop` from one server, restores it on another one, and compares the two databases.
async fn there_and_back(from: &Server, to: &Server) {
    for format in FORMATS {
        let (vault, copy) = (vault(&MemoryStore::new()), format!("copy_{}", format.name()));
        let dumped = backup(&from.url("shop"), &vault, limits(from), format).await.expect("backed up");
        assert_eq!(dumped.manifest.artefact.as_deref(), Some(format.name()));
        recover(&vault, &to.url(&copy), &options(from)).await.expect("restored");
        assert_eq!(content(to, &copy), content(from, "shop"));
        assert_eq!(schema(to, to, &copy).replace(&copy, "shop"), schema(to, from, "shop"));
        let verified = seawall_archive::verify(&vault, Moment::default(), Arc::new(NoProgress), 2).await;
        assert_eq!(verified.expect("verified").findings, Vec::new());
        let left = to.sql(&copy, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'seawall%'");
        assert_eq!(left, "0", "nothing of ours stays");
    }
    assert!(!databases(to).contains("seawall"), "{}", databases(to));
}

#[tokio::test]
async fn everything_comes_back_from_pg_dumps_own_formats_in_version_15() {
    let server = filled(15);
    there_and_back(&server, &server).await;
}

#[tokio::test]
async fn everything_comes_back_from_pg_dumps_own_formats_in_version_18() {
    let server = filled(18);
    there_and_back(&server, &server).await;
}

#[tokio::test]
async fn everything_comes_back_from_pg_dumps_own_formats_of_15_in_18() {
    let (old, new) = (filled(15), Server::start(18));
    roles(&new);
    for format in FORMATS {
        let vault = vault(&MemoryStore::new());
        backup(&old.url("shop"), &vault, limits(&old), format).await.expect("backed up");
        recover(&vault, &new.url(format.name()), &options(&old)).await.expect("restored");
        assert_eq!(content(&new, format.name()), content(&old, "shop"));
    }
}

#[tokio::test]
async fn what_a_newer_pg_dump_wrote_comes_back_into_the_older_server() {
    let (server, newer) = (small(), Server::start(18));
    for format in [Format::Native, Format::Custom, Format::Directory, Format::Plain] {
        let vault = vault(&MemoryStore::new());
        backup(&server.url("shop"), &vault, limits(&newer), format).await.expect("backed up");
        recover(&vault, &server.url(format.name()), &options(&newer)).await.expect("restored");
        assert_eq!(content(&server, format.name()), content(&server, "shop"));
    }
}

#[tokio::test]
async fn what_the_target_lacks_is_named_before_anything_is_made() {
    let (from, to) = (filled(15), Server::start(15));
    for format in FORMATS {
        let vault = vault(&MemoryStore::new());
        backup(&from.url("shop"), &vault, limits(&from), format).await.expect("backed up");
        let failure = recover(&vault, &to.url("copy"), &options(&to)).await.expect_err("roles are missing");
        assert_eq!(failure.code, "postgres.not-ready");
        for role in ["alice", "reader", "Bob's \"\"role\"\""] {
            assert_eq!(failure.next.matches(&format!("CREATE ROLE \"{role}\";")).count(), 1, "{}", failure.next);
        }
        assert_eq!(databases(&to), "");
    }
}

#[tokio::test]
async fn an_existing_database_must_be_empty_or_is_replaced() {
    let server = small();
    for format in FORMATS {
        server.sql("postgres", "DROP DATABASE IF EXISTS copy");
        server.sql("postgres", "CREATE DATABASE copy");
        let vault = vault(&MemoryStore::new());
        backup(&server.url("shop"), &vault, limits(&server), format).await.expect("backed up");
        recover(&vault, &server.url("copy"), &options(&server)).await.expect("into an empty one");
        assert_eq!(content(&server, "copy"), content(&server, "shop"));
        server.sql("copy", "DROP TABLE small; CREATE TABLE mine AS SELECT 1 AS a");
        let failure = recover(&vault, &server.url("copy"), &options(&server)).await.expect_err("not empty");
        assert_eq!((failure.kind, failure.code), (Kind::Refused, "postgres.not-empty"));
        assert_eq!(server.sql("copy", "SELECT a FROM mine"), "1", "nothing was touched");
        let mut clean = options(&server);
        clean.clean = true;
        recover(&vault, &server.url("copy"), &clean).await.expect("replaced");
        assert_eq!(content(&server, "copy"), content(&server, "shop"));
        assert_eq!(databases(&server), "copy shop");
    }
}

#[tokio::test]
async fn a_restore_that_was_interrupted_anywhere_is_made_anew() {
    let server = small();
    for format in FORMATS {
        let vault = vault(&MemoryStore::new());
        backup(&server.url("shop"), &vault, limits(&server), format).await.expect("backed up");
        let (url, options) = (server.url(format.name()), options(&server));
        let mut patience = Duration::from_millis(20);
        loop {
            let restored = tokio::time::timeout(patience, recover(&vault, &url, &options)).await;
            no_session_stays(&server);
            match restored {
                // Whatever has the name is whole.
                Err(_) if databases(&server).contains(format.name()) => break,
                Err(_) => patience = patience * 5 / 4,
                Ok(restored) => {
                    restored.expect("restored");
                    break;
                }
            }
        }
        assert_eq!(content(&server, format.name()), content(&server, "shop"));
    }
    assert_eq!(databases(&server), "custom directory plain shop");
}

#[tokio::test]
async fn a_restore_into_an_empty_database_that_was_interrupted_is_refused_until_it_is_dropped() {
    let server = small();
    server.sql("postgres", "CREATE DATABASE copy");
    let vault = vault(&MemoryStore::new());
    let (_folder, broken) = programs(&server, "$REAL \"$@\" | sed 's/^COPY public.small .*/SELECT 1 \\/ 0;\\n&/'");
    backup(&server.url("shop"), &vault, broken, Format::Plain).await.expect("backed up");
    let failure = recover(&vault, &server.url("copy"), &options(&server)).await.expect_err("a statement fails");
    assert_eq!(failure.code, "postgres.refused");
    assert!(failure.object.contains("of the dump: SELECT 1 / 0") && failure.cause.contains("22012"), "{failure:?}");
    let failure = recover(&vault, &server.url("copy"), &options(&server)).await.expect_err("half of it is there");
    assert_eq!((failure.kind, failure.code), (Kind::Refused, "postgres.other-restore"));
    let failure = recover(&vault, &server.url("other"), &options(&server)).await.expect_err("a statement fails");
    assert_eq!(failure.code, "postgres.refused");
    assert!(!databases(&server).contains("other"), "it has no name before it is whole");
}

#[tokio::test]
async fn commands_for_psql_are_never_run() {
    let server = small();
    let folder = tempfile::tempdir().expect("a folder");
    let touched = folder.path().join("touched");
    for (hostile, code) in [
        ("\\! touch TOUCHED", Some("postgres.psql-command")),
        ("SELECT 1 \\g |touch TOUCHED", Some("postgres.psql-command")),
        ("\\connect postgres", Some("postgres.psql-command")),
        ("\\unrestrict `touch TOUCHED`", None),
        ("SELECT '", Some("postgres.different")),
        ("COPY public.big TO PROGRAM 'touch TOUCHED';", Some("postgres.copy-of-file")),
    ] {
        let hostile = hostile.replace("TOUCHED", &touched.display().to_string());
        let script = format!("$REAL \"$@\"\nprintf '%s\\n' \"{}\"", hostile.replace('\\', "\\\\").replace('`', "\\`"));
        let (_programs, limits) = programs(&server, &script);
        let vault = vault(&MemoryStore::new());
        backup(&server.url("shop"), &vault, limits, Format::Plain).await.expect("backed up");
        let restored = recover(&vault, &server.url("copy"), &options(&server)).await;
        assert_eq!(restored.as_ref().err().map(|failure| failure.code), code, "{hostile}: {restored:?}");
        assert!(!touched.exists(), "{hostile}");
        match code {
            Some(_) => assert!(!databases(&server).contains("copy"), "{hostile}"),
            None => {
                assert_eq!(content(&server, "copy"), content(&server, "shop"));
                server.sql("postgres", "DROP DATABASE copy");
            }
        }
        // What a failed one left is no other set's.
        let left = databases(&server);
        for name in left.split(' ').filter(|name| name.starts_with("seawall-")) {
            server.sql("postgres", &format!("DROP DATABASE \"{name}\""));
        }
    }
}

#[tokio::test]
async fn a_pg_dump_that_fails_leaves_nothing_that_counts() {
    let server = small();
    for format in FORMATS {
        let vault = vault(&MemoryStore::new());
        let half = match format {
            Format::Directory => "$REAL \"$@\"; exit 1",
            _ => "$REAL \"$@\" | head -c 1000000; exit 1",
        };
        for (script, code) in [(half, "postgres.tool-failed"), ("kill -9 $$", "postgres.tool-failed")] {
            let (_folder, limits) = programs(&server, script);
            let failure = backup(&server.url("shop"), &vault, limits, format).await.expect_err("it fails");
            assert_eq!((failure.kind, failure.code), (Kind::Unavailable, code));
        }
        assert_eq!(Catalog::read(&vault).await.expect("read").sets().len(), 0);
    }
    // One that was cut off, but says that all is well, makes no database.
    let (_folder, limits) = programs(&server, "$REAL \"$@\" | head -c 1000000");
    for format in [Format::Custom, Format::Plain] {
        let vault = vault(&MemoryStore::new());
        backup(&server.url("shop"), &vault, limits.clone(), format).await.expect("nobody can know");
        let failure = recover(&vault, &server.url("copy"), &options(&server)).await.expect_err("it is cut off");
        assert!(matches!(failure.code, "postgres.different" | "postgres.tool-failed"), "{failure:?}");
        assert!(!databases(&server).contains("copy"));
    }
}

async fn proof(vault: &Vault, server: &Server, to: Option<&str>) -> Result<Proved, Failure> {
    let how = ProveOptions { when: When::Latest, to: to.map(target), limits: limits(server) };
    Ok(prove(vault, &how, &World::real(environment()), Arc::new(NoProgress)).await?)
}

/// Backs up a database in every format of `pg_dump` and proves the sets, on a server that the proof starts and on a
/// named one.
async fn proved(server: &Server) {
    for format in FORMATS {
        let vault = vault(&MemoryStore::new());
        backup(&server.url("shop"), &vault, limits(server), format).await.expect("backed up");
        let before = databases(server);
        let to = (format == Format::Directory).then(|| server.url("postgres"));
        let proved = proof(&vault, server, to.as_deref()).await.expect("proved");
        assert_eq!(proved.findings, Vec::new(), "{format:?}");
        assert!(proved.tables > 10 && proved.objects > 100 && proved.rows > 100, "{proved:?}");
        assert!(proved.not_compared.is_some_and(|what| what.contains("large objects")), "{proved:?}");
        assert_eq!(databases(server), before);
        nothing_stays(server, "postgres");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_pg_dump_wrote_of_everything_is_proved_in_version_15() {
    let server = filled(15);
    // Values are written as the role's sessions write them.
    server.sql(
        "postgres",
        "ALTER ROLE postgres SET timezone = 'Asia/Kolkata'; ALTER ROLE postgres SET bytea_output = escape",
    );
    proved(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_pg_dump_wrote_of_everything_is_proved_in_version_18() {
    proved(&filled(18)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_restored_dump_has_otherwise_than_it_says_is_named() {
    let server = small();
    let vault = vault(&MemoryStore::new());
    let after = "UPDATE public.big SET filler = 'x' WHERE id = 7; DROP TABLE public.small; CREATE VIEW public.v AS SELECT 1 AS a; \
                 SELECT pg_catalog.lo_unlink((SELECT min(oid) FROM pg_catalog.pg_largeobject_metadata));";
    let (_folder, limits) = programs(&server, &format!("$REAL \"$@\"; printf '%s\\n' \"{after}\""));
    backup(&server.url("shop"), &vault, limits, Format::Plain).await.expect("backed up");
    let proved = proof(&vault, &server, Some(&server.url("postgres"))).await.expect("compared");
    let named = |object: &str| proved.findings.iter().any(|finding| finding.object == object);
    for object in
        ["public.big", "public.small", "public.small_id_seq", "table public.small", "view public.v", "large objects"]
    {
        assert!(named(object), "{object}: {:?}", proved.findings);
    }
    assert!(proved.findings.iter().all(|finding| finding.code == "postgres.different"));
    assert_eq!(databases(&server), "shop");
}

#[tokio::test]
async fn what_cannot_be_done_with_an_artefact_is_refused_by_name() {
    let server = small();
    for format in FORMATS {
        let refused = backup(&server.url(""), &vault(&MemoryStore::new()), limits(&server), format).await;
        let failure = refused.expect_err("a whole server");
        assert_eq!((failure.kind, failure.code), (Kind::Refused, "postgres.vendor-format"));
        let vault = vault(&MemoryStore::new());
        backup(&server.url("shop"), &vault, limits(&server), format).await.expect("backed up");
        let mut parts = [options(&server), options(&server), options(&server)];
        parts[0].tables = vec!["big".to_owned()];
        parts[1].data_only = true;
        parts[2].database = Some("shop".to_owned());
        for options in &parts[..2] {
            let failure = recover(&vault, &server.url("copy"), options).await.expect_err("a part");
            assert_eq!((failure.kind, failure.code), (Kind::Refused, "postgres.vendor-format"));
        }
        let failure = recover(&vault, &server.url("copy"), &parts[2]).await.expect_err("of one database");
        assert_eq!(failure.kind, Kind::Refused);
        let mut without = options(&server);
        without.owners = false;
        let restored = recover(&vault, &server.url(&format!("copy_{}", format.name())), &without).await;
        assert_eq!(restored.is_ok(), format != Format::Plain, "{restored:?}");
    }
}
