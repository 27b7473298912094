//! A live database file: what holds its WAL, and reading both.
//!
//! All calls block and belong on the runtime's blocking pool. One [`Source`] has a [`Hold`], which keeps other processes
//! from restarting the WAL, and plain handles on the database file, its wal-index and its WAL. The first two live as long as any connection:
//! closing any handle on the database file would drop this process's POSIX locks, SQLite's among them.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use seawall_core::Moment;
use seawall_ltx::PageSize;

use crate::checkpoint::{Barrier, Copier};
use crate::connection::{connect, enter_wal_mode, pin, unpin};
use crate::continuity::{Next, Observed};
use crate::error::Error;
use crate::grip::Hands;
use crate::hold::{Hold, KeptFiles};
use crate::identity::{FileIdentity, FileState, WalPosition};
use crate::names::{linked, mounted_elsewhere};
use crate::probe::{Probe, Step};
use crate::wal::{
    COPIED_AT, FRAME_HEADER_SIZE, FrameHeader, HEADER_SIZE, IndexHeader, Salts, Scan, WalHeader, copied, frame_size,
};

/// Bytes of WAL read at once; a scan holds one such buffer.
const READ_SIZE: u64 = 1 << 20;

/// No SQLite database is smaller.
const SMALLEST: u64 = 512;

/// How often to read the wal-index's header before taking it for damaged.
const PUBLISHED_ATTEMPTS: usize = 1000;

/// A database that is being protected.
pub(crate) struct Source {
    path: PathBuf,
    /// The name under which it is to be protected, where links lead from there to `path`.
    named: Option<PathBuf>,
    /// Where the file alone is mounted, when it was opened.
    mounted: Option<String>,
    /// How many names the file had when somebody looked.
    links: u64,
    wal_path: PathBuf,
    busy_timeout: Duration,
    /// Declared before `hands`: a connection must go first.
    hold: Hold,
    /// Whether the hold was moved behind the first frames of the generation.
    inside: bool,
    hands: Arc<Hands>,
    wal: Wal,
    index_identity: FileIdentity,
    identity: FileIdentity,
    page_size: PageSize,
    probe: Probe,
}

/// The WAL: a handle while something is read, and what tells whether the file under its path still is the same.
#[derive(Default)]
struct Wal {
    file: Option<Arc<File>>,
    known: Option<Known>,
}

/// Which file it is. The system gives the number of a deleted file to another one, so without a handle on it the time of
/// its birth is needed too; not all file systems tell that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    identity: FileIdentity,
    born: Option<SystemTime>,
}

impl Known {
    fn of(metadata: &Metadata) -> Self {
        Self { identity: FileIdentity::of(metadata), born: metadata.created().ok() }
    }
}

/// Why a scan ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Everything that is committed was read.
    Committed,
    /// Enough for one object was read.
    Limit,
    /// A frame that is published is damaged: SQLite doesn't look at checksums when it reads, but what it gives its users
    /// from here on can't be proved.
    Damaged,
    /// The WAL changed under the scan: nothing can be said, look again.
    Unknown,
}

impl Source {
    /// Opens a database, puts it into WAL mode if it isn't, and takes the read lock.
    pub(crate) fn open(path: &Path, busy_timeout: Duration, kept: &mut KeptFiles, probe: Probe) -> Result<Self, Error> {
        let (identity, file) = kept.database.open(path)?;
        let page_size = check_is_database(path, &file)?;
        enter_wal_mode(path, &file, busy_timeout)?;
        let reader = connect(path, busy_timeout)?;
        probe.at(Step::Opening);
        pin(path, &reader)?;
        probe.at(Step::Opening);
        let (index_identity, index) = kept.index.open(&sidecar(path, "-shm"))?;
        let found = file.metadata().map_err(Error::io(path))?;
        let hands = kept.hands(file, index);
        let size = reader.query_row("PRAGMA page_size", [], |row| row.get::<_, u32>(0));
        let page_size = PageSize::new(size.map_err(Error::sqlite(path))?).unwrap_or(page_size);
        let mut source = Self {
            wal_path: sidecar(path, "-wal"),
            path: path.to_owned(),
            named: None,
            mounted: mounted_elsewhere(path, &found),
            links: found.nlink(),
            busy_timeout,
            hold: Hold::of(reader, &hands, &probe, false),
            inside: false,
            hands,
            wal: Wal::default(),
            index_identity,
            identity,
            page_size,
            probe,
        };
        source.wal()?;
        source.check_identity()?;
        // Thousands that begin together wait here for their turn.
        source.rest();
        Ok(source)
    }

