//! Transactions: a consistent state of the environment, and changes that appear all at once or not at all.

use std::ffi::c_uint;
use std::ops::Deref;
use std::ptr;

use lmdb_sys as sys;

use super::cursor::Cursor;
use super::error::{LmdbError, check, found};
use super::{Env, Handle, Held, c_text};
use crate::error::Error;
use crate::schema::flags::Flags;

/// The handle of a DBI, with its flags. Valid for the environment that returned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dbi {
    raw: sys::MDB_dbi,
    flags: Flags,
}

impl Dbi {
    /// How its keys are ordered, and whether they have several values.
    pub fn flags(self) -> Flags {
        self.flags
    }
}

/// Size figures of a DBI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DbiStat {
    /// Values.
    pub entries: u64,
    /// Bytes of its pages.
    pub bytes: u64,
    /// Levels of its tree.
    pub depth: u32,
    /// Branch, leaf and overflow pages.
    pub pages: (u64, u64, u64),
}

/// A read transaction. It holds this process's lock of the environment, and sees one consistent state. Writers can't
/// reuse the pages that it sees, so it should be short.
pub struct ReadTxn<'e> {
    env: &'e Env,
    raw: *mut sys::MDB_txn,
    handles: Held<'e>,
    /// Whether this is the reading half of a [`WriteTxn`].
    writes: bool,
}

impl<'e> ReadTxn<'e> {
    /// # Safety
    /// `raw` is an active transaction of `env`, whose lock is `handles`, and no other code ends it.
    pub(super) unsafe fn new(env: &'e Env, handles: Held<'e>, raw: *mut sys::MDB_txn) -> Self {
        Self { env, raw, handles, writes: false }
    }

