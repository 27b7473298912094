//! Several environments that share a vault.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seawall_core::Shutdown;
use seawall_lmdb::snapshot::{Codec, SnapshotName};
use seawall_lmdb::{Flags, Marker, NanoClock, Report, Retention, Session, Stamp, Sweep, SyncOptions};
use seawall_vault::memory::MemoryStore;
use seawall_vault::simulated::SimulatedStore;
use seawall_vault::{ObjectKey, Policy, Prefix, Vault};
use tempfile::TempDir;

use crate::support::{NOW, author, delete, dump, open, put, schema};

/// A clock that moves on with every look.
fn clock() -> NanoClock {
    let at = AtomicU64::new(NOW.0);
    Arc::new(move || Stamp(at.fetch_add(1_000_000, Ordering::Relaxed)))
}

fn vault() -> Vault {
    Vault::new(Arc::new(MemoryStore::new()), Policy::default())
}

fn options(instance: &str, receive_only: bool) -> SyncOptions {
    SyncOptions { receive_only, only_once: true, ..SyncOptions::new(author(instance)) }
}

/// Runs an instance once, and gives its environment's own data.
async fn once(
    folder: &Path,
    native: bool,
    vault: &Vault,
    clock: &NanoClock,
    how: SyncOptions,
) -> (Report, Vec<(Vec<u8>, Vec<u8>)>) {
    let local = open(folder, &schema(native, false));
    let mut session = Session::new(local, vault.clone(), how, Arc::clone(clock));
    session.run(&Shutdown::new()).await.unwrap();
    let all = dump(session.local().unwrap().env());
    let pairs = all.get(b"d".as_slice()).map(|(_, pairs)| pairs.clone()).unwrap_or_default();
    (session.report().clone(), pairs)
}

async fn names(vault: &Vault) -> Vec<String> {
    let entries = vault.list(&Prefix::all(), None).await.unwrap();
    entries.into_iter().map(|entry| entry.key.to_string()).collect()
}

fn folders() -> [TempDir; 2] {
    [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()]
}

/// What an application does while no session is open.
fn between(folder: &Path, act: impl FnOnce(&seawall_lmdb::Env)) {
    act(open(folder, &schema(false, false)).env());
}

#[tokio::test]
async fn changes_go_to_and_fro() {
    let ([a, b], vault, clock) = (folders(), vault(), clock());
    between(a.path(), |env| put(env, "d", Flags::default(), b"k", b"1"));
    let (report, _) = once(a.path(), false, &vault, &clock, options("a", false)).await;
    assert_eq!((report.sent, report.loaded), (1, 0));
    let (report, pairs) = once(b.path(), false, &vault, &clock, options("b", false)).await;
    assert_eq!((report.sent, report.loaded), (0, 1), "what was received isn't sent");
    assert_eq!(pairs, [(b"k".to_vec(), b"1".to_vec())]);

    between(b.path(), |env| {
        put(env, "d", Flags::default(), b"k", b"2");
        put(env, "d", Flags::default(), b"more", b"");
    });
    let (report, _) = once(b.path(), false, &vault, &clock, options("b", false)).await;
    assert_eq!((report.sent, report.loaded), (1, 1));
    let (report, pairs) = once(a.path(), false, &vault, &clock, options("a", false)).await;
    assert_eq!((report.sent, report.loaded), (1, 2), "a start with data sends one snapshot");
    assert_eq!(pairs, [(b"k".to_vec(), b"2".to_vec()), (b"more".to_vec(), vec![])]);

    between(a.path(), |env| delete(env, "d", b"k"));
    once(a.path(), false, &vault, &clock, options("a", false)).await;
    let (_, pairs) = once(b.path(), false, &vault, &clock, options("b", false)).await;
    assert_eq!(pairs, [(b"more".to_vec(), vec![])], "what was deleted while nobody watched is deleted everywhere");
}

