//! What the vaults tell. Visitors of the same time share one listing, and what one vault told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seawall_core::{Clock as _, Description, Failure, Kind, Moment, Phase, Status, SystemClock};
use seawall_engines::Opener;
use seawall_engines::catalog::{Choose, Row};
use seawall_engines::proofs::Proofs;
use seawall_vault::VaultUrl;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::web::look::{ANSWER, History, Turns};

/// How long what one vault told counts. A visitor who moves along a timeline asks again and again.
const LISTED: Duration = Duration::from_secs(10);

/// How long a failed listing counts.
const FAILED: Duration = Duration::from_secs(10);

/// How long a listing may take.
const LISTING: Duration = Duration::from_secs(900);

/// Proofs of one database that are read.
const PROOFS: usize = 5;

/// Vaults that are remembered.
const REMEMBERED: usize = 32;

/// One database with what a search and an order go by.
#[derive(Debug)]
pub(super) struct Shelved {
    pub(super) row: Row,
    /// The facts of the row in the words of a status. The age of the newest point is its lag, stored bytes are its size.
    pub(super) status: Status,
}

/// A whole listing.
#[derive(Debug)]
pub(super) struct Shelves {
    pub(super) all: Vec<Shelved>,
    pub(super) at: Moment,
    /// Requests for pages of the listing.
    pub(super) pages: u64,
    /// Objects of no database.
    pub(super) foreign: u64,
    /// Names behind which nothing was looked for.
    pub(super) passed_over: Option<Failure>,
}

/// What is known now.
pub(super) struct Told {
    /// The newest whole listing.
    pub(super) shelves: Option<Arc<Shelves>>,
    /// Why the last attempt to list failed; `None` if it didn't.
    pub(super) failure: Option<Failure>,
    /// Whether a listing is under way.
    pub(super) is_listing: bool,
}

#[derive(Default)]
struct Known {
    shelves: Option<(Instant, Arc<Shelves>)>,
    failure: Option<(Instant, Failure)>,
    /// Counts listings that ended. Dropped with the listing that is under way.
    listing: Option<watch::Receiver<()>>,
}

/// What vaults told, by the vault and the name of the database, each with when it did.
type Histories = HashMap<(String, String), (Instant, Arc<History>)>;

/// Looks at a prefix.
pub(super) struct Look {
    opener: Arc<Opener>,
    url: VaultUrl,
    /// How long a listing counts.
    fresh: Duration,
    known: Arc<Mutex<Known>>,
    /// The listing that is under way. It ends with the page.
    listing: Mutex<JoinSet<()>>,
    histories: Mutex<Histories>,
    turns: Turns,
}

impl Look {
    pub(super) fn new(opener: Arc<Opener>, url: VaultUrl, fresh: Duration) -> Self {
        let (known, listing, histories, turns) = Default::default();
        Self { opener, url, fresh, known, listing, histories, turns }
    }

    /// The prefix, without secrets.
    pub(super) fn url(&self) -> String {
        self.url.to_string()
    }

    /// How long a listing counts, in milliseconds.
    pub(super) fn fresh_millis(&self) -> u64 {
        u64::try_from(self.fresh.as_millis()).unwrap_or(u64::MAX)
    }

    /// Turns of work that asks a vault.
    pub(super) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// The first listing, with its failure.
    pub(super) async fn first(&self) -> Result<(), Failure> {
        let found = list(&self.opener, &self.url).await?;
        lock(&self.known).shelves = Some((Instant::now(), Arc::new(found)));
        Ok(())
    }

    /// The newest listing; a new one if it is too old. Waits for it no longer than [`ANSWER`]; the listing goes on.
    pub(super) async fn all(&self) -> Told {
        if let Some(mut ended) = self.begin() {
            let _too_late = timeout(ANSWER, ended.changed()).await;
        }
        let known = lock(&self.known);
        Told {
            shelves: known.shelves.as_ref().map(|(_, shelves)| Arc::clone(shelves)),
            failure: known.failure.as_ref().map(|(_, failure)| failure.clone()),
            is_listing: known.listing.is_some(),
        }
    }

