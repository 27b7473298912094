//! What was sent is looked at again: it may be lost, and somebody else may write under our name.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seawall_core::{Engine as _, NoProgress, Phase, Protect as _, Shutdown};
use seawall_lmdb::snapshot::SnapshotName;
use seawall_lmdb::{Flags, Lmdb, LmdbOptions, Retention, Settings, SyncOptions, system_clock};
use seawall_testing::{Forwarding, Gate, Hooks};
use seawall_vault::memory::MemoryStore;
use seawall_vault::{ObjectKey, Policy, Prefix, Vault};
use tokio::time::{sleep, timeout};

use crate::hints::{Running, folder_vault};
use crate::support::{author, dump, open, put, schema};

const SECOND: Duration = Duration::from_secs(1);

fn make(folder: &Path, name: &str, key: &[u8]) {
    put(open(&folder.join(name), &schema(false, false)).env(), "d", Flags::default(), key, b"value");
}

fn quick(name: &str) -> SyncOptions {
    let often = Duration::from_millis(20);
    SyncOptions { poll: often, list: often, retry: often, ..SyncOptions::new(author(name)) }
}

fn evented(name: &str) -> SyncOptions {
    let watcher = seawall_host::Watcher::start(Duration::from_secs(86_400)).expect("inotify");
    SyncOptions { watcher: Some(watcher), ..quick(name) }
}

