//! LMDB environments of two processes, kept in step through a folder or a real S3 server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use seawall_lmdb::{Env, EnvOptions, Flags};
use seawall_tests::{Process, Random, S3Server, ask_address, run, seawall, wait};
use serde_json::Value;
use tempfile::TempDir;

/// The application's view of its data.
type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Two environments and their configurations.
struct Fleet {
    dir: TempDir,
}

impl Fleet {
    /// `storage` is the section of the configuration, indented.
    fn new(storage: &str, more: &str) -> Self {
        let dir = TempDir::with_prefix("seawall-lmdb-").unwrap();
        for instance in ["a", "b"] {
            let text = format!(
                "instance: {instance}\nlmdb_poll_interval: 100ms\nstorage_poll_interval: 100ms\n\
                 storage_retry_interval: 100ms\nlog:\n  format: json\n{more}\nstorage:\n{storage}\nlmdbs:\n  shard:\n    \
                 path: {instance}\n    options:\n      create: true\n      map_size: 64MB\n"
            );
            std::fs::write(dir.path().join(format!("{instance}.yaml")), text).unwrap();
        }
        Self { dir }
    }

    fn in_folder() -> Self {
        Self::new("  type: fs\n  options:\n    root_path: store", "")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn program(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.dir.path()).env_clear().env("HOME", self.dir.path()).args(args);
        command
    }

    fn sync(&self, instance: &str, more: &[&str]) -> Command {
        let config = format!("{instance}.yaml");
        let args: Vec<&str> = ["lmdb", "sync", "--config", &config].iter().chain(more).copied().collect();
        self.program(&seawall(), &args)
    }

    fn start(&self, instance: &str) -> Process {
        Process::spawn("seawall", &mut self.sync(instance, &[]))
    }

    /// Opens an environment as an application does, for as long as it takes.
    fn with<T>(&self, instance: &str, act: impl FnOnce(&Env) -> T) -> T {
        let options = EnvOptions { create: true, map_size: Some(64 << 20), ..EnvOptions::default() };
        act(&Env::open(&self.path(instance), &options).unwrap())
    }

    fn put(&self, instance: &str, key: &str, value: &str) {
        self.with(instance, |env| {
            let mut txn = env.write().unwrap();
            let dbi = txn.create(b"d", Flags::default()).unwrap();
            txn.put(dbi, key.as_bytes(), value.as_bytes()).unwrap();
            txn.commit().unwrap();
        });
    }

    fn pairs(&self, instance: &str) -> Pairs {
        self.with(instance, |env| {
            let mut txn = env.read().unwrap();
            let Some(dbi) = txn.open(b"d").unwrap() else { return Pairs::new() };
            let (mut cursor, mut pairs) = (txn.cursor(dbi).unwrap(), Pairs::new());
            while let Some((key, value)) = cursor.next().unwrap() {
                pairs.insert(key.to_vec(), value.to_vec());
            }
            pairs
        })
    }

    fn until_equal(&self, count: usize) {
        wait::until("both to hold the same", wait::SOON, || {
            let (a, b) = (self.pairs("a"), self.pairs("b"));
            (a == b && a.len() == count).then_some(())
        });
    }
}

