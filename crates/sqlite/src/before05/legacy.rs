//! Restores and verifies replicas of Litestream before 0.5.
//!
//! A snapshot is a copy of the database file. Whole WALs follow it in segments. Each WAL is put together in a file
//! without a name and proved frame by frame with its checksum chain. Only then its pages go into the database. Memory
//! is bounded: 8 bytes a frame.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt as _};
use lz4_flex::frame::FrameDecoder;
use seawall_core::{Finding, PlannedObject, Point, Progress, RestoreRequest, Restored, When};
use seawall_ltx::{Header, PageSize};
use seawall_vault::{Prefix, Vault};

use crate::error::Error;
use crate::generations::{Chain, GENERATIONS, Gathered, Object, by_snapshot, chain};
use crate::jobs::blocking;
use crate::partial::{Partial, unnamed};
use crate::wal::{FRAME_HEADER_SIZE, HEADER_SIZE, Scan, WalHeader};

/// How much is decompressed, read or written at once.
const PIECE: usize = 1 << 20;

/// Objects that are kept at most, in 120 MB: a segment a second of 23 days. Of more only those of the newest state are.
const MOST: usize = 2_000_000;

/// Objects that are listed at most: a server may make a listing endless.
const MOST_LISTED: usize = 50_000_000;

/// The objects of such a replica.
#[derive(Debug, Default)]
pub(crate) struct Replica {
    pub(crate) objects: Vec<Object>,
    /// Why older ones were left out, if they were.
    pub(crate) cut: Option<seawall_vault::Error>,
}

/// The objects of such a replica, if there is one: one listing.
pub(crate) async fn list(vault: &Vault) -> Result<Replica, Error> {
    list_up_to(vault, MOST, MOST_LISTED).await
}

async fn list_up_to(vault: &Vault, most: usize, most_listed: usize) -> Result<Replica, Error> {
    let mut entries = Box::pin(vault.entries_up_to(&Prefix::new(GENERATIONS)?, None, most_listed));
    let mut gathered = Gathered::new(most);
    let endless = || seawall_vault::Error::Endless { object: format!("{}/{GENERATIONS}", vault.url()), most };
    while let Some(entry) = entries.try_next().await? {
        let object = Object::of(entry.key.as_str(), entry.size, entry.modified);
        if object.is_some_and(|object| !gathered.take(object)) {
            return Err(endless().into());
        }
    }
    let Gathered { objects, is_cut, .. } = gathered;
    Ok(Replica { objects, cut: is_cut.then(endless) })
}

/// What a listing of such a replica says to a reader that found LTX files (`has_ltx`), with a doubt if not all is looked at. Where not even
/// the newest state can be listed to its end, the replica is passed over then.
pub(crate) fn or_doubt(listed: Result<Replica, Error>, has_ltx: bool) -> Result<(Replica, Option<String>), Error> {
    match listed {
        Err(Error::Vault(error @ seawall_vault::Error::Endless { .. })) if has_ltx => {
            let doubt = format!("what Litestream before 0.5 wrote here is passed over, also if it is newer: {error}");
            Ok((Replica::default(), Some(doubt)))
        }
        listed => listed.map(|replica| {
            let doubt = replica.cut.as_ref().map(|error| {
                format!("of what Litestream before 0.5 wrote here only the newest state is looked at: {error}")
            });
            (replica, doubt)
        }),
    }
}

