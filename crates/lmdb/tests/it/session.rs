//! Several environments that share a vault.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seawall_core::Shutdown;
use seawall_lmdb::snapshot::SnapshotName;
use seawall_lmdb::{Flags, NanoClock, Report, Session, Stamp, SyncOptions};
use seawall_vault::memory::MemoryStore;
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
