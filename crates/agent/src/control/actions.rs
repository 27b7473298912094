//! Carries requests to a running process out, for the control socket, for MCP and for the page.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use seawall_core::{
    Clock as _, Engine, Failure, Journal, Kind, LastError, Moment, Phase, Point, Status, SystemClock, TaskKind,
    Timeline,
};
use seawall_engines::alarms::{Keeper, silence_until};
use seawall_engines::ask;
use seawall_engines::proofs::Recorded;
use tokio::task::spawn_blocking;

use super::api::{Info, Listed, NOT_RUNNING, Registered, Silenced, Stopped, Synced};
use super::errands::Errands;
use super::registry::{Registration, Registry};
use super::standing::Standings;
use super::trace::Trace;
use crate::config::{DatabaseConfig, DirectoryConfig, Registering, SourceName};
use crate::fleet::{self, Fleet, Origin, Seen};
use crate::folders::absent;
use crate::opening::describe;
use crate::proving::Board;
use crate::reload::Reloader;

/// How long a stop, or a wait for everything to be shipped, may take unless the asker says otherwise, and at most.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(600));

/// Databases whose facts are read at a time. Each waits for a thread, and while complete copies are made, a thread is rarely free.
const AT_ONCE: usize = 1024;

/// A running process.
pub(crate) struct Actions {
    fleet: Fleet,
    registering: Mutex<Registering>,
    registry: Option<Registry>,
    reloader: Reloader,
    version: &'static str,
    started: Moment,
    standings: Standings,
    proofs: Board,
    errands: Errands,
    /// What is remembered of the folders of the configuration.
    absent: tokio::sync::Mutex<absent::Remembered>,
    /// One registration at a time: each reads the registry, changes it and writes it back.
    changing: tokio::sync::Mutex<()>,
}

impl Actions {
    pub(crate) fn new(
        fleet: Fleet,
        registering: Registering,
        registry: Option<Registry>,
        version: &'static str,
    ) -> Self {
        let (started, registering) = (SystemClock.now(), Mutex::new(registering));
        let (reloader, standings, proofs, errands, absent, changing) = Default::default();
        Self { fleet, registering, registry, reloader, version, started, standings, proofs, errands, absent, changing }
    }

    /// The same, of a process that can read its configuration again.
    pub(crate) fn with_reloader(self, reloader: Reloader) -> Self {
        Self { reloader, ..self }
    }

    /// What reads the configuration again.
    pub(crate) fn reloader(&self) -> &Reloader {
        &self.reloader
    }

    /// The databases.
    pub(crate) fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// What is known of the proofs of the databases.
    pub(crate) fn proofs(&self) -> &Board {
        &self.proofs
    }

    /// What people asked for on the page.
    pub(crate) fn errands(&self) -> &Errands {
        &self.errands
    }

