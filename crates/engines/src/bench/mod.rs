//! How fast is a backup here, and what bounds it? Measured with the user's own database, machine and store.
//!
//! The ceilings of the three stages are measured one by one, each without the others: the source is read into nothing (`discard`), the
//! codec compresses rows of that source in memory (`codec`), the store takes and gives random bytes on as many lanes as a backup has
//! (`seawall_vault::trial`). Beside them stands a whole backup, and `bound` says which ceiling it comes closest to.

mod codec;
mod discard;
mod scratch;

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use seawall_archive::{Codec, Stages};
use seawall_core::{Failure, Kind, Progress};
use seawall_vault::trial::{self, Effort, Finding, Left, Transfer};
use seawall_vault::{Access, Environment, ObjectKey, Policy, Prefix, Protection, Scheme, Vault, VaultUrl};
use serde::Serialize;

use self::discard::Discard;
pub use self::scratch::Scratch;
pub(crate) use self::scratch::is_scratch;
use crate::encryption::Encryption;
use crate::open::Opener;
use crate::server::{BackupRequest, ServerUrl};

/// Bytes that each lane writes to the store and reads back, at most.
const OF_LANE: u64 = 32 << 20;

/// Bytes that each lane moves at least.
const LEAST_OF_LANE: u64 = 1 << 20;

/// What an earlier run left is told after so long: until then the run may be under way.
const OLD: Duration = Duration::from_secs(24 * 3600);

/// A backup that is faster than this many hundredths of the lowest ceiling shows that the ceilings were measured colder.
const COLDER: u128 = 110;

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
    /// Whether its objects are encrypted; `None` if that can't be seen.
    pub encrypted: Option<bool>,
    /// Whether it keeps what is deleted, by versions or locks; `None` if that isn't known.
    pub keeps_deleted: Option<bool>,
    /// Whether what was written could be deleted.
    pub deletes: bool,
    /// Names that couldn't be deleted.
    pub left: Vec<String>,
    /// Prefixes that earlier runs left behind.
    pub earlier: Vec<String>,
}

impl OfStore {
    /// Why rows must not be written here: they would stay. `None` if what is deleted is known to be gone.
    pub fn keeps_rows(&self) -> Option<&'static str> {
        match self.keeps_deleted {
            _ if !self.deletes || !self.left.is_empty() => Some("what is written there can't be deleted"),
            Some(true) => Some("the vault keeps what is deleted"),
            None => Some("whether the vault keeps what is deleted isn't known"),
            Some(false) => None,
        }
    }

    /// Why rows must not be written without encryption: the vault is encrypted, or may be. `None` if they may.
    fn hides(&self) -> Option<&'static str> {
        match self.encrypted {
            Some(true) => Some("the vault is encrypted, and the backup that is measured would not be"),
            None => Some("whether the vault is encrypted can't be seen, and the backup that is measured would not be"),
            Some(false) => None,
        }
    }
}

/// Whether a place keeps what is deleted; `None` if it isn't known. A folder keeps nothing. Pure.
fn keeps(scheme: Scheme, protection: Option<Protection>) -> Option<bool> {
    let asked = protection.unwrap_or_default();
    match (asked.versions, asked.locks) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ if matches!(scheme, Scheme::File | Scheme::Sftp) => Some(false),
        _ => None,
    }
}

