//! The databases that one process protects. They come and go while it runs: by the configuration, by folders that
//! are watched, and by the control socket.
//!
//! Each running database is one task. One database's end never ends another. Every change of the fleet goes through
//! [`Fleet`], so that no two databases share a file, a name or a place.
//!
//! The rooms: `entries` (the members and their states), `coming` (a database that is being opened or restored),
//! `running` (tasks: start, stop, end), `exchange` (new settings by a reload), `looks` (looks into folders, which new
//! members wait for), `failures`.

mod coming;
mod entries;
mod exchange;
mod failures;
mod looks;
mod running;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use seawall_core::{Engine, Failure, Journal, Point, Shutdown};
use seawall_engines::alarms::Place;
use serde::Serialize;
use tokio::sync::{Notify, Semaphore};

use crate::Opener;
use crate::config::{DatabaseConfig, SourceName};

pub(crate) use self::coming::Coming;
use self::entries::{Entries, Entry, State, clash};
use self::exchange::Life;
pub(crate) use self::failures::{DUPLICATE, UNKNOWN, duplicate, starting, stopping, unknown};
use self::looks::Looks;
pub(crate) use self::looks::{HANGS, Looking, hangs, hangs_at};

/// How many missing databases are restored at the same time.
const RESTORES: usize = 4;

/// Opens databases.
#[async_trait]
pub(crate) trait Databases: Send + Sync {
    /// A database to protect for long, whose vault may be away for now.
    async fn lasting(&self, database: &DatabaseConfig) -> Result<Arc<dyn Engine>, Failure>;

    /// A database to take one point of.
    async fn fleeting(&self, database: &DatabaseConfig) -> Result<Arc<dyn Engine>, Failure>;

    /// Where the facts of a database's alarms are on this machine.
    fn place_here(&self, _database: &DatabaseConfig) -> Place {
        Place::default()
    }

    /// Where the silence of a folder of databases is on this machine.
    fn place_of_folder(&self, _folder: &Path) -> Place {
        Place::default()
    }

    /// What proves and restores databases; `None` where nothing can.
    fn prover(&self) -> Option<Arc<Opener>> {
        None
    }

    /// Where what the process does is noted. The same one at each call, if there is a [`Databases::prover`].
    fn journal(&self) -> Journal {
        Journal::default()
    }
}

/// Who brought a database into the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Origin {
    /// The configuration or the command line names it.
    Configured,
    /// It was found in a folder.
    Found,
    /// It was registered while a process ran.
    Registered,
}

/// A database with its engine, or why there is none. A database that can't be opened doesn't affect the others.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) config: DatabaseConfig,
    pub(crate) origin: Origin,
    pub(crate) engine: Result<Arc<dyn Engine>, Failure>,
}

impl Member {
    /// Opens a database, and logs the result.
    pub(crate) async fn open(databases: &dyn Databases, config: DatabaseConfig, origin: Origin, once: bool) -> Self {
        let engine = if once { databases.fleeting(&config).await } else { databases.lasting(&config).await };
        match &engine {
            Ok(engine) => {
                let description = engine.describe();
                tracing::info!(database = description.name, vault = description.vault, "protecting");
            }
            Err(failure) => tracing::error!(
                database = config.name,
                code = failure.code,
                object = failure.object,
                next = failure.next,
                "not protected: {}",
                failure.cause
            ),
        }
        Self { config, origin, engine }
    }
}

struct Inner {
    databases: Arc<dyn Databases>,
    shutdown: Shutdown,
    entries: Mutex<Entries>,
    life: Mutex<Life>,
    /// Notified when a running database has ended.
    ended: Notify,
    /// Looks into folders that are under way. A new member waits for the looks that began before it came.
    looks: Looks,
    /// A permit for each restore, so that many restores don't overload the machine.
    restores: Semaphore,
    /// What can't be protected, by the folder of databases in which it is.
    unprotected: Mutex<BTreeMap<PathBuf, BTreeMap<PathBuf, Failure>>>,
    journal: Journal,
}

/// The databases of a process. Clones share them.
#[derive(Clone)]
pub(crate) struct Fleet(Arc<Inner>);

/// A member as others see it.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) config: DatabaseConfig,
    pub(crate) origin: Origin,
    pub(crate) engine: Option<Arc<dyn Engine>>,
    pub(crate) running: bool,
    /// Whether it is being opened or restored.
    pub(crate) coming: bool,
    /// Why it could not be opened, or why its protection ended.
    pub(crate) failure: Option<Failure>,
}

impl Fleet {
    /// An empty fleet, whose databases stop when `shutdown` says so.
    pub(crate) fn new(databases: Arc<dyn Databases>, shutdown: Shutdown) -> Self {
        Self(Arc::new(Inner {
            journal: databases.journal(),
            databases,
            shutdown,
            entries: Mutex::default(),
            life: Mutex::default(),
            ended: Notify::new(),
            looks: Looks::default(),
            restores: Semaphore::new(RESTORES),
            unprotected: Mutex::default(),
        }))
    }

