//! A database out of a cluster: the cluster is recovered in a server that is thrown away, backed up there, and restored from that
//! backup into another server, as any backup is.

use std::path::Path;
use std::sync::Arc;

use seawall_core::{Failure, Progress, When};
use seawall_vault::Vault;

use super::aside::{Said, Server, prepare, tablespace_later};
use super::recover::{Reached, find_server};
use crate::catalog::globals;
use crate::client::{Connection, Target};
use crate::prove::throwaway::check_walls;
use crate::{DumpOptions, Error, RestoreOptions, Restored, World, dump, restore};

/// What was restored, and where the cluster got to before.
#[derive(Debug)]
pub struct Extracted {
    /// The restore.
    pub restored: Restored,
    /// Where the recovery of the cluster got to.
    pub reached: Reached,
    /// Whether a moment was asked for after which the vault has nothing.
    pub is_doubtful: bool,
    /// Unlogged tables, which come back without rows: no base has rows of them.
    pub empty: Vec<String>,
    /// What wasn't backed up, each one phrase: databases that can't be read, and invalid indexes.
    pub left_out: Vec<String>,
    /// What may have been reached from the server that recovered, if it couldn't be kept apart.
    pub not_isolated: Option<&'static str>,
}

/// The unlogged tables of a database.
const UNLOGGED: &str = "SELECT pg_catalog.concat(n.nspname, '.', c.relname) FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relpersistence = 'u' AND c.relkind IN ('r', 'm') ORDER BY 1";

/// The places that are needed on the way.
#[derive(Debug, Clone, Copy)]
pub struct Ways<'a> {
    /// A folder in which the cluster is recovered; the user of a server must be able to enter it.
    pub place: &'a Path,
    /// An empty vault for the backup.
    pub between: &'a Vault,
}

/// Restores a database of the cluster that `vault` keeps, or all of its databases, into the server `target`: the database that
/// `options` name, or else the database with the name of the target's. The server and its folder go at the end; the caller removes
/// the backup in `ways`.
///
/// # Errors
/// When the point can't be reached, the cluster can't be recovered here, or what the backup and the restore of a database fail with.
pub async fn restore_into(
    vault: &Vault,
    target: &Target,
    options: &RestoreOptions,
    ways: Ways<'_>,
    world: &World,
    progress: Arc<dyn Progress>,
) -> Result<Extracted, Failure> {
    let limits = &options.limits;
    // Who may not log in there needn't wait for a recovery first.
    globals::connect(target).await?.close().await;
    check_walls(limits).await?;
    let prepared = prepare(vault, &options.when, ways.place, limits, world).await?;
    let program = find_server(prepared.manifest().version, limits, world).await?;
    if let Some(free) = prepared.free().filter(|free| *free < prepared.needs()) {
        let error = Error::Refused {
            code: "postgres.no-space",
            object: ways.place.display().to_string(),
            cause: format!("the cluster and its log have {} bytes, and the disk has room for {free}", prepared.needs()),
            next: "name a folder on a larger disk with --scratch".to_owned(),
        };
        return Err(error.into());
    }
    let copied = prepared.fill(vault, limits, world, &progress).await?;
    if let Some(location) = copied.tablespace {
        return Err(tablespace_later(vault, &location).into());
    }
    let is_doubtful = prepared.plan().is_doubtful;
    let text = |path: &Path| path.display().to_string();
    let places = prepared.moved().iter().map(|(was, is)| (text(is), text(was))).collect();
    progress.begin("recovery", None);
    let mut server = prepared.start(&program, limits, world).await?;
    let reached = server.recovered().await;
    progress.finish();
    let name = options.database.as_deref().unwrap_or(&target.database);
    let source = server.target.with_database(name);
    let backed_up = async {
        let reached = reached?;
        if let Some(lsn) = server.stopped_short(&reached).await? {
            return Err(Error::Different {
                object: format!("the log in {}", vault.url()),
                cause: format!(
                    "the server stopped replaying it at {lsn}, although sound records follow; give an earlier moment with --at"
                ),
            });
        }
        let dumping = DumpOptions { limits: limits.clone(), role_passwords: true, places, ..DumpOptions::default() };
        let dumped = dump(&source, ways.between, &dumping, world, Arc::clone(&progress)).await?;
        let mut empty = Vec::new();
        for database in &dumped.databases {
            let mut connection = Connection::open(&server.target.with_database(database)).await?;
            let tables = connection.query(UNLOGGED).await?;
            empty.extend(tables.iter().map(|row| format!("{} in database {database}", row.text(0))));
            connection.close().await;
        }
        Ok((reached, dumped, empty))
    };
    let backed_up: Result<_, Error> = backed_up.await;
    let not_isolated = server.not_isolated();
    let (reached, dumped, empty) = match backed_up {
        Ok(done) => done,
        Err(error) => {
            let failure = explained(&server, error);
            server.stop().await;
            return Err(failure);
        }
    };
    server.stop().await;
    let rest = RestoreOptions { when: When::Latest, database: None, ..options.clone() };
    let target = if target.database.is_empty() { target.with_database(name) } else { target.clone() };
    let mut restored = restore(ways.between, &target, &rest, world, progress).await?;
    // That of the backup on the way says nothing.
    if let Some(moment) = reached.moment {
        restored.manifest.point = moment;
    }
    let databases = dumped.left_out.iter().map(|name| format!("database {name}"));
    let indexes =
        dumped.invalid.iter().map(|(database, index)| format!("the invalid index {index} in database {database}"));
    let journals = dumped
        .journals
        .iter()
        .map(|(database, schema)| format!("the unfinished restore {schema} in database {database}"));
    let left_out = databases.chain(indexes).chain(journals).collect();
    Ok(Extracted { restored, reached, is_doubtful, empty, left_out, not_isolated })
}

/// What an error of the server means.
fn explained(server: &Server, error: Error) -> Failure {
    match server.explain(error) {
        Said::NotHere(failure) => failure,
        Said::Wrong(cause) => Error::ToolFailed { tool: "postgres".to_owned(), cause }.into(),
    }
}
