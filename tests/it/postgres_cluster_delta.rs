//! `seawall restore --delta`: over an old data directory, into a folder that is mounted, and where it is refused. Every restore
//! ends in a recovered server whose rows are compared with what was recorded.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use seawall_tests::wait;

use crate::postgres::server::{Server, command, output};
use crate::postgres_cluster::Site;
use crate::wal::{LATE, SUMS, VERSIONS};

const ALL: &str = "SELECT (SELECT count(*) FROM s), (SELECT sum(hashtextextended(s::text, 0)) FROM s), \
                   (SELECT sum(hashtextextended(b::text, 0)) FROM big b)";

/// A cluster with a tablespace, a base and log behind it.
fn site(major: u32) -> (Site, String) {
    let mut site = Site::start(major);
    let place = site.tablespace();
    site.server
        .sql("postgres", "CREATE TABLE big AS SELECT i, repeat(md5(i::text), 20) f FROM generate_series(1, 40000) i");
    // Later readers then note nothing in the pages.
    site.server.sql("postgres", "VACUUM (FREEZE, ANALYZE)");
    site.server.sql("postgres", "CHECKPOINT");
    site.commit(10);
    site.base();
    site.commit(5);
    site.server.sql("postgres", "UPDATE big SET f = 'after the base' WHERE i % 1000 = 0");
    site.archive();
    (site, place)
}

/// The files of a folder: where, how long, changed when.
fn listing(folder: &Path) -> BTreeMap<PathBuf, (u64, i64, i64)> {
    let (mut found, mut left) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).expect("read").map(|entry| entry.expect("read").path()) {
            let facts = fs::symlink_metadata(&entry).expect("there");
            if facts.is_dir() {
                left.push(entry.clone());
            }
            found.insert(entry, (facts.len(), facts.mtime(), facts.mtime_nsec()));
        }
    }
    found
}

/// Gives a file that the test made to the server's user.
fn chown(path: &Path) {
    if crate::postgres::server::is_root() {
        let mut chown = std::process::Command::new("chown");
        chown.arg("nobody:nogroup").arg(path);
        output(chown);
    }
}

/// Moves an old data directory to where the next server has its own.
fn moved(old: &Path, data: &Path) {
    fs::rename(old, data).expect("moved");
}

