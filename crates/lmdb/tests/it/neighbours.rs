//! Other programs that have the same environment open while it is kept in step.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use seawall_core::Shutdown;
use seawall_lmdb::{Env, EnvOptions, Flags, Session, Stamp, SyncOptions, system_clock};
use seawall_vault::memory::MemoryStore;
use seawall_vault::{Policy, Vault};

use crate::support::{NOW, author, dump, open, options, put, schema, snapshot};

/// Tells the other process of these tests what to do, and where.
const TASK: &str = "SEAWALL_TEST_NEIGHBOUR";

/// How long an application may wait for the write lock: a slice, on a machine whose disk takes seconds for a commit.
const PATIENCE: Duration = Duration::from_secs(60);

/// Entries of a snapshot that is merged at once: more than a slice writes.
const ALL: u32 = 60_000;

/// Begins another process, which goes on until a file `stop` is in the folder.
pub(crate) fn neighbour(task: &str, folder: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "neighbours::in_another_process", "--ignored", "--quiet"]);
    command.env(TASK, format!("{task} {}", folder.display())).stdout(Stdio::null());
    let child = command.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !folder.join("ready").exists() {
        assert!(Instant::now() < deadline, "the neighbour doesn't begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

pub(crate) fn stop(mut child: Child, folder: &Path) {
    std::fs::write(folder.join("stop"), "").unwrap();
    assert!(child.wait().unwrap().success());
}

/// An application with `MDB_WRITEMAP` and a map of `size` bytes, which commits at each file `go`. Size 0 takes the size
/// that the file records.
fn through_memory(folder: &Path, size: usize) {
    use lmdb_sys as sys;
    use std::ffi::CString;
    let path = CString::new(folder.to_str().unwrap()).unwrap();
    let mut env = std::ptr::null_mut();
    let val = |bytes: &'static [u8]| sys::MDB_val { mv_size: bytes.len(), mv_data: bytes.as_ptr().cast_mut().cast() };
    let check = |code: i32| assert_eq!(code, sys::MDB_SUCCESS);
    // SAFETY: liblmdb's own order of calls, on one thread; every pointer outlives its call.
    unsafe {
        check(sys::mdb_env_create(&mut env));
        check(sys::mdb_env_set_maxdbs(env, 8));
        check(sys::mdb_env_set_mapsize(env, size));
        check(sys::mdb_env_open(env, path.as_ptr(), sys::MDB_WRITEMAP, 0o600));
    }
    std::fs::write(folder.join("ready"), "").unwrap();
    while !folder.join("stop").exists() {
        if std::fs::remove_file(folder.join("go")).is_ok() {
            let (mut txn, mut dbi) = (std::ptr::null_mut(), 0);
            // SAFETY: as above.
            unsafe {
                check(sys::mdb_txn_begin(env, std::ptr::null_mut(), 0, &mut txn));
                check(sys::mdb_dbi_open(txn, c"d".as_ptr(), sys::MDB_CREATE, &mut dbi));
                check(sys::mdb_put(txn, dbi, &mut val(b"k"), &mut val(b"through memory"), 0));
                check(sys::mdb_txn_commit(txn));
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
#[ignore = "the other process of the tests below"]
fn in_another_process() {
    let task = std::env::var(TASK).unwrap();
    let (task, folder) = task.split_once(' ').unwrap();
    let folder = Path::new(folder);
    match task {
        "through-memory" => return through_memory(folder, 0),
        "through-little-memory" => return through_memory(folder, 1 << 20),
        _ => {}
    }
    let env = Env::open(folder, &EnvOptions::default()).unwrap();
    let ready = || std::fs::write(folder.join("ready"), "").unwrap();
    let stopped = || folder.join("stop").exists();
    match task {
        // Begins a read transaction, and reads once the file is cut.
        "cut" => {
            let mut txn = env.read().unwrap();
            ready();
            while !stopped() {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = txn.names();
        }
        "reader" => {
            let txn = env.read().unwrap();
            ready();
            while !stopped() {
                std::thread::sleep(Duration::from_millis(5));
            }
            drop(txn);
        }
        // Looks again and again, and insists on seeing nothing or everything.
        "watcher" => {
            ready();
            while !stopped() {
                let mut txn = env.read().unwrap();
                let count = txn.open(b"d").unwrap().map_or(0, |dbi| txn.stat(dbi).unwrap().entries);
                assert!(count == 0 || count == u64::from(ALL), "{count} of {ALL} are seen");
                drop(txn);
            }
        }
        writer => {
            let mut longest = Duration::ZERO;
            let mut random = fastrand::Rng::with_seed(7);
            for round in 0_u64.. {
                let key = format!("{writer}-{}", random.u8(..));
                let begun = Instant::now();
                put(&env, "d", Flags::default(), key.as_bytes(), &round.to_be_bytes());
                longest = longest.max(begun.elapsed());
                ready();
                if stopped() {
                    break;
                }
            }
            assert!(longest < PATIENCE, "the application waited for {longest:?}");
        }
    }
}

/// A session over the environment of a folder.
fn session(folder: &Path, instance: &str, store: &Arc<MemoryStore>) -> Session {
    let often = Duration::from_millis(10);
    let how = SyncOptions { poll: often, list: often, retry: often, ..SyncOptions::new(author(instance)) };
    let vault = Vault::new(store.clone(), Policy::default());
    Session::new(open(folder, &schema(false, false)), vault, how, system_clock())
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// One last round of each, after which both hold everything.
async fn settle(first: &mut Session, second: &mut Session) {
    for _ in 0..2 {
        for session in [&mut *first, &mut *second] {
            let stop = Shutdown::new();
            stop.begin();
            session.run(&stop).await.unwrap();
        }
    }
}

/// With `MDB_WRITEMAP` liblmdb gives the file the length of the map.
#[test]
fn an_application_that_makes_the_file_shorter_by_its_map_has_not_cut_it() {
    let folder = tempfile::tempdir().unwrap();
    let local = open(folder.path(), &schema(false, false));
    put(local.env(), "d", Flags::default(), b"k", b"value");
    let length = || std::fs::metadata(folder.path().join("data.mdb")).unwrap().len();
    let again = |task| {
        for file in ["ready", "stop"] {
            let _ = std::fs::remove_file(folder.path().join(file));
        }
        neighbour(task, folder.path())
    };
    stop(again("through-memory"), folder.path());
    assert_eq!(length(), 64 << 20);
    local.info().unwrap();
    let little = again("through-little-memory");
    assert_eq!(length(), 1 << 20);
    assert_eq!(dump(local.env()).len(), 1);
    put(local.env(), "d", Flags::default(), b"another", b"value");
    stop(little, folder.path());
    assert_eq!(dump(local.env())[b"d".as_slice()].1.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_applications_write_in_tight_loops_and_come_to_the_same() {
    let (a, b, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new()));
    let (mut first, mut second) = (session(a.path(), "a", &store), session(b.path(), "b", &store));
    let writers = [neighbour("left", a.path()), neighbour("right", b.path())];
    let (left, right) = (first.watch(), second.watch());
    let end = Shutdown::new();
    let drive = async {
        let often = |status: &tokio::sync::watch::Receiver<seawall_lmdb::SessionStatus>| {
            status.borrow().storing.calls >= 3 && status.borrow().loading.calls >= 3
        };
        until("both send and merge", || often(&left) && often(&right)).await;
        for (writer, folder) in writers.into_iter().zip([a.path(), b.path()]) {
            stop(writer, folder);
        }
        end.begin();
    };
    let (one, other, ()) = tokio::join!(first.run(&end), second.run(&end), drive);
    one.unwrap();
    other.unwrap();
    settle(&mut first, &mut second).await;
    let [ours, theirs] = [&first, &second].map(|session| dump(session.local().unwrap().env()));
    let (ours, theirs) = (&ours[b"d".as_slice()].1, &theirs[b"d".as_slice()].1);
    assert!(ours == theirs, "{} and {} keys", ours.len(), theirs.len());
    for writer in ["left-", "right-"] {
        assert!(ours.iter().any(|(key, _)| key.starts_with(writer.as_bytes())), "{writer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_never_ends_keeps_nobody_from_merging() {
    let (a, b, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), Arc::new(MemoryStore::new()));
    let (mut first, mut second) = (session(a.path(), "a", &store), session(b.path(), "b", &store));
    put(second.local().unwrap().env(), "d", Flags::default(), b"k", b"0");
    let reader = neighbour("reader", b.path());
    for round in 0..12_u32 {
        put(first.local().unwrap().env(), "d", Flags::default(), &round.to_be_bytes(), &[7; 1000]);
        settle(&mut first, &mut second).await;
    }
    let [ours, theirs] = [&first, &second].map(|session| dump(session.local().unwrap().env()));
    assert!(ours[b"d".as_slice()] == theirs[b"d".as_slice()]);
    assert_eq!(ours[b"d".as_slice()].1.len(), 13);
    stop(reader, b.path());
}

#[test]
fn with_one_transaction_nobody_sees_a_part_of_a_snapshot() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut writer = open(a.path(), &schema(false, false));
    {
        let mut txn = writer.env().write().unwrap();
        let dbi = txn.create(b"d", Flags::default()).unwrap();
        (0..ALL).for_each(|n| txn.append(dbi, &n.to_be_bytes(), &[7; 100]).unwrap());
        txn.commit().unwrap();
    }
    writer.begin(NOW).unwrap();
    let bytes = snapshot(&mut writer, "a", NOW);
    for whole in [false, true] {
        let folder = b.path().join(if whole { "whole" } else { "slices" });
        let mut settings = seawall_lmdb::Settings::new(schema(false, false));
        settings.pace = seawall_lmdb::Pace { whole, slice: Duration::from_millis(5) };
        let mut local = seawall_lmdb::Local::open(&folder, &options(), settings).unwrap();
        let watcher = whole.then(|| neighbour("watcher", &folder));
        let loaded = local.load("x", &bytes[..], Stamp(0), NOW).unwrap();
        assert_eq!(loaded.applied.entries, u64::from(ALL));
        assert_eq!(loaded.applied.transactions == 1, whole, "{:?}", loaded.applied);
        if let Some(watcher) = watcher {
            stop(watcher, &folder);
        }
        assert_eq!(dump(local.env())[b"d".as_slice()].1.len() as u32, ALL);
    }
}
