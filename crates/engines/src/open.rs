//! Opens databases and vaults from a configuration. No other code opens them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seawall_archive::server::Limits;
use seawall_archive::{RetentionPolicy, Scheduled, World};
use seawall_core::{Clock as _, Engine, Failure, Journal, Kind, Status, SystemClock};
use seawall_postgres::physical::continuous::Continuous;
use seawall_postgres::physical::kept;
use seawall_postgres::physical::prove::ClusterProver;
use seawall_sqlite::{
    Admission, Handles, LtxObject, Turns, Upkeep, Watcher, databases_below, default_state_dir, ltx_objects, read_state,
};
use seawall_vault::{Access, Environment, HttpClient, Noted, Policy, Prompt, Throttle, Vault, VaultUrl};

use crate::alarms::Place;
use crate::database::{DatabaseConfig, EngineConfig};
use crate::encryption::{Encryption, Owner, keys_of, place_of_folder};
use crate::keep::Keep;
use crate::recognise::{self, Held};
use crate::several::{self, SeveralEngine};
use crate::{backups, clusters, lmdb, sets, sqlite};

/// Opens engines for one process.
#[derive(Debug)]
pub struct Opener {
    pub(crate) environment: Environment,
    /// One policy for all: its clones share connections and bandwidth.
    policy: Policy,
    opened: AtomicU64,
    pub(crate) watcher: Option<Watcher>,
    /// One for all, so that a thousand databases don't start at once.
    pub(crate) admission: Admission,
    /// Merging and deleting takes turns among all databases.
    pub(crate) turns: Turns,
    /// Two engines of one database share their handles on its files.
    pub(crate) handles: Handles,
    /// Who this process is, in leases.
    owner: String,
    pub(crate) jobs: usize,
    /// How much of the machine a server may use that is started for a vault alone, and where its programs are.
    server_limits: Limits,
    /// The host's name.
    pub(crate) hostname: String,
    /// Where records are that belong to no file.
    pub(crate) state: Option<PathBuf>,
    /// Whether this process is the one that protects, and so notes which of several vaults are behind.
    protects: bool,
    /// The owner's keys, for vaults that are encrypted.
    pub(crate) owner_keys: Arc<Owner>,
    /// What the process does beside the protection.
    journal: Journal,
}

