//! A database out of a cluster: the cluster is recovered in a server that is thrown away, backed up there, and restored from that
//! backup into another server, as any backup is.

use std::path::Path;
use std::sync::Arc;

use seawall_core::{Failure, Progress, When};
use seawall_vault::Vault;

use super::aside::{Said, Server, prepare, tablespace_later};
use super::recover::{Reached, find_server};
use crate::client::Target;
use crate::{DumpOptions, Error, RestoreOptions, Restored, World, dump, restore};

/// What was restored, and where the cluster got to before.
#[derive(Debug)]
pub struct Extracted {
    /// The restore.
    pub restored: Restored,
    /// Where the recovery of the cluster got to.
    pub reached: Reached,
}

/// The places that are needed on the way.
#[derive(Debug, Clone, Copy)]
pub struct Ways<'a> {
    /// A folder in which the cluster is recovered; the user of a server must be able to enter it.
    pub place: &'a Path,
    /// An empty vault for the backup.
    pub between: &'a Vault,
}

/// Restores a database of the cluster that `vault` keeps, or all of its databases, into the server `target`: the database that
/// `options` name, or the one that is called as the target's. What is made on the way is the caller's to remove, but for the server.
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
    let replays_all = prepared.replays_all();
    progress.begin("recovery", None);
    let (mut server, log) = prepared.start(&program, limits, world).await?;
    let reached = server.recovered().await;
    progress.finish();
    let name = options.database.as_deref().unwrap_or(&target.database);
    let source = server.target.with_database(name);
    let backed_up = async {
        let reached = reached?;
        let is_short = match reached.lsn.filter(|_| replays_all) {
            Some(lsn) => log.goes_on(&server.wal(), lsn).await?,
            None => false,
        };
        let dumping = DumpOptions { limits: limits.clone(), role_passwords: true, ..DumpOptions::default() };
        dump(&source, ways.between, &dumping, world, Arc::clone(&progress)).await?;
        Ok::<_, Error>((reached, is_short))
    };
    let backed_up = backed_up.await;
    let (reached, is_short) = match backed_up {
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
    if is_short {
        let at = reached.lsn.unwrap_or_default();
        restored
            .doubts
            .push(format!("the log isn't sound at {at}: sound records follow there, and what they say isn't restored"));
    }
    Ok(Extracted { restored, reached })
}

/// What an error of the server means.
fn explained(server: &Server, error: Error) -> Failure {
    match server.explain(error) {
        Said::NotHere(failure) => failure,
        Said::Wrong(cause) => Error::ToolFailed { tool: "postgres".to_owned(), cause }.into(),
    }
}
