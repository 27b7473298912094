//! Keeping LMDB environments in step: one session for each, all at once, until a stop or once.

use futures::future::join_all;
use seawall_core::{Failure, Shutdown};
use seawall_lmdb::{Author, Local, NanoClock, Report, Session, Settings, SyncOptions};
use seawall_vault::{Environment, Policy, Vault};
use tokio::task::spawn_blocking;

use crate::config::{LightningConfig, LmdbConfig};
use crate::process::Outcome;

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
}

/// Keeps all environments in step. A session occupies a thread for blocking work while a snapshot arrives, and the vault
/// needs another: the runtime must have two for each environment.
pub async fn keep_in_step(
    config: &LightningConfig,
    how: &InStep,
    environment: &Environment,
    clock: NanoClock,
    shutdown: &Shutdown,
) -> Vec<Outcome<Report>> {
    let one = |database| outcome(config, database, how, environment, clock.clone(), shutdown);
    join_all(config.databases.iter().map(one)).await
}

/// One environment, and how that ended.
async fn outcome(
    config: &LightningConfig,
    database: &LmdbConfig,
    how: &InStep,
    environment: &Environment,
    clock: NanoClock,
    shutdown: &Shutdown,
) -> Outcome<Report> {
    let result = session(config, database, how, environment, clock, shutdown).await;
    if let Err(failure) = &result {
        tracing::error!(
            database = database.name,
            code = failure.code,
            object = failure.object,
            next = failure.next,
            "not kept in step: {}",
            failure.cause
        );
    }
    Outcome { name: database.name.clone(), result }
}

async fn session(
    config: &LightningConfig,
    database: &LmdbConfig,
    how: &InStep,
    environment: &Environment,
    clock: NanoClock,
    shutdown: &Shutdown,
) -> Result<Report, Failure> {
    let vault = Vault::open(&config.vault, environment, Policy::default()).await?;
    if vault.needs_probe()
        && let Err(error) = vault.probe().await
    {
        // Names hold nanoseconds and the instance, so that nothing depends on what the server does with conditions.
        tracing::warn!(%error, "the vault can't be reached yet");
    }
    let (path, options) = (database.path.clone(), database.options.clone());
    let settings = Settings::new(database.schema.clone());
    let opened = spawn_blocking(move || Local::open(&path, &options, settings)).await;
    let opened = opened.map_err(|error| seawall_lmdb::Error::Internal(format!("a job ended in a panic: {error}")))?;
    let author =
        Author { instance: how.instance.clone(), hostname: how.hostname.clone(), database: database.name.clone() };
    let options = SyncOptions {
        receive_only: how.receive_only,
        only_once: how.only_once,
        poll: config.poll,
        list: config.list,
        retry: config.retry,
        force: config.force,
        sweep: config.sweep,
        ..SyncOptions::new(author)
    };
    let mut session = Session::new(opened?, vault, options, clock);
    tokio::select! {
        result = session.run(shutdown) => result?,
        // Dropped in the middle: what a crash would leave.
        () = shutdown.immediate() => return Err(crate::process::interrupted(&database.name)),
    }
    Ok(session.report().clone())
}
