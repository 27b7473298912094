//! Empties the WAL without losing a commit.
//!
//! [`due`] decides when. Then the barrier keeps commits out while [`prepare`] reads which pages the last frames
//! changed. That list goes into the spool, while the WAL is copied to its end into the database file and still has
//! everything. Then [`Sealing::finish`] lets the WAL go. The pages themselves are read afterwards from the database
//! file, while writers write: no process can copy before the hold moves on. A crash or failure at any point leaves
//! either the WAL as it was, or the file with the list of the pages that were in the WAL.

use std::time::Duration;

use crate::capture::{Ahead, Author, Capture, Extent, Look, look_on};
use crate::checkpoint::{Barrier, Copier};
use crate::error::Error;
use crate::probe::Step;
use crate::sealed::Sealed;
use crate::source::Source;
use crate::spool::{Draft, Spool};
use crate::state::Position;

/// How many bytes may be left to capture under the barrier, by attempt. If more are left, the seal gives up and is retried,
/// because writers wait for it. The bound grows with every attempt; otherwise a writer that is faster than the disk would
/// prevent every seal.
const LIMITS: [u64; ATTEMPTS] = [32 << 20, 48 << 20, 64 << 20, 64 << 20];

/// The most that is ever captured under the barrier.
const MOST: u64 = 64 << 20;

/// A slow disk lowers the bound to this at the least, see [`Bounds::after_timeout`].
const LEAST: u64 = 2 << 20;

/// How many bytes may be left to capture at an attempt. `bound` is what the disk copies in time, by earlier attempts.
fn left(attempt: usize, bound: u64) -> u64 {
    LIMITS.get(attempt).copied().unwrap_or(0).min(bound)
}

/// How often a seal is tried in a row.
pub(crate) const ATTEMPTS: usize = 4;

/// While writers write, the WAL is emptied only from this size on. A busy database writes most pages again and again,
/// so one late copy costs the writers and Seawall less than many early ones.
const BUSY: u64 = 64 << 20;

/// [`BUSY`], or less if `limit`, the limit of the WAL's growth, is small.
pub(crate) fn busy(limit: u64) -> u64 {
    BUSY.min(limit / 2)
}

/// How long writers may wait for the disk while the barrier is up.
const BARRIER_LIMIT: Duration = Duration::from_secs(1);

/// From this size on the WAL is emptied at a higher price.
const URGENT: u64 = 256 << 20;

/// How long the disk may take at the higher price. Together with the work before and after it this is less than five
/// seconds, a common timeout of writers that wait for a lock.
const URGENT_LIMIT: Duration = Duration::from_millis(3500);

/// The price of a seal for the writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Price {
    /// How much may be left to copy and to read under the barrier, in bytes.
    pub(crate) left: u64,
    /// How long the disk may take with it.
    pub(crate) wait: Duration,
    /// Whether this is the highest price.
    pub(crate) urgent: bool,
}

/// How many bytes may be left to copy under the barrier, by the speed of the disk at earlier attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    ordinary: u64,
    urgent: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { ordinary: MOST, urgent: MOST }
    }
}

impl Bounds {
    /// Raises the bound after the disk was quick enough at this price.
    pub(crate) fn after_success(&mut self, price: Price) {
        let bound = self.of(price);
        *bound = bound.saturating_mul(2).min(MOST);
    }

    /// Lowers the bound after the disk took too long. Returns whether a cheaper attempt is worth it now; an urgent seal is
    /// always put off.
    pub(crate) fn after_timeout(&mut self, price: Price) -> bool {
        *self.of(price) = (price.left / 2).max(LEAST);
        !price.urgent && price.left > LEAST
    }

    fn of(&mut self, price: Price) -> &mut u64 {
        if price.urgent { &mut self.urgent } else { &mut self.ordinary }
    }
}

/// Whether a WAL of `wal` bytes is emptied at the higher price. A disk that takes a second for each sync would never
/// finish within [`BARRIER_LIMIT`], and a fast writer would fill it.
pub(crate) fn is_urgent(wal: u64, facts: &Facts) -> bool {
    wal >= URGENT.min(facts.limit / 4 * 3).max(facts.busy().saturating_mul(3) / 2)
}

