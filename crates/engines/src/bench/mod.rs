//! How fast is a backup here, and what bounds it? Measured with the user's own database, machine and store.
//!
//! The ceilings of the three stages are measured one by one, each without the others: the source is read into nothing (`discard`), the
//! codec compresses rows of that source in memory (`codec`), the store takes and gives random bytes on as many lanes as a backup has
//! (`seawall_vault::trial`). Beside them stands a whole backup, and `bound` says which ceiling it comes closest to.

mod codec;
mod discard;

use std::sync::Arc;
use std::time::Duration;

use seawall_archive::{Codec, Stages};
use seawall_core::{Failure, Kind, Progress};
use seawall_vault::trial::{self, Effort, Left, Transfer};
use seawall_vault::{Access, Environment, ObjectKey, Policy, Prefix, Vault, VaultUrl};
use serde::Serialize;

use self::discard::Discard;
use crate::encryption::Encryption;
use crate::open::Opener;
use crate::proofs::random_below;
use crate::server::{BackupRequest, ServerUrl};

/// The prefix of a backup that is made to be measured.
const SCRATCH: &str = "seawall-bench";

/// Bytes that each lane writes to the store and reads back.
const OF_LANE: u64 = 32 << 20;

/// How often small requests are made.
const ROUNDS: u32 = 5;

/// An amount of data, and how long it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Figure {
    /// Bytes: of rows as the source gives them for the source, the codec and a whole backup; of objects for the store.
    pub bytes: u64,
    /// Milliseconds.
    pub ms: u64,
    /// Bytes a second.
    pub bytes_per_second: u64,
}

impl Figure {
    fn new(bytes: u64, took: Duration) -> Self {
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
        Self { bytes, ms, bytes_per_second: Transfer { bytes, took }.rate() }
    }
}

/// What compression makes of the rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OfCodec {
    /// The codec: `zstd:1`.
    pub name: String,
    /// Rows that were compressed on as many cores as a backup uses.
    pub figure: Figure,
    /// Bytes that came of the rows, for each 1000 bytes.
    pub per_mille: u64,
}

/// What a store does.
#[derive(Debug, Clone, Serialize)]
pub struct OfStore {
    /// The vault's URL, without secrets.
    pub vault: String,
    /// Objects that are moved at once.
    pub lanes: usize,
    /// The time of a small write in milliseconds, in the middle of some.
    pub put_ms: Option<u64>,
    /// The time of a small read.
    pub get_ms: Option<u64>,
    /// Bytes written.
    pub up: Option<Figure>,
    /// Bytes read.
    pub down: Option<Figure>,
    /// Whether its objects are encrypted.
    pub encrypted: bool,
    /// Whether it keeps what is deleted: versions or locks.
    pub keeps_deleted: bool,
    /// Names that couldn't be deleted.
    pub left: Vec<String>,
}

/// A whole backup.
#[derive(Debug, Clone, Serialize)]
pub struct OfBackup {
    /// Rows that were read.
    pub rows: u64,
    /// Their bytes, and the time from the first connection until the backup counts.
    pub figure: Figure,
    /// Bytes in the vault.
    pub stored: u64,
    /// What the lanes waited for.
    pub stages: Stages,
    /// Whether it went into the vault. Without a vault it goes into nothing, and so does it where the vault keeps what is deleted.
    pub in_vault: bool,
}

/// The figures of a server.
#[derive(Debug, Clone, Serialize)]
pub struct OfServer {
    /// The source, without its password.
    pub source: String,
    /// Connections and cores that were used.
    pub jobs: usize,
    /// Rows read into nothing, without compression.
    pub read: Figure,
    /// `None` if the source has no rows.
    pub codec: Option<OfCodec>,
    /// `None` without a vault.
    pub store: Option<OfStore>,
    /// Into the vault; without one, into nothing.
    pub backup: OfBackup,
    /// The stage whose ceiling is the lowest: `source`, `codec` or `store`.
    pub bound: &'static str,
    /// The lowest ceiling, as rows a second in bytes: what a backup here can't exceed.
    pub ceiling: u64,
}

/// The lowest ceiling, by name, in bytes of rows a second. The store takes compressed bytes. Pure.
fn bound(read: Figure, codec: Option<&OfCodec>, up: Option<Figure>) -> (&'static str, u64) {
    let of_store = up.map(|up| {
        let per_mille = codec.map_or(1000, |codec| codec.per_mille.max(1));
        u64::try_from(u128::from(up.bytes_per_second) * 1000 / u128::from(per_mille)).unwrap_or(u64::MAX)
    });
    let ceilings = [
        Some(("source", read.bytes_per_second)),
        codec.map(|codec| ("codec", codec.figure.bytes_per_second)),
        of_store.map(|rate| ("store", rate)),
    ];
    ceilings.into_iter().flatten().min_by_key(|(_, rate)| *rate).unwrap_or(("source", read.bytes_per_second))
}

impl Opener {
    /// Measures a store on `lanes` at once. Everything that is written is deleted at the end.
    ///
    /// # Errors
    /// When the vault can't be opened or written.
    pub async fn bench_store(&self, url: &VaultUrl, lanes: usize) -> Result<OfStore, Failure> {
        let names = self.vault_with(url, Access::Names).await?;
        let effort = Effort { rounds: ROUNDS, size: OF_LANE, lanes };
        let found = trial::run(&names, effort, &seawall_core::SystemClock).await?;
        if let trial::Finding::No(cause) = &found.write {
            let next = "measure with credentials that may write and delete, or leave the vault out";
            return Err(Failure::new(Kind::Denied, "vault.denied", names.url(), cause.clone(), next));
        }
        let figure = |moved: Transfer| Figure::new(moved.bytes, moved.took);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Ok(OfStore {
            vault: names.url().to_owned(),
            lanes,
            put_ms: found.put.map(millis),
            get_ms: found.get.map(millis),
            up: found.upload.map(figure),
            down: found.download.map(figure),
            encrypted: found.recipients.is_some_and(|recipients| !recipients.is_empty()),
            keeps_deleted: found.protection.is_some_and(|kept| kept.versions == Some(true) || kept.locks == Some(true)),
            left: found.left.into_iter().map(|Left { key, .. }| key).collect(),
        })
    }

