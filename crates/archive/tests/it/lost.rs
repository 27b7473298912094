//! A process that backs up by a schedule, and a chain whose newest links go: what is told, and when that ends.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use seawall_archive::server::{BackUp, Dumped, EngineNames};
use seawall_archive::{
    Catalog, Codec, Record, RetentionPolicy, Retired, Retirement, Schedule, Scheduled, Sets, Stages,
};
use seawall_core::abilities::*;
use seawall_core::{Clock, Failure, Moment, Progress, Shutdown, Status, Steady, Thinning};
use seawall_vault::memory::MemoryStore;
use seawall_vault::simulated::{Chances, SimulatedStore};
use seawall_vault::{ObjectKey, Policy, Store, Vault};
use tokio::time::Instant;

use crate::support::{Still, id, objects, put, vault, write};

static NAMES: EngineNames = EngineNames {
    name: "test",
    interrupted: "test.interrupted",
    not_running: "test.not-running",
    not_backed_up: "test.not-backed-up",
    different: "test.different",
    no_file: "test.no-file",
    url: "test://",
};

/// A source with a small table.
struct Small;

#[async_trait]
impl BackUp for Small {
    fn engine(&self) -> &'static EngineNames {
        &NAMES
    }

    fn url(&self) -> String {
        "test://here".to_owned()
    }

    async fn back_up(&self, vault: &Vault, nth: u32, _: Arc<dyn Progress>) -> Result<Dumped, Failure> {
        let manifest = set(vault, 10 + i64::from(nth)).await;
        Ok(Dumped {
            manifest,
            whole: false,
            databases: Vec::new(),
            invalid: Vec::new(),
            as_text: Vec::new(),
            journals: Vec::new(),
            left_out: Vec::new(),
            stages: Stages::default(),
            duration_ms: 1,
        })
    }
}

/// A set of `second`, as this process or another host makes it.
async fn set(vault: &Vault, second: i64) -> seawall_archive::Manifest {
    let tables = vec![("public.t".to_owned(), format!("{second}\n").into_bytes())];
    write(vault, id(second), Codec::default(), &tables).await.expect("written")
}

/// A process that made its first backup, whose clock stands still: no loss is over because an hour is.
async fn process(vault: &Vault) -> (Arc<Scheduled>, Shutdown) {
    process_with(vault, Arc::new(Still(1_000_000)), None).await
}

async fn process_with(
    vault: &Vault,
    clock: Arc<dyn Clock>,
    retention: Option<RetentionPolicy>,
) -> (Arc<Scheduled>, Shutdown) {
    let schedule = Schedule::parse("0 3 1 6 *", "shop").expect("a schedule");
    let sets = Sets::new(vault.clone(), retention, clock.clone(), 1, 2);
    let engine = Arc::new(Scheduled::new("shop".to_owned(), Arc::new(Small), schedule, sets, clock));
    let shutdown = Shutdown::new();
    let (running, stop) = (Arc::clone(&engine), shutdown.clone());
    tokio::spawn(async move { running.run(&stop).await });
    until(&engine, "a backup", |status| status.protected.is_some()).await;
    (engine, shutdown)
}

