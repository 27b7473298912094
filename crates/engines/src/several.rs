//! A database with several vaults: opens them as one, and tells of each in the status.
//!
//! The vaults are one store (`seawall_vault::several`), so engines see one vault. [`SeveralEngine`] stands around the engine:
//! it adds the vaults to its status, and runs the upkeep of vaults with a retention of their own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use seawall_core::Clock as _;
use seawall_core::{
    Description, Engine, Failure, Figures, Files, History, LastError, Moment, Point, Protect, Prove, Shutdown, Status,
    SystemClock, VaultStatus,
};
use seawall_sqlite::Upkeep;
use seawall_vault::several::renamed::RenamedStore;
use seawall_vault::several::{self, Judge, LateStore, MemberState, Place, Settings, SeveralStore};
use seawall_vault::{Policy, Scheme, Store, Vault, VaultUrl};

use crate::database::{DatabaseConfig, EngineConfig};
use crate::open::Opener;
use crate::{ask, sets, sqlite};

/// A vault beside a database's first one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BesideConfig {
    /// The place.
    pub url: VaultUrl,
    /// Its own retention; without it everything that is deleted in the first vault is deleted here as well.
    pub retention: Option<Arc<Upkeep>>,
}

/// The first upkeep of a vault with its own retention comes this long after the start.
const FIRST_UPKEEP: Duration = Duration::from_secs(3600);

/// And each other one this long after the one before.
const UPKEEP: Duration = Duration::from_secs(24 * 3600);

/// Opens the vaults of a database as one. With `protects` this process is the one that knows which of them are behind, and
/// notes it.
pub(crate) async fn open(opener: &Opener, database: &DatabaseConfig, policy: Policy, protects: bool) -> Vault {
    let first = database.vault.scheme();
    let all: Vec<(&VaultUrl, bool)> = std::iter::once((&database.vault, false))
        .chain(database.beside.iter().map(|beside| (&beside.url, beside.retention.is_some())))
        .collect();
    let stores = join_all(all.iter().map(|(url, _)| LateStore::open(url, &opener.environment, &policy))).await;
    let place = |((url, keeps), store): ((&VaultUrl, bool), Arc<dyn Store>)| Place {
        store: named_as(&database.engine, first, url.scheme(), store),
        keeps,
    };
    let places = all.into_iter().zip(stores).map(place).collect();
    let judge = judge_of(&database.engine);
    let (record, look) = (record(opener, database), database.alarms.vault_look);
    let settings = Settings { record, notes: protects, clock: Arc::new(SystemClock), judge, look };
    SeveralStore::vault(places, policy, settings)
}

/// A store that names objects as the first vault does.
pub(crate) fn named_as(
    engine: &EngineConfig,
    outside: Scheme,
    inside: Scheme,
    store: Arc<dyn Store>,
) -> Arc<dyn Store> {
    match engine {
        EngineConfig::Sqlite(_) => RenamedStore::over(store, seawall_sqlite::renames(outside, inside), outside),
        EngineConfig::Lmdb(_) | EngineConfig::Server(_) | EngineConfig::Cluster(_) => store,
    }
}

/// Where it is noted which vaults are behind.
pub(crate) fn record(opener: &Opener, database: &DatabaseConfig) -> Option<PathBuf> {
    match &database.engine {
        EngineConfig::Sqlite(files) => Some(files.state_dir().join("vaults.json")),
        EngineConfig::Lmdb(_) | EngineConfig::Server(_) | EngineConfig::Cluster(_) => {
            opener.state.as_ref().map(|state| state.join(format!("{}.vaults.json", database.name)))
        }
    }
}

/// The status of each vault as the record has it. Blocks.
pub(crate) fn recorded(opener: &Opener, database: &DatabaseConfig) -> Vec<VaultStatus> {
    let Some(record) = record(opener, database).filter(|_| !database.beside.is_empty()) else { return Vec::new() };
    let now = SystemClock.now();
    several::recorded(&record).iter().map(|state| status_of(state, now)).collect()
}

/// The status of one vault.
fn status_of(state: &MemberState, now: Moment) -> VaultStatus {
    let error =
        state.error.clone().map(|error| LastError::new(&Failure::from(error), state.behind_since.unwrap_or(now)));
    VaultStatus {
        url: state.url.clone(),
        in_step: state.in_step,
        leads: state.leads,
        behind_since: state.behind_since,
        set_back: state.set_back,
        lag_ms: state.behind_since.map_or(0, |since| u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX)),
        last_object: state.last.as_ref().map(|(name, _)| name.clone()),
        last_written: state.last.as_ref().map(|(_, at)| *at),
        objects_left: state.objects_left,
        bytes_left: state.bytes_left,
        error,
        requests: state.requests,
        limits: state.limits.clone(),
    }
}

/// The engine of a database with several vaults.
pub(crate) struct SeveralEngine {
    inner: Arc<dyn Engine>,
    vault: Vault,
    /// Vaults with a retention of their own, each as an engine that deletes by it.
    own: Vec<(String, Arc<dyn Engine>)>,
}