    /// Keeps databases from being registered and unregistered while the guard lives.
    pub(crate) async fn hold_registrations(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    /// What was registered, also in earlier processes.
    pub(crate) async fn registrations(&self) -> Result<Vec<Registration>, Failure> {
        self.with_registry(Registry::load).await
    }

    /// Sets what a database gets that is registered from now on.
    pub(crate) fn set_registering(&self, new: Registering) {
        *self.registering.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }

    fn registering(&self) -> Registering {
        self.registering.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What process this is.
    pub(crate) fn info(&self) -> Info {
        Info {
            version: self.version.to_owned(),
            pid: std::process::id(),
            uptime_seconds: SystemClock.now().since(self.started).as_secs(),
            started_at: self.started,
            database_count: self.fleet.len(),
            config: self.reloader.status(),
        }
    }

    /// Since when it runs.
    pub(crate) fn started(&self) -> Moment {
        self.started
    }

    /// Its version.
    pub(crate) fn version(&self) -> &'static str {
        self.version
    }

    /// All databases. What is remembered of alarms of others is forgotten.
    pub(crate) fn members(&self) -> Vec<Seen> {
        let members = self.fleet.all();
        let there: HashSet<SourceName> = members.iter().map(|member| member.config.source()).collect();
        self.standings.keep(|source| there.contains(source));
        self.proofs.keep(|source| there.contains(source));
        members
    }

    /// All databases in the words of Litestream.
    pub(crate) async fn list(&self) -> Vec<Listed> {
        let mut listed = Vec::new();
        for member in self.fleet.all() {
            let status = self.status_of(&member).await;
            listed.push(Listed {
                path: member.config.source().to_string(),
                status: in_litestreams_words(member.running, status.phase).to_owned(),
                last_sync_at: last_sync(&status),
                name: member.config.name,
                vault: status.vault,
                origin: origin(member.origin).to_owned(),
            });
        }
        listed
    }

    /// The status of the database that `text` names by file or name, or of all.
    pub(crate) async fn status(&self, text: Option<&str>) -> Result<Vec<Status>, Failure> {
        let members = match text {
            Some(text) => vec![self.find(text)?],
            None => self.fleet.all(),
        };
        let mut all = Vec::with_capacity(members.len());
        for member in &members {
            all.push(self.status_of(member).await);
        }
        Ok(all)
    }

    /// The status of each folder of the configuration; one in which nothing is protected has an alarm.
    pub(crate) async fn folders(&self) -> Vec<Status> {
        let Some(directories) = self.reloader.in_force(|job| job.directories.clone()) else { return Vec::new() };
        if directories.is_empty() {
            return Vec::new();
        }
        let members = self.fleet.all();
        let sources: Vec<PathBuf> =
            members.iter().filter_map(|member| member.config.path().map(Path::to_owned)).collect();
        let mut remembered = self.absent.lock().await;
        let place = |folder: &Path| self.fleet.place_of_folder(folder);
        let unprotected = |folder: &Path| self.fleet.unprotected_in(folder);
        absent::statuses(&directories, &sources, &mut remembered, unprotected, place, SystemClock.now()).await
    }

    /// The status of all databases, and of folders in which nothing is protected. With `known` as far as it is known without looking.
    pub(crate) async fn status_of_all(&self, known: bool) -> Result<Vec<Status>, Failure> {
        let mut all = if known { self.known_status(&self.members()).await } else { self.status(None).await? };
        all.extend(self.folders().await.into_iter().filter(|status| !status.alarms.is_empty()));
        Ok(all)
    }

    /// Silences the alarms of the database or the folder of databases that `text` names until a time has passed, or ends the silence.
    pub(crate) async fn silence(&self, text: &str, span: Option<Duration>) -> Result<Silenced, Failure> {
        let member = match self.find(text) {
            Err(unknown) => return self.silence_folder(text, span).await.unwrap_or(Err(unknown)),
            Ok(member) => member,
        };
        let (name, place) = (member.config.name.clone(), self.fleet.place_here(&member.config));
        let until = span.map(|span| silence_until(&name, span, SystemClock.now())).transpose()?;
        let work = async {
            let written = spawn_blocking(move || place.silence(&name, until).map(|()| name));
            let name = tokio::time::timeout(PATIENCE.0, written).await.map_err(|_| too_late(&member))?;
            name.map_err(|_| crate::process::defect("silence"))?
        };
        let told = |_: &String| until.map_or("ended".to_owned(), |until| format!("until {until}"));
        let name = self.noted(TaskKind::Silence, &member, "", work, told).await?;
        self.standings.silenced(member.config.source(), until);
        tracing::info!(database = name, until = until.map(tracing::field::display), "alarms silenced");
        Ok(Silenced { name, silenced_until: until })
    }

    /// The same, of a folder of the configuration; `None` if it has none of this path.
    async fn silence_folder(&self, text: &str, span: Option<Duration>) -> Option<Result<Silenced, Failure>> {
        let is_meant = |config: &DirectoryConfig| config.dir == Path::new(text);
        // As the configuration writes it: the same folder may be asked for in other ways.
        let folder = self
            .reloader
            .in_force(|job| job.directories.iter().find(|config| is_meant(config)).map(|config| config.dir.clone()));
        let folder = folder.flatten()?;
        let (name, place) = (folder.display().to_string(), self.fleet.place_of_folder(&folder));
        let written = async {
            let until = span.map(|span| silence_until(&name, span, SystemClock.now())).transpose()?;
            let work = spawn_blocking(move || place.silence(&name, until).map(|()| name));
            let name = work.await.map_err(|_| crate::process::defect("silence"))??;
            tracing::info!(folder = name, until = until.map(tracing::field::display), "alarms silenced");
            Ok(Silenced { name, silenced_until: until })
        };
        Some(written.await)
    }

    /// What can be restored of a database.
    pub(crate) async fn timeline(&self, text: &str) -> Result<Timeline, Failure> {
        let member = self.find(text)?;
        let engine = engine_of(&member)?;
        tokio::time::timeout(PATIENCE.1, engine.history().timeline()).await.unwrap_or_else(|_| Err(too_late(&member)))
    }

    /// What can be restored of a database, with the newest proofs that its vault holds.
    pub(crate) async fn history(&self, text: &str) -> Result<Timeline, Failure> {
        let timeline = self.timeline(text).await?;
        let (Some(opener), member) = (self.fleet.prover(), self.find(text)?) else { return Ok(timeline) };
        let recorded = match tokio::time::timeout(PATIENCE.0, opener.proofs(&member.config)).await {
            Ok(Ok(recorded)) => recorded,
            Ok(Err(failure)) => Recorded { doubts: vec![failure.to_string()], ..Recorded::default() },
            Err(_) => Recorded { doubts: vec![too_late(&member).to_string()], ..Recorded::default() },
        };
        let doubts = timeline.doubts.iter().cloned().chain(recorded.doubts).collect();
        Ok(Timeline { proofs: recorded.proofs, doubts, ..timeline })
    }

    /// The status of databases in their order, as far as it is known without looking at them.
    pub(crate) async fn known_status(&self, members: &[Seen]) -> Vec<Status> {
        let mut all = Vec::with_capacity(members.len());
        for members in members.chunks(AT_ONCE) {
            all.extend(join_all(members.iter().map(|member| self.known_status_of(member))).await);
        }
        all
    }

    /// Protects a database from now on, in later processes too.
    pub(crate) async fn register(
        &self,
        path: &str,
        vault: Option<&str>,
        name: Option<&str>,
    ) -> Result<Registered, Failure> {
        let _changing = self.changing.lock().await;
        let config = self.registering().database(Path::new(path), vault, name)?;
        let answer = |status: &str| Registered {
            status: status.to_owned(),
            path: config.source().to_string(),
            name: config.name.clone(),
            vault: config.vault.to_string(),
        };
        let known = self.fleet.find(&config.source().to_string());
        if known.is_some_and(|known| known.config.vault.to_string() == config.vault.to_string()) {
            return Ok(answer("already_registered"));
        }
        let task = self.journal().begin(TaskKind::Register, &config.name, &config.source().to_string());
        let registered = self.take_in(&config, vault, name).await;
        task.end(&registered, |()| String::new());
        registered?;
        tracing::info!(database = config.name, "registered");
        Ok(answer("registered"))
    }

    /// Begins the protection of a database, and keeps it for later processes.
    async fn take_in(&self, config: &DatabaseConfig, vault: Option<&str>, name: Option<&str>) -> Result<(), Failure> {
        self.fleet.add(config.clone(), Origin::Registered).await?;
        let path = config.path().map(Path::to_owned).unwrap_or_default();
        let kept = Registration { path, vault: vault.map(str::to_owned), name: name.map(str::to_owned) };
        if let Err(failure) = self.with_registry(|registry| registry.keep(kept)).await {
            // A later process would not know the database, so its protection isn't begun.
            let _why_is_told = self.fleet.remove(&config.source(), PATIENCE.0).await;
            return Err(failure);
        }
        Ok(())
    }

    /// Lets a database go, in later processes too if it was registered.
    pub(crate) async fn unregister(&self, text: &str, within: Option<Duration>) -> Result<Stopped, Failure> {
        let _changing = self.changing.lock().await;
        let Some(member) = self.fleet.find(text) else {
            let path = PathBuf::from(text);
            self.with_registry(move |registry| registry.forget(&path)).await?;
            return Ok(Stopped { status: "already_unregistered".to_owned(), path: text.to_owned(), txid: 0 });
        };
        let path = PathBuf::from(member.config.source().to_string());
        let work = async {
            self.with_registry(move |registry| registry.forget(&path)).await?;
            self.fleet.remove(&member.config.source(), bounded(within)).await
        };
        let point = self.noted(TaskKind::Unregister, &member, "", work, |_| String::new()).await?;
        tracing::info!(database = member.config.name, "unregistered");
        Ok(Stopped {
            status: "unregistered".to_owned(),
            path: member.config.source().to_string(),
            txid: txid(point.as_ref()),
        })
    }

    /// Starts a database that was stopped, or whose protection ended.
    pub(crate) async fn start(&self, text: &str) -> Result<Stopped, Failure> {
        let member = self.find(text)?;
        let work = async {
            let started = self.fleet.start(&member.config.source()).await?;
            Ok(if started { "started" } else { "already_running" })
        };
        let status = self.noted(TaskKind::Start, &member, "", work, said).await?;
        Ok(self.answer(&member, status).await)
    }

    /// Stops a database: what is committed is shipped, and nothing after it.
    pub(crate) async fn stop(&self, text: &str, within: Option<Duration>) -> Result<Stopped, Failure> {
        let member = self.find(text)?;
        let work = async {
            let stopped = self.fleet.stop(&member.config.source(), bounded(within)).await?;
            Ok(if stopped { "stopped" } else { "already_stopped" })
        };
        let status = self.noted(TaskKind::Stop, &member, "", work, said).await?;
        Ok(self.answer(&member, status).await)
    }

    /// Ships what is committed now. With `wait` it is in the vault when this answers.
    pub(crate) async fn sync(&self, text: &str, wait: bool, within: Option<Duration>) -> Result<Synced, Failure> {
        let member = self.find(text)?;
        let told = |synced: &Synced| said(&synced.status.as_str());
        self.noted(TaskKind::Sync, &member, "", self.synced(&member, wait, within), told).await
    }

    async fn synced(&self, member: &Seen, wait: bool, within: Option<Duration>) -> Result<Synced, Failure> {
        self.check_running(member)?;
        let engine = engine_of(member)?;
        let before = self.status_of(member).await;
        let (status, point) = if wait {
            let synced = tokio::time::timeout(bounded(within), ask::protection(&*engine)?.sync()).await;
            let point = synced.unwrap_or_else(|_| Err(too_late(member)))?;
            (if before.protected.as_ref() == Some(&point) { "no_change" } else { "synced" }, Some(point))
        } else {
            // Asked once, and not waited for.
            let asked = tokio::time::timeout(Duration::ZERO, ask::protection(&*engine)?.sync()).await;
            asked.unwrap_or(Ok(Point { position: String::new(), moment: Moment::default() }))?;
            (if before.lag_bytes == 0 { "no_change" } else { "synced_local" }, before.protected)
        };
        let txid = txid(point.as_ref());
        let position = point.map(|point| point.position).filter(|position| txid == 0 && !position.is_empty());
        let path = member.config.source().to_string();
        Ok(Synced { status: status.to_owned(), path, txid, replicated_txid: txid, position })
    }

    /// The newest transaction of a database in its vault.
    pub(crate) async fn txid(&self, text: &str) -> Result<u64, Failure> {
        let member = self.find(text)?;
        Ok(txid(self.status_of(&member).await.protected.as_ref()))
    }

    /// The status of a member, in the one shape that everything shows.
    pub(crate) async fn status_of(&self, member: &Seen) -> Status {
        let status = match &member.engine {
            Some(engine) => Some(engine.status().await),
            None => None,
        };
        self.judged(member, as_member(member, status)).await
    }

    /// The same, as far as it is known without looking.
    pub(crate) async fn known_status_of(&self, member: &Seen) -> Status {
        let status = match &member.engine {
            Some(engine) => Some(engine.known_status().await),
            None => None,
        };
        self.judged(member, as_member(member, status)).await
    }

    /// How lag and size of a database went, as far as somebody asked.
    pub(crate) fn trace(&self, member: &Seen) -> Arc<Trace> {
        self.standings.trace(&member.config.source())
    }

    async fn judged(&self, member: &Seen, status: Status) -> Status {
        let keeper = if member.running || member.coming { Keeper::Running } else { Keeper::Resting };
        let place = self.fleet.place_here(&member.config);
        let (proof, due) = self.proofs.of(&member.config);
        let unread = self.proofs.unreadable(&member.config, SystemClock.now());
        self.standings.judge((&member.config, place), (keeper, due, unread), Status { proof, ..status }).await
    }

    /// What the process does and did.
    pub(crate) fn journal(&self) -> &Journal {
        self.fleet.journal()
    }

    /// Does work that the journal notes. `told` says in a few words what was done.
    pub(super) async fn noted<T>(
        &self,
        kind: TaskKind,
        member: &Seen,
        about: &str,
        work: impl Future<Output = Result<T, Failure>>,
        told: impl FnOnce(&T) -> String,
    ) -> Result<T, Failure> {
        let task = self.journal().begin(kind, &member.config.name, about);
        let done = work.await;
        task.end(&done, told);
        done
    }

    /// Refuses what needs a running protection.
    pub(super) fn check_running(&self, member: &Seen) -> Result<(), Failure> {
        if member.coming {
            return Err(fleet::starting(&member.config.name));
        }
        if member.running {
            return Ok(());
        }
        let (source, cause) = (member.config.source().to_string(), "its protection is stopped");
        Err(Failure::new(Kind::Refused, NOT_RUNNING, source, cause, "start it first: `seawall start`"))
    }

    pub(super) fn find(&self, text: &str) -> Result<Seen, Failure> {
        self.fleet.find(text).ok_or_else(|| fleet::unknown(text))
    }

    async fn answer(&self, member: &Seen, status: &str) -> Stopped {
        Stopped {
            status: status.to_owned(),
            path: member.config.source().to_string(),
            txid: txid(self.status_of(member).await.protected.as_ref()),
        }
    }

    async fn with_registry<T: Send + 'static + Default>(
        &self,
        work: impl FnOnce(&Registry) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let Some(registry) = self.registry.clone() else { return Ok(T::default()) };
        match spawn_blocking(move || work(&registry)).await {
            Ok(done) => done,
            Err(_) => Err(crate::process::defect("registry")),
        }
    }
}