fn in_step_on_a_server(marker: bool) {
    let server = S3Server::start();
    let storage = format!(
        "  type: s3\n  options:\n    bucket: {}\n    access_key: {}\n    secret_key: {}\n    endpoint_url: {}\n    \
         global_prefix: lmdb/\n    use_update_marker: {marker}",
        S3Server::BUCKET,
        S3Server::ACCESS_KEY,
        S3Server::SECRET_KEY,
        server.endpoint()
    );
    let fleet = Fleet::new(&storage, "http:\n  address: 127.0.0.1:0");
    fleet.put("a", "first", "1");
    let (mut a, mut b) = (fleet.start("a"), fleet.start("b"));
    fleet.until_equal(1);
    for n in 0..20 {
        fleet.put(if n % 2 == 0 { "a" } else { "b" }, &format!("key-{n}"), "value");
    }
    fleet.until_equal(21);
    assert_eq!(server.objects().join("lmdb/update-marker").exists(), marker);
    let address = wait::until("the status page", wait::SOON, || {
        let log = b.stderr();
        let line = log.lines().find(|line| line.contains("status page: listening"))?;
        Some(serde_json::from_str::<Value>(line).ok()?["address"].as_str()?.to_owned())
    });
    let health = wait::until("the start to be over", wait::SOON, || {
        let (status, body) = ask_address(&address, "GET", "/healthz", "", "");
        let health: Value = serde_json::from_str(&body).unwrap();
        (status == 200 && health["metadata"]["startup_shard"] == true).then_some(health)
    });
    assert_eq!(health["status"], "OK", "{health}");
    // The process counts what it merged after the merge.
    let metrics = wait::until("the entries to be counted", wait::SOON, || {
        let (status, metrics) = ask_address(&address, "GET", "/metrics", "", "");
        assert_eq!(status, 200);
        metrics.contains("lmdb_stat_entries{lmdb=\"shard\",db=\"d\"} 21\n").then_some(metrics)
    });
    assert!(metrics.contains("\nprocess_cpu_seconds_total ") && metrics.contains("\nprocess_open_fds "), "{metrics}");
    assert!(
        b.stderr().contains("merged a snapshot") && a.stderr().contains("sent a snapshot"),
        "told at the default level"
    );
    let (status, objects) = ask_address(&address, "GET", "/storage", "", "");
    assert!(status == 200 && objects.contains("shard__a__"), "{objects}");
    assert_eq!(ask_address(&address, "GET", "/debug/pprof/", "", "").0, 404);
    for process in [&mut a, &mut b] {
        process.terminate();
        process.wait(wait::SOON).ok();
    }
    assert_eq!(fleet.pairs("a"), fleet.pairs("b"));
}

#[test]
fn two_processes_stay_in_step_on_s3() {
    in_step_on_a_server(false);
}

#[test]
fn two_processes_stay_in_step_on_s3_with_the_update_marker() {
    in_step_on_a_server(true);
}

#[test]
fn killed_at_any_moment_they_come_to_the_same() {
    let mut random = Random::from_env();
    let fleet = Fleet::in_folder();
    let mut written = Pairs::new();
    for round in 0..12 {
        let (mut a, mut b) = (fleet.start("a"), fleet.start("b"));
        for n in 0..5 {
            let (key, instance) = (format!("{round}-{n}"), if n % 2 == 0 { "a" } else { "b" });
            fleet.put(instance, &key, "value");
            written.insert(key.into_bytes(), b"value".to_vec());
            wait::pass(random.between(Duration::ZERO, Duration::from_millis(60)));
        }
        a.kill_9();
        wait::pass(random.between(Duration::ZERO, Duration::from_millis(60)));
        b.kill_9();
    }
    for instance in ["a", "b", "a"] {
        run("seawall", &mut fleet.sync(instance, &["--only-once"])).ok();
    }
    assert_eq!(fleet.pairs("a"), written);
    assert_eq!(fleet.pairs("b"), written);
    let left = std::fs::read_dir(fleet.path("store")).unwrap();
    let names: Vec<_> = left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().filter(|name| !name.starts_with('.')).all(|name| name.ends_with("__GX.pb.gz")), "{names:?}");
}

