//! A folder on a disk of this host, for the output that `pg_dump` can only write to files.
//!
//! It is in `TMPDIR`, only this user can open it, and dropping it removes it. A process locks its folder before it writes
//! anything there. So a folder that is neither locked nor empty was left by a killed process, and the next process removes it.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use seawall_vault::Environment;
use tempfile::TempDir;

use crate::Error;
use crate::preflight::space;

/// The beginning of the folders' names.
const PREFIX: &str = "seawall-dump-";

/// The flags of a folder that is opened itself, and not what a link leads to.
const NO_LINK: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW);

/// Free bytes below which a disk is full: who failed to write wanted no more than that.
const FULL: u64 = 1 << 20;

/// The folder, for as long as it is needed.
pub(crate) struct Aside {
    folder: TempDir,
    /// Closed, and with that unlocked, when the folder is gone.
    _lock: File,
}

impl Aside {
    /// Makes one, if there can be room for the rows of tables that have `tables` bytes. Blocks.
    pub(crate) fn new(environment: &Environment, tables: u64) -> Result<Self, Error> {
        let place = environment.get("TMPDIR").filter(|place| !place.is_empty());
        let place = place.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
        remove_left(&place, "backup", PREFIX, rustix::process::geteuid().as_raw());
        let free = space::free(&place);
        if let Some(cause) = free.and_then(|free| space::cannot_hold(free, tables)) {
            return Err(no_space(&place, cause));
        }
        if free.is_some_and(|free| free < tables) {
            let (place, free) = (place.display(), free.unwrap_or_default());
            tracing::warn!(%place, free, tables, "the disk may be too small for what pg_dump puts aside");
        }
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).permissions(Permissions::from_mode(0o700));
        let folder = builder.tempdir_in(&place).map_err(|error| failed(&place, &error))?;
        let lock = lock(folder.path()).map_err(|error| failed(folder.path(), &error))?;
        Ok(Self { folder, _lock: lock })
    }

    /// Where `pg_dump` makes its directory.
    pub(crate) fn dump(&self) -> PathBuf {
        self.folder.path().join("dump")
    }

    /// Why a tool failed that wrote to it: perhaps because the disk is full.
    pub(crate) fn explain(&self, error: Error) -> Error {
        match (error, space::free(self.folder.path())) {
            (Error::ToolFailed { tool, cause }, Some(free)) if free < FULL => {
                no_space(self.folder.path(), format!("{free} bytes are free, and {tool} failed: {cause}"))
            }
            (error, _) => error,
        }
    }

    /// Removes it. What can't be removed is named. Blocks.
    pub(crate) fn remove(self) {
        let path = self.folder.path().to_owned();
        if let Err(error) = self.folder.close() {
            tracing::warn!(folder = %path.display(), "remove it, for this can't: {error}");
        }
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

/// Locks a folder of ours that has nothing in it: it is in use until what this returns is closed.
pub(crate) fn lock(folder: &Path) -> io::Result<File> {
    let lock = File::open(folder)?;
    // Whoever looks whether it was left lets go of it at once: there is nothing in it.
    flock(&lock, FlockOperation::LockExclusive)?;
    Ok(lock)
}

/// Removes the folders that killed processes left in a place: those of a `user` whose names begin with `prefix`. Messages say
/// what the process was (`work`), and name each folder that can't be removed.
pub(crate) fn remove_left(place: &Path, work: &str, prefix: &str, user: u32) {
    let Ok(found) = std::fs::read_dir(place) else { return };
    for folder in found.flatten().filter(|folder| folder.file_name().to_string_lossy().starts_with(prefix)) {
        let path = folder.path();
        let ours =
            folder.metadata().is_ok_and(|facts| facts.is_dir() && facts.uid() == user && facts.mode() & 0o077 == 0);
        if !ours || !was_left(&path) {
            continue;
        }
        match std::fs::remove_dir_all(&path) {
            Ok(()) => tracing::warn!(folder = %path.display(), "removed what a killed {work} left"),
            Err(error) => tracing::warn!(folder = %path.display(), "a killed {work} left it; remove it: {error}"),
        }
    }
}

/// Whether nobody holds a folder in which something is.
fn was_left(path: &Path) -> bool {
    let Ok(flags) = i32::try_from(NO_LINK.bits()) else { return false };
    let Ok(opened) = OpenOptions::new().read(true).custom_flags(flags).open(path) else { return false };
    flock(&opened, FlockOperation::NonBlockingLockExclusive).is_ok()
        && std::fs::read_dir(path).is_ok_and(|mut found| found.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().expect("a folder");
        let environment: Environment =
            [("TMPDIR".to_owned(), place.path().display().to_string())].into_iter().collect();
        let at = |name: &str| place.path().join(name);
        for (name, mode) in [
            ("seawall-dump-left", 0o700),
            ("seawall-dump-empty", 0o700),
            ("seawall-dump-open", 0o755),
            ("other", 0o700),
        ] {
            std::fs::create_dir(at(name)).expect("made");
            std::fs::set_permissions(at(name), Permissions::from_mode(mode)).expect("set");
            if name != "seawall-dump-empty" {
                std::fs::write(at(name).join("toc.dat"), "x").expect("written");
            }
        }
        std::os::unix::fs::symlink(at("other"), at("seawall-dump-link")).expect("linked");
        let held = Aside::new(&environment, 0).expect("one that is held");
        std::fs::create_dir(held.dump()).expect("made");
        let another = Aside::new(&environment, 0).expect("another");
        assert!(held.dump().exists() && !at("seawall-dump-left").exists());
        for kept in ["seawall-dump-empty", "seawall-dump-open/toc.dat", "other/toc.dat", "seawall-dump-link"] {
            assert!(at(kept).exists(), "{kept}");
        }
        let (one, other) = (held.folder.path().to_owned(), another.folder.path().to_owned());
        assert_eq!(std::fs::metadata(&one).expect("there").mode() & 0o777, 0o700);
        held.remove();
        drop(another);
        assert!(!one.exists() && !other.exists());
    }

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
