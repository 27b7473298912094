//! MySQL and MariaDB: consistent parallel dumps into backup sets, and parallel restores from them.
//!
//! Rows pass as the server's bytes, in the text that `LOAD DATA` reads back, on several connections that see one snapshot, and
//! through the pipeline of `seawall-archive`.
//!
//! The rooms, from a server to a set and back:
//!
//! - `client`: the protocol, rows as lines, and LOAD DATA.
//! - `catalog`: the facts of a server, the rights of our account, databases and tables, users.
//! - `schema`: the statement of each object, and the session in which it means the same.
//! - `dump`: a set with the rows of a database, or of all databases of a server.
//! - `artefact`: a database as one script of SQL, which the vendor's own client loads.
//! - `sample`: which rows are in a sample.
//! - `set`: a set that can be restored, and what of it is wanted.
//! - `preflight`: what a target lacks for a set, with the statements that mend it.
//! - `restore`: a set back into a server: its steps, and the end in which everything gets into the wanted database.
//! - `load`: rows back into tables.
//! - `prove`: restores a set into a throw-away database, and compares it with the set.
//!
//! Beside the rooms: `engine` (the traits of engines of servers), `journal` (the finished steps of a restore), `names`, `detail`
//! (the MySQL part of a manifest), `options` and `error`.

#[doc(hidden)]
pub mod fuzzing;
#[doc(hidden)]
pub mod testing;

mod artefact;
mod catalog;
mod client;
mod detail;
mod dump;
mod engine;
mod error;
mod journal;
mod load;
mod names;
mod options;
mod preflight;
mod prove;
mod restore;
mod sample;
mod schema;
mod set;

pub use catalog::users::{AccountStatements, Globals, LibraryFunction, Plugin, ServerStatement};
pub use client::{Flavour, Host, Target, TlsMode};
pub use detail::{
    BinlogPlace, ColumnDetail, DatabaseDetail, ItemDetail, Method, Position, ServerDetail, ServerFacts, SetDetail,
    SourcePosition, Sql, TableName, Taken,
};
pub use dump::base::dump;
pub use engine::{Destination, Mysql, Prover, Source};
pub use error::{Error, ServerError, Side};
pub use names::NAMES;
pub use options::{DumpOptions, Format, ProveOptions};
pub use prove::prove;
pub use restore::outside::{FileContent, check_file, in_the_way, restore_file};
pub use restore::restore;
pub use schema::{Schema, SequenceStatement, Statistics, StoredKind, StoredObject, TableStatement};
pub use seawall_archive::World;
pub use seawall_archive::server::{Dumped, Limits, Proved, RestoreOptions, Restored};
