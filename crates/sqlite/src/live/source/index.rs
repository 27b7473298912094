//! Reads the wal-index: which frames are committed, and how many of them are copied into the database file.
//!
//! Frames behind the end in the wal-index are no commits, even if they look like some (`docs/design.md`, "Holding the
//! WAL").

use crate::connection::{connect, pin};
use crate::error::Error;
use crate::files::read_up_to;
use crate::identity::WalPosition;
use crate::source::Source;
use crate::untouched::Copying;
use crate::wal::{ATTEMPTED_AT, COPIED_AT, HEADER_SIZE, IndexHeader, Salts, WalHeader, attempted, copied, frame_size};

/// How often to read the wal-index's header before taking it for damaged.
const PUBLISHED_ATTEMPTS: usize = 1000;

impl Source {
    /// The header of the wal-index, which says which frames are committed. `None` while a writer is changing it.
    ///
    /// Frames behind its end are no commits, even if they look like some: a writer that was killed before it published
    /// its commit leaves them, and the next writer overwrites them.
    pub(super) fn published(&self) -> Result<Option<IndexHeader>, Error> {
        for _ in 0..PUBLISHED_ATTEMPTS {
            if let Some(header) = self.index_header()? {
                return Ok(Some(header));
            }
            // A writer has written one of the two copies and not the other yet. That takes a few instructions.
            std::thread::yield_now();
        }
        // A writer that was killed here left the two copies different. The next reader repairs them.
        let second = connect(&self.path, self.busy_timeout)?;
        pin(&self.path, &second)?;
        self.index_header()
    }

    fn index_header(&self) -> Result<Option<IndexHeader>, Error> {
        let mut bytes = [0; 2 * IndexHeader::SIZE];
        let length = self.read(self.hands.index(), &self.path, &mut bytes, 0)?;
        Ok(IndexHeader::parse(&bytes[..length]))
    }

    /// The salts of the generation, if it has committed frames that aren't copied into the database file.
    ///
    /// The end and the count of copied frames are read one after the other. A restart of the WAL in between can make the
    /// answer wrong; then the salts in the answer are no longer those of the WAL.
    pub(super) fn uncopied(&self) -> Result<Option<Salts>, Error> {
        Ok(self.index_and_copied()?.filter(|(header, copied)| *copied < header.frames).map(|(header, _)| header.salts))
    }

    /// How many bytes of committed frames aren't copied into the database file yet. `None` while a writer changes the
    /// wal-index.
    pub(crate) fn to_copy(&self) -> Result<Option<u64>, Error> {
        let left = |(header, copied): (IndexHeader, u32)| u64::from(header.frames.saturating_sub(copied));
        Ok(self.index_and_copied()?.map(left).map(|frames| frames * frame_size(self.page_size)))
    }

    /// The generation, and how many of its frames are in the database file. `None` while a writer changes the wal-index.
    pub(crate) fn copied(&self) -> Result<Option<(Salts, u32)>, Error> {
        Ok(self.index_and_copied()?.map(|(header, copied)| (header.salts, copied)))
    }

    /// How far checkpoints got, by the wal-index. `None` during a checkpoint, and while a writer changes the wal-index.
    pub(super) fn checkpoints(&self) -> Result<Option<Copying>, Error> {
        let mut bytes = [0; ATTEMPTED_AT + 4];
        let length = read_up_to(self.hands.index(), &mut bytes, 0).map_err(Error::io(&self.path))?;
        let bytes = &bytes[..length];
        let known = IndexHeader::parse(bytes).zip(copied(bytes)).zip(attempted(bytes));
        let known = known.map(|((header, copied), attempted)| Copying {
            salts: header.salts,
            frames: header.frames,
            copied,
            attempted,
        });
        // A checkpoint that failed leaves the same counts as one that is running, and so does a rebuilt wal-index. The lock
        // tells them apart.
        Ok(known.filter(|known| known.attempted <= known.copied || !self.hands.see_a_checkpoint()))
    }

    fn index_and_copied(&self) -> Result<Option<(IndexHeader, u32)>, Error> {
        let mut bytes = [0; COPIED_AT + 4];
        let length = read_up_to(self.hands.index(), &mut bytes, 0).map_err(Error::io(&self.path))?;
        Ok(IndexHeader::parse(&bytes[..length]).zip(copied(&bytes[..length])))
    }

    /// Whether the wal-index counts exactly the commits up to the captured place: one read, without the WAL.
    pub(crate) fn is_quiet(&self, captured: Option<&WalPosition>) -> Result<bool, Error> {
        let end = |index: &IndexHeader| HEADER_SIZE + u64::from(index.frames) * frame_size(self.page_size);
        let known =
            |index: &IndexHeader| captured.is_some_and(|wal| wal.salts == index.salts && wal.offset == end(index));
        Ok(self.index_header()?.is_some_and(|index| index.frames == 0 || known(&index)))
    }

    /// Whether the wal-index counts commits in a WAL that has no header: a program cut the file while it was in use.
    pub(crate) fn has_lost_its_header(&mut self) -> Result<bool, Error> {
        if self.wal_header()?.is_some() || self.index_header()?.is_none_or(|index| index.frames == 0) {
            return Ok(false);
        }
        // A writer writes the WAL's header before the wal-index counts its first commit. So a missing header was cut off.
        Ok(self.wal_header()?.is_none())
    }

    /// The WAL's header, if the wal-index counts committed frames. An application's checkpoint can begin a new generation
    /// in the wal-index alone. The header of that generation gets into the file with its first frame.
    pub(crate) fn live_header(&mut self) -> Result<Option<WalHeader>, Error> {
        let empty = self.published()?.is_some_and(|index| index.frames == 0);
        if empty { Ok(None) } else { self.wal_header() }
    }

    /// Whether the file still shows the generation with these salts, although an application's checkpoint has begun a new
    /// one in the wal-index, without a frame yet.
    pub(crate) fn is_left_behind(&self, salts: Salts) -> Result<bool, Error> {
        Ok(self.published()?.is_some_and(|index| index.frames == 0 && index.salts != salts))
    }

    /// Whether the wal-index counts at least the frames up to `offset` of the generation with these salts as
    /// committed. `None` while a writer changes the wal-index, and for another generation.
    pub(crate) fn is_published(&self, salts: Salts, offset: u64) -> Result<Option<bool>, Error> {
        let end = |index: IndexHeader| HEADER_SIZE + u64::from(index.frames) * frame_size(self.page_size);
        Ok(self.published()?.filter(|index| index.salts == salts).map(|index| end(index) >= offset))
    }

    /// Whether the file was cut: all commits are in it, none came after `captured`, and it is shorter than the `commit`
    /// pages that the database had there.
    pub(crate) fn is_cut(&self, captured: Option<&WalPosition>, commit: u32) -> Result<bool, Error> {
        if self.to_copy()? != Some(0) {
            return Ok(false);
        }
        let size = self.hands.database().metadata().map_err(Error::io(&self.path))?.len();
        // A commit since the first question may have made the database smaller.
        Ok(size < u64::from(commit) * u64::from(self.page_size.get()) && self.is_quiet(captured)?)
    }
}
