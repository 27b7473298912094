//! A cluster that is recovered beside everything else, in a folder that is thrown away: for a proof, or to take a database out of it.
//!
//! The server is kept apart from the rest of the host (see [`seawall_host::Apart`]). The log is copied into its folder first, so
//! that it needs neither the vault nor its credentials, and it takes no setting and no library of the source.
//!
//! The rooms: `log` (copies the log, and knows whether more of it could be replayed), `server` (runs the server).

mod log;
mod server;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use seawall_archive::SetId;
use seawall_core::{Progress, When};
use seawall_host::Folder;
use seawall_vault::Vault;

pub(super) use self::log::{Copied, Range};
pub(super) use self::server::{Said, Server};

use super::base::BaseManifest;
use super::recover::{Delivery, Plan, RecoverOptions, Target, carry_out, plan};
use crate::{Error, Limits, World};

/// What the folder of a server is called, in front of letters and digits.
const PREFIX: &str = "seawall-proof-";

/// What will be recovered, and where.
pub(super) struct Prepared {
    folder: Folder,
    plan: Plan,
    log: Range,
}

/// Chooses the base and the log that lead to a point, and makes a folder in `place`, which the server's user must be able to enter.
///
/// # Errors
/// When the point can't be reached, or the folder can't be made.
pub(super) async fn prepare(
    vault: &Vault,
    when: &When,
    place: &Path,
    limits: &Limits,
    world: &World,
) -> Result<Prepared, Error> {
    let folder = Folder::within(place, PREFIX).map_err(|error| io(place.to_owned(), &error))?;
    let plan = plan(vault, &options(target(when), &folder, Vec::new(), limits), world).await?;
    let log = log::range(vault, &plan).await?;
    Ok(Prepared { folder, plan, log })
}

impl Prepared {
    /// The base.
    pub(super) fn manifest(&self) -> &BaseManifest {
        &self.plan.manifest
    }

    /// How it is reached.
    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Bytes of the files and of the log.
    pub(super) fn needs(&self) -> u64 {
        self.manifest().totals.bytes.saturating_add(self.log.bytes())
    }

    /// Free bytes of the disk that they go to.
    pub(super) fn free(&self) -> Option<u64> {
        seawall_host::free_space(self.folder.path())
    }

    /// Restores the files, and copies the log.
    ///
    /// # Errors
    /// When the vault can't be read, an object is damaged, or the disk is full.
    pub(super) async fn fill(
        &self,
        vault: &Vault,
        limits: &Limits,
        world: &World,
        progress: &Arc<dyn Progress>,
    ) -> Result<Copied, Error> {
        let wal = self.folder.make("wal").map_err(|error| io(self.wal(), &error))?;
        let copied = self.log.copy(&wal, self.folder.user(), limits.jobs, progress).await?;
        let options = options(self.plan.target.clone(), &self.folder, self.moved(), limits);
        carry_out(vault, self.plan.clone(), &options, world, Arc::clone(progress)).await?;
        Ok(copied)
    }

    /// Starts the server there. It recovers.
    ///
    /// # Errors
    /// When it can't be started.
    pub(super) async fn start(self, program: &Path, limits: &Limits, world: &World) -> Result<(Server, Range), Error> {
        let size = self.needs();
        let server = Server::start(self.folder, program, &self.plan.manifest, size, limits, &world.environment).await?;
        Ok((server, self.log))
    }

    fn wal(&self) -> PathBuf {
        self.folder.path().join("wal")
    }

    /// A new place in the folder for each tablespace.
    fn moved(&self) -> Vec<(PathBuf, PathBuf)> {
        let to = |oid: u32| self.folder.path().join(format!("tablespace-{oid}"));
        self.manifest().tablespaces.iter().map(|one| (PathBuf::from(&one.location), to(one.oid))).collect()
    }
}

/// How it is recovered in a folder.
fn options(target: Target, folder: &Folder, tablespaces: Vec<(PathBuf, PathBuf)>, limits: &Limits) -> RecoverOptions {
    RecoverOptions {
        target,
        from: None,
        timeline: None,
        output: folder.path().join("data"),
        tablespaces,
        limits: limits.clone(),
        dry_run: false,
        start: false,
        delivery: Delivery::Copied(folder.path().join("wal")),
    }
}

/// What is to be reached.
fn target(when: &When) -> Target {
    match when {
        When::Latest => Target::Latest,
        When::Moment(moment) => Target::Moment(*moment),
        // Otherwise it is the position of a point, as the timeline shows it.
        When::Position(position) => match position.parse::<SetId>() {
            Ok(id) => Target::Base(id),
            Err(()) => position.parse().map_or_else(|()| Target::Name(position.clone()), Target::Lsn),
        },
    }
}

fn io(path: PathBuf, error: &std::io::Error) -> Error {
    Error::Io { path: path.display().to_string(), cause: error.to_string() }
}

#[cfg(test)]
mod tests {
    use seawall_archive::log::Lsn;
    use seawall_core::Moment;

    use super::*;

    #[test]
    fn what_is_to_be_reached() {
        let id = SetId::new(Moment::from_millis(1_700_000_000_123), 1);
        for (position, expected) in [
            (id.to_string(), Target::Base(id)),
            ("0/3000028".to_owned(), Target::Lsn(Lsn::new(0x300_0028))),
            ("before".to_owned(), Target::Name("before".to_owned())),
        ] {
            assert_eq!(target(&When::Position(position)), expected);
        }
        assert_eq!(target(&When::Latest), Target::Latest);
    }
}
