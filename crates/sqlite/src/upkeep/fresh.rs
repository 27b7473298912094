//! A cache of small captures that were just written, until they are merged. So merging a database with a commit a
//! second doesn't read each capture back from the vault.
//!
//! The cache is bounded for the process ([`Room`]), and nothing depends on it: other objects are read from the vault.
//! An idle database has nothing here, because its last captures are merged when their window ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use seawall_ltx::Txid;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::layout::{Level, Stored};

/// Captures of at most this many bytes are kept.
pub(crate) const LARGEST: u64 = 256 << 10;

/// Bytes that all databases of a process may keep: enough for 50 of them with a commit of a few pages a second.
const ROOM: usize = 8 << 20;

/// Room is given out by this many bytes.
const UNIT: usize = 1 << 10;

/// Room in memory, shared by the databases of a process.
#[derive(Debug, Clone)]
pub(crate) struct Room(Arc<Semaphore>);

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ROOM / UNIT)))
    }
}

/// Captures of one database.
#[derive(Debug, Default)]
pub(crate) struct Fresh(BTreeMap<Txid, (Bytes, OwnedSemaphorePermit)>);

impl Fresh {
    /// Keeps a capture where there is room.
    pub(crate) fn keep(&mut self, file: &Stored, bytes: Bytes, room: &Room) {
        let whole = file.level == Level::LOG && file.min == file.max && bytes.len() as u64 == file.size;
        if !whole || file.size > LARGEST {
            return;
        }
        let units = u32::try_from(bytes.len().div_ceil(UNIT)).unwrap_or(u32::MAX);
        if let Ok(permit) = room.0.clone().try_acquire_many_owned(units) {
            self.0.insert(file.max, (bytes, permit));
        }
    }

    /// The bytes of an object, if they are in the cache.
    pub(crate) fn get(&self, file: &Stored) -> Option<Bytes> {
        let (bytes, _) = self.0.get(&file.max).filter(|_| file.level == Level::LOG && file.min == file.max)?;
        Some(bytes.clone()).filter(|bytes| bytes.len() as u64 == file.size)
    }

    /// Drops captures up to `last`: an object of a higher level has the same content.
    pub(crate) fn forget(&mut self, last: Txid) {
        self.0 = self.0.split_off(&Txid(last.0.saturating_add(1)));
    }

    /// Drops all captures.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(txid: u64, size: u64) -> Stored {
        Stored { level: Level::LOG, min: Txid(txid), max: Txid(txid), size }
    }

    fn bytes(size: u64) -> Bytes {
        Bytes::from(vec![7; usize::try_from(size).expect("small")])
    }

    #[test]
    fn what_was_kept_is_found_by_name_and_size_until_it_is_merged() {
        let (mut fresh, room) = (Fresh::default(), Room::default());
        for txid in 1..=5 {
            fresh.keep(&capture(txid, 1000 + txid), bytes(1000 + txid), &room);
        }
        assert_eq!(fresh.get(&capture(3, 1003)), Some(bytes(1003)));
        assert_eq!(fresh.get(&capture(3, 1004)), None, "another object under the name");
        assert_eq!(fresh.get(&Stored { min: Txid(2), ..capture(3, 1003) }), None);
        fresh.forget(Txid(3));
        assert_eq!([3, 4].map(|txid| fresh.get(&capture(txid, 1000 + txid)).is_some()), [false, true]);
        fresh.clear();
        assert_eq!(room.0.available_permits(), ROOM / UNIT, "all room is given back");
    }

    #[test]
    fn there_is_room_for_small_ones_and_only_so_many() {
        let room = Room::default();
        let mut databases: Vec<Fresh> = Vec::new();
        for txid in 1..=100 {
            let mut fresh = Fresh::default();
            fresh.keep(&capture(txid, LARGEST), bytes(LARGEST), &room);
            fresh.keep(&capture(txid + 1, LARGEST + 1), bytes(LARGEST + 1), &room);
            databases.push(fresh);
        }
        let kept: usize = databases.iter().flat_map(|fresh| fresh.0.values()).map(|(bytes, _)| bytes.len()).sum();
        assert_eq!(kept, ROOM);
        databases.clear();
        let mut fresh = Fresh::default();
        fresh.keep(&capture(1, 1), bytes(1), &room);
        assert!(fresh.get(&capture(1, 1)).is_some(), "what was let go makes room");
    }
}