/// Bytes that each of some lanes moves, so that all of them together fit into the memory. Pure.
fn of_lane(memory: u64, lanes: usize) -> u64 {
    (memory / lanes.max(1) as u64).clamp(LEAST_OF_LANE, OF_LANE)
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
    /// The stage whose ceiling is the lowest: `source`, `codec` or `store`. `None` if the backup was clearly faster: then that stage was
    /// measured colder, and bounds nothing.
    pub bound: Option<&'static str>,
    /// The lowest ceiling, as rows a second in bytes.
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

/// Whether a backup at `rate` shows that the ceilings were measured colder than it. Pure.
fn is_colder(rate: u64, ceiling: u64) -> bool {
    u128::from(rate) * 100 > u128::from(ceiling) * COLDER
}

impl Opener {
    /// Measures a store on `lanes` at once, in `memory` bytes or in a mebibyte for each lane. Everything that is written is deleted at the
    /// end. Only small objects are written where what is deleted may stay.
    ///
    /// # Errors
    /// When the vault can't be opened or written.
    pub async fn bench_store(&self, url: &VaultUrl, lanes: usize, memory: u64) -> Result<OfStore, Failure> {
        measure_store(&self.vault_with(url, Access::Names).await?, lanes, memory).await
    }

    /// Measures backups of a server: its ceilings, and a whole backup. With a vault, that backup is made below a prefix of its own there,
    /// and deleted at the end, unless what is deleted may stay there: then that backup goes into nothing. The source is read twice, with the locks of
    /// a backup, and nothing is written to it. If the future is dropped, [`Opener::end_bench`] ends what `scratch` began.
    ///
    /// # Errors
    /// What a backup fails with, and what keeps a vault from being written.
    pub async fn bench_server(
        &self,
        server: &ServerUrl,
        request: &BackupRequest,
        environment: &Environment,
        (vault, encryption, scratch): (Option<&VaultUrl>, Option<&Encryption>, &Scratch),
        progress: Arc<dyn Progress>,
    ) -> Result<OfServer, Failure> {
        let jobs = request.limits.jobs;
        let store = match vault {
            Some(url) => Some(self.bench_store(url, jobs, request.limits.memory).await?),
            None => None,
        };
        if let Some((store, cause)) = store.as_ref().and_then(|store| Some((store, store.hides()?)))
            && encryption.is_none()
        {
            let next = "name the recipients with --recipient, or leave the vault out";
            return Err(Failure::new(Kind::Usage, "bench.unencrypted", &store.vault, cause, next));
        }
        let place = vault.filter(|_| store.as_ref().is_some_and(|store| store.keeps_rows().is_none()));
        let plain = BackupRequest { compression: Some("none".to_owned()), ..request.clone() };
        let reading = server.clone().backed_up(plain, environment)?;
        let room = usize::try_from(request.limits.memory).unwrap_or(usize::MAX);
        let discard = Discard::keeping(codec::SAMPLE.min(room));
        let nowhere = |discard: &Discard| Vault::new(Arc::new(discard.clone()), Policy::default());
        let read = reading.back_up(&nowhere(&discard), 0, Arc::clone(&progress)).await?;
        let read = Figure::new(read.manifest.totals.raw, Duration::from_millis(read.duration_ms));
        let codec: Codec = request.compression.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default();
        let codec = codec::measure(codec, discard.take(), jobs).await?;

        let source = server.clone().backed_up(request.clone(), environment)?;
        let dumped = match place {
            None => source.back_up(&nowhere(&Discard::keeping(0)), 1, progress).await?,
            Some(url) => {
                let place = scratch.begin(url)?;
                let made = async {
                    // The host's keys of a vault that lasts for minutes are kept in memory.
                    let access = self.owner_keys.of(encryption, None)?;
                    let scratch = self.vault_with(&place, access).await?;
                    source.back_up(&scratch, 1, progress).await
                };
                let made = made.await;
                let ended = self.end_bench(url, scratch, made.is_err()).await;
                scratch::both(made, ended)?
            }
        };
        let totals = dumped.manifest.totals;
        let figure = Figure::new(totals.raw, Duration::from_millis(dumped.duration_ms));
        let in_vault = place.is_some();
        let backup = OfBackup { rows: totals.rows, figure, stored: totals.stored, stages: dumped.stages, in_vault };
        let (bound, ceiling) = bound(read, codec.as_ref(), store.as_ref().and_then(|store| store.up));
        let bound = (!is_colder(figure.bytes_per_second, ceiling)).then_some(bound);
        Ok(OfServer { source: source.url(), jobs, read, codec, store, backup, bound, ceiling })
    }
}

/// Measures a store: first with small objects. Large ones are written only where they can be deleted, and are gone then.
async fn measure_store(names: &Vault, lanes: usize, memory: u64) -> Result<OfStore, Failure> {
    let clock = seawall_core::SystemClock;
    let small = Effort { rounds: ROUNDS, size: 0, lanes };
    let mut found = trial::run(names, small, &clock).await?;
    if let Finding::No(cause) = &found.write {
        let next = "measure with credentials that may write and delete, or leave the vault out";
        return Err(Failure::new(Kind::Denied, "vault.denied", names.url(), cause.clone(), next));
    }
    let keeps_deleted = keeps(names.scheme(), found.protection);
    let mut deletes = found.delete == Finding::Yes;
    // A store that has no way to tell gets random bytes, which reveal nothing if they stay.
    let may_keep = keeps_deleted.unwrap_or(names.tells_protection());
    if deletes && found.left.is_empty() && !may_keep {
        let effort = Effort { rounds: 1, size: of_lane(memory, lanes), lanes };
        let large = trial::run(names, effort, &clock).await?;
        (found.upload, found.download) = (large.upload, large.download);
        (deletes, found.left) = (large.delete == Finding::Yes, large.left);
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
        encrypted: found.recipients.map(|recipients| !recipients.is_empty()),
        keeps_deleted,
        deletes,
        left: found.left.into_iter().map(|Left { key, .. }| key).collect(),
        earlier: earlier(names, seawall_core::Clock::now(&clock)).await,
    })
}

