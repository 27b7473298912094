//! A file that appears whole or not at all: it is made under another name, synced, and renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
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
    /// Begins a file that will replace the file at `path` and take over its owner, group and permissions; without such a
    /// file, only this user has access. A symbolic link is followed. Fails if the owner is another user and this one may
    /// not give files away: the owner would be locked out.
    pub(super) fn create(path: &Path) -> Result<Replacement> {
        let (path, old) = match fs::metadata(path) {
            Ok(found) if found.is_file() => (fs::canonicalize(path).map_err(FileError::io(path))?, Some(found)),
            Ok(_) => {
                let error = io::Error::new(ErrorKind::AlreadyExists, "it is no regular file");
                return Err(FileError::io(path)(error));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => (path.to_owned(), None),
            Err(error) => return Err(FileError::io(path)(error)),
        };
        let (partial, file) = create_beside(&path)?;
        let made = Replacement { path, partial, file, done: false };
        if let Some(old) = old {
            // A database is no program: never with the bits that set a user or a group.
            let mode = old.permissions().mode() & 0o777;
            let mode = if made.give_to_owner_of(&old)? { mode } else { mode & !0o070 };
            // Not narrowed by the umask: the old file had these permissions.
            made.file.set_permissions(fs::Permissions::from_mode(mode)).map_err(FileError::io(&made.partial))?;
        }
        Ok(made)
    }

    /// Gives the new file to the owner and the group of the old one. `false` if the group can't be taken over.
    fn give_to_owner_of(&self, old: &fs::Metadata) -> Result<bool> {
        let new = self.file.metadata().map_err(FileError::io(&self.partial))?;
        if (new.uid(), new.gid()) == (old.uid(), old.gid()) {
            return Ok(true);
        }
        match fchown(&self.file, Some(old.uid()), Some(old.gid())) {
            Ok(()) => Ok(true),
            Err(_) if new.uid() == old.uid() => Ok(false),
            Err(error) => {
                let uid = old.uid();
                let said = format!("it belongs to the user {uid}, and a new file can't be given to them ({error})");
                Err(FileError::io(&self.path)(io::Error::new(error.kind(), said)))
            }
        }
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
fn create_beside(path: &Path) -> Result<(PathBuf, File)> {
    let mut attempt = 0;
    loop {
        let partial = sidecar(path, &format!(".{}-{attempt}.tmp", std::process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&partial) {
            Ok(file) => return Ok((partial, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && attempt < 100 => attempt += 1,
            Err(error) => return Err(FileError::io(&partial)(error)),
        }
    }
}

/// A file beside `path` that has no name: the system deletes it once it is closed.
pub(super) fn nameless(path: &Path) -> Result<File> {
    let (partial, file) = create_beside(path)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_has_the_owner_and_the_permissions_of_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.db");
        let found = || {
            let found = fs::metadata(&path).unwrap();
            (found.uid(), found.gid(), found.mode() & 0o7777)
        };
        Replacement::create(&path).unwrap().finish().unwrap();
        let (uid, gid, mode) = found();
        assert_eq!(mode, 0o600);
        // Only root may give a file away.
        let (uid, gid) = if uid == 0 { (4711, 4712) } else { (uid, gid) };
        std::os::unix::fs::chown(&path, Some(uid), Some(gid)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o6666)).unwrap();
        Replacement::create(&path).unwrap().finish().unwrap();
        assert_eq!(found(), (uid, gid, 0o666));
        drop(Replacement::create(&path).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
