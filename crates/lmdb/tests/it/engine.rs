//! An environment as the agent and the commands know it: kept in step, looked at, restored, read back.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seawall_core::abilities::*;
use seawall_core::{IntegrityCheck, NoProgress, Phase, RestoreRequest, Shutdown, When};
use seawall_lmdb::{Env, EnvOptions, Flags, Lmdb, LmdbOptions, NanoClock, Settings, SyncOptions, system_clock};
use seawall_vault::memory::MemoryStore;
use seawall_vault::{ObjectKey, Policy, Vault};

use crate::support::{Dump, author, delete, dump, options, put, schema};

struct Setting {
    folder: tempfile::TempDir,
    store: Arc<MemoryStore>,
    clock: NanoClock,
}

impl Setting {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), store: Arc::default(), clock: system_clock() }
    }

    fn vault(&self) -> Vault {
        Vault::new(self.store.clone(), Policy::default())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The engine of an environment; `native` says what it looks like, `no_subdir` that it is a file.
    fn engine(&self, name: &str, native: bool, no_subdir: bool) -> Arc<Lmdb> {
        let often = Duration::from_millis(10);
        let sync = SyncOptions { poll: often, list: often, retry: often, ..SyncOptions::new(author(name)) };
        let env = EnvOptions { no_subdir, ..options() };
        let settings = Settings::new(schema(native, false));
        let options = LmdbOptions { path: self.path(name), env, settings, sync };
        Arc::new(Lmdb::new(self.vault(), options, Arc::clone(&self.clock)))
    }

    fn with<T>(&self, name: &str, no_subdir: bool, act: impl FnOnce(&Env) -> T) -> T {
        act(&Env::open(&self.path(name), &EnvOptions { no_subdir, ..options() }).unwrap())
    }
}

fn request(output: &Path, when: When) -> RestoreRequest {
    RestoreRequest { output: output.to_owned(), when, force: false, dry_run: false, integrity: IntegrityCheck::None }
}

