//! Cursors: the keys of a DBI in its own order.

use std::marker::PhantomData;
use std::path::Path;

use lmdb_sys as sys;

use super::error::found;
use super::txn::{from_val, to_val};
use crate::error::Error;

/// A key and a value, in the map.
pub type Pair<'t> = (&'t [u8], &'t [u8]);

/// A cursor. It borrows its transaction, so the transaction can't change anything while the cursor lives.
pub struct Cursor<'t> {
    raw: *mut sys::MDB_cursor,
    path: &'t Path,
    transaction: PhantomData<&'t ()>,
}

impl<'t> Cursor<'t> {
    /// # Safety
    /// `raw` is an open cursor of a transaction that is active and borrowed for `'t`, and no other code closes it.
    pub(super) unsafe fn new(raw: *mut sys::MDB_cursor, path: &'t Path) -> Self {
        Self { raw, path, transaction: PhantomData }
    }

    /// The first pair.
    pub fn first(&mut self) -> Result<Option<Pair<'t>>, Error> {
        self.get(&[], sys::MDB_FIRST)
    }

    /// The last pair.
    pub fn last(&mut self) -> Result<Option<Pair<'t>>, Error> {
        self.get(&[], sys::MDB_LAST)
    }

    /// The next pair; the first one of a new cursor.
    #[expect(clippy::should_implement_trait, reason = "an iterator could not fail")]
    pub fn next(&mut self) -> Result<Option<Pair<'t>>, Error> {
        self.get(&[], sys::MDB_NEXT)
    }

    /// The first pair whose key doesn't sort before `key`.
    pub fn from(&mut self, key: &[u8]) -> Result<Option<Pair<'t>>, Error> {
        self.get(key, sys::MDB_SET_RANGE)
    }

    /// Whether a key has this value among its duplicates.
    pub fn has_value(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        let (mut key, mut value) = (to_val(key), to_val(value));
        // SAFETY: as in `get`.
        let code = unsafe { sys::mdb_cursor_get(self.raw, &mut key, &mut value, sys::MDB_GET_BOTH) };
        found(code, "mdb_cursor_get").map_err(Error::lmdb(self.path))
    }

    fn get(&mut self, key: &[u8], how: sys::MDB_cursor_op) -> Result<Option<Pair<'t>>, Error> {
        let (mut key, mut value) = (to_val(key), to_val(&[]));
        // SAFETY: the cursor is open, and so is its transaction, which `'t` borrows. liblmdb reads what the places point
        // to, and lets them point into the map.
        let code = unsafe { sys::mdb_cursor_get(self.raw, &mut key, &mut value, how) };
        match found(code, "mdb_cursor_get") {
            Ok(true) => {
                // SAFETY: after success of these ways both point into the map or a dirty page, which stay as they are while
                // the transaction neither ends nor changes something: for that it would have to be borrowed exclusively.
                Ok(Some(unsafe { (from_val(&key), from_val(&value)) }))
            }
            Ok(false) => Ok(None),
            Err(error) => Err(Error::lmdb(self.path)(error)),
        }
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: the cursor is open, its transaction too, and nothing uses it after this.
        unsafe { sys::mdb_cursor_close(self.raw) };
    }
}