#[test]
fn called_lightningstream_it_takes_that_command_line() {
    let fleet = Fleet::in_folder();
    let program = fleet.path("lightningstream");
    std::os::unix::fs::symlink(seawall(), &program).unwrap();
    let call = |args: &[&str]| run("lightningstream", &mut fleet.program(&program, args)).ok().stdout;
    fleet.put("a", "k", "v");
    call(&["-c", "a.yaml", "-i", "ns1", "sync", "--only-once"]);
    call(&["-c", "b.yaml", "receive", "--only-once"]);
    assert_eq!(fleet.pairs("b"), fleet.pairs("a"));
    let name = call(&["-c", "a.yaml", "snapshots", "list"]).trim().to_owned();
    assert!(name.starts_with("shard__ns1__") && name.ends_with("__GX.pb.gz"), "{name}");
    call(&["-c", "a.yaml", "snapshots", "get", &name, "-o", "back.pb.gz"]);
    let object = std::fs::read(fleet.path("store").join(&name)).unwrap();
    assert_eq!(std::fs::read(fleet.path("back.pb.gz")).unwrap(), object);
    call(&["-c", "a.yaml", "snapshots", "remove", &name]);
    assert_eq!(call(&["-c", "a.yaml", "snapshots", "list"]), "");
    call(&["-c", "a.yaml", "snapshots", "put", "back.pb.gz", "--name", &name]);
    assert_eq!(call(&["-c", "a.yaml", "snapshots", "list", "--long"]), format!("{:>12}\t{name}\n", object.len()));
    let stats = call(&["-c", "a.yaml", "stats"]);
    let main = "shard: dbi d: {PSize:4096 Depth:1 BranchPages:0 LeafPages:1 OverflowPages:0 Entries:1} (4.0 KB)\n";
    let last = "shard: Total Used: 8.0 KB / 64.0 MB (~ 0.0 %)\n";
    assert!(stats.starts_with("shard: Env info: {MapSize:67108864 LastPNO:"), "{stats}");
    assert!(stats.contains("shard: dbi _sync_shadow_d: {") && stats.contains(main) && stats.ends_with(last), "{stats}");
    let (shadow, main) = ("\n### shard :: _sync_shadow_d\n\nk [6b]  =  ", "\n### shard :: d\n\nk [6b]  =  v [76]\n");
    let all = call(&["-c", "a.yaml", "dump", "-n", "shard"]);
    assert!(all.contains(main) && all.contains(shadow), "{all}");
    let own = call(&["-c", "a.yaml", "dump", "-H"]);
    assert!(own.contains(main) && !own.contains(shadow), "{own}");
    for local in
        [&["-c", "a.yaml", "snapshots", "dump", &name][..], &["snapshots", "dump", "-l", "back.pb.gz", "-d", "d"]]
    {
        let shown = call(local);
        let head =
            "{\n  \"FormatVersion\": 3,\n  \"CompatVersion\": 1,\n  \"Meta\": {\n    \"GenerationID\": \"GX\",\n";
        assert!(shown.starts_with(head) && shown.contains("\"InstanceID\": \"ns1\",\n"), "{shown}");
        let entry =
            "\n### d (transform=\"\", flags=\"\")\n\nk [6b]  =  v [76]  (1970-01-01 00:00:00.000000001 +0000 UTC, ";
        assert!(shown.contains(entry) && shown.ends_with(" ago; flags=00)\n"), "{shown}");
    }
    assert_eq!(call(&["snapshots", "dump", "-l", "back.pb.gz", "-d", "other"]).matches("##").count(), 0);
    call(&["-c", "a.yaml", "drop-shadow"]);
    assert!(!call(&["-c", "a.yaml", "stats"]).contains("_sync_shadow_d"));
    assert_eq!(fleet.pairs("a").len(), 1);
}

#[test]
fn called_lightningstream_it_is_silent_where_that_is_and_ends_with_its_codes() {
    let fleet = Fleet::in_folder();
    let program = fleet.path("lightningstream");
    std::os::unix::fs::symlink(seawall(), &program).unwrap();
    let call = |args: &[&str]| run("lightningstream", &mut fleet.program(&program, args));
    fleet.put("a", "k", "v");
    let silent = |args: &[&str]| assert_eq!(call(&[&["-c", "a.yaml"], args].concat()).ok().stdout, "", "{args:?}");
    silent(&["sync", "--only-once"]);
    silent(&["sync", "--only-once", "--only-db", "nope"]);
    silent(&["--log-level", "nope", "sync", "--only-once"]);
    silent(&["--minimum-pid", "300", "sync", "--only-once"]);
    let name = call(&["-c", "a.yaml", "snapshots", "list"]).ok().stdout.lines().next().unwrap().to_owned();
    silent(&["snapshots", "get", &name, "-o", "back.pb.gz"]);
    let fetched = std::fs::read(fleet.path("back.pb.gz")).unwrap();
    std::fs::write(fleet.path("back.pb.gz"), b"an older one").unwrap();
    silent(&["snapshots", "get", &name, "-o", "back.pb.gz"]);
    assert_eq!(std::fs::read(fleet.path("back.pb.gz")).unwrap(), fetched, "it is replaced, as by the original");
    silent(&["snapshots", "remove", &name]);
    silent(&["snapshots", "remove", "nope"]);
    silent(&["snapshots", "put", "back.pb.gz", "--name", &name]);
    for wrong in [&["--nope"][..], &["sync", "--nope"], &["nope"], &["-c", "nope.yaml", "stats"]] {
        call(wrong).exits(1);
    }
    for help in
        [&["snapshots"][..], &["snapshots", "nope"], &["help"], &["sync", "--help"], &["help", "snapshots", "list"]]
    {
        let text = call(help).ok().stdout;
        assert!(text.contains("Usage: lightningstream") && !text.contains("seawall lmdb"), "{help:?}: {text}");
    }
    let version = call(&["version"]).ok().stdout;
    assert_eq!(call(&["--version"]).ok().stdout, format!("lightningstream version {version}"));
}