fn as_member(member: &Seen, status: Option<Result<Status, Failure>>) -> Status {
    let now = SystemClock.now();
    // Nothing is recorded yet of a database that has just begun. Any other failure is one to tell.
    let unread = match &status {
        Some(Err(failure)) if failure.kind != Kind::NotFound => Some(LastError::new(failure, now)),
        _ => None,
    };
    let phase = match (member.running, &unread) {
        _ if member.coming => Phase::Starting,
        (true, Some(_)) => Phase::Failing,
        (true, None) => Phase::Starting,
        (false, _) => Phase::Stopped,
    };
    let mut status = status
        .and_then(Result::ok)
        .unwrap_or_else(|| Status { error: unread, ..Status::new(describe(&member.config), phase, now) });
    status.name.clone_from(&member.config.name);
    if let Some(failure) = &member.failure {
        status.phase = Phase::Halted;
        let at = status.error.as_ref().map_or(now, |error| error.at);
        status.error = Some(LastError::new(failure, at));
    }
    status
}

pub(super) fn engine_of(member: &Seen) -> Result<Arc<dyn Engine>, Failure> {
    match (&member.engine, &member.failure) {
        (Some(engine), _) => Ok(engine.clone()),
        (None, Some(failure)) => Err(failure.clone()),
        (None, None) => Err(fleet::unknown(&member.config.source().to_string())),
    }
}