/// The prefixes that earlier runs left behind. What can't be listed tells of none.
async fn earlier(names: &Vault, now: seawall_core::Moment) -> Vec<String> {
    let Ok(before) = ObjectKey::new(scratch::SCRATCH.trim_end_matches('-')) else { return Vec::new() };
    let mut found = std::collections::BTreeSet::new();
    let mut entries = Box::pin(names.entries(&Prefix::all(), Some(&before)));
    while let Ok(Some(entry)) = entries.try_next().await {
        let Some((folder, _)) =
            entry.key.as_str().split_once('/').filter(|_| entry.key.as_str().starts_with(scratch::SCRATCH))
        else {
            break;
        };
        if is_scratch(folder) && now.since(entry.modified) > OLD {
            found.insert(folder.to_owned());
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use seawall_vault::Error;
    use seawall_vault::memory::MemoryStore;
    use seawall_vault::simulated::SimulatedStore;

    use super::*;

    fn figure(rate: u64) -> Figure {
        Figure::new(rate, Duration::from_secs(1))
    }

    fn store() -> SimulatedStore {
        SimulatedStore::new(MemoryStore::new(), 1)
    }

    async fn measured(store: &SimulatedStore) -> OfStore {
        let vault = Vault::new(Arc::new(store.clone()), Policy { attempts: 1, ..Policy::default() });
        measure_store(&vault, 2, 4 << 20).await.expect("measured")
    }

    fn denied() -> Error {
        Error::Denied { object: "memory:".to_owned(), cause: "403".to_owned() }
    }

    #[tokio::test]
    async fn rows_go_only_where_they_can_be_deleted() {
        let store = store();
        let open = measured(&store).await;
        assert_eq!((open.deletes, open.encrypted, open.left.len()), (true, Some(false), 0));
        assert_eq!(open.up.map(|up| up.bytes), Some(4 << 20), "lanes fit into the memory");
        store.forbid("delete", denied());
        let kept = measured(&store).await;
        assert!(!kept.deletes && !kept.left.is_empty() && kept.up.is_none(), "{kept:?}");
        assert_eq!(kept.keeps_rows(), Some("what is written there can't be deleted"));
        let truth = Vault::new(Arc::new(store.truth().clone()), Policy::default());
        let there = truth.list(&Prefix::all(), None).await.expect("listed");
        assert!(there.iter().all(|entry| entry.size <= 1024), "{there:?}");
    }

    #[test]
    fn what_is_not_known_counts_as_kept() {
        let told = |versions, locks| Some(Protection { versions, locks, each: None });
        let no = Some(false);
        for (scheme, protection, expected) in [
            (Scheme::File, told(None, None), no),
            (Scheme::Sftp, None, no),
            (Scheme::Gs, told(None, None), None),
            (Scheme::Abs, None, None),
            (Scheme::B2, told(no, no), no),
            (Scheme::B2, told(no, None), None),
            (Scheme::B2, told(None, no), None),
            (Scheme::B2, told(Some(true), no), Some(true)),
            (Scheme::B2, told(None, Some(true)), Some(true)),
        ] {
            assert_eq!(keeps(scheme, protection), expected, "{scheme} {protection:?}");
        }
    }

    #[tokio::test]
    async fn a_marker_that_cannot_be_read_may_be_there() {
        let store = store();
        let mut found = measured(&store).await;
        for (encrypted, may) in [(Some(false), true), (Some(true), false), (None, false)] {
            found.encrypted = encrypted;
            assert_eq!(found.hides().is_none(), may, "{encrypted:?}");
        }
        for (keeps_deleted, may) in [(Some(false), true), (Some(true), false), (None, false)] {
            found.keeps_deleted = keeps_deleted;
            assert_eq!(found.keeps_rows().is_none(), may, "{keeps_deleted:?}");
        }
        ["head", "get"].iter().for_each(|operation| store.forbid(operation, denied()));
        assert_eq!(measured(&store).await.encrypted, None);
    }

    #[tokio::test]
    async fn earlier_runs_are_told() {
        let vault = Vault::new(Arc::new(store()), Policy::default());
        for name in ["seawall-bench-00000000000000ff/a", "seawall-bench-00000000000000ff/b", "seawall-bench-mine/a"] {
            let key = ObjectKey::new(name).expect("a name");
            vault.put(&key, bytes::Bytes::from_static(b"rows"), None).await.expect("put");
        }
        let now = seawall_core::Clock::now(&seawall_core::SystemClock);
        assert_eq!(earlier(&vault, now).await, Vec::<String>::new(), "one may be under way");
        assert_eq!(earlier(&vault, now.after(2 * OLD)).await, ["seawall-bench-00000000000000ff"]);
    }

    #[test]
    fn lanes_fit_into_the_memory() {
        for (memory, lanes, expected) in [
            (128 << 20, 2, OF_LANE),
            (128 << 20, 64, 2 << 20),
            (16 << 20, 64, LEAST_OF_LANE),
            (0, 0, LEAST_OF_LANE),
            (64 << 20, 4, 16 << 20),
        ] {
            assert_eq!(of_lane(memory, lanes), expected, "{memory} {lanes}");
        }
    }

    #[test]
    fn a_backup_that_is_clearly_faster_is_bounded_by_nothing_that_was_measured() {
        for (rate, ceiling, expected) in [(100, 100, false), (110, 100, false), (111, 100, true), (0, 0, false)] {
            assert_eq!(is_colder(rate, ceiling), expected, "{rate} {ceiling}");
        }
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
