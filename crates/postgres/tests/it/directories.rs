//! `pg_dump --format=directory`: restored to the byte for `pg_restore`, restored into a server without a disk, and no
//! folder left.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use seawall_archive::{Artefact, Budget, Catalog, Codec, Content, Facts, Record, SetId, SetReader, SetWriter};
use seawall_core::abilities::*;
use seawall_core::{Failure, Kind, Moment, NoProgress, RestoreRequest, SystemClock};
use seawall_postgres::{DumpOptions, Dumped, Format, World, dump};
use seawall_vault::memory::MemoryStore;
use seawall_vault::{Environment, Vault};

use crate::artefacts::{backup, databases, filled, programs, request, sets, small};
use crate::server::output;
use crate::support::{content, environment, limits, options, recover, target, vault};

/// Keeps a copy of `pg_dump`'s output.
const KEEP: &str = "for a in \"$@\"; do case $a in --file=*) d=${a#--file=};; esac; done\n\
                    $REAL \"$@\" && cp -r \"$d\" \"${0%/*}/made\"";

/// The files of a folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let file = |file: std::io::Result<std::fs::DirEntry>| {
        let file = file.expect("a file");
        (file.file_name().into_string().expect("a name"), std::fs::read(file.path()).expect("read"))
    };
    std::fs::read_dir(folder).expect("a folder").map(file).collect()
}

/// The size of a folder's files.
fn aside(place: &Path) -> usize {
    std::fs::read_dir(place).expect("a folder").count()
}

/// A backup that puts `pg_dump`'s files into a folder of the test.
async fn backup_in(
    place: &Path,
    url: &str,
    vault: &Vault,
    limits: seawall_postgres::Limits,
) -> Result<Dumped, Failure> {
    let path = environment().get("PATH").expect("a PATH").to_owned();
    let variables = [("PATH", path), ("TMPDIR", place.display().to_string())];
    let environment: Environment = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let options = DumpOptions { limits, format: Format::Directory, ..DumpOptions::default() };
    Ok(dump(&target(url), vault, &options, &World::real(environment), Arc::new(NoProgress)).await?)
}

#[tokio::test]
async fn the_directory_comes_back_to_the_byte_and_pg_restore_reads_it() {
    for major in [15, 18] {
        let server = filled(major);
        let (folder, limits) = programs(&server, KEEP);
        let (vault, place) = (vault(&MemoryStore::new()), tempfile::tempdir().expect("a folder"));
        let dumped = backup_in(place.path(), &server.url("shop"), &vault, limits).await.expect("backed up");
        assert_eq!(dumped.manifest.artefact.as_deref(), Some("directory"));
        assert_eq!(aside(place.path()), 0, "nothing stays on the disk");
        let made = files(&folder.path().join("made"));
        assert!(made.contains_key("toc.dat") && made.len() > 20, "{:?}", made.keys());

        let back = folder.path().join("back");
        let planned = RestoreRequest { dry_run: true, ..request(back.clone()) };
        let plan = sets(&vault).restore(&planned, Arc::new(NoProgress)).await.expect("planned");
        assert!(!back.exists() && !plan.objects.is_empty());
        let restored = sets(&vault).restore(&request(back.clone()), Arc::new(NoProgress)).await.expect("restored");
        assert_eq!(restored.bytes, made.values().map(|file| file.len() as u64).sum::<u64>());
        assert!(files(&back) == made, "every byte of every file, {:?} {:?}", files(&back).keys(), made.keys());
        assert_eq!(std::fs::metadata(&back).expect("there").permissions().mode() & 0o777, 0o700);
        server.sql("postgres", "CREATE DATABASE by_hand");
        let mut tool = server.tool("pg_restore");
        tool.args(["--format=directory", "--jobs=3", "--exit-on-error", "--dbname=by_hand"]).arg(&back);
        output(tool);
        // The database's own properties aren't in what pg_dump writes.
        let rows = |of: &str| content(&server, of)[..5].to_vec();
        assert_eq!(rows("by_hand"), rows("shop"));
    }
}

