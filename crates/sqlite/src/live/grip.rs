//! Holds a WAL without a connection: a [`Grip`] takes the locks that a read transaction of SQLite holds.
//!
//! To other processes, a connection with an open read transaction is three shared locks:
//!
//! | lock on | while it is held, no process |
//! |---|---|
//! | the database file's shared range | leaves WAL mode, or removes the WAL when it closes the database |
//! | the wal-index's byte for its users (dead-man switch) | rebuilds the wal-index |
//! | one of the five read slots in the wal-index | restarts a WAL with uncopied frames, or copies past the slot's mark |
//!
//! The places of these locks are part of SQLite's file format, because all versions must agree on them
//! (<https://sqlite.org/walformat.html>, section 2.3; <https://sqlite.org/lockingv3.html>).
//!
//! A grip takes them on plain handles, while a connection still holds the WAL. That connection may be closed afterwards. The
//! locks are *open file description* locks. They conflict with SQLite's locks like SQLite's own. But they belong to the
//! handle and not to the process, so closing another handle on the file doesn't drop them. A held database then needs no page
//! cache, no schema and no mapped memory. On systems without such locks there are no grips, and the connection stays open.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Flock, FlockOffsetType, FlockType, fcntl_getlk};

use crate::wal::{COPIED_AT, IndexHeader, copied};

/// The read slots of a wal-index.
pub(crate) const SLOTS: usize = 5;

/// The slot of readers that read only the database file. While a process holds it, no process copies frames.
const FILE_ALONE: usize = 0;

/// How often to read the wal-index's header before giving up.
const ATTEMPTS: usize = 100;

/// The facts in the wal-index that decide how far other processes may copy, and whether they may restart the WAL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Facts {
    /// Committed frames.
    frames: u32,
    /// How many of them are in the database file.
    copied: u32,
    /// The last frame that the holders of each slot read. No process copies past it.
    marks: [u32; SLOTS],
    /// The slots on which this process got a shared lock.
    free: [bool; SLOTS],
}

/// The bytes of a database file on which SQLite takes its locks.
const LOCK_BYTES: (u64, u64) = (0x4000_0000, 512);

/// Whether another process has a lock on a database. In WAL mode each connection that was used holds one until it is closed;
/// in other modes each transaction does. `false` on a file system without locks.
pub(crate) fn is_open_elsewhere(database: &File) -> bool {
    let (start, length) = LOCK_BYTES;
    let wanted = Flock { start, length, pid: None, typ: FlockType::WriteLock, offset_type: FlockOffsetType::Set };
    matches!(fcntl_getlk(database, &wanted), Ok(Some(_)))
}

/// Which slot holds a WAL? `done` says that every commit was captured.
///
/// | the WAL | the slot, and its effect |
/// |---|---|
/// | has no frames | of the database file alone: no process can copy new frames, so none can restart the WAL behind them |
/// | is captured and copied completely | of the database file alone: the next commit may restart the WAL, once |
/// | otherwise | with the highest mark up to the end: no process can restart the WAL, and each can copy up to the mark |
/// | otherwise, if no slot has such a mark | of the database file alone, if it is free: no process can copy, so none can restart a WAL with uncopied frames |
///
/// A mark behind the end doesn't limit copying, and neither does the value of an unused slot.
fn choose(facts: &Facts, done: bool) -> Option<usize> {
    let alone = Some(FILE_ALONE).filter(|slot| facts.free[*slot]);
    if facts.frames == 0 || done && facts.copied >= facts.frames {
        return alone;
    }
    let marked = (1..SLOTS).filter(|slot| facts.free[*slot] && facts.marks[*slot] <= facts.frames);
    marked.max_by_key(|slot| facts.marks[*slot]).or(alone)
}

impl Facts {
    /// Reads the wal-index; `None` while a writer changes it.
    fn read(index: &File, free: [bool; SLOTS]) -> io::Result<Option<Self>> {
        let mut bytes = [0; MARKS_AT + 4 * SLOTS];
        let length = crate::files::read_up_to(index, &mut bytes, 0)?;
        let word = |at: usize| bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_ne_bytes);
        let header = IndexHeader::parse(&bytes[..length]).filter(|_| length == bytes.len());
        let (Some(header), Some(copied)) = (header, copied(&bytes)) else { return Ok(None) };
        let marks = std::array::from_fn(|slot| word(MARKS_AT + 4 * slot).unwrap_or(u32::MAX));
        Ok(Some(Self { frames: header.frames, copied, marks, free }))
    }
}

