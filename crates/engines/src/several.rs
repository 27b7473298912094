//! A database with several vaults: opens them as one, tells of each in the status, and finds the one to restore from.
//!
//! The vaults are one store (`seawall_vault::several`), so engines see one vault. [`SeveralEngine`] stands around the engine:
//! it adds the vaults to its status, and runs the upkeep of vaults with a retention of their own.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use seawall_core::Clock as _;
use seawall_core::{
    Description, Engine, Failure, Figures, Files, History, Kind, LastError, Moment, Point, Protect, Prove, Shutdown,
    Status, SystemClock, VaultStatus, When,
};
use seawall_sqlite::Upkeep;
use seawall_vault::several::renamed::RenamedStore;
use seawall_vault::several::{self, Belongs, LateStore, MemberState, Place, Settings, SeveralStore};
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

/// How long a vault is waited for when the newest of several is looked for.
const PATIENCE: Duration = Duration::from_secs(30);

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
    let judge = match &database.engine {
        EngineConfig::Sqlite(_) => Some(seawall_sqlite::judge()),
        EngineConfig::Lmdb(_) | EngineConfig::Server(_) | EngineConfig::Cluster(_) => None,
    };
    let settings = Settings { record: record(opener, database), notes: protects, clock: Arc::new(SystemClock), judge };
    SeveralStore::vault(places, policy, settings)
}

/// A store that names objects as the first vault does.
fn named_as(engine: &EngineConfig, outside: Scheme, inside: Scheme, store: Arc<dyn Store>) -> Arc<dyn Store> {
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
                let in_step = self.vault.members().iter().any(|state| state.in_step && state.url == *url);
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
}

/// The vault that a database is restored from, and those that could not be looked at.
#[derive(Debug)]
pub struct Choice {
    /// The database with that vault alone.
    pub database: DatabaseConfig,
    /// The vaults that could not be reached or read, and those that hold another history.
    pub away: Vec<Failure>,
    /// The database with each other vault alone that may have what is asked for, the best one first.
    pub others: Vec<DatabaseConfig>,
}

impl Choice {
    /// The next vault, if what this one holds can't be read, or doesn't join: the failure says so. An answer about the database stays
    /// one.
    #[must_use]
    pub fn next(mut self, failure: &Failure) -> Option<Self> {
        let is_of_vault =
            matches!(failure.kind, Kind::Corrupt | Kind::Unavailable) || failure.code == "sqlite.unreachable";
        if !is_of_vault || self.others.is_empty() {
            return None;
        }
        self.away.push(failure.clone());
        self.database = self.others.remove(0);
        Some(self)
    }
}

impl Opener {
    /// Looks at all vaults of a database, and chooses the one whose newest point that `when` allows is the newest.
    ///
    /// # Errors
    /// When none can be reached; the failure names each.
    pub async fn newest(&self, database: &DatabaseConfig, when: &When) -> Result<Choice, Failure> {
        let all = database.each();
        if all.len() == 1 {
            return Ok(Choice { database: database.clone(), away: Vec::new(), others: Vec::new() });
        }
        let spans = |one: DatabaseConfig| async move {
            let look = async { self.database(&one).await?.history().timeline().await };
            match tokio::time::timeout(PATIENCE, look).await {
                Ok(Ok(timeline)) => Ok(timeline.spans.into_iter().map(|span| (span.from, span.to)).collect()),
                Ok(Err(failure)) if failure.kind == Kind::NotFound => Ok(Vec::new()),
                Ok(Err(failure)) => Err(failure),
                Err(_) => Err(late(&one)),
            }
        };
        let strangers = self.strangers(database, &all).await;
        let seen = join_all(all.iter().cloned().map(spans)).await;
        let (mut ends, mut away, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        for (i, (one, stranger)) in seen.into_iter().zip(strangers).enumerate() {
            let one = stranger.map_or(one, Err);
            if one.as_ref().is_err_and(|failure| failure.kind == Kind::Corrupt) {
                unread.push(i);
            }
            ends.push(one.map_err(|failure| away.push(failure)).ok());
        }
        // A vault whose history can't be told may still restore what is asked for.
        let mut order = ranked(&ends, when).into_iter().chain(unread).filter_map(|i| all.get(i).cloned());
        match order.next() {
            Some(database) => Ok(Choice { others: order.collect(), database, away }),
            None => Err(all_away(database, &away)),
        }
    }

    /// Does work with the vault whose newest point is the newest, and with the next one if that vault can't be read. Returns the
    /// vaults that were passed over.
    ///
    /// # Errors
    /// Those of the work with the last vault.
    pub async fn with_newest<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        database: &DatabaseConfig,
        when: &When,
        work: impl Fn(DatabaseConfig) -> F,
    ) -> Result<(Choice, T), Failure> {
        let mut choice = self.newest(database, when).await?;
        loop {
            match work(choice.database.clone()).await {
                Ok(done) => return Ok((choice, done)),
                Err(failure) => choice = choice.next(&failure).ok_or(failure)?,
            }
        }
    }

