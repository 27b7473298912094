//! A server, or one of its databases, in a `seawall.yml`: `url`, `schedule`, and the keys of `backup` that every engine of
//! servers has.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use seawall_archive::server::{BackUp, Dumped, EngineNames, Limits, Readiness};
use seawall_archive::{Codec, Machine, Profile, RetentionPolicy, Schedule, Scheduled, ServerEngine as _, World};
use seawall_core::{Both, Failure, Journal, Progress, SystemClock, TaskKind};
use seawall_sqlite::Upkeep;
use seawall_vault::{Environment, Vault};

use crate::database::{DatabaseConfig, Said};
use crate::hooks::{About, Hooks, Operation};
use crate::open::Opener;
use crate::server::ServerUrl;
use crate::sqlite::SqliteConfig;
use crate::{mysql, postgres, sets};

use seawall_config::document::Value;
use seawall_config::error::{Location, Problem};
use seawall_config::fields::{At, Fields};
use seawall_config::place;

/// A server's database, or a whole server, and the retention of its backups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Where it is and how it is backed up.
    pub source: ServerSource,
    /// When it is backed up.
    pub schedule: Schedule,
    /// Which backups may go.
    pub retention: RetentionPolicy,
}

/// Where a server is and how it is backed up, for each engine of servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerSource {
    /// PostgreSQL.
    Postgres(Box<seawall_postgres::Target>, seawall_postgres::DumpOptions),
    /// MySQL or MariaDB.
    Mysql(Box<seawall_mysql::Target>, seawall_mysql::DumpOptions),
}

/// The settings of a backup that every engine of servers has.
#[derive(Debug, Clone)]
pub(crate) struct Common {
    pub(crate) limits: Limits,
    pub(crate) codec: Codec,
    pub(crate) excluded: Vec<String>,
}

impl ServerSource {
    /// The name of the engine.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Postgres(..) => seawall_postgres::NAMES.name,
            Self::Mysql(..) => seawall_mysql::NAMES.name,
        }
    }

    /// The URL without a password.
    pub fn url(&self) -> String {
        match self {
            Self::Postgres(target, _) => target.to_string(),
            Self::Mysql(target, _) => target.to_string(),
        }
    }

    /// How much of the machine a backup may use.
    pub fn limits(&self) -> &Limits {
        match self {
            Self::Postgres(_, options) => &options.limits,
            Self::Mysql(_, options) => &options.limits,
        }
    }

    /// What a backup of it would be refused for, and which programs are here for a backup and a proof. Changes nothing.
    ///
    /// # Errors
    /// When the server can't be reached, or no backup of its version can be made.
    pub async fn examine(&self, environment: &Environment) -> Result<Readiness, Failure> {
        let world = World::real(environment.clone());
        match self {
            Self::Postgres(target, options) => seawall_postgres::Postgres::examine(target, options, &world).await,
            Self::Mysql(target, options) => seawall_mysql::Mysql::examine(target, options, &world).await,
        }
    }

    /// What backs it up.
    fn opened(&self, world: World) -> Arc<dyn BackUp> {
        match self.clone() {
            Self::Postgres(target, options) => Arc::new(seawall_postgres::Source { target: *target, options, world }),
            Self::Mysql(target, options) => Arc::new(seawall_mysql::Source { target: *target, options, world }),
        }
    }
}

/// Reads a `url`.
pub(crate) fn target(At { line, value }: &At<String>, environment: &Environment) -> Result<ServerUrl, Location> {
    ServerUrl::parse(value, environment).map_err(|failure| place::problem(failure).at(*line))
}

/// Refuses settings that a server's database can't have. Retention is all that it shares with files.
pub(crate) fn check(files: &SqliteConfig, common: &Upkeep, said: Said, lmdb: bool) -> Result<(), Problem> {
    let upkeep = Upkeep { retention: common.retention.clone(), ..Upkeep::clone(&files.upkeep) };
    let others = [
        ("restore-if-missing", said.restore_if_missing),
        ("lease", said.lease),
        ("l0-retention", files.upkeep.retention.l0 != common.retention.l0),
        ("settings of levels, snapshots and validation", upkeep != *common),
    ];
    let keys = [("lmdb", lmdb)].into_iter().chain(files.keys()).chain(others);
    match keys.into_iter().find(|(_, is_set)| *is_set) {
        Some((key, _)) => Err(Problem::Contradiction(format!("{key}: of no use for a database of a server"))),
        None => Ok(()),
    }
}

