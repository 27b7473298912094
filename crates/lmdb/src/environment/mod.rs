//! A safe interface to liblmdb 0.9, for environments that other processes have open at the same time.
//!
//! This process has one transaction at a time, read or write; it holds the environment's lock. With that, every rule of
//! liblmdb about threads holds by construction: one thread at a time opens handles of DBIs, the map is moved only while
//! nothing points into it, and a thread never has two transactions. Between processes, liblmdb's own locks apply.
//!
//! Another process may make the map larger. This process maps the new size when its next transaction begins. The
//! opening of the environment and each write transaction free the reader slots of dead processes.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

mod cursor;
mod cut;
mod error;
pub(crate) mod holders;
mod options;
mod resident;
mod txn;
mod whole;

use std::ffi::{CString, c_int, c_uint};
use std::fs;
use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lmdb_sys as sys;

pub use cursor::{Cursor, Pair};
pub use error::{LmdbError, Meaning};
pub use options::EnvOptions;
pub use txn::DbiStat;
pub use txn::{Dbi, ReadTxn, WriteTxn};

use self::options::{check_version, prepare};
use self::whole::{Length, Meta};
use crate::error::Error;

/// The size of a new map if no setting gives it.
const NEW_MAP: u64 = 1 << 30;

/// Data files that this process has open, by device and inode. If a process opened a file twice, liblmdb's locks would
/// break.
static OPEN: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

/// Facts about an environment that need no transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnvInfo {
    /// Bytes of the map.
    pub map_size: u64,
    /// Bytes of the file that are in use.
    pub used: u64,
    /// The last transaction that was committed.
    pub last_transaction: u64,
    /// Reader slots in use, and all reader slots.
    pub readers: (u32, u32),
}

/// An open environment.
pub struct Env {
    /// Null once [`Env::close`] closed it.
    raw: *mut sys::MDB_env,
    path: PathBuf,
    /// The data file.
    data: PathBuf,
    no_subdir: bool,
    /// Device and inode of the data file, once it is listed in [`OPEN`].
    identity: Option<(u64, u64)>,
    /// Device and inode of the lock file, taken right after the opening.
    lock_identity: Option<(u64, u64)>,
    max_dbs: u32,
    largest_map: Option<u64>,
    /// The most bytes that the data file had. Only a process with `MDB_WRITEMAP` may make it shorter: it gives the file
    /// the length of its own map, and keeps every page that was ever taken.
    longest: AtomicU64,
    /// The newest meta page and the file's length at the last look that found only free pages missing.
    lacking: Mutex<Option<(Meta, u64)>>,
    /// What the process says if it must end because the file was cut.
    words: &'static cut::Words,
    /// The environment's lock: the thread that holds it may have a transaction.
    handles: Mutex<Handles>,
}

/// The handle of a DBI, by its name.
#[derive(Debug)]
struct Handle {
    name: Vec<u8>,
    dbi: Dbi,
    /// Handles that the current write transaction opened. If the transaction is aborted, liblmdb closes them.
    fresh: bool,
}

/// Handles that are open and stay open.
type Handles = Vec<Handle>;

/// The environment's lock, held. Meanwhile this thread may read from the environment's map.
struct Held<'e> {
    handles: MutexGuard<'e, Handles>,
    _inside: cut::Inside,
}

impl Deref for Held<'_> {
    type Target = Handles;

    fn deref(&self) -> &Handles {
        &self.handles
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Handles {
        &mut self.handles
    }
}

// SAFETY: an MDB_env may be used by any thread; what may not be done by two at once is done only under `handles`, and
// environments are opened with NOTLS, so that a transaction isn't tied to a thread's storage.
unsafe impl Send for Env {}
// SAFETY: as above.
unsafe impl Sync for Env {}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Env").field(&self.path).finish()
    }
}

impl Env {
    /// Opens an environment.
    pub fn open(path: &Path, options: &EnvOptions) -> Result<Self, Error> {
        Self::open_but_for(path, options, None)
    }

