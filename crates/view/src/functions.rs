//! Questions about a view in SQL: pragmas, and functions of the same names. Each has Litestream's name as a second one.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use rusqlite::ffi::{self, sqlite3, sqlite3_context, sqlite3_value};
use seawall_core::{Failure, Kind};

use crate::api::Api;
use crate::connection::Connection;
use crate::file;
use crate::vfs::guarded;

/// The answer to a pragma; `None` for one of SQLite's own.
pub(crate) fn answer(connection: &mut Connection, name: &str, value: Option<&str>) -> Option<Result<String, Failure>> {
    let question = name.strip_prefix("seawall_").or_else(|| name.strip_prefix("litestream_"))?;
    let answer = match (question, value) {
        ("txid", None) => Ok(connection.txid()),
        ("lag", None) => Ok(connection.lag().map_or_else(|| "-1".to_owned(), |lag| lag.to_string())),
        ("time", None) => Ok(connection.time()),
        ("time" | "set_time", Some(text)) => connection.set_time(text).map(|()| connection.time()),
        ("error", None) => {
            Ok(connection.trouble().map(|trouble| format!("{trouble} [{}]", trouble.code)).unwrap_or_default())
        }
        ("hydration_progress", None) => {
            Ok(connection.copied().map_or_else(|| "0.0".to_owned(), |(percent, _)| format!("{percent:.1}")))
        }
        ("hydration_file", None) => {
            Ok(connection.copied().map(|(_, folder)| folder.display().to_string()).unwrap_or_default())
        }
        ("write_enabled", None) => Ok("0".to_owned()),
        ("write_enabled", Some(value)) if matches!(value.to_lowercase().as_str(), "0" | "off" | "false") => {
            Ok("0".to_owned())
        }
        ("txid" | "lag" | "error" | "write_enabled", Some(_)) => Err(read_only(name)),
        _ => return None,
    };
    Some(answer)
}

fn read_only(name: &str) -> Failure {
    let cause = "it can only be asked: a view of a vault is read-only";
    Failure::new(
        Kind::Usage,
        "view.read-only",
        name,
        cause,
        "write to the database itself, and let Seawall replicate it",
    )
}

/// The functions, and how many arguments each takes.
const FUNCTIONS: [(&CStr, c_int); 9] = [
    (c"seawall_txid", 0),
    (c"seawall_lag", 0),
    (c"seawall_time", 0),
    (c"seawall_set_time", 1),
    (c"seawall_error", 0),
    (c"litestream_txid", 0),
    (c"litestream_lag", 0),
    (c"litestream_time", 0),
    (c"litestream_set_time", 1),
];

/// The functions of the SQLite that calls. A function isn't told whose it is, so it can only be of one library in a process.
static API: OnceLock<Api> = OnceLock::new();

/// Adds the functions to a connection. Answers SQLite's code.
///
/// One SQLite of a process gets them: of another, the answer is `SQLITE_MISUSE`.
///
/// # Safety
/// `database` is an open connection of the library that `api` is of.
pub unsafe fn add_functions(api: Api, database: *mut sqlite3) -> c_int {
    let known = API.get_or_init(|| api);
    if !ptr::fn_addr_eq(known.create_function, api.create_function) {
        return ffi::SQLITE_MISUSE;
    }
    for (number, (name, arguments)) in FUNCTIONS.into_iter().enumerate() {
        // A hostile schema can't call them: they are for the top level of a statement.
        let flags = ffi::SQLITE_UTF8 | ffi::SQLITE_DIRECTONLY;
        let number = ptr::without_provenance_mut::<c_void>(number);
        // SAFETY: the caller says that the connection is open. The number is never followed as a pointer.
        let code = unsafe {
            (api.create_function)(database, name.as_ptr(), arguments, flags, number, Some(call), None, None, None)
        };
        if code != ffi::SQLITE_OK {
            return code;
        }
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn call(context: *mut sqlite3_context, count: c_int, values: *mut *mut sqlite3_value) {
    guarded((), || {
        // Only `add_functions` hands this function to a library, to the one whose functions these are.
        let Some(api) = API.get() else { return };
        // SAFETY: the context is that of this call.
        let number = unsafe { (api.user_data)(context) }.addr();
        let Some((name, _)) = FUNCTIONS.get(number) else { return };
        let fail = |text: &str| {
            let text = CString::new(text.replace('\0', "")).unwrap_or_default();
            // SAFETY: SQLite copies the text of an error.
            unsafe { (api.result_error)(context, text.as_ptr(), -1) };
        };
        // SAFETY: a function is called by an open connection.
        let database = unsafe { (api.context_db_handle)(context) };
        let mut file: *mut ffi::sqlite3_file = ptr::null_mut();
        let place: *mut *mut ffi::sqlite3_file = &mut file;
        // SAFETY: for this question the argument is a place for a pointer. The connection's mutex is held.
        let code = unsafe {
            (api.file_control)(database, c"main".as_ptr(), ffi::SQLITE_FCNTL_FILE_POINTER, place.cast::<c_void>())
        };
        // SAFETY: SQLite answered with the open file of the database, and its mutex is held during the call.
        let connection = if code == ffi::SQLITE_OK { unsafe { file::connection(file) } } else { None };
        let Some(connection) = connection else {
            return fail("the main database of this connection is no view of a vault: open it with vfs=seawall");
        };
        let value = (count > 0).then(|| {
            // SAFETY: there are `count` values, and the text of one ends in a zero byte.
            unsafe {
                let text = (api.value_text)(*values);
                (!text.is_null()).then(|| CStr::from_ptr(text.cast::<c_char>()).to_string_lossy().into_owned())
            }
        });
        let value = value.map(Option::unwrap_or_default);
        let name = name.to_string_lossy();
        match answer(connection, &name, value.as_deref()) {
            Some(Ok(told)) => match told.parse::<i64>() {
                // SAFETY: the context is that of this call.
                Ok(number) if name.ends_with("_lag") => unsafe { (api.result_int64)(context, number) },
                _ => {
                    let told = CString::new(told.replace('\0', "")).unwrap_or_default();
                    // SAFETY: SQLite copies the text before it returns.
                    unsafe { (api.result_text)(context, told.as_ptr(), -1, ffi::SQLITE_TRANSIENT()) };
                }
            },
            Some(Err(failure)) => fail(&format!("{failure} [{}]", failure.code)),
            None => fail("there is no such question"),
        }
    });
}
