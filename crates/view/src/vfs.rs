//! The file system as SQLite sees it: opens databases of vaults, and leaves everything else to SQLite's own file system.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use rusqlite::ffi::{self, sqlite3_file, sqlite3_vfs};
use seawall_core::Failure;

use crate::api::Api;
use crate::connection::Connection;
use crate::file::{self, File};

/// Longest name of a database with its parameters, in bytes.
const LONGEST_NAME: c_int = 4096;

/// Opens the databases of a file system.
pub trait Open: Send + Sync + 'static {
    /// Opens a database by the name and the parameters of its URI.
    ///
    /// # Errors
    /// When it can't be opened.
    fn open(&self, name: &str, parameter: &dyn Fn(&str) -> Option<String>) -> Result<Connection, Failure>;

    /// Notes why a database couldn't be opened: SQLite says no more than that.
    fn failed(&self, failure: &Failure);
}

/// What a registered file system works with. It lives as long as the process.
pub(crate) struct Registered {
    api: Api,
    /// SQLite's own file system.
    own: *mut sqlite3_vfs,
    opens: Box<dyn Open>,
}

/// Registers a file system under a name, for the rest of the process.
///
/// # Errors
/// SQLite's code, if it refuses.
pub fn register(api: Api, name: &str, opens: Box<dyn Open>) -> Result<(), c_int> {
    let name = CString::new(name).map_err(|_| ffi::SQLITE_MISUSE)?;
    // SAFETY: null asks for the default file system. SQLite never frees one.
    let own = unsafe { (api.vfs_find)(ptr::null()) };
    if own.is_null() {
        return Err(ffi::SQLITE_ERROR);
    }
    // SAFETY: a registered file system is valid and doesn't change.
    let own_size = unsafe { (*own).szOsFile };
    let size = c_int::try_from(size_of::<File>()).map_err(|_| ffi::SQLITE_INTERNAL)?;
    let registered = Box::new(Registered { api, own, opens });
    let vfs = Box::new(sqlite3_vfs {
        iVersion: 2,
        // Files for temporary tables are those of SQLite's own file system, in the same memory.
        szOsFile: size.max(own_size),
        mxPathname: LONGEST_NAME,
        pNext: ptr::null_mut(),
        zName: name.into_raw(),
        pAppData: Box::into_raw(registered).cast(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_path),
        xDlOpen: Some(dl_open),
        xDlError: Some(dl_error),
        xDlSym: Some(dl_sym),
        xDlClose: Some(dl_close),
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(last_error),
        xCurrentTimeInt64: Some(current_time_int64),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    });
    // SAFETY: the structure is never freed, and all of its functions live as long as the process.
    match unsafe { (api.vfs_register)(Box::into_raw(vfs), 0) } {
        ffi::SQLITE_OK => Ok(()),
        code => Err(code),
    }
}

/// Calls what may panic; a panic becomes `otherwise`, because none may reach SQLite.
pub(crate) fn guarded<T>(otherwise: T, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(otherwise)
}

/// The parts of a registered file system.
///
/// # Safety
/// `vfs` was made by [`register`].
unsafe fn registered<'a>(vfs: *mut sqlite3_vfs) -> &'a Registered {
    // SAFETY: `register` put it there, and it is never freed or changed.
    unsafe { &*(*vfs).pAppData.cast::<Registered>() }
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite hands over the file system that it was given.
    let registered = unsafe { registered(vfs) };
    if flags & ffi::SQLITE_OPEN_MAIN_DB == 0 {
        let journals = ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_SUPER_JOURNAL | ffi::SQLITE_OPEN_WAL;
        // SAFETY: SQLite's own file system has this function.
        let own = unsafe { (*registered.own).xOpen };
        return match own {
            // SAFETY: the memory of the file is large enough for it, as `register` saw to.
            Some(own) if flags & journals == 0 => unsafe { own(registered.own, name, file, flags, out_flags) },
            _ => {
                // SAFETY: SQLite calls no function of a file whose methods are null.
                unsafe { (*file).pMethods = ptr::null() };
                ffi::SQLITE_READONLY
            }
        };
    }
    // SAFETY: SQLite calls no function of a file whose methods are null.
    unsafe { (*file).pMethods = ptr::null() };
    if name.is_null() {
        return ffi::SQLITE_CANTOPEN;
    }
    guarded(ffi::SQLITE_CANTOPEN, || {
        // SAFETY: the name of a database ends in a zero byte.
        let text = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let parameter = |parameter: &str| {
            let parameter = CString::new(parameter).ok()?;
            // SAFETY: the name is the one that SQLite handed to this function, as `sqlite3_uri_parameter` asks.
            let value = unsafe { (registered.api.uri_parameter)(name, parameter.as_ptr()) };
            // SAFETY: a value ends in a zero byte, and lives as long as the name.
            (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned())
        };
        match registered.opens.open(&text, &parameter) {
            Ok(connection) => {
                // SAFETY: the memory has the size that `register` named, and is aligned for a structure of SQLite.
                unsafe { file::begin(file, connection, registered.api) };
                if !out_flags.is_null() {
                    // SAFETY: SQLite gives a valid pointer or null.
                    unsafe {
                        *out_flags = (flags & !(ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE))
                            | ffi::SQLITE_OPEN_READONLY
                    };
                }
                ffi::SQLITE_OK
            }
            Err(failure) => {
                registered.opens.failed(&failure);
                ffi::SQLITE_CANTOPEN
            }
        }
    })
}

