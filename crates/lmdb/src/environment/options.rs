//! How an environment is opened, and what must be there before.

use std::ffi::c_int;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use lmdb_sys as sys;

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

/// Any 0.9 has the lock format that other programs on the host use; the development branch has another.
pub(super) fn check_version() -> Result<(), Error> {
    let (mut major, mut minor, mut patch): (c_int, c_int, c_int) = (0, 0, 0);
    // SAFETY: three places for numbers.
    unsafe { sys::mdb_version(&mut major, &mut minor, &mut patch) };
    if (major, minor) == (0, 9) && patch < 70 {
        return Ok(());
    }
    Err(Error::WrongLibrary { version: format!("{major}.{minor}.{patch}") })
}

/// Makes the folder if it is missing; returns whether the environment is new.
pub(super) fn prepare(path: &Path, file: &Path, options: &EnvOptions) -> Result<bool, Error> {
    match fs::metadata(file) {
        // liblmdb would write a new environment into an empty file: another program may be writing a copy there.
        Ok(found) if found.len() == 0 && !options.create => return Err(Error::Missing { path: path.to_owned() }),
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
