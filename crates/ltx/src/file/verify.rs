//! Reads a file to its end, with every check.
//!
//! The index divides a file into pieces of frames. Many threads decode the pieces, and the results are joined in order.
//! If anything is wrong, the file is read once more from its first byte to its last, because only this finds the first
//! defect. Files of older generations are always read so, because they have no index.

use std::fs::File;
use std::path::Path;

use crate::decode::{Frames, Opened, Share};
use crate::file::database::PIECE;
use crate::file::error::{FileError, Result};
use crate::file::index::{Entries, LtxFile};
use crate::file::{Work, ordered, sequential};
use crate::{Checksum, Crc64, Error, Generation, Header, PageNo, Rolling, Summary};

/// The summary of a file that was read to its end and passed every check.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let database = folder.path().join("app.db");
/// # rusqlite::Connection::open(&database)?.execute_batch("CREATE TABLE t(x)")?;
/// # let snapshot = folder.path().join("snapshot.ltx");
/// # let options = seawall_ltx::file::EncodeOptions { timestamp_ms: 0, no_checksum: false };
/// # seawall_ltx::file::encode(&database, &snapshot, options, seawall_ltx::file::Work::new())?;
/// use seawall_ltx::file::{Work, verify};
///
/// let found = verify(&snapshot, Work::new())?;
/// assert_eq!((found.len, found.generation), (std::fs::metadata(&snapshot)?.len(), None));
/// assert!(found.summary.header.is_snapshot());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// Header, trailer and number of pages.
    pub summary: Summary,
    /// The bytes of the file.
    pub len: u64,
    /// Its generation; `None` for the current one.
    pub generation: Option<Generation>,
}

impl Verified {
    /// What a reader of its own found out: of a file of `len` bytes, for example one that is no file of this machine.
    ///
    /// ```
    /// # use seawall_ltx::{Checksum, Encoder, Header, PageNo, PageSize, Splitter, Txid};
    /// # let page_size = PageSize::new(512).unwrap();
    /// # let mut file = Vec::new();
    /// # let mut encoder = Encoder::new(Header::new(page_size, 3, Txid(2), Txid(2)), &mut file)?;
    /// # encoder.push(PageNo(3), &[3; 512], &mut file)?;
    /// # encoder.finish(Checksum::NONE, &mut file)?;
    /// use seawall_ltx::file::Verified;
    ///
    /// let (mut splitter, mut rest) = (Splitter::new(), &file[..]);
    /// while let Some(batch) = splitter.feed(&mut rest)? {
    ///     splitter.join(&batch.decode()?)?;
    /// }
    /// let verified = Verified::new(splitter.finish()?, file.len() as u64, None);
    /// assert_eq!(verified.summary.pages, 1);
    /// # Ok::<(), seawall_ltx::Error>(())
    /// ```
    pub fn new(summary: Summary, len: u64, generation: Option<Generation>) -> Self {
        Self { summary, len, generation }
    }
}

/// Reads a file of any generation and checks everything.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let database = folder.path().join("app.db");
/// # rusqlite::Connection::open(&database)?.execute_batch("CREATE TABLE t(x)")?;
/// # let snapshot = folder.path().join("snapshot.ltx");
/// # let options = seawall_ltx::file::EncodeOptions { timestamp_ms: 0, no_checksum: false };
/// # seawall_ltx::file::encode(&database, &snapshot, options, seawall_ltx::file::Work::new())?;
/// use seawall_ltx::Error;
/// use seawall_ltx::file::{FileError, Work, verify};
///
/// assert_eq!(verify(&snapshot, Work::new())?.summary.pages, 2);
/// let mut bytes = std::fs::read(&snapshot)?;
/// bytes[35] ^= 1; // in the header's time
/// std::fs::write(&snapshot, bytes)?;
/// let error = verify(&snapshot, Work::new()).unwrap_err();
/// assert!(matches!(error, FileError::Format { source: Error::FileChecksum { .. }, .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`FileError::Format`] with the first defect, [`FileError::Io`].
pub fn verify(path: &Path, work: Work<'_>) -> Result<Verified> {
    let file = File::open(path).map_err(FileError::io(path))?;
    verify_file(&file, path, work)
}

pub(super) fn verify_file(file: &File, path: &Path, work: Work<'_>) -> Result<Verified> {
    let clone = file.try_clone().map_err(FileError::io(path))?;
    let parallel = LtxFile::of(clone, path).and_then(|ltx| {
        let summary = read(&ltx, work, false, |_| Ok(()))?.0;
        Ok(Verified { summary, len: ltx.len, generation: None })
    });
    match parallel {
        Err(error @ FileError::Format { .. }) => {
            sequential::verify(file, path).and_then(|found| match found.generation {
                // The second reading found no defect, so the file can't be trusted.
                None => Err(error),
                Some(_) => Ok(found),
            })
        }
        done => done,
    }
}

/// Adjacent frames, as listed in the index.
pub(super) struct Piece {
    pub(super) offset: u64,
    pub(super) len: usize,
    pub(super) frames: Vec<(PageNo, u32)>,
}

/// The next piece of a file.
pub(super) fn next_piece(entries: &mut Entries<'_>, header: &Header) -> Result<Option<Piece>> {
    let most = (PIECE / header.page_size.bytes()).max(1);
    let mut piece = Piece { offset: 0, len: 0, frames: Vec::with_capacity(most) };
    while piece.frames.len() < most {
        let Some(entry) = entries.next()? else { break };
        if piece.frames.is_empty() {
            piece.offset = entry.offset;
        }
        piece.len += entry.size as usize;
        piece.frames.push((entry.page, entry.size));
    }
    Ok((!piece.frames.is_empty()).then_some(piece))
}

