//! Proofs, and their records in the vault, where every host finds them.

mod record;

pub(crate) use record::moment_of;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use seawall_core::{
    Checked, Clock as _, Description, Failure, Kind, Level, Moment, Panicked, Progress, Proof, ProofRequest, Prove,
    SystemClock, When,
};
use seawall_host::PrivateFolder;
use seawall_vault::{ObjectKey, Prefix, Vault};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

/// Records that are read at once.
const AT_ONCE: usize = 8;

/// How far the clock of another host may be ahead.
const SKEW: Duration = Duration::from_secs(24 * 3600);

/// How the names of scratch folders begin.
const SCRATCH: &str = "seawall-proof-";

/// Whether an object of this name is the record of a proof.
pub fn is_record(key: &ObjectKey) -> bool {
    record::is_in_folder(key.as_str())
}

/// The records of proofs of one database, in its vault.
#[derive(Debug)]
pub struct Proofs {
    vault: Vault,
    folder: String,
}

/// The proofs that are recorded in a vault.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The newest, newest first.
    pub proofs: Vec<Proof>,
    /// What is wrong with records that were left out, each one sentence without a full stop.
    pub doubts: Vec<String>,
}

impl Proofs {
    /// The records of a database, which `vault` holds.
    pub fn of(vault: Vault, database: &Description) -> Self {
        let folder = record::folder(database.engine, &database.name);
        Self { vault, folder }
    }

    /// The newest records, at most `most`. A record that can't be read is left out, with a doubt: it says nothing about
    /// the database.
    ///
    /// # Errors
    /// When the vault can't be listed.
    pub async fn newest(&self, most: usize) -> Result<Recorded, Failure> {
        let mut names = self.names().await?;
        let (listed, limit) = (names.len(), SystemClock.now().after(SKEW));
        names.retain(|name| record::moment_of(name).is_none_or(|at| at <= limit));
        let later = listed - names.len();
        names.retain(|name| record::moment_of(name).is_some());
        // Names that a stranger chose must not hide true records, so more are read than are asked for.
        let newest: Vec<String> = names.into_iter().rev().take(most.max(record::KEPT)).collect();
        let read = |name: String| async move {
            let read = self.read(&name).await;
            read.map_err(|why| format!("{}{name}: this record of a proof is left out: {why}", self.folder))
        };
        let mut recorded = Recorded::default();
        if later > 0 {
            let doubt = format!("{}: records of proofs of the future are left out: {later}", self.folder);
            recorded.doubts.push(doubt);
        }
        let mut all = Box::pin(stream::iter(newest).map(read).buffered(AT_ONCE));
        while let Some(read) = all.next().await {
            match read {
                Ok(proof) => recorded.proofs.push(proof),
                Err(doubt) => recorded.doubts.push(doubt),
            }
            if recorded.proofs.len() >= most {
                break;
            }
        }
        Ok(recorded)
    }

    async fn read(&self, name: &str) -> Result<Proof, String> {
        let bytes = self.vault.read(&self.key(name)?, None, record::MOST).await.map_err(|error| error.to_string())?;
        record::parse(name, &bytes).map_err(str::to_owned)
    }

    /// Writes a record, then deletes the oldest ones where that is allowed. Returns the object's key.
    ///
    /// # Errors
    /// When the record can't be written.
    pub async fn write(&self, proof: &Proof) -> Result<String, Failure> {
        let internal = |cause: String| {
            Failure::new(Kind::Internal, "proof.internal", proof.database.clone(), cause, "report this: it is a defect")
        };
        let name = record::name(proof.at, nonce(proof.at));
        let key = self.key(&name).map_err(internal)?;
        let bytes = record::bytes(proof).map_err(|error| internal(error.to_string()))?;
        self.vault.create(&key, Bytes::from(bytes), None).await?;
        self.prune(&name).await;
        Ok(key.to_string())
    }

    /// Deletes all records but the newest, of which `last` was just written. Credentials that may not delete leave them.
    async fn prune(&self, last: &str) {
        let pruned = async {
            let names = self.names().await?;
            let due: Vec<ObjectKey> = record::due(names.iter().map(String::as_str), last)
                .into_iter()
                .filter_map(|name| self.key(name).ok())
                .collect();
            if !due.is_empty() {
                self.vault.delete(&due).await?;
            }
            Ok::<_, Failure>(())
        };
        if let Err(failure) = pruned.await {
            tracing::debug!(folder = self.folder, "old records of proofs stay: {failure}");
        }
    }

