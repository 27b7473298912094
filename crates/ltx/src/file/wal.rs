//! The WAL of a database: committed pages that are not in the database file yet.
//!
//! The WAL counts up to where SQLite itself would recover it after a crash ([`crate::wal`]). Memory: 8 bytes for each
//! frame.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::file::database::{read_up_to, sidecar};
use crate::file::error::{FileError, Result};
use crate::wal::{FRAME_HEADER_SIZE, HEADER_SIZE, PageVersion, Salts, Scan, WalHeader};
use crate::{PageNo, PageSize};

/// Bytes read at once.
const READ: usize = 1 << 20;

/// The pages that a WAL adds to its database.
#[derive(Debug)]
pub(super) struct Wal {
    file: File,
    path: PathBuf,
    page_size: PageSize,
    /// The newest frame of each page, by page.
    frames: Vec<PageVersion>,
    /// The size of the database in pages after the last transaction.
    pub(super) commit: u32,
    /// The salts of its header.
    salts: Salts,
}

impl Wal {
    /// Reads the WAL beside a database; `None` if there is none, or if it holds no committed frame.
    pub(super) fn of(database: &Path) -> Result<Option<Wal>> {
        let path = sidecar(database, "-wal");
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FileError::io(&path)(error)),
        };
        let Some(header) = read_header(&file).map_err(FileError::io(&path))? else { return Ok(None) };
        let mut scan = Scan::new(HEADER_SIZE, header.chain);
        let frame = FRAME_HEADER_SIZE + header.page_size.bytes();
        let mut buffer = vec![0; (READ / frame).max(1) * frame];
        loop {
            let got = read_up_to(&file, &mut buffer, scan.wants()).map_err(FileError::io(&path))?;
            let whole = buffer.get(..got - got % frame).unwrap_or_default();
            if whole.is_empty() || !scan.take(&header, whole, u64::MAX) {
                break;
            }
        }
        if scan.is_empty() {
            return Ok(None);
        }
        let (page_size, salts, commit) = (header.page_size, header.salts, scan.commit);
        Ok(Some(Wal { file, path, page_size, frames: scan.newest(), commit, salts }))
    }

    /// The page size that its header says.
    pub(super) fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// How many pages have a newer version in it.
    pub(super) fn pages(&self) -> usize {
        self.frames.len()
    }

    /// Replaces pages of the database file, from `first` on, by its own.
    pub(super) fn overlay(&self, first: PageNo, pages: &mut [u8]) -> Result<()> {
        let size = self.page_size.bytes();
        let from = self.frames.partition_point(|version| version.page < first);
        for PageVersion { page, frame } in self.frames.get(from..).unwrap_or_default() {
            let at = (page.0 - first.0) as usize;
            let Some(to) = pages.chunks_exact_mut(size).nth(at) else { break };
            let frame = u64::from(*frame) * crate::wal::frame_size(self.page_size);
            let offset = HEADER_SIZE + frame + FRAME_HEADER_SIZE as u64;
            self.file.read_exact_at(to, offset).map_err(FileError::io(&self.path))?;
        }
        Ok(())
    }

    /// Whether its header is still the one that was read. If the WAL was restarted meanwhile, frames have been
    /// overwritten.
    pub(super) fn unchanged(&self) -> Result<bool> {
        let header = read_header(&self.file).map_err(FileError::io(&self.path))?;
        Ok(header.is_some_and(|now| now.salts == self.salts))
    }
}

fn read_header(file: &File) -> std::io::Result<Option<WalHeader>> {
    let mut header = [0; HEADER_SIZE as usize];
    let got = read_up_to(file, &mut header, 0)?;
    Ok(WalHeader::parse(header.get(..got).unwrap_or_default()))
}
