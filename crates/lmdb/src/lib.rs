//! LMDB: environments kept in step between servers through snapshots in a vault, beside Lightning Stream.
//!
//! Every instance writes whole snapshots of its environment and merges the snapshots of the others: the newest version
//! of a key wins everywhere. Names, bytes and rules are Lightning Stream's, so that either program can take part.
//!
//! The rooms: `snapshot` (the format as bytes), `environment` (liblmdb, safely), `header`, `flags`, `order`, `dupsort`
//! (what keys and values look like), `merge` (whose value wins?), `dump` (an environment as a snapshot), `cut` (in
//! which pieces), `load` (a snapshot into an environment), `latest` (which snapshots are merged?), `known` (which
//! pieces of them?), `session` (keeping an environment in step). Decisions are pure and have table tests; the bytes are
//! in `docs/formats.md`.

#[doc(hidden)]
pub mod fuzzing;

mod apply;
mod belongs;
mod capture;
mod cut;
mod dump;
mod dupsort;
mod engine;
mod environment;
mod error;
mod fill;
mod flags;
mod header;
mod known;
mod latest;
mod listing;
mod load;
mod local;
mod marker;
mod merge;
mod migrate;
mod order;
mod own;
mod peers;
mod plan;
mod prove;
mod rejoin;
mod restore;
mod retention;
mod rollback;
mod schema;
mod seek;
mod session;
mod shape;
pub mod snapshot;
pub mod snapshots;
mod spool;
mod standing;
mod state;
mod status;
mod sweep;
mod transfer;
pub mod view;

pub use apply::{Applied, Pace};
pub use dump::{Dumped, Stretch};
pub use engine::{Lmdb, LmdbOptions, author, read_status};
pub use environment::{Cursor, Dbi, DbiStat, Env, EnvInfo, EnvOptions, LmdbError, Meaning, Pair, ReadTxn, WriteTxn};
pub use error::Error;
pub use flags::Flags;
pub use local::{Author, Loaded, Local, Settings, Swept};
pub use marker::Marker;
pub use migrate::{Migrated, Migration, migrate};
pub use retention::Retention;
pub use schema::Schema;
pub use session::{NanoClock, Report, Session, Sweep, SyncOptions, system_clock};
pub use status::{Cleaning, Doing, EnvStatus, SessionStatus, Start, Sweeping, Tried};

/// A moment in nanoseconds since the Unix epoch: what versions of a key are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp(pub u64);