    /// The names of the objects in the folder, in order.
    async fn names(&self) -> Result<Vec<String>, Failure> {
        let entries = self.vault.list(&Prefix::new(&self.folder)?, None).await?;
        let name = |key: &ObjectKey| key.as_str().strip_prefix(&self.folder).map(str::to_owned);
        let mut names: Vec<String> = entries.iter().filter_map(|entry| name(&entry.key)).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn key(&self, name: &str) -> Result<ObjectKey, String> {
        ObjectKey::new(format!("{}{name}", self.folder)).map_err(|error| error.to_string())
    }
}

/// Keeps records of one instant apart.
fn nonce(at: Moment) -> u32 {
    let mut bytes = [0; 4];
    #[expect(clippy::disallowed_methods, reason = "this is the edge where randomness enters")]
    let filled = getrandom::fill(&mut bytes);
    match filled {
        Ok(()) => u32::from_ne_bytes(bytes),
        // Two records of one millisecond are then refused instead of written over.
        Err(_) => u32::try_from(at.as_millis().unsigned_abs() % u64::from(u32::MAX)).unwrap_or_default(),
    }
}

/// What to prove, how, and who asks.
#[derive(Debug, Clone)]
pub struct ProofOrder {
    /// The moment to restore.
    pub when: When,
    /// How thoroughly to check.
    pub level: Level,
    /// The folder in which the scratch folder is made.
    pub place: PathBuf,
    /// The name of this host.
    pub host: String,
}

impl ProofOrder {
    /// Makes a proof in a scratch folder that only this user can open and that is gone afterwards.
    ///
    /// # Errors
    /// When the proof couldn't be made. What is wrong with the vault's objects is in the proof.
    pub async fn prove(
        &self,
        prover: &dyn Prove,
        database: &Description,
        progress: Arc<dyn Progress>,
    ) -> Result<Proof, Failure> {
        let started = Instant::now();
        let place = self.place.clone();
        let made = spawn_blocking(move || PrivateFolder::new(&place, SCRATCH, "proof", None)).await;
        let made = made.map_err(|panic| scratch(&self.place, &Panicked::from(panic).to_string()))?;
        let folder = made.map_err(|error| scratch(&self.place, &error.to_string()))?;
        let request = ProofRequest { when: self.when.clone(), level: self.level, scratch: folder.path().to_owned() };
        let checked = prover.prove(&request, progress).await;
        // Removing a large file takes a while, and a failure to do so is logged.
        drop(spawn_blocking(move || folder.remove()).await);
        Ok(self.proof(database, checked?, started))
    }

    /// The proof that follows from what was found.
    pub fn proof(&self, database: &Description, checked: Checked, started: Instant) -> Proof {
        let Checked { point, restore_ms, objects, read_bytes, restored_bytes, faults, doubts, reachable } = checked;
        Proof {
            database: database.name.clone(),
            engine: database.engine.to_owned(),
            at: SystemClock.now(),
            point,
            level: self.level.min(reachable),
            restore_ms,
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            objects,
            read_bytes,
            fresh_bytes: 0,
            restored_bytes,
            faults,
            doubts,
            host: self.host.clone(),
        }
    }
}

fn scratch(place: &Path, cause: &str) -> Failure {
    Failure::new(
        Kind::Unavailable,
        "proof.scratch",
        place.display().to_string(),
        format!("no folder can be made there: {cause}"),
        "name a folder that exists and can be written with --scratch",
    )
}

#[cfg(test)]
mod tests {
    use seawall_vault::{Environment, Policy, VaultUrl};

    use super::*;

    fn proof(millis: i64) -> Proof {
        Proof {
            database: "app".into(),
            engine: "sqlite".into(),
            at: Moment::from_millis(millis),
            point: None,
            level: Level::Content,
            restore_ms: 1,
            duration_ms: 2,
            objects: 3,
            read_bytes: 4,
            fresh_bytes: 0,
            restored_bytes: 5,
            faults: Vec::new(),
            doubts: Vec::new(),
            host: "here".into(),
        }
    }

    #[tokio::test]
    async fn the_newest_records_stay_and_a_strangers_is_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let url: VaultUrl = format!("file://{}", folder.path().display()).parse().expect("a URL");
        let vault = Vault::open(&url, &Environment::default(), Policy::default()).await.expect("a vault");
        let described =
            |engine, name: &str| Description { name: name.into(), engine, source: None, vault: String::new() };
        let proofs = Proofs::of(vault.clone(), &described("sqlite", "app"));
        for second in 0..103 {
            proofs.write(&proof(second * 1000)).await.expect("written");
        }
        let of_shard = Proofs::of(vault.clone(), &described("lmdb", "shard"));
        of_shard.write(&proof(7)).await.expect("written");
        let stranger = ObjectKey::new("seawall/proofs/20260101T000000000Z-00000001.json").expect("a key");
        let of_the_future = ObjectKey::new("seawall/proofs/99990101T000000000Z-00000001.json").expect("a key");
        for key in [&stranger, &of_the_future] {
            vault.create(key, Bytes::from_static(b"{}"), None).await.expect("written");
        }

        let found = proofs.newest(200).await.expect("listed");
        let seconds: Vec<i64> = found.proofs.iter().map(|proof| proof.at.as_millis() / 1000).collect();
        assert_eq!(seconds, (3..103).rev().collect::<Vec<_>>());
        assert_eq!(found.doubts.len(), 2, "{:?}", found.doubts);
        assert!(found.doubts[0].contains("of the future"), "{:?}", found.doubts);
        assert!(found.doubts[1].contains("20260101T"), "{:?}", found.doubts);
        assert_eq!(of_shard.newest(9).await.expect("listed").proofs, [proof(7)]);
        assert!(is_record(&stranger));
    }
}
