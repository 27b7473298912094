//! Reads the headers of objects for a caller that goes on to read the objects: no byte is fetched twice.
//!
//! Before a restore writes anything, it proves that the objects of its plan belong together (I14). The proof needs the header of
//! each. A request for a header takes as long as one for a small object, so a small object is fetched whole, and kept while
//! there is room (I5). Of a large object the header is kept, and the rest is asked for later. [`Heads::of`] has no room: it reads
//! headers and keeps nothing. [`Heads::viewing`] asks for both ends of a large object at once, because a view needs the index at its
//! end, and most often its first pages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use seawall_ltx::{HEADER_SIZE, Header, TRAILER_SIZE, Trailer};
use seawall_vault::Vault;

use crate::error::Error;
use crate::headers::check_names;
use crate::layout::{Layout, Stored};

/// Objects of at most this size are fetched whole for their headers.
pub(crate) const SMALL: u64 = 256 << 10;

/// The bytes of objects that a restore keeps between its proof and its reading.
const ROOM: u64 = 24 << 20;

/// Bytes of a large object behind its header that a view gets with the header: the first pages of the database, if it is a base.
const FRONT: u64 = 32 << 10;

/// The share of an object that its index takes at most, as a rule: about 9 bytes for a page of 4096 bytes, compressed.
const INDEX_SHARE: u64 = 128;

/// The least and the most bytes that are read to find an index in them.
const TAIL: (u64, u64) = (32 << 10, 8 << 20);

/// Headers that are read at a time from a folder.
const AT_ONCE: usize = 16;

/// Headers that are read at a time over a network, where each waits for its answer.
const FAR_AT_ONCE: usize = 64;

/// The headers of a vault's objects, and what was read with them. Clones share it.
#[derive(Clone)]
pub(crate) struct Heads {
    vault: Vault,
    /// Whether both ends of a large object are read at once.
    both_ends: bool,
    kept: Arc<Mutex<Kept>>,
}

struct Kept {
    room: u64,
    /// The beginnings of objects: whole small ones, the headers of others.
    beginnings: HashMap<Stored, Bytes>,
    /// The ends of large objects.
    ends: HashMap<Stored, Bytes>,
}

impl Heads {
    /// For a caller that needs each header once, and no object.
    pub(crate) fn of(vault: &Vault) -> Self {
        Self::with_room(vault, 0)
    }

    /// For a caller that reads the objects afterwards.
    pub(crate) fn keeping(vault: &Vault) -> Self {
        Self::with_room(vault, ROOM)
    }

    /// For a view, which reads pages of the objects afterwards.
    pub(crate) fn viewing(vault: &Vault) -> Self {
        Self { both_ends: true, ..Self::with_room(vault, ROOM) }
    }

    fn with_room(vault: &Vault, room: u64) -> Self {
        let kept = Kept { room, beginnings: HashMap::new(), ends: HashMap::new() };
        Self { vault: vault.clone(), both_ends: false, kept: Arc::new(Mutex::new(kept)) }
    }

    /// The vault.
    pub(crate) fn vault(&self) -> &Vault {
        &self.vault
    }

    /// How many headers are read at a time.
    pub(crate) fn at_once(&self) -> usize {
        if self.vault.folder().is_some() { AT_ONCE } else { FAR_AT_ONCE }
    }

    /// The header of a file, which has the TXIDs of the file's name (I11).
    pub(crate) async fn header(&self, file: &Stored) -> Result<Header, Error> {
        let bytes = self.beginning(file).await?;
        let object = self.vault.object(&file.key(Layout::of(&self.vault)));
        let header = Header::parse(&bytes).map_err(Error::ltx(&object))?;
        check_names(file, &header, object)?;
        Ok(header)
    }