    /// Begins a listing, if what is known is too old; returns what tells of its end.
    fn begin(&self) -> Option<watch::Receiver<()>> {
        let mut known = lock(&self.known);
        if known.listing.is_some() {
            return known.listing.clone();
        }
        let is_fresh = known.shelves.as_ref().is_some_and(|(at, _)| at.elapsed() < self.fresh);
        let has_failed = known.failure.as_ref().is_some_and(|(at, _)| at.elapsed() < FAILED);
        if is_fresh || has_failed {
            return None;
        }
        let (end, ended) = watch::channel(());
        known.listing = Some(ended.clone());
        let (opener, url, shared) = (Arc::clone(&self.opener), self.url.clone(), Arc::clone(&self.known));
        let mut listing = lock(&self.listing);
        while listing.try_join_next().is_some() {}
        listing.spawn(async move {
            // However it ends, the next visitor can begin another one.
            let _end = Ended(&shared, end);
            match list(&opener, &url).await {
                Ok(found) => {
                    let mut known = lock(&shared);
                    (known.shelves, known.failure) = (Some((Instant::now(), Arc::new(found))), None);
                }
                Err(failure) => lock(&shared).failure = Some((Instant::now(), failure)),
            }
        });
        Some(ended)
    }

    /// What the vault of a database tells. Waits no longer than [`ANSWER`] for the timeline, and for the proofs.
    pub(super) async fn history(&self, row: &Row) -> Arc<History> {
        let key = (row.vault.clone(), row.name.clone());
        let known = lock(&self.histories).get(&key).filter(|(at, _)| at.elapsed() < LISTED).map(|(_, h)| Arc::clone(h));
        if let Some(known) = known {
            return known;
        }
        let listed_at = SystemClock.now();
        let timeline = async { self.opener.catalogued(&self.url, row).await?.1.history().timeline().await };
        let proofs = async {
            let (vault, engine) = self.opener.catalogued(&self.url, row).await?;
            let recorded = Proofs::of(vault, &engine.describe()).newest(PROOFS).await?;
            Ok((recorded.proofs, recorded.doubts))
        };
        let in_turn = (self.turns.in_time(&row.name, timeline), self.turns.in_time(&row.name, proofs));
        let (timeline, proofs) = tokio::join!(in_turn.0, in_turn.1);
        let history = Arc::new(History { listed_at, timeline, proofs });
        let mut all = lock(&self.histories);
        all.retain(|_, (at, _)| at.elapsed() < LISTED);
        if all.len() < REMEMBERED {
            all.insert(key, (Instant::now(), Arc::clone(&history)));
        }
        history
    }

    /// Opens vaults.
    pub(super) fn opener(&self) -> &Opener {
        &self.opener
    }

    /// The prefix.
    pub(super) fn place(&self) -> &VaultUrl {
        &self.url
    }
}

/// Tells of the end of a listing when it is dropped.
struct Ended<'a>(&'a Mutex<Known>, watch::Sender<()>);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        lock(self.0).listing = None;
        self.1.send_replace(());
    }
}

/// What is behind a lock is whole between any two statements that can panic.
fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn list(opener: &Opener, url: &VaultUrl) -> Result<Shelves, Failure> {
    let choose = Choose::default();
    let found = timeout(LISTING, opener.catalogue(url, &choose)).await.map_err(|_| {
        Failure::new(
            Kind::Unavailable,
            "agent.too-late",
            url.to_string(),
            format!("it wasn't listed within {} min", LISTING.as_secs() / 60),
            "name a prefix with fewer objects, or ask with `seawall fleet`, which waits for longer",
        )
    })??;
    let all = found.databases.into_iter().map(|row| Shelved { status: status(&row, found.at), row }).collect();
    Ok(Shelves {
        all,
        at: found.at,
        pages: found.listed_pages,
        foreign: found.foreign_objects,
        passed_over: found.passed_over,
    })
}

/// The facts of a row in the words of a status.
fn status(row: &Row, now: Moment) -> Status {
    let described = Description { name: row.name.clone(), engine: row.engine, source: None, vault: row.vault.clone() };
    Status {
        protected: row.newest.clone(),
        lag_ms: row.age_s.unwrap_or(0).saturating_mul(1000),
        source_bytes: Some(row.bytes),
        proof: row.proof.clone(),
        alarms: row.alarms.clone(),
        // The vaults don't tell whether a process runs.
        ..Status::new(described, Phase::Stopped, now)
    }
}