    /// The environment.
    pub fn env(&self) -> &'e Env {
        self.env
    }

    /// The last transaction that this one can see; for a write transaction, its own number.
    pub fn id(&self) -> u64 {
        // SAFETY: the transaction is active for as long as `self` lives.
        unsafe { sys::mdb_txn_id(self.raw) as u64 }
    }

    /// A DBI; `None` if none has this name.
    pub fn open(&mut self, name: &[u8]) -> Result<Option<Dbi>, Error> {
        if let Some(at) = self.handles.iter().position(|handle| handle.name == name) {
            // The handle may be outdated: another process may have dropped the DBI, or made it again with other flags.
            match self.handles.get(at).map(|handle| (handle.dbi, self.probe(handle.dbi, name))) {
                Some((dbi, Ok(()))) => return Ok(Some(dbi)),
                Some((_, Err(error))) if !matches!(error.code, sys::MDB_BAD_DBI | sys::MDB_INCOMPATIBLE) => {
                    return Err(self.fault(error));
                }
                _ => self.forget(at),
            }
        }
        match self.open_raw(name, 0) {
            Ok(dbi) => Ok(Some(dbi)),
            Err(error) if error.code == sys::MDB_NOTFOUND => Ok(None),
            Err(error) => Err(self.fault(error)),
        }
    }

    /// Whether a handle is still valid: the DBI is listed, and has the same flags.
    fn probe(&self, dbi: Dbi, name: &[u8]) -> Result<(), LmdbError> {
        let (mut name, mut key, mut value) = (to_val(name), to_val(&[]), to_val(&[]));
        let root = self.root()?;
        // SAFETY: the transaction is active; the places outlive the call.
        let code = unsafe { sys::mdb_get(self.raw, root.raw, &mut name, &mut value) };
        if !found(code, "mdb_get")? {
            return Err(LmdbError { code: sys::MDB_BAD_DBI, call: "mdb_get" });
        }
        let mut cursor = ptr::null_mut();
        // SAFETY: the transaction is active and the handle is of its environment. The cursor is closed below.
        check(unsafe { sys::mdb_cursor_open(self.raw, dbi.raw, &mut cursor) }, "mdb_cursor_open")?;
        // SAFETY: the cursor was opened above; both places outlive the call.
        let code = unsafe { sys::mdb_cursor_get(cursor, &mut key, &mut value, sys::MDB_FIRST) };
        // SAFETY: the cursor is open, and not used after this.
        unsafe { sys::mdb_cursor_close(cursor) };
        found(code, "mdb_cursor_get").map(drop)
    }

    /// The unnamed DBI, in which all others are listed.
    fn root(&self) -> Result<Dbi, LmdbError> {
        let mut raw = 0;
        // SAFETY: no name is the unnamed DBI, whose handle always exists.
        check(unsafe { sys::mdb_dbi_open(self.raw, ptr::null(), 0, &mut raw) }, "mdb_dbi_open")?;
        Ok(Dbi { raw, flags: Flags::default() })
    }

    /// Closes an outdated handle.
    fn forget(&mut self, at: usize) {
        let handle = self.handles.remove(at);
        // SAFETY: no other transaction of this process is active (we hold the lock), and this one has changed nothing
        // through the handle, because it never fitted.
        unsafe { sys::mdb_dbi_close(self.env.raw, handle.dbi.raw) };
    }

    fn open_raw(&mut self, name: &[u8], flags: c_uint) -> Result<Dbi, LmdbError> {
        let text = c_text(name, "mdb_dbi_open")?;
        let mut raw = 0;
        // SAFETY: the transaction is active; no other one of this process opens handles, because of the lock.
        check(unsafe { sys::mdb_dbi_open(self.raw, text.as_ptr(), flags, &mut raw) }, "mdb_dbi_open")?;
        let mut bits = 0;
        // SAFETY: the handle was opened above in this transaction.
        check(unsafe { sys::mdb_dbi_flags(self.raw, raw, &mut bits) }, "mdb_dbi_flags")?;
        let flags = u16::try_from(bits & 0xffff).ok().and_then(Flags::parse).unwrap_or_default();
        let dbi = Dbi { raw, flags };
        let fresh = self.writes;
        self.handles.push(Handle { name: name.to_vec(), dbi, fresh });
        Ok(dbi)
    }

    /// Names of all DBIs, in the order of their bytes.
    ///
    /// # Errors
    /// Where the unnamed DBI holds plain data: such an environment has no DBIs that could be told apart.
    pub fn names(&mut self) -> Result<Vec<Vec<u8>>, Error> {
        let root = self.root().map_err(|error| self.fault(error))?;
        let mut cursor = self.cursor(root)?;
        let mut names = Vec::new();
        let mut next = cursor.first()?;
        while let Some((name, _)) = next {
            names.push(name.to_vec());
            next = cursor.next()?;
        }
        Ok(names)
    }

    /// A cursor over a DBI.
    pub fn cursor(&self, dbi: Dbi) -> Result<Cursor<'_>, Error> {
        let mut raw = ptr::null_mut();
        // SAFETY: the transaction is active and the handle is of its environment.
        let code = unsafe { sys::mdb_cursor_open(self.raw, dbi.raw, &mut raw) };
        check(code, "mdb_cursor_open").map_err(|error| self.fault(error))?;
        // SAFETY: opened above, in a transaction that is active for as long as `self` is borrowed.
        Ok(unsafe { Cursor::new(raw, self.env.path()) })
    }

    /// The value of a key; of several values the first.
    pub fn get(&self, dbi: Dbi, key: &[u8]) -> Result<Option<&[u8]>, Error> {
        let (mut key, mut value) = (to_val(key), to_val(&[]));
        // SAFETY: the transaction is active; both places outlive the call, and liblmdb only reads the key.
        let code = unsafe { sys::mdb_get(self.raw, dbi.raw, &mut key, &mut value) };
        match found(code, "mdb_get") {
            // SAFETY: the value lies in the map or in a dirty page, and stays there until the transaction ends or
            // changes something: both need `self` for themselves, while the value borrows it.
            Ok(true) => Ok(Some(unsafe { from_val(&value) })),
            Ok(false) => Ok(None),
            Err(error) => Err(self.fault(error)),
        }
    }

    /// Size figures of a DBI.
    pub fn stat(&self, dbi: Dbi) -> Result<DbiStat, Error> {
        self.stat_raw(dbi).map_err(|error| self.fault(error))
    }

    fn stat_raw(&self, dbi: Dbi) -> Result<DbiStat, LmdbError> {
        // SAFETY: plain numbers, for which zeros are values.
        let mut stat: sys::MDB_stat = unsafe { std::mem::zeroed() };
        // SAFETY: the transaction is active and the handle is of its environment.
        check(unsafe { sys::mdb_stat(self.raw, dbi.raw, &mut stat) }, "mdb_stat")?;
        let pages = (stat.ms_branch_pages as u64, stat.ms_leaf_pages as u64, stat.ms_overflow_pages as u64);
        Ok(DbiStat {
            entries: stat.ms_entries as u64,
            bytes: (pages.0 + pages.1 + pages.2).saturating_mul(stat.ms_psize.into()),
            depth: stat.ms_depth,
            pages,
        })
    }

    fn fault(&self, error: LmdbError) -> Error {
        Error::lmdb(self.env.path())(error)
    }

    /// Takes the raw transaction out, so that the caller ends it.
    fn take(&mut self) -> *mut sys::MDB_txn {
        std::mem::replace(&mut self.raw, ptr::null_mut())
    }
}