#[test]
fn an_address_that_is_taken_ends_the_process() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let http = format!("http:\n  address: {}", taken.local_addr().unwrap());
    let fleet = Fleet::new("  type: fs\n  options:\n    root_path: store", &http);
    fleet.put("a", "k", "v");
    let ended = run("seawall", &mut fleet.sync("a", &[])).exits(1);
    assert!(ended.stderr.contains("next: "), "{ended}");
}

/// Files that a group may write in a folder that only root may: as packages of PowerDNS lay them out.
#[test]
fn files_that_may_be_written_in_a_folder_that_may_not() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    use std::os::unix::process::CommandExt as _;
    let fleet = Fleet::in_folder();
    fleet.put("a", "k", "v");
    let mode = |name: &str, mode: u32| {
        std::fs::set_permissions(fleet.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    std::fs::create_dir(fleet.path("store")).unwrap();
    mode("store", 0o777);
    for file in ["a/data.mdb", "a/lock.mdb"] {
        mode(file, 0o666);
    }
    mode("a", 0o555);
    let as_other = rustix::process::geteuid().is_root();
    let mut sync = fleet.sync("a", &["--only-once"]);
    if as_other {
        // Root may write anywhere, so another user runs this. The binary must be where that user can read it.
        std::fs::copy(seawall(), fleet.path("seawall")).unwrap();
        mode("", 0o755);
        chown(fleet.path("a"), Some(0), Some(0)).unwrap();
        sync = fleet.program(&fleet.path("seawall"), &["lmdb", "sync", "--config", "a.yaml", "--only-once"]);
        sync.uid(65_534).gid(65_534);
    }
    run("seawall", &mut sync).ok();
    mode("a", 0o755);
    assert!(!fleet.path("a/data.mdb-seawall.lock").exists());
    run("seawall", &mut fleet.sync("b", &["--only-once"])).ok();
    assert_eq!(fleet.pairs("b"), fleet.pairs("a"));
}

#[test]
fn a_second_process_begins_when_the_first_one_ends() {
    let fleet = Fleet::in_folder();
    fleet.put("a", "k", "1");
    let sent = |process: &mut Process| process.stderr().contains("sent a snapshot").then_some(());
    let mut first = fleet.start("a");
    wait::until("the first one to send", wait::SOON, || sent(&mut first));
    let mut second = fleet.start("a");
    wait::until("the second one to wait", wait::SOON, || second.stderr().contains("lmdb.locked").then_some(()));
    let refused = run("seawall", &mut fleet.sync("a", &["--only-once"])).exits(1);
    assert!(refused.stderr.contains("lmdb.locked"), "{refused}");
    first.kill_9();
    wait::until("the second one to send", wait::SOON, || sent(&mut second));
    second.terminate();
    second.wait(wait::SOON).ok();
}

#[test]
fn only_the_environments_that_were_asked_for() {
    let fleet = Fleet::in_folder();
    fleet.put("a", "k", "1");
    let unknown = run("seawall", &mut fleet.sync("a", &["--only-once", "--only-db", "other"])).exits(2);
    assert!(unknown.stderr.contains("other"), "{unknown}");
    let config = std::fs::read_to_string(fleet.path("a.yaml")).unwrap();
    std::fs::write(fleet.path("a.yaml"), format!("{config}  missing:\n    path: nowhere\n")).unwrap();
    run("seawall", &mut fleet.sync("a", &["--only-once", "--only-db", "shard"])).ok();
    // An environment that can't be opened is reported, and doesn't hold up the others.
    fleet.put("a", "k", "2");
    let partly = run("seawall", &mut fleet.sync("a", &["--only-once"])).exits(3);
    assert!(partly.stderr.contains("lmdb.missing"), "{partly}");
    run("seawall", &mut fleet.sync("b", &["--only-once"])).ok();
    assert_eq!(fleet.pairs("b"), fleet.pairs("a"));
    assert_eq!(fleet.pairs("b")[&b"k"[..]], b"2");
}

#[test]
fn what_is_dumped_for_programs_is_one_document() {
    let fleet = Fleet::in_folder();
    fleet.put("a", "k\u{e9}", "v");
    run("seawall", &mut fleet.sync("a", &["--only-once"])).ok();
    let json = |args: &[&str]| -> Value {
        let printed = run("seawall", &mut fleet.program(&seawall(), args)).ok().stdout;
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
    };
    let dumped = json(&["lmdb", "dump", "--config", "a.yaml", "--json"]);
    let dbis = &dumped["databases"][0]["dbis"];
    assert_eq!((&dbis[0]["name"], &dbis[1]["name"]), (&"_sync_shadow_d".into(), &"d".into()), "{dumped}");
    assert_eq!(dbis[0]["entries"][0]["deleted"], false);
    assert_eq!(dbis[1]["entries"][0]["key"], "k\\xc3\\xa9");
    let listed = json(&["lmdb", "snapshots", "list", "--config", "a.yaml", "--json"]);
    let name = listed["snapshots"][0]["name"].as_str().unwrap();
    let dumped = json(&["lmdb", "snapshots", "dump", name, "--config", "a.yaml", "--json"]);
    assert_eq!(dumped["meta"]["database"], "shard");
    assert_eq!(dumped["dbis"][0]["entries"][0]["value"], "v");
    let migrated = json(&[
        "lmdb",
        "migrate-timestamps",
        "--config",
        "a.yaml",
        "--src-dbi",
        "none",
        "--dst-dbi",
        "_sync_shadow_d",
        "--ignore-src-dbi-not-present",
        "--json",
    ]);
    assert_eq!(migrated["raised"], 0);
}

#[test]
fn a_process_with_a_time_and_a_number() {
    let fleet = Fleet::in_folder();
    let program = fleet.path("lightningstream");
    std::os::unix::fs::symlink(seawall(), &program).unwrap();
    let call = |args: &[&str]| run("lightningstream", &mut fleet.program(&program, args));
    let ended = call(&["--timeout", "200ms", "sync", "-c", "a.yaml", "--wait-for-marker-file", "never"]);
    assert!(ended.stderr.contains("command.timeout"), "{ended}");
    ended.exits(75);
    // Process numbers here are far above the minimum, so the process itself continues.
    fleet.put("a", "k", "v");
    call(&["--minimum-pid", "200", "-c", "a.yaml", "sync", "--only-once"]).ok();
    assert!(
        call(&["-c", "a.yaml", "--log-timestamp", "disable", "snapshots", "list"]).ok().stdout.contains("shard__a__")
    );
}

/// A limit on file size acts like a full disk and needs no privilege: the system refuses the write.
#[test]
fn a_disk_without_room_holds_nothing_up_for_good_and_leaves_no_half() {
    let fleet = Fleet::in_folder();
    fleet.put("a", "small", "1");
    let mut a = fleet.start("a");
    let mut command = Command::new("sh");
    let line = format!("trap '' XFSZ; ulimit -S -f 256; exec {} lmdb sync --config b.yaml", seawall().display());
    command.current_dir(fleet.dir.path()).env_clear().env("HOME", fleet.dir.path()).args(["-c", &line]);
    let mut b = Process::spawn("seawall without room", &mut command);
    fleet.until_equal(1);
    // More than may be in a file there: 256 blocks of 512 bytes, or of 1024.
    for n in 0..100 {
        fleet.put("a", &format!("large-{n:03}"), &"x".repeat(10_000));
    }
    wait::until("it to be told", wait::SOON, || {
        b.stderr().lines().find(|line| line.contains("trying again") && line.contains("lmdb.")).map(str::to_owned)
    });
    assert!(b.running(), "it goes on");
    assert_eq!(fleet.pairs("b").get(&b"small"[..]).map(Vec::as_slice), Some(&b"1"[..]));
    let no_limit = rustix::process::Rlimit { current: None, maximum: None };
    rustix::process::prlimit(Some(b.pid()), rustix::process::Resource::Fsize, no_limit).unwrap();
    fleet.until_equal(101);
    for process in [&mut a, &mut b] {
        process.terminate();
        process.wait(wait::SOON).ok();
    }
    assert_eq!(fleet.pairs("a"), fleet.pairs("b"));
}

#[test]
fn environments_come_and_go_when_the_configuration_is_read_again() {
    let fleet = Fleet::in_folder();
    fleet.put("a", "first", "1");
    fleet.put("b", "first", "1");
    let config = fleet.path("a.yaml");
    let original = std::fs::read_to_string(&config).unwrap();
    let snapshots = |name: &str| {
        let all = std::fs::read_dir(fleet.path("store")).into_iter().flatten();
        let names = all.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|file| file.starts_with(&format!("{name}__"))).count()
    };
    let mut process = fleet.start("a");
    let reloads = |process: &mut Process| process.stderr().matches("the configuration was reloaded").count();
    wait::until("a snapshot", wait::SOON, || (snapshots("shard") == 1).then_some(()));
    let both = format!("{original}  more:\n    path: b\n");
    std::fs::write(&config, &both).unwrap();
    process.hang_up();
    wait::until("one of the new environment", wait::SOON, || (snapshots("more") == 1).then_some(()));
    // An error changes nothing.
    std::fs::write(&config, format!("{both}colour: red\n")).unwrap();
    process.hang_up();
    wait::until("the error", wait::SOON, || process.stderr().contains("config.unknown-key").then_some(()));
    fleet.put("b", "second", "2");
    wait::until("the commit to be sent", wait::SOON, || (snapshots("more") == 2).then_some(()));
    // An environment that is removed sends the commits from before the removal, and none after. The other isn't
    // touched.
    fleet.put("b", "third", "3");
    std::fs::write(&config, &original).unwrap();
    process.hang_up();
    wait::until("two reloads", wait::SOON, || (reloads(&mut process) == 2).then_some(()));
    wait::until("the last commit to be sent", wait::SOON, || (snapshots("more") == 3).then_some(()));
    fleet.put("b", "fourth", "4");
    fleet.put("a", "second", "2");
    wait::until("the other to go on", wait::SOON, || (snapshots("shard") == 2).then_some(()));
    process.stop().ok();
    assert_eq!(snapshots("more"), 3);
    // It comes back unchanged.
    std::fs::write(&config, &both).unwrap();
    let mut process = fleet.start("a");
    wait::until("what was committed meanwhile", wait::SOON, || (snapshots("more") == 4).then_some(()));
    process.stop().ok();
}

