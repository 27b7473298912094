//! Sessions that are told by events of commits and of new objects.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seawall_core::{Failure, Shutdown};
use seawall_lmdb::{Flags, NanoClock, Session, SessionStatus, Stamp, SyncOptions, system_clock};
use seawall_vault::{FileStore, Policy, Vault};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::neighbours::{neighbour, stop};
use crate::support::{author, dump, open, put, schema};

/// Longer than any test waits: what happens before came by an event.
const NEVER: Duration = Duration::from_secs(86_400);

/// Less than a sweep.
const SOON: Duration = Duration::from_secs(50);

pub(crate) fn folder_vault(folder: &Path) -> Vault {
    Vault::new(Arc::new(FileStore::new(folder.join("vault"))), Policy::default())
}

/// A session that runs.
pub(crate) struct Running {
    pub(crate) status: watch::Receiver<SessionStatus>,
    pub(crate) shutdown: Shutdown,
    task: JoinHandle<(Session, Result<(), Failure>)>,
}

impl Running {
    pub(crate) fn start(folder: &Path, name: &str, vault: &Vault, how: SyncOptions) -> Self {
        Self::start_at(folder, name, vault, how, system_clock())
    }

    fn start_at(folder: &Path, name: &str, vault: &Vault, how: SyncOptions, clock: NanoClock) -> Self {
        let local = open(&folder.join(name), &schema(false, false));
        let mut session = Session::new(local, vault.clone(), how, clock);
        let (status, shutdown) = (session.watch(), Shutdown::new());
        let stop = shutdown.clone();
        let task = tokio::spawn(async move {
            let ended = session.run(&stop).await;
            (session, ended)
        });
        Self { status, shutdown, task }
    }

    /// Waits until the status is as wanted.
    pub(crate) async fn until(&mut self, what: &str, wanted: impl FnMut(&SessionStatus) -> bool) {
        if timeout(SOON, self.status.wait_for(wanted)).await.is_err() {
            panic!("{what}: {:?}", *self.status.borrow());
        }
    }

    pub(crate) async fn end(self) -> (Session, Result<(), Failure>) {
        self.shutdown.begin();
        timeout(Duration::from_secs(60), self.task).await.expect("it ends").unwrap()
    }
}

fn by_events(name: &str) -> SyncOptions {
    let watcher = seawall_host::Watcher::start(NEVER).expect("inotify");
    SyncOptions { poll: NEVER, list: NEVER, watcher: Some(watcher), ..SyncOptions::new(author(name)) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_comes_to_the_other_environment_though_nothing_is_polled() {
    let folder = tempfile::tempdir().unwrap();
    let vault = folder_vault(folder.path());
    std::fs::create_dir(folder.path().join("vault")).unwrap();
    put(open(&folder.path().join("a"), &schema(false, false)).env(), "d", Flags::default(), b"first", b"1");
    let mut a = Running::start(folder.path(), "a", &vault, by_events("a"));
    a.until("the first snapshot", |status| status.start.stored).await;
    let mut b = Running::start(folder.path(), "b", &vault, by_events("b"));
    b.until("the first merge", |status| status.start.is_over()).await;
    // The least time between two snapshots is as long as anything here: the first one of the session was sent just now.
    let (a, ended) = a.end().await;
    ended.unwrap();
    drop(a);
    let quick = SyncOptions { poll: Duration::from_millis(1), ..by_events("a") };
    let mut a = Running::start(folder.path(), "a", &vault, quick);
    a.until("the start", |status| status.start.is_over() && status.rounds.1 > 0).await;
    crate::shared::elsewhere("put", &folder.path().join("a"));
    b.until("the commit", |status| status.environment.as_ref().is_some_and(|env| entries(env, "d") == 2)).await;
    let ((a, ended), (b, also)) = (a.end().await, b.end().await);
    ended.unwrap();
    also.unwrap();
    let pairs = |session: &Session| dump(session.local().unwrap().env())[b"d".as_slice()].clone();
    assert_eq!(pairs(&a), pairs(&b));
}

fn entries(env: &seawall_lmdb::EnvStatus, dbi: &str) -> u64 {
    env.dbis.iter().find(|(name, _, _)| name == dbi).map_or(0, |(_, _, stat)| stat.entries)
}

#[tokio::test(start_paused = true)]
async fn while_nothing_happens_nothing_is_listed_and_nobody_is_woken() {
    let folder = tempfile::tempdir().unwrap();
    let vault = folder_vault(folder.path());
    put(open(&folder.path().join("a"), &schema(false, false)).env(), "d", Flags::default(), b"k", b"1");
    std::fs::create_dir(folder.path().join("vault")).unwrap();
    let usual = SyncOptions { poll: Duration::from_secs(1), list: Duration::from_secs(1), ..by_events("a") };
    let usual = SyncOptions { force: None, ..usual };
    // Long after the folder was changed: no time passes for the file system in this test.
    let clock: NanoClock = Arc::new(|| Stamp(system_clock()().0 + 3_600_000_000_000));
    let mut session = Running::start_at(folder.path(), "a", &vault, usual, clock);
    let begun = Instant::now();
    // The clock moves only while everything waits.
    while begun.elapsed() < Duration::from_secs(3600) {
        sleep(Duration::from_secs(600)).await;
    }
    let (counts, rounds) = (vault.counts(), session.status.borrow_and_update().rounds.0);
    assert!(rounds <= 70, "one look a minute, and the few that our own writes tell of: {rounds}");
    assert!(counts.list <= 16, "a folder that didn't change is listed every five minutes: {}", counts.list);
    assert!(counts.get + counts.head <= 4, "{counts:?}");
    session.end().await.1.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_through_memory_raises_no_event_and_is_polled() {
    let folder = tempfile::tempdir().unwrap();
    let (vault, a) = (folder_vault(folder.path()), folder.path().join("a"));
    put(open(&a, &schema(false, false)).env(), "d", Flags::default(), b"k", b"1");
    let child = neighbour("through-memory", &a);
    let how = SyncOptions { poll: Duration::from_millis(20), ..by_events("a") };
    let mut session = Running::start(folder.path(), "a", &vault, how);
    session.until("the first snapshot", |status| status.start.stored).await;
    let sent = session.status.borrow().sent;
    std::fs::write(a.join("go"), "").unwrap();
    session.until("the commit", |status| status.sent > sent).await;
    stop(child, &a);
    let (session, ended) = session.end().await;
    ended.unwrap();
    assert_eq!(dump(session.local().unwrap().env())[b"d".as_slice()].1[0].1, b"through memory");
}
