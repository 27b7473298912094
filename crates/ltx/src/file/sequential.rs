//! Reads a file from its first byte to its last. This finds the first defect, and reads files without an index.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::file::database::read_up_to;
use crate::file::error::{FileError, Result};
use crate::file::verify::Verified;
use crate::{Generation, HEADER_SIZE, Header, PageNo, Splitter, Summary, legacy};

/// Bytes read at once.
const READ: usize = 256 << 10;

/// Reads a file of any generation to its end.
pub(super) fn verify(file: &File, path: &Path) -> Result<Verified> {
    read(file, path, |_, _| Ok(()))
}

/// Like [`verify`], and passes the pages on in order, before the end has been verified.
pub(super) fn read(file: &File, path: &Path, visit: impl FnMut(PageNo, &[u8]) -> Result<()>) -> Result<Verified> {
    let len = file.metadata().map_err(FileError::io(path))?.len();
    let generation = detect(file, path, len)?;
    let summary = match generation {
        None => read_current(file, path, visit)?,
        Some(generation) => read_older(generation, file, path, len, visit)?,
    };
    Ok(Verified { summary, len, generation })
}

/// The generation of a file.
pub(super) fn detect(file: &File, path: &Path, len: u64) -> Result<Option<Generation>> {
    let mut start = [0; HEADER_SIZE + 32];
    let got = read_up_to(file, &mut start, 0).map_err(FileError::io(path))?;
    Generation::detect_start(start.get(..got).unwrap_or_default(), len).map_err(FileError::format(path))
}

/// The header of a file of any generation.
pub(super) fn header(file: &File, path: &Path) -> Result<Header> {
    let mut head = [0; HEADER_SIZE];
    let got = read_up_to(file, &mut head, 0).map_err(FileError::io(path))?;
    let parsed = Header::parse_any(head.get(..got).unwrap_or_default());
    parsed.map(|(header, _)| header).map_err(FileError::format(path))
}

fn read_current(file: &File, path: &Path, mut visit: impl FnMut(PageNo, &[u8]) -> Result<()>) -> Result<Summary> {
    let format = || FileError::format(path);
    let mut splitter = Splitter::with_batch_size(READ);
    let (mut buffer, mut offset) = (vec![0; READ], 0);
    loop {
        let got = read_up_to(file, &mut buffer, offset).map_err(FileError::io(path))?;
        let mut piece = buffer.get(..got).unwrap_or_default();
        if piece.is_empty() {
            return splitter.finish().map_err(format());
        }
        offset += got as u64;
        while let Some(batch) = splitter.feed(&mut piece).map_err(format())? {
            let batch = batch.decode().map_err(format())?;
            splitter.join(&batch).map_err(format())?;
            for (page, data) in batch.pages() {
                visit(page, data)?;
            }
        }
    }
}

/// Reads a file of an older generation as a stream, whatever its length.
fn read_older(
    generation: Generation,
    file: &File,
    path: &Path,
    len: u64,
    mut visit: impl FnMut(PageNo, &[u8]) -> Result<()>,
) -> Result<Summary> {
    let mut input = Input { file, buffer: vec![0; READ], at: 0, filled: 0, offset: 0, failed: None };
    let mut stopped = None;
    let done = legacy::decode_stream(
        generation,
        len,
        |into| input.take(into),
        |page, data| {
            if stopped.is_none() {
                stopped = visit(page, data).err();
            }
        },
    );
    match (input.failed, stopped) {
        (Some(error), _) => Err(FileError::io(path)(error)),
        (None, Some(error)) => Err(error),
        (None, None) => done.map_err(FileError::format(path)),
    }
}

/// Bytes of a file in small portions, from large reads.
struct Input<'f> {
    file: &'f File,
    buffer: Vec<u8>,
    at: usize,
    filled: usize,
    offset: u64,
    /// An error of the reading ends it, and is reported instead of the parser's complaint about a short file.
    failed: Option<std::io::Error>,
}

impl Input<'_> {
    /// Fills `into`, if enough bytes are left.
    fn take(&mut self, mut into: &mut [u8]) -> Option<()> {
        while !into.is_empty() {
            if self.at == self.filled && !self.refill() {
                return None;
            }
            let here = self.buffer.get(self.at..self.filled).unwrap_or_default();
            let len = here.len().min(into.len());
            let (to, rest) = into.split_at_mut(len);
            to.copy_from_slice(here.get(..len).unwrap_or_default());
            self.at += len;
            into = rest;
        }
        Some(())
    }

    fn refill(&mut self) -> bool {
        match self.file.read_at(&mut self.buffer, self.offset) {
            Ok(got) => {
                (self.at, self.filled) = (0, got);
                self.offset += got as u64;
                got > 0
            }
            Err(error) => {
                self.failed = Some(error);
                false
            }
        }
    }
}

/// Passes the header of a file of any generation to `begin` and its pages, in order, to `visit`, *before* the bytes
/// after them are verified.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let database = folder.path().join("app.db");
/// # rusqlite::Connection::open(&database)?.execute_batch("CREATE TABLE t(x)")?;
/// # let snapshot = folder.path().join("snapshot.ltx");
/// # let options = seawall_ltx::file::EncodeOptions { timestamp_ms: 0, no_checksum: false };
/// # seawall_ltx::file::encode(&database, &snapshot, options, seawall_ltx::file::Work::new())?;
/// use seawall_ltx::file::read_pages;
///
/// let mut pages = Vec::new();
/// let begin = |header: &seawall_ltx::Header, _| Ok(assert_eq!(header.commit, 2));
/// read_pages(&snapshot, begin, |page, data| Ok(pages.push((page.0, data.len()))))?;
/// assert_eq!(pages, [(1, 4096), (2, 4096)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`FileError::Format`] with the first defect, [`FileError::Io`].
pub fn read_pages(
    path: &Path,
    begin: impl FnOnce(&Header, Option<Generation>) -> std::io::Result<()>,
    mut visit: impl FnMut(PageNo, &[u8]) -> std::io::Result<()>,
) -> Result<Verified> {
    let file = File::open(path).map_err(FileError::io(path))?;
    let header = header(&file, path)?;
    let len = file.metadata().map_err(FileError::io(path))?.len();
    begin(&header, detect(&file, path, len)?).map_err(FileError::Output)?;
    read(&file, path, |page, data| visit(page, data).map_err(FileError::Output))
}
