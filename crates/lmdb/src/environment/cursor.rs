//! Cursors: the keys of a DBI in its own order.
//!
//! Where that can be done, a cursor steps through the leaf page itself ([`super::leaf`]), and liblmdb's own cursor, which
//! stays behind, is asked for the next page only.

use std::marker::PhantomData;
use std::path::Path;

use lmdb_sys as sys;

use super::error::{check, found};
use super::leaf::Leaf;
use super::txn::{from_val, to_val};
use crate::error::Error;

/// A key and a value, in the map.
pub type Pair<'t> = (&'t [u8], &'t [u8]);

/// A cursor of a transaction that can't change anything while the cursor lives: it borrows the transaction.
pub struct Cursor<'t> {
    raw: *mut sys::MDB_cursor,
    path: &'t Path,
    /// The size of pages that may be looked into.
    pages: Option<usize>,
    /// The key that liblmdb's cursor stands at, as liblmdb told it, if its page wasn't looked at yet.
    landed: Option<*const u8>,
    /// The page that is stepped through.
    leaf: Option<Leaf<'t>>,
    /// The key that liblmdb's cursor must be brought to before it is asked for the next one.
    ahead: Option<&'t [u8]>,
    transaction: PhantomData<&'t ()>,
}

impl<'t> Cursor<'t> {
    /// # Safety
    /// `raw` is an open cursor of a transaction that is active and borrowed for `'t`, and nobody else closes it. `pages` is given
    /// only for a read transaction and a DBI without duplicates, and is the size of the environment's pages and of the
    /// system's: then every key lies in a page of the map that begins at a multiple of it, and doesn't change for `'t`.
    pub(super) unsafe fn new(raw: *mut sys::MDB_cursor, path: &'t Path, pages: Option<usize>) -> Self {
        Self { raw, path, pages, landed: None, leaf: None, ahead: None, transaction: PhantomData }
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
        if let Some(key) = self.landed.take() {
            // SAFETY: liblmdb gave `key`, out of the map, and by the contract of `new` its page is as this wants it.
            self.leaf = self.pages.and_then(|size| unsafe { Leaf::around(key, size) });
        }
        if let Some(pair) = self.leaf.as_mut().and_then(Leaf::step) {
            self.ahead = Some(pair.0);
            return Ok(Some(pair));
        }
        if let Some(ahead) = self.ahead {
            let (mut key, mut value) = (to_val(ahead), to_val(&[]));
            // SAFETY: as in `get`.
            let code = unsafe { sys::mdb_cursor_get(self.raw, &mut key, &mut value, sys::MDB_SET_KEY) };
            check(code, "mdb_cursor_get").map_err(Error::lmdb(self.path))?;
            // The cursor must stand where we do. A damaged key that equals an earlier one would make the walk endless.
            if key.mv_data.cast_const().cast::<u8>() != ahead.as_ptr() {
                return Err(Error::lmdb(self.path)(crate::LmdbError {
                    code: sys::MDB_CORRUPTED,
                    call: "mdb_cursor_get",
                }));
            }
        }
        self.get(&[], sys::MDB_NEXT)
    }

    /// The first pair whose key isn't before `key`.
    pub fn from(&mut self, key: &[u8]) -> Result<Option<Pair<'t>>, Error> {
        self.get(key, sys::MDB_SET_RANGE)
    }

    /// Whether a key has this value among its duplicates.
    pub fn has_value(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        (self.landed, self.leaf, self.ahead) = (None, None, None);
        let (mut key, mut value) = (to_val(key), to_val(value));
        // SAFETY: as in `get`.
        let code = unsafe { sys::mdb_cursor_get(self.raw, &mut key, &mut value, sys::MDB_GET_BOTH) };
        found(code, "mdb_cursor_get").map_err(Error::lmdb(self.path))
    }

    fn get(&mut self, key: &[u8], how: sys::MDB_cursor_op) -> Result<Option<Pair<'t>>, Error> {
        (self.landed, self.leaf, self.ahead) = (None, None, None);
        let (mut key, mut value) = (to_val(key), to_val(&[]));
        // SAFETY: the cursor is open, and so is its transaction, which `'t` borrows. liblmdb reads what the places point
        // to, and lets them point into the map.
        let code = unsafe { sys::mdb_cursor_get(self.raw, &mut key, &mut value, how) };
        match found(code, "mdb_cursor_get") {
            Ok(true) => {
                // SAFETY: after success of these ways both point into the map or a dirty page, which stay as they are while
                // the transaction neither ends nor changes something: for that it would have to be borrowed exclusively.
                let pair = unsafe { (from_val(&key), from_val(&value)) };
                // A damaged page may have an empty key, which needn't point anywhere.
                self.landed = (!pair.0.is_empty()).then_some(key.mv_data.cast_const().cast());
                Ok(Some(pair))
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