/// Where the wal-index has the marks of the slots (walformat, section 2.2).
const MARKS_AT: usize = COPIED_AT + 4;

/// Whether a wal-index is in use through another handle than this one.
pub(crate) fn is_in_use(index: &File) -> bool {
    lock::is_taken(index, lock::ALIVE) == Some(true)
}

/// The handles on a database file and its wal-index, and how many grips hold each slot through them. All grips on one pair
/// of files share one `Hands`, because the system counts a lock of a handle once, however often it is taken.
#[derive(Debug)]
pub(crate) struct Hands {
    database: Arc<File>,
    index: Arc<File>,
    holders: Mutex<[u32; SLOTS]>,
}

impl Hands {
    /// Holds nothing yet.
    pub(crate) fn new(database: Arc<File>, index: Arc<File>) -> Self {
        Self { database, index, holders: Mutex::default() }
    }

    /// Whether there is a grip.
    pub(crate) fn hold_something(&self) -> bool {
        self.holders().iter().any(|count| *count > 0)
    }

    /// Whether a checkpoint is running, in this process or another. `true` also if the system can't tell.
    pub(crate) fn see_a_checkpoint(&self) -> bool {
        lock::is_taken(&self.index, lock::CHECKPOINT).unwrap_or(true)
    }

    /// Whether a process has the database open and doesn't use this wal-index. A process that is just opening the database
    /// looks the same.
    pub(crate) fn miss_a_user(&self) -> bool {
        let taken = |file, range| lock::is_taken(file, range);
        taken(&self.database, lock::SHARED) == Some(true) && taken(&self.index, lock::ALIVE) == Some(false)
    }

    /// Whether these are those handles.
    pub(crate) fn are(&self, database: &Arc<File>, index: &Arc<File>) -> bool {
        Arc::ptr_eq(&self.database, database) && Arc::ptr_eq(&self.index, index)
    }

    /// The handle on the database file.
    pub(crate) fn database(&self) -> &Arc<File> {
        &self.database
    }

    /// The handle on the wal-index.
    pub(crate) fn index(&self) -> &Arc<File> {
        &self.index
    }

    fn holders(&self) -> MutexGuard<'_, [u32; SLOTS]> {
        // Plain counts, whole between any two statements.
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the locks of a read transaction. Until this returns, a connection with a read transaction or another grip must
    /// hold the WAL. `done` says that every commit was captured, and that no process can commit.
    ///
    /// `None` if the system has no such locks, or another process prevents it. Then the caller must keep its hold.
    pub(crate) fn grip(self: &Arc<Self>, done: bool) -> Option<Grip> {
        let mut holders = self.holders();
        let chosen = self.take(done);
        if let Some(slot) = chosen {
            holders[slot] += 1;
        }
        self.let_go(&holders);
        chosen.map(|slot| Grip { hands: self.clone(), slot })
    }

    /// Takes all free slots, so that none of them changes while one is chosen.
    fn take(&self, done: bool) -> Option<usize> {
        if !lock::share(&self.database, lock::SHARED) || !lock::share(&self.index, lock::ALIVE) {
            return None;
        }
        let free = std::array::from_fn(|slot| lock::share(&self.index, lock::slot(slot)));
        for _ in 0..ATTEMPTS {
            match Facts::read(&self.index, free) {
                Ok(Some(facts)) => return choose(&facts, done),
                Ok(None) => std::thread::yield_now(),
                Err(_) => return None,
            }
        }
        None
    }

    /// Releases the locks that no grip needs.
    fn let_go(&self, holders: &[u32; SLOTS]) {
        for (slot, _) in holders.iter().enumerate().filter(|(_, count)| **count == 0) {
            lock::release(&self.index, lock::slot(slot));
        }
        if holders.iter().all(|count| *count == 0) {
            lock::release(&self.index, lock::ALIVE);
            lock::release(&self.database, lock::SHARED);
        }
    }
}

/// The locks of a read transaction. Dropping it releases them.
#[derive(Debug)]
pub(crate) struct Grip {
    hands: Arc<Hands>,
    slot: usize,
}

impl Grip {
    /// A second grip on the same slot. The locks are released with the last grip.
    pub(crate) fn again(&self) -> Self {
        self.hands.holders()[self.slot] += 1;
        Self { hands: self.hands.clone(), slot: self.slot }
    }
}