#[tokio::test]
async fn an_environment_that_was_lost_gets_its_own_data_back_before_it_sends() {
    let ([a, b], vault, clock) = (folders(), vault(), clock());
    between(a.path(), |env| put(env, "d", Flags::default(), b"k", b"1"));
    once(a.path(), false, &vault, &clock, options("a", false)).await;
    let before = names(&vault).await;
    // The same instance with nothing.
    let (report, pairs) = once(b.path(), false, &vault, &clock, options("a", false)).await;
    assert_eq!((report.sent, report.loaded), (0, 1));
    assert_eq!(pairs, [(b"k".to_vec(), b"1".to_vec())]);
    assert_eq!(names(&vault).await, before);
}

#[tokio::test]
async fn a_damaged_snapshot_is_left_out_and_the_one_before_it_serves() {
    let ([a, b], vault, clock) = (folders(), vault(), clock());
    between(a.path(), |env| put(env, "d", Flags::default(), b"k", b"1"));
    once(a.path(), false, &vault, &clock, options("a", false)).await;
    let good = names(&vault).await;
    let name = SnapshotName::parse(&good[0]).unwrap();
    let bad = SnapshotName { stamp: Stamp(name.stamp.0 + 1), ..name }.to_string();
    vault.put(&ObjectKey::new(&bad).unwrap(), "no snapshot".into(), None).await.unwrap();
    vault.put(&ObjectKey::new("main__x.pb.gz").unwrap(), "no name".into(), None).await.unwrap();
    vault.put(&ObjectKey::new("mainly__a").unwrap(), "another's".into(), None).await.unwrap();
    let (report, pairs) = once(b.path(), false, &vault, &clock, options("b", false)).await;
    assert_eq!(report.damaged.keys().collect::<Vec<_>>(), [&bad]);
    assert_eq!(pairs, [(b"k".to_vec(), b"1".to_vec())]);
}

#[tokio::test]
async fn who_only_receives_sends_nothing() {
    let ([a, b], vault, clock) = (folders(), vault(), clock());
    between(a.path(), |env| put(env, "d", Flags::default(), b"k", b"1"));
    once(a.path(), false, &vault, &clock, options("a", false)).await;
    between(b.path(), |env| put(env, "d", Flags::default(), b"mine", b"1"));
    let (report, pairs) = once(b.path(), false, &vault, &clock, options("b", true)).await;
    assert_eq!((report.sent, report.loaded, pairs.len()), (0, 1, 2));
    assert_eq!(names(&vault).await.len(), 1);
}

