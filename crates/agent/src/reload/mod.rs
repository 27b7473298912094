//! Reading the configuration again while the process runs, because of SIGHUP or a request on the control socket.
//!
//! First everything is read and decided ([`changes`], [`settings`]); an error there changes nothing. Then it is carried
//! out: a database that isn't touched doesn't notice. One reload comes after the other, and none during a stop. A crash
//! in the middle leaves what a crash of a running process leaves; the next start reads the new configuration.

mod apply;
mod changes;
mod settings;
mod told;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seawall_core::{Clock as _, Failure, Kind, LastError, Moment, Shutdown, SystemClock};
use tokio::sync::watch;

use self::changes::{Changes, Held, Wanted, changes};
use self::settings::{Settings, settings};
pub use self::told::{ConfigStatus, NotReloaded, Reloaded};
use crate::config::{DatabaseConfig, Registering};
use crate::control::Actions;
use crate::fleet::{self, Origin};
use crate::folders::Followers;
use crate::process;
use crate::process::protect::Job;
use crate::services::Offered;

/// How long a reload may go on once the process has ended everything else.
const ENDING: Duration = Duration::from_secs(5);

/// The object that failures of a reload name.
const OBJECT: &str = "configuration";

/// Reads the configuration again, with what the command line adds. The texts are its warnings. Blocks.
pub type Read = Arc<dyn Fn() -> Result<(Job, Vec<String>), Failure> + Send + Sync>;

/// How a process reads its configuration again, and when.
#[derive(Clone)]
pub struct Reload {
    /// How; `None` where there is no configuration.
    pub read: Option<Read>,
    /// Counts how often SIGHUP came.
    pub hangups: watch::Receiver<u64>,
}

/// The parts of a running process that a reload changes.
pub(crate) struct Running {
    /// The configuration in force.
    pub(crate) job: Job,
    pub(crate) offered: Offered,
    pub(crate) followers: Followers,
    pub(crate) shutdown: Shutdown,
}

/// Reads the configuration of one process again.
#[derive(Default)]
pub(crate) struct Reloader {
    read: Option<Read>,
    /// Held while a reload is carried out. `None` before the process runs, and once it ends.
    turn: tokio::sync::Mutex<Option<Running>>,
    known: Mutex<Option<ConfigStatus>>,
}

/// The decision of a reload. Making it changes nothing.
struct Plan {
    job: Job,
    warnings: Vec<String>,
    held: Vec<Held>,
    changes: Changes,
    settings: Settings,
    read_at: Moment,
}

impl Reloader {
    /// A reloader for a process that was started with the configuration `file`.
    pub(crate) fn new(read: Option<Read>, file: Option<&PathBuf>) -> Self {
        let loaded_at = SystemClock.now();
        let status = |file: &PathBuf| ConfigStatus {
            file: file.display().to_string(),
            loaded_at,
            needs_restart: Vec::new(),
            error: None,
        };
        Self { read, turn: Default::default(), known: Mutex::new(file.map(status)) }
    }

    /// When the configuration was read, and what came of the last reload; `None` where there is no configuration.
    pub(crate) fn status(&self) -> Option<ConfigStatus> {
        self.known().clone()
    }

    /// Shows what is in force now; `None` while a reload is carried out.
    pub(crate) fn in_force<T>(&self, show: impl FnOnce(&Job) -> T) -> Option<T> {
        let turn = self.turn.try_lock().ok()?;
        turn.as_ref().map(|running| show(&running.job))
    }

    /// Keeps reloads waiting until the process runs.
    pub(crate) async fn hold(&self) -> tokio::sync::MutexGuard<'_, Option<Running>> {
        self.turn.lock().await
    }

    /// Ends the services and the followers of folders, and refuses every reload from now on. A reload that is under way
    /// gets [`ENDING`] to finish.
    pub(crate) async fn end(&self) {
        let Ok(mut turn) = tokio::time::timeout(ENDING, self.turn.lock()).await else { return };
        if let Some(running) = turn.take() {
            running.followers.end().await;
            running.offered.end().await;
        }
    }

    fn known(&self) -> MutexGuard<'_, Option<ConfigStatus>> {
        // Whole between any two statements that can panic.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the result of a reload for the status.
    fn note(&self, result: &Result<Reloaded, Failure>) {
        let mut known = self.known();
        let Some(status) = known.as_mut() else { return };
        match result {
            Ok(done) => {
                status.loaded_at = done.loaded_at;
                status.needs_restart.clone_from(&done.needs_restart);
                status.error = None;
            }
            Err(failure) => {
                let count = status.error.as_ref().map_or(0, |last| last.count);
                status.error = Some(LastError { count: count + 1, ..LastError::new(failure, SystemClock.now()) });
            }
        }
    }
}