#[tokio::test]
async fn a_folder_with_something_in_it_is_never_replaced() {
    let (server, vault, folder) = (small(), vault(&MemoryStore::new()), tempfile::tempdir().expect("a folder"));
    backup(&server.url("shop"), &vault, limits(&server), Format::Directory).await.expect("backed up");
    let (empty, full, file) = (folder.path().join("empty"), folder.path().join("full"), folder.path().join("file"));
    std::fs::create_dir(&empty).expect("made");
    std::fs::create_dir(&full).expect("made");
    for mine in [&full.join("mine"), &file] {
        std::fs::write(mine, "mine").expect("written");
    }
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(folder.path().join("nowhere"), &link).expect("linked");
    for force in [false, true] {
        for taken in [&full, &file, &link] {
            let asked = RestoreRequest { force, ..request(taken.clone()) };
            let failure = sets(&vault).restore(&asked, Arc::new(NoProgress)).await.expect_err("something is there");
            assert_eq!((failure.kind, failure.code), (Kind::Refused, "archive.folder-in-use"));
        }
    }
    assert_eq!(std::fs::read(full.join("mine")).expect("kept"), b"mine");
    assert_eq!(std::fs::read(&file).expect("kept"), b"mine");
    sets(&vault).restore(&request(empty.clone()), Arc::new(NoProgress)).await.expect("into an empty one");
    assert!(empty.join("toc.dat").exists());
    assert_eq!(aside(folder.path()), 4, "no draft stays");
}

/// A set whose files `change` makes from the files of the newest set.
async fn changed(vault: &Vault, to: &Vault, change: impl FnOnce(&mut Vec<(String, Vec<u8>)>)) {
    let manifest = Catalog::read(vault).await.expect("read").sets().last().expect("a set").1.clone();
    let reader = Arc::new(SetReader::open(vault.clone(), manifest.clone()).await.expect("opened"));
    let Some(Artefact::Directory(members)) = reader.index().artefact() else { panic!("a directory") };
    let mut files = Vec::new();
    for member in &members {
        let file = reader.file(*member, 1 << 30).await.expect("read");
        files.push((reader.index().items[*member as usize].name.clone(), file));
    }
    change(&mut files);
    let budget = Budget::new(32 << 20, 2).expect("enough");
    let id = SetId::new(Moment::from_millis(1_000_000), 7);
    let writer = SetWriter::begin(to.clone(), id, Codec::default(), budget, Arc::new(NoProgress));
    let mut lane = writer.lane();
    let needs = reader.index().items.iter().position(|item| item.name == "needs.json").expect("there");
    let beside = reader.file(u32::try_from(needs).expect("few"), 1 << 20).await.expect("read");
    let detail = reader.index().items[members[0] as usize].detail.clone();
    let needs = writer.item("needs.json", Content::File, reader.index().items[needs].detail.clone());
    lane.push(needs, 0, beside).await.expect("pushed");
    for (name, bytes) in files {
        let item = writer.item(name, Content::Member, detail.clone());
        for piece in bytes.chunks(1 << 20) {
            lane.push(item, 0, piece.to_vec()).await.expect("pushed");
        }
    }
    lane.finish().await.expect("finished");
    let facts = Facts {
        engine: "postgres",
        identity: manifest.identity,
        tool: manifest.tool,
        point: manifest.point,
        artefact: manifest.artefact,
        sample: manifest.sample,
        schedule: manifest.schedule,
        detail: manifest.detail,
    };
    let manifest = writer.finish(facts, &SystemClock).await.expect("written");
    Catalog::read(to).await.expect("read").add(Record::Set(Box::new(manifest))).await.expect("added");
}

#[tokio::test]
async fn a_hostile_directory_makes_no_database_and_no_file_elsewhere() {
    let (server, from) = (small(), vault(&MemoryStore::new()));
    backup(&server.url("shop"), &from, limits(&server), Format::Directory).await.expect("backed up");
    let folder = tempfile::tempdir().expect("a folder");
    type Change = fn(&mut Vec<(String, Vec<u8>)>);
    let cases: [(&str, Change, bool); 8] = [
        ("no table of contents", |files| drop(files.remove(0)), true),
        ("a cut table of contents", |files| files[0].1.truncate(100), true),
        ("a file that is missing", |files| drop(files.pop()), true),
        ("a file that nothing names", |files| files.push(("more.dat".into(), b"x".to_vec())), true),
        ("another order", |files| files[1..].reverse(), true),
        ("a name that leads elsewhere", |files| files[1].0 = "../evil".into(), false),
        ("a hidden name", |files| files[1].0 = ".evil".into(), false),
        ("a name twice", |files| files[1].0 = "toc.dat".into(), false),
    ];
    for (what, change, is_kept) in cases {
        let vault = vault(&MemoryStore::new());
        changed(&from, &vault, change).await;
        let failure = recover(&vault, &server.url("copy"), &options(&server)).await.expect_err(what);
        assert_eq!(failure.kind, Kind::Corrupt, "{what}: {failure:?}");
        assert!(!databases(&server).contains("copy"), "{what}");
        let back = folder.path().join(what).join("back");
        std::fs::create_dir(back.parent().expect("one")).expect("made");
        let exported = sets(&vault).restore(&request(back.clone()), Arc::new(NoProgress)).await;
        assert_eq!(exported.is_ok(), is_kept, "{what}: it is what the set holds");
        assert!(!folder.path().join("evil").exists() && !folder.path().join(what).join("evil").exists(), "{what}");
    }
    // Unchanged it is a set like any other.
    let vault = vault(&MemoryStore::new());
    changed(&from, &vault, |_| {}).await;
    recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
}

