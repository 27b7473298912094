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

use self::log::{Copied, Range};
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
    let target = target(vault, when)?;
    let folder = Folder::within(place, PREFIX).map_err(|error| io(place.to_owned(), &error))?;
    if let Some(cause) = why_unfit(folder.path()) {
        return Err(Error::Io { path: place.display().to_string(), cause: cause.to_owned() });
    }
    if let Err(error) = folder.is_entered().await {
        let cause = format!("the server's user can't enter a folder that is made there: {error}");
        return Err(Error::Io { path: place.display().to_string(), cause });
    }
    let plan = plan(vault, &options(target, &folder, Vec::new(), limits), world).await?;
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

    /// Bytes of the files and of the log, which the server copies once more.
    pub(super) fn needs(&self) -> u64 {
        self.manifest().totals.bytes.saturating_add(self.log.bytes().saturating_mul(2))
    }

    /// Whether the server replays all of the log, and stops at nothing before its end.
    fn replays_all(&self) -> bool {
        match self.plan.target {
            Target::Latest => true,
            Target::Lsn(lsn) => lsn >= self.plan.choice.reach.lsn,
            Target::Moment(_) | Target::Xid(_) | Target::Name(_) | Target::Base(_) => false,
        }
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
        let wal = self.folder.make_inside("wal").map_err(|error| io(self.wal(), &error))?;
        let copied = self.log.copy(&wal, limits.jobs, progress).await?;
        let options = options(self.plan.target.clone(), &self.folder, self.moved(), limits);
        carry_out(vault, self.plan.clone(), &options, world, Arc::clone(progress)).await?;
        Ok(copied)
    }

    /// Starts the server there. It recovers.
    ///
    /// # Errors
    /// When it can't be started.
    pub(super) async fn start(self, program: &Path, limits: &Limits, world: &World) -> Result<Server, Error> {
        let (size, end) = (self.needs(), self.replays_all().then_some(self.log));
        Server::start((self.folder, end), program, &self.plan.manifest, size, limits, &world.environment).await
    }

    fn wal(&self) -> PathBuf {
        self.folder.path().join("wal")
    }

    /// A new place in the folder for each tablespace.
    pub(super) fn moved(&self) -> Vec<(PathBuf, PathBuf)> {
        let to = |oid: u32| self.folder.path().join(format!("tablespace-{oid}"));
        self.manifest().tablespaces.iter().map(|one| (PathBuf::from(&one.location), to(one.oid))).collect()
    }
}

/// The error where the log makes a tablespace: its replay would write into that folder of this host.
pub(super) fn tablespace_later(vault: &Vault, location: &str) -> Error {
    Error::Tool {
        tool: "postgres".to_owned(),
        cause: format!(
            "a tablespace was made in {location} after the base in {}, and a replay would write into that folder of this host",
            vault.url()
        ),
        next: "make a new base with `seawall backup`, or restore the cluster with -o on another host".to_owned(),
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
        delta: false,
        dry_run: false,
        start: false,
        delivery: Delivery::Copied(folder.path().join("wal")),
    }
}

/// What is to be reached.
fn target(vault: &Vault, when: &When) -> Result<Target, Error> {
    Ok(match when {
        When::Latest => Target::Latest,
        When::Moment(moment) => Target::Moment(*moment),
        When::Position(position) => match (position.parse::<SetId>(), position.parse()) {
            (Ok(id), _) => Target::Base(id),
            (Err(()), Ok(lsn)) => Target::Lsn(lsn),
            (Err(()), Err(())) => {
                return Err(Error::Url {
                    object: vault.url().to_owned(),
                    cause: format!("{position} is no point of a cluster"),
                    next: "give a moment, or the name of a base as `seawall timeline` shows it".to_owned(),
                });
            }
        },
    })
}

/// Why no server can have its socket in a folder.
fn why_unfit(folder: &Path) -> Option<&'static str> {
    /// What the path of a socket may have (`sockaddr_un` in `<sys/un.h>`), without the zero behind it.
    const MOST: usize = 107;
    let path = folder.join(".s.PGSQL.5432");
    if path.as_os_str().len() > MOST {
        return Some("its path is too long for the socket of a server: name a folder with a shorter one");
    }
    let text = path.to_str()?;
    text.contains([',', '"'])
        .then_some("a server can't have its socket in a folder with a comma or a quote in its path")
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
        let vault =
            Vault::new(Arc::new(seawall_vault::memory::MemoryStore::default()), seawall_vault::Policy::default());
        let id = SetId::new(Moment::from_millis(1_700_000_000_123), 1);
        for (position, expected) in
            [(id.to_string(), Target::Base(id)), ("0/3000028".to_owned(), Target::Lsn(Lsn::new(0x300_0028)))]
        {
            assert_eq!(target(&vault, &When::Position(position)).expect("a point"), expected);
        }
        assert_eq!(target(&vault, &When::Latest).expect("a point"), Target::Latest);
        assert!(target(&vault, &When::Position("00000000000000af".to_owned())).is_err(), "that is SQLite's");
    }

    #[test]
    fn folders_for_sockets() {
        for (folder, fits) in [("/var/tmp/x", true), ("/a,b", false), (&*format!("/{}", "x".repeat(95)), false)] {
            assert_eq!(why_unfit(Path::new(folder)).is_none(), fits, "{folder}");
        }
    }
}