    /// The last bytes of a file.
    pub(crate) async fn trailer(&self, file: &Stored) -> Result<Option<Trailer>, Error> {
        let whole = self.kept().beginnings.get(file).filter(|bytes| is_whole(file, bytes)).cloned();
        let bytes = match whole {
            Some(bytes) => bytes,
            None => {
                let size = TRAILER_SIZE as u64;
                let range = file.size.saturating_sub(size)..file.size;
                self.vault.read(&file.key(Layout::of(&self.vault)), Some(range), size).await?
            }
        };
        Ok(bytes.last_chunk::<TRAILER_SIZE>().map(Trailer::parse))
    }

    /// Hands over what is kept of a file: all of it, or its beginning.
    pub(crate) fn take(&self, file: &Stored) -> Option<Bytes> {
        let mut kept = self.kept();
        let bytes = kept.beginnings.remove(file)?;
        kept.room = kept.room.saturating_add(bytes.len() as u64);
        Some(bytes)
    }

    /// The last bytes of a large object, in which its index most often is, if they were read with its header. Hands them over.
    pub(crate) fn take_end(&self, file: &Stored) -> Option<Bytes> {
        let mut kept = self.kept();
        let bytes = kept.ends.remove(file)?;
        kept.room = kept.room.saturating_add(bytes.len() as u64);
        Some(bytes)
    }

    /// At least the header of a file.
    async fn beginning(&self, file: &Stored) -> Result<Bytes, Error> {
        if let Some(bytes) = self.kept().beginnings.get(file) {
            return Ok(bytes.clone());
        }
        let (header, key) = (HEADER_SIZE as u64, file.key(Layout::of(&self.vault)));
        let wanted = match file.size <= SMALL {
            true => file.size.max(header),
            false if self.both_ends => header + FRONT,
            false => header,
        };
        let Some(mut place) = self.reserve(wanted) else {
            return Ok(self.vault.read(&key, Some(0..header), header).await?);
        };
        let (bytes, ()) = tokio::join!(self.vault.read(&key, Some(0..wanted), wanted), self.read_end(file));
        let bytes = bytes?;
        place.fill(*file, &bytes);
        Ok(bytes)
    }

    /// Reads the end of a large object for a view. An error is met again by the reading that needs these bytes.
    async fn read_end(&self, file: &Stored) {
        let length = first_tail(file.size);
        let Some(place) = self.reserve(length).filter(|_| self.both_ends && file.size > SMALL) else { return };
        let range = file.size.saturating_sub(length)..file.size;
        let read = self.vault.read(&file.key(Layout::of(&self.vault)), Some(range), length).await;
        let Some(bytes) = read.ok().filter(|bytes| bytes.len() as u64 == length) else { return };
        let mut place = place;
        if self.kept().ends.insert(*file, bytes).is_none() {
            place.bytes = 0;
        }
    }

    /// Room for so many bytes, if there is any.
    fn reserve(&self, bytes: u64) -> Option<Place<'_>> {
        let mut kept = self.kept();
        kept.room = kept.room.checked_sub(bytes)?;
        Some(Place { heads: self, bytes })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room that is reserved for bytes on their way, and free again if they don't come.
struct Place<'a> {
    heads: &'a Heads,
    bytes: u64,
}

impl Place<'_> {
    fn fill(&mut self, file: Stored, bytes: &Bytes) {
        let mut kept = self.heads.kept();
        // Another task may have read the same object.
        if kept.beginnings.insert(file, bytes.clone()).is_none() {
            kept.room = kept.room.saturating_add(self.bytes.saturating_sub(bytes.len() as u64));
            self.bytes = 0;
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut kept = self.heads.kept();
        kept.room = kept.room.saturating_add(self.bytes);
    }
}

/// How many of the last bytes of an object are read first to find its index.
pub(crate) fn first_tail(size: u64) -> u64 {
    (size / INDEX_SHARE).clamp(TAIL.0, TAIL.1).min(size)
}