/// Waits in simulated time.
async fn until(engine: &Scheduled, what: &str, is_so: impl Fn(&Status) -> bool) -> Status {
    let deadline = Instant::now() + Duration::from_secs(24 * 3600);
    loop {
        let status = engine.known_status().await.expect("a status");
        if is_so(&status) {
            return status;
        }
        assert!(Instant::now() < deadline, "it doesn't come to {what}: {status:?}");
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
}

/// The status after the process looked at its vault twice more.
async fn looked(engine: &Scheduled) -> Status {
    tokio::time::sleep(Duration::from_secs(2 * 3600 + 60)).await;
    engine.known_status().await.expect("a status")
}

fn code(status: &Status) -> Option<&str> {
    status.error.as_ref().map(|error| error.code.as_str())
}

fn link(number: u64) -> ObjectKey {
    ObjectKey::new(format!("chain/{number:08}.json")).expect("a key")
}

#[tokio::test(start_paused = true)]
async fn listings_that_are_late_are_no_loss() {
    let chances = Chances { stale_list: 1000, ..Chances::default() };
    let store = SimulatedStore::new(MemoryStore::new(), 1).with_chances(chances);
    let vault = Vault::new(Arc::new(store), Policy { seed: 1, ..Policy::default() });
    let (engine, shutdown) = process(&vault).await;
    for _ in 0..3 {
        engine.sync().await.expect("backed up");
        let status = looked(&engine).await;
        assert_eq!((code(&status), status.protected.is_some()), (None, true), "{status:?}");
    }
    shutdown.begin();
}

#[tokio::test(start_paused = true)]
async fn a_link_of_another_host_in_the_place_of_the_newest_is_a_loss() {
    let store = MemoryStore::new();
    let vault = vault(&store);
    let (engine, shutdown) = process(&vault).await;
    let gone = engine.sync().await.expect("backed up");
    assert_eq!(code(&looked(&engine).await), None);
    store.delete(&[link(2)]).await.expect("memory");
    set(&vault, 500).await;
    let told = until(&engine, "the loss", |status| status.error.is_some()).await;
    assert_eq!(code(&told), Some("archive.lost"));
    assert!(told.error.expect("an error").message.contains(&gone.position));
    assert_eq!(told.protected.map(|point| point.position), Some(id(500).to_string()), "what the vault has now");
    shutdown.begin();
}

#[tokio::test(start_paused = true)]
async fn a_loss_ends_when_the_link_is_there_again() {
    let store = MemoryStore::new();
    let vault = vault(&store);
    let (engine, shutdown) = process(&vault).await;
    let first = engine.known_status().await.expect("a status").protected;
    let newest = engine.sync().await.expect("backed up");
    assert_eq!(code(&looked(&engine).await), None);
    let bytes = objects(&store).await[link(2).as_str()].clone();
    store.delete(&[link(2)]).await.expect("memory");
    let told = until(&engine, "the loss", |status| status.error.is_some()).await;
    assert_eq!((code(&told), &told.protected), (Some("archive.lost"), &first));
    assert_eq!(code(&looked(&engine).await), Some("archive.lost"), "nothing changed");
    put(&vault, link(2).as_str(), bytes).await;
    let well = until(&engine, "its end", |status| status.error.is_none()).await;
    assert_eq!(well.protected, Some(newest));
    shutdown.begin();
}

#[tokio::test(start_paused = true)]
async fn a_set_that_another_host_retired_and_deleted_is_no_loss() {
    let store = MemoryStore::new();
    let vault = vault(&store);
    let (engine, shutdown) = process(&vault).await;
    assert_eq!(code(&looked(&engine).await), None);
    set(&vault, 500).await;
    let mut catalog = Catalog::read(&vault).await.expect("read");
    let (found, manifest) = catalog.sets()[0];
    let set = Retired { number: 1, id: manifest.id, blake3: found.blake3, rule: "a test".into() };
    let retirement = Retirement { at: Moment::default(), nonce: 1, retired: vec![set] };
    catalog.add(Record::Retirement(retirement)).await.expect("added");
    store.delete(&[link(1)]).await.expect("memory");
    let status = looked(&engine).await;
    assert_eq!(code(&status), None, "{status:?}");
    shutdown.begin();
}

/// A clock that goes with simulated time.
#[derive(Debug)]
struct Going(Instant);

impl Clock for Going {
    fn now(&self) -> Moment {
        Moment::from_millis(1_000_000).after(self.0.elapsed())
    }

    fn steady(&self) -> Steady {
        Steady { boot: 0, millis: 0 }
    }
}

/// The next backup is due in months. Retention doesn't wait for it.
#[tokio::test(start_paused = true)]
async fn retention_that_failed_is_tried_again_before_the_next_backup() {
    let store = MemoryStore::new();
    let vault = vault(&store);
    let grace = Duration::from_secs(3600);
    let policy = RetentionPolicy { enabled: true, window: None, thinning: Thinning::default(), grace };
    let (engine, shutdown) = process_with(&vault, Arc::new(Going(Instant::now())), Some(policy)).await;
    for _ in 0..2 {
        engine.sync().await.expect("backed up");
    }
    let bytes = objects(&store).await[link(2).as_str()].clone();
    store.delete(&[link(2)]).await.expect("memory");
    engine.sync().await.expect("backed up");
    let told = until(&engine, "three failures", |status| status.upkeep.as_ref().is_some_and(|error| error.count >= 3));
    let told = told.await;
    assert_eq!(told.upkeep.map(|error| error.code).as_deref(), Some("archive.alarm"));
    put(&vault, link(2).as_str(), bytes).await;
    until(&engine, "its end", |status| status.upkeep.is_none()).await;
    assert_eq!(engine.figures().bases.done, 4, "no other backup was made");
    shutdown.begin();
}
