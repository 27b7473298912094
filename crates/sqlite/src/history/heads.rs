//! Reads the headers of objects for a caller that goes on to read the objects: no byte is fetched twice.
//!
//! Before a restore writes anything, it proves that the objects of its plan belong together (I14). The proof needs the header of
//! each. A request for a header takes as long as one for a small object, so a small object is fetched whole, and kept while
//! there is room (I5). Of a large object the header is kept, and the rest is asked for later. [`Heads::of`] has no room: it reads
//! headers and keeps nothing.

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

/// Headers that are read at a time from a folder.
const AT_ONCE: usize = 16;

/// Headers that are read at a time over a network, where each waits for its answer.
const FAR_AT_ONCE: usize = 64;

/// The headers of a vault's objects, and what was read with them. Clones share it.
#[derive(Clone)]
pub(crate) struct Heads {
    vault: Vault,
    kept: Arc<Mutex<Kept>>,
}

struct Kept {
    room: u64,
    /// The beginnings of objects: whole small ones, the headers of others.
    beginnings: HashMap<Stored, Bytes>,
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

    fn with_room(vault: &Vault, room: u64) -> Self {
        let kept = Kept { room, beginnings: HashMap::new() };
        Self { vault: vault.clone(), kept: Arc::new(Mutex::new(kept)) }
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

    /// At least the header of a file.
    async fn beginning(&self, file: &Stored) -> Result<Bytes, Error> {
        if let Some(bytes) = self.kept().beginnings.get(file) {
            return Ok(bytes.clone());
        }
        let (header, key) = (HEADER_SIZE as u64, file.key(Layout::of(&self.vault)));
        let wanted = if file.size <= SMALL { file.size.max(header) } else { header };
        let Some(mut place) = self.reserve(wanted) else {
            return Ok(self.vault.read(&key, Some(0..header), header).await?);
        };
        let bytes = self.vault.read(&key, Some(0..wanted), wanted).await?;
        place.fill(*file, &bytes);
        Ok(bytes)
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
