//! Operations on whole files: databases and LTX files by their paths, on several threads. Feature `file`.
//!
//! The rest of this crate takes bytes and returns bytes; this module accesses the file system. Every operation reads
//! with positioned reads in large pieces ([`checksum()`] maps a database under a lease if no process has it open for
//! writing). It works on scoped threads that end with the call. It writes under a temporary name, syncs and renames.
//! Memory: some pieces for each thread, and [`Work::index`]. Only [`apply()`] changes an existing database in place,
//! behind a rollback journal that SQLite itself would play back after a crash.
//!
//! * [`checksum()`], [`page_checksums`]: of a database
//! * [`encode`]: encodes a database with its WAL as a snapshot
//! * [`verify`]: reads a file to its end and checks everything
//! * [`apply()`], [`decode`]: make or change a database from files
//! * [`compact`]: merges files into one
//! * [`diff()`]: which pages differ
//! * [`Journal`]: makes a change of many pages in place atomic
//! * [`read_pages`]: the pages of one file, in order
//!
//! # Databases that are in use
//!
//! The functions that read a database ([`encode`], [`checksum()`], [`page_checksums`], [`diff()`]) take no lock of
//! SQLite's. Two rules are the caller's:
//!
//! * **No process writes meanwhile**, and none makes a checkpoint. Otherwise pages of two moments come together, and in
//!   most cases the call returns `Ok`: [`FileError::Changed`] only tells of a WAL that was restarted or is another one. To
//!   keep writers away, stop the application, or let *another process* hold a read transaction: in WAL mode SQLite then
//!   neither copies newer pages over those that are read here nor restarts the WAL, and in the other modes no
//!   process commits.
//! * **No connection of this process is open on the database.** POSIX locks belong to the process: when a call closes
//!   its own descriptor of the file, the system drops every lock that SQLite holds on the file in this process, and
//!   SQLite doesn't hear of it. Other processes may then write, and the last of them that closes the database may delete
//!   its WAL under the connection. Make the call in a child process, or read a copy that SQLite's backup interface made.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

mod apply;
mod change;
mod checksum;
mod compact;
mod database;
mod decode;
mod diff;
mod encode;
mod error;
mod flush;
mod index;
mod journal;
#[cfg_attr(not(target_os = "linux"), path = "unmapped.rs")]
mod mapped;
mod modern;
mod ordered;
mod replace;
mod sequential;
mod share;
mod spill;
mod tail;
mod touched;
mod verify;
mod wal;

use std::num::NonZeroUsize;

pub use apply::{Applied, ApplyOptions, apply};
pub use checksum::{DatabaseSum, checksum, page_checksums};
pub use compact::compact;
pub use decode::decode;
pub use diff::{Difference, diff};
pub use encode::{EncodeOptions, encode};
pub use error::{FileError, Result};
pub use journal::Journal;
pub use sequential::read_pages;
pub use verify::{Verified, describe, verify};

/// How a call works: on how many threads, and which function hears of its progress.
///
/// ```
/// use std::num::NonZeroUsize;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use seawall_ltx::file::Work;
///
/// let read = AtomicU64::new(0);
/// let progress = |bytes| drop(read.fetch_add(bytes, Ordering::Relaxed));
/// let work = Work { progress: &progress, ..Work::new() }.with_jobs(NonZeroUsize::MIN);
/// assert_eq!(work.jobs.get(), 1);
/// ```
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// Threads; the calling one is the first of them.
    pub jobs: NonZeroUsize,
    /// Called with the number of processed bytes, from any thread. The sum of these numbers is the size of the input.
    pub progress: &'a (dyn Fn(u64) + Sync),
    /// How many bytes of a new file's index stay in memory, at some 3 for each page. The rest goes into a file without
    /// a name beside the output.
    pub index: usize,
}

impl Work<'static> {
    /// As many threads as the machine has processors, at most [`Work::MOST`].
    pub fn new() -> Work<'static> {
        let jobs = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Work { jobs: jobs.min(Work::MOST), progress: &|_| (), index: Work::INDEX }
    }
}

impl Work<'_> {
    /// The most threads that the default uses: beyond it, memory bandwidth and the disk are the limits
    /// (docs/performance.md).
    ///
    /// ```
    /// use seawall_ltx::file::Work;
    ///
    /// assert!(Work::new().jobs <= Work::MOST);
    /// assert_eq!(Work::new().index, Work::INDEX);
    /// ```
    pub const MOST: NonZeroUsize = NonZeroUsize::new(16).expect("it is not 0");

    /// The default for the index bytes in memory: the index of a database of about 40 GB in pages of 4096 bytes.
    pub const INDEX: usize = 32 << 20;

    /// The defaults with this many threads.
    pub fn with_jobs(self, jobs: NonZeroUsize) -> Self {
        Self { jobs, ..self }
    }
}

impl Default for Work<'static> {
    fn default() -> Self {
        Work::new()
    }
}

impl std::fmt::Debug for Work<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work").field("jobs", &self.jobs).finish_non_exhaustive()
    }
}