/// Reads the configuration again each time that SIGHUP comes.
pub(crate) async fn on_hangups(actions: Arc<Actions>, mut hangups: watch::Receiver<u64>) {
    while hangups.changed().await.is_ok() {
        match reload(&actions).await {
            Err(failure) if failure.code == NO_CONFIGURATION => tracing::info!("SIGHUP: {failure}"),
            // `reload` has logged it.
            Ok(_) | Err(_) => {}
        }
    }
}

/// Reads the configuration again, and carries the changes out. The reload goes on if its asker goes away.
///
/// # Errors
/// What is wrong with the configuration, or why it can't be read now. Then nothing changed.
pub(crate) async fn reload(actions: &Arc<Actions>) -> Result<Reloaded, Failure> {
    let own = Arc::clone(actions);
    match tokio::spawn(async move { in_turn(&own).await }).await {
        Ok(done) => done,
        Err(_) => Err(process::defect(OBJECT)),
    }
}

async fn in_turn(actions: &Arc<Actions>) -> Result<Reloaded, Failure> {
    let reloader = actions.reloader();
    let Some(read) = reloader.read.clone() else { return Err(no_configuration()) };
    let mut turn = reloader.turn.lock().await;
    let Some(running) = turn.as_mut().filter(|_| !actions.fleet().is_stopping()) else {
        return Err(fleet::stopping(OBJECT));
    };
    let result = match read_again(read, &running.job).await {
        Ok(new) => {
            // Registered databases are compared too, so registrations wait.
            let registrations = actions.hold_registrations().await;
            match plan(new, actions, &running.job).await {
                Ok(plan) => Ok(apply::apply(plan, actions, running, registrations).await),
                Err(failure) => Err(failure),
            }
        }
        Err(failure) => Err(failure),
    };
    match &result {
        Ok(done) => done.log(),
        Err(failure) => tracing::error!(
            code = failure.code,
            next = failure.next,
            "the configuration was not reloaded, and nothing changed: {failure}"
        ),
    }
    reloader.note(&result);
    result
}

/// A configuration that was read: what it says, its warnings, and when it was read.
type New = (Job, Vec<String>, Moment);

async fn read_again(read: Read, old: &Job) -> Result<New, Failure> {
    let read_at = SystemClock.now();
    let (job, warnings) = match tokio::task::spawn_blocking(move || read()).await {
        Ok(done) => done?,
        Err(_) => return Err(process::defect(OBJECT)),
    };
    check_threads(old, &job)?;
    Ok((job, warnings, read_at))
}

async fn plan((job, warnings, read_at): New, actions: &Actions, old: &Job) -> Result<Plan, Failure> {
    let held = |seen: fleet::Seen| Held { config: seen.config, origin: seen.origin };
    let held: Vec<Held> = actions.fleet().all().into_iter().map(held).collect();
    let registered = registered(actions, &job.registering, &held).await?;
    let wanted = Wanted { configured: &job.databases, registered: &registered, directories: &job.directories };
    let changes = changes(&held, &wanted);
    match changes.clash() {
        Some(failure) => Err(failure),
        None => Ok(Plan { settings: settings(old, &job), job, warnings, held, changes, read_at }),
    }
}

/// The registered databases, with the new configuration's common settings. A database that is registered only in this
/// process, and not in the registry, stays as it is.
async fn registered(
    actions: &Actions,
    registering: &Registering,
    held: &[Held],
) -> Result<Vec<DatabaseConfig>, Failure> {
    let mut known: HashMap<_, _> = held
        .iter()
        .filter(|one| one.origin == Origin::Registered)
        .map(|one| (one.config.source(), one.config.clone()))
        .collect();
    let mut all = Vec::new();
    for one in actions.registrations().await? {
        match registering.database(&one.path, one.vault.as_deref(), one.name.as_deref()) {
            Ok(config) => {
                known.remove(&config.source());
                all.push(config);
            }
            // It isn't protected now either; the start of the process logged why.
            Err(failure) if !held.iter().any(|held| held.config.path() == Some(one.path.as_path())) => {
                tracing::debug!(%failure, "a registered database can't be protected");
            }
            Err(failure) => return Err(failure),
        }
    }
    all.extend(known.into_values());
    Ok(all)
}

/// Refuses environments and servers that need more threads than the process was started with.
fn check_threads(old: &Job, new: &Job) -> Result<(), Failure> {
    let (needed, there) = (new.threads_needed(), old.threads);
    if needed <= there {
        return Ok(());
    }
    Err(Failure::new(
        Kind::Refused,
        "agent.needs-restart",
        OBJECT,
        format!(
            "its LMDB environments and servers need {needed} threads, and this process was started with {there} for them"
        ),
        "restart the process",
    ))
}

const NO_CONFIGURATION: &str = "agent.no-configuration";

fn no_configuration() -> Failure {
    Failure::new(
        Kind::Refused,
        NO_CONFIGURATION,
        OBJECT,
        "this process was started without a configuration file, so there is none to read again",
        "start `seawall replicate --config FILE`; without a file, use `seawall register` and `unregister`",
    )
}

#[cfg(test)]
mod tests;
