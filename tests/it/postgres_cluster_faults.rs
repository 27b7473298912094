//! What goes wrong with bases of clusters: rights, interruptions, damage in the server and in the vault, targets that can't be
//! reached. What is left is a restored server that is compared, or nothing.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{Shutdown, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use seawall_tests::{Process, run, wait};

use crate::postgres::server::Server;
use crate::postgres_cluster::{FUNCTIONS, Site, seawall};
use crate::wal::SUMS;

/// How long a command may take.
const LATE: Duration = Duration::from_secs(120);

/// A table of some 20 MB that hardly shrinks.
const BIG: &str = "CREATE TABLE big AS SELECT i, string_agg(md5(random()::text || j), '') f FROM generate_series(1, 20000) i, \
                   generate_series(1, 30) j GROUP BY i; CHECKPOINT";

/// The code with which a restore is refused; nothing is written by it.
fn refused(site: &Site, arguments: &[&str]) -> String {
    let folder = site.server.folder();
    let before = names(folder);
    let refused = site.restore(&folder.join("none"), arguments).exits(1).json();
    assert_eq!(names(folder), before, "{arguments:?}");
    refused["error"]["code"].as_str().expect("a code").to_owned()
}

/// Has the server archive by another command.
fn archive_by(site: &Site, command: &str) {
    site.server.sql("postgres", &format!("ALTER SYSTEM SET archive_command = '{command}'"));
    site.server.sql("postgres", "SELECT pg_reload_conf()");
}

/// Names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn cluster_base_names_the_grants_that_are_missing() {
    let site = Site::start(15);
    site.server.sql("postgres", &format!("REVOKE EXECUTE ON FUNCTION {}, {} FROM seawall", FUNCTIONS[1], FUNCTIONS[4]));
    let refused = site.base_with(&[]).exits(1).json();
    assert_eq!(refused["error"]["code"], "postgres.permission", "{refused}");
    let next = refused["error"]["next"].as_str().expect("a text").to_owned();
    let (_, statement) = next.split_once(": ").expect("a statement");
    assert!(
        statement.contains(FUNCTIONS[1]) && statement.contains(FUNCTIONS[4]) && !statement.contains(FUNCTIONS[0]),
        "{next}"
    );
    assert!(site.objects("").is_empty(), "nothing was written");
    site.server.sql("postgres", statement);
    site.base();
}

#[test]
fn cluster_base_passes_over_what_is_no_regular_file() {
    let mut site = Site::start(15);
    site.commit(5);
    let data = site.server.data();
    std::fs::create_dir(data.join("run")).expect("made");
    assert!(Command::new("mkfifo").arg(data.join("pipe")).status().expect("mkfifo").success());
    let _sockets = ["other.sock", "run/.s.PGSQL.5499"].map(|name| UnixListener::bind(data.join(name)).expect("bound"));
    std::fs::write(data.join("run/.s.PGSQL.5499.lock"), "1\n").expect("written");
    std::fs::write(data.join("empty"), "").expect("written");
    assert!(Command::new("chmod").arg("-R").arg("a+rX").arg(data.join("run")).status().expect("chmod").success());
    // Opening the pipe would wait for ever.
    site.base();
    site.archive();
    let recovered = site.recovered(&[]);
    assert_eq!(recovered.sql("postgres", SUMS), site.sums());
    assert_eq!(names(&recovered.data().join("run")), Vec::<String>::new());
    assert!(recovered.data().join("empty").is_file());
}

#[test]
fn cluster_base_that_is_killed_leaves_nothing_that_counts() {
    let mut site = Site::start(15);
    site.server.sql("postgres", BIG);
    site.commit(5);
    let (url, vault) = (site.server.url_as("seawall", "postgres"), site.vault.display().to_string());
    let slowly = ["backup", &url, &vault, "--physical", "--jobs", "1", "--memory", "64MB", "--upload-limit", "2MB"];
    let mut killed = Process::spawn("seawall", &mut seawall(&slowly));
    wait::until("the first packs", LATE, || (site.objects(".zst").len() > 2).then_some(()));
    killed.kill_9();
    assert!(site.objects("manifest.json").is_empty());
    site.server.sql("postgres", "CHECKPOINT");
    site.archive();
    let refused = site.restore(&site.server.folder().join("none"), &[]).exits(1).json();
    assert_eq!(refused["error"]["code"], "postgres.no-base", "{refused}");
    // The server has let the backup go, and the next one counts.
    let base = site.base();
    assert_eq!(base["before"], serde_json::Value::Null, "{base}");
    site.archive();
    let recovered = site.recovered(&[]);
    assert_eq!(recovered.sql("postgres", SUMS), site.sums());
}