/// The working memory of a thread.
#[derive(Default)]
pub(super) struct Buffers {
    raw: Vec<u8>,
    /// The decoded pages.
    pub(super) pages: Vec<u8>,
}

/// The decoded pages of a piece.
pub(super) struct OpenPiece<'a> {
    pub(super) frames: &'a [(PageNo, u32)],
    /// The concatenated pages, if they are kept.
    pub(super) pages: &'a [u8],
}

/// Reads all of a file. `visit` gets the pages, on any thread and in any order, before anything has been verified.
/// Returns the file's summary and the sum of its pages' checksums, which is 0 if it isn't needed.
pub(super) fn read(
    ltx: &LtxFile,
    work: Work<'_>,
    rolling: bool,
    visit: impl Fn(OpenPiece<'_>) -> Result<()> + Sync,
) -> Result<(Summary, Rolling)> {
    read_keeping(ltx, work, rolling, false, visit)
}

/// Like [`read`], and passes the pages to `visit` if `keep` is set.
pub(super) fn read_keeping(
    ltx: &LtxFile,
    work: Work<'_>,
    rolling: bool,
    keep: bool,
    visit: impl Fn(OpenPiece<'_>) -> Result<()> + Sync,
) -> Result<(Summary, Rolling)> {
    let header = ltx.header;
    let rolling = rolling || header.is_snapshot() && !header.no_checksum;
    let mut entries = ltx.entries();
    let mut joined = (file_start(&header), Rolling::new());
    ordered::run(
        work.jobs,
        || next_piece(&mut entries, &header),
        Buffers::default,
        |buffers, piece| {
            let share = open(ltx, &piece, buffers, rolling, keep)?;
            let pages = buffers.pages.get(..piece.frames.len() * header.page_size.bytes()).unwrap_or_default();
            visit(OpenPiece { frames: &piece.frames, pages })?;
            (work.progress)(piece.len as u64);
            Ok(share)
        },
        |share: Share| {
            joined.0.join(&share.crc);
            joined.1.join(share.rolling);
            Ok(())
        },
    )?;
    let (tail, pages) = entries.finish();
    joined.0.join(&tail);
    let summary = Summary { header, trailer: ltx.trailer, pages };
    check_end(&summary, joined.0, joined.1).map_err(FileError::format(&ltx.path))?;
    Ok((summary, joined.1))
}

/// The CRC of a header.
fn file_start(header: &Header) -> Crc64 {
    let mut crc = Crc64::new();
    crc.update(&header.encode());
    crc
}

/// The rules of a file's end.
fn check_end(summary: &Summary, file: Crc64, pages: Rolling) -> crate::Result<()> {
    let Summary { header, trailer, .. } = summary;
    let (stored, computed) = (trailer.file, file.checksum());
    if stored != computed {
        return Err(Error::FileChecksum { stored, computed });
    }
    header.validate_post_apply(trailer.post_apply)?;
    let (stored, computed): (Checksum, _) = (trailer.post_apply, pages.checksum());
    if header.is_snapshot() && !header.no_checksum && stored != computed {
        return Err(Error::DatabaseChecksum { stored, computed });
    }
    Ok(())
}

/// Decodes the frames of a piece, and compares them with the index.
fn open(ltx: &LtxFile, piece: &Piece, buffers: &mut Buffers, rolling: bool, keep: bool) -> Result<Share> {
    let size = ltx.header.page_size.bytes();
    let wanted = if keep { piece.frames.len() * size } else { size };
    if buffers.pages.len() < wanted {
        buffers.pages.resize(wanted, 0);
    }
    let bytes = ltx.read(piece.offset, piece.len, &mut buffers.raw)?;
    let mut frames = Frames::new(ltx.header.page_size, piece.offset, bytes, rolling);
    for (at, (page, len)) in piece.frames.iter().enumerate() {
        let at = if keep { at * size } else { 0 };
        let into = buffers.pages.get_mut(at..at + size).unwrap_or_default();
        let Opened { page: found, size: found_len, .. } = frames.next(into).map_err(FileError::format(&ltx.path))?;
        if (found, found_len) != (*page, *len as usize) {
            let fault = crate::IndexFault::Mismatch { page: found };
            return Err(ltx.error(Error::Index { offset: piece.offset, fault }));
        }
    }
    frames.finish().map_err(FileError::format(&ltx.path))
}

/// The summary of a file without reading its pages: only its ends and its index are read and checked against each
/// other. A file of an older generation is read as a whole, because it has no index.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let database = folder.path().join("app.db");
/// # rusqlite::Connection::open(&database)?.execute_batch("CREATE TABLE t(x)")?;
/// # let snapshot = folder.path().join("snapshot.ltx");
/// # let options = seawall_ltx::file::EncodeOptions { timestamp_ms: 0, no_checksum: false };
/// # seawall_ltx::file::encode(&database, &snapshot, options, seawall_ltx::file::Work::new())?;
/// use seawall_ltx::Txid;
/// use seawall_ltx::file::describe;
///
/// let found = describe(&snapshot)?;
/// assert_eq!((found.summary.header.max_txid, found.len), (Txid(1), std::fs::metadata(&snapshot)?.len()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`FileError::Format`], [`FileError::Io`].
pub fn describe(path: &Path) -> Result<Verified> {
    let file = File::open(path).map_err(FileError::io(path))?;
    let len = file.metadata().map_err(FileError::io(path))?.len();
    if sequential::detect(&file, path, len)?.is_some() {
        return sequential::verify(&file, path);
    }
    let ltx = LtxFile::of(file, path)?;
    let mut entries = ltx.entries();
    while entries.next()?.is_some() {}
    let (_, pages) = entries.finish();
    Ok(Verified { summary: Summary { header: ltx.header, trailer: ltx.trailer, pages }, len, generation: None })
}
