//! From a configuration's words to engines: the one place where databases and vaults are opened.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use seawall_archive::{Catalog, RetentionPolicy, Sets};
use seawall_core::{Clock as _, Description, Engine, Failure, Kind, Status, SystemClock};
use seawall_lmdb::{Lmdb, LmdbOptions, Marker, Settings, SyncOptions, author, system_clock};
use seawall_postgres::{Postgres, Source};
use seawall_sqlite::{
    Admission, LtxObject, Options, Retention, Sqlite, Turns, Upkeep, Watcher, World, databases_below,
    default_state_dir, ltx_objects, read_state,
};
pub(crate) use seawall_vault::HttpClient as Client;
use seawall_vault::{Environment, Policy, Throttle, Vault, VaultUrl};

use crate::config::{DatabaseConfig, EnvironmentConfig};
use crate::fleet::Databases;
use crate::late::{Late, Open};
use crate::lease::{Leased, Terms};

/// The vault of environments is listed after this time, also if the update marker says that nothing changed.
const MARKER_FORCE: Duration = Duration::from_secs(300);

/// Opens engines for one process.
#[derive(Debug)]
pub struct Opener {
    environment: Environment,
    /// One policy for all: its clones share connections and bandwidth.
    policy: Policy,
    opened: AtomicU64,
    watcher: Option<Watcher>,
    /// One for all, so that a thousand databases don't start at once.
    admission: Admission,
    /// Merging and deleting takes turns among all databases.
    turns: Turns,
    /// Who this process is, in leases.
    owner: String,
    jobs: usize,
    /// The host's name.
    hostname: String,
}

impl Opener {
    /// An opener that takes credentials from `environment` and lets one base or restore use `jobs` threads.
    pub fn new(environment: Environment, jobs: usize) -> Self {
        Self {
            environment,
            policy: Policy::default(),
            opened: AtomicU64::new(0),
            watcher: None,
            admission: Admission::default(),
            turns: Turns::default(),
            owner: format!("pid:{}", std::process::id()),
            jobs,
            hostname: String::new(),
        }
    }

    /// Names the host that this process runs on: environments call themselves after it where nothing else is said, and
    /// those who wait for its leases see it.
    pub fn be_on(&mut self, hostname: &str) {
        hostname.clone_into(&mut self.hostname);
        if !hostname.is_empty() {
            self.owner = format!("{hostname}:{}", std::process::id());
        }
    }

    /// Watches for changes with events from now on, and looks at every database each `sweep` as well. Must be called
    /// inside the runtime. Where the system refuses, databases are polled, which the log says.
    pub fn watch(&mut self, sweep: Duration) {
        match Watcher::start(sweep) {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(error) => tracing::warn!(%error, "no events from the system: every database is polled"),
        }
    }

    /// Lets all vaults that are opened from now on write at most this many bytes a second together.
    pub fn limit_uploads(&mut self, bytes_per_second: u64) {
        self.policy.upload = Some(Throttle::new(bytes_per_second));
    }

    /// What speaks HTTP to others than vaults; `None` where TLS can't be set up, which the log says.
    pub(crate) fn client(&self) -> Option<Client> {
        let client = self.policy.connections.plain();
        client.inspect_err(|error| tracing::error!(%error, "no heartbeats")).ok()
    }

    /// A database with its vault, to restore and to ask.
    pub async fn database(&self, database: &DatabaseConfig) -> Result<Arc<dyn Engine>, Failure> {
        self.database_and_vault(database).await.map(|(_, engine)| engine)
    }

    async fn database_and_vault(&self, database: &DatabaseConfig) -> Result<(Vault, Arc<dyn Engine>), Failure> {
        if let Some(lmdb) = &database.lmdb {
            return self.environment(database, lmdb).await;
        }
        if let Some(source) = &database.server {
            let (vault, engine) = self.server(database, source).await?;
            return Ok((vault, Arc::new(engine)));
        }
        let defaults = Options::default();
        let options = Options {
            name: database.name.clone(),
            path: Some(database.path.clone()),
            state_dir: database.state_dir.clone(),
            sync_interval: database.sync_interval.unwrap_or(defaults.sync_interval),
            busy_timeout: database.busy_timeout.unwrap_or(defaults.busy_timeout),
            checkpoint_pages: database.checkpoint_pages.unwrap_or(defaults.checkpoint_pages),
            wal_limit: database.wal_limit.unwrap_or(defaults.wal_limit),
            shutdown_timeout: database.shutdown_timeout.unwrap_or(defaults.shutdown_timeout),
            jobs: self.jobs,
            upkeep: database.upkeep.clone(),
        };
        self.vault_and_engine(&database.vault, options).await
    }