impl SeveralEngine {
    /// Around the engine of a database over `vault`, which has several places.
    pub(crate) async fn around(
        opener: &Opener,
        database: &DatabaseConfig,
        vault: Vault,
        inner: Arc<dyn Engine>,
        policy: &Policy,
    ) -> Self {
        let mut own = Vec::new();
        for beside in &database.beside {
            let Some(upkeep) = &beside.retention else { continue };
            let store = LateStore::open(&beside.url, &opener.environment, policy).await;
            let alone = Vault::new(store, policy.clone());
            let url = alone.url().to_owned();
            let engine: Arc<dyn Engine> = match &database.engine {
                // It deletes and merges nothing: what is merged comes from the first vault.
                EngineConfig::Sqlite(_) => {
                    let upkeep = Upkeep { levels: Vec::new(), base_interval: None, ..Upkeep::clone(upkeep) };
                    sqlite::of_vault(opener, alone, Arc::new(upkeep))
                }
                EngineConfig::Server(_) => sets::of_vault(opener, alone, Some(sets::policy(&upkeep.retention))),
                EngineConfig::Lmdb(_) | EngineConfig::Cluster(_) => continue,
            };
            own.push((url, engine));
        }
        Self { inner, vault, own }
    }

    fn with_vaults(&self, status: Status) -> Status {
        let vaults = self.vault.members().iter().map(|state| status_of(state, status.at)).collect();
        Status { vaults, ..status }
    }

    /// Deletes in vaults with a retention of their own, now and then, while they are in step.
    async fn keep_up(&self) {
        if self.own.is_empty() {
            return std::future::pending().await;
        }
        tokio::time::sleep(FIRST_UPKEEP).await;
        loop {
            for (url, engine) in &self.own {
                // A folder that was swapped has the same names.
                let in_step = self.vault.confirms(url).await;
                let Some(maintain) = engine.history().maintenance().filter(|_| in_step) else { continue };
                if let Err(failure) = maintain.maintain(false).await {
                    tracing::warn!(vault = url, code = failure.code, "its own retention was not applied: {failure}");
                }
            }
            tokio::time::sleep(UPKEEP).await;
        }
    }

    /// Says which vaults don't hold everything at the end.
    fn tell_behind(&self) {
        for state in self.vault.members().iter().filter(|state| !state.in_step) {
            let cause = state.error.as_ref().map(ToString::to_string).unwrap_or_default();
            match &state.error {
                Some(seawall_vault::Error::Differs { .. }) => {
                    tracing::warn!(vault = state.url, "this vault is left alone until somebody looks at it: {cause}");
                }
                _ => tracing::warn!(
                    vault = state.url,
                    "this vault is behind, and catches up when Seawall runs again: {cause}"
                ),
            }
        }
    }
}

#[async_trait]
impl Engine for SeveralEngine {
    fn describe(&self) -> Description {
        self.inner.describe()
    }

    async fn status(&self) -> Result<Status, Failure> {
        self.inner.status().await.map(|status| self.with_vaults(status))
    }

    async fn known_status(&self) -> Result<Status, Failure> {
        self.inner.known_status().await.map(|status| self.with_vaults(status))
    }

    fn figures(&self) -> Figures {
        self.inner.figures()
    }

    fn protection(&self) -> Option<&dyn Protect> {
        self.inner.protection().map(|_| self as &dyn Protect)
    }

    fn history(&self) -> &dyn History {
        self.inner.history()
    }

    fn files(&self) -> Option<&dyn Files> {
        self.inner.files()
    }

    fn proofs(&self) -> Option<&dyn Prove> {
        self.inner.proofs()
    }
}

#[async_trait]
impl Protect for SeveralEngine {
    async fn run(&self, shutdown: &Shutdown) -> Result<(), Failure> {
        let protection = ask::protection(&*self.inner)?;
        let ended = tokio::select! {
            ended = protection.run(shutdown) => ended,
            () = self.keep_up() => Ok(()),
        };
        self.tell_behind();
        ended
    }

    async fn take_point(&self, shutdown: &Shutdown) -> Result<Point, Failure> {
        let point = ask::protection(&*self.inner)?.take_point(shutdown).await;
        self.tell_behind();
        point
    }

    async fn sync(&self) -> Result<Point, Failure> {
        ask::protection(&*self.inner)?.sync().await
    }

    async fn record_content(&self) -> Result<Option<Point>, Failure> {
        ask::protection(&*self.inner)?.record_content().await
    }

    fn hurry(&self) {
        if let Some(protection) = self.inner.protection() {
            protection.hurry();
        }
    }
}

/// What an engine knows of its histories.
pub(crate) fn judge_of(engine: &EngineConfig) -> Option<Arc<dyn Judge>> {
    match engine {
        EngineConfig::Sqlite(_) => Some(seawall_sqlite::judge()),
        EngineConfig::Lmdb(_) | EngineConfig::Server(_) | EngineConfig::Cluster(_) => None,
    }
}