async fn names(vault: &Vault) -> Vec<String> {
    let entries = vault.list(&Prefix::all(), None).await.unwrap();
    entries.into_iter().map(|entry| entry.key.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_is_removed_or_cut_is_told_and_sent_again() {
    for how in [quick("a"), evented("a")] {
        for cut in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (vault, folder) = (folder_vault(folder.path()), folder.path());
            std::fs::create_dir(folder.join("vault")).unwrap();
            make(folder, "a", b"k");
            let mut session = Running::start(folder, "a", &vault, how.clone());
            session.until("the start", |status| status.start.is_over() && status.sent.is_some()).await;
            sleep(Duration::from_millis(200)).await;
            let first = names(&vault).await.remove(0);
            let object = folder.join("vault").join(&first);
            if cut {
                std::fs::OpenOptions::new().write(true).open(&object).unwrap().set_len(7).unwrap();
            } else {
                std::fs::remove_file(&object).unwrap();
            }
            if cut && how.watcher.is_none() {
                // A folder's time doesn't tell of a file in it; a stop looks at everything.
                let (_, ended) = session.end().await;
                ended.unwrap();
            } else {
                session.until("the loss to be told", |status| status.alarms.contains_key("lmdb.lost")).await;
                session.until("another one", |status| status.lost == 1 && status.rounds.1 == status.rounds.0).await;
                session.end().await.1.unwrap();
            }
            let found = names(&vault).await;
            assert!(found.iter().any(|name| *name > first), "{found:?}");
            let other = SyncOptions { only_once: true, ..SyncOptions::new(author("b")) };
            let (other, ended) = Running::start(folder, "b", &vault, other).end().await;
            ended.unwrap();
            assert_eq!(dump(other.local().unwrap().env())[b"d".as_slice()].1.len(), 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_vanishes_fails_a_stop_and_one_in_its_place_gets_a_snapshot() {
    for again in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (vault, folder) = (folder_vault(folder.path()), folder.path());
        std::fs::create_dir(folder.join("vault")).unwrap();
        make(folder, "a", b"k");
        let mut session = Running::start(folder, "a", &vault, quick("a"));
        session.until("the start", |status| status.start.is_over() && status.sent.is_some()).await;
        std::fs::rename(folder.join("vault"), folder.join("old")).unwrap();
        if !again {
            let ended = session.end().await.1.unwrap_err();
            assert_eq!(ended.code, "vault.vanished");
            continue;
        }
        std::fs::create_dir(folder.join("vault")).unwrap();
        session.until("it to be told", |status| status.alarms.contains_key("vault.replaced")).await;
        session.end().await.1.unwrap();
        assert_eq!(std::fs::read_dir(folder.join("vault")).unwrap().count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_told_for_a_minute_and_a_cleaned_snapshot_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let vault = Vault::new(Arc::new(MemoryStore::new()), Policy::default());
    make(folder.path(), "a", b"k");
    let mut session = Running::start(folder.path(), "a", &vault, SyncOptions::new(author("a")));
    session.until("the start", |status| status.start.is_over() && status.sent.is_some()).await;
    let first = names(&vault).await.remove(0);
    vault.delete(&[ObjectKey::new(&first).unwrap()]).await.unwrap();
    session.until("the loss", |status| status.alarms.contains_key("lmdb.lost")).await;
    sleep(50 * SECOND).await;
    assert!(session.status.borrow().alarms.contains_key("lmdb.lost"), "a monitor may look once a minute");
    assert_eq!(names(&vault).await.len(), 1, "it was sent again at once");
    sleep(20 * SECOND).await;
    assert!(session.status.borrow().alarms.is_empty());
    assert_eq!((session.status.borrow().lost, names(&vault).await.len()), (1, 1));
    session.end().await.1.unwrap();
}

#[tokio::test(start_paused = true)]
async fn another_writer_with_our_name_is_told_and_a_stop_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let vault = Vault::new(Arc::new(MemoryStore::new()), Policy::default());
    make(folder.path(), "a", b"here");
    make(folder.path(), "twin", b"there");
    let mut session = Running::start(folder.path(), "a", &vault, SyncOptions::new(author("a")));
    session.until("the start", |status| status.start.is_over() && status.sent.is_some()).await;
    sleep(5 * SECOND).await;
    assert!(session.status.borrow().alarms.is_empty());
    let once = SyncOptions { only_once: true, ..SyncOptions::new(author("a")) };
    Running::start(folder.path(), "twin", &vault, once).end().await.1.unwrap();
    session.until("it to be told", |status| status.alarms.contains_key("lmdb.two-writers")).await;
    sleep(1200 * SECOND).await;
    assert!(session.status.borrow().alarms.contains_key("lmdb.two-writers"), "theirs is the newest");
    assert_eq!(session.end().await.1.unwrap_err().code, "lmdb.two-writers");
    // A start of the same host takes what is there for its own.
    let mut session = Running::start(folder.path(), "a", &vault, SyncOptions::new(author("a")));
    session.until("the start", |status| status.start.is_over() && status.sent.is_some()).await;
    sleep(5 * SECOND).await;
    session.end().await.1.unwrap();
}

#[tokio::test]
async fn a_snapshot_of_another_database_or_instance_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let vault = Vault::new(Arc::new(MemoryStore::new()), Policy::default());
    make(folder.path(), "a", b"ours");
    make(folder.path(), "x", b"foreign");
    let once = |name: &str| SyncOptions { only_once: true, ..SyncOptions::new(author(name)) };
    Running::start(folder.path(), "a", &vault, once("a")).end().await.1.unwrap();
    let mut other = once("two");
    other.author.database = "other".to_owned();
    Running::start(folder.path(), "x", &vault, other).end().await.1.unwrap();
    let theirs = names(&vault).await.into_iter().find(|name| name.starts_with("other__")).unwrap();
    let bytes = vault.read(&ObjectKey::new(&theirs).unwrap(), None, 1 << 20).await.unwrap();
    let name = SnapshotName { database: "main".to_owned(), ..SnapshotName::parse(&theirs).unwrap() };
    let ours = names(&vault).await.into_iter().find(|name| name.starts_with("main__a__")).unwrap();
    let same = vault.read(&ObjectKey::new(&ours).unwrap(), None, 1 << 20).await.unwrap();
    let renamed = SnapshotName { instance: "three".to_owned(), ..SnapshotName::parse(&ours).unwrap() };
    let wrong = [(name.to_string(), bytes), (renamed.to_string(), same)];
    for (name, bytes) in &wrong {
        vault.put(&ObjectKey::new(name).unwrap(), bytes.clone(), None).await.unwrap();
    }
    let (session, ended) = Running::start(folder.path(), "a", &vault, once("a")).end().await;
    ended.unwrap();
    assert_eq!(session.report().damaged.len(), 2, "{:?}", session.report().damaged);
    let pairs = &dump(session.local().unwrap().env())[b"d".as_slice()].1;
    assert_eq!(pairs.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>(), [b"ours".to_vec()]);
    drop(session);
    let engine = Lmdb::of_vault(vault, "main".to_owned(), system_clock());
    let found = engine.history().verify(Arc::new(NoProgress)).await.unwrap();
    let mut codes: Vec<_> = found.findings.iter().map(|finding| (finding.code, finding.object.clone())).collect();
    codes.sort();
    let mut expected = wrong.map(|(name, _)| ("lmdb.foreign-snapshot", name));
    expected.sort();
    assert_eq!(codes, expected);
}

fn engine(folder: &Path, vault: &Vault) -> Arc<Lmdb> {
    let options = LmdbOptions {
        path: folder.join("a"),
        env: crate::support::options(),
        settings: Settings::new(schema(false, false)),
        sync: SyncOptions { only_once: false, ..SyncOptions::new(author("a")) },
    };
    Arc::new(Lmdb::new(vault.clone(), options, system_clock()))
}

/// A store that takes nothing and never says so: the status tells it, here and in the record that other processes read.
#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_told_within_seconds_with_the_lag() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), "a", b"k");
    let store = Gate::before(&MemoryStore::new());
    let vault = Vault::new(Arc::new(store.clone()), Policy::default());
    let (engine, shutdown) = (engine(folder.path(), &vault), Shutdown::new());
    let (running, stop) = (Arc::clone(&engine), shutdown.clone());
    let task = tokio::spawn(async move { running.run(&stop).await });
    let until = async |wanted: Phase| {
        let found = timeout(60 * SECOND, async {
            while engine.status().await.map(|status| status.phase).ok() != Some(wanted) {
                sleep(SECOND / 10).await;
            }
        });
        found.await.expect("in time");
    };
    until(Phase::Protecting).await;
    store.set(false);
    tokio::task::spawn_blocking({
        let folder = folder.path().join("a");
        move || crate::shared::elsewhere("put", &folder)
    })
    .await
    .unwrap();
    let begun = tokio::time::Instant::now();
    until(Phase::Failing).await;
    assert!(begun.elapsed() <= 15 * SECOND, "{:?}", begun.elapsed());
    let status = engine.status().await.unwrap();
    assert!(status.error.is_some() && status.lag_ms >= 5000, "{status:?}");
    sleep(3 * SECOND).await;
    let now = seawall_core::Moment::from_millis(i64::try_from(system_clock()().0 / 1_000_000).unwrap());
    let told = seawall_lmdb::read_status(&folder.path().join("a/data.mdb"), now).unwrap();
    assert_eq!(told.phase, Phase::Failing, "another process reads the record");
    store.set(true);
    until(Phase::Protecting).await;
    shutdown.begin();
    task.await.unwrap().unwrap();
}

/// Whether a store keeps what is to be deleted.
#[derive(Debug, Clone, Default)]
struct Kept(Arc<AtomicBool>);

impl Hooks for Kept {
    fn keeps_all(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_that_cannot_be_deleted_are_told_and_protection_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = Forwarding { inner: MemoryStore::new(), hooks: Kept::default() };
    let vault = Vault::new(Arc::new(store.clone()), Policy::default());
    for key in [b"a", b"b"] {
        make(folder.path(), "a", key);
        let how = SyncOptions { only_once: true, ..quick("a") };
        Running::start(folder.path(), "a", &vault, how).end().await.1.unwrap();
    }
    let before = names(&vault).await;
    store.hooks.0.store(true, Ordering::Relaxed);
    let day = Duration::from_secs(86_400);
    let rules = Retention { interval: Duration::from_millis(20), keep: Duration::ZERO, gone: day };
    let options = LmdbOptions {
        path: folder.path().join("a"),
        env: crate::support::options(),
        settings: Settings::new(schema(false, false)),
        sync: SyncOptions { clean: Some(rules), ..quick("a") },
    };
    let (engine, shutdown) = (Arc::new(Lmdb::new(vault.clone(), options, system_clock())), Shutdown::new());
    let (running, stop) = (Arc::clone(&engine), shutdown.clone());
    let task = tokio::spawn(async move { running.run(&stop).await });
    let until = async |failures: Option<u64>| {
        let found = timeout(60 * SECOND, async {
            loop {
                // Nothing is recorded before the session has begun.
                let Ok(status) = engine.status().await else {
                    sleep(SECOND / 100).await;
                    continue;
                };
                let count = status.upkeep.as_ref().map(|error| error.count);
                if status.phase == Phase::Protecting && (count >= failures && count.is_some() == failures.is_some()) {
                    return status;
                }
                sleep(SECOND / 100).await;
            }
        });
        found.await.expect("in time")
    };
    let told = until(Some(3)).await;
    let code = |error: Option<seawall_core::LastError>| error.map(|error| error.code);
    assert_eq!(code(told.upkeep.clone()).as_deref(), Some("vault.unavailable"), "{told:?}");
    assert_eq!(code(told.error).as_deref(), Some("vault.unavailable"));
    let record = async || {
        let now = seawall_core::Moment::from_millis(i64::try_from(system_clock()().0 / 1_000_000).unwrap());
        seawall_lmdb::read_status(&folder.path().join("a/data.mdb"), now).ok().and_then(|status| status.upkeep)
    };
    let recorded = timeout(60 * SECOND, async {
        while record().await.is_none_or(|error| error.count < 3) {
            sleep(SECOND / 100).await;
        }
    });
    recorded.await.expect("another process reads it");
    // Commits reach the vault all the same.
    engine.sync().await.unwrap();
    store.hooks.0.store(false, Ordering::Relaxed);
    let told = until(None).await;
    assert_eq!(told.error, None);
    timeout(60 * SECOND, async {
        while names(&vault).await.contains(&before[0]) {
            sleep(SECOND / 100).await;
        }
    })
    .await
    .expect("it is deleted");
    shutdown.begin();
    task.await.unwrap().unwrap();
}