    /// A database to protect: in its turn, where it takes turns with other processes.
    async fn protected(&self, database: &DatabaseConfig) -> Result<Arc<dyn Engine>, Failure> {
        let (vault, engine) = self.database_and_vault(database).await?;
        Ok(match database.lease {
            None => engine,
            Some(ttl) => Arc::new(Leased::new(engine, vault, Terms { owner: self.owner.clone(), ttl })),
        })
    }

    /// A server's database or a whole server, with its vault.
    async fn server(&self, database: &DatabaseConfig, source: &Source) -> Result<(Vault, Postgres), Failure> {
        let vault = self.open(&database.vault).await?;
        let world = seawall_postgres::World::real(self.environment.clone());
        let sets = self.sets(vault.clone(), Some(&database.upkeep.retention), world.nonce);
        Ok((vault, Postgres::new(database.name.clone(), source.clone(), sets, world)))
    }

    /// A server's database or a whole server, to back up now.
    ///
    /// # Errors
    /// When its vault can't be opened.
    pub async fn source(&self, database: &DatabaseConfig, source: &Source) -> Result<Postgres, Failure> {
        self.server(database, source).await.map(|(_, engine)| engine)
    }

    fn sets(&self, vault: Vault, retention: Option<&Retention>, nonce: u32) -> Sets {
        let policy = retention.map(|retention| RetentionPolicy {
            enabled: retention.enabled,
            window: retention.window,
            thinning: retention.thinning(),
            grace: retention.grace,
        });
        Sets::new(vault, policy, Arc::new(SystemClock), u64::from(nonce), self.jobs)
    }

    /// An LMDB environment with its vault.
    async fn environment(
        &self,
        database: &DatabaseConfig,
        lmdb: &EnvironmentConfig,
    ) -> Result<(Vault, Arc<dyn Engine>), Failure> {
        let instance = lmdb.instance.as_deref().unwrap_or(&self.hostname);
        let usual = SyncOptions::new(author(instance, &self.hostname, &database.name));
        let prefix = match &database.vault {
            VaultUrl::S3(s3) if !s3.path.is_empty() => format!("{}/", s3.path),
            _ => String::new(),
        };
        let marker = Marker { prefix, force: MARKER_FORCE };
        let sync = SyncOptions {
            receive_only: lmdb.receive_only,
            poll: lmdb.poll.unwrap_or(usual.poll),
            list: lmdb.list.unwrap_or(usual.list),
            retry: lmdb.retry.unwrap_or(usual.retry),
            force: lmdb.force.map_or(usual.force, |force| Some(force).filter(|force| !force.is_zero())),
            sweep: lmdb.sweep,
            // Who only receives leaves the vault as it is.
            clean: lmdb.clean.filter(|_| !lmdb.receive_only),
            marker: lmdb.marker.then_some(marker),
            codec: lmdb.codec,
            ..usual
        };
        let settings = Settings { pace: lmdb.pace, jobs: self.jobs, ..Settings::new(lmdb.schema.clone()) };
        let options = LmdbOptions { path: database.path.clone(), env: lmdb.options.clone(), settings, sync };
        let vault = self.open(&database.vault).await?;
        Ok((vault.clone(), Arc::new(Lmdb::new(vault, options, system_clock()))))
    }

    /// A database to protect for long: one whose vault is away is opened when it can be.
    pub async fn lasting(self: &Arc<Self>, database: &DatabaseConfig) -> Result<Arc<dyn Engine>, Failure> {
        match self.protected(database).await {
            Err(failure) if failure.kind == Kind::Unavailable => {
                let description = Description {
                    name: database.name.clone(),
                    engine: database.engine(),
                    source: Some(database.path.display().to_string()),
                    vault: database.vault.to_string(),
                };
                let open = Again { opener: Arc::clone(self), database: database.clone() };
                Ok(Arc::new(Late::new(open, description)))
            }
            opened => opened,
        }
    }

    /// A vault alone, to merge and delete in by these settings.
    pub async fn vault_to_maintain(&self, url: &VaultUrl, upkeep: Arc<Upkeep>) -> Result<Arc<dyn Engine>, Failure> {
        let vault = self.open(url).await?;
        if Catalog::is_here(&vault).await? {
            let nonce = seawall_postgres::World::real(self.environment.clone()).nonce;
            return Ok(Arc::new(self.sets(vault, Some(&upkeep.retention), nonce)));
        }
        self.engine(url, Options { jobs: self.jobs, upkeep, ..Options::default() }).await
    }

