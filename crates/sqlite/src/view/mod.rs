//! Reading without restoring: a database in a vault, page by page.
//!
//! A view lists the vault once, plans as a restore does, and proves the plan (I14). Of each object of the plan it reads the
//! page index at its end. From then on it knows of every page which bytes of which object hold it, and reads pages with
//! ranges.
//!
//! `places` has the rule whose version of a page counts, `ahead` decides which pages come with one request, `cache` keeps
//! pages, `object` reads an index, `snapshot` is a point, `reader` reads its pages, `advance` follows the vault, and `local` is a
//! copy on the local disk.
//!
//! What is checked of a page: the object's name, header and index, and of the page its number and its length. Objects up to
//! 256 KiB are read whole, with all their checksums. An LTX file has no checksum of a single page; in an encrypted vault
//! each range is proved all the same. `seawall verify` reads everything.

mod advance;
pub(crate) mod ahead;
pub(crate) mod cache;
mod local;
pub(crate) mod object;
pub(crate) mod places;
mod reader;
pub(crate) mod snapshot;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use advance::Following;
use cache::Cache;
use local::LocalCopy;
use seawall_core::{Failure, Moment, When};
use seawall_ltx::Txid;
use seawall_vault::Vault;
use tokio::sync::Mutex as AsyncMutex;

use crate::belonging::Bond;
use crate::error::Error;
use crate::heads::Heads;
use crate::jobs::blocking;
use crate::object::Object;
use crate::state::Record;
use crate::{belonging, legacy, target};

pub use reader::Reader;
pub use snapshot::Snapshot;

/// Bytes of pages and small objects that a view keeps unless it is told otherwise.
pub const DEFAULT_CACHE: usize = 10 << 20;

/// How often a plan is made again because objects of the earlier one vanished.
pub(crate) const PLANS: u32 = 4;

/// A database in a vault that is read page by page. Clones share everything.
///
/// Memory: the cache, 16 bytes a page for each snapshot that is in use, and up to 6 MiB for each reader that scans.
#[derive(Debug, Clone)]
pub struct View {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) vault: Vault,
    /// The bytes of small objects that a snapshot may hold. The cache has as many.
    room: usize,
    pub(crate) cache: Mutex<Cache>,
    pub(crate) local: Mutex<Option<Arc<LocalCopy>>>,
    newest: Mutex<Option<Arc<Snapshot>>>,
    following: AsyncMutex<Following>,
    objects: AtomicU64,
    /// Whether a reader found that its point is gone: the next look lists the vault.
    pub(crate) lost: AtomicBool,
    /// The folder with the record of the acknowledged position of this database, if it is protected here.
    state_dir: Option<PathBuf>,
}

