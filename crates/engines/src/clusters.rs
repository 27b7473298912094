//! A PostgreSQL cluster that is protected continuously, in a `seawall.yml`: `url`, `continuous`, and of `backup` the keys that say how much
//! of the machine a base may use.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use seawall_archive::log::Lsn;
use seawall_archive::server::Limits;
use seawall_archive::{RetentionPolicy, Schedule, World};
use seawall_config::absolute;
use seawall_config::error::{Location, Problem};
use seawall_config::fields::{At, Fields};
use seawall_core::{Both, Failure, Journal, Progress, SystemClock, TaskKind};
use seawall_postgres::Target;
use seawall_postgres::physical::base::Made;
use seawall_postgres::physical::continuous::{ClusterSource, Continuous, Heard, Parts, Server};
use seawall_postgres::physical::prove::ClusterProver;
use seawall_postgres::physical::receive::{ReceiveOptions, Receiver, Settings};
use seawall_sqlite::Upkeep;
use seawall_vault::Vault;

use crate::backups;
use crate::database::DatabaseConfig;
use crate::hooks::{About, Hooks, Operation};
use crate::open::Opener;
use crate::server::ServerUrl;
use crate::sets;

/// A cluster, and the retention of its bases and its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Where it is.
    pub target: Box<Target>,
    /// How much of the machine a base may use.
    pub limits: Limits,
    /// When bases are made.
    pub schedule: Schedule,
    /// How its log is received; `None` where the server pushes it by its `archive_command`.
    pub receive: Option<ReceiveOptions>,
    /// Which bases may go, and the log with them.
    pub retention: RetentionPolicy,
}

/// Reads everything of a cluster but `url`; `continuous` is its section. Files are relative to `here`.
pub(crate) fn read(
    fields: &mut Fields,
    mut continuous: Fields,
    url: ServerUrl,
    name: &str,
    here: &Path,
    upkeep: &Upkeep,
) -> Result<ClusterConfig, Location> {
    let contradiction = |line: usize, cause: &str| Err(Problem::Contradiction(cause.to_owned()).at(line));
    let line = fields.line;
    let ServerUrl::Postgres(mut target) = url else {
        return contradiction(line, "continuous: only PostgreSQL clusters are protected continuously");
    };
    if let Some(at) = fields.text("schedule")? {
        let cause = "schedule and continuous: bases are made as continuous.base says; backups of rows need an entry of their own, with another vault";
        return contradiction(at.line, cause);
    }
    let missing = continuous.missing("base");
    let At { line: base_line, value } = continuous.text("base")?.ok_or(missing)?;
    let schedule = backups::schedule("base", &value, name).map_err(|problem| problem.at(base_line))?;
    let receives = continuous.parsed("log", "received or pushed", |text| match text {
        "received" => Some(true),
        "pushed" => Some(false),
        _ => None,
    })?;
    let mut options = ReceiveOptions::default();
    let mut own = None;
    if let Some(At { line, value }) =
        continuous.parsed("slot", "up to 63 lower-case letters, digits and \"_\"", |text| {
            is_slot(text).then(|| text.to_owned())
        })?
    {
        (options.slot, own) = (value, Some(("slot", line)));
    }
    if let Some(At { line, value }) = continuous.parsed("interval", "a time from 100ms to 1m", |text| {
        seawall_core::parse_duration(text)
            .filter(|time| (Duration::from_millis(100)..=Duration::from_secs(60)).contains(time))
    })? {
        (options.interval, own) = (value, Some(("interval", line)));
    }
    if let Some(At { line, value }) = continuous.flag("synchronous")? {
        (options.synchronous, own) = (value, Some(("synchronous", line)));
    }
    if let Some(At { line, value }) = continuous.positive_duration("commit-wait")? {
        if !options.synchronous {
            return contradiction(line, "commit-wait: commits wait for the vault only with `synchronous: true`");
        }
        options.commit_wait = value;
    }
    continuous.finish()?;
    let receives = receives.is_none_or(|at| at.value);
    if let Some((key, line)) = own.filter(|_| !receives) {
        return contradiction(line, &format!("{key}: of a log that is received, and log is pushed"));
    }
    let mut limits = Limits::default();
    if let Some(mut backup) = fields.section("backup")? {
        backups::limits(&mut backup, &mut limits)?;
        if let Some(At { line, value }) = backup.text("passfile")? {
            if target.has_password() {
                return contradiction(line, "passfile: the password is known from url or PGPASSWORD already");
            }
            *target = target.with_password_file(absolute(Path::new(&value), here));
        }
        backup.finish()?;
    }
    let receive = receives.then_some(options);
    Ok(ClusterConfig { target, limits, schedule, receive, retention: sets::policy(&upkeep.retention) })
}

/// Whether a slot may be called so.
fn is_slot(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..64).contains(&name.len()) && name.bytes().all(fits)
}

/// Opens a cluster with its vault.
pub(crate) fn open(opener: &Opener, vault: Vault, database: &DatabaseConfig, config: &ClusterConfig) -> Continuous {
    let world = World::real(opener.environment.clone());
    let source = Server { target: (*config.target).clone(), limits: config.limits.clone(), world };
    let (hooks, about) = (Arc::clone(&database.hooks), database.about(String::new()));
    let source = Hooked { source, hooks, about, journal: opener.journal().clone() };
    let receiver = config
        .receive
        .clone()
        .map(|options| Receiver::new((*config.target).clone(), vault.clone(), options, Arc::new(SystemClock)));
    let prover =
        ClusterProver::new(vault.clone(), opener.limits_of(&config.limits), World::real(opener.environment.clone()));
    Continuous::new(Parts {
        prover,
        name: database.name.clone(),
        source: Arc::new(source),
        receiver,
        schedule: config.schedule.clone(),
        vault,
        policy: config.retention.clone(),
        clock: Arc::new(SystemClock),
    })
}

/// A cluster with the programs that run around its bases, and the journal that notes them.
struct Hooked {
    source: Server,
    hooks: Arc<Hooks>,
    about: About,
    journal: Journal,
}

#[async_trait]
impl ClusterSource for Hooked {
    fn url(&self) -> String {
        self.source.url()
    }

    async fn base(&self, vault: &Vault, progress: Arc<dyn Progress>) -> Result<Made, Failure> {
        let task = self.journal.begin(TaskKind::Backup, &self.about.database, "");
        let progress = Arc::new(Both(progress, task.progress()));
        let made = self.hooks.around(Operation::Backup, &self.about, self.source.base(vault, progress)).await;
        task.end(&made, |made| format!("the base {}", made.manifest.id));
        made
    }

    async fn flushed(&self) -> Result<Lsn, Failure> {
        self.source.flushed().await
    }

    async fn heard(&self) -> Result<Option<Heard>, Failure> {
        self.source.heard().await
    }

    async fn left_slots(&self, own: Option<&str>) -> Result<Option<Failure>, Failure> {
        self.source.left_slots(own).await
    }

    async fn settings(&self) -> Result<Settings, Failure> {
        self.source.settings().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_slots() {
        for (name, expected) in
            [("seawall", true), ("s_1", true), ("", false), ("Seawall", false), ("a-b", false), ("ä", false)]
        {
            assert_eq!(is_slot(name), expected, "{name}");
        }
        assert!(!is_slot(&"a".repeat(64)) && is_slot(&"a".repeat(63)));
    }
}