    /// For each vault the failure if it holds another history than the record on this machine names, and another vault doesn't.
    async fn strangers(&self, database: &DatabaseConfig, all: &[DatabaseConfig]) -> Vec<Option<Failure>> {
        let Some(record) = record(self, database) else { return all.iter().map(|_| None).collect() };
        let look = |one: DatabaseConfig| {
            let record = record.clone();
            async move {
                let Ok(access) = self.access_of(&one) else { return Belongs::Unknown };
                let (url, policy) = (&one.vault, self.next_policy(access));
                let store = LateStore::open(url, &self.environment, &policy).await;
                let vault = Vault::new(named_as(&one.engine, database.vault.scheme(), url.scheme(), store), policy);
                let looked = tokio::time::timeout(PATIENCE, several::belongs(&record, &vault)).await;
                looked.unwrap_or(Belongs::Unknown)
            }
        };
        let belong = join_all(all.iter().cloned().map(look)).await;
        // If no vault holds what the record names, the record may be the older one.
        let any = belong.contains(&Belongs::Yes);
        let failure = |belongs| match belongs {
            Belongs::No(error) if any => Some(Failure::from(error)),
            Belongs::No(_) | Belongs::Yes | Belongs::Unknown => None,
        };
        belong.into_iter().map(failure).collect()
    }
}

fn late(database: &DatabaseConfig) -> Failure {
    let cause = format!("no answer within {} s", PATIENCE.as_secs());
    let next = "see to the vault, or restore from another one by its URL";
    Failure::new(Kind::Unavailable, "vault.timeout", database.vault.to_string(), cause, next)
}

fn all_away(database: &DatabaseConfig, away: &[Failure]) -> Failure {
    let reasons: Vec<String> = away.iter().map(ToString::to_string).collect();
    Failure::new(
        Kind::Unavailable,
        "vault.all-away",
        database.name.clone(),
        format!("none of its vaults can be reached: {}", reasons.join("; ")),
        "see to one of them, then try again",
    )
}

/// The numbers of the vaults to restore from, the best one first. Each has the ends of its spans; `None` for one that is away.
fn ranked(vaults: &[Option<Vec<(Point, Point)>>], when: &When) -> Vec<usize> {
    let reached = |i: &usize| vaults.get(*i).is_some_and(Option::is_some);
    let spans = |i: usize| vaults.get(i).and_then(Option::as_ref).into_iter().flatten();
    let newest = |i: usize| -> Option<Moment> {
        match when {
            When::Latest => spans(i).map(|(_, to)| to.moment).max(),
            // Within a span there are points up to the moment; the last one before it is in every vault that has the span.
            When::Moment(moment) => {
                spans(i).filter(|(from, _)| from.moment <= *moment).map(|(_, to)| to.moment.min(*moment)).max()
            }
            When::Position(position) => spans(i)
                .find(|(from, to)| (from.position.as_str()..=to.position.as_str()).contains(&position.as_str()))
                .map(|(_, to)| to.moment),
        }
    };
    let mut order: Vec<usize> = (0..vaults.len()).filter(reached).collect();
    // Of equal ones the first of the configuration.
    order.sort_by_key(|i| std::cmp::Reverse(newest(*i)));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(millis: i64) -> Point {
        Point { position: format!("{millis:016x}"), moment: Moment::from_millis(millis) }
    }

    #[test]
    fn the_newest_is_restored_from() {
        let to = |ends: &[(i64, i64)]| Some(ends.iter().map(|(from, to)| (point(*from), point(*to))).collect());
        let (at, exactly) =
            (|millis| When::Moment(Moment::from_millis(millis)), |n: i64| When::Position(point(n).position));
        for (vaults, when, expected) in [
            (vec![to(&[(1, 5)]), to(&[(1, 5)])], When::Latest, Some(0)),
            (vec![to(&[(1, 5)]), to(&[(1, 9)])], When::Latest, Some(1)),
            (vec![None, to(&[(1, 9)])], When::Latest, Some(1)),
            (vec![None, None], When::Latest, None),
            (vec![to(&[]), to(&[(1, 9)])], When::Latest, Some(1)),
            (vec![to(&[]), None], When::Latest, Some(0)),
            (vec![to(&[(1, 9)]), to(&[(1, 12)])], at(7), Some(0)),
            (vec![to(&[(1, 5)]), to(&[(1, 12)])], at(7), Some(1)),
            (vec![to(&[(6, 9)]), to(&[(1, 3)])], at(4), Some(1)),
            (vec![to(&[(6, 9)]), to(&[(1, 3), (6, 8)])], exactly(2), Some(1)),
            (vec![to(&[(6, 9)]), to(&[(6, 8)])], exactly(7), Some(0)),
        ] {
            assert_eq!(ranked(&vaults, &when).first().copied(), expected, "{vaults:?} {when:?}");
        }
    }
}