#[test]
fn cluster_restore_names_a_pack_that_is_damaged_exchanged_or_gone_and_leaves_nothing() {
    let mut site = Site::start(15);
    site.server.sql("postgres", BIG);
    site.commit(5);
    site.base_with(&["--memory", "64MB"]).ok();
    site.archive();
    let packs: Vec<_> =
        site.objects(".zst").into_iter().filter(|path| !path.to_string_lossy().contains("index-")).collect();
    assert!(packs.len() > 2, "{packs:?}");
    let folder = site.server.folder().to_owned();
    let before = names(&folder);
    let refused = |what: &str, named: &Path| {
        let refused = site.restore(&folder.join("none"), &[]);
        assert_ne!(refused.code(), 0, "{what}");
        let refused = refused.json();
        let object = refused["error"]["object"].as_str().unwrap_or_default().to_owned();
        let name = named.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(object.contains(&name), "{what}: {refused}");
        assert_eq!(names(&folder), before, "{what}: nothing is left");
        let verified = run("seawall", &mut seawall(&["verify", &site.vault.display().to_string(), "--json"])).json();
        assert!(verified.to_string().contains(&name), "{what}: {verified}");
    };
    let (one, other) = (std::fs::read(&packs[0]).expect("read"), std::fs::read(&packs[1]).expect("read"));
    let mut damaged = one.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(&packs[0], &damaged).expect("written");
    refused("damaged", &packs[0]);
    std::fs::write(&packs[0], &other).expect("written");
    refused("exchanged", &packs[0]);
    std::fs::write(&packs[0], &one[..one.len() - 10]).expect("written");
    refused("cut", &packs[0]);
    std::fs::remove_file(&packs[0]).expect("removed");
    refused("gone", &packs[0]);
    // The next base sends what is lost again.
    let next = site.base();
    assert!(next["totals"]["sent"].as_u64() > Some(0) && next["before"].is_string(), "{next}");
    site.archive();
    let recovered = site.recovered(&[]);
    assert_eq!(recovered.sql("postgres", SUMS), site.sums());
    let big = "SELECT count(*), sum(hashtextextended(big::text, 0)) FROM big";
    assert_eq!(recovered.sql("postgres", big), site.server.sql("postgres", big));
    drop(recovered);
    // Packs that are damaged at their full size are referred to again, but by a base that refers to nothing.
    for pack in site.objects(".zst").into_iter().filter(|path| !path.to_string_lossy().contains("index-")) {
        let mut damaged = std::fs::read(&pack).expect("read");
        damaged.iter_mut().step_by(1000).for_each(|byte| *byte ^= 1);
        std::fs::write(&pack, &damaged).expect("written");
    }
    site.base();
    site.archive();
    assert_ne!(site.restore(&folder.join("none"), &[]).code(), 0);
    let full = site.base_with(&["--full"]).ok().json();
    let bytes = |name: &str| full["totals"][name].as_u64().expect("a number");
    assert!(full["before"].is_null() && bytes("sent") > bytes("bytes") / 2, "{full}");
    site.archive();
    let recovered = site.recovered(&[]);
    assert_eq!(recovered.sql("postgres", big), site.server.sql("postgres", big));
}

