//! SQLite's functions: of the library that is linked here, or of the program that loads an extension.
//!
//! A program hands the extension that it loads a table of its functions (`sqlite3ext.h`). The table only ever grows at its
//! end, so a place in it is part of SQLite's stable interface.

use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};
use std::ptr;

use rusqlite::ffi;

/// The oldest SQLite that has all functions that are used: 3.31, which also marks names with parameters safely.
const OLDEST: c_int = 3_031_000;

/// SQLite's table of functions, as an extension gets it.
pub type Routines = ffi::sqlite3_api_routines;

pub(crate) type Function = unsafe extern "C" fn(*mut ffi::sqlite3_context, c_int, *mut *mut ffi::sqlite3_value);
/// The entry point of an extension.
pub type Entry = unsafe extern "C" fn(*mut ffi::sqlite3, *mut *mut c_char, *const ffi::sqlite3_api_routines) -> c_int;
type Destructor = Option<unsafe extern "C" fn(*mut c_void)>;

/// The functions that are used.
#[derive(Clone, Copy)]
pub struct Api {
    pub(crate) vfs_find: unsafe extern "C" fn(*const c_char) -> *mut ffi::sqlite3_vfs,
    pub(crate) vfs_register: unsafe extern "C" fn(*mut ffi::sqlite3_vfs, c_int) -> c_int,
    pub(crate) uri_parameter: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
    pub(crate) malloc: unsafe extern "C" fn(c_int) -> *mut c_void,
    pub(crate) file_control: unsafe extern "C" fn(*mut ffi::sqlite3, *const c_char, c_int, *mut c_void) -> c_int,
    pub(crate) create_function: unsafe extern "C" fn(
        *mut ffi::sqlite3,
        *const c_char,
        c_int,
        c_int,
        *mut c_void,
        Option<Function>,
        Option<Function>,
        Option<unsafe extern "C" fn(*mut ffi::sqlite3_context)>,
        Destructor,
    ) -> c_int,
    pub(crate) user_data: unsafe extern "C" fn(*mut ffi::sqlite3_context) -> *mut c_void,
    pub(crate) context_db_handle: unsafe extern "C" fn(*mut ffi::sqlite3_context) -> *mut ffi::sqlite3,
    pub(crate) value_text: unsafe extern "C" fn(*mut ffi::sqlite3_value) -> *const c_uchar,
    pub(crate) result_text: unsafe extern "C" fn(*mut ffi::sqlite3_context, *const c_char, c_int, Destructor),
    pub(crate) result_int64: unsafe extern "C" fn(*mut ffi::sqlite3_context, i64),
    pub(crate) result_error: unsafe extern "C" fn(*mut ffi::sqlite3_context, *const c_char, c_int),
    pub(crate) auto_extension: unsafe extern "C" fn(Option<Entry>) -> c_int,
}

impl Api {
    /// The library that is linked here.
    pub fn linked() -> Self {
        Self {
            vfs_find: ffi::sqlite3_vfs_find,
            vfs_register: ffi::sqlite3_vfs_register,
            uri_parameter: ffi::sqlite3_uri_parameter,
            malloc: ffi::sqlite3_malloc,
            file_control: ffi::sqlite3_file_control,
            create_function: ffi::sqlite3_create_function_v2,
            user_data: ffi::sqlite3_user_data,
            context_db_handle: ffi::sqlite3_context_db_handle,
            value_text: ffi::sqlite3_value_text,
            result_text: ffi::sqlite3_result_text,
            result_int64: ffi::sqlite3_result_int64,
            result_error: ffi::sqlite3_result_error,
            auto_extension: ffi::sqlite3_auto_extension,
        }
    }

    /// The functions of the program that loads an extension; `None` if its SQLite is too old.
    ///
    /// # Safety
    /// `routines` is the table that SQLite handed to the entry point of the extension, or null.
    pub unsafe fn of_program(routines: *const Routines) -> Option<Self> {
        if routines.is_null() {
            return None;
        }
        let table = routines.cast::<*const c_void>();
        // SAFETY: every SQLite that loads extensions has this place of its table.
        let version: unsafe extern "C" fn() -> c_int = unsafe { at(table, 67) }?;
        // SAFETY: it takes nothing, and reads a constant.
        if unsafe { version() } < OLDEST {
            return None;
        }
        // SAFETY: the table of this version has these places, and each holds the function of the field's type.
        unsafe {
            Some(Self {
                vfs_find: at(table, 141)?,
                vfs_register: at(table, 142)?,
                uri_parameter: at(table, 189)?,
                malloc: at(table, 68)?,
                file_control: at(table, 127)?,
                create_function: at(table, 162)?,
                user_data: at(table, 101)?,
                context_db_handle: at(table, 149)?,
                value_text: at(table, 109)?,
                result_text: at(table, 85)?,
                result_int64: at(table, 83)?,
                result_error: at(table, 80)?,
                auto_extension: at(table, 192)?,
            })
        }
    }
}

impl Api {
    /// Lets every connection that is opened later begin with a function.
    ///
    /// # Safety
    /// The function is an entry point of an extension, and lives as long as the process.
    pub unsafe fn add_to_every_connection(&self, entry: Entry) {
        // SAFETY: as the caller says.
        unsafe { (self.auto_extension)(Some(entry)) };
    }

    /// A text in memory of SQLite's allocator, for the error of an entry point; null if there is none.
    ///
    /// # Safety
    /// `routines` is null, or the table that SQLite handed to the entry point.
    pub unsafe fn text(routines: *const Routines, text: &CStr) -> *mut c_char {
        if routines.is_null() {
            return ptr::null_mut();
        }
        let table = routines.cast::<*const c_void>();
        // SAFETY: every SQLite that loads extensions has this place of its table.
        let malloc: Option<unsafe extern "C" fn(c_int) -> *mut c_void> = unsafe { at(table, 68) };
        malloc.map_or(ptr::null_mut(), |malloc| copied(malloc, text))
    }
}

/// A copy of a text in memory of SQLite's allocator; null if there is none.
pub(crate) fn copied(malloc: unsafe extern "C" fn(c_int) -> *mut c_void, text: &CStr) -> *mut c_char {
    let bytes = text.to_bytes_with_nul();
    let Ok(count) = c_int::try_from(bytes.len()) else { return ptr::null_mut() };
    // SAFETY: any size may be asked for.
    let memory = unsafe { malloc(count) }.cast::<c_char>();
    if !memory.is_null() {
        // SAFETY: the memory is new, and has as many bytes.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr().cast(), memory, bytes.len()) };
    }
    memory
}

/// The function at a place of the table; `None` if the program left it out.
///
/// # Safety
/// The table has this place, and a function there is of type `F`, which is a pointer to a function.
unsafe fn at<F>(table: *const *const c_void, place: usize) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
    // SAFETY: the caller says that the table has this place.
    let function = unsafe { table.add(place).read() };
    // SAFETY: it isn't null, and the caller says that it is an `F`.
    (!function.is_null()).then(|| unsafe { std::mem::transmute_copy::<*const c_void, F>(&function) })
}