/// What a request did, for people.
fn said(status: &&str) -> String {
    status.replace('_', " ")
}

/// Litestream has three words for what a database does.
fn in_litestreams_words(running: bool, phase: Phase) -> &'static str {
    match (running, phase) {
        (false, _) => "stopped",
        (true, Phase::Starting | Phase::Base | Phase::Protecting) => "replicating",
        (true, _) => "open",
    }
}

/// The last known moment at which everything was in the vault: now, if no change waits.
fn last_sync(status: &Status) -> Option<Moment> {
    let protected = status.protected.as_ref()?;
    let all_there = status.phase == Phase::Protecting && status.lag_bytes == 0;
    Some(if all_there { status.at } else { protected.moment })
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Configured => "configured",
        Origin::Found => "found",
        Origin::Registered => "registered",
    }
}

/// A position as the number that Litestream has for it; 0 where there is none.
pub(crate) fn txid(point: Option<&Point>) -> u64 {
    point.and_then(|point| u64::from_str_radix(&point.position, 16).ok()).unwrap_or(0)
}

fn bounded(within: Option<Duration>) -> Duration {
    within.unwrap_or(PATIENCE.0).min(PATIENCE.1)
}

/// The result of a reload, if it is known in time; otherwise the reload goes on.
pub(crate) async fn in_time<T>(
    within: Option<Duration>,
    reload: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let late = || Err(too_late_for("configuration"));
    tokio::time::timeout(within.unwrap_or(PATIENCE.1).min(PATIENCE.1), reload).await.unwrap_or_else(|_| late())
}

pub(super) fn too_late(member: &Seen) -> Failure {
    too_late_for(&member.config.source().to_string())
}

fn too_late_for(object: &str) -> Failure {
    Failure::new(
        Kind::Unavailable,
        "agent.too-late",
        object,
        "it was not done in the time that was given; it goes on",
        "see `seawall status`, and ask again or give it more time",
    )
}

#[cfg(test)]
#[path = "actions_tests.rs"]
mod tests;