/// Reads everything else; files are relative to `here`.
pub(crate) fn read(
    fields: &mut Fields,
    url: ServerUrl,
    name: &str,
    here: &Path,
    upkeep: &Upkeep,
) -> Result<ServerConfig, Location> {
    let missing = fields.missing("schedule");
    let At { line, value } = fields.text("schedule")?.ok_or(missing)?;
    let schedule = schedule("schedule", &value, name).map_err(|problem| problem.at(line))?;
    let mut backup = fields.section("backup")?;
    let common = common(backup.as_mut(), url.is_whole())?;
    let source = match url {
        ServerUrl::Postgres(target) => {
            let (target, options) = postgres::read(backup.as_mut(), *target, common, here)?;
            ServerSource::Postgres(Box::new(target), options)
        }
        ServerUrl::Mysql(target) => {
            let (target, options) = mysql::read(backup.as_mut(), *target, common, here)?;
            ServerSource::Mysql(Box::new(target), options)
        }
    };
    if let Some(backup) = backup {
        backup.finish()?;
    }
    Ok(ServerConfig { source, schedule, retention: sets::policy(&upkeep.retention) })
}

/// Reads a schedule.
pub(crate) fn schedule(key: &str, text: &str, name: &str) -> Result<Schedule, Problem> {
    Schedule::parse(text, name).map_err(|cause| {
        let expected = "takes a cron expression, such as \"0 3 * * *\", with a time zone behind it if it isn't UTC";
        Problem::Value { key: key.into(), expected: expected.into(), found: format!("\"{text}\": {cause}") }
    })
}

/// This machine as it is now, for the profile of a command.
pub fn this_machine() -> Machine {
    Machine { cores: cores(), memory: seawall_host::free_memory() }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Reads how much of the machine may be used.
pub(crate) fn limits(backup: &mut Fields, limits: &mut Limits) -> Result<(), Location> {
    let profile = |text: &str| text.parse::<Profile>().ok();
    if let Some(at) =
        backup.parsed("profile", "conservative, balanced, performance, max-performance or turbo", profile)?
    {
        // Not by what is free now: then a reload would find other settings each time.
        limits.choose(at.value, Machine { cores: cores(), memory: seawall_host::machine_memory() });
    }
    if let Some(at) = backup.parsed("jobs", "a whole number from 1 to 64", |text| {
        text.parse().ok().filter(|jobs| (1..=64).contains(jobs))
    })? {
        limits.jobs = at.value;
    }
    if let Some(at) = backup.size("memory")? {
        limits.memory = at.value;
    }
    Ok(())
}

/// The keys of `backup` that every engine has. `whole` says that the URL names a whole server.
fn common(backup: Option<&mut Fields>, whole: bool) -> Result<Common, Location> {
    let mut common =
        Common { limits: Limits { jobs: 1, ..Limits::default() }, codec: Codec::default(), excluded: Vec::new() };
    let Some(backup) = backup else { return Ok(common) };
    limits(backup, &mut common.limits)?;
    common.codec = common.limits.profile.map_or_else(Codec::default, Profile::codec);
    let codec = |text: &str| text.parse::<Codec>().ok();
    if let Some(at) =
        backup.parsed("compression", "zstd, zstd:1 to zstd:19, gzip, gzip:1 to gzip:12, lz4 or none", codec)?
    {
        common.codec = at.value;
    }
    if let Some(At { line, value }) = backup.list("exclude-databases")? {
        if !whole {
            let cause = "exclude-databases: of a whole server, and url names a database".to_owned();
            return Err(Problem::Contradiction(cause).at(line));
        }
        common.excluded = value
            .into_iter()
            .map(|node| match node.value {
                Value::Text(name) => Ok(name),
                other => {
                    let (key, expected) = ("exclude-databases".to_owned(), "takes names of databases".to_owned());
                    Err(Problem::Value { key, expected, found: other.shape().into() }.at(node.line))
                }
            })
            .collect::<Result<_, _>>()?;
    }
    Ok(common)
}

/// Opens a source with its vault.
pub(crate) fn open(opener: &Opener, vault: Vault, database: &DatabaseConfig, config: &ServerConfig) -> Scheduled {
    let world = World::real(opener.environment.clone());
    let sets = sets::sets(opener, vault, Some(config.retention.clone()), world.nonce);
    let (schedule, clock) = (config.schedule.clone(), Arc::new(SystemClock));
    let source = config.source.opened(world);
    let (hooks, about) = (Arc::clone(&database.hooks), database.about(String::new()));
    let source = Arc::new(Hooked { source, hooks, about, journal: opener.journal().clone() });
    Scheduled::new(database.name.clone(), source, schedule, sets, clock)
}

/// A source with the programs that run around its backups, and the journal that notes them.
struct Hooked {
    source: Arc<dyn BackUp>,
    hooks: Arc<Hooks>,
    about: About,
    journal: Journal,
}

#[async_trait]
impl BackUp for Hooked {
    fn engine(&self) -> &'static EngineNames {
        self.source.engine()
    }

    fn url(&self) -> String {
        self.source.url()
    }

    async fn back_up(&self, vault: &Vault, nth: u32, progress: Arc<dyn Progress>) -> Result<Dumped, Failure> {
        let task = self.journal.begin(TaskKind::Backup, &self.about.database, "");
        let progress = Arc::new(Both(progress, task.progress()));
        let made = self.hooks.around(Operation::Backup, &self.about, self.source.back_up(vault, nth, progress)).await;
        task.end(&made, |dumped| format!("the set {}", dumped.manifest.id));
        made
    }
}
