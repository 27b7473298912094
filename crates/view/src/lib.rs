//! A virtual file system for SQLite: shows a database in a vault as a read-only file.
//!
//! `seawall_sqlite::View` finds the pages. Here they become what SQLite reads: `connection` decides what a file of SQLite
//! shows and when it changes, without a line of C; `live` looks for new transactions, once for all connections of a vault;
//! `vfs`, `file` and `functions` are the border to C; `api` has SQLite's functions, of the library that is linked here or of
//! the program that loads an extension; `linked` opens a connection of the linked library.
//!
//! Rules of the border: only these modules are unsafe, and no panic crosses it. The database has the form of a rollback
//! journal, so SQLite looks for no WAL. It is opened read-only; files for temporary tables and sorts are those of SQLite's
//! own file system.

mod api;
mod connection;
mod file;
mod functions;
pub mod linked;
mod live;
mod vfs;

pub use api::{Api, Entry, Routines};
pub use connection::Connection;
pub use functions::add_functions;
pub use live::{Live, WeakLive};
pub use vfs::{Open, register};
