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
mod resident;
mod txn;

use std::ffi::{CString, c_int, c_uint};
use std::fs;
use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// Make the environment if it doesn't exist, with its folder.
    pub create: bool,
    /// Permissions of a new folder.
    pub dir_mask: u32,
    /// Permissions of new files; `None` if no setting gives them.
    pub file_mask: Option<u32>,
    /// Bytes of the map; `None` takes the size that the file records.
    pub map_size: Option<u64>,
    /// The most DBIs.
    pub max_dbs: u32,
    /// How large a full map may be made; `None` never enlarges it.
    pub largest_map: Option<u64>,
}

impl Default for EnvOptions {
    fn default() -> Self {
        Self {
            no_subdir: false,
            create: false,
            dir_mask: 0o775,
            file_mask: None,
            map_size: None,
            max_dbs: 64,
            largest_map: None,
        }
    }
}

impl EnvOptions {
    /// Permissions of the files of a new environment that an application shares.
    pub(crate) fn mode(&self) -> u32 {
        self.file_mask.unwrap_or(SHARED)
    }
}

/// Permissions of a new environment's files if no setting gives them; Lightning Stream uses the same.
const SHARED: u32 = 0o664;

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
    raw: *mut sys::MDB_env,
    path: PathBuf,
    /// Device and inode of the data file, once it is listed in [`OPEN`].
    identity: Option<(u64, u64)>,
    /// Device and inode of the lock file, taken right after the opening.
    lock_identity: Option<(u64, u64)>,
    max_dbs: u32,
    largest_map: Option<u64>,
    /// The most bytes that the data file had: liblmdb never makes it shorter.
    longest: AtomicU64,
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
        let mut env = Self::open_raw(path, options, fresh).map_err(Error::lmdb(path))?;
        env.identity = identity(&file);
        env.lock_identity = identity(&holders::lock_file(&file, options.no_subdir));
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
        // From here on, dropping the environment closes it, also after a failure.
        let (max_dbs, largest_map) = (options.max_dbs, options.largest_map);
        let env = Self {
            raw,
            path: path.to_owned(),
            identity: None,
            lock_identity: None,
            max_dbs,
            largest_map,
            longest: AtomicU64::new(0),
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

    /// Refuses a file that is shorter than it was: a read of a missing page through the map would end the process.
    fn whole(&self) -> Result<(), Error> {
        let Some(bytes) = self.bytes() else { return Ok(()) };
        let before = self.longest.fetch_max(bytes, Ordering::Relaxed);
        if bytes >= before { Ok(()) } else { Err(Error::Cut { path: self.path.clone(), bytes, before }) }
    }

    /// Bytes of the open data file.
    fn bytes(&self) -> Option<u64> {
        let mut fd = -1;
        // SAFETY: the environment exists; liblmdb only writes to the place.
        let code = unsafe { sys::mdb_env_get_fd(self.raw, &mut fd) };
        if code != sys::MDB_SUCCESS || fd < 0 {
            return None;
        }
        // SAFETY: liblmdb keeps the descriptor open for as long as the environment is.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        rustix::fs::fstat(fd).ok().and_then(|found| u64::try_from(found.st_size).ok())
    }

    /// After the file was cut: whether a whole environment was written in its place, so that it can be used again.
    pub(crate) fn accept(&self, data: &Path) -> bool {
        let _guard = self.lock();
        let Some(bytes) = self.bytes().filter(|bytes| cut::is_whole(data, *bytes)) else { return false };
        self.longest.store(bytes, Ordering::Relaxed);
        true
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
        // SAFETY: transactions borrow the environment, so that there is none; nothing uses `raw` after this.
        unsafe { sys::mdb_env_close(self.raw) };
        // An opening that fails holds the list itself, and has added nothing to it yet.
        if let Some(mine) = self.identity {
            let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(nth) = open.iter().position(|identity| *identity == mine) {
                open.swap_remove(nth);
            }
        }
    }
}

/// Any 0.9 has the lock format that other programs on the host use; the development branch has another.
fn check_version() -> Result<(), Error> {
    let (mut major, mut minor, mut patch): (c_int, c_int, c_int) = (0, 0, 0);
    // SAFETY: three places for numbers.
    unsafe { sys::mdb_version(&mut major, &mut minor, &mut patch) };
    if (major, minor) == (0, 9) && patch < 70 {
        return Ok(());
    }
    Err(Error::WrongLibrary { version: format!("{major}.{minor}.{patch}") })
}

/// Makes the folder if it is missing; returns whether the environment is new.
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

/// Device and inode of a file; `None` if the system doesn't tell.
pub(crate) fn identity(file: &Path) -> Option<(u64, u64)> {
    fs::metadata(file).ok().map(|found| (found.dev(), found.ino()))
}

/// A path as a C string.
pub(crate) fn c_text(bytes: &[u8], call: &'static str) -> Result<CString, LmdbError> {
    CString::new(bytes).map_err(|_| LmdbError { code: rustix::io::Errno::INVAL.raw_os_error(), call })
}