/// The price of an attempt.
pub(crate) fn price(urgent: bool, attempt: usize, bounds: Bounds) -> Price {
    if urgent {
        // If the syncs are slow, further rounds don't leave less.
        Price { left: bounds.urgent, wait: URGENT_LIMIT, urgent }
    } else {
        Price { left: left(attempt, bounds.ordinary), wait: BARRIER_LIMIT, urgent }
    }
}

/// A WAL file larger than this is cut after a seal.
const CUT_SIZE: u64 = 120 << 20;

/// The facts that decide whether to empty a WAL.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    /// Bytes of WAL that are captured, and durable.
    pub(crate) captured: u64,
    /// Whether there are writes since the last capture.
    pub(crate) behind: bool,
    /// The size in bytes from which on emptying is worth it.
    pub(crate) threshold: u64,
    /// By how much the WAL may grow before protection is given up.
    pub(crate) limit: u64,
    /// Size of the WAL file in bytes: its high-water mark.
    pub(crate) file: u64,
}

impl Facts {
    /// From how many bytes on the WAL is emptied while writers write.
    pub(crate) fn busy(&self) -> u64 {
        self.threshold.max(busy(self.limit))
    }
}

/// Whether the file of an empty WAL should be cut.
pub(crate) fn is_large(file: u64) -> bool {
    file > CUT_SIZE
}

/// Whether to empty the WAL now: at the threshold or when the file grew large, if no writer would have to wait; at
/// [`BUSY`] in any case.
pub(crate) fn due(facts: Facts) -> bool {
    if facts.behind {
        return facts.captured >= facts.busy();
    }
    facts.captured >= facts.threshold || facts.captured > 0 && is_large(facts.file)
}

/// A seal in progress: no process can commit until it is finished or dropped.
pub(crate) struct Sealing {
    barrier: Barrier,
    /// The last capture of the generation, if there was anything left.
    pub(crate) last: Option<Last>,
    /// The position at the end of the WAL.
    pub(crate) after: Position,
    /// Whether the hold keeps the WAL from being restarted once the barrier is lifted.
    pub(crate) holds: bool,
}

/// The last capture of a generation.
pub(crate) struct Last {
    pub(crate) capture: Capture,
    /// The list of its pages, written and not yet durable.
    pub(crate) list: Draft,
}

/// The result of preparing a seal.
pub(crate) enum Prepared {
    /// The application holds the write lock.
    Locked,
    /// There is too much to copy or to read first. Returns the part that was read ahead.
    NotNow(Option<Ahead>),
    /// The list can't be written to the local disk.
    Unkept(Error),
    /// The barrier is up.
    Ready(Box<(Sealing, Copier)>),
}

fn list(spool: &Spool, capture: Capture) -> Result<Last, Error> {
    let list = spool.list(&Sealed::encode(&capture.shipment.header, capture.shipment.pages.singles()))?;
    Ok(Last { capture, list })
}

/// Takes the barrier and reads the last commits. Everything up to `position` must be durable already (I1); some of the
/// frames after it may have been read `ahead`.
///
/// Before [`Sealing::finish`], the list must be in the spool, and the copier must have copied everything.
pub(crate) fn prepare(
    source: &mut Source,
    spool: &Spool,
    position: Position,
    author: Author,
    ahead: Option<Ahead>,
    limit: u64,
) -> Result<Prepared, Error> {
    let Some(barrier) = source.barrier()? else { return Ok(Prepared::Locked) };
    source.probe().at(Step::Barred);
    let read = ahead.as_ref().map(Ahead::end).or(position.wal);
    if source.to_copy()?.is_none_or(|left| left > limit) || source.is_behind(read.as_ref(), limit)? {
        return Ok(Prepared::NotNow(ahead));
    }
    let (after, last) = match look_on(source, position, author, ahead, Extent::Some)? {
        Look::Clean(after) => (after, None),
        Look::New(new) if !new.partial => {
            let after = new.after;
            match list(spool, *new) {
                Ok(last) => (after, Some(last)),
                Err(error) => return Ok(Prepared::Unkept(error)),
            }
        }
        Look::New(_) | Look::Unfinished | Look::Unproved | Look::Broken(_) => return Ok(Prepared::NotNow(None)),
    };
    if !after.held {
        // Not every frame was seen, so the WAL must not be let go.
        return Ok(Prepared::NotNow(None));
    }
    source.probe().at(Step::Captured);
    let copier = source.advance()?.briefly();
    // No process commits now. So frames that are left to copy were left when the hold moved.
    let holds = source.to_copy()?.is_some_and(|left| left > 0);
    Ok(Prepared::Ready(Box::new((Sealing { barrier, last, after, holds }, copier))))
}

