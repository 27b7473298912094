//! The state of one vault's upkeep: its objects, the work to do, and the last failures.
//!
//! A session adds the objects that it makes. `maintain` merges and deletes by this state, and `sight` compares it with
//! the vault.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seawall_core::{Activity, Clock, LastError, Moment};
use seawall_ltx::{Crc64, Txid};
use seawall_vault::Vault;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::Turns;
use crate::belonging::Facts;
use crate::catalog::{Catalog, Dated};
use crate::compaction::Schedule;
use crate::error::Error;
use crate::fresh::Fresh;
use crate::layout::Stored;
use crate::options::{Options, Upkeep, World};
use crate::read_back::ReadBack;
use crate::retention::{Question, StoreLocks};

/// How far the clock may run ahead of the time that passed before deletion stops believing it.
pub(super) const AHEAD: Duration = Duration::from_secs(600);

/// An object that was written at least this long ago is in every listing that ends now.
const RECENT: Duration = Duration::from_secs(600);

/// The upkeep of one database's vault.
pub(crate) struct Maintenance {
    pub(super) name: String,
    pub(super) vault: Vault,
    pub(super) upkeep: Arc<Upkeep>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) turns: Turns,
    pub(super) jobs: usize,
    pub(super) activity: Arc<Activity>,
    pub(super) read_back: Option<Arc<ReadBack>>,
    pub(super) state: Mutex<State>,
    pub(super) sooner: Notify,
    /// Told when a failure begins or is over.
    pub(super) news: Arc<Notify>,
    /// Whether a thread is checking the vault's folder.
    pub(super) asking: AtomicBool,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) catalog: Catalog,
    /// Captures since the last merge, as far as there is room for them.
    pub(super) fresh: Fresh,
    /// Whether a task may wait for the next work.
    pub(super) background: bool,
    /// The task that waits or works, and until when it waits.
    pub(super) task: Option<AbortHandle>,
    pub(super) until: Option<Moment>,
    /// The clock when the vault was listed.
    pub(super) since: Option<(Instant, Moment)>,
    /// Whether the catalog may be out of date.
    pub(super) stale: bool,
    /// Whether the credentials lack the right to delete.
    pub(super) may_not_delete: bool,
    /// Whether the credentials lack the right to list. Then this process neither merges, deletes nor looks.
    pub(super) may_not_list: bool,
    /// What the store keeps locked, as far as it was asked.
    pub(super) locks: StoreLocks,
    pub(super) pins: Option<(Instant, Vec<Txid>)>,
    pub(super) floor: Option<Txid>,
    /// The object that was merged last into each level; for level 9, the last base.
    pub(super) ends: [Option<Facts>; 10],
    /// Bases whose moments are known, and not only the times when they were written.
    pub(super) dated: BTreeSet<Txid>,
    /// When the vault was last checked for missing objects; see `sight.rs`.
    pub(super) sighted: Option<Sighted>,
    /// How the objects that the newest restore needs were listed then.
    pub(super) heard: Vec<Dated>,
    /// How many objects were made or deleted.
    pub(super) changes: u64,
    /// Known objects that an earlier listing lacked. The next look tells whether they are gone.
    pub(super) owed: Vec<Dated>,
    /// Objects that exist, but aren't as they were written.
    pub(super) distrusted: Vec<Stored>,
    /// The loss that was found, until all objects are found again.
    pub(super) loss: Option<LastError>,
    /// Whether the loss is in the past, so that only a look at all levels can tell that it is over.
    pub(super) past: bool,
    /// The last failure, until an attempt succeeds.
    pub(super) failure: Option<LastError>,
    /// Why the session is to begin anew with a base, until it does.
    pub(super) wants_base: Option<Error>,
    /// When a base was asked for last.
    pub(super) asked_for_base: Option<Moment>,
}

/// How long after a request for a base the next one may come, should the first have changed nothing.
const BASE_AGAIN: Duration = Duration::from_secs(3600);

