//! What the wal-index says: which frames are committed, and how many of them are copied into the database file.
//!
//! Frames past the end that it tells are no commits, even if they look like some (`docs/design.md`, "Holding the WAL").

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
    /// What the wal-index says is committed, by its header.
    ///
    /// Frames behind its end are no commits, even if they look like some: a writer that was killed before it published
    /// its commit leaves them, and the next one overwrites them. `None` while a writer is changing the header.
    pub(super) fn published(&self) -> Result<Option<IndexHeader>, Error> {
        for _ in 0..PUBLISHED_ATTEMPTS {
            if let Some(header) = self.index_header()? {
                return Ok(Some(header));
            }
            // A writer is between the two copies, for a few instructions.
            std::thread::yield_now();
        }
        // One that was killed there left them unequal: whoever reads next mends them.
        let second = connect(&self.path, self.busy_timeout)?;
        pin(&self.path, &second)?;
        self.index_header()
    }

    fn index_header(&self) -> Result<Option<IndexHeader>, Error> {
        let mut bytes = [0; 2 * IndexHeader::SIZE];
        let length = self.read(self.hands.index(), &self.path, &mut bytes, 0)?;
        Ok(IndexHeader::parse(&bytes[..length]))
    }

    /// The generation, if it has committed frames that nobody had copied into the database file when this was asked.
    ///
    /// Only a restart between the two could mislead, and then with salts that aren't the WAL's any more.
    pub(super) fn uncopied(&self) -> Result<Option<Salts>, Error> {
        Ok(self.index_and_copied()?.filter(|(header, copied)| *copied < header.frames).map(|(header, _)| header.salts))
    }

    /// How many bytes of committed frames nobody has copied into the database file. `None` when it can't be told now.
    pub(crate) fn to_copy(&self) -> Result<Option<u64>, Error> {
        let left = |(header, copied): (IndexHeader, u32)| u64::from(header.frames.saturating_sub(copied));
        Ok(self.index_and_copied()?.map(left).map(|frames| frames * frame_size(self.page_size)))
    }

    /// How many frames of which generation are in the database file. `None` when it can't be told now.
    pub(crate) fn copied(&self) -> Result<Option<(Salts, u32)>, Error> {
        Ok(self.index_and_copied()?.map(|(header, copied)| (header.salts, copied)))
    }

    /// What the wal-index says of checkpoints. `None` while one is under way, and when it can't be told now.
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
        // One that failed leaves the same counts as one that is under way, and so does whoever makes the wal-index anew.
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

    /// Whether the wal-index counts commits in a WAL that has no header: somebody cut the file under its users.
    pub(crate) fn has_lost_its_header(&mut self) -> Result<bool, Error> {
        if self.wal_header()?.is_some() || self.index_header()?.is_none_or(|index| index.frames == 0) {
            return Ok(false);
        }
        // The header of a first commit is there before the wal-index counts it.
        Ok(self.wal_header()?.is_none())
    }

    /// The WAL's header, if there are committed frames in it by the wal-index. An application's checkpoint can begin a
    /// new generation in the index alone, whose header gets into the file with its first frame.
    pub(crate) fn live_header(&mut self) -> Result<Option<WalHeader>, Error> {
        let empty = self.published()?.is_some_and(|index| index.frames == 0);
        if empty { Ok(None) } else { self.wal_header() }
    }

    /// Whether an application's checkpoint has begun a generation in the wal-index that has no frame yet, while the file
    /// still shows the one with these salts.
    pub(crate) fn is_left_behind(&self, salts: Salts) -> Result<bool, Error> {
        Ok(self.published()?.is_some_and(|index| index.frames == 0 && index.salts != salts))
    }

    /// Whether the wal-index counts at least the frames up to `offset` of the generation with these salts as
    /// committed. `None` when it can't be told now.
    pub(crate) fn is_published(&self, salts: Salts, offset: u64) -> Result<Option<bool>, Error> {
        let end = |index: IndexHeader| HEADER_SIZE + u64::from(index.frames) * frame_size(self.page_size);
        Ok(self.published()?.filter(|index| index.salts == salts).map(|index| end(index) >= offset))
    }

    /// Whether the file is shorter than the database of `commit` pages that was captured up to `captured`, and nothing was
    /// committed since: everything that is committed is in the file then.
    pub(crate) fn is_cut(&self, captured: Option<&WalPosition>, commit: u32) -> Result<bool, Error> {
        if self.to_copy()? != Some(0) {
            return Ok(false);
        }
        let size = self.hands.database().metadata().map_err(Error::io(&self.path))?.len();
        // What is committed meanwhile may have made it smaller.
        Ok(size < u64::from(commit) * u64::from(self.page_size.get()) && self.is_quiet(captured)?)
    }
}