/// The objects that restore the requested point, if the vault's LTX files don't, or lead to an older state. `newest` is
/// the header of the newest LTX file that would be restored, or the reason why there is none.
pub(crate) fn instead<'a>(
    vault: &Vault,
    replica: &'a Replica,
    when: &When,
    newest: Result<&Header, &Error>,
) -> Result<Option<Chain<'a>>, Error> {
    let objects = &replica.objects[..];
    let until = match when {
        When::Latest => None,
        When::Moment(moment) => Some(*moment),
        When::Position(_) => return Ok(None),
    };
    let Some(chain) = chain(objects, until) else {
        return match (&replica.cut, newest) {
            // It may be there, among those that were left out.
            (Some(error), Err(Error::NothingThere { .. } | Error::Unreachable { .. })) if until.is_some() => {
                Err(error.clone().into())
            }
            _ => Ok(None),
        };
    };
    let point = chain.point();
    match (newest, until) {
        (Ok(_), Some(_)) => return Ok(None),
        (Ok(header), None) if header.timestamp_ms >= point.moment.as_millis() => return Ok(None),
        (Err(Error::NothingThere { .. } | Error::Unreachable { .. }) | Ok(_), _) => {}
        (Err(_), _) => return Ok(None),
    }
    // It isn't known what was written between two generations.
    let later = |object: &&Object| object.is_snapshot() && until.is_some_and(|moment| object.modified > moment);
    let next = objects.iter().filter(later).filter(|object| !object.shares_generation(chain.snapshot));
    let goes_on = |object: &Object| {
        object.shares_generation(chain.snapshot) && until.is_some_and(|moment| object.modified > moment)
    };
    let ended = !objects.iter().any(goes_on);
    match next.min_by_key(|object| object.modified) {
        Some(next) if ended && until.is_some_and(|moment| moment > point.moment) => Err(Error::Unreachable {
            vault: vault.url().to_owned(),
            target: until.unwrap_or_default().to_string(),
            why: "it lies between two generations".to_owned(),
            next: format!("restore with --at {}, or with --at {}", point.moment, next.modified),
        }),
        _ => Ok(Some(chain)),
    }
}

/// Restores a chain.
pub(crate) async fn restore(
    vault: &Vault,
    chain: &Chain<'_>,
    request: &RestoreRequest,
    output: &Path,
    progress: &Arc<dyn Progress>,
) -> Result<Restored, Error> {
    let point = chain.point();
    if chain.broken {
        return Err(Error::Unreachable {
            vault: vault.url().to_owned(),
            target: "the newest state".to_owned(),
            why: format!("WAL segments behind {} are missing", point.position),
            next: format!("restore the last state before the gap with --at {}", point.moment),
        });
    }
    let objects = chain.objects().map(|object| PlannedObject { key: object.key().to_string(), bytes: object.bytes });
    let objects: Vec<PlannedObject> = objects.collect();
    let restored = Restored {
        point,
        output: output.to_owned(),
        bytes: 0,
        objects,
        duration_ms: 0,
        dry_run: request.dry_run,
        doubts: Vec::new(),
    };
    if request.dry_run {
        return Ok(restored);
    }
    let target = output.to_owned();
    let (partial, file) = blocking(move || Partial::create(&target)).await?;
    progress.begin("restore", Some(restored.objects.iter().map(|object| object.bytes).sum()));
    let database = replay(vault, chain, file, output, progress).await?;
    progress.finish();
    let (force, integrity) = (request.force, request.integrity);
    let bytes = blocking(move || {
        let bytes = database.metadata().map_err(Error::io(partial.path()))?.len();
        partial.finish(&database, integrity, force).map(|()| bytes)
    })
    .await?;
    Ok(Restored { bytes, ..restored })
}

/// Puts the state of a chain into a file.
async fn replay(
    vault: &Vault,
    chain: &Chain<'_>,
    file: File,
    beside: &Path,
    progress: &Arc<dyn Progress>,
) -> Result<File, Error> {
    let mut database = unpack(vault, chain.snapshot, file, beside).await?;
    progress.advance(chain.snapshot.bytes);
    let object = vault.object(&chain.snapshot.key());
    let page_size = blocking_with(&mut database, move |database| page_size(database, object)).await?;
    for segments in chain.segments.chunk_by(|a, b| a.index() == b.index()) {
        let folder = beside.to_owned();
        let mut wal = blocking(move || unnamed(&folder)).await?;
        let mut object = String::new();
        for segment in segments {
            object = vault.object(&segment.key());
            let end = wal.metadata().map_err(Error::io(beside))?.len();
            if end != segment.offset() {
                let what = format!("it begins at {} and the segment before it ends at {end}", segment.offset());
                return Err(Error::Corrupt { object, what });
            }
            wal = unpack(vault, segment, wal, beside).await?;
            progress.advance(segment.bytes);
        }
        let path = beside.to_owned();
        blocking_with(&mut database, move |database| apply(&wal, database, page_size, &object, &path)).await?;
    }
    Ok(database)
}

/// Runs blocking work on a file.
async fn blocking_with<T: Send + 'static>(
    file: &mut File,
    work: impl FnOnce(&File) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let own = file.try_clone().map_err(|e| Error::Internal(e.to_string()))?;
    blocking(move || work(&own)).await
}