unsafe extern "C" fn delete(_: *mut sqlite3_vfs, _: *const c_char, _: c_int) -> c_int {
    ffi::SQLITE_READONLY
}

/// There is no other file: no journal, no WAL.
unsafe extern "C" fn access(_: *mut sqlite3_vfs, _: *const c_char, _: c_int, found: *mut c_int) -> c_int {
    // SAFETY: SQLite gives a valid pointer.
    unsafe { *found = 0 };
    ffi::SQLITE_OK
}

/// The name of a database is a name, and no path.
unsafe extern "C" fn full_path(_: *mut sqlite3_vfs, name: *const c_char, room: c_int, out: *mut c_char) -> c_int {
    if name.is_null() || out.is_null() {
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: the name ends in a zero byte.
    let bytes = unsafe { CStr::from_ptr(name) }.to_bytes_with_nul();
    if usize::try_from(room).is_ok_and(|room| bytes.len() <= room) {
        // SAFETY: the memory has `room` bytes, which are enough, and isn't that of the name.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr().cast(), out, bytes.len()) };
        return ffi::SQLITE_OK;
    }
    ffi::SQLITE_CANTOPEN
}

/// Calls a function of SQLite's own file system.
macro_rules! own {
    ($vfs:expr, $function:ident, $otherwise:expr $(, $argument:expr)*) => {{
        // SAFETY: SQLite hands over the file system that it was given, and its own one is valid for as long.
        unsafe {
            let own = registered($vfs).own;
            match (*own).$function {
                Some(function) => function(own $(, $argument)*),
                None => $otherwise,
            }
        }
    }};
}

unsafe extern "C" fn dl_open(vfs: *mut sqlite3_vfs, name: *const c_char) -> *mut c_void {
    own!(vfs, xDlOpen, ptr::null_mut(), name)
}

unsafe extern "C" fn dl_error(vfs: *mut sqlite3_vfs, room: c_int, out: *mut c_char) {
    own!(vfs, xDlError, (), room, out);
}

type Symbol = Option<unsafe extern "C" fn(*mut sqlite3_vfs, *mut c_void, *const c_char)>;

unsafe extern "C" fn dl_sym(vfs: *mut sqlite3_vfs, library: *mut c_void, name: *const c_char) -> Symbol {
    own!(vfs, xDlSym, None, library, name)
}

unsafe extern "C" fn dl_close(vfs: *mut sqlite3_vfs, library: *mut c_void) {
    own!(vfs, xDlClose, (), library);
}

unsafe extern "C" fn randomness(vfs: *mut sqlite3_vfs, count: c_int, out: *mut c_char) -> c_int {
    own!(vfs, xRandomness, 0, count, out)
}

unsafe extern "C" fn sleep(vfs: *mut sqlite3_vfs, microseconds: c_int) -> c_int {
    own!(vfs, xSleep, 0, microseconds)
}

unsafe extern "C" fn current_time(vfs: *mut sqlite3_vfs, out: *mut f64) -> c_int {
    own!(vfs, xCurrentTime, ffi::SQLITE_ERROR, out)
}

unsafe extern "C" fn last_error(vfs: *mut sqlite3_vfs, room: c_int, out: *mut c_char) -> c_int {
    own!(vfs, xGetLastError, 0, room, out)
}

unsafe extern "C" fn current_time_int64(vfs: *mut sqlite3_vfs, out: *mut i64) -> c_int {
    own!(vfs, xCurrentTimeInt64, ffi::SQLITE_ERROR, out)
}
