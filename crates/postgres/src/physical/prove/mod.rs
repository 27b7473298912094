//! Proofs of a cluster: its files are restored, a server replays the log up to the point, and PostgreSQL's own checks read all tables
//! and indexes (`check`).

mod check;

use std::sync::Arc;

use async_trait::async_trait;
use seawall_archive::log::Lsn;
use seawall_core::{Checked, Failure, Fault, Kind, Level, Point, Progress, ProofRequest, Prove};
use seawall_vault::Vault;
use tokio::time::Instant;

use super::aside::{Said, prepare, tablespace_later};
use super::base::BaseManifest;
use super::recover::{Reached, find_server};
use crate::prove::throwaway::check_walls;
use crate::{Limits, World};

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
        let Self { vault, limits, world } = self;
        let limits = &Limits { isolated: request.isolated, ..limits.clone() };
        if request.level >= Level::Engine {
            check_walls(limits).await?;
        }
        let prepared = prepare(vault, &request.when, seawall_host::folder_of(&request.scratch), limits, world).await?;
        let (manifest, reach) = (prepared.manifest(), prepared.plan().choice.reach);
        checked.point = Some(Point { position: reach.lsn.to_string(), moment: reach.until.max(manifest.ended) });
        checked.objects = objects(manifest);
        checked.restored_bytes = manifest.totals.bytes;
        checked.reachable = Level::Structure;
        tell_damaged(manifest, checked);
        let program = match request.level >= Level::Engine {
            true => Some(find_server(manifest.version, limits, world).await?),
            false => None,
        };
        request.admit(prepared.free(), prepared.needs())?;
        let started = Instant::now();
        let elapsed = |since: Instant| u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let copied = prepared.fill(vault, limits, world, &progress).await?;
        checked.objects += copied.files;
        checked.restore_ms = elapsed(started);
        let Some(program) = program else { return Ok(()) };
        if let Some(location) = copied.tablespace {
            return Err(tablespace_later(vault, &location).into());
        }
        progress.begin("recovery", None);
        let mut server = prepared.start(&program, limits, world).await?;
        let reached = server.recovered().await;
        progress.finish();
        let done = match reached {
            Ok(reached) => {
                checked.restore_ms = elapsed(started);
                self.recovered(&reached, checked);
                if let Some(lsn) = server.stopped_short(&reached).await? {
                    checked.fault(self.short(lsn));
                }
                check::all(&mut server, request.level, limits.jobs, checked, &progress).await
            }
            Err(error) => Err(error),
        };
        let done = done.or_else(|error| match server.explain(error) {
            Said::NotHere(failure) => Err(failure),
            Said::Wrong(cause) => {
                let position = checked.point.as_ref().map_or_else(String::new, |point| point.position.clone());
                let object = format!("the cluster of {} at {position}", vault.url());
                checked.fault(Fault { code: "postgres.recovery-failed".to_owned(), object, cause });
                Ok(())
            }
        });
        if let Some(doubt) = server.not_isolated() {
            checked.doubts.push(format!("the server of the proof wasn't wholly kept apart: {doubt}"));
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