impl Drop for ReadTxn<'_> {
    fn drop(&mut self) {
        let raw = self.take();
        if !raw.is_null() {
            // A commit, so that the handles that the transaction opened stay open. A read transaction changes nothing.
            // SAFETY: the transaction is active and nothing uses it after this.
            unsafe { sys::mdb_txn_commit(raw) };
        }
    }
}

/// A write transaction: at most one exists across all processes. Dropping it changes nothing.
pub struct WriteTxn<'e> {
    inner: ReadTxn<'e>,
    changed: bool,
}

impl<'e> Deref for WriteTxn<'e> {
    type Target = ReadTxn<'e>;

    fn deref(&self) -> &ReadTxn<'e> {
        &self.inner
    }
}

impl<'e> WriteTxn<'e> {
    /// # Safety
    /// `raw` is an active write transaction of `env`, whose lock is `handles`, and no other code ends it.
    pub(super) unsafe fn new(env: &'e Env, handles: Held<'e>, raw: *mut sys::MDB_txn) -> Self {
        Self { inner: ReadTxn { env, raw, handles, writes: true }, changed: false }
    }

    /// A DBI; `None` if none has this name.
    pub fn open(&mut self, name: &[u8]) -> Result<Option<Dbi>, Error> {
        self.inner.open(name)
    }

    /// Names of all DBIs, as [`ReadTxn::names`].
    pub fn names(&mut self) -> Result<Vec<Vec<u8>>, Error> {
        self.inner.names()
    }

    /// Whether the transaction has changed anything. A transaction without changes gets no number of its own.
    pub fn changed(&self) -> bool {
        self.changed
    }

    /// A DBI, made with `flags` if it doesn't exist.
    pub fn create(&mut self, name: &[u8], flags: Flags) -> Result<Dbi, Error> {
        if let Some(dbi) = self.open(name)? {
            return Ok(dbi);
        }
        self.changed = true;
        let opened = self.inner.open_raw(name, c_uint::from(flags.bits()) | sys::MDB_CREATE);
        opened.map_err(|error| self.fault(error))
    }

    /// Sets the value of a key; in a DBI with duplicates adds it.
    pub fn put(&mut self, dbi: Dbi, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.put_raw(dbi, key, value, 0)
    }

