//! Reads pages of a database whose WAL is held, on any thread: from the database file, and from the WAL.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use seawall_ltx::PageSize;

use crate::error::Error;
use crate::files::read_up_to;
use crate::probe::{Probe, Step};
use crate::wal::{FRAME_HEADER_SIZE, HEADER_SIZE, Salts, WalHeader, frame_size};

/// Reads pages of a database whose WAL is pinned. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PageReader {
    pub(super) path: PathBuf,
    pub(super) wal_path: PathBuf,
    pub(super) file: Arc<File>,
    pub(super) wal: Option<Arc<File>>,
    pub(super) page_size: PageSize,
    pub(super) probe: Probe,
}

impl PageReader {
    /// The page size in bytes.
    pub(crate) fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// Reads one page in the version of WAL frame `frame`.
    pub(crate) fn read_frame(&self, frame: u32, page: &mut [u8]) -> Result<(), Error> {
        let Some(file) = &self.wal else {
            return Err(Error::Vanished { path: self.wal_path.clone() });
        };
        self.probe.at(Step::Reading);
        let offset = HEADER_SIZE + u64::from(frame) * frame_size(self.page_size) + FRAME_HEADER_SIZE as u64;
        let read = self.probe.read(&self.wal_path).and_then(|()| file.read_exact_at(page, offset));
        read.map_err(Error::io(&self.wal_path))
    }

    /// Reads pages from the database file, beginning with `first`; what is behind its end is zero.
    pub(crate) fn read_pages(&self, first: u32, pages: &mut [u8]) -> Result<(), Error> {
        self.probe.at(Step::Reading);
        let offset = u64::from(first.saturating_sub(1)) * u64::from(self.page_size.get());
        let read = self.probe.read(&self.path).and_then(|()| read_up_to(&self.file, pages, offset));
        let length = read.map_err(Error::io(&self.path))?;
        pages[length..].fill(0);
        Ok(())
    }

    /// Size of the WAL file in bytes; 0 if there is none.
    pub(crate) fn wal_size(&self) -> Result<u64, Error> {
        let Some(file) = &self.wal else { return Ok(0) };
        file.metadata().map(|metadata| metadata.len()).map_err(Error::io(&self.wal_path))
    }

    /// Whether the WAL is still the generation with these salts. Its header is written before any frame is
    /// overwritten, so what was read before a `true` was read whole.
    pub(crate) fn is_generation(&self, salts: Salts) -> Result<bool, Error> {
        let Some(file) = &self.wal else { return Ok(false) };
        let mut bytes = [0; HEADER_SIZE as usize];
        let length = read_up_to(file, &mut bytes, 0).map_err(Error::io(&self.wal_path))?;
        Ok(WalHeader::parse(&bytes[..length]).is_some_and(|header| header.salts == salts))
    }
}
