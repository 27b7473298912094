//! Database servers by their URLs: finds the engine of a URL, and passes a command on to it.
//!
//! To add an engine of servers, add a variant to [`ServerUrl`]; the compiler names the other places.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use seawall_archive::server::{BackUp, Limits, Prove, Proved, RestoreInto};
use seawall_archive::{Catalog, Codec, Sample, World};
use seawall_core::{Clock as _, Failure, Kind, Progress, SystemClock, When};
use seawall_vault::{Environment, Vault};

use crate::{mysql, postgres};

/// A server, or one of its databases.
#[derive(Debug, Clone)]
pub enum ServerUrl {
    /// A PostgreSQL server.
    Postgres(Box<seawall_postgres::Target>),
    /// A MySQL or MariaDB server.
    Mysql(Box<seawall_mysql::Target>),
}

/// How a command line asks for a backup, in the words of the command line. `None` leaves a setting to the engine.
#[derive(Debug, Clone, Default)]
pub struct BackupRequest {
    /// How much of the machine.
    pub limits: Limits,
    /// The form in which the set keeps the database.
    pub format: Option<String>,
    /// Which part of the rows, if the set is a sample.
    pub sample: Option<String>,
    /// How rows are read.
    pub copy: Option<String>,
    /// How frames are compressed.
    pub compression: Option<String>,
    /// Databases of a whole server that are left out.
    pub excluded: Vec<String>,
    /// Whether the passwords of roles come along.
    pub role_passwords: bool,
}

impl ServerUrl {
    /// Reads a URL; `environment` fills what the URL leaves out.
    ///
    /// # Errors
    /// `usage.server` for a text that is no server's URL, and the engine's own.
    pub fn parse(text: &str, environment: &Environment) -> Result<Self, Failure> {
        if seawall_postgres::Target::is_url(text) {
            return Ok(Self::Postgres(Box::new(seawall_postgres::Target::parse(text, environment)?)));
        }
        if seawall_mysql::Target::is_url(text) {
            return Ok(Self::Mysql(Box::new(seawall_mysql::Target::parse(text, environment)?)));
        }
        let next = "name it as postgresql://ROLE@HOST:PORT/DATABASE or mysql://USER@HOST:PORT/DATABASE; files are protected by \
                    `seawall replicate`";
        Err(usage("usage.server", text, "this is no database server", next))
    }

    /// Whether a text has the form of a server's URL.
    pub fn is_url(text: &str) -> bool {
        seawall_postgres::Target::is_url(text) || seawall_mysql::Target::is_url(text)
    }

    /// Whether the URL itself holds a password, which process lists show.
    pub fn has_password(&self) -> bool {
        match self {
            Self::Postgres(target) => target.password_in_url,
            Self::Mysql(target) => target.password_in_url,
        }
    }

    /// The database that it names; a whole server has none.
    pub fn database(&self) -> &str {
        match self {
            Self::Postgres(target) => &target.database,
            Self::Mysql(target) => &target.database,
        }
    }

    /// Whether it names a whole server.
    pub fn is_whole(&self) -> bool {
        self.database().is_empty()
    }

    /// Whether its objects have definers, which a restore may replace.
    pub fn has_definers(&self) -> bool {
        matches!(self, Self::Mysql(_))
    }

    /// The source of a backup.
    ///
    /// # Errors
    /// Settings that can't be read, or that contradict each other.
    pub fn backed_up(self, request: BackupRequest, environment: &Environment) -> Result<Arc<dyn BackUp>, Failure> {
        match self {
            Self::Postgres(target) => {
                let options = postgres::requested(&target, request)?;
                Ok(Arc::new(seawall_postgres::Source {
                    target: *target,
                    options,
                    world: World::real(environment.clone()),
                }))
            }
            Self::Mysql(target) => {
                let options = mysql::requested(&target, request)?;
                Ok(Arc::new(seawall_mysql::Source {
                    target: *target,
                    options,
                    world: World::real(environment.clone()),
                }))
            }
        }
    }

    /// The cluster whose files are copied.
    ///
    /// # Errors
    /// `usage.server` where bases aren't made of this engine's servers.
    pub fn cluster(self) -> Result<seawall_postgres::Target, Failure> {
        match self {
            Self::Postgres(target) => Ok(*target),
            Self::Mysql(target) => {
                let next = "leave --physical out: its databases are backed up as rows";
                Err(usage(
                    "usage.server",
                    &target.to_string(),
                    "only the files of PostgreSQL clusters are copied",
                    next,
                ))
            }
        }
    }

    /// The target of a restore.
    pub fn destination(self, environment: &Environment) -> Arc<dyn RestoreInto> {
        match self {
            Self::Postgres(target) => {
                Arc::new(seawall_postgres::Destination { target: *target, world: World::real(environment.clone()) })
            }
            Self::Mysql(target) => {
                Arc::new(seawall_mysql::Destination { target: *target, world: World::real(environment.clone()) })
            }
        }
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Postgres(target) => target.fmt(f),
            Self::Mysql(target) => target.fmt(f),
        }
    }
}

/// Proves backup sets, on the server `to` or on a server that is started for each proof. The set's own engine proves it.
pub fn prover(to: Option<ServerUrl>, environment: &Environment) -> Box<dyn Prove> {
    Box::new(Prover { to, environment: environment.clone() })
}

/// Proofs by the engine of each set.
struct Prover {
    to: Option<ServerUrl>,
    environment: Environment,
}

#[async_trait]
impl Prove for Prover {
    async fn prove(
        &self,
        vault: &Vault,
        when: &When,
        limits: &Limits,
        progress: Arc<dyn Progress>,
    ) -> Result<Proved, Failure> {
        let engine = Catalog::read(vault).await?.find(when)?.engine.clone();
        let world = World::real(self.environment.clone());
        let prover: Box<dyn Prove> = match &self.to {
            Some(ServerUrl::Postgres(to)) => Box::new(seawall_postgres::Prover { to: Some(*to.clone()), world }),
            Some(ServerUrl::Mysql(to)) => Box::new(seawall_mysql::Prover { to: Some(*to.clone()), world }),
            None if engine == seawall_mysql::NAMES.name => Box::new(seawall_mysql::Prover { to: None, world }),
            None => Box::new(seawall_postgres::Prover { to: None, world }),
        };
        prover.prove(vault, when, limits, progress).await
    }
}

/// Notes that the links `numbers` of a vault's chain are known to be missing.
///
/// # Errors
/// When the vault can't be read or written, or a link isn't missing.
pub async fn acknowledge(vault: &Vault, numbers: &[u64]) -> Result<(), Failure> {
    let nonce = World::real(Environment::default()).nonce;
    Ok(Catalog::read(vault).await?.acknowledge(numbers, SystemClock.now(), u64::from(nonce)).await?)
}

/// A share of the rows.
pub(crate) fn sample(text: &str) -> Result<Sample, Failure> {
    let next = "give a share such as 1%, or leave --sample out for a backup of everything";
    text.parse().map_err(|cause: String| usage("usage.arguments", "--sample", &cause, next))
}

/// How frames are compressed.
pub(crate) fn codec(text: &str) -> Result<Codec, Failure> {
    text.parse().map_err(|cause: String| usage("usage.arguments", "--compression", &cause, "correct it"))
}

/// A failure of the command line itself.
pub(crate) fn usage(code: &'static str, object: &str, cause: &str, next: &str) -> Failure {
    Failure::new(Kind::Usage, code, object, cause, next)
}
