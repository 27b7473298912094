//! One database and its place in a vault: the state that the engine, its runs and its sessions share.
//!
//! The engine, runs and sessions import this file. It imports none of them.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seawall_core::{Activity, Failure, Figures, Gauge, Moment, Point};
use seawall_vault::Vault;
use tokio::sync::{Notify, oneshot};

use crate::clock::BelievedClock;
use crate::content::Frozen;
use crate::error::Error;
use crate::files::{leads_to, resolved};
use crate::handover::Heir;
use crate::hold::KeptFiles;
use crate::jobs::blocking;
use crate::known::Maintenance;
use crate::lock::Locks;
use crate::probe::Probe;
use crate::read_back::ReadBack;
use crate::told::Told;
use crate::{Admission, Options, World};

/// One SQLite database and its place in a vault.
///
/// Without a path it can restore, show the timeline and verify, but not protect.
#[derive(Debug)]
pub(crate) struct Database {
    pub(super) vault: Vault,
    pub(super) options: Options,
    pub(super) world: World,
    pub(super) heir: Heir,
    /// Where the database and its state directory were found when the present stretch of protection began.
    pub(super) placed: Mutex<Option<(PathBuf, PathBuf)>>,
    /// The locks of the protection that is running.
    pub(super) locks: Arc<Mutex<Option<Locks>>>,
    pub(super) told: Mutex<Told>,
    pub(super) clock: Arc<BelievedClock>,
    /// Whether the state record on the disk is older than the status in memory.
    pub(super) unsaved: Arc<AtomicBool>,
    pub(super) asked: Arc<Mutex<Asked>>,
    /// The callers that wait for a state of the whole database.
    pub(super) asked_for_content: Arc<Mutex<Vec<AskedForContent>>>,
    /// A caller asked to ship now, or the upkeep has news.
    pub(super) hurry: Arc<Notify>,
    pub(super) activity: Arc<Activity>,
    /// How far the base is that is being written.
    pub(super) gauge: Gauge,
    pub(super) maintenance: Arc<Maintenance>,
    pub(super) read_back: Arc<ReadBack>,
    pub(super) probe: Probe,
}

/// The callers that asked to ship now, and wait for the point.
pub(super) type Asked = Vec<oneshot::Sender<Result<Point, Failure>>>;

/// A caller that waits for a state of the whole database.
pub(super) type AskedForContent = oneshot::Sender<Result<Box<Frozen>, Failure>>;

impl Database {
    /// A database (`options.path`) and the vault prefix that is its own. Does no I/O.
    pub(crate) fn new(vault: Vault, options: Options, world: World) -> Self {
        let (activity, hurry) = (Arc::<Activity>::default(), Arc::<Notify>::default());
        let read_back = Arc::new(ReadBack::new(options.state_dir(), vault.url().to_owned()));
        let heir = match &options.path {
            Some(path) => world.handles.of(path),
            None => Heir::new(Arc::default()),
        };
        let maintenance = Maintenance::new(&vault, &options, &world, activity.clone(), hurry.clone());
        Self {
            maintenance: Arc::new(maintenance.noting(read_back.clone())),
            read_back,
            clock: Arc::new(BelievedClock::new(world.clock.clone(), options.display_name(&vault))),
            vault,
            options,
            world,
            heir,
            placed: Mutex::default(),
            locks: Arc::default(),
            told: Mutex::default(),
            unsaved: Arc::default(),
            asked: Arc::default(),
            asked_for_content: Arc::default(),
            hurry,
            activity,
            gauge: Gauge::default(),
            probe: Probe::default(),
        }
    }

    /// Lets a test in.
    #[cfg(all(feature = "testing", debug_assertions))]
    pub(crate) fn with_intruder(self, intruder: Arc<dyn crate::probe::Intruder>) -> Self {
        Self { probe: Probe::new(intruder), ..self }
    }

    pub(crate) fn probe(&self) -> Probe {
        self.probe.clone()
    }

    /// The counters.
    pub(crate) fn activity(&self) -> &Activity {
        &self.activity
    }

    pub(crate) fn gauge(&self) -> &Gauge {
        &self.gauge
    }

    pub(crate) fn read_back(&self) -> &Arc<ReadBack> {
        &self.read_back
    }

    pub(crate) fn maintenance(&self) -> &Arc<Maintenance> {
        &self.maintenance
    }

    pub(crate) fn admission(&self) -> &Admission {
        &self.world.admission
    }

    pub(crate) fn vault(&self) -> &Vault {
        &self.vault
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    /// The counts since the process started.
    pub(crate) fn figures(&self) -> Figures {
        self.activity.figures(self.vault.counts())
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.wall()
    }

    pub(crate) fn clock(&self) -> &Arc<BelievedClock> {
        &self.clock
    }

    /// The moment for a capture made now.
    pub(crate) fn moment(&self) -> Moment {
        let now = self.clock.ask();
        self.told().began = Some(self.clock.steady());
        now.moment
    }

    pub(crate) fn random(&self) -> u64 {
        (self.world.random)()
    }

    pub(crate) fn name(&self) -> String {
        self.options.display_name(&self.vault)
    }

    pub(crate) fn kept_files(&self) -> Arc<Mutex<KeptFiles>> {
        self.heir.kept().clone()
    }

    /// The state that this shares with other engines of the same file in this process.
    pub(crate) fn heir(&self) -> &Heir {
        &self.heir
    }

    /// The database file behind all symbolic links, and the state directory. While the database is protected, they stay
    /// as they were when the protection began.
    pub(crate) fn place(&self) -> Result<(PathBuf, PathBuf), Error> {
        match self.placed().clone() {
            Some(placed) => Ok(placed),
            None => self.place_now(),
        }
    }

    /// Whether the state record could not be written the last time.
    pub(crate) fn unsaved(&self) -> &Arc<AtomicBool> {
        &self.unsaved
    }

    /// Whether, as far as this machine knows, the vault never held anything of this database.
    pub(crate) fn is_new(&self) -> bool {
        self.told().known.position.is_none()
    }

    fn placed(&self) -> MutexGuard<'_, Option<(PathBuf, PathBuf)>> {
        self.placed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place_now(&self) -> Result<(PathBuf, PathBuf), Error> {
        match (&self.options.path, self.options.state_dir()) {
            (Some(path), Some(state_dir)) => Ok((resolved(path), state_dir)),
            _ => Err(Error::NoSource { vault: self.vault.url().to_owned() }),
        }
    }

    pub(super) fn told(&self) -> MutexGuard<'_, Told> {
        // Two plain values, whole between any two statements.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether links lead from the database's name to another file than `path` now.
    pub(super) async fn leads_elsewhere(&self, path: &Path) -> bool {
        let (Some(named), path) = (self.options.path.clone(), path.to_owned()) else { return false };
        blocking(move || Ok(leads_to(&named).is_some_and(|now| now != path))).await.unwrap_or(false)
    }
}

/// Keeps the place of the database unchanged for one stretch of protection.
pub(super) struct Placed<'a>(&'a Database);

impl<'a> Placed<'a> {
    pub(super) fn settle(database: &'a Database) -> Result<Self, Error> {
        let place = database.place_now()?;
        *database.placed() = Some(place);
        Ok(Self(database))
    }
}

impl Drop for Placed<'_> {
    fn drop(&mut self) {
        self.0.placed().take();
    }
}