    /// Opens an environment that this process doesn't have open yet, except for the data file `own`.
    fn open_but_for(path: &Path, options: &EnvOptions, own: Option<(u64, u64)>) -> Result<Self, Error> {
        check_version()?;
        let file = if options.no_subdir { path.to_owned() } else { path.join("data.mdb") };
        let fresh = prepare(path, &file, options)?;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(identity) = identity(&file)
            && own != Some(identity)
            && open.contains(&identity)
        {
            return Err(Error::OpenTwice { path: path.to_owned() });
        }
        let mut env = Self::open_raw(path, file, options, fresh).map_err(Error::lmdb(path))?;
        // Before the first read through the map: another program may have cut the file before.
        {
            let _guard = env.lock();
            env.whole()?;
        }
        env.identity = identity(&env.data);
        env.lock_identity = identity(&holders::lock_file(&env.data, options.no_subdir));
        open.extend(env.identity);
        drop(open);
        env.clear_dead_readers().map_err(Error::lmdb(path))?;
        Ok(env)
    }

    fn open_raw(path: &Path, data: PathBuf, options: &EnvOptions, fresh: bool) -> Result<Self, LmdbError> {
        let text = c_text(path.as_os_str().as_bytes(), "mdb_env_open")?;
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is a place for the environment.
        error::check(unsafe { sys::mdb_env_create(&mut raw) }, "mdb_env_create")?;
        // From here on, dropping the environment closes it, also after a failure.
        let (max_dbs, largest_map) = (options.max_dbs, options.largest_map);
        let env = Self {
            raw,
            path: path.to_owned(),
            data,
            no_subdir: options.no_subdir,
            identity: None,
            lock_identity: None,
            max_dbs,
            largest_map,
            longest: AtomicU64::new(0),
            lacking: Mutex::default(),
            words: cut::words(path),
            handles: Mutex::default(),
        };
        // Each DBI may need a shadow, so that `max_dbs` counts only the application's DBIs.
        let handles = options.max_dbs.saturating_mul(2).saturating_add(8);
        // SAFETY: the environment was made above and isn't open yet, as these calls want it.
        error::check(unsafe { sys::mdb_env_set_maxdbs(raw, handles) }, "mdb_env_set_maxdbs")?;
        if let Some(size) = options.map_size.or(fresh.then_some(NEW_MAP)) {
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            // SAFETY: as above.
            error::check(unsafe { sys::mdb_env_set_mapsize(raw, size) }, "mdb_env_set_mapsize")?;
        }
        let flags = sys::MDB_NOTLS | if options.no_subdir { sys::MDB_NOSUBDIR } else { 0 };
        let _inside = cut::Inside::new(env.words);
        // SAFETY: `text` ends with a NUL and lives through the call; this process hasn't opened the same lock file (OPEN).
        error::check(unsafe { sys::mdb_env_open(raw, text.as_ptr(), flags, options.mode()) }, "mdb_env_open")?;
        Ok(env)
    }

    /// The path, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Device and inode of the data file that is open.
    pub(crate) fn identity(&self) -> Option<(u64, u64)> {
        self.identity
    }

    /// Device and inode of the lock file that is open.
    pub(crate) fn lock_identity(&self) -> Option<(u64, u64)> {
        self.lock_identity
    }

    /// Opens the same data file once more, because the lock file that this environment has open lost its name. Until
    /// this environment is dropped, both are open. Their locks are on different files, so that neither loses the
    /// other's.
    pub(crate) fn open_beside(&self, options: &EnvOptions) -> Result<Self, Error> {
        Self::open_but_for(&self.path, options, self.identity)
    }

    /// The most DBIs that the application may have.
    pub fn max_dbs(&self) -> u32 {
        self.max_dbs
    }

    /// Facts that need no transaction.
    pub fn info(&self) -> Result<EnvInfo, Error> {
        let _guard = self.lock();
        self.whole()?;
        // SAFETY: plain numbers, for which zeros are values.
        let mut info: sys::MDB_envinfo = unsafe { std::mem::zeroed() };
        // SAFETY: the environment is open, the places are ours, and nothing moves the map while we hold the lock.
        let code = unsafe { sys::mdb_env_info(self.raw, &mut info) };
        error::check(code, "mdb_env_info").map_err(Error::lmdb(&self.path))?;
        // SAFETY: plain numbers, for which zeros are values.
        let mut stat: sys::MDB_stat = unsafe { std::mem::zeroed() };
        // SAFETY: as for the information.
        let code = unsafe { sys::mdb_env_stat(self.raw, &mut stat) };
        error::check(code, "mdb_env_stat").map_err(Error::lmdb(&self.path))?;
        Ok(EnvInfo {
            map_size: info.me_mapsize as u64,
            used: (info.me_last_pgno as u64 + 1).saturating_mul(stat.ms_psize.into()),
            last_transaction: info.me_last_txnid as u64,
            readers: (info.me_numreaders, info.me_maxreaders),
        })
    }

