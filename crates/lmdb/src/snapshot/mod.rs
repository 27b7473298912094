//! The snapshot format: names, gzip, and protocol buffers that are read and written as a stream.
//!
//! Pure: bytes in, bytes out. The reader trusts no input (I11). Memory is bounded by the largest entry, whatever the
//! size of the snapshot (I5). `docs/formats.md` describes the bytes.

mod codec;
pub(crate) mod encode;
pub(crate) mod fault;
mod gzip;
pub(crate) mod index;
mod name;
mod read;
pub(crate) mod wire;

pub use codec::Codec;
pub(crate) use codec::Decompressor;
pub use fault::{Fault, Rule};
pub(crate) use gzip::Compressor;
pub use name::{GENERATION, SnapshotName};
pub use read::{Database, Item, Limits, Meta, Preamble, Problem, SnapshotReader};

use crate::Stamp;

/// The format version that Seawall writes.
pub(crate) const FORMAT: u32 = 3;

/// The oldest format version whose readers can read Seawall's snapshots.
pub(crate) const COMPAT: u32 = 1;

/// The newest `compatVersion` that Seawall can read.
pub(crate) const READABLE: u32 = 3;

/// The field of the snapshot that holds the number of its DBIs.
pub(crate) const DATABASES: u64 = 100;

/// The field of the snapshot that holds its [`index`].
pub(crate) const INDEX: u64 = 101;

/// The transform of DBIs with duplicates.
pub(crate) const DUPSORT_HACK: &str = "dupsort_hack_v1";

/// The bit of an entry's flags for a deleted key.
pub(crate) const DELETED: u64 = 1;

/// One version of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key, as it is in the DBI or, in shadow mode, in its shadow.
    pub key: &'a [u8],
    /// The application's value, without a header. Empty if the key was deleted.
    pub value: &'a [u8],
    /// When the key got this value, or was deleted.
    pub stamp: Stamp,
    /// Whether the key was deleted.
    pub deleted: bool,
}