    /// The name that is meant, where it isn't the file's own: from now on it must lead to this file.
    pub(crate) fn named(self, named: Option<PathBuf>) -> Self {
        let named = named.filter(|named| *named != self.path);
        Self { named, ..self }
    }

    /// Why there may be commits that can't be seen from here, as of the last look at the file.
    pub(crate) fn other_names(&self) -> Option<Error> {
        let what = self.mounted.clone().or_else(|| linked(self.links))?;
        Some(Error::SeveralNames { path: self.path.clone(), what })
    }

    /// The page size in bytes.
    pub(crate) fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// Which file this is.
    pub(crate) fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Fails when another file, or none, stands under the path of the database, its WAL or its wal-index. SQLite
    /// deletes neither of the two while we are connected; where somebody else did, our read lock holds nothing.
    pub(crate) fn check_identity(&mut self) -> Result<(), Error> {
        let database = self.check(&self.path, |metadata| FileIdentity::of(metadata) == self.identity)?;
        if database.len() < SMALLEST {
            return Err(Error::Cut { path: self.path.clone() });
        }
        if let Some(named) = &self.named {
            self.check(named, |metadata| FileIdentity::of(metadata) == self.identity)?;
        }
        self.check(&sidecar(&self.path, "-shm"), |metadata| FileIdentity::of(metadata) == self.index_identity)?;
        if let Some(known) = self.wal.known {
            self.check(&self.wal_path, |metadata| Known::of(metadata) == known)?;
        }
        self.links = database.nlink();
        Ok(())
    }

