//! The databases that one process protects. They come and go while it runs: by the configuration, by folders that
//! are watched, and by the control socket.
//!
//! Each running database is one task. One database's end never ends another. Whoever changes the fleet goes through
//! here, so that no two databases share a file, a name or a place.

mod coming;
mod exchange;
mod looks;

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt as _;
use seawall_core::{Engine, Failure, Kind, Point, Shutdown};
use seawall_engines::ask;
use serde::Serialize;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::AbortHandle;

use crate::config::{DatabaseConfig, SourceName};
use crate::process::{self, Outcome};

pub(crate) use self::coming::Coming;
use self::exchange::Life;
use self::looks::Looks;
pub(crate) use self::looks::{HANGS, Looking, hangs, hangs_at};

/// How long an engine may take to end at once.
const AT_ONCE: Duration = Duration::from_secs(5);

/// How many missing databases are restored at the same time.
const RESTORES: usize = 4;

/// Opens databases.
#[async_trait]
pub(crate) trait Databases: Send + Sync {
    /// A database to protect for long, whose vault may be away for now.
    async fn lasting(&self, database: &DatabaseConfig) -> Result<Arc<dyn Engine>, Failure>;

    /// A database to take one point of.
    async fn fleeting(&self, database: &DatabaseConfig) -> Result<Arc<dyn Engine>, Failure>;
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

/// A database with its engine, or why there is none. One that can't be opened stops nobody else.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) config: DatabaseConfig,
    pub(crate) origin: Origin,
    pub(crate) engine: Result<Arc<dyn Engine>, Failure>,
}

impl Member {
    /// Opens a database, and says so.
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

/// What a member does now.
#[derive(Debug, Clone)]
enum State {
    /// A task runs it.
    Running { shutdown: Shutdown, done: watch::Receiver<bool>, task: AbortHandle },
    /// Nobody runs it: not yet, or because someone stopped it.
    Stopped,
    /// Its protection ended by itself.
    Ended(Result<(), Failure>),
    /// It is being opened, or restored because its file is missing. A begun shutdown gives it up.
    Coming(Shutdown),
}

struct Entry {
    order: u64,
    member: Member,
    state: State,
}

#[derive(Default)]
struct Entries {
    by_source: BTreeMap<SourceName, Entry>,
    /// Whose names and places are taken: thousands come one after the other, and each is compared with all.
    names: HashMap<String, SourceName>,
    places: HashMap<String, SourceName>,
    next: u64,
    running: usize,
}

impl Entries {
    fn put(&mut self, source: &SourceName, entry: Entry) {
        self.names.insert(entry.member.config.name.clone(), source.clone());
        self.places.insert(entry.member.config.place(), source.clone());
        self.by_source.insert(source.clone(), entry);
    }