    /// Like [`WriteTxn::put`], for a key that sorts after all others.
    pub fn append(&mut self, dbi: Dbi, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.put_raw(dbi, key, value, sys::MDB_APPEND)
    }

    fn put_raw(&mut self, dbi: Dbi, key: &[u8], value: &[u8], flags: c_uint) -> Result<(), Error> {
        self.changed = true;
        let (mut key, mut value) = (to_val(key), to_val(value));
        // SAFETY: the transaction is active and may write; liblmdb only reads key and value, which the caller can't have
        // borrowed from this transaction, because that would need `self`.
        let code = unsafe { sys::mdb_put(self.raw, dbi.raw, &mut key, &mut value, flags) };
        check(code, "mdb_put").map_err(|error| self.fault(error))
    }

    /// Removes a key with all its values; returns whether it existed.
    pub fn delete(&mut self, dbi: Dbi, key: &[u8]) -> Result<bool, Error> {
        let mut key = to_val(key);
        // SAFETY: as for `put_raw`.
        let code = unsafe { sys::mdb_del(self.raw, dbi.raw, &mut key, ptr::null_mut()) };
        let deleted = found(code, "mdb_del").map_err(|error| self.fault(error))?;
        self.changed |= deleted;
        Ok(deleted)
    }

    /// Removes one value of a key; returns whether it existed.
    pub fn delete_value(&mut self, dbi: Dbi, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        let (mut key, mut value) = (to_val(key), to_val(value));
        // SAFETY: as for `put_raw`.
        let code = unsafe { sys::mdb_del(self.raw, dbi.raw, &mut key, &mut value) };
        let deleted = found(code, "mdb_del").map_err(|error| self.fault(error))?;
        self.changed |= deleted;
        Ok(deleted)
    }

    /// Removes a DBI.
    pub fn drop_dbi(&mut self, name: &[u8]) -> Result<bool, Error> {
        let Some(dbi) = self.open(name)? else { return Ok(false) };
        self.changed = true;
        // SAFETY: the transaction is active and may write; the handle is of its environment, and it isn't used after
        // this: liblmdb closes it.
        let code = unsafe { sys::mdb_drop(self.raw, dbi.raw, 1) };
        check(code, "mdb_drop").map_err(|error| self.fault(error))?;
        self.inner.handles.retain(|handle| handle.name != name);
        Ok(true)
    }

    /// Makes the changes durable and visible.
    pub fn commit(mut self) -> Result<(), Error> {
        let raw = self.inner.take();
        // SAFETY: the transaction was active; it is gone after this, whatever the answer, and `raw` is null now.
        let code = unsafe { sys::mdb_txn_commit(raw) };
        check(code, "mdb_txn_commit").map_err(|error| self.fault(error))?;
        self.inner.handles.iter_mut().for_each(|handle| handle.fresh = false);
        Ok(())
    }
}

impl Drop for WriteTxn<'_> {
    fn drop(&mut self) {
        let raw = self.inner.take();
        if !raw.is_null() {
            // SAFETY: the transaction is active and nothing uses it after this.
            unsafe { sys::mdb_txn_abort(raw) };
        }
        // Handles that a commit kept aren't new any more.
        self.inner.handles.retain(|handle| !handle.fresh);
    }
}

pub(super) fn to_val(bytes: &[u8]) -> sys::MDB_val {
    // liblmdb takes a mutable pointer and only reads.
    sys::MDB_val { mv_size: bytes.len(), mv_data: bytes.as_ptr().cast_mut().cast() }
}

/// # Safety
/// `val` was filled by liblmdb, and what it points to lives, unchanged, for `'t`.
pub(super) unsafe fn from_val<'t>(val: &sys::MDB_val) -> &'t [u8] {
    if val.mv_size == 0 || val.mv_data.is_null() {
        return &[];
    }
    // SAFETY: by the contract of this function.
    unsafe { std::slice::from_raw_parts(val.mv_data.cast(), val.mv_size) }
}
