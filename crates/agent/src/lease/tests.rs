use seawall_testing::{Forwarding, Hooks};
use seawall_vault::memory::MemoryStore;
use seawall_vault::several::{Place, Settings, SeveralStore};
use seawall_vault::simulated::SimulatedStore;
use seawall_vault::{Condition, ObjectKey, Policy, PutOptions, Store};

use super::*;
use crate::testing::{Act, Stub};

const TTL: Duration = Duration::from_secs(30);

fn store() -> SimulatedStore {
    SimulatedStore::new(MemoryStore::new(), 1)
}

fn leased(store: &SimulatedStore, owner: &str) -> Arc<Leased> {
    let vault = Vault::new(Arc::new(store.clone()), Policy::default());
    let terms = Terms { owner: owner.to_owned(), ttl: TTL };
    Arc::new(Leased::new(Arc::new(Stub::new("app", Act::Work)), vault, terms))
}

struct Running {
    engine: Arc<Leased>,
    shutdown: Shutdown,
    task: JoinHandle<Result<(), Failure>>,
}

impl Running {
    fn start(store: &SimulatedStore, owner: &str) -> Self {
        let (engine, shutdown) = (leased(store, owner), Shutdown::new());
        let (run, asked) = (engine.clone(), shutdown.clone());
        let task = tokio::spawn(async move { run.run(&asked).await });
        Self { engine, shutdown, task }
    }

    /// `protecting`, or the code of what it waits for.
    async fn told(&self) -> String {
        let status = self.engine.status().await.expect("a status");
        status.error.map_or_else(|| status.phase.name().to_owned(), |error| error.code)
    }

    async fn stop(self) -> Result<(), Failure> {
        self.shutdown.begin();
        self.task.await.expect("no panic")
    }

    /// As `kill -9` does: nothing is given back.
    fn kill(self) {
        self.task.abort();
        if let Some(holding) = self.engine.holding.try_lock().ok().and_then(|mut holding| holding.take()) {
            holding.keep.abort();
        }
    }
}

