//! Proofs of a cluster: its files are restored, a server replays the log up to the point, and PostgreSQL's own checks read all tables
//! and indexes.
//!
//! The server is kept apart from the rest of the host (see [`seawall_host::Apart`]). The log is copied into its folder first, so
//! that it needs neither the vault nor its credentials, and it takes no setting and no library of the source.
//!
//! The rooms: `log` (copies the log, and knows whether more of it could be replayed), `server` (runs the server), `check` (what
//! PostgreSQL finds in it).

mod check;
mod log;
mod server;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use seawall_archive::SetId;
use seawall_archive::log::Lsn;
use seawall_core::{Checked, Failure, Fault, Kind, Level, Point, Progress, ProofRequest, Prove, When};
use seawall_host::Folder;
use seawall_vault::Vault;
use tokio::time::Instant;

use self::server::Server;
use super::base::BaseManifest;
use super::recover::{Delivery, Reached, RecoverOptions, Target, carry_out, find_server, plan};
use crate::{Error, Limits, World};

/// What the folder of a proof's server is called, in front of letters and digits.
const PREFIX: &str = "seawall-proof-";

/// Proves what a vault keeps of a cluster.
#[derive(Debug)]
pub struct ClusterProver {
    vault: Vault,
    limits: Limits,
    world: World,
}

impl ClusterProver {
    /// Proves the cluster of `vault` with so much of this machine, and the programs that are found here.
    pub fn new(vault: Vault, limits: Limits, world: World) -> Self {
        Self { vault, limits, world }
    }
}

#[async_trait]
impl Prove for ClusterProver {
    async fn prove(&self, request: &ProofRequest, progress: Arc<dyn Progress>) -> Result<Checked, Failure> {
        let before = self.vault.counts().bytes_down;
        let mut checked = Checked::default();
        let proved = self.run(request, &mut checked, progress).await;
        checked.read_bytes = self.vault.counts().bytes_down.saturating_sub(before);
        match proved {
            Ok(()) => Ok(checked),
            // Objects are damaged: that is what a proof is for.
            Err(failure) if failure.kind == Kind::Corrupt => {
                checked.fault(failure.into());
                Ok(checked)
            }
            Err(failure) => Err(failure),
        }
    }
}

impl ClusterProver {
    async fn run(
        &self,
        request: &ProofRequest,
        checked: &mut Checked,
        progress: Arc<dyn Progress>,
    ) -> Result<(), Failure> {
        let needs_server = request.level >= Level::Engine;
        let folder = folder_beside(request)?;
        let mut options = RecoverOptions {
            target: target(&request.when),
            from: None,
            timeline: None,
            output: folder.path().join("data"),
            tablespaces: Vec::new(),
            limits: self.limits.clone(),
            dry_run: false,
            start: false,
            delivery: Delivery::Copied(folder.path().join("wal")),
        };
        let plan = plan(&self.vault, &options, &self.world).await?;
        let manifest = plan.manifest.clone();
        options.tablespaces = moved(&manifest, &folder);
        let position = plan.choice.reach.lsn;
        checked.point =
            Some(Point { position: position.to_string(), moment: plan.choice.reach.until.max(manifest.ended) });
        checked.objects = objects(&manifest);
        checked.restored_bytes = manifest.totals.bytes;
        checked.reachable = Level::Structure;
        tell_damaged(&manifest, checked);
        let program = match needs_server {
            true => Some(find_server(manifest.version, &self.limits, &self.world).await?),
            false => None,
        };
        let log = log::range(&self.vault, &plan).await?;
        let needed = manifest.totals.bytes.saturating_add(log.bytes());
        let free = seawall_host::free_space(folder.path());
        request.admit(free, needed)?;
        let started = Instant::now();
        let elapsed = |since: Instant| u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let wal = folder.make("wal").map_err(|error| io(folder.path().join("wal"), &error))?;
        let copied = log.copy(&wal, folder.user(), self.limits.jobs, &progress).await?;
        checked.objects += copied.files;
        let target = plan.target.clone();
        carry_out(&self.vault, plan, &options, &self.world, Arc::clone(&progress)).await?;
        checked.restore_ms = elapsed(started);
        let Some(program) = program else { return Ok(()) };
        if let Some(location) = copied.tablespace {
            // Its replay would write into that folder of this host.
            checked.doubts.push(format!(
                "no server replayed the log, because a tablespace was made in {location} after the base: the next base proves it"
            ));
            return Ok(());
        }
        progress.begin("recovery", None);
        let environment = &self.world.environment;
        let mut server = Server::start(folder, &program, &manifest, needed, &self.limits, environment).await?;
        let reached = server.recovered().await;
        progress.finish();
        let done = match reached {
            Ok(reached) => {
                checked.restore_ms = elapsed(started);
                self.recovered(&reached, checked);
                let is_over = target != Target::Latest;
                let is_short = match reached.lsn.filter(|_| !is_over) {
                    Some(lsn) => log.goes_on(&wal, lsn).await?,
                    None => false,
                };
                if is_short {
                    checked.fault(self.short(reached.lsn.unwrap_or_default()));
                }
                check::all(&server, request.level, self.limits.jobs, checked, &progress).await
            }
            Err(error) => Err(error),
        };
        let done = done.or_else(|error| server.explain(error, checked));
        if let Some(doubt) = server.not_isolated() {
            checked.doubts.push(format!("the server of the proof wasn't kept apart: {doubt}"));
        }
        server.stop().await;
        done
    }