/// The folder of the storage is gone, or its disk isn't mounted: no snapshot is sent into a new folder in its place.
#[test]
fn a_storage_that_was_there_is_not_begun_anew() {
    let fleet = Fleet::in_folder();
    // The first write makes the folder, and the next one notes it.
    for value in ["0", "1"] {
        fleet.put("a", "k", value);
        run("seawall", &mut fleet.sync("a", &["--only-once"])).ok();
    }
    let (store, aside) = (fleet.path("store"), fleet.path("aside"));
    let note = fleet.path("a/data.mdb-seawall-vault-place.json");
    assert!(std::fs::read_to_string(&note).unwrap().contains("store"));
    std::fs::rename(&store, &aside).unwrap();
    fleet.put("a", "k", "2");
    let told = run("seawall", &mut fleet.sync("a", &["--only-once"])).exits(1);
    assert!(told.stderr.contains("vault.vanished") && !store.exists(), "{told}");
    // A process waits, and goes on when the folder is back.
    let mut process = fleet.start("a");
    wait::until("the process to say it", wait::SOON, || {
        process.stderr().contains("isn't there any more").then_some(())
    });
    assert!(!store.exists());
    std::fs::rename(&aside, &store).unwrap();
    let snapshots = || std::fs::read_dir(&store).unwrap().count();
    wait::until("another snapshot", wait::SOON, || (snapshots() > 2).then_some(()));
    process.stop();
    // The owner begins anew elsewhere, as the message says.
    std::fs::remove_dir_all(&store).unwrap();
    std::fs::remove_file(&note).unwrap();
    run("seawall", &mut fleet.sync("a", &["--only-once"])).ok();
    assert_eq!(snapshots(), 1);
}