impl State {
    /// Notes that no key at hand opens an object of a merge. If no base follows it, nothing after it can be merged any more, no
    /// base of the schedule can be made, and nothing becomes old enough to be deleted. Then the session has to take a base from the database.
    pub(super) fn unreadable(&mut self, error: Error, now: Moment) {
        let newest = self.catalog.files().into_iter().max_by_key(|file| file.max);
        let asked = self.asked_for_base.is_some_and(|asked| now.since(asked) < BASE_AGAIN);
        if !asked && newest.is_some_and(|newest| self.catalog.is_apart(&newest)) {
            self.asked_for_base = Some(now);
            self.wants_base = Some(error);
        }
    }
}

impl std::fmt::Debug for Maintenance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Maintenance").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Maintenance {
    /// The upkeep of `vault` by `options.upkeep`. Does no I/O.
    pub(crate) fn new(
        vault: &Vault,
        options: &Options,
        world: &World,
        activity: Arc<Activity>,
        news: Arc<Notify>,
    ) -> Self {
        Self {
            name: options.display_name(vault),
            vault: vault.clone(),
            upkeep: options.upkeep.clone(),
            clock: world.clock.clone(),
            turns: world.turns.clone(),
            jobs: options.jobs,
            activity,
            read_back: None,
            state: Mutex::default(),
            sooner: Notify::new(),
            news,
            asking: AtomicBool::new(false),
        }
    }

    /// Reports there when a merge has read all objects.
    pub(crate) fn noting(self, read_back: Arc<ReadBack>) -> Self {
        Self { read_back: Some(read_back), ..self }
    }

    /// Why the session has to begin anew with a base, if it has to; answers once.
    pub(crate) fn take_want_of_a_base(&self) -> Option<Error> {
        self.state().wants_base.take()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent whenever the lock is released.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Objects of the vault that aren't as they were written. Reports of restorable points need them.
    pub(crate) fn distrusted(&self) -> Vec<Stored> {
        self.state().distrusted.clone()
    }

    /// The last failure, until an attempt succeeds.
    pub(crate) fn failure(&self) -> Option<LastError> {
        let state = self.state();
        state.loss.clone().or_else(|| state.failure.clone())
    }

    /// Windows begin at another second for every vault. The longest interval bounds the shift.
    pub(super) fn schedule(&self) -> Schedule<'_> {
        let mut hash = Crc64::new();
        hash.update(self.vault.url().as_bytes());
        let longest = self.upkeep.levels.iter().map(|level| level.interval).chain(self.upkeep.base_interval).max();
        let longest = longest.map_or(1, |longest| u64::try_from(longest.as_millis()).unwrap_or(u64::MAX).max(1));
        let phase = hash.checksum().0 % longest;
        Schedule { levels: &self.upkeep.levels, bases: self.upkeep.base_interval, phase }
    }

    pub(super) fn question<'a>(&'a self, state: &'a State, pins: &'a [Txid]) -> Question<'a> {
        let Upkeep { retention: policy, levels, .. } = &*self.upkeep;
        Question { catalog: &state.catalog, policy, levels, pins, locks: &state.locks }
    }
}

impl State {
    pub(super) fn take_up(&mut self, listed: Catalog, now: Moment) {
        self.catalog.refresh(listed, now.before(RECENT));
        self.since.get_or_insert((Instant::now(), now));
    }

    /// The present for decisions about deletion. If the clock ran ahead of the time that passed since the vault was
    /// listed, it was set, and nothing is deleted because of it.
    pub(super) fn trusted(&self, now: Moment) -> Moment {
        self.since.map_or(now, |(instant, moment)| now.min(moment.after(instant.elapsed() + AHEAD)))
    }
}

/// How much is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The objects that a restore of the newest state needs.
    Near,
    /// All objects.
    Whole,
}

/// The time and the result of the last look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sighted {
    pub(super) near: Instant,
    /// The time of day of `near`.
    pub(super) at: Moment,
    pub(super) whole: Instant,
    /// The store's number for the state of its folders.
    pub(super) trace: Option<u64>,
    /// How many changes of ours had been made then.
    pub(super) changes: u64,
}
