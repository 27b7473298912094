//! The live database file and its WAL: opens, watches, holds and empties them.

pub(crate) mod checkpoint;
pub(crate) mod connection;
pub(crate) mod continuity;
pub(crate) mod files;
pub(crate) mod grip;
pub(crate) mod handover;
pub(crate) mod header;
pub(crate) mod hold;
pub(crate) mod names;
pub(crate) mod reader;
pub(crate) mod source;
pub(crate) mod standing;
pub(crate) mod untouched;
pub(crate) mod wal;