    fn check(&self, path: &Path, is_the_same: impl Fn(&Metadata) -> bool) -> Result<Metadata, Error> {
        match self.probe.read(path).and_then(|()| std::fs::metadata(path)) {
            Ok(now) if is_the_same(&now) => Ok(now),
            Ok(_) => Err(Error::Vanished { path: path.to_owned() }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Error::Vanished { path: path.to_owned() }),
            Err(e) => Err(Error::io(path)(e)),
        }
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

    /// That the file was cut.
    pub(crate) fn cut_short(&self) -> Error {
        Error::Cut { path: self.path.clone() }
    }

    /// The open WAL.
    fn wal(&mut self) -> Result<Option<&Arc<File>>, Error> {
        if self.wal.file.is_none() {
            let vanished = || Error::Vanished { path: self.wal_path.clone() };
            match self.probe.read(&self.wal_path).and_then(|()| File::open(&self.wal_path)) {
                Ok(file) => {
                    let now = Known::of(&file.metadata().map_err(Error::io(&self.wal_path))?);
                    if self.wal.known.is_some_and(|known| known != now) {
                        return Err(vanished());
                    }
                    self.wal = Wal { file: Some(Arc::new(file)), known: Some(now) };
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound && self.wal.known.is_some() => return Err(vanished()),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(Error::io(&self.wal_path)(e)),
            }
        }
        Ok(self.wal.file.as_ref())
    }

    /// Lets go what isn't needed until something happens: the handle on the WAL, where its file is known again without.
    pub(crate) fn rest(&mut self) {
        if self.wal.known.is_some_and(|known| known.born.is_some()) {
            self.wal.file = None;
        }
    }

    /// The way in for tests.
    pub(crate) fn probe(&self) -> &Probe {
        &self.probe
    }

    fn read(&self, file: &File, path: &Path, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.probe.read(path).and_then(|()| read_up_to(file, buffer, offset)).map_err(Error::io(path))
    }

    /// What the wal-index says is committed, by its header.
    ///
    /// Frames behind its end are no commits, even if they look like some: a writer that was killed before it published
    /// its commit leaves them, and the next one overwrites them. `None` while a writer is changing the header.
    fn published(&self) -> Result<Option<IndexHeader>, Error> {
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
    fn uncopied(&self) -> Result<Option<Salts>, Error> {
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

    fn index_and_copied(&self) -> Result<Option<(IndexHeader, u32)>, Error> {
        let mut bytes = [0; COPIED_AT + 4];
        let length = read_up_to(self.hands.index(), &mut bytes, 0).map_err(Error::io(&self.path))?;
        Ok(IndexHeader::parse(&bytes[..length]).zip(copied(&bytes[..length])))
    }

    /// Size of the WAL file in bytes: its high-water mark, not what is live in it.
    pub(crate) fn wal_size(&mut self) -> Result<u64, Error> {
        let found = self.probe.read(&self.wal_path).and_then(|()| match &self.wal.file {
            Some(file) => file.metadata(),
            None => std::fs::metadata(&self.wal_path),
        });
        match found {
            Ok(metadata) => Ok(metadata.len()),
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.wal.known.is_none() => Ok(0),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Error::Vanished { path: self.wal_path.clone() }),
            Err(e) => Err(Error::io(&self.wal_path)(e)),
        }
    }

    /// When the WAL file was written last.
    pub(crate) fn wal_written(&mut self) -> Result<Option<SystemTime>, Error> {
        let path = self.wal_path.clone();
        let Some(file) = self.wal()? else { return Ok(None) };
        file.metadata().and_then(|metadata| metadata.modified()).map(Some).map_err(Error::io(&path))
    }

    /// The WAL's header; `None` when there is no live WAL.
    pub(crate) fn wal_header(&mut self) -> Result<Option<WalHeader>, Error> {
        let Some(file) = self.wal()?.cloned() else { return Ok(None) };
        let mut bytes = [0; HEADER_SIZE as usize];
        let length = self.read(&file, &self.wal_path, &mut bytes, 0)?;
        Ok(WalHeader::parse(&bytes[..length]))
    }

    /// The facts about the place that was captured last.
    pub(crate) fn observe(&mut self, captured: Option<&WalPosition>) -> Result<Observed, Error> {
        let header = self.wal_header()?;
        let (mut frame, mut next) = (None, Next::Cut);
        if let Some(wal) = captured {
            let (size, length) = (frame_size(self.page_size), self.wal_size()?);
            if wal.offset >= HEADER_SIZE + size && wal.offset <= length {
                frame = self.frame_header(wal.offset - size)?;
            }
            next = match self.frame_header(wal.offset)? {
                Some(next) => Next::Frame(next.salts),
                None if length == wal.offset => Next::End,
                None => Next::Cut,
            };
        }
        Ok(Observed {
            file: self.identity,
            state: FileState::of(&self.hands.database().metadata().map_err(Error::io(&self.path))?),
            page_size: self.page_size.get(),
            header,
            frame: frame.map(|frame| (frame.salts, frame.chain)),
            next,
        })
    }

    /// Whether at least one frame and `bytes` of WAL before it were written behind the captured place, as their salts
    /// tell: one read of 24 bytes where that frame would stand, and one of the header for a new generation.
    pub(crate) fn is_behind(&mut self, captured: Option<&WalPosition>, bytes: u64) -> Result<bool, Error> {
        let wal = self.wal()?.cloned();
        if self.probe.looks_unchanged(wal.as_deref()) {
            return Ok(false);
        }
        let Some(header) = self.wal_header()? else { return Ok(false) };
        let start = captured.filter(|wal| wal.salts == header.salts).map_or(HEADER_SIZE, |wal| wal.offset);
        let offset = start + bytes / header.frame_size() * header.frame_size();
        Ok(self.frame_header(offset)?.is_some_and(|frame| frame.salts == header.salts))
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

    /// The header of the frame at an offset, whatever generation it belongs to; `None` behind the end of the file.
    pub(crate) fn frame_header(&mut self, offset: u64) -> Result<Option<FrameHeader>, Error> {
        let Some(file) = self.wal()?.cloned() else { return Ok(None) };
        let mut bytes = [0; FRAME_HEADER_SIZE];
        let length = self.read(&file, &self.wal_path, &mut bytes, offset)?;
        Ok(FrameHeader::parse(&bytes[..length]))
    }

    /// Reads committed frames on from a proved place, until the log ends or `limit` bytes are committed.
    pub(crate) fn scan(&mut self, header: &WalHeader, mut scan: Scan, limit: u64) -> Result<(Scan, End), Error> {
        let published = match self.published()? {
            Some(index) if index.salts == header.salts => index,
            // A generation that has no frame yet: everything of this one was let go.
            Some(IndexHeader { frames: 0, .. }) => return Ok((scan, End::Committed)),
            _ => return Ok((scan, End::Unknown)),
        };
        let Some(file) = self.wal()?.cloned() else { return Ok((scan, End::Unknown)) };
        let frame = header.frame_size();
        let end = HEADER_SIZE + u64::from(published.frames) * frame;
        let whole = (READ_SIZE / frame).max(1) * frame;
        // Most scans find a few frames: begin small.
        let (mut want, mut buffer) = (whole.min(16 * frame), Vec::new());
        loop {
            let rest = end.saturating_sub(scan.wants());
            buffer.resize(usize::try_from(want.min(rest)).unwrap_or(0), 0);
            let length = self.read(&file, &self.wal_path, &mut buffer, scan.wants())?;
            if length == 0 || !scan.take(header, &buffer[..length], limit) || length < buffer.len() {
                break;
            }
            want = whole;
        }
        if scan.end >= end {
            return Ok((scan, End::Committed));
        }
        if !scan.is_empty() && scan.bytes() >= limit {
            return Ok((scan, End::Limit));
        }
        // What is published is whole, unless the WAL was restarted while it was read.
        let same = self.wal_header()?.is_some_and(|now| now.salts == header.salts)
            && self.published()?.is_some_and(|now| now.salts == header.salts && now.frames >= published.frames);
        Ok((scan, if same { End::Damaged } else { End::Unknown }))
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

    /// A handle for reading pages on other threads. It may outlive the source, and is then of no use.
    pub(crate) fn pages(&mut self) -> Result<PageReader, Error> {
        let wal = self.wal()?.cloned();
        Ok(PageReader {
            path: self.path.clone(),
            wal_path: self.wal_path.clone(),
            file: self.hands.database().clone(),
            wal,
            page_size: self.page_size,
            probe: self.probe.clone(),
        })
    }

    /// The state of the database file, if it is at rest.
    pub(crate) fn file_at_rest(&self, now: Moment) -> Result<Option<FileState>, Error> {
        Ok(FileState::at_rest(&self.hands.database().metadata().map_err(Error::io(&self.path))?, now))
    }

    /// Number of pages in the database file.
    pub(crate) fn file_pages(&self) -> Result<u32, Error> {
        let size = self.hands.database().metadata().map_err(Error::io(&self.path))?.len();
        u32::try_from(size / u64::from(self.page_size.get())).map_err(|_| Error::NotADatabase {
            path: self.path.clone(),
            what: "the file is larger than a SQLite database can be",
        })
    }

    /// Moves the read lock forward to the present end, and gives what copies everything before it into the database file.
    ///
    /// A new connection takes the lock before the old one lets go, so that the WAL stays pinned. Should somebody copy
    /// everything just then, the new lock doesn't pin what was not captured yet: the position is not `held` after this.
    pub(crate) fn advance(&mut self) -> Result<Copier, Error> {
        let next = connect(&self.path, self.busy_timeout)?;
        let copying = self.copying()?;
        self.probe.at(Step::Advancing);
        pin(&self.path, &next)?;
        self.probe.at(Step::Advancing);
        let next = Hold::of(next, &self.hands, &self.probe, false);
        self.inside = false;
        let former = std::mem::replace(&mut self.hold, next);
        self.copier(former, copying)
    }

    /// A connection for a copier, where the hold is none itself.
    fn copying(&self) -> Result<Option<Connection>, Error> {
        match &self.hold {
            Hold::Grip(_) => connect(&self.path, self.busy_timeout).map(Some),
            Hold::Reader(_) => Ok(None),
        }
    }

    fn copier(&self, former: Hold, copying: Option<Connection>) -> Result<Copier, Error> {
        let (connection, grip) = match (former, copying) {
            (Hold::Reader(connection), _) => (connection, None),
            (Hold::Grip(grip), Some(connection)) => (connection, Some(grip)),
            (Hold::Grip(_), None) => return Err(Error::Internal("a hold changed while it was looked at".to_owned())),
        };
        Ok(Copier::new(&self.path, connection, grip, self.busy_timeout, &self.probe, &self.hands))
    }

    /// Moves a hold that stands before the WAL behind its first frames, once there are some.
    ///
    /// A hold that was taken when everything was copied stands before whatever is written next. Nobody can copy then, but
    /// SQLite finds that out only after it has sorted all frames, and an application with SQLite's defaults tries it at each of
    /// its commits. A hold that stands behind a frame says at once how far copying may go.
    pub(crate) fn step_inside(&mut self) -> Result<(), Error> {
        if !self.inside {
            let _former = self.step_forward()?;
        }
        Ok(())
    }

    /// Moves the hold forward, and gives what copies everything before it, if there is something to copy. Other than
    /// with [`Self::advance`] the WAL is held without a break.
    pub(crate) fn copy_ahead(&mut self) -> Result<Option<Copier>, Error> {
        let copying = self.copying()?;
        match self.step_forward()? {
            Some(former) => self.copier(former, copying).map(Some),
            None => Ok(None),
        }
    }

    /// Moves the hold to the present end if there are frames that nobody has copied; the former one.
    ///
    /// While the former hold stands and there are such frames, nobody can restart the WAL. If that is still so once the next
    /// one stands, it stands behind a frame, or nobody can copy any more while it does: it holds the WAL from then on.
    fn step_forward(&mut self) -> Result<Option<Hold>, Error> {
        self.check_identity()?;
        let Some(salts) = self.uncopied()? else { return Ok(None) };
        let next = connect(&self.path, self.busy_timeout)?;
        self.probe.at(Step::Advancing);
        pin(&self.path, &next)?;
        self.probe.at(Step::Advancing);
        let next = Hold::of(next, &self.hands, &self.probe, false);
        self.check_identity()?;
        if self.uncopied()? != Some(salts) {
            return Ok(None);
        }
        self.inside = true;
        Ok(Some(std::mem::replace(&mut self.hold, next)))
    }

    /// A damaged frame in the WAL, behind `offset`.
    pub(crate) fn damaged(&self, offset: u64) -> Error {
        Error::DamagedWal { path: self.wal_path.clone(), offset }
    }

    /// Takes the write lock without writing: while the barrier stands, no transaction can commit.
    /// `None` when the application holds the lock for longer than the busy timeout.
    ///
    /// A writer that commits without a pause leaves the lock free for microseconds. SQLite's own waiting, up to 100 ms
    /// between attempts, would hardly ever meet one.
    pub(crate) fn barrier(&self) -> Result<Option<Barrier>, Error> {
        Barrier::take(&self.path, self.busy_timeout, &self.probe, &self.hands)
    }

    /// Lets the WAL go after everything in it was copied: the next commit starts a new generation. The barrier keeps
    /// commits from slipping in.
    pub(crate) fn release(&mut self, _barrier: &Barrier) -> Result<(), Error> {
        self.probe.at(Step::Copied);
        self.inside = false;
        match &self.hold {
            // The new one is there before the old one goes; where it can't be had the WAL stays as it is.
            Hold::Grip(_) => {
                if let Some(grip) = self.hands.grip(true) {
                    self.hold = Hold::Grip(grip);
                }
            }
            Hold::Reader(reader) => {
                unpin(&self.path, reader)?;
                self.probe.at(Step::Released);
                pin(&self.path, reader)?;
            }
        }
        self.probe.at(Step::Released);
        Ok(())
    }

    /// Cuts a WAL file that grew huge, if nothing was committed since the barrier; answers whether it did.
    pub(crate) fn cut(&mut self, barrier: Barrier) -> Result<bool, Error> {
        barrier.cut()
    }
}

/// Reads pages of a database whose WAL is pinned. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PageReader {
    path: PathBuf,
    wal_path: PathBuf,
    file: Arc<File>,
    wal: Option<Arc<File>>,
    page_size: PageSize,
    probe: Probe,
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

    /// Whether the WAL is still the generation with these salts. Its header is written before any frame is
    /// overwritten, so what was read before a `true` was read whole.
    pub(crate) fn is_generation(&self, salts: Salts) -> Result<bool, Error> {
        let Some(file) = &self.wal else { return Ok(false) };
        let mut bytes = [0; HEADER_SIZE as usize];
        let length = read_up_to(file, &mut bytes, 0).map_err(Error::io(&self.wal_path))?;
        Ok(WalHeader::parse(&bytes[..length]).is_some_and(|header| header.salts == salts))
    }
}

/// Whether a file with content stands there now.
pub(crate) fn is_there(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0)
}

/// The file to which links lead; `None` where there is none, as between two deployments.
pub(crate) fn leads_to(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok()
}

/// The path behind all symbolic links: SQLite resolves them, and puts the WAL beside the real file. A file that doesn't
/// exist yet keeps its name in its resolved folder.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    if let Ok(real) = std::fs::canonicalize(path) {
        return real;
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (std::fs::canonicalize(parent), path.file_name()) {
        (Ok(real), Some(name)) => real.join(name),
        _ => path.to_owned(),
    }
}

/// `path` with a suffix, as SQLite names its side files.
pub(crate) fn sidecar(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Checks the file's header, and gives the page size in it (bytes 16 and 17; 1 stands for 65536).
fn check_is_database(path: &Path, file: &File) -> Result<PageSize, Error> {
    let not = |what| Err::<PageSize, _>(Error::NotADatabase { path: path.to_owned(), what });
    let metadata = file.metadata().map_err(Error::io(path))?;
    if !metadata.is_file() {
        return not("it is no regular file");
    }
    if metadata.len() == 0 {
        return Err(Error::Empty { path: path.to_owned() });
    }
    let mut header = [0; 100];
    let length = read_up_to(file, &mut header, 0).map_err(Error::io(path))?;
    if &header[..16] != b"SQLite format 3\0" {
        return not("the file is no SQLite database, or it is encrypted");
    }
    let size = u32::from(u16::from_be_bytes([header[16], header[17]]));
    let Some(page_size) = PageSize::new(if size == 1 { 65_536 } else { size }) else {
        return not("its page size is none that SQLite has");
    };
    // With a WAL or a journal beside it the file may be on its way from one size to another.
    let alone = || !["-wal", "-journal"].iter().any(|suffix| is_there(&sidecar(path, suffix)));
    let says = if length < header.len() { u64::MAX } else { size_in(&header, page_size) };
    if metadata.len() < says && alone() {
        return Err(Error::Cut { path: path.to_owned() });
    }
    Ok(page_size)
}

/// How large a database is at least, as its header says.
fn size_in(header: &[u8; 100], page_size: PageSize) -> u64 {
    let word = |at: usize| header[at..at + 4].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    // The size in pages counts only if the last writer knew of it.
    let pages = if word(24) == word(92) { word(28).max(1) } else { 1 };
    pages * u64::from(page_size.get())
}

/// Reads until `buffer` is full or the file ends; answers how much there was.
pub(crate) fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