async fn pass(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn the_next_one_comes_when_the_one_before_has_stopped() {
    let store = store();
    let first = Running::start(&store, "host-a:1");
    pass(1.0).await;
    let second = Running::start(&store, "host-b:1");
    // However long it takes, and however often it was renewed.
    pass(1000.0).await;
    assert_eq!((first.told().await.as_str(), second.told().await.as_str()), ("protecting", "agent.lease-held"));
    let error = second.engine.status().await.expect("a status").error.expect("why it waits");
    assert!(error.message.contains("host-a:1"), "{error:?}");
    assert_eq!(first.stop().await, Ok(()));
    pass(1.0).await;
    assert_eq!(second.told().await, "protecting");
    assert_eq!(second.stop().await, Ok(()));
    // A process doesn't wait when no other process has the lease.
    let third = Running::start(&store, "host-a:2");
    pass(0.1).await;
    assert_eq!(third.told().await, "protecting");
    third.kill();
}

#[tokio::test(start_paused = true)]
async fn one_that_is_gone_is_followed_when_its_lease_has_run_out() {
    let store = store();
    let first = Running::start(&store, "host-a:1");
    pass(100.0).await;
    first.kill();
    let second = Running::start(&store, "host-b:1");
    pass(TTL.as_secs_f64() - 1.0).await;
    assert_eq!(second.told().await, "agent.lease-held");
    pass(2.0).await;
    assert_eq!(second.told().await, "protecting");
    second.kill();
}

#[tokio::test(start_paused = true)]
async fn of_many_that_wait_one_comes_at_a_time() {
    let store = store();
    let mut all: Vec<Running> = (0..6).map(|n| Running::start(&store, &format!("host-{n}:1"))).collect();
    while !all.is_empty() {
        pass(60.0).await;
        let mut protecting = Vec::new();
        for (at, one) in all.iter().enumerate() {
            if one.told().await == "protecting" {
                protecting.push(at);
            }
        }
        let [one] = protecting[..] else { panic!("{protecting:?} of {} protect", all.len()) };
        // In turns by a stop and by a crash.
        match all.len() % 2 {
            0 => assert_eq!(all.remove(one).stop().await, Ok(())),
            _ => all.remove(one).kill(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_lease_another_has_stops() {
    let store = store();
    let first = Running::start(&store, "host-a:1");
    pass(5.0).await;
    let vault = Vault::new(Arc::new(store.clone()), Policy::default());
    let key = ObjectKey::new("lock.json").expect("a key");
    vault.put(&key, "somebody else's".into(), None).await.expect("put");
    pass(TTL.as_secs_f64()).await;
    let ended = first.task.await.expect("no panic");
    assert_eq!(ended.map_err(|failure| failure.code), Err("agent.lease-lost"));
    // What can't be understood is respected as long as a lease of our own would last.
    let second = Running::start(&store, "host-b:1");
    pass(TTL.as_secs_f64() - 1.0).await;
    assert_eq!(second.told().await, "agent.lease-held");
    pass(2.0).await;
    assert_eq!(second.told().await, "protecting");
    second.kill();
}

#[tokio::test(start_paused = true)]
async fn a_holder_goes_on_while_the_store_is_away() {
    let store = store();
    let first = Running::start(&store, "host-a:1");
    pass(5.0).await;
    store.fail_from(store.call_count());
    pass(2000.0).await;
    assert_eq!(first.told().await, "protecting");
    store.revive();
    let second = Running::start(&store, "host-b:1");
    pass(200.0).await;
    assert_eq!((first.told().await.as_str(), second.told().await.as_str()), ("protecting", "agent.lease-held"));
    first.kill();
    second.kill();
}

#[tokio::test(start_paused = true)]
async fn a_single_point_does_not_wait_for_ever() {
    let store = store();
    let first = Running::start(&store, "host-a:1");
    pass(1.0).await;
    let once = leased(&store, "host-b:1");
    let refused = once.take_point(&Shutdown::new()).await.expect_err("it is held");
    assert!(refused.code == "agent.lease-held" && refused.to_string().contains("host-a:1"), "{refused}");
    assert_eq!(first.stop().await, Ok(()));
    once.take_point(&Shutdown::new()).await.expect("a point");
    // It gave it back.
    let next = Running::start(&store, "host-c:1");
    pass(0.1).await;
    assert_eq!(next.told().await, "protecting");
    next.kill();
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_waiting() {
    let store = store();
    let (first, second) = (Running::start(&store, "host-a:1"), Running::start(&store, "host-b:1"));
    pass(3.0).await;
    assert_eq!(second.stop().await, Ok(()));
    assert_eq!(first.told().await, "protecting");
    first.kill();
}

/// An endpoint that takes every write, whatever its condition.
#[derive(Debug)]
struct Careless;

impl Hooks for Careless {
    fn needs_probe(&self) -> bool {
        true
    }

    fn options(&self, options: &PutOptions) -> PutOptions {
        PutOptions { condition: Condition::Always, ..options.clone() }
    }
}

/// A store whose kind has no compare-and-swap.
#[derive(Debug)]
struct WithoutVersions;

impl Hooks for WithoutVersions {
    fn needs_probe(&self) -> bool {
        true
    }

    fn refuses(&self, condition: &Condition) -> bool {
        matches!(condition, Condition::Match(_))
    }
}

fn leased_in(vault: &Vault) -> Arc<Leased> {
    let terms = Terms { owner: "host-a:1".to_owned(), ttl: TTL };
    Arc::new(Leased::new(Arc::new(Stub::new("app", Act::Work)), vault.clone(), terms))
}

fn vault_with(hooks: impl Hooks + 'static) -> Vault {
    Vault::new(Arc::new(Forwarding { inner: MemoryStore::new(), hooks }), Policy::default())
}

#[tokio::test(start_paused = true)]
async fn every_check_goes_by_what_the_probe_found() {
    for (vault, named) in [(vault_with(Careless), "can't be trusted"), (vault_with(WithoutVersions), "has no")] {
        // The backend itself promises versions, and the first check makes the only probe.
        assert!(vault.abilities().update);
        for attempt in 1..=3 {
            let ended = leased_in(&vault).run(&Shutdown::new()).await.expect_err("no lease in such a store");
            assert_eq!(ended.code, "agent.no-leases", "attempt {attempt}: {ended}");
            assert!(ended.cause.contains("compare-and-swap (If-Match)") && ended.cause.contains(named), "{ended}");
            assert!(!vault.needs_probe());
        }
        let lock = vault.head(&ObjectKey::new("lock.json").expect("a name")).await.expect("asked");
        assert_eq!(lock, None, "no lease is written");
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_beside_others_is_checked_as_well() {
    let place =
        |hooks| Place::from(Arc::new(Forwarding { inner: MemoryStore::named("second:"), hooks }) as Arc<dyn Store>);
    let first = Place::from(Arc::new(MemoryStore::named("first:")) as Arc<dyn Store>);
    let settings = Settings { record: None, notes: false, clock: Arc::new(SystemClock), judge: None, look: None };
    let vault = SeveralStore::vault(vec![first, place(Careless)], Policy::default(), settings);
    for _ in 0..2 {
        let ended = leased_in(&vault).run(&Shutdown::new()).await.expect_err("the second place could lead");
        assert_eq!(ended.code, "agent.no-leases", "{ended}");
    }
    let lacks: Vec<String> = vault.limits().into_iter().map(|limit| limit.lacks).collect();
    assert_eq!(lacks, ["create-only", "compare-and-swap"]);
}

/// What restores without the engine, as of several vaults, asks for its turn first.
#[tokio::test(start_paused = true)]
async fn a_turn_comes_when_the_holder_before_has_ended() {
    let store = store();
    let first = Running::start(&store, "one");
    pass(1.0).await;
    let second = leased(&store, "two");
    let turn = tokio::spawn(async move { second.turn().await });
    pass(120.0).await;
    assert!(!turn.is_finished(), "the first one has the lease");
    assert_eq!(first.stop().await, Ok(()));
    pass(1.0).await;
    assert_eq!(turn.await.expect("no panic"), Ok(()));
}

/// A restore failed after the wait, and the database is given up.
#[tokio::test(start_paused = true)]
async fn what_is_given_up_is_not_renewed() {
    let store = store();
    let first = leased(&store, "one");
    assert_eq!(first.turn().await, Ok(()));
    drop(first);
    let second = Running::start(&store, "two");
    pass(TTL.as_secs_f64() - 1.0).await;
    assert_eq!(second.told().await, "agent.lease-held");
    pass(2.0).await;
    assert_eq!(second.told().await, "protecting");
    second.kill();
}