#[tokio::test]
async fn a_session_runs_until_it_is_stopped_and_ends_with_a_whole_round() {
    let ([a, b], vault, clock) = (folders(), vault(), clock());
    let long = |instance: &str| SyncOptions {
        poll: Duration::from_millis(20),
        list: Duration::from_millis(20),
        ..SyncOptions::new(author(instance))
    };
    between(a.path(), |env| put(env, "d", Flags::default(), b"k", b"1"));
    let (first, second) = (Shutdown::new(), Shutdown::new());
    let local = open(a.path(), &schema(false, false));
    let mut sender = Session::new(local, vault.clone(), long("a"), Arc::clone(&clock));
    let local = open(b.path(), &schema(false, false));
    let mut receiver = Session::new(local, vault.clone(), long("b"), Arc::clone(&clock));
    let watch = async {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while names(&vault).await.is_empty() {
            assert!(tokio::time::Instant::now() < deadline, "nothing was sent");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        first.begin();
    };
    let (result, ()) = tokio::join!(sender.run(&first), watch);
    result.unwrap();
    // Asked to stop before it began: a round is done all the same.
    second.begin();
    receiver.run(&second).await.unwrap();
    assert_eq!(names(&vault).await.len(), 1, "one who has received nothing new sends nothing");
    assert_eq!(receiver.report().loaded, 1);
    let pairs = dump(receiver.local().unwrap().env());
    assert_eq!(pairs[b"d".as_slice()].1, [(b"k".to_vec(), b"1".to_vec())]);
}

#[tokio::test]
async fn of_a_snapshot_whose_pieces_are_merged_only_the_others_are_fetched() {
    let ([a, b], clock, store) = (folders(), clock(), Arc::new(MemoryStore::new()));
    let (sending, receiving) =
        (Vault::new(store.clone(), Policy::default()), Vault::new(store.clone(), Policy::default()));
    between(a.path(), |env| {
        let mut txn = env.write().unwrap();
        let dbi = txn.create(b"d", Flags::default()).unwrap();
        let mut random = fastrand::Rng::with_seed(6);
        for n in 0..50_000_u32 {
            let noise: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(130).collect();
            txn.append(dbi, &n.to_be_bytes(), &noise).unwrap();
        }
        txn.commit().unwrap();
    });
    once(a.path(), false, &sending, &clock, options("a", false)).await;
    let first = sending.counts().bytes_up;

    let how = SyncOptions { poll: Duration::from_millis(20), list: Duration::from_millis(20), ..options("b", true) };
    let mut receiver = Session::new(
        open(b.path(), &schema(false, false)),
        receiving.clone(),
        SyncOptions { only_once: false, ..how },
        Arc::clone(&clock),
    );
    let stop = Shutdown::new();
    let until = async |requests: u64| {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while receiving.counts().get < requests {
            assert!(tokio::time::Instant::now() < deadline, "{:?}", receiving.counts());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let drive = async {
        // Its end with the index, and all of it.
        until(2).await;
        between(a.path(), |env| put(env, "d", Flags::default(), &20_000_u32.to_be_bytes(), b"changed"));
        // Another process of the same instance, which knows nothing of the first one's pieces.
        once(a.path(), false, &sending, &clock, options("a", false)).await;
        until(4).await;
        stop.begin();
    };
    let (result, ()) = tokio::join!(receiver.run(&stop), drive);
    result.unwrap();
    assert_eq!(receiver.report().loaded, 2);
    let fetched = receiving.counts().bytes_down - first;
    assert!(fetched * 2 < first, "{fetched} of {first}");
    let ours = dump(receiver.local().unwrap().env());
    drop(receiver);
    assert_eq!(ours[b"d".as_slice()].1[20_000].1, b"changed");
    between(a.path(), |env| assert!(dump(env)[b"d".as_slice()] == ours[b"d".as_slice()]));
}

#[tokio::test]
async fn a_snapshot_whose_index_is_elsewhere_is_read_whole() {
    let ([a, b], vault, clock) = (folders(), vault(), clock());
    between(a.path(), |env| put(env, "d", Flags::default(), b"k", b"1"));
    once(a.path(), false, &vault, &clock, options("a", false)).await;
    let name = names(&vault).await.remove(0);
    let object = vault.read(&ObjectKey::new(&name).unwrap(), None, 1 << 20).await.unwrap();
    // With an empty member first everything stands behind where the index says.
    let parsed = SnapshotName::parse(&name).unwrap();
    let moved = SnapshotName { stamp: Stamp(parsed.stamp.0 + 1), ..parsed }.to_string();
    let empty = seawall_lmdb::fuzzing::wrapped(b"");
    vault.put(&ObjectKey::new(&moved).unwrap(), [&empty[..], &object].concat().into(), None).await.unwrap();
    let (report, pairs) = once(b.path(), false, &vault, &clock, options("b", false)).await;
    assert_eq!((report.loaded, report.damaged.len()), (1, 0));
    assert_eq!(pairs, [(b"k".to_vec(), b"1".to_vec())]);
}

/// Waits for a condition, with a deadline.
async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn quick(instance: &str) -> SyncOptions {
    let often = Duration::from_millis(20);
    SyncOptions { poll: often, list: often, retry: often, ..SyncOptions::new(author(instance)) }
}

#[tokio::test]
async fn with_the_update_marker_nobody_lists_while_nothing_changes() {
    let ([a, b], clock, store) = (folders(), clock(), Arc::new(MemoryStore::new()));
    let (ours, theirs) = (Vault::new(store.clone(), Policy::default()), Vault::new(store.clone(), Policy::default()));
    let marker = Some(Marker { prefix: String::new(), force: Duration::from_secs(3600) });
    let with_marker = |how: SyncOptions| SyncOptions { marker: marker.clone(), ..how };
    between(a.path(), |env| put(env, "d", Flags::default(), b"k", b"1"));
    once(a.path(), false, &theirs, &clock, with_marker(options("a", false))).await;
    let local = open(b.path(), &schema(false, false));
    let mut session = Session::new(local, ours.clone(), with_marker(quick("b")), Arc::clone(&clock));
    let status = session.watch();
    let stop = Shutdown::new();
    let drive = async {
        until("it goes on looking", async || ours.counts().get > 20).await;
        assert!(ours.counts().list <= 2, "{:?}", ours.counts());
        between(a.path(), |env| put(env, "d", Flags::default(), b"k", b"2"));
        once(a.path(), false, &theirs, &clock, with_marker(options("a", false))).await;
        until("the change comes", async || status.borrow().loading.calls >= 2).await;
        stop.begin();
    };
    let (result, ()) = tokio::join!(session.run(&stop), drive);
    result.unwrap();
    let pairs = dump(session.local().unwrap().env());
    assert_eq!(pairs[b"d".as_slice()].1, [(b"k".to_vec(), b"2".to_vec())]);
}

#[tokio::test]
async fn snapshots_that_nobody_needs_are_deleted_and_the_last_one_stays() {
    let ([a, b], vault, clock) = (folders(), vault(), clock());
    for value in [b"1", b"2", b"3"] {
        between(a.path(), |env| put(env, "d", Flags::default(), b"k", value));
        once(a.path(), false, &vault, &clock, options("a", false)).await;
    }
    let before = names(&vault).await;
    assert_eq!(before.len(), 3);
    let rules =
        Retention { interval: Duration::from_millis(20), keep: Duration::ZERO, gone: Duration::from_secs(86_400) };
    let how = SyncOptions { clean: Some(rules), ..quick("b") };
    let mut session = Session::new(open(b.path(), &schema(false, false)), vault.clone(), how, Arc::clone(&clock));
    let status = session.watch();
    let stop = Shutdown::new();
    let drive = async {
        until("the older ones go", async || status.borrow().cleaning.newer == 2).await;
        stop.begin();
    };
    let (result, ()) = tokio::join!(session.run(&stop), drive);
    result.unwrap();
    assert_eq!(names(&vault).await, before[2..]);
    assert!(status.borrow().start.is_over());
}

#[tokio::test]
async fn who_was_away_for_longer_than_deletions_are_kept_is_refused() {
    let ([a, _], vault) = (folders(), vault());
    let days = |days: u64| Duration::from_secs(days * 86_400);
    let sweep = Sweep { retention: days(10), interval: days(1), first: days(1), taken: days(9) };
    let run = async |day: u64| {
        let clock: NanoClock = Arc::new(move || Stamp(NOW.0 + day * 86_400_000_000_000));
        let how = SyncOptions { sweep: Some(sweep), ..options("a", false) };
        let mut session = Session::new(open(a.path(), &schema(false, false)), vault.clone(), how, clock);
        let result = session.run(&Shutdown::new()).await;
        (result.map_err(|failure| failure.code), session.watch().borrow().ended.is_some())
    };
    between(a.path(), |env| put(env, "d", Flags::default(), b"k", b"1"));
    assert_eq!(run(0).await, (Ok(()), false));
    assert_eq!(run(9).await, (Ok(()), false));
    let before = names(&vault).await;
    assert_eq!(run(20).await, (Err("lmdb.too-long-away"), true));
    assert_eq!(names(&vault).await, before, "nothing of it got out");
    // What the message says.
    std::fs::remove_file(a.path().join("data.mdb-in-step")).unwrap();
    assert_eq!(run(20).await, (Ok(()), false));
    assert!(names(&vault).await.len() > before.len());
}

#[tokio::test]
async fn old_deletions_are_forgotten_and_stay_so() {
    let days = |days: u64| Duration::from_secs(days * 86_400);
    let sweep = Sweep { retention: days(10), interval: days(1), first: Duration::ZERO, taken: days(9) };
    for native in [false, true] {
        let ([a, _], vault, ticks) = (folders(), vault(), Arc::new(AtomicU64::new(0)));
        let value = |deleted: bool| {
            let header = [&NOW.0.to_be_bytes()[..], &[0; 9], &[deleted.into()], &[0; 6]].concat();
            if native { header } else { b"v".to_vec() }
        };
        let run = async |day: u64, sweep: Option<Sweep>| {
            let ticks = Arc::clone(&ticks);
            let tick = move || ticks.fetch_add(1_000_000, Ordering::Relaxed);
            let clock: NanoClock = Arc::new(move || Stamp(NOW.0 + day * 86_400_000_000_000 + tick()));
            let how = SyncOptions { sweep, ..options("a", false) };
            let mut session = Session::new(open(a.path(), &schema(native, false)), vault.clone(), how, clock);
            session.run(&Shutdown::new()).await.unwrap();
            let all = dump(session.local().unwrap().env());
            let mut keys: Vec<_> = all.into_values().flat_map(|(_, pairs)| pairs).map(|(key, _)| key).collect();
            keys.sort();
            keys.dedup();
            (session.report().swept, session.report().sent, keys)
        };
        let (live, gone) = (b"live".to_vec(), b"gone".to_vec());
        for key in [&live, &gone] {
            between(a.path(), |env| put(env, "d", Flags::default(), key, &value(false)));
        }
        run(0, None).await;
        between(a.path(), |env| match native {
            true => put(env, "d", Flags::default(), &gone, &value(true)),
            false => delete(env, "d", &gone),
        });
        assert_eq!(run(0, None).await, (0, 1, vec![gone.clone(), live.clone()]), "native {native}");
        assert_eq!(run(20, Some(sweep)).await, (1, 1, vec![live.clone()]), "native {native}");
        // The last snapshot still has it, and is merged at the start.
        assert_eq!(run(21, Some(sweep)).await, (0, 1, vec![live]), "native {native}");
    }
}

#[tokio::test]
async fn a_snapshot_is_sent_when_its_time_has_come_also_if_nothing_changed() {
    let ([a, _], vault, clock) = (folders(), vault(), clock());
    between(a.path(), |env| put(env, "d", Flags::default(), b"k", b"1"));
    let how = SyncOptions { force: Some(Duration::from_millis(30)), ..quick("a") };
    let mut session = Session::new(open(a.path(), &schema(false, false)), vault.clone(), how, clock);
    let (status, stop) = (session.watch(), Shutdown::new());
    let drive = async {
        until("one after the other", async || status.borrow().storing.calls >= 3).await;
        stop.begin();
    };
    let (result, ()) = tokio::join!(session.run(&stop), drive);
    result.unwrap();
    assert!(names(&vault).await.len() >= 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_map_ends_nothing_and_is_told_until_there_is_room() {
    let ([a, b], vault, clock) = (folders(), vault(), clock());
    between(a.path(), |env| (0..200_u32).for_each(|n| put(env, "d", Flags::default(), &n.to_be_bytes(), &[1; 10_000])));
    once(a.path(), false, &vault, &clock, options("a", false)).await;
    let small = seawall_lmdb::EnvOptions { create: true, map_size: Some(1 << 20), ..Default::default() };
    let settings = seawall_lmdb::Settings::new(schema(false, false));
    let local = seawall_lmdb::Local::open(b.path(), &small, settings).unwrap();
    let mut session = Session::new(local, vault.clone(), quick("b"), Arc::clone(&clock));
    let (status, stop) = (session.watch(), Shutdown::new());
    let drive = async {
        until("it is tried more than once", async || status.borrow().local.failures >= 3).await;
        let failure = status.borrow().failure.clone();
        assert_eq!(failure.map(|(failure, _, _)| failure.code), Some("lmdb.map-full"));
        assert!(status.borrow().local.since.is_some() && status.borrow().ended.is_none());
        let folder = b.path().to_owned();
        tokio::task::spawn_blocking(move || crate::shared::elsewhere("room", &folder)).await.unwrap();
        until("it goes on", async || status.borrow().local.since.is_none() && status.borrow().start.is_over()).await;
        stop.begin();
    };
    let (result, ()) = tokio::join!(session.run(&stop), drive);
    result.unwrap();
    assert_eq!(dump(session.local().unwrap().env())[b"d".as_slice()].1.len(), 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vault_that_is_away_for_long_holds_nothing_up_and_nothing_is_lost() {
    let ([a, b], clock) = (folders(), clock());
    let store = Arc::new(SimulatedStore::new(MemoryStore::new(), 3));
    // A single attempt for each request: what is away stays so for as long as the test wants.
    let policy = Policy { attempts: 1, seed: 1, ..Policy::default() };
    let vault = Vault::new(store.clone(), policy);
    between(a.path(), |env| put(env, "d", Flags::default(), b"before", b"1"));
    let mut first = Session::new(open(a.path(), &schema(false, false)), vault.clone(), quick("a"), Arc::clone(&clock));
    let mut second = Session::new(open(b.path(), &schema(false, false)), vault.clone(), quick("b"), Arc::clone(&clock));
    let (left, right, stop) = (first.watch(), second.watch(), Shutdown::new());
    let (folder_a, folder_b) = (a.path().to_owned(), b.path().to_owned());
    let write = async |folder: &Path, task: &'static str| {
        let folder = folder.to_owned();
        tokio::task::spawn_blocking(move || crate::shared::elsewhere(task, &folder)).await.unwrap();
    };
    let drive = async {
        until("both begin", async || left.borrow().start.is_over() && right.borrow().start.is_over()).await;
        store.fail_from(store.call_count());
        // The applications go on; the sessions try again and again, and say so.
        write(&folder_a, "put").await;
        write(&folder_b, "room").await;
        let failing = |status: &tokio::sync::watch::Receiver<seawall_lmdb::SessionStatus>| {
            let status = status.borrow();
            status.listing.failures >= 20 && status.listing.since.is_some() && status.failure.is_some()
        };
        until("both try for long", async || failing(&left) && failing(&right)).await;
        assert!(left.borrow().ended.is_none() && right.borrow().ended.is_none());
        store.revive();
        let well = |status: &tokio::sync::watch::Receiver<seawall_lmdb::SessionStatus>| {
            let status = status.borrow();
            status.failure.is_none() && status.listing.since.is_none() && status.storing.bytes > 0
        };
        until("both are well", async || well(&left) && well(&right)).await;
        let received = |status: &tokio::sync::watch::Receiver<seawall_lmdb::SessionStatus>, from: &str| {
            let sent = if from == "a" { left.borrow().sent } else { right.borrow().sent };
            status.borrow().received.get(from).map(|(stamp, _)| *stamp) == sent.map(|(stamp, _)| stamp)
        };
        until("each has what the other sent", async || received(&left, "b") && received(&right, "a")).await;
        stop.begin();
    };
    let (one, other, ()) = tokio::join!(first.run(&stop), second.run(&stop), drive);
    one.unwrap();
    other.unwrap();
    let [ours, theirs] = [&first, &second].map(|session| dump(session.local().unwrap().env()));
    let keys: Vec<_> = ours[b"d".as_slice()].1.iter().map(|(key, _)| key.clone()).collect();
    assert_eq!(keys, [b"before".to_vec(), b"k".to_vec(), b"room".to_vec()]);
    assert_eq!(ours[b"d".as_slice()], theirs[b"d".as_slice()]);
}

#[tokio::test]
async fn an_index_that_says_what_is_not_there_is_found_out() {
    let ([a, b], vault, clock) = (folders(), vault(), clock());
    between(a.path(), |env| put(env, "d", Flags::default(), b"k", b"1"));
    once(a.path(), false, &vault, &clock, options("a", false)).await;
    let name = names(&vault).await.remove(0);
    let object = vault.read(&ObjectKey::new(&name).unwrap(), None, 1 << 20).await.unwrap();
    let index = seawall_lmdb::fuzzing::reindexed(&object, b"e", 7);
    let parsed = SnapshotName::parse(&name).unwrap();
    let wrong = SnapshotName { stamp: Stamp(parsed.stamp.0 + 1), ..parsed }.to_string();
    vault.put(&ObjectKey::new(&wrong).unwrap(), index.into(), None).await.unwrap();
    // To merge, an index only says what may be left out: of what isn't known all is read.
    let (report, pairs) = once(b.path(), false, &vault, &clock, options("b", false)).await;
    assert_eq!((report.loaded, report.damaged.len()), (1, 0));
    assert_eq!(pairs, [(b"k".to_vec(), b"1".to_vec())]);
    let engine = seawall_lmdb::Lmdb::of_vault(vault, "main".to_owned(), clock);
    let found = seawall_core::Digests::verify_strong(&engine, Arc::new(seawall_core::NoProgress)).await.unwrap();
    assert_eq!(found.compared, 1, "{found:?}");
    let [finding] = &found.verification.findings[..] else { panic!("{found:?}") };
    assert_eq!((finding.code, &finding.object), ("lmdb.index", &wrong));
}

#[tokio::test]
async fn zstd_is_sent_only_while_every_other_instance_is_ours() {
    let ([a, b], vault, clock) = (folders(), vault(), clock());
    let zstd = |how: SyncOptions| SyncOptions { codec: Codec::Zstd, ..how };
    between(a.path(), |env| put(env, "d", Flags::default(), b"k", b"1"));
    once(a.path(), false, &vault, &clock, zstd(options("a", false))).await;
    let (report, pairs) = once(b.path(), false, &vault, &clock, zstd(options("b", false))).await;
    assert_eq!((report.loaded, pairs), (1, vec![(b"k".to_vec(), b"1".to_vec())]));
    between(b.path(), |env| put(env, "d", Flags::default(), b"k", b"2"));
    once(b.path(), false, &vault, &clock, zstd(options("b", false))).await;
    assert!(names(&vault).await.iter().all(|name| name.ends_with(".pb.zstd")), "{:?}", names(&vault).await);
    // One of ours that writes gzip is known by its index.
    let (_, pairs) = once(a.path(), false, &vault, &clock, options("a", false)).await;
    assert_eq!(pairs, [(b"k".to_vec(), b"2".to_vec())]);
    assert!(names(&vault).await.iter().any(|name| name.starts_with("main__a__") && name.ends_with(".pb.gz")));
    let count = names(&vault).await.len();
    once(b.path(), false, &vault, &clock, zstd(options("b", false))).await;
    let last = names(&vault).await.pop().unwrap();
    assert!(names(&vault).await.len() == count + 1 && last.ends_with(".pb.zstd"), "{last}");

    // An old one comes while a session runs: what it could not read is sent again.
    let mut session =
        Session::new(open(b.path(), &schema(false, false)), vault.clone(), zstd(quick("b")), Arc::clone(&clock));
    let (status, stop) = (session.watch(), Shutdown::new());
    let old = seawall_lmdb::fuzzing::wrapped(&seawall_lmdb::fuzzing::sample(&[]));
    let drive = async {
        until("it has sent", async || status.borrow().start.is_over() && status.borrow().sent.is_some()).await;
        assert_eq!((status.borrow().sent_as, status.borrow().old_peers.len()), (Codec::Zstd, 0));
        let name = ObjectKey::new("main__old__20260101-000000-000000000__GX.pb.gz").unwrap();
        vault.put(&name, old.into(), None).await.unwrap();
        until("it is sent again", async || status.borrow().sent_as == Codec::Gzip).await;
        assert_eq!(status.borrow().old_peers, ["old"]);
        stop.begin();
    };
    let (result, ()) = tokio::join!(session.run(&stop), drive);
    result.unwrap();
    let name = names(&vault).await.into_iter().rfind(|name| name.starts_with("main__b__")).unwrap();
    assert!(name.ends_with(".pb.gz"), "{name}");
}