    /// The point that the server got to.
    fn recovered(&self, reached: &Reached, checked: &mut Checked) {
        let planned = checked.point.as_ref().map(|point| point.moment);
        let moment = reached.moment.or(planned);
        checked.point = reached
            .lsn
            .zip(moment)
            .map(|(lsn, moment)| Point { position: lsn.to_string(), moment })
            .or(checked.point.take());
    }

    /// What is wrong where the server stopped before the end of the log.
    fn short(&self, at: Lsn) -> Fault {
        Fault {
            code: "postgres.recovery-short".to_owned(),
            object: format!("the log in {}", self.vault.url()),
            cause: format!("a server stopped replaying it at {at}, although sound records follow there"),
        }
    }
}

/// What a proof reaches.
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

/// A folder for the server, on the disk of the scratch folder. It belongs to the server's user, who couldn't enter the scratch
/// folder itself.
fn folder_beside(request: &ProofRequest) -> Result<Folder, Error> {
    let place = seawall_host::folder_of(&request.scratch);
    Folder::within(place, PREFIX).map_err(|error| io(place.to_owned(), &error))
}

/// A new place in the folder for each tablespace.
fn moved(manifest: &BaseManifest, folder: &Folder) -> Vec<(PathBuf, PathBuf)> {
    let to = |oid: u32| folder.path().join(format!("tablespace-{oid}"));
    manifest.tablespaces.iter().map(|one| (PathBuf::from(&one.location), to(one.oid))).collect()
}

/// How many objects a restore of a base reads.
fn objects(manifest: &BaseManifest) -> u64 {
    let others: usize = manifest.uses.iter().map(|uses| uses.packs.len()).sum();
    (1 + manifest.packs.len() + others + manifest.index.len()) as u64
}

/// Pages that were damaged in the source already are damaged in what is restored.
fn tell_damaged(manifest: &BaseManifest, checked: &mut Checked) {
    for file in &manifest.damaged {
        checked.fault(Fault {
            code: "postgres.damaged-pages".to_owned(),
            object: format!("{} of the base {}", file.path, manifest.id),
            cause: format!("{} pages had wrong checksums in the source when the base was made", file.count),
        });
    }
}

fn io(path: PathBuf, error: &std::io::Error) -> Error {
    Error::Io { path: path.display().to_string(), cause: error.to_string() }
}

#[cfg(test)]
mod tests {
    use seawall_core::Moment;

    use super::*;

    #[test]
    fn what_a_proof_reaches() {
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