/// Decompresses an object to the end of a file.
async fn unpack(vault: &Vault, object: &Object, file: File, beside: &Path) -> Result<File, Error> {
    let folder = beside.to_owned();
    let mut packed = blocking(move || unnamed(&folder)).await?;
    let key = object.key();
    let mut pieces = Box::pin(vault.stream(&key, None));
    while let Some(piece) = pieces.next().await.transpose()? {
        let path = beside.to_owned();
        packed = blocking(move || packed.write_all(&piece).map(|()| packed).map_err(Error::io(&path))).await?;
    }
    let (name, path) = (vault.object(&key), beside.to_owned());
    blocking(move || {
        packed.seek(SeekFrom::Start(0)).map_err(Error::io(&path))?;
        let mut decoder = FrameDecoder::new(io::BufReader::with_capacity(PIECE, packed));
        let mut file = file;
        let mut buffer = vec![0; PIECE];
        loop {
            // An error here is a defect in the object's content: the packed bytes are all in the file.
            let damaged = |e: io::Error| Error::Corrupt { object: name.clone(), what: format!("no LZ4 frame: {e}") };
            match decoder.read(&mut buffer).map_err(damaged)? {
                0 => return Ok(file),
                count => file.write_all(&buffer[..count]).map_err(Error::io(&path))?,
            }
        }
    })
    .await
}

/// The page size of a database file that is whole.
fn page_size(database: &File, object: String) -> Result<PageSize, Error> {
    let mut head = [0; 18];
    let damaged = |what: &str| Error::Corrupt { object, what: what.to_owned() };
    if database.read_exact_at(&mut head, 0).is_err() || !head.starts_with(b"SQLite format 3\0") {
        return Err(damaged("it is no SQLite database"));
    }
    let size = u32::from(u16::from_be_bytes([head[16], head[17]]));
    let size = PageSize::new(if size == 1 { PageSize::MAX } else { size });
    let length = database.metadata().map_or(0, |found| found.len());
    match size.filter(|size| length.is_multiple_of(u64::from(size.get()))) {
        Some(size) => Ok(size),
        None => Err(damaged("its size is no multiple of its page size")),
    }
}

/// Puts the pages of a whole WAL into a database. Every frame must be live and the last one end a transaction.
fn apply(wal: &File, database: &File, page_size: PageSize, object: &str, path: &Path) -> Result<(), Error> {
    let damaged = |what: &str| Error::Corrupt { object: object.to_owned(), what: what.to_owned() };
    let length = wal.metadata().map_err(Error::io(path))?.len();
    let mut header = [0; HEADER_SIZE as usize];
    wal.read_exact_at(&mut header, 0).map_err(|_| damaged("it is no WAL"))?;
    let header = WalHeader::parse(&header).ok_or_else(|| damaged("it is no WAL"))?;
    if header.page_size != page_size {
        return Err(damaged("its page size is another one than the snapshot's"));
    }
    let frame = header.frame_size() as usize;
    let mut scan = Scan::new(HEADER_SIZE, header.chain);
    let mut buffer = vec![0; (PIECE / frame).max(1) * frame];
    while scan.wants() < length {
        let count = usize::try_from(length - scan.wants()).unwrap_or(usize::MAX).min(buffer.len());
        wal.read_exact_at(&mut buffer[..count], scan.wants()).map_err(Error::io(path))?;
        if count < frame || !scan.take(&header, &buffer[..count], u64::MAX) {
            return Err(damaged("a frame of the WAL is damaged"));
        }
    }
    if scan.is_empty() {
        return Ok(());
    }
    if scan.end != length {
        return Err(damaged("the WAL ends inside a transaction"));
    }
    let (commit, size) = (scan.commit, page_size.bytes());
    let mut page = vec![0; size];
    for version in scan.newest() {
        let at = HEADER_SIZE + u64::from(version.frame) * frame as u64 + FRAME_HEADER_SIZE as u64;
        wal.read_exact_at(&mut page, at).map_err(Error::io(path))?;
        database
            .write_all_at(&page, u64::from(version.page.0.saturating_sub(1)) * size as u64)
            .map_err(Error::io(path))?;
    }
    database.set_len(u64::from(commit) * size as u64).map_err(Error::io(path))
}

