//! A safe way to liblmdb 0.9: environments that other processes have open at the same time.
//!
//! One transaction at a time in this process, whatever its kind: it holds the environment's lock. With that every rule
//! of liblmdb about threads holds by construction: handles of DBIs are opened by one thread at a time, the map is moved
//! only while nothing points into it, and a thread never has two transactions. Between processes liblmdb's own locks
//! count, as ever.
//!
//! Another process may make the map larger; it is followed when the next transaction begins. Reader slots of processes
//! that died are freed at the opening and with every write transaction.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

mod cursor;
mod error;
mod resident;
mod txn;

use std::ffi::{CString, c_int, c_uint};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lmdb_sys as sys;

pub use cursor::{Cursor, Pair};
pub use error::{LmdbError, Meaning};
pub use txn::DbiStat;
pub use txn::{Dbi, ReadTxn, WriteTxn};

use crate::error::Error;

/// How to open an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvOptions {
    /// The path is a file, not a folder.
    pub no_subdir: bool,
    /// Make it if it isn't there, with its folder.
    pub create: bool,
    /// Permissions of a new folder.
    pub dir_mask: u32,
    /// Permissions of new files.
    pub file_mask: u32,
    /// Bytes of the map; `None` takes what the file says.
    pub map_size: Option<u64>,
    /// The most DBIs.
    pub max_dbs: u32,
    /// How large a map that is full may be made; `None` leaves it as it is.
    pub largest_map: Option<u64>,
}

impl Default for EnvOptions {
    fn default() -> Self {
        Self {
            no_subdir: false,
            create: false,
            dir_mask: 0o775,
            file_mask: 0o664,
            map_size: None,
            max_dbs: 64,
            largest_map: None,
        }
    }
}

/// The size of a new map that nothing was said about.
const NEW_MAP: u64 = 1 << 30;

/// Data files that this process has open, by device and inode: liblmdb's locks don't survive a second opening.
static OPEN: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

/// What an environment is like, without a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnvInfo {
    /// Bytes of the map.
    pub map_size: u64,
    /// Bytes of the file that are in use.
    pub used: u64,
    /// The last transaction that was committed.
    pub last_transaction: u64,
    /// Reader slots in use, and how many there are.
    pub readers: (u32, u32),
}

/// An open environment.
pub struct Env {
    raw: *mut sys::MDB_env,
    path: PathBuf,
    /// Of the data file, once it is listed in [`OPEN`].
    identity: Option<(u64, u64)>,
    max_dbs: u32,
    largest_map: Option<u64>,
    /// Whoever holds it may have a transaction.
    handles: Mutex<Handles>,
}

/// The handle of a DBI, by its name.
#[derive(Debug)]
struct Handle {
    name: Vec<u8>,
    dbi: Dbi,
    /// Opened in the write transaction that is under way: if that is given up, liblmdb closes it.
    fresh: bool,
}