    /// Notes what can't be protected of a folder of databases, and why.
    pub(crate) fn tell_unprotected(&self, folder: &Path, paths: BTreeMap<PathBuf, Failure>) {
        let mut all = self.0.unprotected.lock().unwrap_or_else(PoisonError::into_inner);
        if paths.is_empty() { drop(all.remove(folder)) } else { drop(all.insert(folder.to_owned(), paths)) }
    }

    /// What can't be protected of a folder of databases, and why.
    pub(crate) fn unprotected_in(&self, folder: &Path) -> BTreeMap<PathBuf, Failure> {
        let all = self.0.unprotected.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(folder).cloned().unwrap_or_default()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // Whole between any two statements that can panic.
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a member in, without starting it.
    ///
    /// # Errors
    /// When another member has its file, its name or its place.
    pub(crate) fn admit(&self, member: Member) -> Result<(), Failure> {
        let mut entries = self.entries();
        if let Some(failure) = clash(&entries, &member.config) {
            return Err(failure);
        }
        entries.next += 1;
        let (order, source) = (entries.next, member.config.source());
        entries.put(&source, Entry { order, member, state: State::Stopped });
        Ok(())
    }

    /// Opens a database, takes it in and starts it. A database that can't be opened doesn't become a member.
    pub(crate) async fn add(&self, config: DatabaseConfig, origin: Origin) -> Result<(), Failure> {
        let coming = self.expect(config, origin)?;
        let member = coming.open().await;
        member.engine.as_ref().map_err(Failure::clone)?;
        coming.settle(member)
    }

    /// Takes in a database that was found, and starts it. A database that can't be opened becomes a member with its
    /// failure, so that the status shows it.
    pub(crate) async fn find_new(&self, config: DatabaseConfig) -> Result<(), Failure> {
        self.bring(config, Origin::Found).await
    }

    /// The members below a folder that could not be opened.
    pub(crate) fn unopened_in(&self, folder: &Path) -> Vec<PathBuf> {
        let entries = self.entries();
        let unopened = entries.by_source.iter().filter(|(_, entry)| entry.member.engine.is_err() && !entry.is_coming());
        unopened
            .filter_map(|(source, _)| source.path())
            .filter(|path| path.starts_with(folder))
            .map(Path::to_owned)
            .collect()
    }

    /// Stops a member and removes it from the fleet, also if its last commits could not be shipped. Then the result is
    /// that failure.
    pub(crate) async fn remove(&self, source: &SourceName, within: Duration) -> Result<Option<Point>, Failure> {
        let stopped = loop {
            if self.give_up(source) {
                return Ok(None);
            }
            let stopped = self.stop(source, within).await;
            // Another request may have started it again before this one went on.
            if !self.entries().by_source.get(source).is_some_and(|entry| entry.is_running() || entry.is_coming()) {
                break stopped;
            }
        };
        if stopped.as_ref().is_err_and(|failure| failure.code == UNKNOWN) {
            return stopped.map(|_| None);
        }
        let engine = self.entries().forget(source).and_then(|entry| entry.member.engine.ok());
        stopped?;
        match engine {
            Some(engine) => Ok(engine.status().await.ok().and_then(|status| status.protected)),
            None => Ok(None),
        }
    }

    /// The member under a path, or of a name.
    pub(crate) fn find(&self, text: &str) -> Option<Seen> {
        let entries = self.entries();
        let by_source = entries.by_source.get(&SourceName::from(text));
        let entry = by_source.or_else(|| entries.by_source.values().find(|entry| entry.member.config.name == text));
        entry.map(Entry::seen)
    }

    /// The member with a source.
    pub(crate) fn member(&self, source: &SourceName) -> Option<Seen> {
        self.entries().by_source.get(source).map(Entry::seen)
    }

    /// All members, in the order in which they came.
    pub(crate) fn all(&self) -> Vec<Seen> {
        let entries = self.entries();
        let mut all: Vec<&Entry> = entries.by_source.values().collect();
        all.sort_by_key(|entry| entry.order);
        all.into_iter().map(Entry::seen).collect()
    }

    /// The members with scheduled proofs. A member that is still being opened isn't among them.
    pub(crate) fn proved(&self) -> Vec<Seen> {
        let entries = self.entries();
        let mut all: Vec<&Entry> = entries.by_source.values().collect();
        all.retain(|entry| entry.member.config.prove.is_some() && !entry.is_coming());
        all.sort_by_key(|entry| entry.order);
        all.into_iter().map(Entry::seen).collect()
    }

    /// What the process does and did.
    pub(crate) fn journal(&self) -> &Journal {
        &self.0.journal
    }

    /// What proves and restores the members; `None` where nothing can.
    pub(crate) fn prover(&self) -> Option<Arc<Opener>> {
        self.0.databases.prover()
    }

    /// Where the facts of a database's alarms are on this machine.
    pub(crate) fn place_here(&self, database: &DatabaseConfig) -> Place {
        self.0.databases.place_here(database)
    }

    /// Where the silence of a folder of databases is on this machine.
    pub(crate) fn place_of_folder(&self, folder: &Path) -> Place {
        self.0.databases.place_of_folder(folder)
    }

    /// How many members there are.
    pub(crate) fn len(&self) -> usize {
        self.entries().by_source.len()
    }
}

#[cfg(test)]
mod tests;