/// The databases of a vault that holds several.
#[derive(Debug)]
pub struct Below {
    /// For each its path below the vault, and its place.
    pub databases: Vec<(String, VaultUrl)>,
    /// What to tell of names behind which nothing was looked for.
    pub passed_over: Option<Failure>,
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
            handles: Handles::default(),
            owner: format!("pid:{}", std::process::id()),
            jobs,
            server_limits: Limits::default(),
            hostname: String::new(),
            state: None,
            protects: false,
            owner_keys: Arc::default(),
            journal: Journal::default(),
        }
    }

    /// Limits the servers that are started for proofs. A database of a configuration has its own limits, but for where the programs
    /// are and how long a proof may take.
    pub fn limit_servers(&mut self, limits: Limits) {
        self.server_limits = limits;
    }

    /// What a server may use that is started for a proof of a database with these limits.
    pub(crate) fn limits_of(&self, its: &Limits) -> Limits {
        let Limits { bindir, proof, .. } = self.server_limits.clone();
        Limits { bindir: bindir.or_else(|| its.bindir.clone()), proof: proof.or(its.proof), ..its.clone() }
    }

    /// Where backups, proofs and restores are noted. Openers that are made from this one note theirs in the same journal.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// An opener for work that is done beside the protection, with `jobs` threads, in a runtime of its own: it shares no connection.
    #[must_use]
    pub fn apart(&self, jobs: usize) -> Self {
        Self {
            policy: Policy { connections: Policy::default().connections, ..self.policy.clone() },
            handles: self.handles.clone(),
            owner: self.owner.clone(),
            hostname: self.hostname.clone(),
            state: self.state.clone(),
            owner_keys: self.owner_keys.clone(),
            journal: self.journal.clone(),
            ..Self::new(self.environment.clone(), jobs)
        }
    }

    /// Sets the name of this host. It is the default name of environments, and other processes see it while they wait
    /// for this host's leases.
    pub fn be_on(&mut self, hostname: &str) {
        hostname.clone_into(&mut self.hostname);
        if !hostname.is_empty() {
            self.owner = format!("{hostname}:{}", std::process::id());
        }
    }

    /// The name of this host; empty if nobody said it.
    pub fn hostname(&self) -> &str {
        &self.hostname
    }

    /// Sets where records of databases are that are no files.
    pub fn find_state_in(&mut self, folder: Option<PathBuf>) {
        self.state = folder;
    }

    /// Notes from now on which vaults of a database are behind. Only the process that protects it does.
    pub fn note_vaults(&mut self) {
        self.protects = true;
    }

    /// Reads encrypted vaults with the keys in this file from now on. `asked` says that the user named it for this command:
    /// then a vault of which nothing else is said has to be encrypted. `prompt` asks for passphrases. Blocks.
    ///
    /// # Errors
    /// When the file holds no keys.
    pub fn identify(&mut self, file: Option<&Path>, asked: bool, prompt: Arc<dyn Prompt>) -> Result<(), Failure> {
        self.owner_keys = Arc::new(Owner::new(file, asked, prompt)?);
        Ok(())
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

    /// Who this process is, in leases.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// A client for HTTP to other servers than vaults; `None` if TLS can't be set up, which is logged.
    pub fn client(&self) -> Option<HttpClient> {
        let client = self.policy.connections.plain();
        client.inspect_err(|error| tracing::error!(%error, "no heartbeats, and no notifications over HTTP")).ok()
    }

    /// Where the facts of a database's alarms are on this machine.
    pub fn place_here(&self, database: &DatabaseConfig) -> Place {
        database.place_here(&self.environment)
    }

    /// Where the silence of a folder of databases is on this machine.
    pub fn place_of_folder(&self, folder: &Path) -> Place {
        place_of_folder(folder, &self.environment)
    }

    /// A database with its vault, to restore and to ask.
    pub async fn database(&self, database: &DatabaseConfig) -> Result<Arc<dyn Engine>, Failure> {
        self.database_and_vault(database).await.map(|(_, engine)| engine)
    }

    /// The same, with the vault itself.
    pub async fn database_and_vault(&self, database: &DatabaseConfig) -> Result<(Vault, Arc<dyn Engine>), Failure> {
        let vault = self.vault_of(database).await?;
        let engine: Arc<dyn Engine> = match &database.engine {
            // The state record on this machine tells of a later state than the vault had then.
            EngineConfig::Sqlite(config) if database.vault.is_past() => {
                sqlite::of_vault(self, vault.clone(), config.upkeep.clone())
            }
            EngineConfig::Sqlite(config) => sqlite::open(self, vault.clone(), config.options(database, self.jobs)),
            EngineConfig::Lmdb(config) => lmdb::open(self, vault.clone(), database, config),
            EngineConfig::Server(config) => Arc::new(backups::open(self, vault.clone(), database, config)),
            EngineConfig::Cluster(config) => Arc::new(clusters::open(self, vault.clone(), database, config)),
        };
        let engine: Arc<dyn Engine> = match database.beside.is_empty() {
            true => engine,
            false => {
                let policy = self.policy_of(database, self.access_of(database)?);
                let around = SeveralEngine::around(self, database, vault.clone(), engine, &policy).await;
                Arc::new(around)
            }
        };
        Ok((vault, engine))
    }

    /// A database of a server, to back up now; `None` for a database that is a file.
    ///
    /// # Errors
    /// When its vault can't be opened.
    pub async fn server(&self, database: &DatabaseConfig) -> Result<Option<Scheduled>, Failure> {
        Ok(match &database.engine {
            EngineConfig::Server(config) => Some(backups::open(self, self.vault_of(database).await?, database, config)),
            EngineConfig::Sqlite(_) | EngineConfig::Lmdb(_) | EngineConfig::Cluster(_) => None,
        })
    }

    /// A cluster that is protected continuously, to make a base of now; `None` for any other database.
    ///
    /// # Errors
    /// When its vault can't be opened.
    pub async fn cluster(&self, database: &DatabaseConfig) -> Result<Option<Continuous>, Failure> {
        Ok(match &database.engine {
            EngineConfig::Cluster(config) => {
                Some(clusters::open(self, self.vault_of(database).await?, database, config))
            }
            EngineConfig::Sqlite(_) | EngineConfig::Lmdb(_) | EngineConfig::Server(_) => None,
        })
    }

    /// The status of a database that no process protects now: from its record on this machine, and of a server, which has
    /// none, from the vault. Blocks while it reads.
    ///
    /// # Errors
    /// When nothing was recorded, or the record or the vault can't be read.
    pub async fn recorded(&self, database: &DatabaseConfig) -> Result<Status, Failure> {
        let status = match &database.engine {
            EngineConfig::Sqlite(config) => read_state_dir(&config.state_dir()),
            EngineConfig::Lmdb(config) => lmdb::recorded(config),
            EngineConfig::Server(_) | EngineConfig::Cluster(_) => self.database(database).await?.status().await,
        }?;
        let vaults = if status.vaults.is_empty() { several::recorded(self, database) } else { status.vaults };
        Ok(Status { vaults, ..status })
    }

    /// The vault of a database alone, to merge and delete in by the database's settings, but for what `keep` says.
    pub async fn database_to_maintain(
        &self,
        database: &DatabaseConfig,
        keep: &Keep,
    ) -> Result<Arc<dyn Engine>, Failure> {
        let vault = self.vault_of(database).await?;
        Ok(match &database.engine {
            EngineConfig::Sqlite(config) => sqlite::of_vault(self, vault, keep.upkeep(&config.upkeep)),
            EngineConfig::Lmdb(_) => lmdb::of_vault(vault, database.name.clone()),
            EngineConfig::Server(config) => sets::of_vault(self, vault, Some(keep.policy(&config.retention))),
            EngineConfig::Cluster(config) => self.cluster_of(vault, Some(keep.policy(&config.retention))),
        })
    }

    /// A vault alone, to merge and delete in by the engines' own settings, but for what `keep` says.
    pub async fn vault_to_maintain(&self, url: &VaultUrl, keep: &Keep) -> Result<Arc<dyn Engine>, Failure> {
        let upkeep = keep.upkeep(&Arc::default());
        let policy = sets::policy(&upkeep.retention);
        self.alone(url, upkeep, Some(policy)).await
    }

    /// A vault alone, to restore from.
    pub async fn vault(&self, url: &VaultUrl) -> Result<Arc<dyn Engine>, Failure> {
        self.alone(url, Arc::default(), None).await
    }

    /// A vault alone, with the engine of what it holds.
    ///
    /// # Errors
    /// When it can't be opened or listed.
    pub async fn vault_and_engine(&self, url: &VaultUrl) -> Result<(Vault, Arc<dyn Engine>), Failure> {
        let vault = self.vault_alone(url).await?;
        let engine = self.engine_in(vault.clone(), Arc::default(), None).await?;
        Ok((vault, engine))
    }

    async fn alone(
        &self,
        url: &VaultUrl,
        upkeep: Arc<Upkeep>,
        policy: Option<RetentionPolicy>,
    ) -> Result<Arc<dyn Engine>, Failure> {
        self.engine_in(self.vault_alone(url).await?, upkeep, policy).await
    }

    /// An engine over what a vault holds.
    pub(crate) async fn engine_in(
        &self,
        vault: Vault,
        upkeep: Arc<Upkeep>,
        policy: Option<RetentionPolicy>,
    ) -> Result<Arc<dyn Engine>, Failure> {
        Ok(match recognise::look(&vault).await? {
            Held::Lmdb => lmdb::alone_in(vault).await?,
            Held::Sets => sets::of_vault(self, vault, policy),
            Held::Cluster => self.cluster_of(vault, policy),
            // A vault that holds nothing answers as an empty one of files does.
            Held::Sqlite | Held::Nothing => sqlite::of_vault(self, vault, upkeep),
        })
    }

    /// A cluster's vault alone.
    fn cluster_of(&self, vault: Vault, policy: Option<RetentionPolicy>) -> Arc<dyn Engine> {
        let world = World::real(self.environment.clone());
        let prover = ClusterProver::new(vault.clone(), self.server_limits.clone(), world);
        kept::of_vault(vault, policy, prover)
    }

    /// Whether a vault holds nothing but the files and the log of a PostgreSQL cluster.
    ///
    /// # Errors
    /// When the vault can't be listed.
    pub async fn holds_cluster(&self, url: &VaultUrl) -> Result<bool, Failure> {
        Ok(recognise::look(&self.vault_alone(url).await?).await? == Held::Cluster)
    }

    /// A vault that holds backup sets of a server; `None` where it holds anything else.
    ///
    /// # Errors
    /// When the vault can't be listed.
    pub async fn sets(&self, url: &VaultUrl) -> Result<Option<Vault>, Failure> {
        let vault = self.vault_alone(url).await?;
        Ok((recognise::look(&vault).await? == Held::Sets).then_some(vault))
    }

    /// The databases of a vault that holds several: for each its path below the vault (empty for the vault's own
    /// database) and its place. Names that were passed over are told beside them.
    ///
    /// # Errors
    /// When the vault can't be listed.
    pub async fn databases_below(&self, url: &VaultUrl) -> Result<Below, Failure> {
        // Each of them has its own marker.
        let vault = self.open(url, Access::Names).await?;
        let noted = Noted::default();
        let found = databases_below(&vault, &noted).await?;
        let place = |below: String| {
            let place = if below.is_empty() { url.clone() } else { url.join(&below)? };
            Ok((below, place))
        };
        let databases = found.into_iter().map(place).collect::<Result<_, Failure>>()?;
        Ok(Below { databases, passed_over: noted.so_far().failure(&url.to_string()) })
    }

    /// The LTX files of a vault, as they lie there.
    ///
    /// # Errors
    /// When the vault can't be listed.
    pub async fn ltx_objects(&self, url: &VaultUrl) -> Result<Vec<LtxObject>, Failure> {
        let vault = self.vault_alone(url).await?;
        ltx_objects(&vault).await
    }

    /// A vault alone. It is read as an encrypted one if there is any key of the owner.
    ///
    /// # Errors
    /// When it can't be opened.
    pub async fn vault_alone(&self, url: &VaultUrl) -> Result<Vault, Failure> {
        self.open(url, self.owner_keys.alone()).await
    }

    /// A vault of a server's sets, to write to as the command line says.
    ///
    /// # Errors
    /// When it can't be opened.
    pub async fn vault_to_fill(&self, url: &VaultUrl, encryption: Option<&Encryption>) -> Result<Vault, Failure> {
        let access = self.owner_keys.of(encryption, keys_of(url, &self.environment))?;
        self.open(url, access).await
    }

    /// A vault alone, opened as `access` says.
    ///
    /// # Errors
    /// When it can't be opened.
    pub async fn vault_with(&self, url: &VaultUrl, access: Access) -> Result<Vault, Failure> {
        self.open(url, access).await
    }

    /// The vaults of a database as one.
    pub(crate) async fn vault_of(&self, database: &DatabaseConfig) -> Result<Vault, Failure> {
        suits_encryption(database, self.owner_keys.any())?;
        if self.protects && database.prove.is_none() {
            // A schedule that comes back begins to count anew.
            self.place_here(database).note_proved(true, SystemClock.now());
        }
        let access = self.access_of(database)?;
        let policy = self.policy_of(database, access);
        if database.beside.is_empty() {
            return Ok(Vault::open(&database.vault, &self.environment, policy).await?);
        }
        Ok(several::open(self, database, policy, self.protects).await)
    }

    /// How the vaults of a database of this machine are opened: it is noted here where they are.
    fn policy_of(&self, database: &DatabaseConfig, access: Access) -> Policy {
        let notes = self.place_here(database).vault_notes();
        // A database that is a file has a folder for its state as soon as it is protected.
        let notes_in_own_folder = matches!(database.engine, EngineConfig::Server(_) | EngineConfig::Cluster(_));
        Policy { notes, notes_in_own_folder, ..self.next_policy(access) }
    }

    pub(crate) fn access_of(&self, database: &DatabaseConfig) -> Result<Access, Failure> {
        self.owner_keys.of(database.encryption.as_ref(), database.keys(&self.environment))
    }

    /// How a vault is opened that is written for these recipients, or read by the owner's keys alone.
    pub(crate) fn access_for(&self, url: &VaultUrl, encryption: Option<&Encryption>) -> Result<Access, Failure> {
        match encryption {
            Some(_) => self.owner_keys.of(encryption, keys_of(url, &self.environment)),
            None => Ok(self.owner_keys.alone()),
        }
    }

    pub(crate) async fn open(&self, url: &VaultUrl, access: Access) -> Result<Vault, Failure> {
        Ok(Vault::open(url, &self.environment, self.next_policy(access)).await?)
    }

    /// Retries of many vaults must not come in step.
    pub(crate) fn next_policy(&self, access: Access) -> Policy {
        let nth = self.opened.fetch_add(1, Ordering::Relaxed);
        let seed = self.policy.seed.wrapping_add(nth.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Policy { seed, access, ..self.policy.clone() }
    }
}

/// Whether a database can be protected with the encryption that its configuration asks for. `any_key` says that the process has a key of the owner
/// that the configuration doesn't name.
///
/// # Errors
/// `config.encryption`: its bases are made too rarely for the host's keys, or it has to read what only the owner's key opens.
pub fn suits_encryption(database: &DatabaseConfig, any_key: bool) -> Result<(), Failure> {
    if database.encryption.as_ref().is_none_or(|encryption| encryption.identity.is_some()) {
        return Ok(());
    }
    let (cause, next) = match &database.engine {
        EngineConfig::Sqlite(config) if !sqlite::bases_come_in_time(config) => (
            "the host's keys live for two days, and a base is made from the base before it: snapshot.interval is longer, or off",
            "write a snapshot.interval of at most 48h, or name an identity under `encryption`",
        ),
        EngineConfig::Lmdb(config) if !config.send_only && !any_key => (
            "an instance that receives reads the snapshots of the others, which only the owner's key opens",
            "name an identity under `encryption`; if this instance is only to send, write send-only: true under `lmdb`",
        ),
        _ => return Ok(()),
    };
    Err(Failure::new(Kind::Usage, "config.encryption", database.name.clone(), cause, next))
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
    read_state(state_dir, &SystemClock)
}
