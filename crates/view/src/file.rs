//! An open file as SQLite sees it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use rusqlite::ffi::{self, sqlite3_file, sqlite3_io_methods};
use seawall_core::{Failure, Kind};

use crate::api::{Api, copied};
use crate::connection::{Connection, Got};
use crate::functions::answer;
use crate::vfs::guarded;

/// The memory of an open file, which is SQLite's.
#[repr(C)]
pub(crate) struct File {
    /// What SQLite knows of it; comes first.
    base: sqlite3_file,
    state: *mut State,
}

struct State {
    connection: Connection,
    api: Api,
}

/// The functions of a file. The first version: no shared memory, so no WAL, and no mapped memory.
static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// Makes an open file of SQLite's memory.
///
/// # Safety
/// `file` is memory of at least the size of [`File`], aligned for it, that SQLite hands to `xOpen`.
pub(crate) unsafe fn begin(file: *mut sqlite3_file, connection: Connection, api: Api) {
    let state = Box::into_raw(Box::new(State { connection, api }));
    // SAFETY: the caller says that the memory is there.
    unsafe { file.cast::<File>().write(File { base: sqlite3_file { pMethods: &raw const METHODS }, state }) };
}

/// The connection of a file, if it is one of ours.
///
/// # Safety
/// `file` is null or an open file, and no other reference to its connection is in use: SQLite holds the mutex of the
/// database.
pub(crate) unsafe fn connection<'a>(file: *mut sqlite3_file) -> Option<&'a mut Connection> {
    // SAFETY: the caller says that it is null or open; an open file begins with its methods.
    if file.is_null() || !ptr::eq(unsafe { (*file).pMethods }, &raw const METHODS) {
        return None;
    }
    // SAFETY: only `begin` makes files with these methods.
    unsafe { state(file) }.map(|state| &mut state.connection)
}

/// # Safety
/// `file` was made by [`begin`], and no other reference to its state is in use.
unsafe fn state<'a>(file: *mut sqlite3_file) -> Option<&'a mut State> {
    // SAFETY: `begin` put a valid pointer there, or `close` null.
    unsafe { (*file.cast::<File>()).state.as_mut() }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    guarded(ffi::SQLITE_OK, || {
        let file = file.cast::<File>();
        // SAFETY: SQLite closes a file of ours once, and uses it no more.
        unsafe {
            let state = std::mem::replace(&mut (*file).state, ptr::null_mut());
            if !state.is_null() {
                drop(Box::from_raw(state));
            }
        }
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn read(file: *mut sqlite3_file, out: *mut c_void, count: c_int, offset: i64) -> c_int {
    guarded(ffi::SQLITE_IOERR_READ, || {
        // SAFETY: SQLite hands over an open file of ours, and one thread at a time uses it.
        let state = unsafe { state(file) };
        let (Some(state), Ok(count), Ok(offset)) = (state, usize::try_from(count), u64::try_from(offset)) else {
            return ffi::SQLITE_IOERR_READ;
        };
        if count == 0 {
            return ffi::SQLITE_OK;
        }
        // SAFETY: the memory has `count` bytes, which SQLite lets this function write.
        let out = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), count) };
        match state.connection.read(offset, out) {
            Ok(Got::All) => ffi::SQLITE_OK,
            Ok(Got::Less) => ffi::SQLITE_IOERR_SHORT_READ,
            Err(failure) => code_of(&failure),
        }
    })
}

/// What SQLite is told of a failed read.
fn code_of(failure: &Failure) -> c_int {
    match failure {
        // A new transaction goes on with the newest objects.
        failure if failure.code == "sqlite.point-gone" => ffi::SQLITE_BUSY,
        Failure { kind: Kind::Corrupt, .. } => ffi::SQLITE_IOERR_DATA,
        _ => ffi::SQLITE_IOERR_READ,
    }
}

unsafe extern "C" fn write(_: *mut sqlite3_file, _: *const c_void, _: c_int, _: i64) -> c_int {
    ffi::SQLITE_READONLY
}

unsafe extern "C" fn truncate(_: *mut sqlite3_file, _: i64) -> c_int {
    ffi::SQLITE_READONLY
}

unsafe extern "C" fn sync(_: *mut sqlite3_file, _: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, out: *mut i64) -> c_int {
    guarded(ffi::SQLITE_IOERR_FSTAT, || {
        // SAFETY: SQLite hands over an open file of ours, and one thread at a time uses it.
        let Some(state) = (unsafe { state(file) }) else { return ffi::SQLITE_IOERR_FSTAT };
        // SAFETY: SQLite gives a valid pointer.
        unsafe { *out = i64::try_from(state.connection.size()).unwrap_or(i64::MAX) };
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    guarded(ffi::SQLITE_IOERR_LOCK, || {
        if level > ffi::SQLITE_LOCK_SHARED {
            return ffi::SQLITE_READONLY;
        }
        // SAFETY: SQLite hands over an open file of ours, and one thread at a time uses it.
        let Some(state) = (unsafe { state(file) }) else { return ffi::SQLITE_IOERR_LOCK };
        state.connection.lock();
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    guarded(ffi::SQLITE_IOERR_UNLOCK, || {
        // SAFETY: SQLite hands over an open file of ours, and one thread at a time uses it.
        if let Some(state) = unsafe { state(file) }
            && level < ffi::SQLITE_LOCK_SHARED
        {
            state.connection.unlock();
        }
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn check_reserved_lock(_: *mut sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: SQLite gives a valid pointer.
    unsafe { *out = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_control(file: *mut sqlite3_file, operation: c_int, argument: *mut c_void) -> c_int {
    if operation != ffi::SQLITE_FCNTL_PRAGMA {
        return ffi::SQLITE_NOTFOUND;
    }
    guarded(ffi::SQLITE_ERROR, || {
        // SAFETY: SQLite hands over an open file of ours, and one thread at a time uses it.
        let Some(state) = (unsafe { state(file) }) else { return ffi::SQLITE_NOTFOUND };
        let arguments = argument.cast::<*mut c_char>();
        // SAFETY: for this operation the argument is an array: a place for the answer, the name, and the value or null.
        let (name, value) = unsafe { (text(*arguments.add(1)), text(*arguments.add(2))) };
        let Some(found) = name.and_then(|name| answer(&mut state.connection, &name.to_lowercase(), value.as_deref()))
        else {
            return ffi::SQLITE_NOTFOUND;
        };
        let (told, code) = match found {
            Ok(told) => (told, ffi::SQLITE_OK),
            Err(failure) => (format!("{failure} [{}]", failure.code), ffi::SQLITE_ERROR),
        };
        let told = CString::new(told.replace('\0', "")).unwrap_or_default();
        // SAFETY: SQLite frees the answer with its own allocator, from which it comes.
        unsafe { *arguments = copied(state.api.malloc, &told) };
        code
    })
}

/// A text of SQLite; `None` for null.
///
/// # Safety
/// The pointer is null, or leads to bytes that end in a zero byte.
unsafe fn text(pointer: *const c_char) -> Option<String> {
    // SAFETY: the caller says that it ends in a zero byte.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

unsafe extern "C" fn sector_size(_: *mut sqlite3_file) -> c_int {
    4096
}

unsafe extern "C" fn device_characteristics(_: *mut sqlite3_file) -> c_int {
    0
}
