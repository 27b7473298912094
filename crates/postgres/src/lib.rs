//! PostgreSQL: consistent parallel dumps into backup sets, and parallel restores from them.
//!
//! PostgreSQL's own `pg_dump` writes the schema, because it knows every kind of object; the rows go through COPY on
//! several connections that see one snapshot, and through the pipeline of `seawall-archive`.
//!
//! The rooms: `client` (the protocol), `tools` (`pg_dump` and `pg_restore`), `snapshot` (one state for all connections),
//! `inventory` (what is in the database), `plan` (in which pieces is it read?), `properties` (of the
//! database itself), `dump`, `detail` (what a set says); `toc`
//! (which objects are in a schema), `select` (which of them belong to some tables?), `preflight` (what does the target
//! lack?), `restore` with `schema`, `large_objects`, `load` (rows) in `units`, `build` (indexes and constraints), `orphans` (which rows
//! contradict a foreign key?) and `journal` (what is done already).

#[doc(hidden)]
pub mod fuzzing;

mod build;
mod client;
mod detail;
mod dump;
mod error;
mod inventory;
mod journal;
mod large_objects;
mod load;
mod options;
mod orphans;
mod plan;
mod preflight;
mod properties;
mod restore;
mod schema;
mod select;
mod snapshot;
mod toc;
mod tools;
mod units;

pub use client::{Host, Target, TlsMode};
pub use detail::{After, ItemDetail, LargeObject, Locale, Name, Sequence, SetDetail};
pub use dump::{Dumped, dump};
pub use error::{Error, ServerError};
pub use options::{DumpOptions, Limits, World};
pub use properties::Properties;
pub use restore::{RestoreOptions, Restored, restore};