impl Drop for Grip {
    fn drop(&mut self) {
        let mut holders = self.hands.holders();
        holders[self.slot] = holders[self.slot].saturating_sub(1);
        self.hands.let_go(&holders);
    }
}

/// Open file description locks on ranges of bytes, and the ranges that SQLite locks.
mod lock {
    use std::fs::File;
    use std::ops::Range;

    /// Shared by all readers of a database file.
    pub(super) const SHARED: Range<i32> = 0x4000_0002..0x4000_0200;

    /// Taken by a checkpoint.
    pub(super) const CHECKPOINT: Range<i32> = 121..122;

    /// Shared by all connections that have the wal-index open (SQLite's dead-man switch).
    pub(super) const ALIVE: Range<i32> = 128..129;

    /// A read slot.
    pub(super) fn slot(number: usize) -> Range<i32> {
        let at = 123 + number as i32;
        at..at + 1
    }

    /// Tries once to take a shared lock. Returns whether it has it.
    pub(super) fn share(file: &File, range: Range<i32>) -> bool {
        set(file, range, Kind::Shared)
    }

    /// Releases a lock.
    pub(super) fn release(file: &File, range: Range<i32>) {
        // Fails only if the system has no such locks.
        set(file, range, Kind::None);
    }

    enum Kind {
        Shared,
        None,
    }

    #[cfg(target_os = "linux")]
    fn set(file: &File, range: Range<i32>, kind: Kind) -> bool {
        use std::os::fd::AsRawFd;

        let kind = match kind {
            Kind::Shared => libc::F_RDLCK,
            Kind::None => libc::F_UNLCK,
        };
        let lock = flock(range, kind);
        // SAFETY: the descriptor is open for as long as `file` is borrowed, and the call only reads the structure, which outlives it.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) == 0 }
    }

    /// Whether there is a lock on the range through another handle than this one. `None` if the system can't tell.
    #[cfg(target_os = "linux")]
    pub(super) fn is_taken(file: &File, range: Range<i32>) -> Option<bool> {
        use std::os::fd::AsRawFd;

        let mut lock = flock(range, libc::F_WRLCK);
        // SAFETY: the descriptor is open for as long as `file` is borrowed, and the call writes to the structure alone, which outlives it.
        let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) == 0 };
        asked.then_some(lock.l_type != libc::F_UNLCK as libc::c_short)
    }

    #[cfg(target_os = "linux")]
    fn flock(range: Range<i32>, kind: libc::c_int) -> libc::flock {
        libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: range.start.into(),
            l_len: (range.end - range.start).into(),
            l_pid: 0,
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn set(_: &File, _: Range<i32>, _: Kind) -> bool {
        false
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn is_taken(_: &File, _: Range<i32>) -> Option<bool> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNUSED: u32 = u32::MAX;

    #[test]
    fn which_slot_holds() {
        let all = [true; SLOTS];
        let but = |taken: usize| std::array::from_fn(|slot| slot != taken);
        // frames, copied, marks, free, everything captured, the slot
        let table = [
            // Nothing in the WAL: whatever comes can't be copied.
            (0, 0, [0, 0, UNUSED, UNUSED, UNUSED], all, false, Some(0)),
            (0, 0, [0, 0, UNUSED, UNUSED, UNUSED], but(0), true, None),
            // All captured and copied: the next commit may restart the WAL.
            (7, 7, [0, 7, UNUSED, UNUSED, UNUSED], all, true, Some(0)),
            (7, 7, [0, 7, UNUSED, UNUSED, UNUSED], but(0), true, None),
            // All copied, but not captured: no process may restart the WAL.
            (7, 7, [0, 7, UNUSED, UNUSED, UNUSED], all, false, Some(1)),
            // Captured, but not copied.
            (7, 3, [0, 3, 7, UNUSED, UNUSED], all, true, Some(2)),
            // The highest mark lets others copy most.
            (9, 0, [0, 3, 9, 5, UNUSED], all, false, Some(2)),
            (9, 0, [0, 3, 9, 5, UNUSED], but(2), false, Some(3)),
            // A mark behind the end doesn't limit copying.
            (9, 0, [0, 12, UNUSED, UNUSED, UNUSED], all, false, Some(0)),
            (9, 0, [0, 12, UNUSED, UNUSED, UNUSED], but(0), false, None),
        ];
        for (frames, copied, marks, free, done, expected) in table {
            let facts = Facts { frames, copied, marks, free };
            assert_eq!(choose(&facts, done), expected, "{facts:?} {done}");
        }
    }
}