    /// A vault alone, to restore from.
    pub async fn vault(&self, url: &VaultUrl) -> Result<Arc<dyn Engine>, Failure> {
        let vault = self.open(url).await?;
        if let Some(name) = Lmdb::alone_in(&vault).await? {
            return Ok(Arc::new(Lmdb::of_vault(vault, name, system_clock())));
        }
        if Catalog::is_here(&vault).await? {
            return Ok(Arc::new(self.sets(vault, None, 0)));
        }
        self.engine(url, Options { jobs: self.jobs, ..Options::default() }).await
    }

    /// The databases of a vault that holds several: each with its path below the vault, which is empty for the vault's
    /// own, and its own place.
    ///
    /// # Errors
    /// When the vault can't be listed.
    pub async fn databases_below(&self, url: &VaultUrl) -> Result<Vec<(String, VaultUrl)>, Failure> {
        let vault = Vault::open(url, &self.environment, self.policy.clone()).await?;
        let found = databases_below(&vault).await?;
        let place = |below: String| {
            let place = if below.is_empty() { url.clone() } else { url.join(&below)? };
            Ok((below, place))
        };
        found.into_iter().map(place).collect()
    }

    /// The LTX files of a vault, as they lie there.
    ///
    /// # Errors
    /// When the vault can't be listed.
    pub async fn ltx_objects(&self, url: &VaultUrl) -> Result<Vec<LtxObject>, Failure> {
        let vault = Vault::open(url, &self.environment, self.policy.clone()).await?;
        ltx_objects(&vault).await
    }

    async fn open(&self, url: &VaultUrl) -> Result<Vault, Failure> {
        // Retries of many vaults must not come in step.
        let nth = self.opened.fetch_add(1, Ordering::Relaxed);
        let seed = self.policy.seed.wrapping_add(nth.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Ok(Vault::open(url, &self.environment, Policy { seed, ..self.policy.clone() }).await?)
    }

    async fn engine(&self, url: &VaultUrl, options: Options) -> Result<Arc<dyn Engine>, Failure> {
        self.vault_and_engine(url, options).await.map(|(_, engine)| engine)
    }

    async fn vault_and_engine(&self, url: &VaultUrl, options: Options) -> Result<(Vault, Arc<dyn Engine>), Failure> {
        let vault = self.open(url).await?;
        let world = World::real(self.watcher.clone(), self.admission.clone());
        let world = World { turns: self.turns.clone(), ..world };
        Ok((vault.clone(), Arc::new(Sqlite::new(vault, options, world))))
    }
}

#[async_trait]
impl Databases for Arc<Opener> {
    async fn lasting(&self, database: &DatabaseConfig) -> Result<Arc<dyn Engine>, Failure> {
        Opener::lasting(self, database).await
    }

    async fn fleeting(&self, database: &DatabaseConfig) -> Result<Arc<dyn Engine>, Failure> {
        self.protected(database).await
    }
}

/// What [`Late`] needs to try again.
struct Again {
    opener: Arc<Opener>,
    database: DatabaseConfig,
}

#[async_trait]
impl Open for Again {
    async fn open(&self) -> Result<Arc<dyn Engine>, Failure> {
        self.opener.protected(&self.database).await
    }
}

/// The state of the protection of a database of the configuration, from its record on this machine. Blocks.
///
/// # Errors
/// When nothing was recorded, or the record can't be read.
pub fn read_recorded(database: &DatabaseConfig) -> Result<Status, Failure> {
    match &database.lmdb {
        Some(_) => seawall_lmdb::read_status(&database.data_file(), SystemClock.now()),
        None => read_status(&database.path, database.state_dir.as_deref()),
    }
}

/// The state of a database's protection from its record on this machine. Blocks.
///
/// # Errors
/// When nothing was recorded, or the record can't be read.
pub fn read_status(database: &Path, state_dir: Option<&Path>) -> Result<Status, Failure> {
    match state_dir {
        Some(state_dir) => read_state_dir(state_dir),
        None => read_state_dir(&default_state_dir(database)),
    }
}

/// The state of a database's protection from its state folder. Blocks.
///
/// # Errors
/// When nothing was recorded, or the record can't be read.
pub fn read_state_dir(state_dir: &Path) -> Result<Status, Failure> {
    read_state(state_dir, SystemClock.now())
}
