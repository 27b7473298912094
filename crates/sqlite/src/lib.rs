//! SQLite: a live database kept in a vault, continuously, and restored from it.
//!
//! [`Sqlite`] implements [`seawall_core::Engine`]. It notices commits ([`Watcher`]), reads them from the write-ahead log,
//! ships them as LTX files, and empties the log itself without losing a commit. Replicas have Litestream's layout and
//! either program reads, and continues, what the other wrote.
//!
//! The rooms: `wal` (the log as bytes), `source` (the live file), `continuity` (is this the continuation?), `capture`
//! and `pages` (what changed), `ship` (into the vault), `standing` (is the place as it was left?), `session` (the whole of protecting), `plan` (which objects restore
//! this point?), `target`, `fetch`, `assemble`, `restore`, `timeline`, `prove`; `compaction` (which objects become one?),
//! `retention` (what may go?), `fresh`, `merge`, `maintain`; following: `bridge` (how does it get on?), `mark`, `standby`, `follow`;
//! replicas of Litestream before 0.5: `generations`, `legacy`. Decisions are pure and have table tests; what is written
//! to disk and bucket is in `docs/formats.md`.

#[doc(hidden)]
pub mod fuzzing;

mod admission;
mod assemble;
mod bridge;
mod capture;
mod catalog;
mod checkpoint;
mod compaction;
mod connection;
mod continuity;
mod digests;
mod discover;
mod engine;
mod error;
mod fetch;
mod follow;
mod fresh;
mod generations;
mod grip;
mod hold;
mod holes;
mod identity;
mod layout;
mod legacy;
mod listing;
mod lock;
mod maintain;
mod mark;
mod marks;
mod merge;
mod options;
mod pages;
mod plan;
#[cfg(all(feature = "testing", debug_assertions))]
#[doc(hidden)]
pub mod probe;
#[cfg(not(all(feature = "testing", debug_assertions)))]
mod probe;
mod proof;
mod prove;
mod restore;
mod retention;
mod seal;
mod sealed;
mod session;
mod ship;
mod source;
mod spool;
mod standby;
mod standing;
mod state;
mod survey;
mod target;
mod timeline;
mod wal;
mod watch;

pub use admission::Admission;
pub use digests::digest_of_object;
pub use discover::databases_below;
pub use engine::Sqlite;
pub use listing::{LtxObject, ltx_objects};
pub use lock::is_held as is_protected;
pub use maintain::Turns;
pub use options::{LevelPolicy, Options, Retention, Upkeep, World};
pub use state::{default_state_dir, read_state};
pub use watch::Watcher;
