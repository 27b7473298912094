//! A file that appears whole or not at all: it is made under another name, synced, and renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::file::database::sidecar;
use crate::file::error::{FileError, Result};

/// A file that is being made. Dropping it before it is finished removes it.
pub(super) struct Replacement {
    path: PathBuf,
    partial: PathBuf,
    pub(super) file: File,
    done: bool,
}

impl Replacement {
    /// Begins a file that will replace the file at `path` and take over its permissions; without such a file, only this
    /// user has access. A symbolic link is followed.
    pub(super) fn create(path: &Path) -> Result<Replacement> {
        let (path, mode) = match fs::metadata(path) {
            Ok(found) if found.is_file() => {
                (fs::canonicalize(path).map_err(FileError::io(path))?, found.permissions().mode() & 0o7777)
            }
            Ok(_) => {
                let error = io::Error::new(ErrorKind::AlreadyExists, "it is no regular file");
                return Err(FileError::io(path)(error));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => (path.to_owned(), 0o600),
            Err(error) => return Err(FileError::io(path)(error)),
        };
        let (partial, file) = create_beside(&path, mode)?;
        let made = Replacement { path, partial, file, done: false };
        // Not narrowed by the umask: the old file had these permissions.
        made.file.set_permissions(fs::Permissions::from_mode(mode)).map_err(FileError::io(&made.partial))?;
        Ok(made)
    }

    /// The temporary name.
    pub(super) fn partial(&self) -> &Path {
        &self.partial
    }

    /// Makes the file durable and gives it its final name.
    pub(super) fn finish(mut self) -> Result<()> {
        self.file.sync_all().map_err(FileError::io(&self.partial))?;
        fs::rename(&self.partial, &self.path).map_err(FileError::io(&self.path))?;
        self.done = true;
        sync_folder(&self.path)
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.done {
            // If the file can't be removed now, its name still tells what it is.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// A new file beside `path`, whose name includes the name of `path`.
fn create_beside(path: &Path, mode: u32) -> Result<(PathBuf, File)> {
    let mut attempt = 0;
    loop {
        let partial = sidecar(path, &format!(".{}-{attempt}.tmp", std::process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(&partial) {
            Ok(file) => return Ok((partial, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && attempt < 100 => attempt += 1,
            Err(error) => return Err(FileError::io(&partial)(error)),
        }
    }
}

/// A file beside `path` that has no name: the system deletes it once it is closed.
pub(super) fn nameless(path: &Path) -> Result<File> {
    let (partial, file) = create_beside(path, 0o600)?;
    fs::remove_file(&partial).map_err(FileError::io(&partial))?;
    Ok(file)
}

/// Makes the names in the folder of `path` durable.
pub(super) fn sync_folder(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(FileError::io(folder))
}

/// Refuses an output that is one of the inputs, whatever its name.
pub(super) fn check_distinct<'p>(output: &Path, inputs: impl IntoIterator<Item = &'p Path>) -> Result<()> {
    let Ok(found) = fs::metadata(output) else { return Ok(()) };
    for input in inputs {
        let is = fs::metadata(input).is_ok_and(|other| (other.dev(), other.ino()) == (found.dev(), found.ino()));
        if is {
            return Err(FileError::SameFile { path: output.to_owned() });
        }
    }
    Ok(())
}
