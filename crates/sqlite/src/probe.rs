//! Where tests get into the engine: between two of its steps, at its writes to the local disk, and with a defect on purpose.
//!
//! A process that shares a database with others may be overtaken between any two system calls. [`Probe::at`] marks the places
//! where that matters; there a test lets an application commit, checkpoint or close. A [`Defect`] makes the engine wrong in one
//! way, and a test proves that the other tests see it: a suite that has never failed proves nothing.
//!
//! All of it exists with the feature `testing` and debug assertions only. In every other build a [`Probe`] has no size, its
//! functions are empty, and there is no way to hand an intruder in.

#![cfg_attr(not(all(feature = "testing", debug_assertions)), allow(unreachable_pub, reason = "public for tests"))]

#[cfg(all(feature = "testing", debug_assertions))]
pub use place::Intruder;
pub(crate) use place::Probe;

/// Where the engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The database is being opened: before and after the read lock is taken.
    Opening,
    /// The place in the WAL was checked; nothing after it was read.
    Observed,
    /// The WAL was read to its end; the frames aren't proved yet.
    Scanned,
    /// The places of all pages of a complete state are known, and none of the pages was read.
    Stocked,
    /// Before a page or a run of pages is read.
    Reading,
    /// Before and after another connection takes the read lock at the present end.
    Advancing,
    /// The barrier is up.
    Barred,
    /// Under the barrier everything is captured, and the WAL still held.
    Captured,
    /// The old read lock was released, and the WAL isn't copied yet.
    LetGo,
    /// Everything is copied and kept, and the WAL still held.
    Copied,
    /// The WAL was let go under the barrier, and is held again.
    Released,
    /// The barrier was lifted to cut the WAL.
    Cutting,
}

/// A deliberate defect of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(all(feature = "testing", debug_assertions)), allow(dead_code, reason = "no build but a test's has one"))]
pub enum Defect {
    /// An upload under way counts as durable.
    AcknowledgesFirst,
    /// A frame with the right salts counts as the captured frame.
    SkipsTheChain,
    /// A WAL of the same size and modification time is taken for unchanged.
    TrustsSizeAndMtime,
    /// The WAL is emptied without keeping writers out.
    ForgetsTheBarrier,
}

#[cfg(not(all(feature = "testing", debug_assertions)))]
mod place {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    use super::{Defect, Step};

    /// Nothing.
    #[derive(Debug, Clone, Default)]
    pub(crate) struct Probe(());

    impl Probe {
        pub(crate) fn at(&self, _: Step) {}

        pub(crate) fn write(&self, _: &Path) -> io::Result<()> {
            Ok(())
        }

        pub(crate) fn read(&self, _: &Path) -> io::Result<()> {
            Ok(())
        }

        pub(crate) fn has(&self, _: Defect) -> bool {
            false
        }

        pub(crate) fn has_grips(&self) -> bool {
            true
        }

        pub(crate) fn looks_unchanged(&self, _: Option<&File>) -> bool {
            false
        }
    }
}

#[cfg(all(feature = "testing", debug_assertions))]
mod place {
    use std::fmt;
    use std::fs::File;
    use std::io;
    use std::path::Path;
    use std::sync::{Arc, Mutex, PoisonError};
    use std::time::SystemTime;

    use super::{Defect, Step};

    /// A test's interference with an engine. It is called on the engine's threads.
    pub trait Intruder: Send + Sync {
        /// Acts while the engine is at `step`.
        fn at(&self, step: Step) {
            let _nothing = step;
        }

        /// Whether the local disk accepts the next write.
        ///
        /// # Errors
        ///
        /// The disk's answer instead.
        fn write(&self, path: &Path) -> io::Result<()> {
            let _always = path;
            Ok(())
        }

        /// Whether the machine can open and read the next file.
        ///
        /// # Errors
        ///
        /// The machine's answer instead.
        fn read(&self, path: &Path) -> io::Result<()> {
            let _always = path;
            Ok(())
        }

        /// Whether the system has the locks that hold a WAL without a connection.
        fn has_grips(&self) -> bool {
            true
        }

        /// The deliberate defect of the engine.
        fn defect(&self) -> Option<Defect> {
            None
        }
    }

    /// The way in for an [`Intruder`]. Clones share it.
    #[derive(Clone, Default)]
    pub(crate) struct Probe(Option<Arc<Entered>>);

    struct Entered {
        intruder: Arc<dyn Intruder>,
        /// Size and modification time of the WAL at the last look.
        seen: Mutex<Option<(u64, SystemTime)>>,
    }

    impl Probe {
        pub(crate) fn new(intruder: Arc<dyn Intruder>) -> Self {
            Self(Some(Arc::new(Entered { intruder, seen: Mutex::default() })))
        }

        pub(crate) fn at(&self, step: Step) {
            if let Some(entered) = &self.0 {
                entered.intruder.at(step);
            }
        }

        pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
            self.0.as_ref().map_or(Ok(()), |entered| entered.intruder.write(path))
        }

        pub(crate) fn read(&self, path: &Path) -> io::Result<()> {
            self.0.as_ref().map_or(Ok(()), |entered| entered.intruder.read(path))
        }

        pub(crate) fn has(&self, defect: Defect) -> bool {
            self.0.as_ref().is_some_and(|entered| entered.intruder.defect() == Some(defect))
        }

        pub(crate) fn has_grips(&self) -> bool {
            self.0.as_ref().is_none_or(|entered| entered.intruder.has_grips())
        }

        /// The defect [`Defect::TrustsSizeAndMtime`]: whether the WAL looks as it did at the last look.
        pub(crate) fn looks_unchanged(&self, wal: Option<&File>) -> bool {
            if !self.has(Defect::TrustsSizeAndMtime) {
                return false;
            }
            let look = |wal: &File| wal.metadata().and_then(|now| Ok((now.len(), now.modified()?))).ok();
            let (Some(now), Some(entered)) = (wal.and_then(look), &self.0) else { return false };
            let mut seen = entered.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.replace(now) == Some(now)
        }
    }

    impl fmt::Debug for Probe {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_tuple("Probe").field(&self.0.is_some()).finish()
        }
    }
}
