//! Error numbers of liblmdb as decisions.

use std::ffi::{CStr, c_int};
use std::fmt;

use lmdb_sys as sys;

/// An error of liblmdb or, where its number is positive, of the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LmdbError {
    pub(super) code: c_int,
    pub(super) call: &'static str,
}

/// What an error means for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The map is full.
    MapFull,
    /// Another process made the map larger than this process mapped it.
    MapResized,
    /// The handle of a DBI is outdated: the DBI was dropped, or made again with other flags.
    Stale,
    /// The key or DBI doesn't exist.
    NotFound,
    /// All reader slots are taken.
    ReadersFull,
    /// The environment is held by a version of liblmdb that can't share it.
    Version,
    /// The file is no LMDB file, or it is damaged.
    Corrupt,
    /// More DBIs than the environment has handles for.
    TooManyDbis,
    /// The unnamed DBI holds something other than DBIs.
    Incompatible,
    /// Permissions don't allow it.
    Denied,
    /// The disk is full.
    DiskFull,
    /// Anything else.
    Other,
}

impl LmdbError {
    /// The decision for the error number.
    pub fn meaning(self) -> Meaning {
        match self.code {
            sys::MDB_MAP_FULL => Meaning::MapFull,
            sys::MDB_MAP_RESIZED => Meaning::MapResized,
            sys::MDB_BAD_DBI => Meaning::Stale,
            sys::MDB_NOTFOUND => Meaning::NotFound,
            sys::MDB_READERS_FULL => Meaning::ReadersFull,
            sys::MDB_VERSION_MISMATCH => Meaning::Version,
            sys::MDB_CORRUPTED | sys::MDB_INVALID | sys::MDB_PAGE_NOTFOUND | sys::MDB_PANIC => Meaning::Corrupt,
            sys::MDB_DBS_FULL => Meaning::TooManyDbis,
            sys::MDB_INCOMPATIBLE => Meaning::Incompatible,
            code if code == rustix::io::Errno::ACCESS.raw_os_error() => Meaning::Denied,
            code if code == rustix::io::Errno::PERM.raw_os_error() => Meaning::Denied,
            code if code == rustix::io::Errno::ROFS.raw_os_error() => Meaning::Denied,
            code if code == rustix::io::Errno::NOSPC.raw_os_error() => Meaning::DiskFull,
            code if code == rustix::io::Errno::DQUOT.raw_os_error() => Meaning::DiskFull,
            code if code == rustix::io::Errno::NOENT.raw_os_error() => Meaning::NotFound,
            _ => Meaning::Other,
        }
    }
}

impl fmt::Display for LmdbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: mdb_strerror takes any number and gives back a string that lives for ever, or strerror's own buffer,
        // which is copied at once; liblmdb has no other function that writes to it.
        let text = unsafe { CStr::from_ptr(sys::mdb_strerror(self.code)) };
        write!(f, "{}: {}", self.call, text.to_string_lossy())
    }
}

impl std::error::Error for LmdbError {}

/// A result of liblmdb.
pub(super) fn check(code: c_int, call: &'static str) -> Result<(), LmdbError> {
    if code == sys::MDB_SUCCESS { Ok(()) } else { Err(LmdbError { code, call }) }
}

/// Like [`check`], but "not found" is a result.
pub(super) fn found(code: c_int, call: &'static str) -> Result<bool, LmdbError> {
    if code == sys::MDB_NOTFOUND { Ok(false) } else { check(code, call).map(|()| true) }
}
