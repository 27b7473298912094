//! LMDB: environments kept in step between servers through snapshots in a vault, beside Lightning Stream.
//!
//! Every instance writes whole snapshots of its environment and merges the snapshots of the others: the newest version
//! of a key wins everywhere. Names, bytes and rules are Lightning Stream's, so that either program can take part.
//!
//! The rooms:
//!
//! - `environment`: liblmdb behind a safe interface;
//! - `schema`: what keys and values look like, and which DBIs take part;
//! - `snapshot`: the format as bytes;
//! - `capture`: the application's changes, and an environment as a snapshot;
//! - `merge`: a snapshot into an environment, and whose value wins;
//! - `local`: one environment, with what this process knows about it;
//! - `peers`: the snapshots of all instances in a vault: which are merged, and which are ours;
//! - `session`: keeps an environment in step;
//! - `restore`: an environment from snapshots, and their proof.
//!
//! Decisions are pure and have table tests; the bytes are in `docs/formats.md`.

#[doc(hidden)]
pub mod fuzzing;

mod capture;
mod engine;
mod environment;
mod error;
mod local;
mod merge;
mod peers;
mod restore;
mod schema;
mod session;
pub mod snapshot;
pub mod snapshots;
mod status;
pub mod view;

pub use capture::dump::{Dumped, Stretch};
pub use engine::{Lmdb, LmdbOptions, author, read_status};
pub use environment::{Cursor, Dbi, DbiStat, Env, EnvInfo, EnvOptions, LmdbError, Meaning, Pair, ReadTxn, WriteTxn};
pub use error::Error;
pub use local::{Author, Loaded, Local, Settings, Swept, data_file};
pub use merge::apply::{Applied, Pace};
pub use peers::marker::Marker;
pub use peers::orphans::{Cleaner, Orphans, Why, orphans};
pub use peers::retention::Retention;
pub use schema::Schema;
pub use schema::flags::Flags;
pub use schema::migrate::{Migrated, Migration, migrate};
pub use session::{NanoClock, Report, Session, Sweep, SyncOptions, system_clock};
pub use status::{Cleaning, Doing, EnvStatus, SessionStatus, Start, Sweeping, Tried};

/// A moment in nanoseconds since the Unix epoch: what versions of a key are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp(pub u64);