    /// Measures backups of a server: its ceilings, and a whole backup. With a vault, that backup is made below a prefix of its own there,
    /// and deleted at the end. The source is read twice, and nothing is written to it.
    ///
    /// # Errors
    /// What a backup fails with, and what keeps a vault from being written.
    pub async fn bench_server(
        &self,
        server: &ServerUrl,
        request: &BackupRequest,
        environment: &Environment,
        (vault, encryption): (Option<&VaultUrl>, Option<&Encryption>),
        progress: Arc<dyn Progress>,
    ) -> Result<OfServer, Failure> {
        let jobs = request.limits.jobs;
        let store = match vault {
            Some(url) => Some(self.bench_store(url, jobs).await?),
            None => None,
        };
        if let Some(store) = store.as_ref().filter(|store| store.encrypted && encryption.is_none()) {
            let cause = "the vault is encrypted, and the backup that is measured would not be";
            let next = "name the recipients with --recipient, or leave the vault out";
            return Err(Failure::new(Kind::Usage, "bench.unencrypted", &store.vault, cause, next));
        }
        let place = vault.filter(|_| store.as_ref().is_some_and(|store| !store.keeps_deleted));
        let plain = BackupRequest { compression: Some("none".to_owned()), ..request.clone() };
        let reading = server.clone().backed_up(plain, environment)?;
        let discard = Discard::keeping(codec::SAMPLE);
        let nowhere = |discard: &Discard| Vault::new(Arc::new(discard.clone()), Policy::default());
        let read = reading.back_up(&nowhere(&discard), 0, Arc::clone(&progress)).await?;
        let read = Figure::new(read.manifest.totals.raw, Duration::from_millis(read.duration_ms));
        let codec: Codec = request.compression.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default();
        let codec = codec::measure(codec, discard.take(), jobs).await?;

        let source = server.clone().backed_up(request.clone(), environment)?;
        let dumped = match place {
            None => source.back_up(&nowhere(&Discard::keeping(0)), 1, progress).await?,
            Some(url) => {
                let folder = format!("{SCRATCH}-{:016x}", random_below(u64::MAX));
                let place = url.join(&folder)?;
                let made = async {
                    let scratch = self.vault_to_fill(&place, encryption).await?;
                    source.back_up(&scratch, 1, progress).await
                };
                let made = made.await;
                // From above: an encrypted vault doesn't list what it says of its own encryption.
                let cleaned = async { empty(&self.vault_with(url, Access::Names).await?, &folder).await };
                let cleaned = cleaned.await;
                let made = made?;
                cleaned.map_err(|failure| left(&place.to_string(), &failure))?;
                made
            }
        };
        let totals = dumped.manifest.totals;
        let figure = Figure::new(totals.raw, Duration::from_millis(dumped.duration_ms));
        let in_vault = place.is_some();
        let backup = OfBackup { rows: totals.rows, figure, stored: totals.stored, stages: dumped.stages, in_vault };
        let (bound, ceiling) = bound(read, codec.as_ref(), store.as_ref().and_then(|store| store.up));
        Ok(OfServer { source: source.url(), jobs, read, codec, store, backup, bound, ceiling })
    }
}

/// Deletes everything in a folder that was made to be measured.
async fn empty(vault: &Vault, folder: &str) -> Result<(), Failure> {
    let entries = vault.list(&Prefix::new(format!("{folder}/"))?, None).await?;
    let keys: Vec<ObjectKey> = entries.into_iter().map(|entry| entry.key).collect();
    Ok(vault.delete(&keys).await?)
}

fn left(place: &str, failure: &Failure) -> Failure {
    Failure::new(
        failure.kind,
        "bench.left-behind",
        place,
        format!("the backup that was measured couldn't be deleted: {}", failure.cause),
        "delete everything below this prefix; nothing else is there",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(rate: u64) -> Figure {
        Figure::new(rate, Duration::from_secs(1))
    }

    #[test]
    fn a_figure_is_a_rate() {
        assert_eq!(
            Figure::new(500, Duration::from_millis(250)),
            Figure { bytes: 500, ms: 250, bytes_per_second: 2000 }
        );
        assert_eq!(Figure::new(0, Duration::ZERO).bytes_per_second, 0);
    }

    #[test]
    fn the_lowest_ceiling_bounds() {
        let codec = |rate, per_mille| OfCodec { name: "zstd:1".into(), figure: figure(rate), per_mille };
        for (read, of_codec, up, expected) in [
            (100, None, None, ("source", 100)),
            (100, Some(codec(300, 250)), None, ("source", 100)),
            (400, Some(codec(300, 250)), None, ("codec", 300)),
            // 50 bytes a second, of which each holds four bytes of rows.
            (400, Some(codec(300, 250)), Some(50), ("store", 200)),
            (400, Some(codec(300, 250)), Some(90), ("codec", 300)),
            (400, None, Some(90), ("store", 90)),
            (400, Some(codec(300, 0)), Some(u64::MAX), ("codec", 300)),
        ] {
            assert_eq!(bound(figure(read), of_codec.as_ref(), up.map(figure)), expected);
        }
    }
}
