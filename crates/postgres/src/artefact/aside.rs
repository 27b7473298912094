//! A folder on a disk of this host, for the output that `pg_dump` can only write to files.
//!
//! It is in `TMPDIR`, only this user can open it, and dropping it removes it.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use seawall_host::PrivateFolder;
use seawall_vault::Environment;

use crate::Error;
use crate::preflight::space;

/// The beginning of the folders' names.
const PREFIX: &str = "seawall-dump-";

/// Free bytes below which a disk is full: who failed to write wanted no more than that.
const FULL: u64 = 1 << 20;

/// The folder, for as long as it is needed.
pub(crate) struct Aside(PrivateFolder);

impl Aside {
    /// Makes one, if there can be room for the rows of tables that have `tables` bytes. Blocks.
    pub(crate) fn new(environment: &Environment, tables: u64) -> Result<Self, Error> {
        let place = environment.get("TMPDIR").filter(|place| !place.is_empty());
        let place = place.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
        let folder = PrivateFolder::new(&place, PREFIX, "backup", None).map_err(|error| failed(&place, &error))?;
        let free = space::free(&place);
        if let Some(cause) = free.and_then(|free| space::cannot_hold(free, tables)) {
            return Err(no_space(&place, cause));
        }
        if free.is_some_and(|free| free < tables) {
            let (place, free) = (place.display(), free.unwrap_or_default());
            tracing::warn!(%place, free, tables, "the disk may be too small for what pg_dump puts aside");
        }
        Ok(Self(folder))
    }

    /// Where `pg_dump` makes its directory.
    pub(crate) fn dump(&self) -> PathBuf {
        self.0.path().join("dump")
    }

    /// Why a tool failed that wrote to it: perhaps because the disk is full.
    pub(crate) fn explain(&self, error: Error) -> Error {
        match (error, space::free(self.0.path())) {
            (Error::ToolFailed { tool, cause }, Some(free)) if free < FULL => {
                no_space(self.0.path(), format!("{free} bytes are free, and {tool} failed: {cause}"))
            }
            (error, _) => error,
        }
    }

    /// Removes it; the log names it where that fails. Blocks.
    pub(crate) fn remove(self) {
        self.0.remove();
    }
}

/// The disk can't hold what `pg_dump` writes.
fn no_space(place: &Path, cause: String) -> Error {
    let next = "set TMPDIR to a folder on a larger disk, or take another --format: only directory needs a disk here";
    Error::Refused { code: "postgres.no-space", object: place.display().to_string(), cause, next: next.to_owned() }
}

/// A file of `pg_dump`'s that is taken, and gone when all of it is.
pub(crate) struct Taken {
    path: PathBuf,
    file: File,
}

impl Taken {
    /// Opens one. Blocks.
    pub(crate) fn open(path: PathBuf) -> Result<Self, Error> {
        let file = File::open(&path).map_err(|error| failed(&path, &error))?;
        Ok(Self { path, file })
    }

    /// Fills a buffer to its capacity; false at the end, when the file is removed. Blocks.
    pub(crate) fn fill(&mut self, buffer: &mut Vec<u8>) -> Result<bool, Error> {
        let room = (buffer.capacity() - buffer.len()) as u64;
        let read = (&mut self.file).take(room).read_to_end(buffer).map_err(|error| failed(&self.path, &error))?;
        if read as u64 == room {
            return Ok(true);
        }
        std::fs::remove_file(&self.path).map_err(|error| failed(&self.path, &error))?;
        Ok(false)
    }
}

/// All of a small file. Blocks.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|error| failed(path, &error))
}

/// The files of a folder: names and bytes. Blocks.
pub(crate) fn list(folder: &Path) -> Result<Vec<(String, u64)>, Error> {
    let wrong = |error| failed(folder, &error);
    let files = std::fs::read_dir(folder).map_err(wrong)?;
    let file = |file: io::Result<std::fs::DirEntry>| {
        let file = file?;
        Ok((file.file_name().to_string_lossy().into_owned(), file.metadata()?.len()))
    };
    files.map(file).collect::<io::Result<_>>().map_err(wrong)
}

fn failed(path: &Path, error: &io::Error) -> Error {
    if error.kind() == io::ErrorKind::StorageFull {
        return no_space(path, error.to_string());
    }
    Error::Io { path: path.display().to_string(), cause: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_can_not_hold_it_is_told_before() {
        let place = tempfile::tempdir().expect("a folder");
        let environment: Environment =
            [("TMPDIR".to_owned(), place.path().display().to_string())].into_iter().collect();
        let Err(Error::Refused { code, next, .. }) = Aside::new(&environment, u64::MAX) else {
            panic!("it is refused")
        };
        assert_eq!(code, "postgres.no-space");
        assert!(next.contains("TMPDIR"), "{next}");
        let nowhere: Environment = [("TMPDIR".to_owned(), "/nowhere".to_owned())].into_iter().collect();
        assert!(matches!(Aside::new(&nowhere, 0), Err(Error::Io { .. })));
    }
}