impl View {
    /// A view of what a vault holds, with `cache` bytes for pages and small objects. Makes no request.
    pub fn new(vault: Vault, cache: usize) -> Self {
        let room = cache / 2;
        let inner = Inner {
            vault,
            room,
            cache: Mutex::new(Cache::new(cache - room)),
            local: Mutex::default(),
            newest: Mutex::default(),
            following: AsyncMutex::default(),
            objects: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            state_dir: None,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The same, for a database that is protected on this machine with its records in `state_dir`: if the vault ends before
    /// the position that is acknowledged there, its newest state isn't the newest of the database, and is refused.
    #[must_use]
    pub fn of_database(self, state_dir: PathBuf) -> Self {
        let View { inner } = &self;
        let inner = Inner {
            vault: inner.vault.clone(),
            room: inner.room,
            cache: Mutex::new(Cache::new(inner.room)),
            local: Mutex::default(),
            newest: Mutex::default(),
            following: AsyncMutex::default(),
            objects: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            state_dir: Some(state_dir),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The vault.
    pub fn vault(&self) -> &Vault {
        &self.inner.vault
    }

    /// The point that `when` names. `now` is the present by this machine's clock.
    ///
    /// # Errors
    /// Those of a restore: a hole, a moment or a TXID that isn't there, objects that don't belong together, and a vault that
    /// doesn't answer. `sqlite.no-page-index` for what Litestream before 0.5 wrote.
    pub async fn at(&self, when: &When, now: Moment) -> Result<Arc<Snapshot>, Failure> {
        let snapshot = self.find(when, now).await?;
        if *when == When::Latest {
            self.note_newest(&snapshot);
        }
        Ok(snapshot)
    }

    /// The newest point that this view knows: of the last [`View::at`] for the newest, or of [`View::advance`] after it.
    pub fn newest(&self) -> Option<Arc<Snapshot>> {
        self.inner.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the pages of a snapshot of this view.
    pub fn reader(&self, snapshot: Arc<Snapshot>) -> Reader {
        Reader::new(self.clone(), snapshot)
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    fn note_newest(&self, snapshot: &Arc<Snapshot>) {
        *self.inner.newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot.clone());
    }

    async fn find(&self, when: &When, now: Moment) -> Result<Arc<Snapshot>, Error> {
        for _ in 1..PLANS {
            match self.find_as_planned(when, now).await {
                Err(Error::Vault(error)) if error.is_not_found() => {
                    tracing::info!(%error, "an object vanished while a view was planned: planning again");
                }
                done => return done,
            }
        }
        self.find_as_planned(when, now).await
    }

    async fn find_as_planned(&self, when: &When, now: Moment) -> Result<Arc<Snapshot>, Error> {
        let inner = &self.inner;
        let heads = Heads::keeping(&inner.vault);
        let (found, old) = tokio::join!(target::find_with_doubts(&heads, when, now), legacy::list(&inner.vault));
        let (old, passed_over) = legacy::or_doubt(old, found.is_ok())?;
        let nothing = Error::NothingThere { vault: inner.vault.url().to_owned() };
        let newest = match found.as_ref().map(|(chain, _)| chain.last()) {
            Ok(Some(newest)) => Ok(heads.header(newest).await?),
            Ok(None) => Err(&nothing),
            Err(error) => Err(error),
        };
        if legacy::instead(&inner.vault, &old, when, newest.as_ref().map_err(|error| *error))?.is_some() {
            return Err(Error::NoPageIndex { vault: inner.vault.url().to_owned() });
        }
        let (chain, mut doubts) = found?;
        doubts.extend(passed_over);
        if *when == When::Latest
            && let Some((newest, recorded)) = chain.last().zip(inner.recorded().await?)
            && recorded > newest.max
        {
            return Err(Error::EndsEarly { vault: inner.vault.url().to_owned(), newest: newest.max, recorded });
        }
        Ok(Arc::new(Snapshot::load(inner, &heads, &chain, doubts).await?))
    }

    /// A snapshot of the same point from the objects that are there now.
    ///
    /// # Errors
    /// [`Error::PointGone`] if there is none, or if another history has this TXID by now.
    pub(crate) async fn again(&self, snapshot: &Snapshot) -> Result<Arc<Snapshot>, Error> {
        let txid = snapshot.end.file.max;
        let gone = || {
            self.inner.lost.store(true, Ordering::Release);
            Error::PointGone { vault: self.inner.vault.url().to_owned(), point: txid }
        };
        let heads = Heads::keeping(&self.inner.vault);
        let found = target::find_with_doubts(&heads, &When::Position(txid.to_string()), Moment::default()).await;
        let (chain, doubts) = match found {
            Err(Error::Unreachable { .. } | Error::NothingThere { .. }) => return Err(gone()),
            found => found?,
        };
        let anew = Snapshot::load(&self.inner, &heads, &chain, doubts).await?;
        let is_other = matches!(belonging::same_end(&snapshot.end, &anew.end), Bond::Stranger(_));
        if is_other || (anew.commit, anew.page_size) != (snapshot.commit, snapshot.page_size) {
            return Err(gone());
        }
        let anew = Arc::new(anew);
        let mut newest = self.inner.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if newest.as_ref().is_some_and(|newest| newest.end.file.max == txid) {
            *newest = Some(anew.clone());
        }
        Ok(anew)
    }
}

impl Inner {
    /// A number that no other object of this view has.
    pub(crate) fn next_object(&self) -> u64 {
        self.objects.fetch_add(1, Ordering::Relaxed)
    }

    /// Bytes of small objects that may be kept beside these.
    pub(crate) fn room_for_objects(&self, objects: &[Arc<Object>]) -> usize {
        let kept = objects.iter().filter_map(|object| object.whole.as_ref()).map(bytes::Bytes::len);
        self.room.saturating_sub(kept.sum())
    }

    /// The position that is acknowledged on this machine, if it is known here.
    async fn recorded(&self) -> Result<Option<Txid>, Error> {
        let Some(state_dir) = self.state_dir.clone() else { return Ok(None) };
        let record = blocking(move || Record::load(&state_dir)).await?;
        Ok(record.and_then(|record| record.remembered(self.vault.url())).map(|(facts, _)| facts.txid))
    }
}