    /// Begins a read transaction. Waits while this process has another transaction.
    pub fn read(&self) -> Result<ReadTxn<'_>, Error> {
        let guard = self.lock();
        self.whole()?;
        // SAFETY: the lock is held, and no transaction has it.
        let raw = unsafe { self.begin(sys::MDB_RDONLY) }.map_err(Error::lmdb(&self.path))?;
        // SAFETY: begun above, under this lock.
        Ok(unsafe { ReadTxn::new(self, guard, raw) })
    }

    /// Begins a write transaction. Waits while this process has another transaction, and while another process has a
    /// write transaction.
    pub fn write(&self) -> Result<WriteTxn<'_>, Error> {
        let guard = self.lock();
        self.whole()?;
        self.clear_dead_readers().map_err(Error::lmdb(&self.path))?;
        // SAFETY: the lock is held, and no transaction has it.
        let raw = unsafe { self.begin(0) }.map_err(Error::lmdb(&self.path))?;
        // SAFETY: begun above, under this lock, to write.
        Ok(unsafe { WriteTxn::new(self, guard, raw) })
    }

    /// Removes the map's pages from this process's resident memory. The data stays in the system's file cache as long
    /// as there is room.
    pub(crate) fn let_go(&self) {
        let _guard = self.lock();
        if let Some(identity) = self.identity {
            // SAFETY: this process has the file open once (OPEN), so that only liblmdb maps it, and that not without the lock.
            unsafe { resident::let_go(identity) };
        }
    }

    /// Makes the map `size` bytes large; 0 takes the size that the file records.
    pub fn grow(&self, size: u64) -> Result<(), Error> {
        let _guard = self.lock();
        self.whole()?;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        // SAFETY: the lock is held, and no transaction has it.
        unsafe { self.remap(size) }.map_err(Error::lmdb(&self.path))
    }

    /// Makes room in a full map: another process may have enlarged it, or the options allow it to grow. Returns whether
    /// the map is larger now.
    pub(crate) fn make_room(&self) -> Result<bool, Error> {
        let before = self.info()?.map_size;
        self.grow(0)?;
        let elsewhere = self.info()?.map_size;
        if elsewhere > before {
            tracing::info!(path = %self.path.display(), bytes = elsewhere, "the map was made larger by another process");
            return Ok(true);
        }
        let wanted = self.largest_map.map_or(before, |largest| before.saturating_mul(2).min(largest)).max(before);
        // This call is made even if the map may not grow: the file may record a smaller size than this process requested.
        self.grow(wanted)?;
        let grown = wanted > before;
        if grown {
            tracing::info!(path = %self.path.display(), bytes = wanted, "the map was full and is larger now");
        }
        Ok(grown)
    }

    fn lock(&self) -> Held<'_> {
        // A panic under this lock leaves at worst an open handle that isn't listed.
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        Held { handles, _inside: cut::Inside::new(self.words) }
    }

    /// Refuses a file that another program cut: a read of a missing page through the map would end the process. The
    /// caller holds the lock, or is the only one that has the environment.
    fn whole(&self) -> Result<(), Error> {
        let file = self.file()?;
        let length = whole::length(file);
        let bytes = whole::bytes(file).unwrap_or_default();
        let before = self.longest.fetch_max(bytes, Ordering::Relaxed);
        if !self.has_all_pages(length, bytes) {
            let needed = if let Length::Short(meta) = length { meta.used() } else { 0 };
            return Err(Error::Cut { path: self.path.clone(), bytes, before: before.max(needed) });
        }
        if bytes < before {
            if !holders::has_silent_writers(&self.data, self.no_subdir) {
                return Err(Error::Cut { path: self.path.clone(), bytes, before });
            }
            self.longest.store(bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether no page is missing that the newest transaction uses.
    fn has_all_pages(&self, length: Length, bytes: u64) -> bool {
        let meta = match length {
            Length::Whole => return true,
            Length::NoEnvironment => return false,
            Length::Short(meta) => meta,
        };
        let mut lacking = self.lacking.lock().unwrap_or_else(PoisonError::into_inner);
        if *lacking == Some((meta, bytes)) {
            return true;
        }
        let Ok(file) = self.file() else { return false };
        // SAFETY: the caller of `whole` holds the lock, and no transaction has it. Both meta pages are there, and the
        // call reads no other page.
        let Ok(raw) = (unsafe { self.begin(sys::MDB_RDONLY) }) else { return false };
        // SAFETY: begun above.
        let seen = unsafe { sys::mdb_txn_id(raw) } as u64;
        let whole = whole::lacks_only_free_pages(file, seen);
        // SAFETY: begun above, and not used after this.
        unsafe { sys::mdb_txn_abort(raw) };
        *lacking = whole.then_some((meta, bytes));
        whole
    }

    /// The open data file.
    fn file(&self) -> Result<BorrowedFd<'_>, Error> {
        let mut fd = -1;
        if !self.raw.is_null() {
            // SAFETY: the environment exists; liblmdb only writes to the place.
            let code = unsafe { sys::mdb_env_get_fd(self.raw, &mut fd) };
            error::check(code, "mdb_env_get_fd").map_err(Error::lmdb(&self.path))?;
        }
        if fd < 0 {
            return Err(Error::Closed { path: self.path.clone() });
        }
        // SAFETY: liblmdb keeps the descriptor open for as long as the environment is.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// After the file was cut: whether a whole environment is in its place now. This environment still isn't to be used:
    /// what liblmdb keeps in memory and in the lock file belongs to the old content.
    pub(crate) fn holds_a_whole_one(&self) -> bool {
        let _guard = self.lock();
        let Ok(file) = self.file() else { return false };
        self.has_all_pages(whole::length(file), whole::bytes(file).unwrap_or_default())
    }

    /// Closes the environment. From then on every call is refused with [`Error::Closed`].
    pub(crate) fn close(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: transactions borrow the environment, so that there is none; nothing uses `raw` after this.
            unsafe { sys::mdb_env_close(self.raw) };
            self.raw = ptr::null_mut();
        }
        self.handles.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        // An opening that fails holds the list itself, and has added nothing to it yet.
        if let Some(mine) = self.identity.take() {
            let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(nth) = open.iter().position(|identity| *identity == mine) {
                open.swap_remove(nth);
            }
        }
    }

    /// Begins a transaction, and retries if another process enlarged the map in between.
    ///
    /// # Safety
    /// The caller holds the lock, and no transaction has it.
    unsafe fn begin(&self, flags: c_uint) -> Result<*mut sys::MDB_txn, LmdbError> {
        let mut raw = ptr::null_mut();
        for round in 0.. {
            // SAFETY: the environment is open and this thread has no other transaction: that would hold the lock.
            let code = unsafe { sys::mdb_txn_begin(self.raw, ptr::null_mut(), flags, &mut raw) };
            match code {
                // A bounded number of retries.
                // SAFETY: by the contract of this function, and the transaction that should have begun did not.
                sys::MDB_MAP_RESIZED if round < 10 => unsafe { self.remap(0) }?,
                code => return error::check(code, "mdb_txn_begin").map(|()| raw),
            }
        }
        Ok(raw)
    }

    /// Moves the map.
    ///
    /// # Safety
    /// The caller holds the lock, and no transaction has it.
    unsafe fn remap(&self, size: usize) -> Result<(), LmdbError> {
        // SAFETY: by the contract of this function no transaction of this process is active, so that nothing points into
        // the map.
        error::check(unsafe { sys::mdb_env_set_mapsize(self.raw, size) }, "mdb_env_set_mapsize")
    }

    fn clear_dead_readers(&self) -> Result<(), LmdbError> {
        let mut dead: c_int = 0;
        // SAFETY: the environment is open; any thread may call this at any time.
        error::check(unsafe { sys::mdb_reader_check(self.raw, &mut dead) }, "mdb_reader_check")?;
        if dead > 0 {
            tracing::info!(path = %self.path.display(), dead, "freed the reader slots of processes that died");
        }
        Ok(())
    }
}

impl Drop for Env {
    fn drop(&mut self) {
        self.close();
    }
}

/// Device and inode of a file; `None` if the system doesn't tell.
pub(crate) fn identity(file: &Path) -> Option<(u64, u64)> {
    fs::metadata(file).ok().map(|found| (found.dev(), found.ino()))
}

/// A path as a C string.
pub(crate) fn c_text(bytes: &[u8], call: &'static str) -> Result<CString, LmdbError> {
    CString::new(bytes).map_err(|_| LmdbError { code: rustix::io::Errno::INVAL.raw_os_error(), call })
}
