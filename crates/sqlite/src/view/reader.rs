//! Reads the pages of a snapshot: from the cache, or with ranges of objects.

use std::ops::RangeInclusive;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use seawall_core::Failure;
use seawall_ltx::{PageNo, decode_frame_into};
use tokio::task::JoinHandle;

use super::{Inner, PLANS, Snapshot, View};
use crate::ahead::{Batch, Scans, batch, grown};
use crate::error::Error;
use crate::layout::Layout;
use crate::object::corrupt;
use crate::places::{Place, position};

/// Reads the pages of one snapshot. Each connection has its own: it notices scans, and fetches ahead of them.
#[derive(Debug)]
pub struct Reader {
    view: View,
    snapshot: Arc<Snapshot>,
    scans: Scans,
    ahead: Option<Ahead>,
}

/// A batch on its way, for a scan that will ask for it.
#[derive(Debug)]
struct Ahead {
    pages: RangeInclusive<u32>,
    window: u64,
    fetching: JoinHandle<Result<(), Error>>,
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.fetching.abort();
    }
}

impl Reader {
    pub(crate) fn new(view: View, snapshot: Arc<Snapshot>) -> Self {
        Self { view, snapshot, scans: Scans::default(), ahead: None }
    }

    /// The snapshot.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Reads another snapshot of the same view from now on.
    pub fn turn_to(&mut self, snapshot: Arc<Snapshot>) {
        if !Arc::ptr_eq(&self.snapshot, &snapshot) {
            (self.snapshot, self.ahead) = (snapshot, None);
        }
    }

    /// A page; `None` for one of zeros that no object holds, and for the lock page. If its object vanished, because it was merged or deleted, the same
    /// point is read from the objects that are there now.
    ///
    /// # Errors
    /// A damaged object, a vault that doesn't answer, and `sqlite.point-gone` if the objects of this point are gone.
    pub async fn page(&mut self, page: u32) -> Result<Option<Bytes>, Failure> {
        for _ in 1..PLANS {
            match self.find(page).await {
                Err(Error::Vault(error)) if error.is_not_found() => {
                    tracing::info!(%error, "an object of a view vanished: planning again");
                    self.turn_to(self.view.again(&self.snapshot).await?);
                }
                found => return Ok(found?),
            }
        }
        Ok(self.find(page).await?)
    }

    async fn find(&mut self, page: u32) -> Result<Option<Bytes>, Error> {
        let Ok(at) = position(&self.snapshot.places, PageNo(page)) else { return Ok(None) };
        if self.ahead.as_ref().is_some_and(|ahead| ahead.pages.contains(&page)) {
            self.come_to_ahead().await;
        }
        let (inner, snapshot) = (self.view.inner().clone(), self.snapshot.clone());
        let place = snapshot.places[at];
        let object = snapshot.object(&place)?;
        let kept = inner.cache.lock().unwrap_or_else(PoisonError::into_inner).get((object.id, place.offset()));
        if kept.is_some() {
            return Ok(kept);
        }
        if let Some(whole) = &object.whole {
            let frame = slice(whole, 0, &place);
            return decode(&inner, &snapshot, &place, frame).map(Some);
        }
        if let Some(copied) = inner.on_disk(object, &place) {
            return Ok(Some(copied));
        }
        let (window, is_scan) = self.scans.window(page);
        let batch = batch(&snapshot.places, at, window, inner.most_pages(&snapshot))
            .ok_or_else(|| Error::Internal("a place of a page is none".to_owned()))?;
        let next = behind(&snapshot, &batch);
        let fetched = fetch(&inner, &snapshot, &batch).await?;
        self.scans.reached(page, next);
        if is_scan {
            self.go_ahead(next, grown(window));
        }
        Ok(Some(fetched))
    }

    /// A scan has reached the batch that was fetched ahead of it: waits for it, and fetches the one behind it.
    async fn come_to_ahead(&mut self) {
        let Some(mut ahead) = self.ahead.take() else { return };
        let fetched = (&mut ahead.fetching).await;
        // After an error the page is asked for again, and that answer counts.
        if let Ok(Ok(())) = fetched {
            let next = ahead.pages.end().saturating_add(1);
            self.go_ahead(next, grown(ahead.window));
        }
    }