/// Whether these bytes are all of a file.
pub(crate) fn is_whole(file: &Stored, bytes: &Bytes) -> bool {
    bytes.len() as u64 >= file.size
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use seawall_ltx::{PageSize, Txid};
    use seawall_vault::Policy;
    use seawall_vault::memory::MemoryStore;

    use crate::layout::Level;

    async fn stored(vault: &Vault, txid: u64, size: usize) -> Stored {
        let header = Header::new(PageSize::new(512).expect("a page size"), 6, Txid(txid), Txid(txid));
        let mut bytes = header.encode().to_vec();
        bytes.resize(size, 7);
        let file = Stored { level: Level::LOG, min: Txid(txid), max: Txid(txid), size: size as u64 };
        vault.put(&file.key(Layout::of(vault)), bytes.into(), None).await.expect("written");
        file
    }

    #[tokio::test]
    async fn what_is_small_is_fetched_once_while_there_is_room() {
        let vault = Vault::new(Arc::new(MemoryStore::new()), Policy::default());
        let heads = Heads::with_room(&vault, 3000);
        let (small, other, large) =
            (stored(&vault, 1, 2000).await, stored(&vault, 2, 2000).await, stored(&vault, 3, SMALL as usize + 1).await);
        for file in [small, other, large] {
            assert_eq!(heads.header(&file).await.expect("a header").max_txid, file.max);
        }
        let gets = vault.counts().get;
        assert_eq!(gets, 3);
        heads.header(&small).await.expect("kept");
        heads.trailer(&small).await.expect("kept");
        heads.header(&large).await.expect("kept");
        assert_eq!(vault.counts().get, gets);
        let length = |file| heads.take(file).map(|bytes| bytes.len());
        assert_eq!((length(&small), length(&other), length(&large)), (Some(2000), None, Some(HEADER_SIZE)));
        assert_eq!(heads.kept().room, 3000);
    }

    #[test]
    fn the_first_tail_is_likely_to_hold_the_index() {
        let cases = [(100, 100), (300 << 10, 32 << 10), (128 << 20, 1 << 20), (1 << 40, 8 << 20)];
        for (size, expected) in cases {
            assert_eq!(first_tail(size), expected, "{size}");
        }
    }

    #[tokio::test]
    async fn a_view_gets_both_ends_of_a_large_object_at_once() {
        let vault = Vault::new(Arc::new(MemoryStore::new()), Policy::default());
        let heads = Heads { both_ends: true, ..Heads::with_room(&vault, 200 << 10) };
        let large = stored(&vault, 1, 1 << 20).await;
        heads.header(&large).await.expect("a header");
        assert_eq!(vault.counts().get, 2);
        let end = heads.take_end(&large).map(|bytes| bytes.len() as u64);
        assert_eq!((end, heads.take_end(&large)), (Some(first_tail(1 << 20)), None));
        assert_eq!(heads.take(&large).map(|bytes| bytes.len() as u64), Some(HEADER_SIZE as u64 + FRONT));
        assert_eq!(heads.kept().room, 200 << 10);
        // Without room, the header alone.
        let small = Heads { both_ends: true, ..Heads::with_room(&vault, 1000) };
        small.header(&large).await.expect("a header");
        assert_eq!((small.take(&large), small.take_end(&large), small.kept().room), (None, None, 1000));
        assert_eq!(vault.counts().get, 3);
        // Nothing behind the header is of use for a restore.
        let heads = Heads::keeping(&vault);
        heads.header(&large).await.expect("a header");
        assert_eq!((vault.counts().get, heads.take_end(&large)), (4, None));
    }

    #[tokio::test]
    async fn room_for_bytes_that_do_not_come_is_free_again() {
        let vault = Vault::new(Arc::new(MemoryStore::new()), Policy::default());
        let heads = Heads::with_room(&vault, 3000);
        let missing = Stored { level: Level::LOG, min: Txid(1), max: Txid(1), size: 2000 };
        assert!(heads.header(&missing).await.is_err());
        let file = stored(&vault, 2, 1000).await;
        // The listing named another size.
        heads.header(&Stored { size: 2500, ..file }).await.expect("a header");
        assert_eq!(heads.kept().room, 2000);
    }
}