    fn forget(&mut self, source: &SourceName) -> Option<Entry> {
        let entry = self.by_source.remove(source)?;
        self.names.remove(&entry.member.config.name);
        self.places.remove(&entry.member.config.place());
        Some(entry)
    }
}

struct Inner {
    databases: Arc<dyn Databases>,
    shutdown: Shutdown,
    entries: Mutex<Entries>,
    life: Mutex<Life>,
    /// A running database came to its end.
    ended: Notify,
    /// Looks into folders. Closing a file that an engine has open would drop the engine's locks, so a new member waits
    /// for the looks that began before it came.
    looks: Looks,
    /// A restore waits for its turn, so that many don't overload the machine.
    restores: Semaphore,
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
            databases,
            shutdown,
            entries: Mutex::default(),
            life: Mutex::default(),
            ended: Notify::new(),
            looks: Looks::default(),
            restores: Semaphore::new(RESTORES),
        }))
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // Whole between any two statements that can panic.
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a member in, without starting it.
    ///
    /// # Errors
    /// When another one has its file, its name or its place.
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

    /// Opens a database, takes it in and starts it. One that can't be opened is no member.
    pub(crate) async fn add(&self, config: DatabaseConfig, origin: Origin) -> Result<(), Failure> {
        let coming = self.expect(config, origin)?;
        let member = coming.open().await;
        member.engine.as_ref().map_err(Failure::clone)?;
        coming.settle(member)
    }

    /// Takes in a database that was found, and starts it. One that can't be opened is a member all the same, with its failure,
    /// so that the status shows it.
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

    /// Starts every member that isn't running and has an engine.
    pub(crate) fn start_all(&self) {
        let sources: Vec<SourceName> = self.entries().by_source.keys().cloned().collect();
        for source in sources {
            // One that has no engine stays what it is; everything else starts.
            let _without_engine = self.spawn(&source);
        }
    }

    /// Starts a member again; answers whether it wasn't running. One that could not be opened, or restored, is opened and
    /// restored first.
    pub(crate) async fn start(&self, source: &SourceName) -> Result<bool, Failure> {
        self.check_lasting(&source.to_string())?;
        let unopened = match self.entries().by_source.get(source) {
            None => return Err(unknown(&source.to_string())),
            Some(entry) if entry.is_coming() => return Err(starting(&entry.member.config.name)),
            Some(entry) => entry.member.engine.is_err().then(|| entry.member.clone()),
        };
        if let Some(mut member) = unopened {
            self.0.looks.end_before(&member.config).await?;
            member.engine = Ok(self.0.databases.lasting(&member.config).await?);
            if member.config.restore_if_missing {
                self.restore_again(source, &mut member).await?;
            }
            // Another request may have been faster.
            if let Some(entry) = self.entries().by_source.get_mut(source).filter(|entry| entry.member.engine.is_err()) {
                entry.member.engine = member.engine;
            }
        }
        self.spawn(source)
    }

    /// Runs a member in a task of its own; answers whether it wasn't running.
    fn spawn(&self, source: &SourceName) -> Result<bool, Failure> {
        let mut entries = self.entries();
        let entry = entries.by_source.get_mut(source).ok_or_else(|| unknown(&source.to_string()))?;
        match &entry.state {
            State::Running { .. } => return Ok(false),
            State::Coming(_) => return Err(starting(&entry.member.config.name)),
            State::Stopped | State::Ended(_) => {}
        }
        let engine = entry.member.engine.clone()?;
        let shutdown = self.0.shutdown.child();
        let (tell, done) = watch::channel(false);
        let (fleet, source, asked) = (self.clone(), source.clone(), shutdown.clone());
        let task = tokio::spawn(async move {
            let run = AssertUnwindSafe(async { ask::protection(&*engine)?.run(&asked).await }).catch_unwind().await;
            let result = run.unwrap_or_else(|_| Err(process::defect(&engine.describe().name)));
            if let Err(failure) = &result {
                process::log_failure(&engine.describe().name, failure);
            }
            fleet.finish(&source, result, asked.requested());
            tell.send_replace(true);
            fleet.0.ended.notify_waiters();
        });
        entry.state = State::Running { shutdown, done, task: task.abort_handle() };
        entries.running += 1;
        Ok(true)
    }

    /// Nothing begins any more in a process that is ending.
    fn check_lasting(&self, name: &str) -> Result<(), Failure> {
        if self.0.shutdown.requested() { Err(stopping(name)) } else { Ok(()) }
    }

    fn finish(&self, source: &SourceName, result: Result<(), Failure>, asked: bool) {
        let mut entries = self.entries();
        entries.running = entries.running.saturating_sub(1);
        if let Some(entry) = entries.by_source.get_mut(source) {
            entry.state = if asked && result.is_ok() { State::Stopped } else { State::Ended(result) };
        }
    }

    /// Stops a member, and ships what is committed within a time; answers whether it was running.
    pub(crate) async fn stop(&self, source: &SourceName, within: Duration) -> Result<bool, Failure> {
        let (name, state) = match self.entries().by_source.get(source) {
            None => return Err(unknown(&source.to_string())),
            Some(entry) => (entry.member.config.name.clone(), entry.state.clone()),
        };
        let (shutdown, mut done, task) = match state {
            State::Running { shutdown, done, task } => (shutdown, done, task),
            State::Coming(_) => return Err(starting(&name)),
            State::Stopped | State::Ended(_) => return Ok(false),
        };
        shutdown.begin();
        if tokio::time::timeout(within, done.wait_for(|done| *done)).await.is_ok() {
            return match self.entries().by_source.get(source).map(|entry| entry.state.clone()) {
                Some(State::Ended(Err(failure))) => Err(failure),
                _ => Ok(true),
            };
        }
        shutdown.abort();
        let ended = tokio::time::timeout(AT_ONCE, done.wait_for(|done| *done)).await.is_ok();
        if !ended {
            task.abort();
            self.finish(source, Err(process::timed_out(&name)), true);
        }
        Err(process::timed_out(&name))
    }

    /// Stops a member and lets it go. It is gone even if what it committed last could not be shipped, which is the
    /// failure.
    pub(crate) async fn remove(&self, source: &SourceName, within: Duration) -> Result<Option<Point>, Failure> {
        if self.give_up(source) {
            return Ok(None);
        }
        let stopped = self.stop(source, within).await;
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

    /// All members, in the order in which they came.
    pub(crate) fn all(&self) -> Vec<Seen> {
        let entries = self.entries();
        let mut all: Vec<&Entry> = entries.by_source.values().collect();
        all.sort_by_key(|entry| entry.order);
        all.into_iter().map(Entry::seen).collect()
    }

    /// How many members there are.
    pub(crate) fn len(&self) -> usize {
        self.entries().by_source.len()
    }

    /// Protects until the process's shutdown, and at most `bound` after it was asked for. Returns how each member
    /// fared. A fleet that isn't `lasting` ends by itself once every protection has ended.
    pub(crate) async fn run(&self, bound: Duration, lasting: bool) -> Vec<Outcome<Option<Point>>> {
        self.live(bound, lasting);
        let shutdown = &self.0.shutdown;
        let out_of_time = async {
            shutdown.graceful().await;
            tokio::time::sleep(self.bound()).await;
        };
        tokio::pin!(out_of_time);
        let left_over = loop {
            let ended = self.0.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.entries().running == 0 && (shutdown.requested() || !self.is_lasting()) {
                break process::interrupted as fn(&str) -> Failure;
            }
            tokio::select! {
                biased;
                () = shutdown.immediate() => break process::interrupted,
                () = &mut ended => {}
                () = shutdown.graceful(), if !shutdown.requested() => {}
                () = &mut out_of_time => break process::timed_out,
            }
        };
        self.outcomes(left_over).await
    }

    async fn outcomes(&self, left_over: fn(&str) -> Failure) -> Vec<Outcome<Option<Point>>> {
        let mut entries: Vec<(Member, State, u64)> = {
            let entries = self.entries();
            entries.by_source.values().map(|entry| (entry.member.clone(), entry.state.clone(), entry.order)).collect()
        };
        entries.sort_by_key(|(_, _, order)| *order);
        let mut outcomes = Vec::with_capacity(entries.len());
        for (member, state, _) in entries {
            let name = member.config.name;
            let result = match (member.engine, state) {
                (_, State::Coming(_)) => Err(left_over(&name)),
                (Err(failure), _) | (_, State::Ended(Err(failure))) => Err(failure),
                (_, State::Running { task, .. }) => {
                    task.abort();
                    Err(left_over(&name))
                }
                (Ok(engine), _) => Ok(engine.status().await.ok().and_then(|status| status.protected)),
            };
            outcomes.push(Outcome { name, result });
        }
        outcomes
    }
}

