//! Limits how many databases of one process do expensive work at a time.
//!
//! A thousand databases that appear together must not list a thousand prefixes or read a thousand files at once. There
//! are two queues, both fair (first come, first served) and independent of each other. So a database that only looks
//! for its place in the vault doesn't wait behind complete copies. Captures of running databases wait in neither queue.
//!
//! There is also room for so many databases only as the process may have files open. Without this limit, databases for
//! which there are no descriptors would take those that the others need for a moment, to capture and to upload.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

/// Databases that may find out at the same time where their history ends: some requests each.
const STARTS: usize = 16;

/// Complete copies that may be taken at the same time.
const BASES: usize = 4;

/// Descriptors that are kept for one database: always its file and its wal-index; its WAL, and a connection or a file of the
/// vault, until its commits are in the vault. An application may commit to all its databases at once, and a capture that waits for
/// a descriptor keeps that of its WAL: with room for less than this, all would wait.
const PER_DATABASE: u64 = 4;

/// Descriptors that a process keeps for everything else, if it may have so many: the runtime, events, sockets, connections, and
/// a few for each database at which something happens just now.
const BESIDES: u64 = 512;

/// How many files a process has open that protects so many databases.
pub fn files_needed(databases: u64) -> u64 {
    databases.saturating_mul(PER_DATABASE).saturating_add(BESIDES)
}

/// The fewest that are kept for everything else.
const LEAST: u64 = 48;

/// For how many databases there is room in a process that may have so many files open. Of few files, a quarter is kept for
/// everything else.
pub fn room_with(files: u64) -> u64 {
    files.saturating_sub(BESIDES.min((files / 4).max(LEAST))) / PER_DATABASE
}

/// The two queues, and the room. Clones share them.
#[derive(Debug, Clone)]
pub struct Admission {
    starts: Arc<Semaphore>,
    bases: Arc<Semaphore>,
    room: Arc<Room>,
}

impl Default for Admission {
    fn default() -> Self {
        let (starts, bases) = (Semaphore::new(STARTS), Semaphore::new(BASES));
        Self { starts: Arc::new(starts), bases: Arc::new(bases), room: Arc::default() }
    }
}

/// The databases that have room.
#[derive(Debug, Default)]
pub(crate) struct Room {
    taken: Mutex<u64>,
    left: Notify,
}

/// There is room for so many databases, because so many files may be open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) databases: u64,
    pub(crate) files: u64,
}

impl Room {
    /// Takes the place of one database, if so many files may be open; `limit` gives how many, and is asked to raise the limit if
    /// these are too few.
    fn take(self: &Arc<Self>, limit: impl Fn(u64) -> Option<u64>) -> Result<Place, Full> {
        let mut taken = self.taken();
        if let Some(files) = limit(files_needed(*taken + 1))
            && room_with(files) <= *taken
        {
            return Err(Full { databases: room_with(files), files });
        }
        *taken += 1;
        Ok(Place(self.clone()))
    }

    fn taken(&self) -> MutexGuard<'_, u64> {
        // A count, whole at any time.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The room of one database, until dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<Room>);

impl Drop for Place {
    fn drop(&mut self) {
        *self.0.taken() -= 1;
        self.0.left.notify_one();
    }
}

impl Admission {
    /// Waits for the turn to find out where a history ends.
    pub(crate) async fn start(&self) -> Turn<'_> {
        Turn(self.starts.acquire().await.ok())
    }

    /// Waits for the turn to take a complete copy.
    pub(crate) async fn base(&self) -> Turn<'_> {
        Turn(self.bases.acquire().await.ok())
    }

    /// Takes the room of one database. Raises the limit on open files as far as this needs and the system allows.
    pub(crate) fn place(&self) -> Result<Place, Full> {
        self.room.take(seawall_host::allow_files)
    }

    /// Ends when a database has left its room since this was called.
    pub(crate) fn left(&self) -> Notified<'_> {
        self.room.left.notified()
    }
}

/// A turn, until dropped.
pub(crate) struct Turn<'a>(#[expect(dead_code, reason = "held, never looked at")] Option<SemaphorePermit<'a>>);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn there_is_room_for_as_many_as_files_may_be_open() {
        for (files, databases) in
            [(0, 0), (3, 0), (64, 4), (256, 48), (684, 128), (1024, 192), (2048, 384), (20_000, 4872)]
        {
            assert_eq!(room_with(files), databases, "{files}");
            assert!(
                files <= 2048 || files_needed(databases) <= files && files_needed(databases + 1) > files,
                "{files}"
            );
        }
        assert_eq!(room_with(u64::MAX), (u64::MAX - BESIDES) / 4);
        assert_eq!(files_needed(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_database_without_room_gets_that_of_one_that_left() {
        let room = Arc::<Room>::default();
        let take = |files: u64| room.take(|_| Some(files));
        let mut places: Vec<_> = (0..4).map(|_| take(64).expect("room")).collect();
        assert_eq!(take(64).map(drop), Err(Full { databases: 4, files: 64 }));
        // The limit may be raised from outside.
        places.push(take(1024).expect("room"));
        assert_eq!(take(64).map(drop), Err(Full { databases: 4, files: 64 }));
        places.truncate(3);
        places.push(take(64).expect("room"));
        places.push(room.take(|_| None).expect("without a limit there is room for any number"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_never_waits_for_copies() {
        let admission = Admission::default();
        let mut copies = Vec::new();
        for _ in 0..BASES {
            copies.push(admission.base().await);
        }
        let another = tokio::time::timeout(Duration::from_secs(60), admission.base());
        assert!(another.await.is_err(), "more copies at a time than there are turns");
        admission.start().await;
        copies.pop();
        admission.base().await;
    }
}