/// What the application sees; without the numbers of transactions, which are each environment's own.
fn own(all: &Dump, native: bool) -> Dump {
    let plain = |(key, value): &(Vec<u8>, Vec<u8>)| {
        let mut value = value.clone();
        if native {
            value[8..16].fill(0);
        }
        (key.clone(), value)
    };
    let dbis = all.iter().filter(|(name, _)| !name.starts_with(b"_sync"));
    dbis.map(|(name, (flags, pairs))| (name.clone(), (*flags, pairs.iter().map(plain).collect()))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_snapshot_is_a_point_that_comes_back() {
    for (native, no_subdir) in [(false, false), (false, true), (true, false)] {
        let setting = Setting::new();
        let engine = setting.engine("a", native, no_subdir);
        let mut states = Vec::new();
        for n in 0..4_u8 {
            setting.with("a", no_subdir, |env| {
                let header = [&(100 + u64::from(n)).to_be_bytes()[..], &[0; 16]].concat();
                let value = [if native { &header[..] } else { &[] }, &[n; 100]].concat();
                put(env, "d", Flags::default(), &[n], &value);
                put(env, "d", Flags::default(), b"same", &value);
                if n == 3 && !native {
                    delete(env, "d", &[1]);
                }
            });
            let point = engine.take_point(&Shutdown::new()).await.unwrap();
            states.push((point, setting.with("a", no_subdir, |env| own(&dump(env), native))));
        }
        let timeline = engine.timeline().await.unwrap();
        let points: Vec<_> = timeline.spans.iter().map(|span| span.to.clone()).collect();
        assert_eq!(points, states.iter().map(|(point, _)| point.clone()).collect::<Vec<_>>());
        for (n, (point, state)) in states.iter().enumerate() {
            for (how, when) in
                [When::Position(point.position.clone()), When::Moment(point.moment)].into_iter().enumerate()
            {
                let name = format!("back-{n}-{how}");
                let restored =
                    engine.restore(&request(&setting.path(&name), when), Arc::new(NoProgress)).await.unwrap();
                assert_eq!(restored.point, *point);
                assert_eq!(setting.with(&name, no_subdir, |env| own(&dump(env), native)), *state, "{point:?}");
            }
        }
        let latest = setting.path("latest");
        let planned = RestoreRequest { dry_run: true, ..request(&latest, When::Latest) };
        let planned = engine.restore(&planned, Arc::new(NoProgress)).await.unwrap();
        assert_eq!((planned.point, planned.objects.len()), (states[3].0.clone(), 1));
        assert!(!latest.exists());
        let found = engine.verify_strong(Arc::new(NoProgress)).await.unwrap();
        assert_eq!((found.compared, found.verification.findings.len()), (4, 0), "{found:?}");
        assert_eq!(found.verification.newest, Some(states[3].0.clone()));
        assert_eq!(engine.status().await.unwrap().phase, Phase::Stopped);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_several_instances_wrote_comes_back_together() {
    let setting = Setting::new();
    for (name, key) in [("a", b"left"), ("b", b"rite")] {
        setting.with(name, false, |env| put(env, "d", Flags::default(), key, name.as_bytes()));
        // Each alone: neither has seen the other.
        setting.engine(name, false, false).take_point(&Shutdown::new()).await.unwrap();
    }
    let engine = setting.engine("c", false, false);
    let timeline = engine.timeline().await.unwrap();
    assert_eq!(timeline.levels.len(), 2);
    let restored = engine.restore(&request(&setting.path("c"), When::Latest), Arc::new(NoProgress)).await.unwrap();
    assert_eq!(restored.objects.len(), 2);
    let pairs = setting.with("c", false, |env| dump(env)[b"d".as_slice()].1.clone());
    assert_eq!(pairs, [(b"left".to_vec(), b"a".to_vec()), (b"rite".to_vec(), b"b".to_vec())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_destroys_nothing() {
    let setting = Setting::new();
    let engine = setting.engine("a", false, false);
    let nothing = engine.restore(&request(&setting.path("x"), When::Latest), Arc::new(NoProgress)).await;
    assert_eq!(nothing.unwrap_err().code, "lmdb.nothing-there");
    setting.with("a", false, |env| put(env, "d", Flags::default(), b"k", b"1"));
    let first = engine.take_point(&Shutdown::new()).await.unwrap();
    let there = engine.restore(&request(&setting.path("a"), When::Latest), Arc::new(NoProgress)).await;
    assert_eq!(there.unwrap_err().code, "lmdb.exists");
    let before = When::Moment(seawall_core::Moment::from_millis(first.moment.as_millis() - 1));
    let too_early = engine.restore(&request(&setting.path("x"), before), Arc::new(NoProgress)).await;
    assert_eq!(too_early.unwrap_err().code, "lmdb.nothing-there");

    setting.with("a", false, |env| put(env, "d", Flags::default(), b"k", b"2"));
    engine.take_point(&Shutdown::new()).await.unwrap();
    let force = RestoreRequest { force: true, ..request(&setting.path("a"), When::Position(first.position.clone())) };
    engine.restore(&force, Arc::new(NoProgress)).await.unwrap();
    assert_eq!(setting.with("a", false, |env| dump(env)[b"d".as_slice()].1[0].1.clone()), b"1");

    let damaged = "main__a__25000101-000000-000000000__GX.pb.gz";
    setting.vault().put(&ObjectKey::new(damaged).unwrap(), "no snapshot".into(), None).await.unwrap();
    let one = engine.restore(&request(&setting.path("x"), When::Position(damaged.into())), Arc::new(NoProgress)).await;
    assert_eq!(one.unwrap_err().code, "lmdb.bad-snapshot");
    let left: Vec<_> = std::fs::read_dir(setting.folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["a"], "nothing half made is left");
    let latest = engine.restore(&request(&setting.path("x"), When::Latest), Arc::new(NoProgress)).await.unwrap();
    assert_ne!(latest.point.position, damaged, "the one before it serves");
    let found = engine.verify(Arc::new(NoProgress)).await.unwrap();
    assert_eq!((found.objects, found.findings.len()), (3, 1));
    assert_eq!((found.findings[0].code, found.findings[0].object.as_str()), ("lmdb.bad-snapshot", damaged));
    assert_eq!(found.newest, Some(latest.point));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_kept_in_step_and_says_so() {
    let setting = Setting::new();
    let engine = setting.engine("a", false, false);
    assert_eq!(engine.status().await.unwrap_err().code, "lmdb.no-state");
    assert_eq!(engine.sync().await.unwrap_err().code, "lmdb.not-running");
    let shutdown = Shutdown::new();
    let running = tokio::spawn({
        let (engine, shutdown) = (Arc::clone(&engine), shutdown.clone());
        async move { engine.run(&shutdown).await }
    });
    let until = async |what: &str, phase: Phase| {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while engine.status().await.ok().map(|status| status.phase) != Some(phase) {
            assert!(tokio::time::Instant::now() < deadline, "{what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    until("it begins", Phase::Protecting).await;
    assert_eq!(engine.sync().await.unwrap_err().code, "lmdb.empty");
    // The process has the environment open already, so that another one writes.
    crate::shared::elsewhere("put", &setting.path("a"));
    let point = engine.sync().await.unwrap();
    assert_eq!(engine.status().await.unwrap().protected, Some(point.clone()));
    assert_eq!(engine.timeline().await.unwrap().newest(), Some(&point));
    assert!(engine.figures().captures.done >= 1);
    shutdown.begin();
    running.await.unwrap().unwrap();
    let status = engine.status().await.unwrap();
    assert_eq!((status.phase, status.protected), (Phase::Stopped, Some(point)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_another_process_keeps_in_step_is_taken_over_when_that_ends() {
    let setting = Setting::new();
    setting.with("a", false, |env| put(env, "d", Flags::default(), b"k", b"1"));
    let engine = setting.engine("a", false, false);
    // What another process holds.
    let lock = std::fs::File::create(setting.path("a").join("data.mdb-seawall.lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(engine.take_point(&Shutdown::new()).await.unwrap_err().code, "lmdb.locked");
    let shutdown = Shutdown::new();
    let running = tokio::spawn({
        let (engine, shutdown) = (Arc::clone(&engine), shutdown.clone());
        async move { engine.run(&shutdown).await }
    });
    let until = async |what: &str, wanted: (Phase, Option<&str>)| {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(120);
        loop {
            let status = engine.status().await.ok();
            let found = status.map(|status| (status.phase, status.error.map(|error| error.code)));
            if found.as_ref().map(|(phase, code)| (*phase, code.as_deref())) == Some(wanted) {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "{what}: {found:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    until("it waits, and says for what", (Phase::Failing, Some("lmdb.locked"))).await;
    assert_eq!(engine.sync().await.unwrap_err().code, "lmdb.not-running");
    assert!(!setting.path("a").join("data.mdb-seawall.json").exists(), "the record is the other's");
    lock.unlock().unwrap();
    until("it goes on", (Phase::Protecting, None)).await;
    shutdown.begin();
    running.await.unwrap().unwrap();
    assert_eq!(engine.timeline().await.unwrap().spans.len(), 1);
}

#[tokio::test]
async fn a_vault_alone_is_looked_at_and_not_restored() {
    let setting = Setting::new();
    assert_eq!(Lmdb::alone_in(&setting.vault()).await.unwrap(), None);
    setting.with("a", false, |env| put(env, "d", Flags::default(), b"k", b"1"));
    setting.engine("a", false, false).take_point(&Shutdown::new()).await.unwrap();
    let name = Lmdb::alone_in(&setting.vault()).await.unwrap().unwrap();
    assert_eq!(name, "main");
    let engine = Lmdb::of_vault(setting.vault(), name, Arc::clone(&setting.clock));
    assert_eq!(engine.timeline().await.unwrap().spans.len(), 1);
    assert_eq!(engine.verify(Arc::new(NoProgress)).await.unwrap().objects, 1);
    let restored = engine.restore(&request(&setting.path("x"), When::Latest), Arc::new(NoProgress)).await;
    assert_eq!(restored.unwrap_err().code, "lmdb.unknown-schema");
    let other = ObjectKey::new("other__a__20260101-000000-000000000__GX.pb.gz").unwrap();
    setting.vault().put(&other, "x".into(), None).await.unwrap();
    assert_eq!(Lmdb::alone_in(&setting.vault()).await.unwrap_err().code, "lmdb.several-databases");
}