#[tokio::test]
async fn a_backup_that_fails_or_is_stopped_leaves_nothing_on_the_disk() {
    let (server, place) = (small(), tempfile::tempdir().expect("a folder"));
    let vault = vault(&MemoryStore::new());
    let url = server.url("shop");
    let (_folder, broken) = programs(&server, "$REAL \"$@\"; exit 1");
    let failure = backup_in(place.path(), &url, &vault, broken).await.expect_err("it fails");
    assert_eq!((failure.code, aside(place.path())), ("postgres.tool-failed", 0));
    let strange =
        "for a in \"$@\"; do case $a in --file=*) d=${a#--file=};; esac; done\n$REAL \"$@\"; touch \"$d/more\"";
    let (_folder, strange) = programs(&server, strange);
    let failure = backup_in(place.path(), &url, &vault, strange).await.expect_err("nobody knows that file");
    assert_eq!((failure.code, aside(place.path())), ("postgres.tool", 0), "{failure:?}");
    // Stopped while it is written: those that it has started end with it.
    let (folder, slow) = programs(&server, "echo $$ > \"${0%/*}/pid\"\n$REAL \"$@\" && sleep 600");
    let pid = folder.path().join("pid");
    let run = backup_in(place.path(), &url, &vault, slow);
    let started = async {
        let deadline = Instant::now() + Duration::from_secs(60);
        while std::fs::read_to_string(&pid).map_or(0, |pid| pid.len()) < 2 {
            assert!(Instant::now() < deadline, "it never began");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        done = run => panic!("it was to be stopped: {done:?}"),
        () = started => {}
    }
    assert_eq!(aside(place.path()), 0);
    let group: i32 = std::fs::read_to_string(&pid).expect("a number").trim().parse().expect("a number");
    let deadline = Instant::now() + Duration::from_secs(30);
    let alive = || {
        let all = std::fs::read_dir("/proc").expect("Linux").filter_map(Result::ok);
        let stats = all.filter_map(|found| std::fs::read_to_string(found.path().join("stat")).ok());
        stats.into_iter().any(|stat| {
            let rest: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
            rest.get(2) == Some(&group.to_string().as_str()) && rest.first() != Some(&"Z")
        })
    };
    while alive() {
        assert!(Instant::now() < deadline, "something of it goes on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let sets = Catalog::read(&vault).await.expect("read");
    assert_eq!(sets.sets().len(), 0);
    backup_in(place.path(), &url, &vault, limits(&server)).await.expect("backed up");
    assert_eq!(aside(place.path()), 0);
}

#[tokio::test]
async fn many_large_objects_are_each_a_file_and_come_back() {
    for major in [15, 18] {
        let server = crate::server::Server::start(major);
        server.sql("postgres", "CREATE DATABASE shop");
        server.sql(
            "shop",
            "SELECT lo_from_bytea(0, decode(repeat(md5(i::text), i % 300), 'hex')) FROM generate_series(1, 2500) i; \
             CREATE TABLE none (a int); CREATE TABLE t AS SELECT 1 AS a",
        );
        let vault = vault(&MemoryStore::new());
        let dumped = backup(&server.url("shop"), &vault, limits(&server), Format::Directory).await.expect("backed up");
        assert!(dumped.manifest.totals.items > 2500);
        assert!(dumped.manifest.totals.chunks < 20, "small files share chunks: {:?}", dumped.manifest.totals);
        recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
        assert_eq!(content(&server, "copy"), content(&server, "shop"));
        let folder = tempfile::tempdir().expect("a folder");
        let back = folder.path().join("back");
        sets(&vault).restore(&request(back.clone()), Arc::new(NoProgress)).await.expect("restored");
        assert_eq!(files(&back).len() as u64, dumped.manifest.totals.items - 1);
        assert!(files(&back).values().any(Vec::is_empty), "an empty object is an empty file");
    }
}