/// Handles that were opened, and stay so.
type Handles = Vec<Handle>;

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
        check_version()?;
        let file = if options.no_subdir { path.to_owned() } else { path.join("data.mdb") };
        let fresh = prepare(path, &file, options)?;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(identity) = identity(&file)
            && open.contains(&identity)
        {
            return Err(Error::OpenTwice { path: path.to_owned() });
        }
        let mut env = Self::open_raw(path, options, fresh).map_err(Error::lmdb(path))?;
        env.identity = identity(&file);
        open.extend(env.identity);
        drop(open);
        env.clear_dead_readers().map_err(Error::lmdb(path))?;
        Ok(env)
    }

    fn open_raw(path: &Path, options: &EnvOptions, fresh: bool) -> Result<Self, LmdbError> {
        let text = c_text(path.as_os_str().as_bytes(), "mdb_env_open")?;
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is a place for the environment.
        error::check(unsafe { sys::mdb_env_create(&mut raw) }, "mdb_env_create")?;
        // From here on the environment is closed by whoever drops it, also after a failure.
        let (max_dbs, largest_map) = (options.max_dbs, options.largest_map);
        let env = Self { raw, path: path.to_owned(), identity: None, max_dbs, largest_map, handles: Mutex::default() };
        // A shadow for each DBI, so that `max_dbs` counts what the application has.
        let handles = options.max_dbs.saturating_mul(2).saturating_add(8);
        // SAFETY: the environment was made above and isn't open yet, as these calls want it.
        error::check(unsafe { sys::mdb_env_set_maxdbs(raw, handles) }, "mdb_env_set_maxdbs")?;
        if let Some(size) = options.map_size.or(fresh.then_some(NEW_MAP)) {
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            // SAFETY: as above.
            error::check(unsafe { sys::mdb_env_set_mapsize(raw, size) }, "mdb_env_set_mapsize")?;
        }
        let flags = sys::MDB_NOTLS | if options.no_subdir { sys::MDB_NOSUBDIR } else { 0 };
        // SAFETY: `text` ends with a NUL and lives through the call; this process hasn't opened the same file (OPEN).
        error::check(unsafe { sys::mdb_env_open(raw, text.as_ptr(), flags, options.file_mask) }, "mdb_env_open")?;
        Ok(env)
    }

    /// The path, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The most DBIs that the application may have.
    pub fn max_dbs(&self) -> u32 {
        self.max_dbs
    }

    /// What can be told without a transaction.
    pub fn info(&self) -> Result<EnvInfo, Error> {
        let _guard = self.lock();
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

    /// Begins a read transaction. Waits for the one that this process has.
    pub fn read(&self) -> Result<ReadTxn<'_>, Error> {
        let guard = self.lock();
        // SAFETY: the lock is held, and no transaction has it.
        let raw = unsafe { self.begin(sys::MDB_RDONLY) }.map_err(Error::lmdb(&self.path))?;
        // SAFETY: begun above, under this lock.
        Ok(unsafe { ReadTxn::new(self, guard, raw) })
    }

    /// Begins a write transaction. Waits for the one that this process has, and for that of any other.
    pub fn write(&self) -> Result<WriteTxn<'_>, Error> {
        let guard = self.lock();
        self.clear_dead_readers().map_err(Error::lmdb(&self.path))?;
        // SAFETY: the lock is held, and no transaction has it.
        let raw = unsafe { self.begin(0) }.map_err(Error::lmdb(&self.path))?;
        // SAFETY: begun above, under this lock, to write.
        Ok(unsafe { WriteTxn::new(self, guard, raw) })
    }

    /// Lets go of what this process has of the map in memory. It stays in the system's cache, which it is shared with, for as long
    /// as there is room.
    pub(crate) fn let_go(&self) {
        let _guard = self.lock();
        if let Some(identity) = self.identity {
            // SAFETY: this process has the file open once (OPEN), so that only liblmdb maps it, and that not without the lock.
            unsafe { resident::let_go(identity) };
        }
    }

    /// Makes the map `size` bytes large; 0 takes what the file says.
    pub fn grow(&self, size: u64) -> Result<(), Error> {
        let _guard = self.lock();
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        // SAFETY: the lock is held, and no transaction has it.
        unsafe { self.remap(size) }.map_err(Error::lmdb(&self.path))
    }

    /// Makes room in a map that is full: another process may have made it larger, or the options allow it to grow.
    /// Whether there is more now.
    pub(crate) fn make_room(&self) -> Result<bool, Error> {
        let before = self.info()?.map_size;
        self.grow(0)?;
        let elsewhere = self.info()?.map_size;
        if elsewhere > before {
            tracing::info!(path = %self.path.display(), bytes = elsewhere, "the map was made larger by another process");
            return Ok(true);
        }
        let wanted = self.largest_map.map_or(before, |largest| before.saturating_mul(2).min(largest)).max(before);
        // Also where it may not grow: what the file says may be less than what was asked for here.
        self.grow(wanted)?;
        let grown = wanted > before;
        if grown {
            tracing::info!(path = %self.path.display(), bytes = wanted, "the map was full and is larger now");
        }
        Ok(grown)
    }

    fn lock(&self) -> MutexGuard<'_, Handles> {
        // A panic while it was held leaves at worst an opened handle that isn't listed.
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a transaction, once more if another process made the map larger in between.
    ///
    /// # Safety
    /// The caller holds the lock, and no transaction has it.
    unsafe fn begin(&self, flags: c_uint) -> Result<*mut sys::MDB_txn, LmdbError> {
        let mut raw = ptr::null_mut();
        for round in 0.. {
            // SAFETY: the environment is open and this thread has no other transaction: that would hold the lock.
            let code = unsafe { sys::mdb_txn_begin(self.raw, ptr::null_mut(), flags, &mut raw) };
            match code {
                // Each time once more, but not for ever.
                // SAFETY: by the contract of this function, and the one that should have begun did not.
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
        // SAFETY: transactions borrow the environment, so that there is none; nothing uses `raw` after this.
        unsafe { sys::mdb_env_close(self.raw) };
        // The opening that fails holds the list itself, and has nothing in it yet.
        if let Some(mine) = self.identity {
            OPEN.lock().unwrap_or_else(PoisonError::into_inner).retain(|identity| *identity != mine);
        }
    }
}

/// Any 0.9 has the lock format of everything else on the host; the development branch has another.
fn check_version() -> Result<(), Error> {
    let (mut major, mut minor, mut patch): (c_int, c_int, c_int) = (0, 0, 0);
    // SAFETY: three places for numbers.
    unsafe { sys::mdb_version(&mut major, &mut minor, &mut patch) };
    if (major, minor) == (0, 9) && patch < 70 {
        return Ok(());
    }
    Err(Error::WrongLibrary { version: format!("{major}.{minor}.{patch}") })
}

/// Sees to the folder; whether the environment is new.
fn prepare(path: &Path, file: &Path, options: &EnvOptions) -> Result<bool, Error> {
    match fs::metadata(file) {
        Ok(found) => return Ok(found.len() == 0),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::io(file)(error)),
    }
    if !options.create {
        return Err(Error::Missing { path: path.to_owned() });
    }
    let folder = if options.no_subdir { path.parent() } else { Some(path) };
    if let Some(folder) = folder.filter(|folder| !folder.as_os_str().is_empty()) {
        let made = fs::DirBuilder::new().recursive(true).mode(options.dir_mask).create(folder);
        made.map_err(Error::io(folder))?;
    }
    Ok(true)
}

fn identity(file: &Path) -> Option<(u64, u64)> {
    fs::metadata(file).ok().map(|found| (found.dev(), found.ino()))
}

/// Text for C.
pub(crate) fn c_text(bytes: &[u8], call: &'static str) -> Result<CString, LmdbError> {
    CString::new(bytes).map_err(|_| LmdbError { code: rustix::io::Errno::INVAL.raw_os_error(), call })
}