/// Leads each connection to the next one of several servers, as one name of several nodes does. Returns its port.
fn in_turn(servers: &[&Server]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let socket = |server: &&Server| server.folder().join(format!(".s.PGSQL.{}", server.port));
    let sockets: Vec<_> = servers.iter().map(socket).collect();
    std::thread::spawn(move || {
        for (client, socket) in listener.incoming().flatten().zip(sockets.iter().cycle()) {
            let Ok(server) = UnixStream::connect(socket) else { continue };
            let (mut from, mut to) = (client.try_clone().expect("cloned"), server.try_clone().expect("cloned"));
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
            let (mut from, mut to) = (server, client);
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
    });
    port
}

#[test]
fn cluster_base_is_not_put_together_from_several_servers() {
    let mut site = Site::start(15);
    site.commit(5);
    let standby = Server::standby_of(&site.server);
    let vault = site.vault.display().to_string();
    let base = |port: u16| {
        let url = format!("postgresql://seawall@127.0.0.1:{port}/postgres?sslmode=disable");
        run("seawall", &mut seawall(&["backup", &url, &vault, "--physical", "--jobs", "2", "--json"]))
    };
    let refused = base(in_turn(&[&site.server, &standby])).exits(1).json();
    assert_eq!(refused["error"]["code"], "postgres.several-servers", "{refused}");
    assert!(site.objects("").is_empty(), "nothing was written");
    base(in_turn(&[&site.server])).ok();
    site.commit(5);
    site.archive();
    let recovered = site.recovered(&[]);
    assert_eq!(recovered.sql("postgres", SUMS), site.sums());
}

#[test]
fn cluster_verify_names_a_segment_that_is_damaged_or_cut() {
    let mut site = Site::start(15);
    site.base();
    site.commit(20);
    let name = site.server.sql("postgres", "SELECT pg_walfile_name(pg_current_wal_lsn())");
    site.archive();
    let object = site.log(&name);
    let sound = std::fs::read(&object).expect("read");
    let verified = || run("seawall", &mut seawall(&["verify", &site.vault.display().to_string(), "--json"]));
    verified().ok();
    let mut damaged = sound.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    for (what, content) in [("damaged", &damaged[..]), ("cut", &sound[..sound.len() - 10])] {
        std::fs::write(&object, content).expect("written");
        let found = verified();
        assert_ne!(found.code(), 0, "{what}: {found}");
        let found = found.json();
        assert_eq!(found["findings"].as_array().map(Vec::len), Some(1), "{what}: {found}");
        assert_eq!(found["findings"][0]["code"], "archive.corrupt", "{what}: {found}");
        assert!(
            found["findings"][0]["object"].as_str().is_some_and(|object| object.contains(&name)),
            "{what}: {found}"
        );
        assert!(found["newest"].is_null(), "{what}: {found}");
    }
    std::fs::write(&object, &sound).expect("written");
    verified().ok();
    let recovered = site.recovered(&[]);
    assert_eq!(recovered.sql("postgres", SUMS), site.sums());
}

#[test]
fn cluster_base_of_a_server_that_was_left_behind_is_refused() {
    let mut site = Site::start(15);
    site.commit(5);
    site.base();
    let promoted = Server::standby_of(&site.server);
    site.commit(5);
    let caught_up =
        format!("SELECT pg_last_wal_replay_lsn() >= '{}'", site.server.sql("postgres", "SELECT pg_current_wal_lsn()"));
    wait::until("the standby to follow", LATE, || (promoted.sql("postgres", &caught_up) == "t").then_some(()));
    promoted.sql("postgres", "SELECT pg_promote()");
    promoted.sql("postgres", "INSERT INTO t VALUES (1001, 1, 'new')");
    let name = promoted.sql("postgres", "SELECT pg_walfile_name(pg_switch_wal())");
    crate::wal::until_archived(&promoted, &name);
    let sums = promoted.sql("postgres", SUMS);
    // The old server goes on: what it has from now on isn't the cluster's.
    site.commit(5);
    let before = site.objects("").len();
    let refused = site.base_with(&[]).exits(1).json();
    assert_eq!(refused["error"]["code"], "log.demoted", "{refused}");
    assert_eq!(site.objects("").len(), before, "nothing was written");
    let (url, vault) = (promoted.url_as("seawall", "postgres"), site.vault.display().to_string());
    let made = run("seawall", &mut seawall(&["backup", &url, &vault, "--physical", "--json"])).ok().json();
    assert_eq!(made["timeline"], 2, "{made}");
    promoted.sql("postgres", "SELECT pg_create_restore_point('archived')");
    let name = promoted.sql("postgres", "SELECT pg_walfile_name(pg_switch_wal())");
    crate::wal::until_archived(&promoted, &name);
    assert_eq!(site.recovered(&[]).sql("postgres", SUMS), sums);
}

#[test]
fn cluster_restore_refuses_what_it_cannot_reach_before_it_writes_anything() {
    let mut site = Site::start(15);
    site.commit(3);
    let early = "1 hour ago";
    // The segment of the base doesn't come.
    let archives = site.server.sql("postgres", "SHOW archive_command");
    archive_by(&site, "/bin/false");
    let at_base = site.sums();
    let base = site.base();
    assert_eq!(refused(&site, &[]), "postgres.no-log");
    archive_by(&site, &archives);
    site.server.sql("postgres", "SELECT pg_switch_wal()");
    let (mut hole, mut before_hole) = (String::new(), String::new());
    for _ in 0..3 {
        before_hole = site.sums();
        site.commit(2);
        hole = site.server.sql("postgres", "SELECT pg_walfile_name(pg_current_wal_lsn())");
        site.archive();
    }
    assert_eq!(refused(&site, &["--at", early]), "postgres.target-before");
    assert_eq!(refused(&site, &["--at", "2999-01-01T00:00:00Z"]), "postgres.target-future");
    assert_eq!(refused(&site, &["--target", "lsn:FF/0"]), "postgres.target-hole");
    assert_eq!(refused(&site, &["--target", "lsn:0/1"]), "postgres.target-before");
    assert_eq!(refused(&site, &["--at", "20261121T101112000Z-0000000a"]), "postgres.no-base");
    // A segment in the middle is lost: what is behind it can't be restored, and what is before it can.
    site.commit(2);
    site.archive();
    let lost = site.log(&hole);
    std::fs::remove_file(&lost).expect("removed");
    let lsn = site.server.sql("postgres", "SELECT pg_current_wal_insert_lsn()");
    assert_eq!(refused(&site, &["--target", &format!("lsn:{lsn}")]), "postgres.target-hole");
    let behind = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')";
    let behind = site.server.sql("postgres", behind);
    assert_eq!(refused(&site, &["--at", &behind]), "postgres.target-hole");
    let base = base["id"].as_str().expect("a name");
    assert_eq!(site.recovered(&["--at", base]).sql("postgres", SUMS), at_base);
    // All that is before it, and the position at which it begins, as the refusal says.
    let planned = site.restore(&site.server.folder().join("none"), &["--dry-run"]).ok().json();
    let end = format!("lsn:{}", planned["log"]["to"].as_str().expect("a position"));
    for arguments in [&[][..], &["--target", &end], &["--at", base, "--target", &end]] {
        assert_eq!(site.recovered(arguments).sql("postgres", SUMS), before_hole, "{arguments:?}");
    }
    // A folder with something in it stays as it is.
    let kept = site.server.folder_of_its_own("kept");
    std::fs::write(Path::new(&kept).join("file"), "x").expect("written");
    let refused = site.restore(Path::new(&kept), &[]).exits(1).json();
    assert_eq!(refused["error"]["code"], "postgres.folder-in-use", "{refused}");
    assert_eq!(names(Path::new(&kept)), ["file"]);
}

#[test]
fn cluster_base_names_damaged_pages_and_is_kept() {
    // From version 18 on, pages have checksums unless initdb is told otherwise.
    let mut site = Site::start(18);
    site.server.sql("postgres", BIG);
    site.commit(5);
    let path = site.server.sql("postgres", "CHECKPOINT; SELECT pg_relation_filepath('big')");
    let file = site.server.data().join(&path);
    let mut opened = std::fs::File::options().read(true).write(true).open(file).expect("opened");
    let at = 7 * 8192 + 4000;
    let mut byte = [0];
    opened.seek(SeekFrom::Start(at)).and_then(|_| opened.read_exact(&mut byte)).expect("read");
    opened.seek(SeekFrom::Start(at)).and_then(|_| opened.write_all(&[byte[0] ^ 0x10])).expect("written");
    let made = site.base_with(&[]).exits(3).json();
    assert_eq!(made["damaged"][0]["path"], path.as_str(), "{made}");
    assert_eq!(made["damaged"][0]["pages"], serde_json::json!([7]), "{made}");
    assert_eq!(made["damaged"][0]["count"], 1, "{made}");
    site.archive();
    let recovered = site.recovered(&[]);
    assert_eq!(recovered.sql("postgres", SUMS), site.sums());
    assert!(
        recovered.try_sql("postgres", "SELECT sum(hashtextextended(big::text, 0)) FROM big").is_none(),
        "it stays damaged"
    );
}

#[test]
fn cluster_of_a_standby_is_recovered() {
    let mut site = Site::start(15);
    site.commit(10);
    let standby = Server::standby_of(&site.server);
    site.commit(5);
    let caught_up =
        format!("SELECT pg_last_wal_replay_lsn() >= '{}'", site.server.sql("postgres", "SELECT pg_current_wal_lsn()"));
    wait::until("the standby to follow", LATE, || (standby.sql("postgres", &caught_up) == "t").then_some(()));
    let (url, vault) = (standby.url_as("seawall", "postgres"), site.vault.display().to_string());
    let made = run("seawall", &mut seawall(&["backup", &url, &vault, "--physical", "--json"])).ok().json();
    assert_eq!(made["from_standby"], true, "{made}");
    site.commit(5);
    site.archive();
    let recovered = site.recovered(&[]);
    assert_eq!(recovered.sql("postgres", SUMS), site.sums());
}
