//! What a whole database holds at a point: one digest of all its pages, read from the database and its WAL.
//!
//! A session names the point and gives out a [`Frozen`] state, which holds the WAL like a reader of the application: no process can
//! copy newer frames into the file, or overwrite frames of the state. The caller reads it on another thread, while the session goes on
//! capturing. Nothing of it is kept, so it costs nothing before it is asked for again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use seawall_core::{Failure, Kind, Point};
use seawall_vault::{Digest, Digester};
use tokio::time::timeout;

use crate::capture::{self, Author, Capture, Extent, Look};
use crate::database::{AskedForContent, Database};
use crate::error::Error;
use crate::grip::Grip;
use crate::jobs::blocking;
use crate::pages::{self, PageSet};
use crate::reader::PageReader;
use crate::source::Source;
use crate::state::Position;
use crate::sums;
use crate::wal::{HEADER_SIZE, Salts, Scan};

/// How often to look for a state, and how often to read one again that was overwritten meanwhile.
pub(super) const ATTEMPTS: u32 = 5;

/// How long the protection may take to give out a state, with the shipping before it.
const ANSWER: Duration = Duration::from_secs(20);

/// Why there is no state after so many attempts.
pub(super) const TOO_FAST: &str = "the WAL changes too fast to read the whole database at one point";

/// A state of the whole database, held until this is dropped.
pub(crate) struct Frozen {
    pages: PageSet,
    reader: PageReader,
    /// The generation of the WAL that the state has pages in.
    salts: Option<Salts>,
    /// The point.
    pub(crate) position: Position,
    _grip: Grip,
}

/// The answer to the question for a state.
pub(crate) enum Asked {
    /// The state at the position, once the capture, if there is one, is in the vault.
    State(Box<Frozen>, Option<Box<Capture>>),
    /// The WAL is changing, or its place must be proved first.
    NotNow,
    /// The hold is one that can't be shared.
    Never,
}

/// Finds the state at the end of the WAL. `position` is the last one that is durable.
pub(crate) fn freeze(source: &mut Source, position: Position, author: Author) -> Result<Asked, Error> {
    // It shares the slot of the session's hold, whose mark is at or before the end that is found next.
    let Some(grip) = source.held() else { return Ok(Asked::Never) };
    let (position, capture) = match capture::look_on(source, position, author, None, Extent::All)? {
        Look::Clean(position) => (position, None),
        Look::New(capture) if !capture.partial => (capture.after, Some(capture)),
        Look::New(_) | Look::Unfinished | Look::Unproved | Look::Broken(_) => return Ok(Asked::NotNow),
    };
    // A WAL that was copied completely may be restarted or cut at any moment. The file has everything then, and no process can copy
    // newer frames into it.
    let in_file = source.to_copy()? == Some(0);
    let (newest, salts) = match source.live_header()?.filter(|_| !in_file) {
        None => (Vec::new(), None),
        Some(header) => {
            let Some(wal) = position.wal.filter(|wal| wal.salts == header.salts) else { return Ok(Asked::NotNow) };
            match wal.offset.checked_sub(HEADER_SIZE).filter(|bytes| *bytes > 0) {
                None => (Vec::new(), None),
                Some(bytes) => {
                    let (scan, _) = source.scan(&header, Scan::new(HEADER_SIZE, header.chain), bytes)?;
                    if scan.end != wal.offset || scan.commit != position.commit {
                        return Ok(Asked::NotNow);
                    }
                    (scan.newest(), Some(header.salts))
                }
            }
        }
    };
    let pages = PageSet::whole(position.page_size, position.commit, newest);
    let frozen = Frozen { pages, reader: source.pages()?, salts, position, _grip: grip };
    Ok(Asked::State(Box::new(frozen), capture))
}

impl std::fmt::Debug for Frozen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frozen").field("position", &self.position).finish_non_exhaustive()
    }
}

impl Frozen {
    /// The digest of the pages; `None` if the WAL grew by more than `limit` bytes meanwhile, because the state keeps it from being
    /// emptied. Blocks for as long as it reads the whole database.
    ///
    /// # Errors
    /// [`Error::Restarted`] if the state was overwritten meanwhile, [`Error::Interrupted`] once `end` is set.
    fn digest(&self, limit: u64, end: &AtomicBool) -> Result<Option<Digest>, Error> {
        let (mut digester, before) = (Digester::default(), self.reader.wal_size()?);
        for places in self.pages.batches() {
            if end.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            if self.reader.wal_size()?.saturating_sub(before) > limit {
                return Ok(None);
            }
            match pages::read(&self.reader, &places) {
                Ok(pages) => digester.update(&pages),
                Err(error) => return Err(if self.is_restarted()? { Error::Restarted } else { error }),
            }
        }
        if self.is_restarted()? { Err(Error::Restarted) } else { Ok(Some(digester.digest())) }
    }

    /// Whether frames of the state may have been overwritten or cut off.
    fn is_restarted(&self) -> Result<bool, Error> {
        Ok(match self.salts {
            Some(salts) => !self.reader.is_generation(salts)?,
            None => false,
        })
    }
}

/// Ends the reading on another thread when the question isn't asked any more.
#[derive(Default)]
struct End(Arc<AtomicBool>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Database {
    /// Records in the vault what the database holds at its newest point. Returns the point.
    pub(crate) async fn record_content(&self) -> Result<Point, Failure> {
        // A slow vault needs most of the room.
        let limit = self.options.wal_limit / 4;
        for _ in 0..ATTEMPTS {
            let (frozen, end) = (self.frozen().await?, End::default());
            let (position, is_over) = (frozen.position, end.0.clone());
            match blocking(move || frozen.digest(limit, &is_over)).await {
                Ok(Some(digest)) => {
                    sums::record(&self.vault, position.txid, position.tag, digest).await?;
                    return Ok(position.point());
                }
                Ok(None) => return Err(self.no_content("the WAL grew too much while the whole database was read")),
                Err(Error::Restarted) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.no_content(TOO_FAST))
    }

    /// A state of the whole database, from the protection that is running.
    async fn frozen(&self) -> Result<Box<Frozen>, Failure> {
        let told = self.ask(Self::asked_for_content).await?;
        // A protection that waits for its database, for room or for its vault doesn't answer.
        match timeout(ANSWER, told).await {
            Ok(told) => told.unwrap_or_else(|_| Err(self.not_running())),
            Err(_) => Err(self.no_content("the protection had no state of the database in time")),
        }
    }

    pub(super) fn asked_for_content(&self) -> MutexGuard<'_, Vec<AskedForContent>> {
        self.asked_for_content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why there is no state to read now.
    pub(super) fn no_content(&self, what: &str) -> Failure {
        let next = "nothing has to be done: the next proof asks again";
        Failure::new(Kind::Unavailable, "sqlite.no-content", self.name(), what, next)
    }
}