impl Entry {
    fn is_coming(&self) -> bool {
        matches!(self.state, State::Coming(_))
    }

    fn seen(&self) -> Seen {
        Seen {
            config: self.member.config.clone(),
            origin: self.member.origin,
            engine: self.member.engine.as_ref().ok().cloned(),
            running: matches!(self.state, State::Running { .. }),
            coming: self.is_coming(),
            failure: match (&self.member.engine, &self.state) {
                (_, State::Coming(_)) => None,
                (Err(failure), _) | (_, State::Ended(Err(failure))) => Some(failure.clone()),
                _ => None,
            },
        }
    }
}

/// What a new database would share with one that is there.
fn clash(entries: &Entries, new: &DatabaseConfig) -> Option<Failure> {
    let source = new.source();
    let file = entries.by_source.get_key_value(&source).map(|(source, _)| ("the file", source));
    let name = entries.names.get(&new.name).map(|source| ("the name", source));
    let place = || entries.places.get(&new.place()).map(|source| ("the place in a vault", source));
    file.or(name).or_else(place).map(|(what, taken)| {
        duplicate(what, entries.by_source.get(taken).map_or("", |entry| &entry.member.config.name), &source)
    })
}

/// The code of [`duplicate`].
pub(crate) const DUPLICATE: &str = "agent.duplicate";

/// The database `of` would share `what` with the database `name`.
pub(crate) fn duplicate(what: &str, name: &str, of: &SourceName) -> Failure {
    Failure::new(
        Kind::Conflict,
        DUPLICATE,
        of.to_string(),
        format!("{what} is already that of {name}"),
        "give each database a file, a name and a place of its own",
    )
}

/// The code of [`unknown`].
pub(crate) const UNKNOWN: &str = "agent.unknown-database";

/// There is no such member.
pub(crate) fn unknown(what: &str) -> Failure {
    Failure::new(
        Kind::NotFound,
        UNKNOWN,
        what,
        "the running process doesn't protect this database",
        "see `seawall list` for those that it does",
    )
}

/// A member can't be started, stopped or asked yet.
pub(crate) fn starting(name: &str) -> Failure {
    Failure::new(
        Kind::Unavailable,
        "agent.starting",
        name,
        "it is being opened, or restored from its vault",
        "see `seawall status`, and ask again",
    )
}

pub(crate) fn stopping(name: &str) -> Failure {
    Failure::new(Kind::Unavailable, "agent.stopping", name, "the process is ending", "ask again when it runs again")
}

#[cfg(test)]
mod tests;
