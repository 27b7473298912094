//! Keeping LMDB environments in step: one session for each, all at once, until a stop or once.
//!
//! One environment's trouble is its own: the others go on. What a session tells of itself is shown by [`board`].
//! [`sessions`] lets them come and go when the configuration is read again.

mod board;
mod health;
mod page;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use seawall_core::{Failure, Shutdown, blocking};
use seawall_host::Watcher;
use seawall_lmdb::{Author, Error, Local, NanoClock, Report, Session, Settings, SyncOptions};
use seawall_vault::{Environment, ObjectKey, Policy, Vault};
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::board::Board;
pub use self::health::{HealthRules, Patience};
pub use self::sessions::{InStepReload, ReadInStep};
use self::sessions::{Sessions, Wanted};
use crate::config::{LightningConfig, LmdbConfig};
use crate::http::{Listener, serve};
use crate::process::Outcome;

/// How often the watcher looks for folders that it lost.
const SWEEP: Duration = Duration::from_secs(60);

/// What to do with the environments of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
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
/// needs another: the runtime must have two for each environment. With `reload` the configuration is read again at SIGHUP.
///
/// # Errors
/// When the address of the status page can't be had.
pub async fn keep_in_step(
    config: &LightningConfig,
    how: &InStep,
    environment: &Environment,
    clock: NanoClock,
    shutdown: &Shutdown,
    reload: Option<InStepReload>,
) -> Result<Vec<Outcome<Report>>, Failure> {
    let names = config.databases.iter().map(|database| database.name.as_str());
    let board = Board::new(names, config.health, clock.clone(), &how.hostname, how.version);
    let _served = show(config, how, &board).await?;
    let watcher = if how.only_once { None } else { watch() };
    let shown = config.http.is_some() && !how.only_once;
    let process = Process { environment, clock, shutdown, board: &board, watcher, shown };
    Ok(Sessions::start(&process, Wanted::new(config.clone(), how.clone())).run(reload).await)
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
    environment: &'a Environment,
    clock: NanoClock,
    shutdown: &'a Shutdown,
    board: &'a Board,
    watcher: Option<Watcher>,
    /// Whether there is a status page.
    shown: bool,
}

impl Process<'_> {
    /// One environment, and how that ended.
    async fn outcome(&self, wanted: &Wanted, database: &LmdbConfig, shutdown: &Shutdown) -> Outcome<Report> {
        let result = self.session(wanted, database, shutdown).await;
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

    async fn session(&self, wanted: &Wanted, database: &LmdbConfig, shutdown: &Shutdown) -> Result<Report, Failure> {
        let Wanted { config, how } = wanted;
        // Unlike the original, nothing is sent into the folder under a disk that isn't mounted.
        let policy = Policy { notes: database.vault_notes(), ..Policy::default() };
        let vault = Vault::open(&config.vault, self.environment, policy).await?;
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
        let opened = self.open(wanted, database, shutdown).await?;
        let opened = opened.ok_or_else(|| crate::process::interrupted(&database.name))?;
        let mut session = Session::new(opened, vault.clone(), self.options(wanted, database), self.clock.clone());
        if self.shown {
            self.board.begins(&database.name, session.watch(), &vault);
        }
        tokio::select! {
            result = session.run(shutdown) => result?,
            // Dropped in the middle: what a crash would leave.
            () = shutdown.immediate() => return Err(crate::process::interrupted(&database.name)),
        }
        Ok(session.report().clone())
    }

    /// Opens an environment, once no other process keeps it in step, and once its file is whole. A process may be
    /// started before its predecessor has ended, or because its predecessor read a page that another program had cut
    /// off. `None` when a stop came first.
    async fn open(
        &self,
        wanted: &Wanted,
        database: &LmdbConfig,
        shutdown: &Shutdown,
    ) -> Result<Option<Local>, Failure> {
        let mut told = false;
        loop {
            let (path, options) = (database.path.clone(), database.options.clone());
            let settings = Settings { pace: database.pace, ..Settings::new(database.schema.clone()) };
            let opened = blocking(move || Local::open_alone(&path, &options, settings));
            let error = match opened.await {
                Err(error @ (Error::Locked { .. } | Error::Cut { .. })) if !wanted.how.only_once => error,
                opened => return Ok(Some(opened?)),
            };
            self.board.waits(&database.name, &error.to_string());
            if !std::mem::replace(&mut told, true) {
                let failure = Failure::from(error);
                let Failure { code, next, .. } = &failure;
                tracing::warn!(database = database.name, code, next, "waiting for the environment: {failure}");
            }
            tokio::select! {
                () = sleep(wanted.config.retry) => {}
                () = shutdown.graceful() => return Ok(None),
            }
        }
    }

    fn options(&self, Wanted { config, how }: &Wanted, database: &LmdbConfig) -> SyncOptions {
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
