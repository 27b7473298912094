//! Encodes a database as a snapshot. A page in the WAL takes precedence over the same page in the file.
//!
//! What the caller has to see to is told at `file`: no process writes meanwhile. A WAL that was restarted all the same is
//! detected, and so is a file that ends too early; a checkpoint isn't.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::file::checksum::read;
use crate::file::database::{Database, PIECE, Pieces, sidecar};
use crate::file::error::{FileError, Result};
use crate::file::flush::{self, Flusher};
use crate::file::replace::{Replacement, check_distinct};
use crate::file::spill::Spill;
use crate::file::verify::Verified;
use crate::file::wal::Wal;
use crate::file::{Work, ordered, tail};
use crate::{Batch, Batcher, Checksum, Encoder, Header, PageNo, Rolling, Txid};

/// Settings of the file that [`encode`] makes.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let database = folder.path().join("app.db");
/// # rusqlite::Connection::open(&database)?.execute_batch("CREATE TABLE t(x)")?;
/// # let snapshot = folder.path().join("snapshot.ltx");
/// use seawall_ltx::file::{EncodeOptions, Work, encode};
///
/// // As Litestream's files are.
/// let options = EncodeOptions { timestamp_ms: 1_700_000_000_000, no_checksum: true };
/// let made = encode(&database, &snapshot, options, Work::new())?;
/// assert!(made.summary.trailer.post_apply.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct EncodeOptions {
    /// The time in its header, in milliseconds since 1970-01-01 UTC.
    pub timestamp_ms: i64,
    /// Leave out the database checksum, as Litestream does.
    pub no_checksum: bool,
}

/// Encodes a database with its WAL as a snapshot of transaction 1. The snapshot replaces the file at `output` once it
/// is whole and durable.
///
/// No process may write to the database meanwhile, and no SQLite connection of *this* process may be open on it
/// ([why](crate::file#databases-that-are-in-use)).
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let database = folder.path().join("app.db");
/// # rusqlite::Connection::open(&database)?.execute_batch("CREATE TABLE t(x)")?;
/// use seawall_ltx::file::{EncodeOptions, Work, encode};
///
/// let options = EncodeOptions { timestamp_ms: 1_700_000_000_000, no_checksum: false };
/// let made = encode(&database, &folder.path().join("snapshot.ltx"), options, Work::new())?;
/// assert_eq!((made.summary.pages, made.summary.header.is_snapshot()), (2, true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`FileError::Database`] if the file isn't a whole database, [`FileError::Beside`] with a rollback journal that
/// SQLite has to play back first, [`FileError::SameFile`], [`FileError::Changed`], [`FileError::Io`].
pub fn encode(path: &Path, output: &Path, options: EncodeOptions, work: Work<'_>) -> Result<Verified> {
    check_distinct(output, [path])?;
    let database = Database::open(path)?;
    let Some(head) = database.head else {
        return Err(FileError::database(path, "it is empty"));
    };
    refuse_journal(path)?;
    let wal = Wal::of(path)?;
    if wal.as_ref().is_some_and(|wal| wal.page_size() != head.page_size) {
        return Err(FileError::database(path, "its WAL is of another page size"));
    }
    let commit = pages(&database, wal.as_ref())?;
    let header = Header {
        no_checksum: options.no_checksum,
        timestamp_ms: options.timestamp_ms,
        ..Header::new(head.page_size, commit, Txid(1), Txid(1))
    };
    let made = Replacement::create(output)?;
    let verified = flush::along(&made.file, made.partial(), |flusher| {
        write(&database, wal.as_ref(), header, &made, flusher, work)
    })?;
    if wal.is_some_and(|wal| !wal.unchanged().unwrap_or(false)) {
        return Err(FileError::Changed { path: sidecar(path, "-wal") });
    }
    made.finish()?;
    Ok(verified)
}

/// A rollback journal with content means that the file is in the middle of a transaction.
pub(super) fn refuse_journal(path: &Path) -> Result<()> {
    let journal = sidecar(path, "-journal");
    let mut start = [0; 8];
    let got = std::fs::File::open(&journal).and_then(|file| file.read_at(&mut start, 0)).unwrap_or(0);
    // A finished journal begins with zeros or is empty.
    if got == 0 || start == [0; 8] {
        return Ok(());
    }
    Err(FileError::Beside { path: journal, what: "a rollback journal: a transaction was not finished" })
}

/// The size of the database in pages, as SQLite sees it.
fn pages(database: &Database, wal: Option<&Wal>) -> Result<u32> {
    if let Some(wal) = wal {
        return Ok(wal.commit);
    }
    let in_file = database.pages();
    match database.head.and_then(|head| head.pages.map(|pages| (pages, head.page_size))) {
        Some((pages, page_size)) if u64::from(pages) * u64::from(page_size.get()) <= database.len => Ok(pages),
        Some(_) => Err(FileError::database(&database.path, "it is shorter than its first page says")),
        None => in_file,
    }
}

fn write(
    database: &Database,
    wal: Option<&Wal>,
    header: Header,
    made: &Replacement,
    flusher: &Flusher,
    work: Work<'_>,
) -> Result<Verified> {
    let size = header.page_size;
    let format = || FileError::format(made.partial());
    let put = |bytes: &[u8], at| made.file.write_all_at(bytes, at).map_err(FileError::io(made.partial()));
    let mut start = Vec::new();
    let mut encoder = Encoder::new(header, &mut start).map_err(format())?;
    put(&start, 0)?;
    let mut spill = Spill::new(made.partial(), work.index);
    let (used, mut sum) = (Mutex::new(Vec::<Batch>::new()), Rolling::new());
    let mut pieces = Pieces::new(size, header.commit, PIECE).iter();
    ordered::run(
        work.jobs,
        || Ok(pieces.next()),
        || (vec![0; PIECE.max(size.bytes())], Batcher::new(size)),
        |(buffer, batcher), (first, count)| {
            let pages = buffer.get_mut(..count as usize * size.bytes()).unwrap_or_default();
            read(database, wal, first, pages)?;
            for (page, number) in pages.chunks_exact(size.bytes()).zip(first.0..) {
                if PageNo(number) != size.lock_page() {
                    batcher.push(PageNo(number), page).map_err(format())?;
                }
            }
            (work.progress)(pages.len() as u64);
            Ok(batcher.take(used.lock().unwrap_or_else(PoisonError::into_inner).pop()))
        },
        |batch: Batch| {
            let at = encoder.len();
            encoder.count(&batch).map_err(format())?;
            spill.relieve(&mut encoder)?;
            sum.join(batch.rolling());
            put(batch.frames(), at)?;
            flusher.wrote(batch.frames().len());
            used.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
            Ok(())
        },
    )?;
    let post_apply = if header.no_checksum { Checksum::NONE } else { sum.checksum() };
    tail::write(header, encoder, spill, post_apply, &made.file, made.partial())
}
