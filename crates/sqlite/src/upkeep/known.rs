//! What the upkeep of one vault knows: which objects there are, what is to be done, and what went wrong.
//!
//! A session notes here what it made. `maintain` merges and deletes by it, and `sight` compares it with the vault.

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
use crate::fresh::Fresh;
use crate::layout::Stored;
use crate::options::{Options, Upkeep, World};
use crate::read_back::ReadBack;
use crate::retention::Question;

/// How far the clock may run ahead of the time that passed before deletion stops believing it.
pub(super) const AHEAD: Duration = Duration::from_secs(600);

/// What was written this long ago is in every listing that ends now.
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
    /// Whether a thread asks the vault's folder just now.
    pub(super) asking: AtomicBool,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) catalog: Catalog,
    /// What was written since the last merge, where there is room for it.
    pub(super) fresh: Fresh,
    /// Whether a task may wait for what is to be done.
    pub(super) background: bool,
    /// The task that waits or works, and until when it waits.
    pub(super) task: Option<AbortHandle>,
    pub(super) until: Option<Moment>,
    /// The clock when the vault was listed.
    pub(super) since: Option<(Instant, Moment)>,
    /// Whether the catalog may be wrong.
    pub(super) stale: bool,
    /// Whether the credentials don't allow to delete.
    pub(super) may_not_delete: bool,
    pub(super) pins: Option<(Instant, Vec<Txid>)>,
    pub(super) floor: Option<Txid>,
    /// What was merged last into each level; the base that was taken last.
    pub(super) ends: [Option<Facts>; 10],
    /// Bases whose moments are known, not only when they were written.
    pub(super) dated: BTreeSet<Txid>,
    /// When it was looked whether all is there; see `sight.rs`.
    pub(super) sighted: Option<Sighted>,
    /// How the objects that the newest restore needs were listed then.
    pub(super) heard: Vec<Dated>,
    /// How many objects were made or deleted.
    pub(super) changes: u64,
    /// What was known and an earlier listing lacked: the next look tells whether it may be gone.
    pub(super) owed: Vec<Dated>,
    /// Objects that are there, and aren't what was written.
    pub(super) distrusted: Vec<Stored>,
    /// What was found to be lost, until all is found.
    pub(super) loss: Option<LastError>,
    /// Whether it is of the past, of which only a look at everything can tell.
    pub(super) past: bool,
    /// What went wrong last, until it goes well again.
    pub(super) failure: Option<LastError>,
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

    /// Notes there when a merge read everything.
    pub(crate) fn noting(self, read_back: Arc<ReadBack>) -> Self {
        Self { read_back: Some(read_back), ..self }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // Every change is whole when the lock is let go.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Objects of the vault that aren't what was written, for who asks what can be restored.
    pub(crate) fn distrusted(&self) -> Vec<Stored> {
        self.state().distrusted.clone()
    }

    /// What went wrong last, until it goes well again.
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
        Question { catalog: &state.catalog, policy, levels, pins }
    }
}

impl State {
    pub(super) fn take_up(&mut self, listed: Catalog, now: Moment) {
        self.catalog.refresh(listed, now.before(RECENT));
        self.since.get_or_insert((Instant::now(), now));
    }

    /// The present as deletion sees it. A clock that ran ahead of the time that passed since the vault was listed was
    /// set, and nothing is deleted on its word.
    pub(super) fn trusted(&self, now: Moment) -> Moment {
        self.since.map_or(now, |(instant, moment)| now.min(moment.after(instant.elapsed() + AHEAD)))
    }
}

/// How much is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// What a restore of the newest state needs.
    Near,
    /// Everything.
    Whole,
}

/// When the vault was looked at last, and what it was like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sighted {
    pub(super) near: Instant,
    pub(super) whole: Instant,
    /// What the store tells of its folders.
    pub(super) trace: Option<u64>,
    /// How many changes of ours had been made then.
    pub(super) changes: u64,
}