/// Reads everything back: each snapshot with its WALs. Returns the findings, and the newest point that was proved.
pub(crate) async fn verify(
    vault: &Vault,
    objects: &[Object],
    progress: &Arc<dyn Progress>,
) -> Result<(Vec<Finding>, Option<Point>), Error> {
    let (mut findings, mut newest) = (Vec::new(), None);
    for own in by_snapshot(objects) {
        let Some(chain) = chain(&own, None) else { continue };
        let folder = std::env::temp_dir().join("seawall-verify");
        let file = {
            let folder = folder.clone();
            blocking(move || unnamed(&folder)).await?
        };
        match replay(vault, &chain, file, &folder, progress).await {
            Ok(_) => {
                let point = chain.point();
                let newer = |proved: &Point| proved.moment < point.moment;
                if newest.as_ref().is_none_or(newer) {
                    newest = Some(point);
                }
            }
            Err(error @ (Error::Corrupt { .. } | Error::Vault(_))) => {
                let failure = error.failure();
                findings.push(Finding { code: failure.code, object: failure.object, cause: failure.cause });
            }
            Err(error) => return Err(error),
        }
        if chain.broken {
            findings.push(Finding {
                code: "sqlite.unreachable",
                object: chain.point().position,
                cause: "WAL segments behind it are missing".to_owned(),
            });
        }
    }
    Ok((findings, newest))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use seawall_core::Moment;
    use seawall_vault::memory::MemoryStore;
    use seawall_vault::{ObjectKey, Policy};

    use super::*;

    #[test]
    fn an_old_replica_that_never_ends_is_a_doubt_beside_a_newer_one() {
        let endless = || Err(Error::Vault(seawall_vault::Error::Endless { object: "v".into(), most: 5 }));
        let denied = || Err(Error::Internal("another fault".to_owned()));
        let (old, doubt) = or_doubt(endless(), true).expect("the newer one can be read");
        assert!(old.objects.is_empty() && doubt.is_some_and(|doubt| doubt.contains("before 0.5")));
        assert!(or_doubt(endless(), false).is_err(), "nothing else is there");
        assert!(or_doubt(denied(), true).is_err());
        let key = "generations/0123456789abcdef/snapshots/00000000.snapshot.lz4";
        let objects = vec![Object::of(key, 1, Moment::default()).expect("a snapshot")];
        let told = or_doubt(Ok(Replica { objects, cut: None }), true);
        assert!(told.is_ok_and(|(old, doubt)| old.objects.len() == 1 && doubt.is_none()));
    }

    #[tokio::test]
    async fn the_newest_state_of_a_replica_with_too_many_objects_is_found_and_the_rest_is_told() {
        let vault = Vault::new(Arc::new(MemoryStore::new()), Policy::default());
        let names =
            ["snapshots/00000001.snapshot.lz4", "wal/00000001_00000000.wal.lz4", "wal/00000001_00001000.wal.lz4"];
        for generation in ["1111111111111111", "0000000000000000"] {
            for name in names {
                let key = ObjectKey::new(format!("{GENERATIONS}{generation}/{name}")).expect("a key");
                vault.put(&key, bytes::Bytes::from_static(b"x"), None).await.expect("written");
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        }
        let whole = list_up_to(&vault, 6, 100).await.expect("listed");
        assert_eq!((whole.objects.len(), whole.cut.is_some()), (6, false));
        let cut = list_up_to(&vault, 4, 100).await.expect("listed");
        let newest = chain(&cut.objects, None).expect("a chain").point();
        assert_eq!((cut.objects.len(), newest.position.as_str()), (3, "0000000000000000/00000001:00001000"));
        let oldest = whole.objects.iter().map(|object| object.modified).min();
        let nothing = Error::NothingThere { vault: "v".into() };
        let at = |moment| instead(&vault, &cut, &When::Moment(moment), Err(&nothing)).map(|chain| chain.is_some());
        assert!(at(oldest.expect("objects")).is_err(), "it may be there");
        assert!(matches!(at(newest.moment), Ok(true)));
        let (_, doubt) = or_doubt(Ok(cut), true).expect("listed");
        assert!(doubt.is_some_and(|doubt| doubt.contains("only the newest state")));
        assert!(list_up_to(&vault, 2, 100).await.is_err() && list_up_to(&vault, 6, 5).await.is_err());
    }
}