impl Sealing {
    /// Lets the WAL go, and cuts a file that grew large. The list must be in the spool, and everything must be copied.
    pub(crate) fn finish(self, source: &mut Source) -> Result<(), Error> {
        source.release(&self.barrier)?;
        // The state record gets the file's metadata from after the copy.
        source.look_outside(self.after.wal.as_ref())?;
        if is_large(source.wal_size()?) {
            source.cut(self.barrier)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_disk_is_given_less_and_less() {
        const MIB: u64 = 1 << 20;
        let mut bounds = Bounds::default();
        let left = |bounds| (0..5).map(|attempt| price(false, attempt, bounds).left / MIB).collect::<Vec<_>>();
        assert_eq!(left(bounds), [32, 48, 64, 64, 0]);
        for (bound, again) in [(16, true), (8, true), (4, true), (2, true), (2, false)] {
            assert_eq!(bounds.after_timeout(price(false, 0, bounds)), again);
            assert_eq!(left(bounds), [bound, bound, bound, bound, 0]);
        }
        assert_eq!(price(true, 3, bounds).left, 64 * MIB, "that another price was too low says nothing of this one");
        bounds.after_success(price(false, 0, bounds));
        assert_eq!(price(false, 0, bounds).left, 4 * MIB);
    }

    #[test]
    fn a_wal_that_grew_large_is_let_go_at_a_higher_price() {
        const MIB: u64 = 1 << 20;
        // The WAL, its limit, the threshold, is it urgent?
        let table = [
            (0, 1024 * MIB, 4 * MIB, false),
            (256 * MIB - 1, 1024 * MIB, 4 * MIB, false),
            (256 * MIB, 1024 * MIB, 4 * MIB, true),
            (47 * MIB, 64 * MIB, 4 * MIB, false),
            (48 * MIB, 64 * MIB, 4 * MIB, true),
            // An ordinary seal is never urgent.
            (63 * MIB, 64 * MIB, 62 * MIB, false),
            (0, 0, 0, true),
        ];
        for (wal, limit, threshold, urgent) in table {
            let facts = Facts { captured: wal, behind: true, threshold, limit, file: 0 };
            assert_eq!(is_urgent(wal, &facts), urgent, "{facts:?}");
        }
        let mut bounds = Bounds::default();
        let dear = price(true, 2, bounds);
        assert!(dear.wait > BARRIER_LIMIT);
        assert!(!bounds.after_timeout(dear), "no copy waits for that twice in a row");
        assert_eq!(price(true, 2, bounds).left, 32 * MIB);
        assert_eq!(price(false, 2, bounds).left, 64 * MIB);
    }

    #[test]
    fn when_to_empty() {
        const MIB: u64 = 1 << 20;
        // captured, behind, threshold, limit, file, empty it?
        let table = [
            (0, false, 4 * MIB, 1024 * MIB, 4 * MIB, false),
            (4 * MIB - 1, false, 4 * MIB, 1024 * MIB, 4 * MIB, false),
            (4 * MIB, false, 4 * MIB, 1024 * MIB, 4 * MIB, true),
            (4 * MIB, true, 4 * MIB, 1024 * MIB, 4 * MIB, false),
            (64 * MIB - 1, true, 4 * MIB, 1024 * MIB, 64 * MIB, false),
            (64 * MIB, true, 4 * MIB, 1024 * MIB, 64 * MIB, true),
            (96 * MIB, true, 128 * MIB, 1024 * MIB, 96 * MIB, false),
            (128 * MIB, true, 128 * MIB, 1024 * MIB, 128 * MIB, true),
            (8 * MIB, true, 4 * MIB, 16 * MIB, 8 * MIB, true),
            // A file that grew large is cut when writers pause.
            (MIB, false, 4 * MIB, 1024 * MIB, 130 * MIB, true),
            (MIB, true, 4 * MIB, 1024 * MIB, 130 * MIB, false),
            (0, false, 4 * MIB, 1024 * MIB, 130 * MIB, false),
        ];
        for (captured, behind, threshold, limit, file, expected) in table {
            let facts = Facts { captured, behind, threshold, limit, file };
            assert_eq!(due(facts), expected, "{facts:?}");
        }
    }
}
