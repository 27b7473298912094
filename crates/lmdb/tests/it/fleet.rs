//! Sessions whose applications write at random, with a vault that fails, restarts in between and damaged objects: in the
//! end all environments hold the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use seawall_core::{Failure, Kind, Shutdown};
use seawall_lmdb::snapshot::SnapshotName;
use seawall_lmdb::{NanoClock, Schema, Session, Stamp, SyncOptions};
use seawall_vault::memory::MemoryStore;
use seawall_vault::simulated::{Chances, SimulatedStore};
use seawall_vault::{ObjectKey, Policy, Prefix, Vault};
use tempfile::TempDir;

use crate::model::{act, live};
use crate::support::{NOW, author, open, schema};

struct Instance {
    name: &'static str,
    folder: TempDir,
    session: Option<Session>,
    store: SimulatedStore,
    skew: i64,
}

impl Instance {
    fn session(&mut self, schema: &Schema, clock: &Arc<AtomicU64>) -> &mut Session {
        let short = Duration::from_millis(1);
        let (clock, skew, name, folder) = (Arc::clone(clock), self.skew, self.name, self.folder.path());
        let store = &self.store;
        self.session.get_or_insert_with(|| {
            let policy = Policy { attempts: 2, backoff: short, backoff_max: short, ..Policy::default() };
            let vault = Vault::new(Arc::new(store.clone()), policy);
            let how = SyncOptions { poll: short, list: short, retry: short, ..SyncOptions::new(author(name)) };
            let now: NanoClock =
                Arc::new(move || Stamp(clock.fetch_add(1000, Ordering::Relaxed).saturating_add_signed(skew)));
            Session::new(open(folder, schema), vault, how, now)
        })
    }

    /// One round, as before a stop. What a store that is away keeps from being sent, the stop says.
    async fn round(&mut self, schema: &Schema, clock: &Arc<AtomicU64>) -> Result<(), Failure> {
        let stop = Shutdown::new();
        stop.begin();
        let ended = self.session(schema, clock).run(&stop).await;
        // A damaged object under our name looks like the snapshot of another writer.
        let is_expected = |failure: &Failure| failure.kind == Kind::Unavailable || failure.code == "lmdb.two-writers";
        ended.inspect_err(|failure| assert!(is_expected(failure), "{failure}"))
    }
}

/// Puts a damaged object under a name that is newer than the instance's last one.
async fn damage(truth: &Vault, random: &mut Rng) {
    let all = truth.list(&Prefix::all(), None).await.unwrap();
    let Some(entry) = random.choice(&all) else { return };
    let Some(name) = SnapshotName::parse(entry.key.as_str()) else { return };
    let whole = truth.read(&entry.key, None, 1 << 26).await.unwrap();
    let mut bytes = whole.to_vec();
    if random.bool() {
        bytes.truncate(random.usize(..bytes.len()));
    } else {
        let at = random.usize(..bytes.len());
        bytes[at] ^= 1 << random.u8(..8);
    }
    let newer = SnapshotName { stamp: Stamp(name.stamp.0 + 1), ..name }.to_string();
    truth.put(&ObjectKey::new(&newer).unwrap(), bytes.into(), None).await.unwrap();
}

async fn converge(native: bool, seed: u64, skews: [i64; 3]) {
    let schema = schema(native, false);
    let mut random = Rng::with_seed(seed);
    let clock = Arc::new(AtomicU64::new(NOW.0));
    let memory = MemoryStore::new();
    let truth = Vault::new(Arc::new(memory.clone()), Policy::default());
    let chances =
        Chances { error: 50, lost_answer: 30, duplicate: 20, stale_list: 60, broken_stream: 40, ..Chances::default() };
    let mut instances: Vec<Instance> = ["a", "b", "c"]
        .into_iter()
        .zip(skews)
        .map(|(name, skew)| Instance {
            name,
            folder: tempfile::tempdir().unwrap(),
            session: None,
            store: SimulatedStore::new(memory.clone(), random.u64(..)).with_chances(chances),
            skew,
        })
        .collect();
    for _ in 0..100 {
        let now = clock.fetch_add(random.u64(1..2_000_000_000), Ordering::Relaxed);
        let instance = &mut instances[random.usize(..3)];
        match random.u8(..10) {
            0..5 => {
                let skew = instance.skew;
                let session = instance.session(&schema, &clock);
                act(session.local().unwrap(), &schema, &mut random, now.saturating_add_signed(skew));
            }
            5..8 => drop(instance.round(&schema, &clock).await),
            8 => damage(&truth, &mut random).await,
            // Killed, as far as vault and environment can tell.
            _ => instance.session = None,
        }
    }
    for instance in &mut instances {
        instance.store.revive();
        instance.session = None;
    }
    for _ in 0..3 {
        for instance in &mut instances {
            clock.fetch_add(1_000_000_000, Ordering::Relaxed);
            instance.round(&schema, &clock).await.unwrap();
        }
    }
    let all: Vec<_> = instances.iter().map(|i| live(i.session.as_ref().unwrap().local().unwrap(), &schema)).collect();
    assert!(all[0] == all[1] && all[1] == all[2], "seed {seed} native {native}: {all:#?}");
    assert!(!all[0].is_empty(), "seed {seed}");
}

#[tokio::test]
async fn with_a_vault_that_fails_three_instances_end_with_the_same_data() {
    for seed in 0..4 {
        converge(true, seed, [0; 3]).await;
        converge(false, seed, [0; 3]).await;
    }
}

#[tokio::test]
async fn with_a_vault_that_fails_and_clocks_an_hour_apart_too() {
    let hour = 3_600_000_000_000;
    for seed in 100..103 {
        converge(true, seed, [0, hour, -hour]).await;
        converge(false, seed, [0, hour, -hour]).await;
    }
}
