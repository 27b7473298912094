//! A loadable extension for SQLite: reads databases in vaults, as they lie there.
//!
//! ```text
//! .load ./libseawall_vfs
//! .open 'file:app.db?vfs=seawall&vault=s3://bucket/app'
//! ```
//!
//! The program's own SQLite does the work: the extension gets a table of its functions, and links none. `settings` reads
//! the parameters of a URI and the environment, `vaults` opens each vault once for all connections of the process.
//!
//! This crate is an edge: it reads the environment, the clock and files.

#![expect(clippy::disallowed_methods, reason = "this crate is an edge")]

mod settings;
mod vaults;

use std::ffi::{CString, c_char, c_int};
use std::panic::catch_unwind;
use std::sync::OnceLock;

use rusqlite::ffi::{self, sqlite3};
use seawall_view::{Api, Routines, add_functions, register};

use crate::vaults::Vaults;

/// The names of the file system: ours, and that of Litestream's extension.
const NAMES: [&str; 2] = ["seawall", "litestream"];

/// Registers the file systems and the functions. SQLite finds it by the name of the file `libseawall_vfs`.
///
/// # Safety
/// SQLite calls it, with a connection, a place for a text and its table of functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_seawallvfs_init(
    database: *mut sqlite3,
    told: *mut *mut c_char,
    routines: *const Routines,
) -> c_int {
    // SAFETY: the caller is SQLite.
    unsafe { begin(database, told, routines) }
}

/// The same, whatever the file is called.
///
/// # Safety
/// As [`sqlite3_seawallvfs_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    database: *mut sqlite3,
    told: *mut *mut c_char,
    routines: *const Routines,
) -> c_int {
    // SAFETY: the caller is SQLite.
    unsafe { begin(database, told, routines) }
}

/// What both names do. It has no name for the linker, which might find that of another extension.
///
/// # Safety
/// As [`sqlite3_seawallvfs_init`].
unsafe fn begin(database: *mut sqlite3, told: *mut *mut c_char, routines: *const Routines) -> c_int {
    let done = catch_unwind(|| {
        // SAFETY: SQLite hands over its table.
        let Some(api) = (unsafe { Api::of_program(routines) }) else {
            return Err("this SQLite is too old for the extension: it needs 3.31 or newer");
        };
        static REGISTERED: OnceLock<bool> = OnceLock::new();
        let registered =
            REGISTERED.get_or_init(|| NAMES.iter().all(|name| register(api, name, Box::new(Vaults::new())).is_ok()));
        if !registered {
            return Err("SQLite refuses to register another file system");
        }
        // SAFETY: SQLite hands over an open connection.
        if unsafe { add_functions(api, database) } != ffi::SQLITE_OK {
            return Err("another SQLite of this process has loaded the extension already, or refuses its functions");
        }
        // SAFETY: the function below is one of this kind, and lives as long as the process.
        unsafe { api.add_to_every_connection(greet) };
        Ok(())
    });
    match done {
        Ok(Ok(())) => ffi::SQLITE_OK_LOAD_PERMANENTLY,
        Ok(Err(why)) => {
            // SAFETY: SQLite gives a place for a text, and a table, of which `tell` uses what every version has.
            unsafe { tell(told, routines, why) };
            ffi::SQLITE_ERROR
        }
        Err(_) => ffi::SQLITE_ERROR,
    }
}

/// Adds the functions to a connection that is opened later.
unsafe extern "C" fn greet(database: *mut sqlite3, _: *mut *mut c_char, routines: *const Routines) -> c_int {
    let added = catch_unwind(|| {
        // SAFETY: SQLite hands over its table and an open connection.
        unsafe { Api::of_program(routines).map(|api| add_functions(api, database)) }
    });
    // A connection without them is usable all the same.
    let _added = added;
    ffi::SQLITE_OK
}

/// # Safety
/// `told` is null or a place for a text, and `routines` null or SQLite's table.
unsafe fn tell(told: *mut *mut c_char, routines: *const Routines, why: &str) {
    let Ok(text) = CString::new(why) else { return };
    if told.is_null() {
        return;
    }
    // SAFETY: as the caller says.
    unsafe { *told = Api::text(routines, &text) };
}
