//! Keeping LMDB environments in step: one session for each, all at once, until a stop or once.
//!
//! One environment's trouble is its own: the others go on. What a session tells of itself is shown by [`board`].

mod board;
mod health;
mod page;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use seawall_core::{Failure, Shutdown, blocking};
use seawall_host::Watcher;
use seawall_lmdb::{Author, Error, Local, NanoClock, Report, Session, Settings, SyncOptions};
use seawall_vault::{Environment, ObjectKey, Policy, Vault};
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::board::Board;
pub use self::health::{HealthRules, Patience};
use crate::config::{LightningConfig, LmdbConfig};
use crate::http::{Listener, serve};
use crate::process::Outcome;

/// How often the watcher looks for folders that it lost.
const SWEEP: Duration = Duration::from_secs(60);

/// What to do with the environments of a configuration.
#[derive(Debug, Clone)]
pub struct InStep {
    /// The instance, as in names of snapshots.
    pub instance: String,
    /// The host's name.
    pub hostname: String,
    /// Merge only, and send nothing.
    pub receive_only: bool,
    /// End after one round.
    pub only_once: bool,
    /// Begin once the vault has an object of this name.
    pub marker_file: Option<String>,
    /// The version of this program.
    pub version: &'static str,
}

/// Keeps all environments in step. A session occupies a thread for blocking work while a snapshot arrives, and the vault
/// needs another: the runtime must have two for each environment.
///
/// # Errors
/// When the address of the status page can't be had.
pub async fn keep_in_step(
    config: &LightningConfig,
    how: &InStep,
    environment: &Environment,
    clock: NanoClock,
    shutdown: &Shutdown,
) -> Result<Vec<Outcome<Report>>, Failure> {
    let names = config.databases.iter().map(|database| database.name.as_str());
    let board = Board::new(names, config.health, clock.clone(), &how.hostname, how.version);
    let _served = show(config, how, &board).await?;
    let watcher = if how.only_once { None } else { watch() };
    let process = Process { config, how, environment, clock, shutdown, board: &board, watcher };
    Ok(join_all(config.databases.iter().map(|database| process.outcome(database))).await)
}

/// One watcher for all environments, and for a vault that is a folder.
fn watch() -> Option<Watcher> {
    let started = Watcher::start(SWEEP);
    let refused = |error: &std::io::Error| tracing::warn!(%error, "no events from the system: everything is polled");
    started.inspect_err(refused).ok()
}

/// Serves the status page, if one is asked for, until what is returned is dropped. As with the original, an address that
/// can't be had is the end: a monitor that asks there would be answered by another process.
async fn show(config: &LightningConfig, how: &InStep, board: &Arc<Board>) -> Result<JoinSet<()>, Failure> {
    let mut tasks = JoinSet::new();
    if let Some(address) = config.http.filter(|_| !how.only_once) {
        let listener = Listener::tcp(address).await?;
        tracing::info!(address = listener.address(), "status page: listening");
        tasks.spawn(serve(listener, Arc::clone(board)));
    }
    Ok(tasks)
}

/// What all sessions of a process share.
struct Process<'a> {
    config: &'a LightningConfig,
    how: &'a InStep,
    environment: &'a Environment,
    clock: NanoClock,
    shutdown: &'a Shutdown,
    board: &'a Board,
    watcher: Option<Watcher>,
}

impl Process<'_> {
    /// One environment, and how that ended.
    async fn outcome(&self, database: &LmdbConfig) -> Outcome<Report> {
        let result = self.session(database).await;
        if let Err(failure) = &result {
            tracing::error!(
                database = database.name,
                code = failure.code,
                object = failure.object,
                next = failure.next,
                "not kept in step: {}",
                failure.cause
            );
            self.board.ended(&database.name, &failure.cause);
        }
        Outcome { name: database.name.clone(), result }
    }

    async fn session(&self, database: &LmdbConfig) -> Result<Report, Failure> {
        let Self { config, how, shutdown, .. } = *self;
        let vault = Vault::open(&config.vault, self.environment, Policy::default()).await?;
        if vault.needs_probe()
            && let Err(error) = vault.probe().await
        {
            // Names hold nanoseconds and the instance, so that nothing depends on what the server does with conditions.
            tracing::warn!(%error, "the vault can't be reached yet");
        }
        if let Some(name) = &how.marker_file
            && !appears(&vault, name, config.list, shutdown).await?
        {
            return Err(crate::process::interrupted(&database.name));
        }
        let opened = self.open(database).await?.ok_or_else(|| crate::process::interrupted(&database.name))?;
        let mut session = Session::new(opened, vault.clone(), self.options(database), self.clock.clone());
        if config.http.is_some() && !how.only_once {
            self.board.begins(&database.name, session.watch(), &vault);
        }
        tokio::select! {
            result = session.run(shutdown) => result?,
            // Dropped in the middle: what a crash would leave.
            () = shutdown.immediate() => return Err(crate::process::interrupted(&database.name)),
        }
        Ok(session.report().clone())
    }

    /// Opens an environment, once no other process keeps it in step: one may have been started before its predecessor
    /// has ended. `None` when a stop came first.
    async fn open(&self, database: &LmdbConfig) -> Result<Option<Local>, Failure> {
        let mut told = false;
        loop {
            let (path, options) = (database.path.clone(), database.options.clone());
            let settings = Settings { pace: database.pace, ..Settings::new(database.schema.clone()) };
            let opened = blocking(move || Local::open_alone(&path, &options, settings));
            let error = match opened.await {
                Err(error @ Error::Locked { .. }) if !self.how.only_once => error,
                opened => return Ok(Some(opened?)),
            };
            self.board.waits(&database.name, &error.to_string());
            if !std::mem::replace(&mut told, true) {
                let failure = Failure::from(error);
                let Failure { code, next, .. } = &failure;
                tracing::warn!(database = database.name, code, next, "waiting for the environment: {failure}");
            }
            tokio::select! {
                () = sleep(self.config.retry) => {}
                () = self.shutdown.graceful() => return Ok(None),
            }
        }
    }

    fn options(&self, database: &LmdbConfig) -> SyncOptions {
        let Self { config, how, .. } = *self;
        let (instance, hostname) = (how.instance.clone(), how.hostname.clone());
        SyncOptions {
            receive_only: how.receive_only,
            only_once: how.only_once,
            poll: config.poll,
            list: config.list,
            retry: config.retry,
            force: config.force,
            sweep: config.sweep,
            // Who only receives leaves the vault as it is.
            clean: config.clean.filter(|_| !how.receive_only),
            marker: config.marker.clone(),
            codec: config.codec,
            watcher: self.watcher.clone(),
            ..SyncOptions::new(Author { instance, hostname, database: database.name.clone() })
        }
    }
}

/// Waits until the vault has an object; whether it has, when a stop came first.
async fn appears(vault: &Vault, name: &str, every: Duration, shutdown: &Shutdown) -> Result<bool, Failure> {
    let key = ObjectKey::new(name)?;
    tracing::info!(object = name, "waiting for the marker file");
    loop {
        match vault.head(&key).await {
            Ok(Some(_)) => return Ok(true),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the marker file can't be looked for yet"),
        }
        tokio::select! {
            () = sleep(every) => {}
            () = shutdown.graceful() => return Ok(false),
        }
    }
}