#[test]
fn old_data_directory_is_restored_over_and_only_what_differs_is_written() {
    for major in VERSIONS {
        let (site, place) = site(major);
        let (now, sums) = (site.server.sql("postgres", ALL), site.sums());
        let free = site.server.folder().join("new");
        let mapping = format!("{place}={}", free.display());
        let mut old = Server::restored(&site.server, |data| {
            site.restore(data, &["--tablespace", &mapping]).ok();
        })
        .expect("it recovers");
        // It goes on as another one, and what an accident does.
        old.sql(
            "postgres",
            "DELETE FROM s WHERE i % 3 = 0; CREATE TABLE stray AS SELECT generate_series(1, 9000) i; TRUNCATE t; \
             CREATE TABLE more TABLESPACE fast AS SELECT 1 a; UPDATE big SET f = 'lost' WHERE i < 30",
        );
        old.sql("postgres", "CREATE DATABASE other");
        let big = old.sql("postgres", "SELECT pg_relation_filepath('big')");
        let grown = old.sql("postgres", "SELECT pg_relation_filepath('pg_class')");
        old.stop();
        let data = old.data();
        let damaged = OpenOptions::new().write(true).open(data.join(&big)).expect("there");
        damaged.write_all_at(&[0x55; 5000], 100_000).expect("written");
        let longer = OpenOptions::new().write(true).open(data.join(&grown)).expect("there");
        longer.set_len(fs::metadata(data.join(&grown)).expect("there").len() + 81_920).expect("longer");
        fs::write(data.join("note.txt"), "mine").expect("written");
        // The snapshot of another tool shares this file.
        let snapshot = old.folder().join("snapshot");
        fs::hard_link(data.join("base/1/PG_VERSION"), &snapshot).expect("linked");
        std::os::unix::fs::symlink("/etc", data.join("base/9")).expect("linked");
        let unnamed = site.restore(&data, &["--delta"]).exits(1).json();
        assert_eq!(unnamed["error"]["code"], "postgres.folder-in-use", "the source's own tablespace: {unnamed}");
        let recovered = Server::restored(&site.server, |new| {
            moved(&data, new);
            let restored = site.restore(new, &["--delta", "--tablespace", &mapping]).ok().json();
            let (bytes, written) = (restored["bytes"].as_u64(), restored["written_bytes"].as_u64());
            assert!(bytes.zip(written).is_some_and(|(bytes, written)| written * 3 < bytes), "{restored}");
            assert!(
                !new.join("note.txt").exists() && !new.join("base/9").exists() && Path::new("/etc/passwd").exists()
            );
            assert_eq!(fs::metadata(&snapshot).expect("there").nlink(), 1, "it was made anew");
            let mut verify = command(&site.server.bin().join("pg_verifybackup"));
            verify.arg("--no-parse-wal").arg(new);
            output(verify);
        })
        .expect("it recovers");
        assert_eq!(recovered.sql("postgres", ALL), now, "{major}");
        assert_eq!(recovered.sql("postgres", SUMS), sums, "{major}");
        assert_eq!(recovered.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname = 'other'"), "0");
        recovered.sql("postgres", "CREATE EXTENSION amcheck");
        let check = "SELECT count(*) FROM (SELECT verify_heapam(oid) FROM pg_class WHERE relkind = 'r') x";
        assert_eq!(recovered.sql("postgres", check), "0");
    }
}

#[test]
fn interrupted_restore_lets_no_server_start_and_goes_on_when_repeated() {
    let mut site = Site::start(15);
    site.commit(5);
    site.server.sql("postgres", "CREATE TABLE big AS SELECT i, md5(i::text) f FROM generate_series(1, 90000) i");
    site.base();
    site.commit(5);
    site.archive();
    let sums = site.sums();
    let mut old = site.recovered(&[]);
    old.sql("postgres", "UPDATE big SET f = 'lost'; TRUNCATE t");
    old.sql("postgres", "VACUUM FULL big");
    old.stop();
    let is_pack = |path: &PathBuf| !path.to_string_lossy().contains("index-");
    let packs: Vec<PathBuf> = site.objects(".zst").into_iter().filter(is_pack).collect();
    let (pack, away) = (packs.last().expect("a pack"), site.server.folder().join("away"));
    let recovered = Server::restored(&site.server, |data| {
        moved(&old.data(), data);
        // What the base needs isn't there: nothing is changed.
        fs::rename(pack, &away).expect("moved");
        let before = listing(data);
        let failed = site.restore(data, &["--delta"]);
        assert_eq!(failed.json()["error"]["code"], "archive.corrupt", "{failed}");
        assert_eq!(listing(data), before);
        fs::rename(&away, pack).expect("moved");
        // An object of it is damaged, which only its content tells.
        let content = fs::read(pack).expect("read");
        let mut damaged = content.clone();
        let middle = damaged.len() / 2;
        damaged[middle..middle + 8].iter_mut().for_each(|byte| *byte ^= 0x55);
        fs::write(pack, &damaged).expect("written");
        let failed = site.restore(data, &["--delta"]);
        let told = failed.json();
        assert_eq!(told["error"]["code"], "archive.corrupt", "{failed}");
        assert!(told["error"]["next"].as_str().is_some_and(|next| next.contains("isn't whole")), "{failed}");
        assert!(!data.join("postmaster.pid").exists());
        assert!(data.join("seawall.unfinished").exists() && !data.join("global/pg_control").exists());
        let mut start = command(&site.server.bin().join("postgres"));
        start.arg("-D").arg(data);
        let told = start.output().expect("it runs");
        assert!(!told.status.success(), "no server starts there");
        fs::write(pack, &content).expect("written");
        // A restore that was killed has left its lock, too, and its number is that of another process by now.
        fs::write(data.join("postmaster.pid"), "1\n/data\nseawall restore\n").expect("written");
        chown(&data.join("postmaster.pid"));
        // Another restore runs there, in another container perhaps.
        let lock = data.join("postmaster.pid");
        let mut held = std::process::Command::new("flock");
        held.arg(&lock).args(["sh", "-c", "echo held; cat"]);
        held.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut held = held.spawn().expect("flock runs");
        let mut line = [0; 5];
        std::io::Read::read_exact(held.stdout.as_mut().expect("piped"), &mut line).expect("it has the lock");
        let told = site.restore(data, &["--delta"]).exits(1).json();
        assert_eq!(told["error"]["code"], "postgres.server-runs", "{told}");
        assert!(lock.exists(), "it stays");
        drop(held.stdin.take());
        held.wait().expect("it ends");
        // It is killed in the middle, or behind its end if it is quick.
        let vault = site.vault.display().to_string();
        let mut restore = crate::postgres_cluster::seawall(&["restore", &vault, "--delta", "-o"]);
        let mut restore = restore.arg(data).spawn().expect("it runs");
        let number = || fs::read_to_string(&lock).ok()?.lines().next()?.parse::<u32>().ok().filter(|it| *it != 1);
        let begun = || number().map(Some).or_else(|| restore.try_wait().expect("a child").map(|_| None));
        if let Some(number) = wait::until("the restore to begin", LATE, begun) {
            let mut kill = std::process::Command::new("kill");
            kill.arg("-9").arg(number.to_string());
            let _it_may_have_ended = kill.output().expect("kill runs");
        }
        restore.wait().expect("it ends");
        site.restore(data, &["--delta"]).ok();
        assert!(!data.join("seawall.unfinished").exists());
    })
    .expect("it recovers");
    assert_eq!(recovered.sql("postgres", SUMS), sums);
    assert_eq!(recovered.sql("postgres", "SELECT count(DISTINCT f) FROM big"), "90000");
}

#[test]
fn folders_of_others_are_refused_and_nothing_in_them_changes() {
    let mut site = Site::start(18);
    site.commit(5);
    site.base();
    site.archive();
    let sums = site.sums();
    let refused = |folder: &Path, code: &str| {
        let before = listing(folder);
        let told = site.restore(folder, &["--delta"]).exits(1).json();
        assert_eq!(told["error"]["code"], code, "{told}");
        assert_eq!(listing(folder), before, "{code}");
    };
    // A server runs there: by its lock, and without it.
    let told = site.restore(&site.server.data(), &["--delta"]).exits(1).json();
    assert_eq!(told["error"]["code"], "postgres.server-runs", "{told}");
    // A server was killed there, or runs in another container.
    let mut killed = Server::start(18);
    killed.stop();
    fs::write(killed.data().join("postmaster.pid"), "2147483646\n").expect("written");
    refused(&killed.data(), "postgres.server-runs");
    let lock = site.server.data().join("postmaster.pid");
    let hidden = site.server.folder().join("hidden");
    fs::rename(&lock, &hidden).expect("moved");
    let told = site.restore(&site.server.data(), &["--delta"]).exits(1).json();
    fs::rename(&hidden, &lock).expect("moved");
    assert_eq!(told["error"]["code"], "postgres.server-runs", "{told}");
    let mut other = Server::start(18);
    other.stop();
    refused(&other.data(), "postgres.other-cluster");
    // An empty folder is no cluster: `--if-missing` is of other databases.
    let empty = PathBuf::from(site.server.folder_of_its_own("empty"));
    let told = site.restore(&empty, &["--if-missing"]).json();
    assert_eq!(told["error"]["code"], "usage.arguments", "{told}");
    let strange = PathBuf::from(site.server.folder_of_its_own("strange"));
    fs::write(strange.join("thesis"), "x").expect("written");
    refused(&strange, "postgres.folder-in-use");
    // What the base can't tell apart: no pg_control.
    fs::remove_file(other.data().join("global/pg_control")).expect("removed");
    refused(&other.data(), "postgres.folder-in-use");
    // What isn't the cluster's, and would be lost: the data directory of another server.
    let mut old = site.recovered(&[]);
    old.stop();
    let inner = old.data().join("18/docker");
    fs::create_dir_all(inner.join("global")).expect("made");
    fs::write(inner.join("global/pg_control"), "x").expect("written");
    for path in [&old.data().join("18"), &inner, &inner.join("global"), &inner.join("global/pg_control")] {
        chown(path);
    }
    refused(&old.data(), "postgres.folder-in-use");
    // A single file that is mounted.
    fs::remove_dir_all(old.data().join("18")).expect("removed");
    let (file, mounted) = (old.folder().join("pg_hba.conf"), old.data().join("pg_hba.conf"));
    fs::write(&file, "mine").expect("written");
    let mount = std::process::Command::new("mount").arg("--bind").args([&file, &mounted]).output();
    if mount.is_ok_and(|output| output.status.success()) {
        let told = site.restore(&old.data(), &["--delta"]).exits(1).json();
        let unmounted = std::process::Command::new("umount").arg("-l").arg(&mounted).output();
        assert_eq!(told["error"]["code"], "postgres.folder-in-use", "{told}");
        assert!(told["error"]["cause"].as_str().is_some_and(|cause| cause.contains("pg_hba.conf")), "{told}");
        assert!(unmounted.expect("umount").status.success());
        assert_eq!(fs::read_to_string(&file).expect("read"), "mine");
    }
    // An empty folder with what a new file system has is taken as it is.
    let recovered = Server::restored(&site.server, |data| {
        output({
            let mut make = command(Path::new("/bin/mkdir"));
            make.args(["-m", "700", "-p"]).arg(data.join("lost+found"));
            make
        });
        let node = fs::metadata(data).expect("there").ino();
        site.restore(data, &["--delta"]).ok();
        assert_eq!(fs::metadata(data).expect("there").ino(), node, "it is the same folder");
    })
    .expect("it recovers");
    assert_eq!(recovered.sql("postgres", SUMS), sums);
    // The superuser would follow what the folder's owner plants.
    if crate::postgres::server::is_root() {
        let mut restore = std::process::Command::new(seawall_tests::seawall().canonicalize().expect("a program"));
        restore.args([
            "restore",
            &site.vault.display().to_string(),
            "-o",
            &strange.display().to_string(),
            "--delta",
            "--json",
        ]);
        let told = seawall_tests::run("seawall", &mut restore).exits(1).json();
        assert_eq!(told["error"]["code"], "postgres.as-root", "{told}");
    }
}