    /// Fetches the batch that begins at the first page from `next` on, where a scan is expected to go on.
    fn go_ahead(&mut self, next: u32, window: u64) {
        let (inner, snapshot) = (self.view.inner().clone(), self.snapshot.clone());
        let at = position(&snapshot.places, PageNo(next)).unwrap_or_else(|at| at);
        let Some(batch) = batch(&snapshot.places, at, window, inner.most_pages(&snapshot)) else { return };
        let (first, end) = (snapshot.places[batch.places.start].page.0, behind(&snapshot, &batch));
        let is_at_hand = snapshot.object(&snapshot.places[at]).is_ok_and(|object| object.whole.is_some());
        if is_at_hand || inner.holds_all(&snapshot, &batch) {
            return;
        }
        self.scans.reached(next, end);
        let pages = first..=end.saturating_sub(1);
        let fetching = tokio::spawn(async move { fetch(&inner, &snapshot, &batch).await.map(drop) });
        self.ahead = Some(Ahead { pages, window, fetching });
    }
}

impl Snapshot {
    fn object(&self, place: &Place) -> Result<&Arc<crate::object::Object>, Error> {
        self.objects.get(place.object as usize).ok_or_else(|| Error::Internal("a page has no object".to_owned()))
    }
}

impl Inner {
    /// The most pages that one request fetches: the cache must hold them, and those that are fetched ahead.
    fn most_pages(&self, snapshot: &Snapshot) -> usize {
        (self.room / 3 / snapshot.page_size.bytes()).max(1)
    }

    fn holds_all(&self, snapshot: &Snapshot, batch: &Batch) -> bool {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let mut places = snapshot.places[batch.places.clone()].iter().filter(|place| place.object == batch.object);
        places.all(|place| snapshot.object(place).is_ok_and(|object| cache.holds((object.id, place.offset()))))
    }
}

/// The page behind the last one of a batch.
fn behind(snapshot: &Snapshot, batch: &Batch) -> u32 {
    let last = snapshot.places[batch.places.clone()].last();
    last.map_or(0, |place| place.page.0.saturating_add(1))
}

/// Fetches a batch with one request, and keeps its pages. Returns the first.
async fn fetch(inner: &Inner, snapshot: &Snapshot, batch: &Batch) -> Result<Bytes, Error> {
    let places = snapshot.places[batch.places.clone()].iter().filter(|place| place.object == batch.object);
    let object = snapshot
        .objects
        .get(batch.object as usize)
        .ok_or_else(|| Error::Internal("a page has no object".to_owned()))?;
    let key = object.file.key(Layout::of(&inner.vault));
    let length = batch.bytes.end - batch.bytes.start;
    let bytes = inner.vault.read(&key, Some(batch.bytes.clone()), length).await?;
    let mut first = None;
    for place in places {
        let page = decode(inner, snapshot, place, slice(&bytes, batch.bytes.start, place))?;
        inner.cache.lock().unwrap_or_else(PoisonError::into_inner).put((object.id, place.offset()), page.clone());
        first.get_or_insert(page);
    }
    first.ok_or_else(|| Error::Internal("a batch has no page".to_owned()))
}

/// The bytes of a frame in bytes that begin at `start` of the object; empty if they aren't all there.
fn slice<'a>(bytes: &'a [u8], start: u64, place: &Place) -> &'a [u8] {
    let at = |offset: u64| usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX);
    bytes.get(at(place.offset())..at(place.end())).unwrap_or_default()
}

/// Decompresses a frame, and checks that it is the page that the index says.
fn decode(inner: &Inner, snapshot: &Snapshot, place: &Place, frame: &[u8]) -> Result<Bytes, Error> {
    let object = snapshot.object(place)?;
    let mut page = vec![0; snapshot.page_size.bytes()];
    let name = || inner.vault.object(&object.file.key(Layout::of(&inner.vault)));
    let number = decode_frame_into(snapshot.page_size, frame, &mut page).map_err(|error| Error::ltx(name())(error))?;
    if number != place.page {
        let what = format!(
            "its index says that page {} is at offset {}, and page {number} is there",
            place.page,
            place.offset()
        );
        return Err(corrupt(&inner.vault, &object.file, &what));
    }
    Ok(Bytes::from(page))
}
